"""Parts of `benchmarks/calibration.py`: each file but `world` and `table` declares PARTS, functions by name.

A part takes the number of repetitions and reports rows of the table. Its figures are in docs/verdicts.md between
`<!-- calibration NAME -->` and `<!-- end of calibration -->`.
"""

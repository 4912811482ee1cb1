"""The reader: equal to an obvious one on every file, every value equal to `float`, errors with file and line."""

import gzip
import lzma
import math
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slow_svmlight import Broken, gathered, slow_read

from multileave.data import Letor, parsing, read, svmlight
from multileave.errors import DataError

pytestmark = pytest.mark.fast

GOOD = """\
# a comment
2 qid:q1 1:0.5 3:-2.25e1 # docid = 1

0 qid:q2 2:7
1.0\tqid:q1 1:1 2:2 3:3#docid = 2
+0 qid:q3
"""


places: list[Path] = []  # a fixture of a test would be shared by all examples of hypothesis


@pytest.fixture(autouse=True, scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> None:
    places.append(tmp_path_factory.mktemp("files"))


def written(text: str | bytes, name: str = "data.txt") -> Path:
    path = places[-1] / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def check_equal(data: Letor, text: str) -> None:
    """Check data against what the slow reader finds."""
    queries = gathered(slow_read(text))
    assert data.qids == tuple(queries)
    assert data.sizes.tolist() == [len(documents) for documents in queries.values()]
    documents = [document for query in queries.values() for document in query]
    assert data.labels.tolist() == [document.label for document in documents]
    rows = [[document.features.get(number, 0.0) for number in data.numbers] for document in documents]
    # compared as bits, which tell -0.0 from 0.0 as well
    assert data.features.tobytes() == np.array(rows, dtype=np.float64).reshape(data.features.shape).tobytes()


def test_a_file_is_read_as_described() -> None:
    data = read(written(GOOD))
    assert data.qids == ("q1", "q2", "q3")
    assert data.offsets.tolist() == [0, 2, 3, 4]
    assert data.labels.tolist() == [2, 1, 0, 0]
    assert data.features.tolist() == [[0.5, 0, -22.5], [1, 2, 3], [0, 7, 0], [0, 0, 0]]
    assert data.numbers == (1, 2, 3)
    assert data.grades == 3
    check_equal(data, GOOD)


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_compressed_files_and_other_line_ends_read_the_same(pack, end) -> None:  # type: ignore[no-untyped-def]
    data = read(written(pack(GOOD.replace("\n", end).encode())))
    check_equal(data, GOOD)
    assert data.features.shape == (4, 3)


def test_the_last_line_needs_no_end_and_a_byte_order_mark_is_passed_over() -> None:
    assert read(written(b"\xef\xbb\xbf1 qid:1 1:5")).features.tolist() == [[5.0]]


def test_only_chosen_features_are_kept_in_the_order_chosen() -> None:
    data = read(written(GOOD), features=[3, 1])
    assert data.numbers == (3, 1)
    assert data.features.tolist() == [[-22.5, 0.5], [3, 1], [0, 0], [0, 0]]


@pytest.mark.parametrize("chunk", [16, 37, 64])
def test_lines_across_chunks_and_longer_than_one_read_the_same(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = GOOD * 3 + "1 qid:long " + " ".join(f"{n}:{n / 7:.17g}" for n in range(1, 30)) + "\n" + GOOD
    monkeypatch.setattr(svmlight, "CHUNK", chunk)
    check_equal(read(written(text)), text)


def test_thousands_of_rows_queries_and_long_numbers_outgrow_every_buffer() -> None:
    lines = [f"1 qid:{row % 1500} {' '.join(f'{n}:{1 / (row + n):.17g}' for n in (1, 2, 5))}" for row in range(2500)]
    wide = "0 qid:wide " + " ".join(f"{n}:{1 / n:.17g}" for n in range(1, 1300))
    text = "\n".join([*lines, wide, *lines[:3]])
    data = read(written(text))
    assert data.features.shape == (2504, 1299)
    check_equal(data, text)


def test_a_feature_that_first_appears_late_is_read() -> None:
    text = "0 qid:1 1:1 2:2 3:3\n" * 1100 + "0 qid:1 1:1 4:4\n0 qid:2 2:1"
    data = read(written(text))
    assert data.features.shape == (1102, 4)
    check_equal(data, text)


# -- equal to the slow reader, whatever the text --

decimals = st.from_regex(r"[+-]?([0-9]{1,25}\.?[0-9]{0,25}|\.[0-9]{1,25})([eE][+-]?[0-9]{1,3})?", fullmatch=True)
doubles = st.floats(allow_nan=False, allow_infinity=False).map(repr)
short = st.tuples(st.integers(0, 10**7), st.integers(0, 9)).map(lambda pair: f"{pair[0] / 10 ** pair[1]:.6f}")
values = st.one_of(short, doubles, decimals)
blanks = st.sampled_from([" ", "  ", "\t", " \t "])


@st.composite
def lines(draw: st.DrawFn) -> str:
    kind = draw(st.integers(0, 9))
    comment = draw(st.sampled_from(["", "# docid = 3", "#", "#1 qid:2 3:4"]))
    if kind == 0:
        return draw(st.sampled_from(["", "  ", "\t"])) + comment
    numbers = sorted(draw(st.sets(st.integers(1, 12), max_size=6)))
    label = draw(st.sampled_from(["0", "1", "2", "2.0", "+1", "3.", "00"]))
    tokens = [label, f"qid:{draw(st.sampled_from(['1', '2', '17', 'q:a', 'é']))}"]
    tokens += [f"{number}:{draw(values)}" for number in numbers]
    return draw(blanks).join(tokens) + draw(st.sampled_from(["", " "])) + comment


@settings(deadline=None)
@given(st.lists(lines(), max_size=8), st.sampled_from(["\n", "\r\n"]))
def test_any_file_reads_as_the_slow_reader_says(rows: list[str], end: str) -> None:
    text = end.join(rows)
    check_either(text)


BROKEN_LABELS = ["x", "-1", "1.5", "300", "1e0"]
BROKEN_QUERIES = ["qid", "qid:", "qid:1", "#", "\x00"]
BROKEN_FEATURES = ["1:2", "2:1", "1:1", "0:1", "-1:1", "1:", ":1", "1:x", "1:1:1", "01:1", "1.0:1", "١:1", "1:١"]
BROKEN_VALUES = ["nan", "inf", "-inf", "1e999", "1_0", "0x1", ".", "+", "1e", "1e+", "--1", "1.2.3", "1\x00"]
HUGE = ["4294967297:1", "2147483648:1", "99999999999999999999:1"]
broken = st.sampled_from(
    BROKEN_LABELS + BROKEN_QUERIES + BROKEN_FEATURES + HUGE + [f"1:{value}" for value in BROKEN_VALUES]
)


@settings(deadline=None, max_examples=300)
@given(st.lists(st.one_of(lines(), st.lists(st.one_of(broken, values), max_size=5).map(" ".join)), max_size=5))
def test_any_text_reads_as_the_slow_reader_says_or_names_the_line(rows: list[str]) -> None:
    check_either("\n".join(rows))


@settings(deadline=None, max_examples=300)
@given(lines(), st.data())
def test_a_damaged_line_reads_as_the_slow_reader_says_or_is_named(line: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(line)))
    new = data.draw(st.sampled_from([*"0:.-e #qx", "\t", "\x00", "\n", "\r", ""]))
    check_either("0 qid:0 1:1\n" + line[:at] + new + line[at + 1 :] + "\n0 qid:9 1:1")


def check_either(text: str) -> None:
    path = written(text)
    try:
        documents = slow_read(text)
    except Broken as broken_line:
        with pytest.raises(DataError, match=rf"data\.txt', line {broken_line.args[0]}: "):
            read(path)
        return
    if not any(document.features for document in documents):
        with pytest.raises(DataError, match=r"holds no documents|has any feature"):
            read(path)
        return
    if max(max(document.features, default=0) for document in documents) > parsing.MOST_FEATURES:
        return
    check_equal(read(path), text)


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=20), st.integers(1, 20))
def test_doubles_of_any_bits_and_any_number_of_digits_equal_float(words: list[int], digits: int) -> None:
    found = [struct.unpack("<d", struct.pack("<Q", word))[0] for word in words]
    texts = [f"{value:.{digits}g}" for value in found if math.isfinite(value)]
    texts = [text for text in texts if math.isfinite(float(text))] or ["0"]
    data = read(written("".join(f"0 qid:1 1:{text}\n" for text in texts)))
    assert data.features[:, 0].tolist() == [float(text) for text in texts]


@pytest.mark.parametrize(
    "text",
    [
        *("9007199254740992", "9007199254740993", "9007199254740991e22", "9007199254740991e23"),
        *("1e22", "1e23", "1e-22", "1e-23", "123456789012345678", "1234567890123456789"),
        *("18446744073709551617", "-36893488147419103233", "0.18446744073709551617"),  # small, modulo 2^64
        *("0.1", "0.000000000000000000000000000001", "1e308", "179769313486231570e291", "5e-324"),
        *("2.4703282292062327e-324", "1e-400", "0e999999999999", "-0", "-0.0e5", "8.5e-0004", ".5", "5."),
        "0." + "0" * 400 + "1e400",
        "1" + "0" * 400 + "e-400",
    ],
)
def test_values_at_the_edges_equal_float(text: str) -> None:
    value = read(written(f"0 qid:1 1:{text}")).features[0, 0]
    assert struct.pack("<d", value) == struct.pack("<d", float(text))


# -- errors --


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("x qid:1 1:1", "the label is 'x'; expected an integer from 0 to 255"),
        ("-1 qid:1 1:1", "the label is '-1'"),
        ("1.5 qid:1 1:1", "the label is '1.5'"),
        ("nan qid:1 1:1", "the label is 'nan'"),
        ("256 qid:1 1:1", "the label is '256'"),
        ("1", "after the label is ''; expected the query, such as 'qid:10'"),
        ("1 1:0.5 2:1", "after the label is '1:0.5'"),
        ("1 qid: 1:0.5", "after the label is 'qid:'"),
        ("1 qid:1 0.5", "'0.5' is not a feature; expected number:value, such as '7:0.25'"),
        ("1 qid:1 a:0.5", "'a:0.5' is not a feature"),
        ("1 qid:1 -1:0.5", "'-1:0.5' is not a feature"),
        ("1 qid:1 0:0.5", "there is a feature number 0; features are numbered from 1"),
        ("1 qid:1 2147483648:0.5", "there is a feature number 2147483648"),
        ("1 qid:1 2:1 2:3", "feature 2 follows one that is not lower; expected increasing numbers"),
        ("1 qid:1 2:1 1:3", "feature 1 follows one that is not lower"),
        ("1 qid:1 1:abc", "feature 1 is 'abc'; expected a finite number"),
        ("1 qid:1 1:", "feature 1 is ''"),
        ("1 qid:1 1:1x 2:1", "feature 1 is '1x'"),
        ("1 qid:1 1:nan", "feature 1 is 'nan'"),
        ("1 qid:1 1:inf", "feature 1 is 'inf'"),
        ("1 qid:1 1:1e999", "feature 1 is '1e999'"),
        ("1 qid:1 1:NULL", "feature 1 is 'NULL'"),
    ],
)
def test_a_broken_line_is_named_with_what_was_expected(line: str, message: str) -> None:
    path = written(f"# first\n0 qid:0 1:1\n\n{line}\n0 qid:0 1:broken too\n", "fold.txt")
    with pytest.raises(DataError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{str(path)!r}, line 4: {message}")
    with pytest.raises(DataError, match="line 4: "):
        read(path, features=[1])


def test_a_broken_feature_is_found_among_those_not_chosen() -> None:
    with pytest.raises(DataError, match="line 2: feature 2 is 'inf'"):
        read(written("0 qid:1 1:1\n0 qid:1 1:1 2:inf"), features=[1])
    with pytest.raises(DataError, match="line 2: feature 2 is '1e999'"):
        read(written("0 qid:1 1:1\n0 qid:1 1:1 2:1e999 3:x"), features=[1])


def test_a_label_beyond_the_grades_is_named() -> None:
    path = written("0 qid:1 1:1\n3 qid:1 1:1\n")
    assert read(path, grades=4).grades == 4
    with pytest.raises(DataError, match="line 2: the label is '3'; expected an integer from 0 to 2"):
        read(path, grades=3)


def test_features_that_the_file_lacks_are_refused() -> None:
    with pytest.raises(DataError, match=r"Features 4-5, 9 are not in .*data\.txt.*highest feature number is 3"):
        read(written(GOOD), features=[1, 4, 5, 9])


@pytest.mark.parametrize("features", [[], [0], [1, 1]])
def test_feature_lists_that_make_no_sense_are_refused(features: list[int]) -> None:
    with pytest.raises(DataError, match="expected distinct feature numbers from 1"):
        read(written(GOOD), features=features)
    with pytest.raises(DataError, match="grades is 1"):
        read(written(GOOD), grades=1)


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment"])
def test_a_file_without_documents_is_refused(text: str) -> None:
    with pytest.raises(DataError, match="holds no documents"):
        read(written(text))


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"absent\.txt' cannot be read: No such file"):
        read(tmp_path / "absent.txt")
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        read(tmp_path)
    for pack in (gzip.compress, lzma.compress):
        whole = pack(GOOD.encode() * 100)
        with pytest.raises(DataError, match=r"data\.txt' cannot be read"):
            read(written(whole[: len(whole) // 2]))
        with pytest.raises(DataError, match=r"data\.txt' cannot be read"):
            read(written(whole[:30] + bytes([whole[30] ^ 255]) + whole[31:]))


def test_a_line_without_end_is_refused_before_it_fills_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(svmlight, "CHUNK", 1 << 10)
    monkeypatch.setattr(svmlight, "LONGEST_LINE", 1 << 14)
    with pytest.raises(DataError, match="line 2: the line is longer than"):
        read(written("0 qid:1 1:1\n" + " " * (1 << 16)))


def test_a_feature_number_that_no_table_holds_is_refused_unless_features_are_chosen() -> None:
    path = written("0 qid:1 1:4\n0 qid:1 1:1 2000000000:1\n")
    with pytest.raises(DataError, match="line 2: there is a feature 2000000000"):
        read(path)
    assert read(path, features=[1]).features.tolist() == [[4.0], [1.0]]


def test_the_powers_of_ten_are_exact() -> None:
    assert [int(power) for power in parsing.POWERS] == [10**exponent for exponent in range(23)]

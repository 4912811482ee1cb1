"""Integrations: rankers where search people already have them; each is a module of its own.

`retrievers` combines anything that is called with a query; `pyterrier` is for PyTerrier's pipelines. TREC
runs are read by `multileave.data.trec`, since studies are made of them.
"""

"""Integrations: where search people already work; each is a module of its own.

`retrievers` combines anything that is called with a query, `pyterrier` is for PyTerrier's pipelines, and `ubi`
reads logs of User Behavior Insights. TREC runs are read by `multileave.data.trec`, since studies are made of
them.
"""

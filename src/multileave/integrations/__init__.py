"""Integrations with search software; each is its own module.

`retrievers` combines anything that is called with a query, `pyterrier` is for PyTerrier pipelines, and `ubi` reads
logs of User Behavior Insights. `multileave.data.trec` reads TREC runs, since studies use them.
"""

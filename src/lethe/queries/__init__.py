"""Releasing answers: mechanisms, the grammar of queries, the ledger, the service, their audit."""

"""A durable, append-only record of privacy spending.

``open_ledger`` of `lethe.queries.ledger.opening` gives a `lethe.queries.ledger.contract.Ledger`.
"""

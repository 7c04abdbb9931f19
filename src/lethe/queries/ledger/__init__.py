"""A durable, append-only record of privacy spending: see `lethe.queries.ledger.ledger`."""

"""Questions over HTTP: who may ask, how often, what it costs, and an audit log of it all."""

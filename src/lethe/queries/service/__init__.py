"""Questions over HTTP: who may ask, how often, what it costs, and a trail of it all."""

"""One contract for every adapter: what a real agent loop must survive. `suite.AdapterContract` says how to join it."""

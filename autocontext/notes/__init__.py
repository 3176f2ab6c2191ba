"""Notes: what a reader of the compressed context is told about the messages that it no longer sees."""

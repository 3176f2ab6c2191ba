"""Texts: how messages are worded, which language and words they hold, what tells of a failure."""

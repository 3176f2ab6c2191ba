"""Providers' formats of messages, to and from this library's, without loss."""

"""Failures, cancellation and concurrency."""

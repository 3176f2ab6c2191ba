"""Histories made fit to send: the public place of `autocontext.formats.sendable`."""

from autocontext.formats.sendable import INTERRUPTED, sendable

__all__ = ["INTERRUPTED", "sendable"]

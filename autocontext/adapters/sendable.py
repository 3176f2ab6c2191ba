"""What strict services accept; the earlier place of `autocontext.formats.sendable`."""

from autocontext.formats.sendable import INTERRUPTED, sendable

__all__ = ["INTERRUPTED", "sendable"]

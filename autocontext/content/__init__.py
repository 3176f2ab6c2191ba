"""Large texts outside the context: stored once, read back in pages; histories pruned without a model."""

from typing import TYPE_CHECKING

from autocontext.content.file_tool import get_file_content_tool
from autocontext.content.policy import PrunePolicy
from autocontext.content.pruning import (
    Known,
    PruneReport,
    PruneResult,
    aprune_messages,
    prune_messages,
    restore_messages,
)
from autocontext.content.records import ContentHit, ContentInfo, ContentStats, Page
from autocontext.content.store import ContentStore, SqlContentStore, SqliteContentStore
from autocontext.flows.lazy import imports

if TYPE_CHECKING:
    from autocontext.content.objects import ObjectContentStore as ObjectContentStore

__all__ = [
    "ContentHit",
    "ContentInfo",
    "ContentStats",
    "ContentStore",
    "Known",
    "Page",
    "PrunePolicy",
    "PruneReport",
    "PruneResult",
    "SqlContentStore",
    "SqliteContentStore",
    "aprune_messages",
    "get_file_content_tool",
    "prune_messages",
    "restore_messages",
]

_LAZY = {"ObjectContentStore": "objects"}  # obstore is an extra: a star must not need it
__getattr__ = imports(__name__, _LAZY)


def __dir__() -> list[str]:
    """The public names, those that are imported at first use too."""
    return sorted({*globals(), *_LAZY})

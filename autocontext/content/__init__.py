"""Large texts outside the context: stored once, read back in pages; histories pruned without a model."""

from autocontext.content.file_tool import get_file_content_tool
from autocontext.content.policy import PrunePolicy
from autocontext.content.pruning import (
    PruneReport,
    PruneResult,
    aprune_messages,
    prune_messages,
    restore_messages,
)
from autocontext.content.records import ContentHit, ContentInfo, ContentStats, Page
from autocontext.content.store import ContentStore, SqlContentStore, SqliteContentStore

__all__ = [
    "ContentHit",
    "ContentInfo",
    "ContentStats",
    "ContentStore",
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

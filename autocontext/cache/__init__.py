"""A cache for the results of tools, keyed by their parameters."""

from autocontext.cache.canonical import CacheKey, canonical_key
from autocontext.cache.numerals import normalize_number
from autocontext.cache.result_cache import ResultCache
from autocontext.cache.stats import CacheStats
from autocontext.cache.values import MISS
from autocontext.errors import CacheCycle, InvalidNumber, UncacheableError

__all__ = [
    "MISS",
    "CacheCycle",
    "CacheKey",
    "CacheStats",
    "InvalidNumber",
    "ResultCache",
    "UncacheableError",
    "canonical_key",
    "normalize_number",
]

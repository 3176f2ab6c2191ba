"""Marks of a result: who knows its call or its text finds it, and few others look at it."""

from typing import Any

import pytest

from autocontext.cache import ResultCache, canonical_key
from autocontext.cache.marks import item_marks, marks_of, text_mark
from autocontext.cache.namespace import CacheEntry, completed

CALLS: list[dict[str, Any]] = [{}, {"q": "ring"}, {"page": 1, "query": "ring"}, {"filter": {"paid": True}, "n": 12}]


def entry(args: dict[str, Any], body: str) -> CacheEntry:
    return ResultCache(namespace="n")._namespace.entry(canonical_key("t", args), "value", body, completed({}))


@pytest.mark.parametrize("args", CALLS)
def test_a_result_is_found_by_its_call(args: dict[str, Any]) -> None:
    found = (marks_of(entry(args, "3")) or "").split()
    assert not {*item_marks("t", args)}.isdisjoint(found)
    assert {*item_marks("another", args)}.isdisjoint(found)


def test_a_result_is_found_by_its_longest_item_since_short_ones_are_frequent() -> None:
    found = (marks_of(entry({"page_number": 1, "query": "a ring with a ruby"}, "3")) or "").split()
    assert not {*item_marks("t", {"query": "a ring with a ruby"})}.isdisjoint(found)
    assert {*item_marks("t", {"page_number": 1})}.isdisjoint(found)


def test_marks_are_those_of_databases_that_are_there() -> None:
    items = {"x": {"a": [1, True, None, "é"]}}
    assert [*item_marks("t", items), text_mark("é")] == ["f2dd8061ad9f774b", "ebb6adaf51cc7346", "94e45bdd0ef50b08"]

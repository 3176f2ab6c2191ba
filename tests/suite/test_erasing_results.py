"""Erasing reaches every cached result of a call, whatever options it was stored by."""

import asyncio
from typing import Any

import pytest

from autocontext import Msg
from autocontext.cache import ResultCache
from autocontext.cache.marks import item_marks
from autocontext.stores.database import Statement
from autocontext.suite.erasing import Called
from autocontext.testing import tool_exchange
from tests.suite.test_erasing import KEY, SECRET, found, opened, said, where

__all__ = ["where"]


def answers(**_args):
    return {"answer": said("answer"), "_of": said("field")}


def raises(**_args):
    raise ValueError(said("error"))


OPTIONS: dict[str, tuple[dict[str, Any], Any, dict[str, Any]]] = {
    "none": ({}, answers, {}),
    "per_call": ({"_intent": said("intent")}, answers, {"per_call": "_"}),
    "another prefix": ({"x_intent": said("intent")}, answers, {"per_call": "x_"}),
    "no prefix": ({"_intent": said("intent")}, lambda **_args: 3, {"per_call": None}),
    "ignore": ({"token": "t"}, lambda **_args: [said("listed")], {"ignore": ("token",)}),
    "hashed": ({"token": said("token")}, lambda **_args: 3, {"hashed": ("token",)}),
    "quantize": ({"n": 123}, lambda **_args: 3, {"quantize": {"n": 100}}),
    "float_digits": ({"n": 0.1234567}, lambda **_args: 3, {"float_digits": 3}),
    "normalizer": ({}, lambda **_args: 3, {"normalizer": lambda params: {"words": params["q"] + "!"}}),
    "version": ({}, lambda **_args: 3, {"version": said("version")}),
    "tags": ({}, lambda **_args: 3, {"tags": [said("tag")]}),
    "cache_exceptions": ({}, raises, {"cache_exceptions": (ValueError,)}),
    "cache_none": ({}, lambda **_args: None, {"cache_none": True}),
    "large": ({}, lambda **_args: {"pages": said("page") * 3_000, "_of": 1}, {}),
    "stale": ({}, lambda **_args: {"a": said("old")}, {"ttl": 0.001, "stale_while_revalidate": 60, "early_beta": 1.0}),
}


def asked(ac, args):
    """A session that waits for the answer of a call."""
    session = ac.session("s", user_id="ann")
    told = Msg(role="user", content=said("question"))
    use = Msg.model_validate(tool_exchange("t", args, "")[0].to_dict())
    session.add([told, use])
    return session, told, use


def erased(ac, session, whole, folder):
    """Erase all that was said; where it still is."""
    assert found(ac, folder)
    if whole:
        assert ac.delete("s", user_id="ann")
    else:
        ids = [m.id for m in session.memory.get_original_memory_msgs()]
        assert ac.erase("s", ids, user_id="ann") == len(ids)
    return found(ac, folder)


@pytest.mark.sampled
@pytest.mark.parametrize("whole", [False, True], ids=["messages", "session"])
@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "encrypted"])
@pytest.mark.parametrize("option", OPTIONS)
def test_results_go_with_their_call_whatever_the_options(where, key, option, whole, tmp_path):
    args, fn, options = OPTIONS[option]
    args = {"q": said("argument"), **args}
    with opened(where, key) as ac:
        session, _, use = asked(ac, args)
        session.call_tool(fn, args, use.tool_uses[0].id, name="t", cacheable=True, **options)
        if option == "stale":
            session.call_tool(fn, args, name="t", cacheable=True, **options)
        ac.cache_of("ann").close()
        assert "autocontext_cache" in found(ac, tmp_path)
        assert erased(ac, session, whole, tmp_path) == []


def test_a_refresh_that_begins_after_the_erase_makes_no_result_again(tmp_path):
    args, fn, options = OPTIONS["stale"]
    args = {"q": said("argument"), **args}

    async def refreshed_late(cache, session):
        await asyncio.sleep(0.01)
        await cache.aget_or_compute("t", args, fn, **options)  # stale: its task begins when this one waits
        left = erased(ac, session, whole=False, folder=tmp_path)
        await cache.aclose()
        return left

    with opened(tmp_path / "a.db") as ac:
        session, _, use = asked(ac, args)
        session.call_tool(fn, args, use.tool_uses[0].id, name="t", cacheable=True, **options)
        assert asyncio.run(refreshed_late(ac.cache_of("ann"), session)) == []
        assert found(ac, tmp_path) == []


@pytest.mark.parametrize("option", ["per_call", "normalizer", "hashed"])
def test_a_result_that_was_there_before_goes_with_the_call_that_finds_it(option, tmp_path):
    args, fn, options = OPTIONS[option]
    args = {"q": said("argument"), **args}
    with opened(tmp_path / "a.db") as ac:
        ac.cache_of("ann").get_or_compute("t", args, fn, **options)
        session, _, use = asked(ac, args)
        msg = session.call_tool(None, args, use.tool_uses[0].id, name="t", cacheable=True, **options)
        assert not msg.tool_results[0].is_error
        assert erased(ac, session, whole=False, folder=tmp_path) == []


@pytest.mark.parametrize("kind", ["call_tool", "acall_tool"])
def test_what_a_tool_asks_a_cache_for_goes_with_its_call(where, kind, tmp_path):
    with opened(where) as ac:
        other = ResultCache(ac.database, namespace=("somebody", "else"))

        @ac.cache_of("ann").memoize
        def search(words):
            return len(words)

        @other.memoize(name="search")
        async def asearch(words):
            return len(words)

        def tool(q):
            other.set(f"last {q}", q)
            return search(f"words of {q}") + asyncio.run(asearch(f"words of {q}"))

        args = {"q": said("argument")}
        session, _, use = asked(ac, args)
        if kind == "call_tool":
            session.call_tool(tool, args, use.tool_uses[0].id, name="t")
        else:
            asyncio.run(session.acall_tool(tool, args, use.tool_uses[0].id, name="t"))
        assert other.stats().entries == 2
        assert erased(ac, session, whole=False, folder=tmp_path) == []
        assert other.stats().entries == 0


@pytest.mark.sampled(7)
@pytest.mark.parametrize("option", sorted(set(OPTIONS) - {"normalizer", "quantize", "stale"}))
def test_results_of_calls_beside_the_session_are_found_by_what_they_hold(option, tmp_path):
    """As in an agent's own loop."""
    args, fn, options = OPTIONS[option]
    args = {"q": said("argument"), **args}
    with opened(tmp_path / "a.db") as ac:
        try:
            result = ac.cache_of("ann").get_or_compute("t", args, fn, **options)
        except ValueError as error:
            result = f"Error: ValueError: {error}"
        session, _, use = asked(ac, args)
        session.call_tool(lambda **_args: result, args, use.tool_uses[0].id, name="t", cacheable=False)
        assert erased(ac, session, whole=False, folder=tmp_path) == []


def test_other_calls_keep_their_results(tmp_path):
    with opened(tmp_path / "a.db") as ac:
        session, _, use = asked(ac, {"q": said("argument")})
        session.call_tool(lambda x: [x], {"x": "short"}, "other", name="u", cacheable=True)
        args, call = {"q": said("argument")}, use.tool_uses[0].id
        answer = session.call_tool(lambda q: [q], args, call, name="t", cacheable=True)
        assert SECRET in answer.tool_results[0].text
        assert ac.cache_of("ann").stats().entries == 2
        ac.erase("s", [use.id, answer.id], user_id="ann")
        assert ac.cache_of("ann").stats().entries == 1


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "encrypted"])
def test_erasing_looks_only_at_results_that_may_hold_what_was_said(key, tmp_path):
    with opened(tmp_path / "a.db", key) as ac:
        cache, looked = ac.cache_of("ann"), []
        for i in range(100):
            cache.get_or_compute("look up", {"page": i}, lambda page: {"text": f"page {page} of the book", "ok": True})
        cache.set("long", [f"line {i} of a long list" for i in range(100)])
        args = {"page": 7}
        said_by = Called([Msg.model_validate(tool_exchange("look up", args, "")[0].to_dict())], {"page 8 of the book"})
        cache.discard(lambda entry: looked.append(entry.args or entry.key), marks=said_by.marks())
        assert sorted(looked) == ["long", '{"page":7}', '{"page":8}']


def test_results_of_earlier_versions_are_looked_at_one_by_one(tmp_path):
    with opened(tmp_path / "a.db") as ac:
        ac.cache_of("ann").set("k", {"text": said("answer")})
        for sql in ("UPDATE autocontext_cache SET marks = NULL", "DELETE FROM autocontext_cache_mark"):
            ac.database.write(lambda sql=sql: (yield Statement(sql)))
        session = ac.session("s", user_id="ann")
        session.add(Msg(role="user", content=said("answer")))
        assert erased(ac, session, whole=False, folder=tmp_path) == []


def test_the_marks_of_a_result_go_with_it(tmp_path):
    with opened(tmp_path / "a.db") as ac:
        cache = ac.cache_of("ann")

        def marks():
            return ac.database.read(lambda: (yield Statement("SELECT mark FROM autocontext_cache_mark")))

        cache.set("k", {"text": said("answer")})
        before = set(marks())
        cache.set("k", {"text": said("another answer")})
        assert len(before) == len(set(marks()))
        assert before != set(marks())
        cache.delete("k")
        assert marks() == []


@pytest.mark.parametrize(("stored", "asked"), [(-0.0, 0), (True, 1), (0, False), ([{"a": 1}], [{"a": 1.0}])])
def test_equal_items_have_the_same_marks(stored, asked):
    assert set(item_marks("", {"x": stored})) == set(item_marks("", {"x": asked}))


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "encrypted"])
@pytest.mark.parametrize("whole", ["clear", "namespace"])
def test_a_cleared_cache_tells_nothing_of_what_was_asked(where, key, whole, tmp_path):
    with opened(where, key) as ac:
        for user in ("ann", "bob"):
            ac.session("s", user_id=user).call_tool(lambda q: 7, {"q": said("argument")}, name="t", cacheable=True)
        cache, others = ac.cache_of("ann"), ac.cache_of("bob")
        cleared = cache.clear() if whole == "clear" else cache.invalidate(namespace=ac.namespace("ann"))
        assert (cleared, others.stats().entries) == (1, 1)
        assert ac.database.read(noted) == [("bob",)]
        others.clear()
        ac.scrub()
        assert found(ac, tmp_path) == []


def noted():
    return (yield Statement("SELECT user_id FROM autocontext_cache_call"))

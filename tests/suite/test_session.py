"""AutoContext on every database: prepare, call_tool, save, and everything that was removed read back."""

import asyncio
import re
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from enum import Enum, StrEnum
from functools import partial, wraps

import pytest
from hypothesis import given

from autocontext import AutoContext, AutoContextConfig, AutoContextError, ImageBlock, Msg, ToolResultBlock, ToolUseBlock
from autocontext.content import PrunePolicy, restore_messages
from autocontext.errors import ConfigError, InvalidMessage, SessionGone, StoreCorruptError, StoreError
from autocontext.optimizer.states import StateStore
from autocontext.sessions import restore_state_messages
from autocontext.stores.database import Statement
from autocontext.stores.sqlite_database import SqliteDatabase
from autocontext.suite import Session
from autocontext.testing import assert_valid_chat, assistant, tool_result, user
from autocontext.text.chat_rules import first_violation
from tests.conversations import histories
from tests.extras import need
from tests.stores.homes import HOMES, home

PNG = ImageBlock(source={"type": "url", "url": "https://example.org/a.png"})


def asks_in_chat(call_id):
    call = {"id": call_id, "type": "function", "function": {"name": "shop.take photo", "arguments": "{}"}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def shown_in_chat(content):
    return {"role": "tool", "tool_call_id": "functions.a:0", "content": content}


@pytest.fixture(params=HOMES)
def place(request, tmp_path):
    with home(request.param, tmp_path) as where:
        yield where


@pytest.fixture
def ac(tmp_path):
    with AutoContext.open(tmp_path / "agent.db", config=AutoContextConfig.for_window(8_000)) as opened:
        yield opened


def asks(call_id, name="read", **args):
    return Msg(role="assistant", content=[ToolUseBlock(id=call_id, name=name, input=args)])


def log_file(n, lines=400):
    return "\n".join(
        f"{n}-{i}: worker {i % 7} handled request {i * 31 % 1000} in {i * 17 % 90} ms" for i in range(lines)
    )


def output(msg):
    return msg.tool_results[0].text


def reload_tool(session: Session):
    return session.tools()[0]


def whole(tool, ref):
    """Everything behind a handle, page by page, as an agent reads it."""
    text, offset = "", 0
    while True:
        head, _, page = tool.call(ref, offset=offset).partition("\n")
        text += page
        if "continue with offset=" not in head:
            return text
        offset = int(head.split("continue with offset=")[1].rstrip("]"))


def test_a_page_that_was_pruned_is_read_again(ac) -> None:
    session = ac.session("again", user_id="ann")
    session.add([user("Look."), asks("a"), tool_result("a", log_file(1, lines=60), name="read")])

    def prepared():
        for n in range(3):
            session.add([Msg(role="assistant", content=f"part {n}"), user(f"go on {n}")])
        return session.prepare().messages

    tool = reload_tool(session)
    ref = output(next(m for m in prepared() if m.tool_results)).split('"')[1]
    page = tool.call(ref)
    assert "handled request" in page
    session.add(asks("r", "context_reload", working_context_offload_uuid=ref))
    session.add(tool_result("r", page, name="context_reload"))
    sent = prepared()
    assert not any(page in r.text for m in sent for r in m.tool_results)
    assert tool.call(ref) == page
    restored = restore_messages(sent, store=ac.content, reload=tool.call, namespace=ac.namespace("ann"))
    assert any(page == r.text for m in restored for r in m.tool_results)


# ------------------------------------------------------------------------------------------------------------ sessions
def test_a_session_is_continued_where_it_was_left(place):
    ac = AutoContext.open(place)
    first = ac.session("42", user_id="u1")
    first.add(user("hello"))
    first.add([Msg(role="assistant", content="hi"), user("go on")])
    again = ac.session("42", user_id="u1")
    assert again.memory.messages == first.memory.messages
    assert [i.session_id for i in ac.sessions.sessions("u1")] == ["42"]
    ac.close()


def test_a_session_takes_what_a_memory_takes(ac):
    session = ac.session("42")
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    session.add({"role": "user", "content": "hello"})
    session.add([{"role": "assistant", "content": None, "tool_calls": [call]}])
    answer = session.call_tool(lambda: "read", call_id="c1")
    session.add(answer)
    assert [(m.role, m.text) for m in session.memory] == [("user", "hello"), ("assistant", ""), ("tool", "")]
    with pytest.raises(InvalidMessage, match="'hello' is not a message"):
        session.add("hello")


def test_two_users_with_the_same_session_never_meet(place):
    ac = AutoContext.open(place, config=AutoContextConfig.for_window(8_000))
    ann, bob = (ac.session("s", user_id=u) for u in ("ann", "bob"))
    runs = []

    def read(path):
        runs.append(path)
        return log_file(path)

    ann.add([user("look"), asks("c1", path="a")])
    answer = ann.call_tool(read, {"path": "a"}, "c1", cacheable=True)
    ref = answer.tool_results[0].metadata["pruned"]["ref"]
    ac.memories.add("Ann likes tea", user_id="ann")
    bob.add([user("What do I like? tea?"), asks("c1", path="a")])
    assert whole(reload_tool(ann), ref) == log_file("a")
    assert "nothing is stored under" in reload_tool(bob).call(ref)
    bob.call_tool(read, {"path": "a"}, "c1", cacheable=True)
    assert runs == ["a", "a"], "a result of one user is no answer to another"
    assert not any("tea" in m.text and m.name == "memory_context" for m in bob.prepare().messages)
    assert any("Ann likes tea" in m.text for m in ann.prepare("tea").messages)
    ac.close()


def test_an_unreachable_database_is_reported():
    need("sql")
    with pytest.raises(AutoContextError, match="cannot be reached"):
        AutoContext.open("postgresql://127.0.0.1:1/nowhere")


def test_it_opens_with_a_window_and_the_name_of_a_model_as_a_memory_does(tmp_path):
    with AutoContext.open(tmp_path / "agent.db", window="8k") as ac:
        assert ac.config == AutoContextConfig.for_window(8_000)
        assert ac.session("s").memory.config.max_token == 8_000
    with pytest.raises(ConfigError, match=r"AutoContext\.open: pass window or config, not both"):
        AutoContext.open(tmp_path / "agent.db", window="8k", config=AutoContextConfig())
    with pytest.raises(ConfigError, match=r'AutoContext\.model: "" names no model'):
        AutoContext.open(tmp_path / "agent.db", model="")


def test_in_async_code():
    async def go():
        async with AutoContext.open() as ac:
            session = ac.session("s")
            await session.aadd([user("look"), asks("c1", path="a")])

            async def read(path):
                await asyncio.sleep(0)
                return log_file(path)

            answer = await session.acall_tool(read, {"path": "a"}, "c1")
            prepared = await session.aprepare()
            saved = await session.asave()
            assert await reload_tool(session).acall(
                working_context_offload_uuid=answer.tool_results[0].metadata["pruned"]["ref"]
            )
            return prepared, saved, session.memory.messages

    prepared, saved, messages = asyncio.run(go())
    assert prepared.messages == messages
    assert saved.revision == 1


# ---------------------------------------------------------------------------------------------------------- call_tool
async def find(q):
    await asyncio.sleep(0)
    return f"found {q}"


def traced(fn):
    @wraps(fn)
    def around(*args, **kwargs):
        return fn(*args, **kwargs)

    return around


class Finder:
    async def __call__(self, q):
        return await find(q)


class Promise:
    def __init__(self, q):
        self.q = q

    def __await__(self):
        return find(self.q).__await__()


ASYNCHRONOUS = {
    "function": find,
    "partial": partial(find),
    "lambda": lambda q: find(q + ""),
    "decorated": traced(find),
    "object": Finder(),
    "method": Finder().__call__,
    "partial of an object": partial(Finder()),
    "awaitable": Promise,
}


@pytest.mark.parametrize("mode", ["sync", "sync in a loop", "async"])
@pytest.mark.parametrize("cacheable", [False, True])
@pytest.mark.parametrize("kind", ASYNCHRONOUS)
def test_what_an_asynchronous_tool_returns_is_awaited(ac, kind, cacheable, mode):
    session, tool = ac.session("s"), ASYNCHRONOUS[kind]
    session.add([user("find x"), asks("c1", "find", q="x")])

    async def call():
        if mode == "async":
            return await session.acall_tool(tool, {"q": "x"}, "c1", cacheable=cacheable, name="find")
        return session.call_tool(tool, {"q": "x"}, "c1", cacheable=cacheable, name="find")

    if mode == "sync":
        answer = session.call_tool(tool, {"q": "x"}, "c1", cacheable=cacheable, name="find")
    else:
        answer = asyncio.run(call())
    assert (output(answer), answer.tool_results[0].is_error) == ("found x", False)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_what_an_asynchronous_tool_raises_is_an_error_result(ac, mode):
    async def fail():
        raise PermissionError("not yours")

    session = ac.session("s")
    call = (
        session.call_tool if mode == "sync" else lambda *args, **named: asyncio.run(session.acall_tool(*args, **named))
    )
    answer = call(traced(fail), {}, "c1", name="t")
    assert answer.tool_results[0].is_error
    assert output(answer) == "Error: PermissionError: not yours"


def test_a_large_result_is_stored_and_shown_by_its_beginning(ac):
    session = ac.session("s")
    session.add([user("look"), asks("c1", path="a")])
    answer = session.call_tool(log_file, {"n": "a"}, "c1", name="read")
    assert answer.role == "tool"
    assert session.memory.messages[-1] == answer, "what answers an open call is in the session when it returns"
    assert output(answer).startswith(log_file("a")[:500])
    assert len(output(answer)) < 1_200
    ref = answer.tool_results[0].metadata["pruned"]["ref"]
    assert f'context_reload("{ref}")' in output(answer)
    assert whole(reload_tool(session), ref) == log_file("a")
    session.add(answer)
    assert_valid_chat(session.memory.messages)


def test_ten_reads_of_one_file_are_stored_once(ac):
    session = ac.session("s")
    for i in range(10):
        session.add(asks(f"c{i}", path="a"))
        session.call_tool(log_file, {"n": "a"}, f"c{i}")
    stats = ac.content.stats(None)
    assert (stats.contents, stats.payload_bytes) == (1, len(log_file("a")))


def test_a_call_that_was_answered_is_not_run_again(ac):
    session, runs = ac.session("s"), []
    session.add([user("pay"), asks("c1", "pay")])
    first = session.call_tool(lambda: runs.append(1) or "paid", {}, "c1", name="pay")
    again = ac.session("s").call_tool(lambda: runs.append(1) or "paid", {}, "c1", name="pay")
    assert runs == [1]
    assert again == first
    session.add(asks("c1", "pay"))
    assert output(session.call_tool(lambda: "paid twice", {}, "c1", name="pay")) == "paid twice", "an id may come again"


class OtherWriter(SqliteDatabase):
    """Another process writes to the session before each of so many writes."""

    times, write_first = 0, staticmethod(lambda: None)

    def write(self, work):
        if self.times:
            self.times -= 1
            self.write_first()
        return super().write(work)


def until(it_is: Callable[[], object]) -> None:
    while not it_is():
        time.sleep(0.001)


def test_a_call_that_was_cancelled_while_its_answer_is_added_is_answered_once(tmp_path):
    database, runs = OtherWriter(tmp_path / "agent.db"), []
    ac, other = AutoContext.open(database), AutoContext.open(tmp_path / "agent.db")
    database.write_first = lambda: other.session("s").add(user("meanwhile"))

    def pay():
        runs.append(1)
        database.times = 40
        return "paid"

    async def main():
        session = ac.session("s")
        session.add([user("pay"), asks("c1", "pay")])
        call = asyncio.create_task(session.acall_tool(pay, {}, "c1"))
        await asyncio.to_thread(until, lambda: session._unstored or call.done())
        call.cancel()
        return session, await session.acall_tool(pay, {}, "c1")

    with closing(database), closing(other):
        session, answer = asyncio.run(main())
        until(lambda: not database.times)  # the thread of the first goes on
        session.add(answer)
        assert [m.tool_results[0].text for m in ac.session("s").memory.messages if m.tool_results] == ["paid"]
        assert runs == [1]


def test_a_call_that_another_process_has_answered_meanwhile_has_that_answer(ac, tmp_path):
    with AutoContext.open(tmp_path / "agent.db") as elsewhere:
        session = ac.session("s")
        session.add([user("find a flight"), asks("c1", "search")])
        other = elsewhere.session("s")
        answer = session.call_tool(lambda: other.call_tool(lambda: "BA 12", {}, "c1") and "LH 7", {}, "c1")
        assert output(answer) == "BA 12"
        session.add(answer)
        assert [output(m) for m in elsewhere.session("s").memory.messages if m.tool_results] == ["BA 12"]


def test_a_call_whose_exchange_was_removed_is_run_again(ac):
    session = ac.session("s")
    session.add([user("pay"), asks("c1", "pay")])
    session.call_tool(lambda: "paid", {}, "c1", name="pay")
    session.memory.delete_message(1)
    assert output(session.call_tool(lambda: "paid anew", {}, "c1", name="pay")) == "paid anew"


def test_an_answered_call_is_not_run_again_when_its_answer_has_left_the_view(tmp_path):
    runs = []

    def pay():
        runs.append("paid")
        return "paid"

    with AutoContext.open(tmp_path / "agent.db", window=4_000) as ac:
        session = ac.session("s")
        session.add([user("pay"), asks("c1", "pay")])
        first = session.call_tool(pay, {}, "c1")
        for i in range(80):
            session.add([user(f"question {i} " + "word " * 40), assistant("reply " * 40)])
        session.prepare()
        assert not any(m.tool_results for m in session.memory.messages)
        before = session.memory.messages
        for again in (session, ac.session("s")):
            answer = again.call_tool(pay, {}, "c1")
            assert answer == asyncio.run(again.acall_tool(pay, {}, "c1")) == first
            again.add(answer)
            assert again.memory.messages == before
        assert runs == ["paid"]
        session.add(asks("c1", "pay"))
        session.call_tool(pay, {}, "c1")
        assert runs == ["paid", "paid"], "an id may come again"
        assert len(session.memory.messages) == len(before) + 2
        assert_valid_chat(session.memory.to_openai())


def test_an_exchange_that_was_removed_can_be_added_again(ac):
    session = ac.session("s")
    session.add([user("pay"), asks("c1", "pay")])
    session.call_tool(lambda: "paid", {}, "c1", name="pay")
    exchange = session.memory.delete_message(2)
    session.add(exchange)
    assert session.memory.messages[1:] == exchange


def test_a_call_nobody_asked_for_is_only_returned(ac):
    session = ac.session("s")
    answer = session.call_tool(lambda: "ok", {}, "c9", name="ping")
    assert (output(answer), session.memory.messages) == ("ok", [])
    session.add([user("ping"), asks("c9", "ping")])
    session.add(answer)
    assert_valid_chat(session.memory.messages)


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize(
    "error",
    [
        {"isError": True, "content": [{"type": "text", "text": "rate limit exceeded"}]},
        {"is_error": True, "reason": "rate limit exceeded"},
        '{"isError": true, "content": [{"type": "text", "text": "rate limit exceeded"}]}',
        '{"isError": true, "message": "rate limit exceeded"}',
        '{"is_error": true, "content": "rate limit exceeded"}',
        "meta=None content=[TextContent(type='text', text='rate limit exceeded')] isError=True",
        ToolResultBlock(id="", name="", output="rate limit exceeded", is_error=True),
    ],
    ids=["protocol", "field", "text", "other text", "text of a field", "printed", "block"],
)
def test_an_error_that_a_cacheable_tool_returns_is_not_kept(ac, error, mode):
    results = [error, {"isError": False, "content": [{"type": "text", "text": "sunny"}]}, "never reached"]

    def weather(city):
        return results.pop(0)

    def asked():
        session = ac.session("s", user_id="ann")
        if mode == "sync":
            return session.call_tool(weather, {"city": "Rome"}, cacheable=True, version=1)
        return asyncio.run(session.acall_tool(weather, {"city": "Rome"}, cacheable=True, version=1))

    texts = [output(asked()) for _ in range(3)]
    assert "rate limit exceeded" in texts[0]
    assert "sunny" in texts[1]
    assert texts[2] == texts[1]
    assert ac.cache_of("ann").stats().entries == 1


def test_cacheable_tools_run_once_for_equal_arguments(ac):
    runs = []

    def add(a, b=1):
        runs.append((a, b))
        return {"sum": a + b}

    add.cacheable = True
    session = ac.session("s")
    texts = [output(session.call_tool(add, args, f"c{i}")) for i, args in enumerate([{"a": 1}, {"a": 1.0}, {"a": 2}])]
    assert texts == ['{"sum": 2}', '{"sum": 2}', '{"sum": 3}']
    assert [a for a, _ in runs] == [1, 2]
    assert output(ac.session("other").call_tool(add, {"a": 1}, "x")) == '{"sum": 2}'
    assert len(runs) == 2
    assert output(session.call_tool(add, {"a": 1}, "again", cacheable=False)) == '{"sum": 2}'
    assert len(runs) == 3


class Index:
    """A tool of an application; with `__call__`, and without a form that could be a key."""

    def __init__(self, name):
        self.name_of_it = name

    def search(self, q="x"):
        return f"{q} in {self.name_of_it}"

    __call__ = search


@dataclass(frozen=True)
class Table(Index):
    name_of_it: str


def search(q, index):
    return f"{q} in {index}"


def searching(index):
    def tool(q):
        return index.search(q)

    return tool


TOOLS = {
    "methods of values": (lambda name: Table(name).search, True),
    "values that are called": (Table, True),
    "partials": (lambda name: partial(search, index=name), True),
    "partials of values": (lambda name: partial(Table(name)), True),
    "around a text": (lambda name: lambda q: search(q, name), True),
    "defaults": (lambda name: lambda q, index=name: search(q, index), True),
    "methods": (lambda name: Index(name).search, False),
    "objects that are called": (Index, False),
    "around an object": (lambda name: searching(Index(name)), False),
    "in C": (lambda name: re.compile(name + "()").findall, False),
}


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("kind", TOOLS)
def test_two_tools_share_no_result(ac, kind, mode):
    make, is_kept = TOOLS[kind]
    session = ac.session("s", user_id="u1")

    def asked(name, **options):
        args = {"string": "hr code"} if kind == "in C" else {"q": "x"}
        if mode == "async":
            return output(asyncio.run(session.acall_tool(make(name), args, **options)))
        return output(session.call_tool(make(name), args, **options))

    without = [asked(name) for name in ("hr", "code", "hr", "co")]
    assert [asked(name, cacheable=True) for name in ("hr", "code", "hr", "co")] == without
    assert [asked(name, ttl=60) for name in ("hr", "code")] == without[:2]
    stats = session._cache.stats()
    assert (stats.hits, stats.uncacheable) == ((3, 0) if is_kept else (0, 6))


def test_a_tool_with_a_name_is_found_by_it_whatever_it_is(ac):
    session = ac.session("s", user_id="u1")
    texts = [output(session.call_tool(Index(i), {"q": "x"}, name="search", cacheable=True)) for i in ("hr", "code")]
    assert texts == ["x in hr"] * 2
    assert output(session.call_tool(Index("code"), {"q": "x"}, name="look_up", cacheable=True)) == "x in code"


def test_a_wrong_argument_of_a_cacheable_tool_is_an_error_result(ac):
    answer = ac.session("s").call_tool(search, {"q": "x", "y": 1}, cacheable=True)
    assert answer.tool_results[0].is_error
    assert output(answer).startswith("Error: TypeError")


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"tll": 60}, "no option 'tll'"),
        ({"ttl": 0}, "ttl"),
        ({"ttl": 0, "cacheable": False}, "ttl"),
        ({"tags": [5], "name": "send"}, "tags"),
        ({"ignore": 5}, "ignore"),
        ({"quantize": {5: 1}}, "quantize"),
        ({"quantize": {"to": 0}}, "quantize"),
        ({"normalizer": "lower"}, "normalizer"),
        ({"per_call": 5}, "per_call"),
    ],
    ids=str,
)
def test_a_wrong_option_is_raised_and_leaves_the_call_as_it_was(ac, mode, options, error):
    runs = []

    def send(to):
        runs.append(to)
        return "sent"

    def called(**options):
        if mode == "sync":
            return session.call_tool(send, {"to": "bob"}, "c1", **options)
        return asyncio.run(session.acall_tool(send, {"to": "bob"}, "c1", **options))

    session = ac.session("s", user_id="u1")
    session.add([user("Write to Bob."), asks("c1", "send", to="bob")])
    with pytest.raises((ConfigError, TypeError), match=error):
        called(**options)
    assert (runs, len(session.memory)) == ([], 2)
    assert output(called(ttl=60)) == "sent"
    assert (runs, len(session.memory)) == (["bob"], 3)


def test_options_that_can_be_read_once_count(ac):
    session = ac.session("s")
    for n in range(2):
        session.call_tool(lambda to, key: to, {"to": "bob", "key": f"secret-{n}"}, cacheable=True, name="send",
                          ignore=iter(["key"]), tags=iter(["mail"]))  # fmt: skip
    assert session._cache.stats().hits == 1
    assert session._cache.invalidate(tag="mail") == 1


@pytest.mark.parametrize("options", [{}, {"name": "get"}], ids=["unnamed", "named"])
def test_all_fields_of_a_cacheable_tool_count(ac, options):
    def get(index, _id="1"):
        return {"_index": index, "_id": _id, "found": True}

    session, all_args = ac.session("s"), [{"index": "docs"}, {"index": "docs", "_id": "2"}, {"index": "docs"}]
    without = [output(session.call_tool(get, args)) for args in all_args]
    assert [output(session.call_tool(get, args, cacheable=True, **options)) for args in all_args] == without
    assert session._cache.stats().hits == 1
    answers = [
        session.call_tool(get, {"index": "a", "_id": i}, cacheable=True, per_call="_", **options) for i in ("3", "4")
    ]
    assert [output(answer) for answer in answers] == ['{"found": true, "_id": "3"}', '{"found": true, "_id": "4"}']


@pytest.mark.parametrize(
    ("marked", "asked", "runs"),
    [(None, False, 2), (True, False, 2), (False, None, 2), (False, True, 1), (None, None, 1), (True, None, 1)],
)
def test_options_cache_nothing_that_is_not_cacheable(ac, marked, asked, runs):
    sent = []

    def send(to):
        sent.append(to)
        return len(sent)

    if marked is not None:
        send.cacheable = marked
    session = ac.session("s")
    for _ in range(2):
        session.call_tool(send, {"to": "bob"}, cacheable=asked, ttl=600)
    assert len(sent) == runs


@pytest.mark.parametrize(
    ("value", "shown"),
    [("text", "text"), (None, "null"), ({"a": [1, "ü"]}, '{"a": [1, "ü"]}'), (3, "3"), (PNG, ""), ([PNG], "")],
)
def test_results_of_any_kind_become_a_message(ac, value, shown):
    answer = ac.session("s").call_tool(lambda: value, {}, "c1", name="t")
    assert output(answer) == shown
    if value in (PNG, [PNG]):
        assert answer.tool_results[0].output == (PNG,)


def test_a_failing_tool_gives_an_error_result(ac):
    def fail():
        raise PermissionError("not yours")

    answer = ac.session("s").call_tool(fail, {}, "c1")
    assert answer.tool_results[0].is_error
    assert output(answer) == "Error: PermissionError: not yours"
    answer = ac.session("s").call_tool(lambda x: x, {"y": 1}, "c2", name="t")
    assert "unexpected keyword argument 'y'" in output(answer)


def test_when_the_content_store_fails_the_whole_result_is_kept(ac):
    session = ac.session("s")

    def broken():
        yield Statement("DROP TABLE autocontext_content")

    ac.database.write(broken)
    answer = session.call_tool(log_file, {"n": "a"}, "c1")
    assert output(answer) == log_file("a")


def test_one_call_from_many_threads_with_a_cache_runs_once(ac):
    runs, done = [], []

    def slow(n):
        runs.append(n)
        return n

    def call(i):
        done.append(output(ac.session("s").call_tool(slow, {"n": 5}, f"c{i}", cacheable=True)))

    threads = [threading.Thread(target=call, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert done == ["5"] * 8
    assert runs == [5]


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("size", ["small", "large"])
def test_a_result_that_the_log_did_not_take_is_added_when_the_call_is_repeated(tmp_path, size, mode):
    where, paid = tmp_path / "agent.db", []
    other = sqlite3.connect(where, isolation_level=None, check_same_thread=False)

    def pay(to):
        paid.append(to)
        if len(paid) == 1:
            other.execute("BEGIN IMMEDIATE")  # as a backup that begins while the tool runs
        return f"paid {to}: receipt {len(paid)}" + " and so on" * (1_000 if size == "large" else 1)

    def call(session):
        if mode == "sync":
            return session.call_tool(pay, {"to": "Bob"}, "c1")
        return asyncio.run(session.acall_tool(pay, {"to": "Bob"}, "c1"))

    with closing(other), AutoContext.open(SqliteDatabase(where, patience=0.1), window=4_000) as ac:
        session = ac.session("s")
        session.add([user("pay Bob"), asks("c1", "pay", to="Bob", why="he asked " * 3_000)])
        with pytest.raises(StoreError, match="try again"):
            call(session)
        with pytest.raises(StoreError, match="try again"):
            call(session)
        other.execute("ROLLBACK")
        session.add([user(f"and {i} " * 200) for i in range(8)])
        session.memory.compress_if_needed(force=True)  # the message with the call is shorter, and another, after it
        answer = call(session)
        assert output(answer).startswith("paid Bob: receipt 1")
        assert [r.text for m in session.memory.messages for r in m.tool_results] == [output(answer)]
        assert call(session) == call(ac.session("s")) == answer
        assert paid == ["Bob"]
        session.add([asks("c1", "pay", to="Bob")])
        assert output(call(session)).startswith("paid Bob: receipt 2"), "an id may come again"
        assert_valid_chat(session.prepare().messages)


def test_a_result_that_the_log_did_not_take_answers_no_other_call(tmp_path):
    where = tmp_path / "agent.db"
    other = sqlite3.connect(where, isolation_level=None, check_same_thread=False)
    with closing(other), AutoContext.open(SqliteDatabase(where, patience=0.1), window=4_000) as ac:
        session = ac.session("s")
        session.add([user("pay"), asks("c1", "pay")])
        with pytest.raises(StoreError):
            session.call_tool(lambda: other.execute("BEGIN IMMEDIATE") and "paid", {}, "c1", name="pay")
        other.execute("ROLLBACK")
        session.add([tool_result("c1", "cancelled", name="pay"), user("again"), asks("c1", "pay")])
        assert output(session.call_tool(lambda: "paid anew", {}, "c1", name="pay")) == "paid anew"


def test_a_tool_of_a_session_that_was_deleted_does_not_run(ac):
    session, runs = ac.session("s"), []
    session.add([user("pay"), asks("c1", "pay")])
    ac.delete("s")
    with pytest.raises(SessionGone):
        session.call_tool(lambda: runs.append(1) or "paid", {}, "c1", name="pay")
    assert runs == []


# ------------------------------------------------------------------------------------------------------------ prepare
def long_session(ac, rounds=12):
    session = ac.session("long", user_id="u1")
    session.add([Msg(role="system", content="You are careful."), user("Find the slow worker.")])
    for i in range(rounds):
        session.add(asks(f"c{i}", path=f"/logs/{i}.txt"))
        session.call_tool(log_file, {"n": i}, f"c{i}", name="read")
        session.add([Msg(role="assistant", content=f"Worker {i} is fine."), user(f"Look at log {i + 1}.")])
    return session


def test_a_prepared_context_fits_and_is_valid_and_the_memory_is_as_it_was(ac):
    session = long_session(ac)
    before = session.memory.messages
    prepared = session.prepare()
    assert prepared.report.fits
    assert prepared.report.tokens == session.memory.count(prepared.messages) <= 8_000
    assert prepared.report.violation == ""
    assert_valid_chat(prepared.messages)
    assert not prepared.report.compression
    assert session.memory.messages == before


def test_two_preparations_with_nothing_new_are_the_same(ac):
    session = long_session(ac)
    ac.memories.add("The user runs seven workers", user_id="u1")
    first, second = session.prepare(), session.prepare()
    assert [m.model_dump_json() for m in first.messages if m.name != "memory_context"] == [
        m.model_dump_json() for m in second.messages if m.name != "memory_context"
    ]
    assert [m.text for m in first.messages] == [m.text for m in second.messages]


def test_memories_are_put_into_the_outgoing_context_only(ac):
    session = long_session(ac, 2)
    ac.memories.add("The slow worker was number 5 last time", user_id="u1")
    prepared = session.prepare("slow worker")
    assert sum("number 5 last time" in m.text for m in prepared.messages) == 1
    assert not any("number 5 last time" in m.text for m in session.memory.get_original_memory_msgs())
    assert prepared.report.injection.selected


def test_what_the_agent_remembers_names_its_conversation(ac):
    session = ac.session("where", user_id="ann")
    [add] = [tool for tool in session.tools() if tool.name == "memory_add"]
    add.call(content="The user likes tea")
    assert [m.source for m in ac.memories.all(user_id="ann")] == ["where"]
    [add] = [tool for tool in ac.memory_tools("bob") if tool.name == "memory_add"]
    add.call(content="The user likes tea")
    assert [m.source for m in ac.memories.all(user_id="bob")] == [None]


class Mixed(str, Enum):  # noqa: UP042 (what users have from before StrEnum)
    ANN = "ann"


class Strict(StrEnum):
    ANN = "ann"


class Worded(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "another"


@pytest.mark.parametrize("ann", [Mixed.ANN, Strict.ANN, Worded("ann")], ids=["enum", "str enum", "own class"])
def test_an_id_is_its_text_whatever_kind_of_text_it_is(place, ann):
    def read(**arguments):
        nonlocal runs
        runs += 1
        return log_file(1)

    runs = 0
    with AutoContext.open(place, config=AutoContextConfig.for_window(8_000)) as opened:
        for who in (ann, "ann"):
            session = opened.session(who, user_id=who)
            session.add([user("Look."), asks(f"c-{type(who).__name__}", path="a")])
            session.call_tool(read, {"path": "a"}, f"c-{type(who).__name__}", cacheable=True)
            session.save()
            opened.memories.add(f"The user likes tea, says {type(who).__name__}", user_id=who)
        assert runs == 1
        assert session.state().messages == session.memory.messages
        assert len(session.memory) == 6
        for who in (ann, "ann"):
            assert len(opened.memories.all(user_id=who)) == len(opened.memories.search("tea", user_id=who)) == 2
            assert opened.namespace(who) == "user:ann"
            assert [info.session_id for info in opened.sessions.sessions(who)] == ["ann"]
        assert opened.delete(ann, user_id=ann)
        assert not len(opened.session("ann", user_id="ann").memory)


@pytest.mark.parametrize("limit", [2_500, 2_000, 1_200])
def test_the_tightening_order_is_fixed_and_stops_when_it_fits(ac, limit):
    session = long_session(ac)
    for i in range(40):
        ac.memories.add(f"Worker {i} was slow on day {i} for reason number {i * 7}", user_id="u1")
    prepared = session.prepare("slow worker", max_tokens=limit)
    order = ["prune harder", "prune harder", "inject less", "inject less", "compress"]
    assert list(prepared.report.tightened) == order[: len(prepared.report.tightened)]
    assert prepared.report.tightened
    assert prepared.report.fits
    assert_valid_chat(prepared.messages)


@given(histories(max_moves=6))
def test_what_is_prepared_of_any_conversation_is_taken_by_a_strict_service(history):
    with AutoContext.open(config=AutoContextConfig.for_window(8_000)) as opened:
        opened.memories.add("The user likes tea", user_id="ann")
        session = opened.session("any", user_id="ann")
        session.memory.add(history)
        prepared = session.prepare()
        assert first_violation(prepared.messages) is None
        assert prepared.report.tokens == session.memory.count(prepared.messages)
        assert bool(prepared.report.violation) == bool(first_violation(session.memory.messages))
        assert_valid_chat(prepared.to_openai())
        prepared.to_anthropic()
        prepared.to_responses()


@pytest.mark.parametrize(
    "said",
    [
        [{"role": "user", "content": "hi", "db_id": 7}],
        [{"role": "assistant", "content": "How can I help?"}, {"role": "user", "content": "Cancel A-7714."}],
        [*(call := [{"role": "user", "content": "Look."}, asks_in_chat("functions.a:0")]), shown_in_chat(None)],
        [*call, shown_in_chat([{"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}])],
        [*call, shown_in_chat(""), {"role": "user", "content": " "}],
    ],
)
def test_what_is_prepared_is_written_as_a_memory_writes_it(ac, said):
    session = ac.session("written")
    session.add(said)
    prepared = session.prepare()
    assert prepared.to_openai() == session.memory.to_openai()
    assert prepared.to_responses() == session.memory.to_responses()
    assert prepared.to_anthropic() == session.memory.to_anthropic()
    assert_valid_chat(prepared.to_openai())


def test_what_the_user_says_while_tools_run_stands_behind_their_results(ac):
    ac.memories.add("The user likes tea", user_id="ann")
    session = ac.session("hurried", user_id="ann")
    both = Msg(role="assistant", content=[ToolUseBlock(id=i, name="make", input={}) for i in ("c1", "c2")])
    session.add([user("Build it"), both, tool_result("c1", "built"), user("And hurry"), tool_result("c2", "tested")])
    before = session.memory.messages
    sent = session.prepare().messages
    assert [m.text for m in sent if m.role == "user" and m.name != "memory_context"] == ["Build it", "And hurry"]
    assert [r.text for m in sent[3:5] for r in m.tool_results] == ["built", "tested"]
    assert session.memory.messages == before


def test_what_cannot_fit_is_said(ac):
    session = ac.session("s")
    session.add([Msg(role="system", content="rule " * 3_000), user("hi")])
    prepared = session.prepare(max_tokens=500)
    assert not prepared.report.fits
    assert prepared.report.tokens > 500
    assert [m.text for m in prepared.messages] == ["rule " * 3_000, "hi"]


def test_pruning_can_be_set(tmp_path):
    with AutoContext.open(tmp_path / "a.db", prune=PrunePolicy()) as ac:
        session = ac.session("s")
        for i in range(8):
            session.add([user(f"round {i}"), asks(f"c{i}", path="x")])
            session.add(
                Msg(
                    role="tool",
                    content=[{"type": "tool_result", "id": f"c{i}", "name": "read", "output": log_file(i, 40)}],
                )
            )
            session.add(Msg(role="assistant", content="done"))
        prepared = session.prepare()
        assert prepared.report.pruning.old_tool >= 6
        refs = [
            b.metadata["pruned"]["ref"] for m in prepared.messages for b in m.tool_results if "pruned" in b.metadata
        ]
        assert len(refs) >= 6
        assert [whole(reload_tool(session), ref) for ref in refs] == [log_file(i, 40) for i in range(len(refs))]


# --------------------------------------------------------------------------------------------------------------- save
def test_a_save_stores_an_optimised_state_and_the_log_keeps_all(place):
    ac = AutoContext.open(place, config=AutoContextConfig.for_window(8_000))
    session = long_session(ac)
    first = session.save()
    assert first.optimized
    assert first.revision == 1
    assert first.optimization.retrievable == 1.0
    assert first.optimization.broken_pairs == 0
    assert first.optimization.bytes_after < first.optimization.bytes_before
    session.add(user("One more thing."))
    second = session.save()
    state = ac.session("long", user_id="u1").state()
    assert second.revision == 2
    assert state.messages[-1].text == "One more thing."
    assert state.user_input == "One more thing."
    saved = StateStore(ac.database).load(session.memory.session)
    assert saved.metadata["original_length"] == 51
    assert saved.metadata["optimized_length"] == len(state.messages) < 51
    assert saved.metadata["compression_ratio"] == 51 / len(state.messages)
    assert session.state(1) != state
    assert len(session.memory.get_original_memory_msgs()) == 51
    ac.close()


def test_saving_again_with_nothing_new_changes_nothing(ac):
    session = long_session(ac)
    session.save()
    before = session.state()
    assert session.save().revision == 2
    assert session.state() == before


def test_two_processes_that_save_both_get_through(ac):
    one, other = long_session(ac), ac.session("long", user_id="u1")
    assert [s.save().revision for s in (one, other, one)] == [1, 2, 3]


def test_a_damaged_state_is_named_and_the_one_before_can_be_loaded(ac):
    session = long_session(ac, 2)
    session.save()
    good = session.state()
    session.add(user("more"))
    session.save()

    def damage():
        yield Statement("UPDATE autocontext_states SET body = :body WHERE revision = 2", {"body": b"x"})

    ac.database.write(damage)
    with pytest.raises(StoreCorruptError, match=r"session 'long', revision 2 is damaged .* load revision 1"):
        session.state()
    assert session.state(1) == good
    assert session.save().revision == 3
    assert session.state().messages[-1].text == "more"


def test_a_first_state_that_is_damaged_is_saved_again(ac):
    session = long_session(ac, 2)
    session.save()
    good = session.state()

    def damage():
        yield Statement("UPDATE autocontext_states SET body = :body", {"body": b"x"})

    ac.database.write(damage)
    with pytest.raises(StoreCorruptError, match=r"revision 1 is damaged .*; there is none before it; save again$"):
        session.state()
    assert session.save().revision == 2
    assert session.state() == good


@pytest.mark.parametrize("how", ["erase", "delete"])
def test_a_state_whose_contents_another_session_has_erased_is_built_again(ac, how):
    session = ac.session("long", user_id="u1")
    for i in range(15):
        session.add([user(f"question {i}"), Msg(role="assistant", content=f"answer {i}")])
    session.save()
    told = session.memory.messages[2]
    fork = ac.session(ac.sessions.fork(session.memory.session, new_id="fork").session_id, user_id="u1")
    fork.save()

    def restored():
        return restore_state_messages(fork.state().messages, store=ac.content, namespace=ac.namespace("u1"))

    assert restored() == fork.memory.get_original_memory_msgs()
    if how == "erase":
        ac.erase("long", [told.id], user_id="u1")
    else:
        for info in ac.content.find("messages", namespace=ac.namespace("u1")):
            ac.content.delete(info.ref, namespace=ac.namespace("u1"))
    with pytest.raises(StoreCorruptError, match="is not in this store"):
        restored()
    for turn in range(12):
        assert fork.save().revision == 2 + turn
        assert restored() == fork.memory.get_original_memory_msgs()
        fork.add(user(f"more {turn}"))
    assert told in fork.memory.get_original_memory_msgs()


# ------------------------------------------------------------------------------------------------- all of it together
@pytest.mark.slow
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_an_agent_runs_through_everything_is_restarted_and_every_removed_byte_is_reloadable(place, mode):
    """40 steps of a scripted agent in a small window; a new AutoContext takes over in the middle."""
    files: dict[str, str] = {}

    def read(path):
        return files.setdefault(path, log_file(path, 300))

    def drive(value):
        return asyncio.run(value) if mode == "async" else value

    def opened():
        ac = AutoContext.open(place, config=AutoContextConfig.for_window(8_000))
        return ac, ac.session("agent", user_id="u1")

    ac, session = opened()
    ac.memories.add("The user calls worker 3 the lazy one", user_id="u1")
    session.add([Msg(role="system", content="You are careful."), user("Which worker is slow?")])
    refs: dict[str, str] = {}
    for step in range(40):
        if step == 20 and place != ":memory:":
            ac.close()
            ac, session = opened()
        prepared = drive(session.aprepare() if mode == "async" else session.prepare())
        assert prepared.report.fits
        assert_valid_chat(prepared.messages)
        path = f"/logs/{step % 25}.txt"
        session.add(asks(f"c{step}", path=path))
        call = session.acall_tool if mode == "async" else session.call_tool
        answer = drive(call(read, {"path": path}, f"c{step}", cacheable=True))
        refs[path] = answer.tool_results[0].metadata["pruned"]["ref"]
        if step % 10 == 9:
            session.add([Msg(role="assistant", content=f"Nothing in {path}."), user("Go on.")])
            assert drive(session.asave() if mode == "async" else session.save()).optimization.retrievable == 1.0
    originals = session.memory.get_original_memory_msgs()
    assert len(originals) == 2 + 40 * 2 + 4 * 2
    tool = reload_tool(session)
    assert {path: whole(tool, ref) for path, ref in refs.items()} == files
    covered = {m.id for m in session.memory.messages}
    for msg in session.memory.messages:
        if msg.origin is not None:
            covered.update(m.id for m in session.memory.reload(msg.origin.uuid))
    assert {m.id for m in originals} <= covered
    ac.close()


@pytest.mark.parametrize("wrong", [-5, "2000", 2.5, None, True])
def test_memory_tokens_that_are_no_whole_number_are_refused_at_once(wrong) -> None:
    with pytest.raises(ConfigError, match="memory_tokens must be a whole number"):
        AutoContext.open(":memory:", memory_tokens=wrong)


@pytest.mark.parametrize("wrong", [{"keep_last": 3}, {}, 5, True, "turns"])
def test_a_policy_that_is_none_is_refused_at_once_by_its_name(wrong, tmp_path) -> None:
    with pytest.raises(ConfigError, match=r"AutoContext\.prune: .* is not a PrunePolicy"):
        AutoContext.open(tmp_path / "agent.db", prune=wrong)
    assert list(tmp_path.iterdir()) == []

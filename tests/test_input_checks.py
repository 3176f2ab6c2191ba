"""Wrong ids, times and depths in every part: the library's own error, which names the field, and no raw one.

A new part, or a new call that takes an id or a time, gets its line in the tables.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from tests.extras import need

need("crypto", "cloud")

from autocontext import AutoContextConfig, AutoContextMemory, ContextOffloadTool, Msg, ToolResultBlock, ToolUseBlock
from autocontext.cache import ResultCache, canonical_key
from autocontext.content import ContentStore, SqliteContentStore
from autocontext.content.objects import ObjectContentStore
from autocontext.errors import AutoContextError, ConfigError, InvalidMessage
from autocontext.history.entries import Added, dump_entry
from autocontext.memories import MemoryStore
from autocontext.optimizer.states import StateStore
from autocontext.sessions import SessionState
from autocontext.stores import EncryptedSessionStore, InMemorySessionStore, SessionKey, import_agentscope_java
from autocontext.stores.database_sessions import DatabaseSessionStore
from autocontext.stores.opening import open_database
from autocontext.suite import AutoContext
from autocontext.testing import tool_exchange
from tests.stores.homes import home

HOMES = ("memory", "postgresql")
ENTRY = Added(message=Msg(role="user", content="hello"))


class Parts(NamedTuple):
    """Everything that takes ids and times, on one database."""

    sessions: DatabaseSessionStore
    encrypted: EncryptedSessionStore
    listed: InMemorySessionStore
    content: ContentStore
    objects: ObjectContentStore
    cache: ResultCache
    memories: MemoryStore
    states: StateStore
    context: AutoContext


@pytest.fixture(scope="module", params=HOMES)
def parts(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("checks")
    with home(request.param, folder) as where:
        database = open_database(where)
        sessions = DatabaseSessionStore(database)
        yield Parts(
            sessions,
            EncryptedSessionStore(sessions, bytes(32)),
            InMemorySessionStore(),
            SqliteContentStore(database),
            ObjectContentStore(folder),
            ResultCache(database, namespace="checks"),
            MemoryStore(database),
            StateStore(database),
            AutoContext(database),
        )
        database.close()


class Case(NamedTuple):
    """A call with one argument that is wrong; the error begins with the field's name or holds it."""

    field: str
    call: Callable[[Parts, Any], Any]
    keeps: bool = False
    """It is free text here: NUL and surrogates are taken, and found again."""
    past: bool = False
    """A time that is over counts too."""


def session_calls(store: str) -> list[Case]:
    def case(call: Callable[[Any, SessionKey], Any]) -> list[Case]:
        return [
            Case("user_id", lambda p, v: call(getattr(p, store), SessionKey(v, "s"))),
            Case("session_id", lambda p, v: call(getattr(p, store), SessionKey("u", v))),
        ]

    return [
        *case(lambda s, key: s.append(key, [ENTRY], after=0)),
        *case(lambda s, key: s.read(key)),
        *case(lambda s, key: s.delete(key)),
        *case(lambda s, key: s.expire(key, 5)),
        *case(lambda s, key: s.revisions(key)),
        *case(lambda s, key: s.fork(key)),
        *case(lambda s, key: s.erase(key, ["m1"])),
        *case(lambda s, key: s.import_jsonl(key, [dump_entry(ENTRY)])),
        *case(lambda s, key: s.search("hello", user_id=key[0], session_id=key[1])),
        *case(lambda s, key: AutoContextMemory(store=s, user_id=key[0], session_id=key[1])),
        Case("user_id", lambda p, v: getattr(p, store).sessions(v)),
    ]


IDS: dict[str, list[Case]] = {
    **{store: session_calls(store) for store in ("sessions", "encrypted", "listed")},
    **{
        store: [
            Case("namespace", lambda p, v, s=store: getattr(p, s).put("text", namespace=v), keeps=True),
            Case("key", lambda p, v, s=store: getattr(p, s).put("text", key=v), keeps=True),
            Case("name", lambda p, v, s=store: getattr(p, s).put("text", name=v), keeps=True),
            Case("path", lambda p, v, s=store: getattr(p, s).put("text", path=v), keeps=True),
            Case("type", lambda p, v, s=store: getattr(p, s).put("text", type=v), keeps=True),
            Case("summary", lambda p, v, s=store: getattr(p, s).put("text", summary=v), keeps=True),
            Case("ref_or_key", lambda p, v, s=store: getattr(p, s).read(v), keeps=True),
            Case("namespace", lambda p, v, s=store: getattr(p, s).read("c_1", namespace=v), keeps=True),
            Case("ref_or_key", lambda p, v, s=store: getattr(p, s).info(v), keeps=True),
            Case("ref_or_key", lambda p, v, s=store: getattr(p, s).read_bytes(v), keeps=True),
            Case("ref_or_key", lambda p, v, s=store: getattr(p, s).delete(v), keeps=True),
            Case("name", lambda p, v, s=store: getattr(p, s).find(v), keeps=True),
            Case("ref", lambda p, v, s=store: getattr(p, s).search("text", v), keeps=True),
            Case("namespace", lambda p, v, s=store: getattr(p, s).keys(namespace=v), keeps=True),
            Case("namespace", lambda p, v, s=store: getattr(p, s).stats(v), keeps=True),
            Case("namespace", lambda p, v, s=store: getattr(p, s).clear(v), keeps=True),
        ]
        for store in ("content", "objects")
    },
    "memory": [
        Case("uuid", lambda p, v: AutoContextMemory().reload(v), keeps=True),
        Case("uuid", lambda p, v: AutoContextMemory().offload(v, [Msg(role="user", content="x")]), keeps=True),
        Case("uuid", lambda p, v: AutoContextMemory().undo(v), keeps=True),
        Case("uuid", lambda p, v: AutoContextMemory().clear_offload(v), keeps=True),
        Case("numbers", lambda p, v: AutoContextMemory().numbered(v), keeps=True),
        Case("session_id", lambda p, v: AutoContextMemory().save_to(p.listed, v)),
        Case("session_id", lambda p, v: AutoContextMemory().load_from(p.listed, v)),
    ],
    "cache": [
        Case("namespace", lambda p, v: ResultCache(p.context.database, namespace=v), keeps=True),
        Case("namespace", lambda p, v: ResultCache(p.context.database, namespace=("a", v)), keeps=True),
        Case("key", lambda p, v: p.cache.get(v), keeps=True),
        Case("key", lambda p, v: p.cache.set(v, 1), keeps=True),
        Case("tag", lambda p, v: p.cache.set("k", 1, tags=[v]), keeps=True),
        Case("key", lambda p, v: p.cache.delete(v), keeps=True),
        Case("tag", lambda p, v: p.cache.invalidate(tag=v), keeps=True),
        Case("task", lambda p, v: p.cache.invalidate(task=v), keeps=True),
        Case("prefix", lambda p, v: p.cache.invalidate(prefix=v), keeps=True),
        Case("task", lambda p, v: p.cache.get_or_compute(v, {}, int), keeps=True),
        Case("params", lambda p, v: p.cache.get_or_compute("t", {v: 1}, lambda **_: 1), keeps=True),
    ],
    "memories": [
        Case("user_id", lambda p, v: p.memories.add("text", user_id=v)),
        Case("category", lambda p, v: p.memories.add("text", user_id="u", category=v)),
        Case("source", lambda p, v: p.memories.add("text", user_id="u", source=v)),
        Case("user_id", lambda p, v: p.memories.get("fact_1", user_id=v)),
        Case("memory_id", lambda p, v: p.memories.get(v, user_id="u")),
        Case("memory_id", lambda p, v: p.memories.update(v, user_id="u", importance=6)),
        Case("memory_id", lambda p, v: p.memories.delete(v, user_id="u")),
        Case(
            "archived", lambda p, v: p.memories.update(p.memories.add("old", user_id="u").id, user_id="u", archived=v)
        ),
        Case("user_id", lambda p, v: p.memories.clear(user_id=v)),
        Case("user_id", lambda p, v: p.memories.search("text", user_id=v)),
        Case("user_id", lambda p, v: p.memories.all(user_id=v)),
        Case("user_id", lambda p, v: p.memories.stats(user_id=v)),
        Case("user_id", lambda p, v: p.memories.document(user_id=v)),
        Case("user_id", lambda p, v: p.memories.export_json(user_id=v)),
        Case("user_id", lambda p, v: p.memories.import_json({"version": "1.0", "facts": []}, user_id=v)),
    ],
    "states": [
        Case("user_id", lambda p, v: p.states.save(SessionState("s", v), metadata={}, expected=0)),
        Case("session_id", lambda p, v: p.states.save(SessionState(v), metadata={}, expected=0)),
        Case("user_id", lambda p, v: p.states.load(SessionKey(v, "s"))),
        Case("session_id", lambda p, v: p.states.load(SessionKey("u", v))),
        Case("session_id", lambda p, v: p.states.revisions(SessionKey("u", v))),
    ],
    "suite": [
        Case("user_id", lambda p, v: p.context.session("s", user_id=v)),
        Case("session_id", lambda p, v: p.context.session(v)),
        Case("user_id", lambda p, v: p.context.cache_of(v).stats(), keeps=True),
        Case("user_id", lambda p, v: p.context.namespace(v), keeps=True),
        Case("user_id", lambda p, v: AutoContextMemory(user_id=v)),
        Case("session_id", lambda p, v: AutoContextMemory(store=p.listed, session_id=v)),
    ],
}
NO_TEXTS = {"number": 42, "bytes": b"ann", "list": ["a"]}
UNSTORABLE = {"NUL": "a\0b", "surrogate": "a\ud800b"}


def told(case: Case, parts: Parts, value: Any) -> str:
    """The message of the library's error; "" when the call goes through."""
    try:
        case.call(parts, value)
    except AutoContextError as e:
        return str(e)
    return ""


@pytest.mark.parametrize("part", IDS)
@pytest.mark.parametrize("kind", NO_TEXTS)
def test_row_26_an_id_that_is_no_text_is_refused_by_name(parts, part, kind):
    for i, case in enumerate(IDS[part]):
        if kind == "list" and part == "cache" and case.field in ("namespace", "params"):
            continue  # a cache's namespace is a sequence of texts, and a dict takes no such key
        message = told(case, parts, NO_TEXTS[kind])
        assert case.field in message, f"{part}[{i}] {case.field}: {message!r}"


@pytest.mark.parametrize("part", IDS)
@pytest.mark.parametrize("kind", UNSTORABLE)
def test_row_26_a_text_that_databases_do_not_take_is_refused_by_name_or_kept(parts, part, kind):
    for i, case in enumerate(IDS[part]):
        message = told(case, parts, UNSTORABLE[kind])
        assert message == "" if case.keeps else case.field in message, f"{part}[{i}] {case.field}: {message!r}"


NEEDED: dict[str, Callable[[ContentStore], Any]] = {
    "namespace must be a text (got None)": lambda s: s.put("text", namespace=None),  # type: ignore[arg-type]
    "namespace must be a text (got 5)": lambda s: s.keys(namespace=5),  # type: ignore[arg-type]
    "ref_or_key must be a text (got None)": lambda s: s.read(None),  # type: ignore[arg-type]
    "offset must be a whole number (got 'a')": lambda s: s.read("c_1", "a"),  # type: ignore[arg-type]
    "offset must be a whole number (got None)": lambda s: s.read("c_1", None),  # type: ignore[arg-type]
    "limit must be a whole number, or None for all (got 2.5)": lambda s: s.read("c_1", 0, 2.5),  # type: ignore[arg-type]
    "query must be a text (got None)": lambda s: s.search(None),  # type: ignore[arg-type]
    "name must be a text (got None)": lambda s: s.find(None),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("message", NEEDED)
def test_what_a_content_store_needs_is_refused_by_name(parts, message):
    for store in (parts.content, parts.objects):
        with pytest.raises(ConfigError) as caught:
            NEEDED[message](store)
        assert str(caught.value).startswith(message)


@pytest.mark.parametrize("query", [5, ["tea"], b"tea"])
@pytest.mark.parametrize("user_id", ["", "ann"])
def test_a_query_that_is_no_text_is_refused_by_name(parts, query, user_id):
    session = parts.context.session(user_id=user_id)
    session.add(Msg(role="user", content="hello"))
    with pytest.raises(ConfigError, match="query must be a text"):
        session.prepare(query)


@pytest.mark.parametrize("part", [5, None, [{"name": "search"}]])
def test_an_overhead_that_is_neither_text_nor_schema_is_refused_and_changes_nothing(part):
    memory = AutoContextMemory()
    memory.set_overhead("You are helpful.", {"name": "search", "input_schema": {}})
    before = memory.token_count
    with pytest.raises(ConfigError, match=r"write set_overhead\(system, \*schemas\)"):
        memory.set_overhead("You are helpful.", part)
    assert memory.token_count == before


@pytest.mark.parametrize("ids", ["m1", 42, None, [42], [None]])
def test_row_26_ids_that_are_no_list_of_ids_are_refused(parts, ids):
    for store in (parts.sessions, parts.encrypted, parts.listed):
        with pytest.raises(InvalidMessage, match="ids must be a list"):
            store.erase(SessionKey("u", "s"), ids)
    if ids is not None:
        with pytest.raises(InvalidMessage, match="ids must be a list"):
            parts.context.erase("s", ids)


TIMES: dict[str, list[Case]] = {
    "sessions": [
        Case("ttl", lambda p, v: DatabaseSessionStore(p.context.database, ttl=v)),
        Case("ttl", lambda p, v: p.sessions.expire(SessionKey("u", "s"), v), past=True),
        Case("ttl", lambda p, v: p.encrypted.expire(SessionKey("u", "s"), v), past=True),
        Case("ttl", lambda p, v: InMemorySessionStore(ttl=v)),
        Case("ttl", lambda p, v: p.listed.expire(SessionKey("u", "s"), v), past=True),
    ],
    "content": [
        Case("ttl", lambda p, v: p.content.put("text", ttl=v)),
        Case("ttl", lambda p, v: p.content.put("text", key="k", ttl=v)),
        Case("ttl", lambda p, v: p.objects.put("text", ttl=v)),
    ],
    "cache": [
        Case("default_ttl", lambda p, v: ResultCache(p.context.database, namespace="n", default_ttl=v)),
        Case("lease_seconds", lambda p, v: ResultCache(p.context.database, namespace="n", lease_seconds=v)),
        Case("ttl", lambda p, v: p.cache.set("k", 1, ttl=v)),
        Case("ttl", lambda p, v: p.cache.get_or_compute("t", {}, int, ttl=v)),
        Case("ttl", lambda p, v: p.cache.memoize("t", ttl=v)),
        Case("exception_ttl", lambda p, v: p.cache.get_or_compute("t", {}, int, exception_ttl=v)),
        Case("stale_while_revalidate", lambda p, v: p.cache.get_or_compute("t", {}, int, stale_while_revalidate=v)),
    ],
    "memories": [
        Case("ttl", lambda p, v: p.memories.add("text", user_id="u", ttl=v)),
        Case("ttl", lambda p, v: p.memories.update(p.memories.add("old", user_id="u").id, user_id="u", ttl=v)),
    ],
}
NO_TIMES = {"negative": -5, "zero": 0, "true": True, "nan": math.nan, "text": "60", "list": [5], "-inf": -math.inf}


@pytest.mark.parametrize("part", TIMES)
@pytest.mark.parametrize("kind", NO_TIMES)
def test_row_26_a_time_that_is_none_is_refused_by_name(parts, part, kind):
    for i, case in enumerate(TIMES[part]):
        message = told(case, parts, NO_TIMES[kind])
        if case.past and kind in ("negative", "zero"):
            assert message == ""  # it is over
            continue
        assert case.field in message, f"{part}[{i}]: {message!r}"


@pytest.mark.parametrize("part", TIMES)
def test_row_26_a_time_without_end_is_for_ever_or_refused_and_a_very_long_one_is_taken(parts, part):
    for i, case in enumerate(TIMES[part]):
        message = told(case, parts, math.inf)
        assert message == "" if part == "cache" else case.field in message, f"{part}[{i}]: {message!r}"
        assert told(case, parts, 1e300) == "", f"{part}[{i}]"


DEEP = 100_000
NESTED = "[" * DEEP + "]" * DEEP


def deep(levels: int = DEEP) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


class DeepCase(NamedTuple):
    """A call with something nested `DEEP` levels deep; `field` "" is a call that takes it as a text."""

    name: str
    field: str
    call: Callable[[Parts, Any], Any]


def written(folder: Any, text: str) -> str:
    path = folder / "deep.json"
    path.write_text(text, encoding="utf-8")
    return str(path)


DEPTHS = [
    DeepCase("tool use", "input", lambda p, _: ToolUseBlock(id="1", name="f", input={"a": deep()})),
    DeepCase("metadata", "metadata", lambda p, _: Msg(role="user", content="x", metadata={"a": deep()})),
    DeepCase("message", "Msg", lambda p, _: Msg(role="user", content=deep())),
    DeepCase("message of JSON", "Msg", lambda p, _: Msg.model_validate({"role": "user", "content": [deep()]})),
    DeepCase("tool result", "output", lambda p, _: ToolResultBlock(id="1", name="f", output=deep())),
    DeepCase("overhead", "set_overhead", lambda p, _: AutoContextMemory().set_overhead({"a": deep()})),
    DeepCase("overhead, less deep", "set_overhead", lambda p, _: AutoContextMemory().set_overhead({"a": deep(200)})),
    DeepCase("overhead, no JSON", "set_overhead", lambda p, _: AutoContextMemory().set_overhead({"a": object()})),
    DeepCase("state", "", lambda p, _: AutoContextMemory().load_state_dict({"version": deep()})),
    DeepCase("state's messages", "", lambda p, _: AutoContextMemory().load_state_dict(
        {**AutoContextMemory().state_dict(), "original_memory_storage": deep()})),
    DeepCase("session state", "", lambda p, _: SessionState.from_json(NESTED)),
    DeepCase("session state's context", "memory_context", lambda p, _: SessionState("s", memory_context=[deep()])),
    DeepCase("saved state", "metadata", lambda p, _: p.states.save(
        SessionState("s"), metadata={"a": deep()}, expected=0)),
    DeepCase("import", "line:1", lambda p, _: p.sessions.import_jsonl(SessionKey("u", "deep"), [NESTED])),
    DeepCase("memory's context", "context", lambda p, _: p.memories.add("x", user_id="u", context=deep())),
    DeepCase("memory's metadata", "metadata", lambda p, _: p.memories.add("x", user_id="u", metadata={"a": deep()})),
    DeepCase("memory.json", "deep.json", lambda p, f: p.memories.import_json(written(f, NESTED), user_id="u")),
    DeepCase("cached result", "nested", lambda p, _: p.cache.set("k", deep())),
    DeepCase("cache parameter", "a", lambda p, _: canonical_key("t", {"a": deep()})),
    DeepCase("cache version", "version", lambda p, _: canonical_key("t", {}, version=deep())),
    DeepCase("cache file", "deep.json", lambda p, f: p.cache.import_json(written(f, NESTED))),
    DeepCase("Java session", "", lambda p, f: import_agentscope_java(written(f, NESTED))),
    DeepCase("configuration", "", lambda p, _: AutoContextConfig(msg_threshold=deep())),
]  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("parts", ["memory"], indirect=True, scope="module")
@pytest.mark.parametrize("case", DEPTHS, ids=lambda case: case.name)
def test_row_26_what_is_nested_too_deep_is_refused_by_name(parts, case, tmp_path):
    with pytest.raises(AutoContextError) as error:
        case.call(parts, tmp_path)
    assert case.field in str(error.value)
    assert len(str(error.value)) < 1_000


@pytest.mark.sampled
@pytest.mark.parametrize("text", [NESTED, '{"a":' * DEEP + "1" + "}" * DEEP, "Error: " + NESTED])
def test_row_26_a_text_that_is_deep_json_costs_no_turn(text):
    memory = AutoContextMemory(AutoContextConfig(msg_threshold=6, last_keep=2, max_token=4_000))
    for i in range(4):
        memory.add_message(Msg(role="user", content=f"question {i}"))
        call, result = tool_exchange("fetch", {"url": f"https://example.org/{i}"}, text)
        memory.add_messages([call, result, Msg(role="assistant", content=f"answer {i}")])
        memory.get_messages()
    assert memory.get_compression_events()


@pytest.mark.slow
def test_row_26_a_reload_tool_that_is_asked_for_something_deep_answers():
    answer = ContextOffloadTool(AutoContextMemory())(working_context_offload_uuid=deep())
    assert answer.startswith("Error: nothing is stored under")


@pytest.mark.slow
@pytest.mark.parametrize("parts", ["memory"], indirect=True, scope="module")
def test_a_tool_that_returns_something_deep_is_answered_and_no_error(parts):
    session = parts.context.session(user_id="deep")
    for options in ({}, {"cacheable": True}):
        [block] = session.call_tool(deep, {}, "call", **options).tool_results
        assert (block.is_error, block.text[:3]) == (False, "[[[")

"""MemoryInjector: outgoing requests only, flagged, in a place that keeps prompt caches, refreshed as asked."""

import asyncio

import pytest

from autocontext import AutoContextMemory
from autocontext.errors import ConfigError, InvalidMemory, InvalidMessage, StoreError
from autocontext.memories import (
    InjectionReport,
    InjectionSettings,
    MemoryInjector,
    MemoryStore,
    SelectedFact,
    TfidfRanker,
    is_injected,
    without_injected,
)
from autocontext.memories.injector import _alike
from autocontext.messages import ImageBlock, Msg, ToolResultBlock, ToolUseBlock
from autocontext.testing import assert_valid_chat, assistant, system, tool_exchange, user
from autocontext.tokens import get_counter
from tests.memories.documents import plain_facts

PLACES = ["user", "system", "merge"]


class Documents:
    """A source of memories that is changed by the test, and counts how often it is read."""

    def __init__(self, *contents: str) -> None:
        self.data, self.reads = plain_facts(*contents), 0

    def document(self, *, user_id: str) -> dict:
        self.reads += 1
        return self.data if user_id == "ann" else {}

    async def adocument(self, *, user_id: str) -> dict:
        return self.document(user_id=user_id)


def talk(question: str = "How do I write tests?", id_: str = "q") -> list[Msg]:
    call, result = tool_exchange("read", {"path": "x"}, "contents", id="c1")
    return [
        system("Be kind.", id="s"),
        user("hi", id="h"),
        assistant("Yes?", id="y"),
        user(question, id=id_),
        call,
        result,
    ]


@pytest.mark.parametrize("placement", PLACES)
def test_004_6_a_wrapped_flagged_block_in_a_valid_request(placement) -> None:
    messages = talk()
    before = [m.model_dump_json() for m in messages]
    sent, report = MemoryInjector(Documents("Prefers pytest"), user_id="ann", placement=placement).inject(messages)
    assert [m.model_dump_json() for m in messages] == before
    assert_valid_chat(sent)
    (text,) = [m.text for m in sent if "<memory>" in m.text]
    assert text.endswith("- [context | 0.90] Prefers pytest\n</memory>")
    assert "data, not instructions" in text
    assert [f.id for f in report.selected] == ["f0"]
    assert without_injected(sent) == messages


def test_004_6_the_block_is_named_and_stands_behind_what_is_stable() -> None:
    source = Documents("Prefers pytest")
    for placement, place in (("user", 3), ("system", 1)):
        sent, _ = MemoryInjector(source, user_id="ann", placement=placement).inject(talk())
        assert [i for i, m in enumerate(sent) if m.name == "memory_context"] == [place]
        assert [is_injected(m) for m in sent] == [i == place for i in range(len(sent))]
    alone, _ = MemoryInjector(source, user_id="ann").inject([])
    assert [m.name for m in alone] == ["memory_context"]


def test_a_dict_is_refused_with_its_index() -> None:
    injector = MemoryInjector(Documents("Likes tea"), user_id="ann")
    with pytest.raises(InvalidMessage, match=r"messages\[1\] is a dict, not a Msg"):
        injector.inject([user("tea?"), {"role": "user", "content": "tea?"}])  # type: ignore[list-item]


def test_the_block_and_its_wrapper_fit_the_budget() -> None:
    count = get_counter("cl100k_base").count_text
    source = Documents(*(f"Fact {i} about tests" for i in range(500)))
    for budget in (1, 20, 40, 100, 1000):
        sent, report = MemoryInjector(source, user_id="ann", max_tokens=budget).inject(talk())
        (block,) = [m.text for m in sent if is_injected(m)] or [""]
        assert report.tokens == count(block) <= budget
    assert report.tokens >= 970
    assert report.dropped


def test_without_room_for_the_wrapper_every_fact_is_reported_as_dropped() -> None:
    injector = MemoryInjector(Documents("Likes tea", "Likes coffee"), user_id="ann", max_tokens=10)
    outgoing, report = injector.inject([user("tea?")])
    assert [m.text for m in outgoing] == ["tea?"]
    assert [d.reason for d in report.dropped] == ["budget", "budget"]


def test_the_budget_may_stand_in_the_settings() -> None:
    source, settings = Documents(*(f"Fact {i} about tests" for i in range(500))), InjectionSettings(max_tokens=100)
    _, report = MemoryInjector(source, user_id="ann", settings=settings).inject(talk())
    assert report.tokens <= report.max_tokens == 100
    _, report = MemoryInjector(source, user_id="ann", settings=settings, max_tokens=200).inject(talk())
    assert 100 < report.tokens <= report.max_tokens == 200


@pytest.mark.sampled(7)
@pytest.mark.parametrize("ending", ["", ".", ")))", "\n", "  ", "word", "。", "<"])
@pytest.mark.parametrize("placement", PLACES)
def test_row_35_the_block_is_counted_as_it_is_sent(placement, ending) -> None:
    count = get_counter("cl100k_base").count_text
    source = Documents(*(f"Fact {i} about tests" for i in range(60)))
    messages = [Msg(role="system", content=f"Be brief{ending}"), user("Which tests?")]
    for budget in (60, 61, 62, 63, 64, 65, 200):
        sent, report = MemoryInjector(source, user_id="ann", placement=placement, max_tokens=budget).inject(messages)
        before, after = (sum(count(m.text) for m in some) for some in (messages, sent))
        assert after - before == report.tokens <= report.max_tokens == budget
        assert report.selected


def test_nothing_known_adds_nothing() -> None:
    messages = talk()
    sent, report = MemoryInjector(Documents("x"), user_id="bob").inject(messages)
    assert sent == messages
    assert (report.tokens, report.selected) == (0, ())


def test_injecting_again_replaces_the_block() -> None:
    for placement in PLACES:
        injector = MemoryInjector(Documents("Prefers pytest"), user_id="ann", placement=placement)
        once, _ = injector.inject(talk())
        twice, _ = injector.inject(once)
        assert [m.text for m in twice] == [m.text for m in once]


def test_merging_keeps_what_the_system_message_holds() -> None:
    image = ImageBlock(source={"type": "url", "url": "http://x/y.png"})
    messages = [Msg(role="system", content=[image], metadata={"k": 1}), user("hi")]
    injector = MemoryInjector(Documents("Prefers pytest"), user_id="ann", placement="merge")
    sent, _ = injector.inject(messages)
    assert sent[0].content[0] == image
    assert without_injected(sent) == messages
    no_system, _ = injector.inject([user("hi")])
    assert [m.role for m in no_system] == ["system", "user"]


def test_every_turn_keeps_the_block_within_a_turn_and_every_call_does_not() -> None:
    for refresh, texts in (("every_turn", 1), ("every_call", 2)):
        source = Documents("Prefers pytest", "Runs tests")
        injector = MemoryInjector(source, user_id="ann", refresh=refresh)
        first, report = injector.inject(talk())
        source.data["facts"].append({"id": "new", "content": "Tests with tox", "confidence": 1.0})
        call, result = tool_exchange("read", {}, "more", id="c2")
        second, again = injector.inject([*talk(), call, result])
        assert (report.refreshed, again.refreshed) == (True, texts == 2)
        assert len({m.text for m in [*first, *second] if is_injected(m)}) == texts
        third, _ = injector.inject([*talk(), assistant("done"), user("and tox?", id="q2")])
        assert "tox" in next(m.text for m in third if is_injected(m))


def test_on_change_keeps_the_block_until_a_third_of_it_would_change() -> None:
    source = Documents(*(f"Runs tests in project {n}" for n in "abcdefghij"))
    injector = MemoryInjector(source, user_id="ann", refresh="on_change")
    turns = [talk(), [*talk(), assistant("ok"), user("again", id="q2")]]
    first, _ = injector.inject(turns[0])
    source.data["facts"].append({"id": "n1", "content": "Runs tox", "confidence": 1.0})
    second, report = injector.inject(turns[1])
    assert not report.refreshed
    assert len({m.text for m in [*first, *second] if is_injected(m)}) == 1
    source.data["facts"] += [{"id": f"m{i}", "content": f"Knows thing {i}", "confidence": 1.0} for i in range(9)]
    third, report = injector.inject([*turns[1], assistant("ok"), user("more", id="q3")])
    assert report.refreshed
    assert "Knows thing 3" in next(m.text for m in third if is_injected(m))


def test_the_sync_and_the_async_way_agree() -> None:
    source = Documents("Prefers pytest", "Uses Docker")
    one, report = MemoryInjector(source, user_id="ann").inject(talk())
    other, same = asyncio.run(MemoryInjector(source, user_id="ann").ainject(talk()))
    assert [m.text for m in one] == [m.text for m in other]
    assert report == same


def test_a_memory_never_holds_what_was_injected() -> None:
    memory = AutoContextMemory()
    memory.add_messages(talk())
    store = MemoryStore(":memory:")
    store.add("Prefers pytest for testing", user_id="ann")
    injector = MemoryInjector(store, user_id="ann", ranker=TfidfRanker())
    for _ in range(3):
        sent, report = injector.inject(memory.get_messages())
        assert len(report.selected) == 1
    assert len(sent) == len(memory.messages) + 1
    assert not any(is_injected(m) for m in [*memory.messages, *memory.get_original_memory_msgs()])
    store.close()


@pytest.mark.parametrize(("field", "value"), [("refresh", "often"), ("placement", "top"), ("max_tokens", 0)])
def test_bad_settings_are_named(field, value) -> None:
    with pytest.raises(ConfigError, match=field):
        MemoryInjector(Documents(), user_id="ann", **{field: value})


@pytest.mark.parametrize(("shared", "of", "alike"), [(7, 10, True), (9, 13, False), (0, 0, True), (0, 1, False)])
def test_blocks_are_alike_that_share_seven_tenths_of_their_facts(shared: int, of: int, alike: bool) -> None:
    some, all_ = (
        InjectionReport(selected=tuple(SelectedFact(f"f{n}", 1.0, 9) for n in range(count))) for count in (shared, of)
    )
    assert _alike(some, all_) is alike
    assert _alike(all_, some) is alike


CHANGES = {
    "deleted": lambda store, id_: store.delete(id_, user_id="ann"),
    "changed": lambda store, id_: store.update(id_, user_id="ann", content="Likes coffee"),
    "archived": lambda store, id_: store.update(id_, user_id="ann", archived="stale"),
    "cleared": lambda store, id_: store.clear(user_id="ann"),
}


@pytest.mark.parametrize("ranker", [None, TfidfRanker()], ids=["default", "own"])
@pytest.mark.parametrize("is_new_turn", [False, True])
@pytest.mark.parametrize("refresh", ["every_call", "every_turn", "on_change"])
@pytest.mark.parametrize("change", CHANGES)
def test_what_was_deleted_or_changed_is_in_no_later_request(change, refresh, is_new_turn, ranker) -> None:
    with MemoryStore(":memory:") as store:
        for n in range(10):
            store.add(f"Runs tests in project {n}", user_id="ann")
        secret = store.add("Likes tea", user_id="ann")
        injector = MemoryInjector(store, user_id="ann", refresh=refresh, ranker=ranker)
        first, _ = injector.inject(talk())
        CHANGES[change](store, secret.id)
        later = [*talk(), assistant("ok"), user("again", id="q2")] if is_new_turn else talk()
        second, report = injector.inject(later)
    assert "Likes tea" in first[3].text
    assert not any("Likes tea" in m.text for m in second)
    assert report.refreshed
    assert any("Likes coffee" in m.text for m in second) is (change == "changed")


@pytest.mark.parametrize("refresh", ["every_call", "every_turn", "on_change"])
def test_what_has_expired_is_in_no_later_request(refresh) -> None:
    now = [1_800_000_000_000]
    with MemoryStore(":memory:", clock=lambda: now[0]) as store:
        store.add("Runs tests", user_id="ann")
        store.add("Runs tests in a hurry", user_id="ann", ttl=60)
        injector = MemoryInjector(store, user_id="ann", refresh=refresh)
        first, _ = injector.inject(talk())
        now[0] += 59_999
        assert injector.inject(talk())[0][3].text == first[3].text
        now[0] += 1
        for refreshed in (True, refresh == "every_call"):
            second, report = injector.inject(talk())
            assert report.refreshed is refreshed
            assert "in a hurry" in first[3].text
            assert second[3].text == first[3].text.replace("\n- [context | 1.00] Runs tests in a hurry", "")


def test_a_ttl_that_is_set_within_a_turn_counts_in_it() -> None:
    now = [1_800_000_000_000]
    with MemoryStore(":memory:", clock=lambda: now[0]) as store:
        made = store.add("Likes tea", user_id="ann")
        injector = MemoryInjector(store, user_id="ann")
        first, _ = injector.inject(talk())
        store.update(made.id, user_id="ann", ttl=60)
        assert injector.inject(talk())[0][3].text == first[3].text
        now[0] += 60_000
        assert not any(map(is_injected, injector.inject(talk())[0]))


@pytest.mark.parametrize("refresh", ["every_turn", "on_change"])
def test_what_is_added_within_a_turn_changes_no_block(refresh) -> None:
    with MemoryStore(":memory:") as store:
        store.add("Likes tea", user_id="ann")
        injector = MemoryInjector(store, user_id="ann", refresh=refresh)
        first, _ = injector.inject(talk())
        store.add("Runs tests with tox", user_id="ann")
        store.add("likes tea", user_id="ann")
        for _ in range(2):
            second, report = injector.inject(talk())
            assert [m.text for m in second] == [m.text for m in first]
            assert not report.refreshed


@pytest.mark.parametrize("change", ["new", ""])
def test_on_change_does_not_keep_an_old_summary(change) -> None:
    with MemoryStore(":memory:") as store:
        injector = MemoryInjector(store, user_id="ann", refresh="on_change")
        store.import_json(
            {"user": {"topOfMind": {"summary": "old"}}, "facts": [{"content": "Likes tea"}]}, user_id="ann"
        )
        injector.inject(talk())
        store.import_json({"user": {"topOfMind": {"summary": change}}, "facts": []}, user_id="ann")
        sent, report = injector.inject([*talk(), assistant("ok"), user("again", id="q2")])
    (text,) = [m.text for m in sent if is_injected(m)]
    assert f"Current Focus: {change or 'old'}" in text
    assert report.refreshed is bool(change)


def test_of_many_memories_those_in_the_block_are_read_again_though_they_are_not_near() -> None:
    with MemoryStore(":memory:") as store:
        for n in range(520):
            store.add(f"Likes {'tea' if n < 10 else 'jam'} number {n}", user_id="ann", confidence=n / 520)
        injector = MemoryInjector(store, user_id="ann", refresh="on_change", max_tokens=200, max_turns=1)
        _, report = injector.inject([user("tea?")])
        held = {fact.id for fact in report.selected}
        named = store.document_about("jam", user_id="ann", ids=held, count=20)
        assert held <= {fact["id"] for fact in named["facts"]}
        assert not held <= {fact["id"] for fact in store.document_about("jam", user_id="ann", count=20)["facts"]}


class Raising(Documents):
    """A source that cannot be reached until the test says so."""

    fails: Exception | None = None

    def document(self, *, user_id: str) -> dict:
        if self.fails:
            raise self.fails
        return super().document(user_id=user_id)


@pytest.mark.parametrize("kind", [OSError, StoreError])
def test_a_source_that_raises_costs_the_memories_not_the_turn(caplog, kind) -> None:
    source = Raising("Prefers pytest")
    source.fails = kind("no route to host")
    injector = MemoryInjector(source, user_id="ann")
    messages = talk()
    for sent, report in (injector.inject(messages), asyncio.run(injector.ainject(messages))):
        assert sent == messages
        assert (report.selected, report.tokens, report.max_tokens) == ((), 0, 2000)
    assert caplog.text.count(f"{kind.__name__}: no route to host") == 2
    source.fails = None
    assert len(injector.inject(talk())[0]) == len(talk()) + 1


@pytest.mark.parametrize("wrong", [42, "", None])
def test_a_wrong_user_is_refused_at_once(wrong) -> None:
    with pytest.raises(InvalidMemory, match="user_id"):
        MemoryInjector(Documents(), user_id=wrong)


def called(*ids: str) -> Msg:
    return Msg(role="assistant", content=[ToolUseBlock(id=i, name="make", input={}) for i in ids])


def answered(id_: str) -> Msg:
    return Msg(role="tool", content=[ToolResultBlock(id=id_, name="make", output="done")])


@pytest.mark.parametrize("placement", PLACES)
@pytest.mark.parametrize(
    "messages",
    [
        [user("build"), called("c1", "c2"), answered("c1"), user("hurry"), answered("c2")],
        [user("build"), called("c1"), user("hurry"), answered("c1")],
        [user("build"), called("c1"), answered("c1"), called("c1"), user("hurry"), answered("c1"), called("c1")],
        [called("c1", "c2"), answered("c1"), user("hurry"), answered("c2"), called("c1"), answered("c1")],
        [user("build"), called("c1"), answered("c1"), user("more"), called("c1"), answered("c1")],
    ],
    ids=["second result", "only result", "id used again", "no user before", "nothing open"],
)
def test_the_block_stands_between_no_call_and_its_results(messages, placement) -> None:
    sent, _ = MemoryInjector(Documents("Prefers pytest"), user_id="ann", placement=placement).inject(messages)
    (place,) = [i for i, m in enumerate(sent) if "<memory>" in m.text]
    open_ids: list[str] = []
    for m in sent[:place]:
        open_ids += [use.id for use in m.tool_uses]
        for result in m.tool_results:
            open_ids.remove(result.id)
    assert not open_ids
    assert without_injected(sent) == messages

"""MemoryInjector: outgoing requests only, flagged, in a place that keeps prompt caches, refreshed as asked."""

import asyncio

import pytest

from autocontext import AutoContextMemory
from autocontext.errors import ConfigError, InvalidMessage
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
from autocontext.messages import ImageBlock, Msg
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

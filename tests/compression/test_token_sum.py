"""The running sum: always what a recount gives, and no message is counted twice."""

import asyncio
import random
import tracemalloc
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from math import ceil
from sys import getsizeof
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory, Msg
from autocontext.compression.token_sum import TokenSum
from autocontext.errors import InvalidMessage
from autocontext.events import CompressionReport
from autocontext.history.entries import Added, Removed
from autocontext.history.log import Log
from autocontext.stores import InMemorySessionStore
from autocontext.testing import ScriptedModel, conversation, system, user
from autocontext.tokens import VocabularyCounter
from autocontext.tokens.counters import BYTES_OF_TOKEN
from tests.conversations import histories
from tests.costs import python_calls
from tests.invariants import CONFIGS, recount


class CountingCounter:
    """Counts characters, and how often it was asked to count each message."""

    name = "counting"
    exact = True

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.bounds: Counter[str] = Counter()

    def count_text(self, text: str) -> int:
        return len(text)

    def count(self, msg: Msg) -> int:
        self.asked[f"{msg.id} {msg.to_dict()}"] += 1
        return self.size(msg)

    def bound(self, msg: Msg) -> int:
        self.bounds[msg.id] += 1
        return 2 * self.size(msg)

    def size(self, msg: Msg) -> int:
        return 1 + sum(len(str(b)) for b in msg.content)


def counted(counter: CountingCounter, **fields: object) -> AutoContextMemory:
    config = AutoContextConfig(**{"token_counter": counter, "model_retries": 0, **fields})
    return AutoContextMemory(config, ScriptedModel("Short."))


# ---------------------------------------------------------------------------------------------------------- counting
@pytest.mark.slow
@given(histories(duplicates=True), histories(max_moves=3))
def test_no_message_is_ever_counted_twice(history: list[Msg], more: list[Msg]) -> None:
    counter = CountingCounter()
    memory = counted(counter, max_token=3_000, msg_threshold=6, last_keep=2, large_payload_threshold=300)
    memory.add_messages(history)
    for _ in range(3):
        memory.get_messages()
        memory.compress_if_needed(force=True)
        assert memory.token_count == sum(map(counter.size, memory.messages))
    for key in list(memory.get_offload_context()):
        memory.undo(key)
    memory.add_messages(more)
    memory.get_messages()
    total = memory.token_count
    assert total == sum(map(counter.size, memory.messages))
    times_added = Counter(f"{m.id} {m.to_dict()}" for m in [*history, *more])
    assert all(n <= max(1, times_added[key]) for key, n in counter.asked.items())


def test_nothing_is_counted_while_the_bounds_are_under_the_trigger() -> None:
    counter = CountingCounter()
    memory = counted(counter, max_token=1_000_000)
    memory.add_messages(conversation(rounds=5))
    for _ in range(3):
        memory.get_messages()
    assert not counter.asked
    assert set(counter.bounds.values()) == {1}
    assert memory.token_count > 0
    assert len(counter.asked) == len(memory.messages)


def test_messages_are_counted_when_the_bounds_cannot_tell() -> None:
    counter = CountingCounter()
    messages = conversation(rounds=2)
    size = sum(map(counter.size, messages))
    memory = counted(counter, max_token=int(1.5 * size), token_ratio=1.0)
    memory.add_messages(messages)
    assert memory.get_messages() == messages  # by its bound the view is over, by its count it is not
    assert counter.asked


@pytest.mark.parametrize("bound_is_count", [False, True])
def test_a_view_reaches_as_many_tokens_as_it_has_and_no_more(bound_is_count: bool) -> None:
    counter, log = CountingCounter(), Log()
    token_sum = TokenSum(counter, log)
    for message in conversation(rounds=2):
        token_sum.update(log.record(Added(message=message)))
    tokens = sum(map(counter.size, log.view_messages))
    if bound_is_count:
        assert token_sum.total() == token_sum.at_most
    assert token_sum.reaches(tokens)
    assert not token_sum.reaches(tokens + 1)


# -------------------------------------------------------------------------------------------------------------- sums
operations = st.lists(
    st.sampled_from(("add", "compress", "delete", "undo", "clear", "load", "offload")), min_size=1, max_size=8
)


@given(histories(max_moves=4, duplicates=True), operations, st.sampled_from(sorted(CONFIGS)))
def test_the_sum_is_what_a_recount_gives(history: list[Msg], steps: list[str], config: str) -> None:
    memory = AutoContextMemory(CONFIGS[config], ScriptedModel("Short."))
    memory.add_messages(history)
    actions: dict[str, Callable[[], object]] = {
        "add": lambda: memory.add_messages([*history, *conversation(rounds=1)]),
        "compress": lambda: memory.compress_if_needed(force=True),
        "delete": lambda: memory.messages and memory.delete_message(len(memory.messages) // 2),
        "undo": lambda: any(map(memory.undo, list(memory.get_offload_context()))),
        "clear": memory.clear,
        "load": lambda: memory.load_state_dict(memory.state_dict()),
        "offload": lambda: memory.offload("own", history),
    }
    for step in steps:
        actions[step]()
        assert memory.token_count == recount(memory)


@pytest.mark.parametrize("first", ["delete", "usage", "add"])
def test_what_is_done_first_in_a_session_that_was_opened_is_counted_too(first: str) -> None:
    store, messages = InMemorySessionStore(), conversation(rounds=2)
    AutoContextMemory(store=store, session_id="s").add_messages(messages)
    memory = AutoContextMemory(counted(CountingCounter()).config, store=store, session_id="s")
    if first == "delete":
        memory.delete_message(len(messages) - 1)
    elif first == "usage":
        memory.record_usage(sum(map(CountingCounter().size, messages)) + 7)
    else:
        memory.add_message(user("And now?"))
    assert memory.token_count == sum(map(CountingCounter().size, memory.messages)) + 7 * (first == "usage")


def test_an_id_that_means_another_message_now_is_counted_anew() -> None:
    memory = counted(CountingCounter())
    for text in ("short", "rather longer than that"):
        memory.add_message(user(text, id="m"))
        assert memory.token_count == CountingCounter().size(memory.messages[0])
        memory.clear()


def test_what_is_sent_besides_the_messages_counts() -> None:
    memory = counted(CountingCounter())
    memory.add_message(user("hello"))
    bare = memory.token_count
    memory.set_overhead("a system text", {"name": "tool"})
    assert memory.token_count == bare + len("a system text") + len('{"name": "tool"}')
    memory.set_overhead()
    assert memory.token_count == bare


def test_of_a_provider_s_count_what_remains_in_view_keeps_its_share() -> None:
    memory = counted(CountingCounter())
    memory.add_messages([system("s"), user("hello")])
    bare = memory.token_count
    for more in (20, 50):
        memory.record_usage(bare + more)
        assert memory.token_count == bare + more
    memory.add_message(user("more"))
    grown = sum(map(CountingCounter().size, memory.messages))
    assert memory.token_count == grown + 50
    memory.delete_message(2)
    assert memory.token_count == bare + share(50, bare, grown)
    for tokens in (bare + 7, 10**400):
        memory.record_usage(tokens)
        assert memory.token_count == tokens
    memory.delete_message(1)
    assert memory.token_count > 10**390


def share(more: int, now: int, before: int) -> int:
    """What remains of a provider's excess over our own counts of the view."""
    return ceil(Fraction(more * min(now, before), before))


@pytest.mark.parametrize(("fixed", "share_of"), [(700, 0), (0, 0.5), (700, 0.5)])
def test_two_counts_of_a_provider_tell_which_part_of_its_excess_is_fixed(fixed: int, share_of: float) -> None:
    memory = counted(CountingCounter())
    memory.add_message(user("hello " * 100))

    def provider() -> int:
        own = memory.count(memory.messages)
        return fixed + round((1 + share_of) * own)

    memory.record_usage(provider())
    for n in range(3):
        memory.add_message(user(f"more {n} " * 50))
    memory.record_usage(provider())
    memory.delete_message(2)
    assert memory.token_count == pytest.approx(provider(), abs=3)


def test_tools_that_nobody_has_told_of_are_no_reason_for_a_pass_at_every_step() -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(16_000, token_counter="o200k_base"))  # noqa: S106 (tokens of text)
    passes: list[CompressionReport] = []
    memory.on_compression(passes.append)
    rng = random.Random(0)
    memory.add_message(user("Read all days."))
    for n in range(40):
        memory.get_messages()
        tokens = memory.count(memory.messages) + 12_000
        assert tokens <= 16_000
        memory.record_usage(tokens)
        memory.add({"role": "assistant", "content": f"Day {n} is read."})
        lines = (f"line {n} {j} value{rng.randrange(10**6)}" for j in range(rng.randrange(25, 110)))
        memory.add({"role": "user", "content": "\n".join(lines)})
    assert 0 < len(passes) <= 15


def test_a_provider_s_count_below_ours_ends_when_something_leaves_the_view() -> None:
    memory = counted(CountingCounter())
    memory.add_messages([system("s"), user("hello")])
    bare = memory.token_count
    memory.add_message(user("more"))
    memory.record_usage(memory.token_count - 9)
    memory.delete_message(2)
    assert memory.token_count == bare


def test_a_pass_goes_on_until_what_a_provider_counts_of_the_view_fits() -> None:
    memory = counted(CountingCounter(), max_token=3_000, msg_threshold=10**9, strategies=("read_once", "shorten"))
    memory.add_messages(conversation(rounds=12, tools_per_round=1, chars=40))
    own = sum(map(CountingCounter().size, memory.messages))
    times = 6_000 / own
    memory.record_usage(6_000)
    report = memory.compress_if_needed()
    now = sum(map(CountingCounter().size, memory.messages))
    assert report.outcome == "applied"
    assert now * times <= 3_000
    assert memory.token_count == pytest.approx(now * times, rel=0.02)
    assert memory.compress_if_needed().outcome == "not_needed"


def test_a_report_counts_both_sides_alike() -> None:
    memory = counted(CountingCounter(), max_token=10_000, msg_threshold=10**9, strategies=("read_once", "shorten"))
    memory.add_messages(conversation(rounds=12, tools_per_round=1, chars=40))
    sizes = [sum(map(CountingCounter().size, memory.messages))]
    memory.record_usage(3 * sizes[0])
    report = memory.compress_if_needed(force=True)
    sizes.append(sum(map(CountingCounter().size, memory.messages)))
    assert [report.tokens_before, report.tokens_after] == sizes
    assert memory.usage.tokens_saved == sum(s.tokens_saved for s in report.strategies) == sizes[0] - sizes[1] > 0
    waiting = memory.compress_if_needed()
    assert (waiting.outcome, waiting.tokens_before, waiting.tokens_after) == ("not_needed", sizes[1], sizes[1])


def test_a_pass_that_could_not_reach_its_target_is_not_tried_again_at_once_whatever_the_provider_counts() -> None:
    memory = counted(CountingCounter(), max_token=3_000, msg_threshold=10**9, strategies=("read_once", "shorten"))
    memory.add_messages([system("Rules. " * 100), user("Go on.")])
    outcomes = []
    for tokens in (2_700, 2_750, 2_950):  # the trigger is 2,250; a tenth of it has to be new
        memory.record_usage(tokens)
        outcomes.append(memory.compress_if_needed().outcome)
    assert outcomes == ["partly", "not_needed", "partly"]


def test_a_provider_s_count_holds_although_what_is_sent_besides_was_not_counted_yet() -> None:
    memory = AutoContextMemory(AutoContextConfig(token_counter="o200k_base"))  # noqa: S106 (tokens of text)
    tools, others = "a text about each of the tools", "other tools, which are described at greater length"
    memory.add_message(user("hello"))
    memory.set_overhead(tools)
    memory.record_usage(100)
    assert memory.token_count == 100
    memory.set_overhead(others)
    count = memory.counter.count_text
    assert memory.token_count == 100 - count(tools) + count(others)


turns = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.text(max_size=30)),
        st.tuples(st.just("usage"), st.integers(0, 300)),
        st.tuples(st.just("besides"), st.text(max_size=30)),
        st.tuples(st.just("delete"), st.integers(0, 5)),
        st.tuples(st.just("look"), st.none()),
    ),
    max_size=12,
)


@pytest.mark.slow
@given(turns, st.sampled_from(["o200k_base", "qwen", "bytes4"]))
def test_whatever_waits_to_be_counted_the_sum_is_that_of_counting_at_once(
    steps: list[tuple[str, Any]], name: str
) -> None:
    memory = AutoContextMemory(AutoContextConfig(token_counter=name))
    count = memory.counter.count_text
    more = besides = usages = 0
    for step, value in [*steps, ("look", None)]:
        plain = sum(map(memory.counter.count, memory.messages))
        if step == "add":
            memory.add_message(user(value))
        elif step == "usage":
            memory.record_usage(plain + besides + value)
            more, usages = value, usages + 1
        elif step == "besides":
            memory.set_overhead(value)
            besides = count(value)
        elif step == "delete" and value < len(memory):
            if usages > 1:
                continue  # two counts tell how much of the excess is fixed
            memory.delete_message(value)
            now = sum(map(memory.counter.count, memory.messages))
            more = share(more, now + besides, plain + besides)
        else:
            assert int(repr(memory).partition("at most ")[2].split()[0].replace(",", "")) >= plain + besides + more
            assert memory.token_count == plain + besides + more


def test_a_negative_count_of_a_provider_is_refused() -> None:
    memory = counted(CountingCounter())
    with pytest.raises(ValueError, match=r"record_usage: input_tokens .*-1"):
        memory.record_usage(-1)


SOME = {"cache_read_input_tokens": 60, "cache_creation_input_tokens": 30}


@pytest.mark.parametrize("as_object", [False, True])
@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"input_tokens": 10, **SOME, "output_tokens": 5}, 100),  # Anthropic
        ({"input_tokens": 100, "cache_read_input_tokens": None, "cache_creation_input_tokens": None}, 100),
        ({"input_tokens": 100, "input_tokens_details": {"cached_tokens": 90}}, 100),  # OpenAI Responses
        ({"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 90}, "completion_tokens": 5}, 100),
        ({"prompt_tokens": 100, **SOME}, 100),  # LiteLLM
    ],
)
def test_a_reply_s_usage_counts_what_the_provider_s_cache_had(
    usage: dict[str, Any], tokens: int, *, as_object: bool
) -> None:
    memory = counted(CountingCounter())
    memory.add_message(user("hello"))
    memory.record_usage(SimpleNamespace(**usage) if as_object else usage)
    assert memory.token_count == tokens


@pytest.mark.parametrize("as_object", [False, True])
def test_the_sum_of_what_a_service_has_read_for_its_own_tools_is_not_used(*, as_object: bool) -> None:
    memory = counted(CountingCounter())
    memory.add_message(user("hello"))
    before = memory.token_count
    ran = {"web_search_requests": 4, "web_fetch_requests": 0}
    none = dict.fromkeys(ran, 0)
    for searched, tokens in ((none, 100), (ran, 100), (None, 120)):
        usage = {"input_tokens": 500 if searched is ran else tokens, "server_tool_use": searched}
        if as_object and searched is not None:
            usage["server_tool_use"] = SimpleNamespace(**searched)
        memory.record_usage(SimpleNamespace(**usage) if as_object else usage)
        assert memory.token_count == tokens
    assert before < 100


@pytest.mark.parametrize("usage", [None, "12", {}, {"output_tokens": 3}, {"input_tokens": "12"}, SimpleNamespace()])
def test_a_usage_without_a_count_is_refused(usage: Any) -> None:
    with pytest.raises(InvalidMessage, match=r"record_usage: .*pass the reply's usage"):
        counted(CountingCounter()).record_usage(usage)


@pytest.mark.parametrize("name", ["o200k_base", "bytes4"])
@pytest.mark.parametrize("line", ["day 4: the disk is full again; ", "第四天：磁盘又满了；"])
@pytest.mark.parametrize("as_object", [False, True])
def test_passes_are_made_although_only_what_was_not_cached_is_told(
    name: str, line: str, *, as_object: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """With prompt caching Anthropic's `input_tokens` is a few tokens of many thousand."""
    memory = AutoContextMemory(AutoContextConfig.for_window("8k", token_counter=name))
    memory.add({"role": "user", "content": "Read all logs."})
    for n in range(8):
        memory.to_anthropic()
        memory.record_usage({"input_tokens": 20} if as_object else 20)
        memory.add({"role": "assistant", "content": [{"type": "tool_use", "id": f"t{n}", "name": "read", "input": {}}]})
        result = {"type": "tool_result", "tool_use_id": f"t{n}", "content": line * 300}
        memory.add({"role": "user", "content": [result]})
    memory.to_anthropic()
    assert sum(map(memory.counter.count, memory.messages)) <= 8_000
    assert [r.levelname for r in caplog.records if "record_usage" in r.getMessage()] == ["WARNING"]


@pytest.mark.slow
def test_a_fork_copies_nothing_of_what_has_left_the_view() -> None:
    sizes = []
    for rounds in (20, 400):
        memory = counted(CountingCounter(), max_token=3_000, msg_threshold=20)
        for message in conversation(rounds=rounds, tools_per_round=1, chars=40):
            memory.add(message)
            memory.get_messages()
        token_sum, log = memory._token_sum, memory._log.as_it_is()
        tracemalloc.start()
        try:
            fork = token_sum.fork(log)
            sizes.append(tracemalloc.get_traced_memory()[0])
        finally:
            tracemalloc.stop()
        assert fork.total() == memory.token_count
    assert sizes[1] < sizes[0] + 5_000


def test_a_counted_view_is_asked_for_in_a_time_that_does_not_depend_on_how_many_left_it() -> None:
    memory = counted(CountingCounter(), max_token=10**9, msg_threshold=10**9)
    memory.add_messages(conversation(rounds=500, tools_per_round=1, chars=10))
    size = memory.token_count
    assert getsizeof(memory._token_sum._bounds) == getsizeof({})
    memory.add(user("one more"))
    assert memory.token_count > size


def test_a_count_that_is_tried_holds_until_it_is_taken_back() -> None:
    memory = counted(CountingCounter(), max_token=10**9, msg_threshold=10**9)
    memory.add_messages(conversation(rounds=50, tools_per_round=1, chars=40))
    tokens, size = memory._token_sum, memory.token_count
    take_back = tokens.try_at_least(size + 100)
    assert memory.token_count == size + 100
    assert take_back()
    assert memory.token_count == size
    take_back = tokens.try_at_least(size - 1)
    assert memory.token_count == size
    assert not take_back()


def test_of_a_count_that_is_taken_back_nothing_stays_when_a_part_of_the_view_has_left() -> None:
    memory = counted(CountingCounter(), max_token=10**9, msg_threshold=10**9)
    memory.add_messages(conversation(rounds=50, tools_per_round=1, chars=40))
    take_back = memory._token_sum.try_at_least(memory.token_count + 1_000)
    memory.delete_message(len(memory) // 2)
    assert memory.token_count > recount(memory)
    assert take_back()
    assert memory.token_count == recount(memory)


def test_a_fork_knows_the_size_of_the_view() -> None:
    memory = counted(CountingCounter(), max_token=10**9, msg_threshold=10**9)
    memory.add_messages(conversation(rounds=50, tools_per_round=1, chars=40))
    token_sum, log = memory._token_sum, memory._log
    size, forked = token_sum.request.total(), log.as_it_is()
    fork = token_sum.fork(forked)
    assert python_calls(fork.request.total) < 10
    token_sum.update(log.record(Added(message=user("one more"))))
    fork.update(forked.renew(log))
    assert fork.request.total() == token_sum.request.total() != size


def summed(*texts: str) -> tuple[Log, TokenSum]:
    """Messages that a vocabulary counts when they have to be."""
    log = Log(Added(message=user(text, id=f"m{n}")) for n, text in enumerate(texts))
    return log, TokenSum(VocabularyCounter("o200k_base"), log)


def test_what_leaves_a_fork_leaves_a_provider_s_count_as_it_is() -> None:
    log, tokens = summed("the first of three", "the second of three", "and the third")
    tokens.anchor(50)
    forked = log.as_it_is()
    fork = tokens.fork(forked)
    own = tokens.own
    fork.update(forked.follow(Removed(ids=("m1",))))
    assert fork.own == fork.counter.count(log.messages["m0"]) + fork.counter.count(log.messages["m2"])
    assert fork.total() == fork.own + share(50 - own, fork.own, own)
    assert tokens.total() == 50


def test_once_something_leaves_the_view_what_is_sent_besides_is_counted_as_it_is() -> None:
    log, tokens = summed("the first of three", "the second of three")
    tokens.set_overhead(["a text about each of the tools"])
    tokens.anchor(100)
    tokens.update(log.record(Removed(ids=("m1",))))
    besides = tokens.counter.count_text("a text about each of the tools")
    first, second = (tokens.counter.count(log.messages[id_]) for id_ in ("m0", "m1"))
    assert tokens.own == first + besides
    assert tokens.total() == tokens.own + share(100 - tokens.own - second, tokens.own, tokens.own + second)


def test_a_count_of_another_message_with_its_id_is_not_taken_over() -> None:
    log, tokens = summed("the first")
    tokens.learn("m0", user("quite another text", id="m0"), 99)
    assert tokens.total() == tokens.counter.count(log.messages["m0"])


def test_messages_wait_to_be_counted_once_their_bounds_exceed_a_size() -> None:
    log, tokens = summed("the first", "the second")
    size = tokens.at_most
    assert tokens.waiting(size) == []
    assert [(id_, msg) for id_, msg, _ in tokens.waiting(size - 1)] == [
        (id_, log.messages[id_]) for id_ in ("m0", "m1")
    ]


# --------------------------------------------------------------------------------------- larger than any such window
class Sample(VocabularyCounter):
    """One token for each message that is counted, none for one of which a sample is."""

    def count(self, msg: Msg) -> int:
        return 1

    def sampled(self, msg: Msg) -> int:
        return 0


def test_a_sample_is_counted_of_what_surely_exceeds_the_window_and_its_count_says_so() -> None:
    tokens = TokenSum(Sample("o200k_base"), Log(), window=5_000)
    text = user("any")
    assert tokens.measure(text, 5_001 * BYTES_OF_TOKEN - 1) == 1
    assert tokens.measure(text, 5_001 * BYTES_OF_TOKEN) == 5_001


class Reading(VocabularyCounter):
    """Knows how many characters it has tokenized."""

    read = 0

    def _count(self, text: str) -> int:
        Reading.read += len(text)
        return super()._count(text)


def opened_with(text: str) -> AutoContextMemory:
    memory = counted(Reading("o200k_base"), max_token=4_000)
    memory.add(Msg(role="user", content=text))
    Reading.read = 0
    return memory


LARGE = "".join(f"{n}: {'the build of part ' * (n % 7)}passed.\n" for n in range(60_000))


@pytest.mark.slow
def test_of_a_message_that_no_such_window_holds_a_sample_is_counted() -> None:
    memory = opened_with(LARGE)
    report = memory.compress_if_needed()
    assert Reading.read < len(LARGE) / 2
    assert report.tokens_before == pytest.approx(VocabularyCounter("o200k_base").count_text(LARGE), rel=0.05)
    assert recount(memory) == memory.token_count <= 4_000


@pytest.mark.slow
def test_of_such_a_message_asynchronous_code_counts_a_sample_too() -> None:
    memory = opened_with(LARGE)
    asyncio.run(memory.acompress_if_needed())
    assert Reading.read < len(LARGE) / 2


@pytest.mark.slow
def test_in_a_larger_window_such_a_message_is_counted_whole() -> None:
    memory = opened_with(LARGE)
    assert memory.token_count != recount(memory)
    memory.resize(1_000_000)
    assert memory.token_count == recount(memory)


def test_what_a_fork_has_sampled_is_counted_whole_in_a_larger_window_too() -> None:
    log = Log([Added(message=user(LARGE[:1_100_000], id="m0"))])
    tokens = TokenSum(VocabularyCounter("o200k_base"), log, window=4_000)
    fork = tokens.fork(log.as_it_is())
    sampled = fork.total()
    tokens.learn_from(fork)
    assert tokens.total() == sampled
    tokens.resize(1_000_000)
    assert tokens.total() == tokens.counter.count(log.messages["m0"]) != sampled

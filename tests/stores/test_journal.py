"""Several memories on one session: what one has written the others take over, and nothing is lost or doubled."""

import asyncio
import contextlib
import math
import threading

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from autocontext import AutoContextConfig, AutoContextMemory, Msg, ToolResultBlock, ToolUseBlock
from autocontext.errors import Conflict, StateError, StoreError
from autocontext.history.entries import Added
from autocontext.history.log import Log
from autocontext.stores import InMemorySessionStore, SessionKey, journal


def user(text):
    return Msg(role="user", content=text)


def essay(n):
    return " ".join(f"Sentence {i} of answer {n} says little, and says it at length." for i in range(60))


def shared(count=2, store=None, config=None):
    store = store or InMemorySessionStore()
    return [AutoContextMemory(config, store=store, session_id="s", user_id="u") for _ in range(count)]


def texts(memory):
    return [m.text for m in memory.messages]


def test_an_addition_behind_another_process_takes_its_place_there():
    one, other = shared()
    one.add_messages([user("first"), user("second")])
    other.add_message(user("third"))
    assert texts(other) == ["first", "second", "third"]
    assert texts(one) == ["first", "second"]
    assert one.refresh() == 1
    assert one.refresh() == 0
    assert one.state_dict() == other.state_dict()
    assert one.token_count == other.token_count


def test_what_was_decided_on_an_old_view_is_a_conflict_and_can_be_tried_again():
    one, other = shared()
    one.add_messages([user("first"), user("second")])
    other.refresh()
    one.add_message(user("third"))
    with pytest.raises(Conflict, match="has 3 entries, not 2"):
        other.delete_message(0)
    assert texts(other) == ["first", "second", "third"]
    assert other.delete_message(0)[0].text == "first"


def test_a_pass_that_meets_another_writer_is_busy_and_knows_the_session_afterwards():
    config = AutoContextConfig(msg_threshold=10, last_keep=2, max_token=100_000)
    one, other = shared(config=config)
    for i in range(6):
        one.add_messages([user(f"question {i}" * 20), Msg(role="assistant", content=essay(i))])
    other.refresh()
    one.add_message(user("meanwhile"))
    report = other.compress_if_needed(force=True)
    assert report.outcome == "busy"
    assert texts(other) == texts(one)
    assert other.compress_if_needed(force=True).outcome == "applied"
    one.add_message(user("behind the pass"))
    assert one.messages[:-1] == other.messages


def test_a_reader_of_the_counter_does_not_disturb_a_thread_that_stores():
    class Asking(InMemorySessionStore):
        def append(self, session, entries, *, after):
            super().append(session, entries, after=after)
            reader = threading.Thread(target=lambda: memory.counter)
            reader.start()
            reader.join(10)
            assert not reader.is_alive()

    store = Asking()
    memory = AutoContextMemory(store=store, session_id="s", user_id="u")
    for i in range(3):
        memory.add_message(user(f"note {i}"))
    assert texts(memory) == texts(shared(1, store)[0]) == ["note 0", "note 1", "note 2"]


def test_clearing_goes_through_whatever_was_added():
    one, other = shared()
    one.add_message(user("first"))
    other.clear()
    assert one.refresh() == 1
    assert one.messages == other.messages == []


def test_eight_writers_lose_and_double_nothing():
    store = InMemorySessionStore()
    writers = shared(8, store)

    def write(n):
        for i in range(50):
            writers[n].add_message(user(f"{n}-{i}"))

    threads = [threading.Thread(target=write, args=(n,)) for n in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    [reader] = shared(1, store)
    found = texts(reader)
    assert len(found) == len(set(found)) == 400
    for n in range(8):
        assert [t for t in found if t.startswith(f"{n}-")] == [f"{n}-{i}" for i in range(50)]


class Overtaken(InMemorySessionStore):
    """Another process is quicker, again and again."""

    times = 0

    def append(self, session, entries, *, after):
        if self.times:
            self.times -= 1
            super().append(session, [Added(message=user(f"other {self.times}"))], after=len(self.read(session)))
        super().append(session, entries, after=after)


@pytest.mark.slow
def test_a_writer_on_a_slow_machine_tries_as_often_as_on_a_quick_one(monkeypatch):
    monkeypatch.setattr(journal, "_PATIENCE", 0)  # each attempt takes longer
    monkeypatch.setattr(journal, "_LONGEST_WAIT", 0.001)
    store = Overtaken()
    [memory] = shared(1, store)
    memory.add_message(user("first"))
    store.times = 40
    memory.add_message(user("mine"))
    assert texts(memory) == ["first", *(f"other {n}" for n in range(39, -1, -1)), "mine"]
    store.times = 10**6
    with pytest.raises(Conflict):
        memory.add_message(user("in vain"))
    assert 10**6 - store.times > 100


@pytest.mark.parametrize("overtaken", [0, 1, 5])
@pytest.mark.parametrize(
    ("compaction", "read"),
    [
        ("keep", lambda memory: memory.to_openai()),
        ("keep", lambda memory: memory.to_anthropic()),
        ("instead", lambda memory: memory.get_messages()),
        ("instead", lambda memory: asyncio.run(memory.aget_messages())),
    ],
    ids=["to_openai", "to_anthropic", "get_messages", "aget_messages"],
)
def test_what_a_provider_has_compacted_is_put_back_whatever_others_write_meanwhile(compaction, read, overtaken):
    config = AutoContextConfig.for_window(8_000)
    store = Overtaken()
    [memory] = shared(1, store, config)
    for i in range(8):
        memory.add_messages([user(f"question {i} {'word ' * 300}"), Msg(role="assistant", content=f"answer {i}")])
    compacted = {"type": "compaction", "encrypted_content": "gAAAA", "id": "cmp_1"}
    answer = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "go"}]}
    memory.add([compacted, answer, {"role": "user", "content": "more"}])
    assert memory.compress_if_needed(force=True)
    assert not any("question 3" in text for text in texts(memory))
    [again] = shared(1, store, config.model_copy(update={"provider_compaction": compaction}))
    shared(1, store)[0].add_message(user("from another process"))
    store.times = overtaken
    sent = str(read(again))
    assert store.times == 0
    assert "question 3" in sent
    assert "from another process" in sent


class LosesAnswers(InMemorySessionStore):
    """Stores, then fails, when told to; while it is away, it neither stores nor reads."""

    lose = away = False

    def append(self, session, entries, *, after):
        self.reached()
        super().append(session, entries, after=after)
        self.away, self.lose = self.lose, False
        self.reached()

    def read(self, session, *, after=0, until=None):
        self.reached()
        return super().read(session, after=after, until=until)

    def reached(self):
        if self.away:
            raise StoreError("cannot be reached")


@pytest.mark.parametrize("number", [0.5, math.nan, math.inf])
def test_a_message_whose_acknowledgement_was_lost_counts_once_when_it_is_added_again(number):
    store = LosesAnswers()
    [memory] = shared(1, store)
    memory.add_message(user("first"))
    again = Msg(role="user", content="second", metadata={"score": number})
    store.lose = True
    with pytest.raises(StoreError):
        memory.add_message(again)
    store.away = False
    memory.add_message(again)
    memory.add_message(again)
    assert texts(memory) == ["first", "second", "second"]


def test_a_message_whose_acknowledgement_was_lost_is_found_when_another_is_added():
    store = LosesAnswers()
    [memory] = shared(1, store)
    store.lose = True
    with pytest.raises(StoreError):
        memory.add_message(user("first"))
    store.away = False
    memory.add_message(user("second"))
    assert texts(memory) == ["first", "second"]


MEANWHILE = {
    "another is added": lambda memory, _: memory.add_message(user("another")),
    "a pass": lambda memory, _: memory.get_messages(),
    "a forced pass": lambda memory, _: memory.compress_if_needed(force=True),
    "it is read": lambda memory, _: memory.refresh(),
    "it is tried again": lambda memory, msg: memory.add_message(msg),
    "it is tried with another": lambda memory, msg: memory.add_messages([msg, user("another")]),
}


@pytest.mark.parametrize(
    ("meanwhile", "away"), [*((name, True) for name in MEANWHILE), *((name, False) for name in [*MEANWHILE][:4])]
)
@pytest.mark.parametrize("last", ["a message", "a tool's answer"])
def test_a_lost_acknowledgement_is_remembered_whatever_is_tried_before_it_is_added_again(last, meanwhile, away):
    store = LosesAnswers()
    [memory] = shared(1, store, AutoContextConfig.for_window(4_000))
    for i in range(8):
        memory.add_messages([user(f"question {i}"), Msg(role="assistant", content=essay(i))])
    call = ToolUseBlock(id="c1", name="pay", input={"n": 1})
    memory.add_message(Msg(role="assistant", content=[call]) if last != "a message" else user("and then"))
    answer = Msg(role="tool", content=[ToolResultBlock(id="c1", name="pay", output=essay(9))])
    again = answer if last != "a message" else user(essay(9))
    store.lose = True
    with pytest.raises(StoreError):
        memory.add_message(again)
    store.away = away
    with contextlib.suppress(StoreError):
        MEANWHILE[meanwhile](memory, again)
    store.away = False
    memory.add_message(again)
    assert [m.id for m in memory.get_original_memory_msgs()].count(again.id) == 1
    assert shared(1, store)[0].state_dict() == memory.state_dict()


def test_what_is_said_again_after_an_answer_is_said_anew_although_its_first_time_was_unsure():
    store = LosesAnswers()
    [memory] = shared(1, store)
    memory.add_message(user("first"))
    again = user("continue")
    store.lose = True
    with pytest.raises(StoreError):
        memory.add_message(again)
    store.away = False
    memory.add_messages([user("x"), Msg(role="assistant", content="did it")])
    memory.add_message(again)
    assert texts(memory) == texts(shared(1, store)[0]) == ["first", "continue", "x", "did it", "continue"]


def test_emptying_the_memory_once_more_empties_it_although_the_first_time_has_arrived():
    store = LosesAnswers()
    [memory] = shared(1, store)
    memory.add_message(user("first"))
    store.lose = True
    with pytest.raises(StoreError):
        memory.clear()
    store.away = False
    memory.add_message(user("second"))
    assert texts(memory) == ["second"]
    memory.clear()
    assert texts(memory) == texts(shared(1, store)[0]) == []


def test_a_message_that_arrived_and_was_taken_away_can_be_added():
    store = LosesAnswers()
    [memory] = shared(1, store)
    message = user("first")
    store.lose = True
    with pytest.raises(StoreError):
        memory.add_message(message)
    store.away = False
    memory.refresh()
    memory.clear()
    memory.add_message(message)
    assert texts(memory) == ["first"]


def test_the_same_message_from_two_processes_is_two_messages():
    one, other = shared()
    greeting = user("hello")
    one.add_message(greeting)
    other.add_message(greeting)
    assert texts(other) == ["hello", "hello"]


def test_whole_states_are_copied_between_stores():
    config = AutoContextConfig(msg_threshold=10, last_keep=2)
    source = AutoContextMemory(config, store=InMemorySessionStore(), session_id="s", user_id="u")
    for i in range(8):
        source.add_messages([user(f"question {i}" * 20), Msg(role="assistant", content=essay(i))])
    assert source.compress_if_needed(force=True)
    target = InMemorySessionStore()
    assert source.save_to(target) == SessionKey("u", "s")
    assert AutoContextMemory(config, store=target, session_id="s", user_id="u").state_dict() == source.state_dict()
    source.add_message(user("later"))
    source.save_to(target)
    assert AutoContextMemory(config, store=target, session_id="s", user_id="u").state_dict() == source.state_dict()
    plain = AutoContextMemory(config, user_id="u")
    plain.load_from(target, "s")
    assert plain.state_dict() == source.state_dict()
    with pytest.raises(StateError, match="no session 'nowhere' of user 'u'"):
        plain.load_from(target, "nowhere")
    assert plain.state_dict() == source.state_dict()


class SharedSession(RuleBasedStateMachine):
    """Three memories of one session do anything in any order; each is always some earlier state of the one log."""

    memories = Bundle("memories")

    def __init__(self):
        super().__init__()
        self.store = InMemorySessionStore()
        self.key = SessionKey("u", "s")
        self.added = 0
        self.erased = set()
        self.config = AutoContextConfig(msg_threshold=6, last_keep=2, max_token=2_000)

    def opened(self):
        return AutoContextMemory(self.config, store=self.store, session_id="s", user_id="u")

    @rule(target=memories)
    def open(self):
        return multiple(self.opened())

    @rule(memory=memories, text=st.text(min_size=1, max_size=30), times=st.sampled_from([1, 40]))
    def add(self, memory, text, times):
        self.added += 1
        memory.add_message(Msg(role="user" if self.added % 2 else "assistant", content=f"{self.added} {text}" * times))

    @rule(memory=memories)
    def read(self, memory):
        memory.get_messages()

    @rule(memory=memories, at=st.integers(0, 5))
    def delete(self, memory, at):
        if at < len(memory.messages):
            with contextlib.suppress(Conflict):
                memory.delete_message(at)

    @rule(memory=memories)
    def refresh(self, memory):
        memory.refresh()
        assert memory.state_dict() == self.opened().state_dict()

    @rule(memory=memories)
    def undo(self, memory):
        for uuid in list(memory.get_offload_context())[-1:]:
            with contextlib.suppress(Conflict):
                memory.undo(uuid)

    @rule(at=st.integers(0, 9))
    def erase(self, at):
        ids = [entry.message.id for entry in self.store.read(self.key) if entry.type == "added"]
        if at < len(ids):
            self.erased.add(at)
            self.store.erase(self.key, [ids[at]])

    @rule(memory=consumes(memories))
    def close(self, memory):
        memory.refresh()

    @invariant()
    def all_that_was_added_is_there(self):
        memory = self.opened()
        originals = memory.get_original_memory_msgs()
        assert [m.text.split(" ", 1)[0] for m in originals] == [
            "[redacted]" if n in self.erased else str(n + 1) for n in range(self.added)
        ]
        Log(self.store.read(self.key))


TestSharedSession = SharedSession.TestCase

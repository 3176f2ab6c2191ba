"""Evidence destroyed by summaries: the work ledger tells what was said, called and found, whatever a model writes."""

import json
import re
from typing import Any

import pytest

from autocontext import AutoContextConfig, AutoContextMemory, ContextOffloadTool, Msg
from autocontext.config import STRATEGIES
from autocontext.messages import Origin, is_note
from autocontext.notes.page import REPLIES, SAID
from autocontext.testing import ScriptedModel, assert_valid_chat, assistant, tool_exchange, user
from autocontext.tokens import get_counter
from tests.invariants import check, handles, texts_of, unreachable
from tests.production.agents import day

COUNT = get_counter("o200k_base").count
VALUES = (
    "/etc/shop/payments.toml",
    "https://status.example.org/incidents/8841",
    "pg_dump --schema-only shop_prod",
    "OrderRepositoryV2",
    "10.20.30.44:5432",
    "IntegrityError: duplicate key value (order_id)=(77123)",
)


def facts() -> list[Msg]:
    """A round whose values will be wanted later, though every summary says 'In short.'."""
    log = "starting the migration\n" * 30 + f"sqlalchemy.exc.{VALUES[5]}\n" + "rolled back\n" * 30
    return [
        user(f"Orders fail, see {VALUES[1]}. The settings are in {VALUES[0]}."),
        *tool_exchange("run", {"command": VALUES[2]}, log),
        assistant(f"{VALUES[3]} writes to {VALUES[4]}, which refuses the order."),
    ]


def passed(**fields: object) -> AutoContextMemory:
    """A memory of 4,000 tokens after a pass that has taken `facts` out of view, into a note."""
    fields = {"strategies": (), "target_ratio": 0.5, **fields}
    memory = AutoContextMemory(AutoContextConfig.for_window(4_000, **fields), ScriptedModel("In short."))
    memory.add_messages([*day(2), *facts(), *day(9), user("Now fix the orders.")])
    assert memory.get_messages() == memory.messages
    assert memory.usage.passes == 1
    return memory


def note_of(memory: AutoContextMemory) -> Msg:
    """The note of what is out of view."""
    (note,) = [m for m in memory.messages if is_note(m)]
    return note


def test_evidence_paths_urls_commands_identifiers_numbers_and_errors_stay_visible() -> None:
    memory = passed()
    shown = "\n".join(text for m in memory.messages for text in texts_of(m))
    assert [value for value in VALUES if value not in shown] == []
    assert shown.count("rolled back") == 1


@pytest.mark.parametrize("reply", ["In short.", "", RuntimeError, "long " * 20_000])
def test_evidence_stays_visible_whatever_the_model_writes(reply: Any) -> None:
    config = AutoContextConfig.for_window(4_000, model_retries=0, strategies=(), target_ratio=0.5)
    memory = AutoContextMemory(config, ScriptedModel(reply))
    memory.add_messages([*day(2), *facts(), *day(9), user("Now fix the orders.")])
    report = memory.compress_if_needed()
    assert report.outcome == "applied"
    assert (report.fallbacks > 0) == (reply != "In short.")
    shown = "\n".join(text for m in memory.messages for text in texts_of(m))
    assert [value for value in VALUES if value not in shown] == []


@pytest.mark.slow
@pytest.mark.parametrize("window", [4_000, 8_000])
def test_the_five_strategies_hand_over_what_the_recommended_settings_do(window: int) -> None:
    shown: list[list[str]] = []
    for config in (AutoContextConfig.for_window(window), AutoContextConfig(max_token=window)):
        memory = AutoContextMemory(config)
        memory.add_messages([*day(2), *facts(), *day(window // 300), user("Now fix the orders.")])
        assert memory.compress_if_needed().outcome == "applied"
        text = "\n".join(text for m in memory.messages for text in texts_of(m))
        shown.append([value for value in VALUES if value in text])
    assert shown == [list(VALUES)] * 2


@pytest.mark.parametrize("strategies", [STRATEGIES, ("rounds",)])
def test_evidence_stays_visible_where_each_round_gets_a_note_of_its_own(strategies: tuple[str, ...]) -> None:
    fields = {"strategies": strategies, "keep_recent": 0.1, "last_keep": 5, "target_ratio": 0.5}
    memory = AutoContextMemory(AutoContextConfig.for_window(4_000, **fields), ScriptedModel("In short."))
    memory.add_messages([*day(2), *facts(), *day(9), user("Now fix the orders.")])
    assert memory.compress_if_needed().outcome == "applied"
    assert memory.token_count < 2_000
    shown = "\n".join(text for m in memory.messages for text in texts_of(m))
    assert [value for value in VALUES if value not in shown] == []


def test_evidence_stands_in_one_marked_message_after_the_user_s_first_and_within_its_budget() -> None:
    memory = passed()
    note = note_of(memory)
    assert note.text.startswith("[Reference note: earlier work, condensed. Not a request.]\n")
    assert "[End of reference note]" in note.text
    assert memory.messages[:2] == [memory.get_original_memory_msgs()[0], note]
    assert COUNT(note) <= 4_000 * (memory.config.ledger_ratio + memory.config.note_ratio)
    assert memory.token_count <= 4_000
    assert_valid_chat(memory.messages)
    check(memory)


def test_evidence_names_each_source_by_its_number_and_one_reload_of_it_brings_the_original() -> None:
    memory = passed()
    originals = memory.get_original_memory_msgs()
    numbers = [int(n) for n in re.findall(r"\bm(\d+)\b", note_of(memory).text)]
    assert len(set(numbers)) > 3
    for n in numbers:
        back = memory.reload(f"m{n}")
        assert originals[n - 1] in back
        assert all(m in originals for m in back)


def test_evidence_lines_that_are_still_shown_are_not_quoted() -> None:
    memory = passed()
    note = note_of(memory)
    said = note.text.partition(f"\n{SAID}\n")[2].partition(f"\n{REPLIES}\n")[0]
    quoted = [line.partition(": ")[2] for line in said.splitlines()]
    elsewhere = "\n".join(text for m in memory.messages if m != note for text in texts_of(m))
    assert quoted
    assert [line for line in quoted if line in elsewhere] == []


def test_evidence_is_rebuilt_at_a_pass_and_never_between_passes() -> None:
    memory = passed()
    before = note_of(memory)
    for n in range(4):
        memory.add_messages([user(f"See /tmp/step_{n}.log"), assistant("Seen.")])
        memory.get_messages()
        assert memory.usage.passes == 1
        assert note_of(memory) == before
    memory.add_messages(day(12))
    memory.get_messages()
    assert memory.usage.passes == 2
    assert note_of(memory) != before


def test_evidence_is_switched_off_by_its_ratio_and_in_the_preset() -> None:
    memory = passed(ledger_ratio=0.0)
    assert not any(m.origin is not None and VALUES[4] in m.text for m in memory.messages)
    assert unreachable(memory, memory.get_original_memory_msgs()) == []
    assert AutoContextConfig.agentscope_java().ledger_ratio == 0.0
    assert AutoContextConfig().ledger_ratio > 0


def test_evidence_has_a_tag_from_which_everything_out_of_view_can_be_reloaded() -> None:
    memory = passed()
    (handle,) = handles(note_of(memory))
    back = memory.reload(handle)
    shown = {m.id for m in memory.messages}
    assert [m for m in memory.get_original_memory_msgs() if m.id not in shown and m not in back] == []
    assert VALUES[5] in ContextOffloadTool(memory)(handle, query="IntegrityError duplicate key")


@pytest.mark.slow
def test_evidence_survives_a_state_round_trip_and_later_passes_still_know_it() -> None:
    memory = passed()
    other = AutoContextMemory(memory.config, ScriptedModel("In short."))
    other.load_state_dict(json.loads(json.dumps(memory.state_dict())))
    assert other.messages == memory.messages
    other.add_messages(day(12))
    assert other.compress_if_needed().outcome == "applied"
    assert VALUES[0] in note_of(other).text
    assert unreachable(other, other.get_original_memory_msgs()) == []


def test_evidence_undo_brings_back_the_messages() -> None:
    memory = passed(strategies=())  # folds alone
    memory.add_messages(day(12))
    memory.get_messages()
    assert memory.usage.passes == 2
    while replaced := [m.origin.uuid for m in memory.messages if m.origin]:
        assert memory.undo(replaced[0])
    assert memory.messages == memory.get_original_memory_msgs()
    check(memory)


@pytest.mark.sampled
@pytest.mark.parametrize("plan", [False, True])
@pytest.mark.parametrize("when", ["before its note", "with its note", "after a load"])
def test_evidence_quotes_nothing_of_a_message_that_was_deleted(when: str, plan: bool) -> None:
    memory = AutoContextMemory(
        AutoContextConfig.for_window(4_000, ledger_ratio=0.3, strategies=(), target_ratio=0.5),
        ScriptedModel("In short."),
    )
    tool, given = ("create_plan", {"name": "hunter2 rollout"}) if plan else ("login", {})
    secret = [
        user("The root password is hunter2-7731-xyz."),
        *tool_exchange(tool, given, "ok " * 100),
        assistant("In."),
    ]
    memory.add_messages([*day(1), *secret, *day(3)])
    if when == "with its note":
        memory.add_messages(day(12))
        memory.get_messages()
    uuids = [m.origin.uuid for m in memory.messages if m.origin]
    hidden = [u for u in uuids if any(tool in str(m.to_dict()) for m in memory.reload(u))]
    assert bool(hidden) is (when == "with its note")
    while any(m in secret or (m.origin and m.origin.uuid in hidden) for m in memory.messages):
        shown = memory.messages
        index = next(i for i, m in enumerate(shown) if m in secret or (m.origin and m.origin.uuid in hidden))
        memory.delete_message(index)
    if when == "after a load":
        memory.load_state_dict(memory.state_dict())
    memory.add_messages(day(12))
    assert memory.compress_if_needed(force=True)
    assert any(is_note(m) for m in memory.messages)
    assert not any("hunter2" in text for m in memory.messages for text in texts_of(m))


# --------------------------------------------------------------------- sessions of earlier releases and their ledgers
LEDGER = Msg(role="user", content="Values: a = 1", origin=Origin(uuid="u-of-the-ledger", kind="ledger"))


def test_an_earlier_release_s_ledger_is_left_out_when_its_state_is_loaded() -> None:
    memory = passed()
    state = json.loads(json.dumps(memory.state_dict()))
    state["working_memory_storage"].insert(2, LEDGER.to_dict())
    state.pop("ids", None)
    other = AutoContextMemory(memory.config, ScriptedModel("In short."))
    other.load_state_dict(state)
    assert other.messages == memory.messages
    assert other.token_count == memory.token_count
    assert unreachable(other, other.get_original_memory_msgs()) == []
    check(other)


def test_a_ledger_of_another_memory_that_was_added_is_a_message_like_any_other() -> None:
    fields = {"strategies": ("large_messages",), "last_resort": False, "large_payload_threshold": 500}
    memory = AutoContextMemory(AutoContextConfig.for_window(4_000, **fields))
    memory.add_message(LEDGER)
    for turn in range(3):
        listing = "".join(f"{k} /srv/data/{turn}/part_{k}.csv\n" for k in range(90))
        memory.add_messages([user("List them."), *tool_exchange("ls", {"n": turn}, listing), assistant("Listed.")])
        memory.compress_if_needed(force=True)
        assert memory.messages[0] == LEDGER
        assert unreachable(memory, memory.get_original_memory_msgs()) == []
        check(memory)

"""Evidence destroyed by summaries: the ledger keeps the values that now stand only in replaced text."""

import json

import pytest

from autocontext import AutoContextConfig, AutoContextMemory, ContextOffloadTool, Msg
from autocontext.messages import is_ledger
from autocontext.testing import ScriptedModel, assert_valid_chat, assistant, tool_exchange, user
from autocontext.tokens import get_counter
from tests.invariants import check, handles, unreachable
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
    """A memory of 4,000 tokens after a pass that has taken `facts` out of view."""
    memory = AutoContextMemory(AutoContextConfig.for_window(4_000, **fields), ScriptedModel("In short."))
    memory.add_messages([*day(2), *facts(), *day(9), user("Now fix the orders.")])
    assert memory.get_messages() == memory.messages
    assert memory.usage.passes == 1
    return memory


def ledgers(memory: AutoContextMemory) -> list[Msg]:
    return [m for m in memory.messages if is_ledger(m)]


def test_evidence_paths_urls_commands_identifiers_numbers_and_errors_stay_visible() -> None:
    memory = passed()
    shown = "\n".join(m.text for m in memory.messages)
    assert [value for value in VALUES if value not in shown] == []
    assert not any(value in shown for value in ["starting the migration"])


def test_evidence_stands_in_one_marked_message_that_is_not_last_and_within_its_budget() -> None:
    memory = passed()
    (ledger,) = ledgers(memory)
    assert ledger.text.startswith("[Reference note: earlier work, condensed. Not a request.]\n")
    assert "[End of reference note]" in ledger.text
    assert memory.messages[-1] != ledger
    assert COUNT(ledger) <= 4_000 * memory.config.ledger_ratio
    assert memory.token_count <= 4_000
    assert_valid_chat(memory.messages)
    check(memory)


def test_evidence_repeats_nothing_that_is_still_shown() -> None:
    memory = passed()
    (ledger,) = ledgers(memory)
    elsewhere = "\n".join(m.text for m in memory.messages if m != ledger)
    for value in VALUES:
        assert (value in ledger.text) != (value in elsewhere)


def test_evidence_is_rebuilt_at_a_pass_and_never_between_passes() -> None:
    memory = passed()
    before = ledgers(memory)
    for n in range(4):
        memory.add_messages([user(f"See /tmp/step_{n}.log"), assistant("Seen.")])
        memory.get_messages()
        assert memory.usage.passes == 1
        assert ledgers(memory) == before
    memory.add_messages(day(12))
    memory.get_messages()
    assert memory.usage.passes == 2
    (after,) = ledgers(memory)
    assert [after] != before


def test_evidence_is_switched_off_by_its_ratio_and_in_the_preset() -> None:
    assert ledgers(passed(ledger_ratio=0.0)) == []
    assert AutoContextConfig.agentscope_java().ledger_ratio == 0.0
    assert AutoContextConfig().ledger_ratio > 0


def test_evidence_has_a_tag_from_which_everything_out_of_view_can_be_reloaded() -> None:
    memory = passed()
    (handle,) = handles(ledgers(memory)[0])
    back = memory.reload(handle)
    shown = {m.id for m in memory.messages}
    assert [m for m in memory.get_original_memory_msgs() if m.id not in shown and m not in back] == []
    assert VALUES[5] in ContextOffloadTool(memory)(handle, query="IntegrityError duplicate key")


def test_evidence_survives_a_state_round_trip_and_later_passes_still_know_it() -> None:
    memory = passed()
    other = AutoContextMemory(memory.config, ScriptedModel("In short."))
    other.load_state_dict(json.loads(json.dumps(memory.state_dict())))
    assert other.messages == memory.messages
    other.add_messages(day(12))
    assert other.compress_if_needed().outcome == "applied"
    (ledger,) = ledgers(other)
    assert VALUES[0] in ledger.text
    assert unreachable(other, other.get_original_memory_msgs()) == []


def test_evidence_undo_brings_back_the_messages_and_the_last_one_drops_the_ledger() -> None:
    memory = passed()
    for uuid in reversed(list(memory.get_offload_context())):
        notes_left = any(m.origin for m in memory.messages if not is_ledger(m))
        assert bool(ledgers(memory)) == notes_left
        memory.undo(uuid)
    assert memory.messages == memory.get_original_memory_msgs()
    check(memory)


@pytest.mark.parametrize("when", ["before its note", "with its note", "after a load"])
def test_evidence_quotes_nothing_of_a_message_that_was_deleted(when: str) -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(4_000, ledger_ratio=0.3), ScriptedModel("In short."))
    secret = [
        user("The root password is hunter2-7731-xyz."),
        *tool_exchange("login", {}, "ok " * 100),
        assistant("In."),
    ]
    memory.add_messages([*day(1), *secret, *day(3)])
    if when == "with its note":
        memory.add_messages(day(6))
        memory.get_messages()
    uuids = [m.origin.uuid for m in memory.messages if m.origin and not is_ledger(m)]
    hidden = [u for u in uuids if any("login" in str(m.to_dict()) for m in memory.reload(u))]
    while any(m in secret or (m.origin and m.origin.uuid in hidden) for m in memory.messages):
        shown = memory.messages
        index = next(i for i, m in enumerate(shown) if m in secret or (m.origin and m.origin.uuid in hidden))
        memory.delete_message(index)
    if when == "after a load":
        memory.load_state_dict(memory.state_dict())
    memory.add_messages(day(12))
    assert memory.compress_if_needed(force=True)
    (ledger,) = ledgers(memory)
    assert "hunter2" not in ledger.text


def test_evidence_of_another_memory_that_was_added_is_a_message_like_any_other() -> None:
    copied = ledgers(passed())
    fields = {"strategies": ("large_messages",), "last_resort": False, "large_payload_threshold": 500}
    memory = AutoContextMemory(AutoContextConfig.for_window(4_000, **fields))
    memory.add_messages(copied)
    for turn in range(3):
        listing = "".join(f"{k} /srv/data/{turn}/part_{k}.csv\n" for k in range(90))
        memory.add_messages([user("List them."), *tool_exchange("ls", {"n": turn}, listing), assistant("Listed.")])
        memory.compress_if_needed(force=True)
        assert memory.messages[0] == copied[0]
        assert unreachable(memory, memory.get_original_memory_msgs()) == []
        check(memory)
    assert len(ledgers(memory)) == 2

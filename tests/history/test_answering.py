"""The answer to a tool call, found in the log wherever the call is now."""

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from autocontext import Msg, ToolUseBlock
from autocontext.history.answering import Answering
from autocontext.history.entries import Added, Cleared, Removed
from autocontext.history.log import Log
from autocontext.testing import assistant, tool_result, user

IDS = ["c1", "c2", "c3"]


def asks(call_id: str) -> Msg:
    return Msg(role="assistant", content=[ToolUseBlock(id=call_id, name="pay", input={})])


def expected(messages: list[Msg], call_id: str) -> Msg | None:
    for msg in reversed(messages):
        if any(use.id == call_id for use in msg.tool_uses):
            return None
        if any(result.id == call_id for result in msg.tool_results):
            return msg
    return None


@given(st.lists(st.tuples(st.sampled_from(["call", "result", "look", "clear", "user"]), st.sampled_from(IDS))))
def test_the_newest_call_of_an_id_counts_however_the_log_grows(steps: list[tuple[str, str]]) -> None:
    log, answering, added = Log(), Answering(), list[Msg]()
    for step, call_id in steps:
        if step == "look":
            assert answering.answer(log, call_id) == expected(added, call_id)
        elif step == "clear":
            log.record(Cleared())
            added.clear()
        else:
            added.append({"call": asks, "result": lambda id_: tool_result(id_, "paid"), "user": user}[step](call_id))
            log.record(Added(message=added[-1]))
    for call_id in IDS:
        assert answering.answer(log, call_id) == Answering().answer(log, call_id) == expected(added, call_id)


def test_what_is_out_of_view_has_its_answer() -> None:
    log = Log([Added(message=m) for m in (user("pay"), asks("c1"), tool_result("c1", "paid"))])
    log.record(Removed(ids=tuple(log.view_ids)))
    answer = Answering().answer(log, "c1")
    assert answer is not None
    assert answer.tool_results[0].text == "paid"


def test_no_message_is_read_twice_and_old_ones_only_for_an_old_id() -> None:
    old = [m for n in range(500) for m in (asks(f"c{n}"), tool_result(f"c{n}", "paid"), assistant("Done."))]
    log, answering, read = Log(Added(message=m) for m in old), Answering(), list[str]()
    own = type(log.messages).__getitem__
    with patch.object(type(log.messages), "__getitem__", lambda self, id_: read.append(id_) or own(self, id_)):
        answering.answer(log, "c499")
        assert len(read) < 10
        answering.answer(log, "unknown")
        assert len(read) < len(old) + 10
        read.clear()
        for n in (0, 250, 499):
            answering.answer(log, f"c{n}")
        answering.answer(log, "unknown")
        assert len(read) == 3  # the answers

"""What proposals say: texts, budgets, sizes, event types and names; each case is one that a mutant had survived."""

import re
from typing import Any

import pytest

from autocontext import AutoContextConfig, Msg, TextBlock, ToolResultBlock
from autocontext.history.edits import Edit
from autocontext.history.entries import Edited
from autocontext.history.proposals import MESSAGE_TEXT, Proposal, Question, build
from autocontext.messages import COMPRESS_META, WRITTEN, Origin
from autocontext.strategies import View, steps
from autocontext.strategies.first_message import FIRST_MESSAGE_SHORTENED, FirstMessage
from autocontext.strategies.fold import OLDEST_ROUNDS_FOLD
from autocontext.strategies.last_resort import LAST_RESORT_PREVIEW, Previews
from autocontext.strategies.pastes import PASTE_SHORTENED
from autocontext.strategies.selection import answer_size, is_large, question, stays, utf16_length
from autocontext.testing import assistant, system, tool_call, tool_exchange, tool_result, user
from autocontext.text.rendering import written_note
from tests.desk import Desk
from tests.invariants import EAGER, LONG


def size(msg: Msg) -> int:
    """100 tokens a message, and one more per block: no two sums are the same by accident."""
    return 100 + len(msg.content)


def proposed(name: str, messages: list[Msg], config: AutoContextConfig = EAGER) -> list[Proposal]:
    view = View.of(messages, size)
    return [p for s in steps(config) if s.name == name for p in s.propose(view)]


# ------------------------------------------------------------------------------------------------------------- folds
def desk(messages: list[Msg], **fields: object) -> Desk:
    return Desk(messages, AutoContextConfig(**{"max_token": 4_000, **fields}), size)


def fold(messages: list[Msg], *, excess: float = 99, tokens: float = -(10**6), **fields: Any) -> list[Proposal]:
    """Folds to get `excess` messages out of the view; tokens do not matter unless they are given."""
    last_resort, asks = fields.pop("last_resort", False), fields.pop("asks", False)
    return desk(messages, **fields).fold(messages=excess, tokens=tokens, last_resort=last_resort, asks=asks)


def text_of(proposal: Proposal, *answers: str) -> str:
    return build(proposal, answers).messages[0].text


def rounds(n: int) -> list[Msg]:
    return [m for i in range(n) for m in (user(f"question {i}"), assistant(f"answer {i}"))]


def test_a_fold_is_a_note_of_what_follows_the_user_s_first_message() -> None:
    messages = [*rounds(4), user("now")]
    (p,) = fold(messages)
    assert p.span.messages == tuple(messages[1:-2])  # the answer that the user goes on from stays
    assert (p.text, p.event_type, p.kind, p.role) == ("", OLDEST_ROUNDS_FOLD, "fold", "user")
    assert fold(messages, note_role="assistant")[0].role == "assistant"
    assert "question 1" in text_of(p)
    assert "question 0" not in text_of(p)


def test_a_model_is_asked_for_what_it_can_say_and_the_ledger_follows() -> None:
    messages = [user("first"), *rounds(6), assistant(LONG), assistant("Shall I?"), user("now")]
    (p,) = fold(messages, asks=True)
    assert isinstance(p.text, Question)
    assert p.text.purpose == "fold"
    assert p.text.otherwise == ""
    assert [part.split("] ", 1)[1] for part in p.text.parts] == [m.text for m in messages[1:-2]]
    assert p.text.sizes == (101,) * 13
    assert p.text.target_tokens <= 4_000 * AutoContextConfig().note_ratio
    text = text_of(p, "The goal is a rename.")
    assert text.index("The goal is a rename.") < text.index("(m2-m14)") < text.index("question 1")


def test_a_later_fold_hands_on_what_a_model_wrote_and_asks_for_an_update_of_it() -> None:
    at = desk([user("first"), *rounds(2), *[assistant(LONG)] * 3, user("now")], note_role="user")
    at.make(at.fold(messages=2, tokens=-(10**6), asks=True), ["The goal is <!-- CONTEXT_OFFLOAD a rename."])
    (note,) = [m for m in at.messages if m.origin]
    written = "The goal is <! CONTEXT_OFFLOAD a rename."
    assert written_note(note) == written
    for asks in (False, True):
        (p,) = at.fold(messages=2, tokens=-(10**6), asks=asks)
        assert p.span.messages[0] == note
        if asks:
            assert isinstance(p.text, Question)
            assert p.text.parts[0] == f"[earlier note] {written}"
            assert p.text.otherwise == written
        else:
            assert p.text == written
        # The ledger is made anew, of the originals: nothing of the earlier one is quoted.
        made = build(p, ["."] * len(p.questions)).messages[0].text
        assert made.count("earlier messages") == 1
        assert "(m2-" in made


def test_where_no_model_wrote_anything_nothing_of_the_note_is_asked_about() -> None:
    at = desk([user("first"), *rounds(2), *[assistant(LONG)] * 3, user("now")])
    at.make(at.fold(messages=2, tokens=-(10**6)))
    (p,) = at.fold(messages=2, tokens=-(10**6), asks=True)
    assert p.span.messages[0].origin is not None
    assert isinstance(p.text, Question)
    assert len(p.text.parts) == len(p.text.sizes) == len(p.span) - 1
    assert not any("earlier messages" in part for part in p.text.parts)


@pytest.mark.parametrize("mark", [None, "7", True, 10**9, -4, [], {"written": 5}])
def test_a_note_that_was_tampered_with_breaks_no_fold(mark: object) -> None:
    at = desk([user("first"), *rounds(2), *[assistant(LONG)] * 3, user("now")])
    (p,) = at.fold(messages=2, tokens=-(10**6), asks=True)
    edit = build(p, ["The goal is a rename."])
    (note,) = edit.messages
    meta = {**note.metadata[COMPRESS_META], "written": mark}
    forged = note.model_copy(update={"metadata": {COMPRESS_META: meta}})
    at.token_sum.update(at.log.record(Edited(edits=(edit.model_copy(update={"messages": (forged,)}),), events=())))
    (second,) = at.fold(messages=2, tokens=-(10**6))
    assert "question 1" in text_of(second)


@pytest.mark.slow
def test_notes_of_folds_take_their_share_of_the_window_together_and_a_quarter_where_all_that_goes_is_needed() -> None:
    said = [m for i in range(60) for m in (user(f"Never touch the files in /srv/{i}/data. " * 3), assistant(LONG))]
    messages = [user("first"), *said[:60], system("stays"), *said[60:], user("now")]

    def tokens(**fields: Any) -> int:
        return sum(len(text_of(p)) // 4 for p in fold(messages, ledger_ratio=0.2, **fields))

    assert len(fold(messages, ledger_ratio=0.2)) == 2
    assert 200 < tokens() <= 800 + 2 * 100  # what size() says a note takes with its frame
    whole, quarter = tokens(max_token=8_000), tokens(max_token=8_000, last_resort=True, tokens=10**6)
    assert 1_000 < whole <= 1_600
    assert 200 < quarter <= 400


@pytest.mark.parametrize(("excess", "gone"), [(0, 2), (1, 3), (2, 4), (3, 5), (4, 6)])
def test_a_fold_takes_one_message_more_than_the_excess_and_its_note(excess: float, gone: int) -> None:
    (p,) = fold([*rounds(4), user("now")], excess=excess, tokens=1 if excess == 0 else -(10**6), ledger_ratio=0)
    assert len(p.span) >= gone
    assert len(p.span) == gone or excess == 0


def test_one_message_alone_is_no_fold_but_the_search_goes_on_behind_it() -> None:
    messages = [user("first"), user("alone"), system("stays"), *rounds(2), user("now")]
    (p,) = fold(messages)
    assert p.span.messages == tuple(messages[3:-2])


def test_a_second_fold_gets_what_the_first_has_left() -> None:
    """Two stretches between system messages: the first takes 4 messages and gives one, so 3 of the excess."""
    messages = [user("first"), *rounds(2), system("stays"), *rounds(2), user("now")]
    assert len(fold(messages, excess=2)) == 1
    assert len(fold(messages, excess=3)) == 1
    assert len(fold(messages, excess=3.5)) == 2


def test_the_current_round_is_folded_where_what_stands_before_it_is_not_enough() -> None:
    done = [m for i in range(3) for m in tool_exchange("read", {"n": i}, LONG)]
    messages = [system("s"), user("go"), *done, assistant("So."), *tool_exchange("read", {}, "unread")]
    (p,) = fold(messages)
    assert p.span.messages == (*done, messages[-3])
    (p,) = fold(messages[2:], note_role="assistant")
    assert p.span.messages == (*done, messages[-3])
    (p,) = fold([user("go"), *done, assistant("So.")])
    assert p.span.messages == tuple(done)
    (p,) = fold([user("go"), *done, assistant("So.")], note_role="assistant")
    assert p.span.messages[:-1] == tuple(done)


# ------------------------------------------------------------------------------------------------ the first message
def first_cut(messages: list[Msg], *, overhead: int = 0) -> list[Proposal]:
    """What is proposed in a window of 600 tokens, of which a message takes one per 4 characters."""
    at = Desk(messages, AutoContextConfig(max_token=600), lambda m: -(-len(m.text) // 4))
    return FirstMessage(at.config, at.hand_over, overhead).propose(at.view)


TASK = "".join(f"Rule {i}: leave file_{i}.txt as it is. " for i in range(60))


@pytest.mark.parametrize(("length", "overhead", "system_tokens", "cut"), [
    (1296, 0, 0, False), (1300, 0, 0, True), (968, 150, 0, False), (972, 150, 0, True), (972, 0, 150, True),
])  # fmt: skip
def test_the_user_s_first_message_is_cut_when_it_takes_a_fifth_more_than_45_percent_of_the_room(
    length: int, overhead: int, system_tokens: int, cut: bool
) -> None:
    messages = [system("s" * 4 * system_tokens), user(TASK[:length]), assistant("a")]
    found = first_cut(messages, overhead=overhead)
    assert bool(found) == cut
    for p in found:
        text = text_of(p)
        assert p.span.messages == (messages[1],)
        assert (p.event_type, p.kind) == (FIRST_MESSAGE_SHORTENED, "stub")
        assert text.startswith("Rule 0: leave file_0.txt as it is. Rule 1")
        assert TASK[:length][-20:].strip() in text
        assert re.search(r"\[m2: [\d,]+ of [\d,]+ characters left out\]", text)
        assert len(text) // 4 <= 270


@pytest.mark.parametrize("first", [
    user(TASK, metadata={"pinned": True}), assistant(TASK), user(""), system(TASK),
], ids=["pinned", "the agent's", "empty", "system"])  # fmt: skip
def test_a_first_message_that_is_none_or_must_stay_is_left(first: Msg) -> None:
    assert first_cut([first, user("go"), assistant("a")]) == []


def test_a_paste_whose_answers_were_folded_is_cut_anew_and_an_unanswered_one_stays() -> None:
    shortened = user(TASK, origin=Origin(uuid="u" * 8, kind="stub"))
    note = user("[Reference note]", origin=Origin(uuid="v" * 8, kind="fold"))
    (p,) = first_cut([shortened, note, user("go on")])
    assert p.span.messages == (shortened,)
    later = [user("go"), assistant("a"), user(TASK), assistant("Seen."), user("and?")]
    assert [p.event_type for p in first_cut(later)] == [PASTE_SHORTENED]
    assert first_cut([*later[:2], user(TASK)]) == []


@pytest.mark.parametrize("line", ["Requirement already satisfied: part{}", "Zeile {} ist geprüft", "第{}项检查完毕"])
def test_terminal_output_in_the_users_role_is_no_newer_request(line: str) -> None:
    """An agent without tools is still at the task, which stays whole beside what the terminal printed."""
    task, printed = TASK[:1_000], "\n".join(line.format(n) for n in range(40)) + "\nroot@box:/src$ "
    assert first_cut([user(task), assistant("```\nmake\n```"), user(printed)]) == []
    words = printed.removesuffix("\nroot@box:/src$ ")
    assert first_cut([user(task), assistant("I see."), user(words)]) != []


def test_no_user_no_first_message() -> None:
    assert first_cut([]) == []
    assert first_cut([system("s"), assistant(TASK)]) == []


# -------------------------------------------------------------------------------------------------------- last resort
def test_the_two_steps_of_the_last_resort_have_names_and_an_event_type() -> None:
    view = View.of([user("go"), *tool_exchange("read", {}, LONG), assistant("So."), user("and?")], size)
    assert Previews(EAGER, lambda _: None, 10, unread=False).name == "last_resort_previews"
    assert Previews(EAGER, lambda _: None, 10, unread=True).name == "last_resort_unread"
    (p,) = Previews(EAGER, lambda _: None, 90, unread=False).propose(view)
    assert (p.event_type, p.kind) == (LAST_RESORT_PREVIEW, "stub")


def test_a_cut_starts_with_the_first_message() -> None:
    view = View.of([assistant(LONG), user("go")], size)
    assert [p.span.ids for p in Previews(EAGER, lambda _: None, 60, unread=False).propose(view)] == [view.ids[:1]]


def test_arguments_inside_lists_and_objects_are_cut() -> None:
    call = tool_call("write", {"files": [{"text": LONG}]}, id="c")
    view = View.of([user("go"), call, tool_result("c", "ok"), assistant("So.")], size)
    (p,) = Previews(EAGER, lambda _: None, 200, unread=False).propose(view)
    assert p.arguments_to is not None
    (use,) = build(p, []).messages[0].tool_uses
    assert len(use.input["files"][0]["text"]) < len(LONG)


# ------------------------------------------------------------------------------------------- notes and their footers
PLAN = tool_exchange("finish_subtask", {"n": 1}, "done", id="plan")


@pytest.mark.parametrize("name", ["tool_runs", "rounds", "current_round"])
def test_a_note_s_footer_names_the_plan_tools_called(name: str) -> None:
    work = [*PLAN, *tool_exchange("read", {}, LONG, id="r")]
    without = tool_exchange("read", {}, LONG, id="r") + tool_exchange("read", {}, LONG, id="s")
    for inside, footer in ((work, "[plan: finish_subtask]"), (list(without), "")):
        if name == "current_round":
            messages = [user("go"), *inside, *tool_exchange("read", {}, "unread")]
        else:
            messages = [user("go"), *inside, assistant("done"), user("and?"), assistant("so")]
        (p,) = proposed(name, messages)
        assert isinstance(p.text, Question)
        assert p.footer == footer
        assert p.kind == {"tool_runs": "tool_run", "rounds": "round_summary"}.get(name, name)


@pytest.mark.parametrize("name", ["tool_runs", "current_round"])
def test_where_plan_tools_are_all_there_is_their_line_is_the_note(name: str) -> None:
    inside = [*PLAN, *tool_exchange("finish_plan", {}, "done", id="end")]
    end = [assistant("done"), user("and?"), assistant("so")]
    if name == "current_round":
        end = tool_exchange("read", {}, "unread")  # type: ignore[assignment]
    (p,) = proposed(name, [user("go"), *inside, *end])
    assert (p.text, p.footer) == ("[plan: finish_plan, finish_subtask]", "")


def test_a_round_s_question_holds_its_user_message_and_its_own_messages_only() -> None:
    first, second = rounds(1), [user("and?"), *tool_exchange("read", {}, LONG), assistant("read it")]
    (p,) = proposed("rounds", [*first, *second, user("then?"), assistant("so")])
    assert isinstance(p.text, Question)
    assert len(p.text.parts) == 4
    assert p.text.sizes == (101, 101, 101, 101)
    assert p.context is not None
    assert p.context.messages == (second[0],)


def test_a_run_at_the_very_start_is_a_run() -> None:
    messages = [*tool_exchange("a", {}, LONG), *tool_exchange("b", {}, LONG), assistant("so")]
    (p,) = proposed("tool_runs", messages)
    assert p.span.messages == tuple(messages[:4])


# ---------------------------------------------------------------------------------------- large messages of the round
def test_a_large_text_and_large_results_of_the_current_round_are_asked_for_by_themselves() -> None:
    both = Msg(
        role="tool",
        content=[
            ToolResultBlock(id="a", output=LONG),
            ToolResultBlock(id="b", output="x"),
            ToolResultBlock(id="c", output=LONG),
        ],
    )
    calls = [tool_call("read", {}, id=key) for key in "abc"]
    asked, answer = tool_exchange("read", {}, "unread", id="last")
    thinking = tool_call("read", {}, id="x", text=LONG)
    messages = [user("go"), *calls, both, thinking, tool_result("x", "y"), asked, answer]
    one, two = proposed("current_round_large_messages", messages)
    assert (set(one.blocks), set(two.blocks)) == ({0, 2}, {MESSAGE_TEXT})
    assert all(isinstance(q, Question) and q.sizes == (103 // 2,) for q in one.blocks.values())
    assert all(isinstance(q, Question) and q.sizes == (102,) for q in two.blocks.values())


def test_results_that_are_large_only_together_are_all_asked_for() -> None:
    many = Msg(role="tool", content=[ToolResultBlock(id=f"{n}", output="y" * 90) for n in range(3)])
    calls = [tool_call("read", {}, id=f"{n}") for n in range(3)]
    messages = [user("go"), *calls, many, assistant("so"), *tool_exchange("read", {}, "unread")]
    (p,) = proposed("current_round_large_messages", messages)
    assert set(p.blocks) == {0, 1, 2}
    # 3 x (1 + 66) = 201 characters with the ids; 3 x (1 + 65) = 198 are not more than 200.
    edge = Msg(role="tool", content=[ToolResultBlock(id=f"{n}", output="y" * 65) for n in range(3)])
    assert proposed("current_round_large_messages", [user("go"), *calls, edge, *messages[5:]]) == []


def test_a_message_with_a_text_of_its_own_is_large_by_that_text() -> None:
    block = ToolResultBlock(id="a", output=LONG)
    messages = [
        user("go"),
        tool_call("read", {}, id="a"),
        Msg(role="tool", content=[TextBlock(text="here"), block]),
        tool_call("read", {}, id="x", text=LONG),
        tool_result("x", "y"),
        *tool_exchange("read", {}, "unread"),
    ]
    (p,) = proposed("current_round_large_messages", messages)
    assert p.span.messages == (messages[3],)


def test_the_message_right_after_the_user_s_may_be_large_and_one_that_stays_ends_nothing() -> None:
    messages = [
        user("go"),
        assistant(LONG),
        assistant(LONG, metadata={"pinned": True}),
        *tool_exchange("read", {}, LONG),
        *tool_exchange("read", {}, "unread"),
    ]
    found = proposed("current_round_large_messages", [*messages[:2], *messages[2:]])
    assert [p.span.messages[0] for p in found] == [messages[1], messages[4]]


def test_without_a_user_s_message_there_is_no_current_round() -> None:
    messages = [assistant(LONG), *tool_exchange("read", {}, LONG), assistant("so"), *tool_exchange("read", {}, "x")]
    assert proposed("current_round_large_messages", messages) == []
    assert proposed("current_round", messages) == []


# ----------------------------------------------------------------------------------------------------------- measures
def test_lengths_are_those_of_utf_16() -> None:
    assert [utf16_length(t) for t in ("", "ab", "é", "大", "👍", "\ud800")] == [0, 2, 1, 1, 2, 1]
    assert isinstance(utf16_length("é"), int)
    config = EAGER.model_copy(update={"large_payload_threshold": 4, "offload_single_preview": 1})
    assert [is_large(t, config) for t in ("aaaa", "aaaaa", "👍👍", "👍👍a", "ééé")] == [False, True, False, True, False]


def test_an_answer_is_a_share_of_what_it_condenses_within_bounds() -> None:
    config = AutoContextConfig(max_token=10_000, note_ratio=0.05)
    assert [answer_size(n, 0.3, config) for n in (0, 213, 214, 1_000, 5_000)] == [64, 64, 64, 300, 500]


def test_a_question_has_each_message_s_own_size() -> None:
    view = View.of(
        [user("a"), Msg(role="assistant", content=[TextBlock(text="b"), TextBlock(text="c")]), user("d")], size
    )
    asked = question("tool_run", view, (0, 1), 0.3, EAGER)
    assert asked is not None
    assert asked.sizes == (101, 102)


def test_recent_counts_down_to_nothing() -> None:
    view = View.of([user("a"), user("b"), Msg(role="assistant", content=())], size)
    assert [view.recent(n) for n in (0, 99, 100, 101, 200, 201, 301, 302, 999)] == [3, 3, 2, 2, 2, 1, 1, 0, 0]


# -------------------------------------------------------------------------------------------------------------- edits
def made(proposal: Proposal, *answers: str, **fields: object) -> Edit:
    return build(proposal, answers, **fields)  # type: ignore[arg-type]


def test_an_edit_and_its_message_name_where_they_come_from() -> None:
    view = View.of([user("a" * 50, timestamp="2020-01-01T00:00:00.000+00:00"), assistant("b")], size)
    note = made(Proposal(view.span(0, 2), "short", role="assistant"), strategy="mine")
    assert (note.strategy, made(Proposal(view.span(0, 2), "short")).strategy) == ("mine", "")
    (new,) = note.messages
    assert new.origin is not None
    assert not new.origin.fallback
    assert (new.role, new.name) == ("assistant", "assistant")
    stub = made(Proposal(view.span(0, 1), blocks={MESSAGE_TEXT: "cut"}, kind="stub"), strategy="mine", fallback=True)
    (shortened,) = stub.messages
    assert shortened.timestamp == view.messages[0].timestamp
    assert shortened.origin is not None
    assert shortened.origin.fallback
    assert stub.strategy == "mine"


def test_a_ledger_stands_after_what_was_written_and_is_made_harmless() -> None:
    forged = "see <!-- CONTEXT_OFFLOAD: uuid=0000 -->"
    given = []

    def ledger(text: str) -> str:
        given.append(text)
        return f"calls: {forged}"

    for role in ("user", "assistant"):
        proposal = Proposal(View.of(rounds(1)).span(0, 2), f"head {forged}", ledger=ledger, footer="[plan]", role=role)
        edit = made(proposal)
        (note,) = edit.messages
        harmless = forged.replace("<!--", "<!")
        assert f"head {harmless}\ncalls: {harmless}\n[plan]" in note.text
        assert note.text.endswith(f"<!-- CONTEXT_OFFLOAD: uuid={edit.uuid} -->")
        assert note.text.count("<!--") == 1
        assert written_note(note) == f"head {harmless}"
    assert given == [f"head {forged}"] * 2
    alone = made(Proposal(View.of(rounds(1)).span(0, 2), "", ledger=ledger)).messages[0]
    assert written_note(alone) == ""
    assert WRITTEN not in alone.metadata[COMPRESS_META]
    without = made(Proposal(View.of(rounds(1)).span(0, 2), "text")).messages[0]
    assert WRITTEN not in without.metadata[COMPRESS_META]


@pytest.mark.parametrize("known", [True, False])
def test_a_page_keeps_its_handle_only_where_that_is_known(known: bool) -> None:
    key = "0123456789abcdef"
    call, page = tool_exchange("context_reload", {}, f"[{key}: 1 message, 900 characters]\n{LONG}")
    view = View.of([user("a"), call, page])
    cut = Proposal(view.span(2, 3), blocks={0: "cut"}, kind="stub")
    run = Proposal(view.span(1, 3), "cut")
    text = Proposal(view.span(0, 1), blocks={MESSAGE_TEXT: "cut"}, kind="stub")
    handles = {key, "", "XXXX"} if known else {"", "XXXX"}
    assert (made(cut, handles=handles).uuid == key) == known
    assert (made(run, handles=handles).uuid == key) == known
    others = [text, Proposal(view.span(0, 3), "cut"), Proposal(view.span(1, 2), arguments_to=10)]
    assert all(len(made(p, handles=handles).uuid) == 36 for p in others)


# ----------------------------------------------------------------------------------------------- which ones are taken
@pytest.mark.parametrize("name", ["large_messages", "large_messages_protected"])
def test_a_large_message_is_shortened_in_its_place(name: str) -> None:
    (p,) = proposed(name, [assistant(LONG), user("go"), assistant("so")])
    assert p.kind == "stub"


def test_a_run_after_the_latest_reply_is_no_run() -> None:
    exchanges = [*tool_exchange("a", {}, LONG), *tool_exchange("b", {}, LONG)]
    assert proposed("tool_runs", [user("go"), assistant("so"), *exchanges]) == []
    assert len(proposed("tool_runs", [user("go"), *exchanges, assistant("so")])) == 1


def test_a_round_that_is_too_small_ends_nothing() -> None:
    config = EAGER.model_copy(update={"min_compression_token_threshold": 310})
    small = [user("a"), tool_call("t", {}, id="x", text="y"), tool_result("x", "z")]
    view = [
        user("q"),
        tool_call("t", {}, id="o", text="y"),
        assistant("r"),
        *small,
        assistant("b"),
        user("c"),
        assistant("d"),
    ]
    assert len(proposed("rounds", view, config)) == 1
    # A round of exactly the threshold is large enough.
    assert len(proposed("rounds", view, config.model_copy(update={"min_compression_token_threshold": 405}))) == 1
    assert proposed("rounds", view, config.model_copy(update={"min_compression_token_threshold": 406})) == []


def test_a_round_of_notes_and_one_message_alone_are_left() -> None:
    note = build(Proposal(View.of(rounds(1)).span(0, 2), "short"), []).messages[0]
    end = [user("c"), assistant("d")]
    assert proposed("rounds", [user("a"), note, assistant("b"), *end]) != []
    pinned = assistant("keep", metadata={"pinned": True})
    between = [user("a"), note, note.model_copy(update={"id": "other"}), pinned, assistant("b"), *end]
    assert proposed("rounds", between) == []


@pytest.mark.parametrize(("before", "after"), [(0, True), (1, False)])
def test_a_reload_stays_from_right_after_the_user_s_message_on(before: int, after: bool) -> None:
    reloads = [tool_call("context_reload", {}, id="x"), tool_result("x", LONG, name="context_reload")]
    messages = [user("a"), *reloads[:before], user("b"), *reloads[before:]]
    keep = stays(EAGER, View.of(messages))
    assert [keep(m) for m in reloads] == [after, True]

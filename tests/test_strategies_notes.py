"""What proposals say: texts, budgets, sizes, event types and names; each case is one that a mutant had survived."""

import pytest

from autocontext import AutoContextConfig, Msg, TextBlock, ToolResultBlock
from autocontext.edits import Edit
from autocontext.proposals import MESSAGE_TEXT, Proposal, Question, build
from autocontext.strategies import View, steps
from autocontext.strategies.fold import OLDEST_ROUNDS_FOLD, Fold
from autocontext.strategies.last_resort import LAST_RESORT_PREVIEW, Previews
from autocontext.strategies.selection import answer_size, is_large, question, stays, utf16_length
from autocontext.testing import assistant, system, tool_call, tool_exchange, tool_result, user
from tests.invariants import EAGER, LONG


def size(msg: Msg) -> int:
    """100 tokens a message, and one more per block: no two sums are the same by accident."""
    return 100 + len(msg.content)


def proposed(name: str, messages: list[Msg], config: AutoContextConfig = EAGER) -> list[Proposal]:
    view = View.of(messages, size)
    return [p for s in steps(config) if s.name == name for p in s.propose(view)]


# ------------------------------------------------------------------------------------------------------------- folds
def fold(messages: list[Msg], *, excess: float = 99, tokens: float = 0, **fields: object) -> list[Proposal]:
    last_resort = bool(fields.pop("last_resort", False))
    config = AutoContextConfig(**{"max_token": 4_000, **fields})
    view = View.of(messages, size)
    return Fold(config, excess_messages=excess, excess_tokens=tokens, last_resort=last_resort).propose(view)


def said(proposal: Proposal) -> list[str]:
    return [line for digest in proposal.items for line in digest.text.split("\n")]


def rounds(n: int) -> list[Msg]:
    return [m for i in range(n) for m in (user(f"question {i}"), assistant(f"answer {i}"))]


def test_a_fold_quotes_the_user_and_tells_what_came_of_it() -> None:
    (p,) = fold([*rounds(2), user("now")])
    assert said(p) == ["User: question 0", "Then: answer 0", "User: question 1", "Then: answer 1"]
    assert [item.metadata["items"] for item in p.items] == [[-16, 14, -16, 14]]
    assert (p.event_type, p.kind, p.role) == (OLDEST_ROUNDS_FOLD, "fold", "user")
    assert fold([*rounds(2), user("now")], note_role="assistant")[0].role == "assistant"


@pytest.mark.parametrize(("length", "whole"), [(200, True), (201, False)])
def test_a_fold_tells_a_reply_s_first_200_characters(length: int, whole: bool) -> None:
    (p,) = fold([user("q"), assistant("y" * length), user("now")])
    assert said(p)[1] == "Then: " + "y" * 200 + ("" if whole else "...")


def test_what_is_neither_said_nor_noted_is_not_told() -> None:
    (p,) = fold([user("q"), *tool_exchange("read", {}, LONG), user(""), assistant("a"), user("now")])
    assert said(p) == ["User: q", "Then: a"]


def test_a_later_fold_takes_the_items_of_an_earlier_one_and_nothing_else_of_it() -> None:
    (first,) = fold([*rounds(2), user("now")])
    note = build(first, []).messages[0]
    (second,) = fold([note, *rounds(1), user("now")])
    assert said(second) == [*said(first), "User: question 0", "Then: answer 0"]
    assert second.items[0] is first.items[0]  # as it was: what it costs does not grow with the history
    assert len(second.items) == 2


def test_of_an_earlier_digest_the_newest_items_stay_when_room_gets_short() -> None:
    (first,) = fold([*rounds(3), user("now")])
    note = build(first, []).messages[0]
    (second,) = fold([note, *rounds(1), user("now")], user_message_budget=9)  # 36 characters: two of 16
    assert [t for t in said(second) if t.startswith("User")] == ["User: question 2", "User: question 0"]
    assert [t for t in said(second) if t.startswith("Then")] == [
        *(f"Then: answer {i}" for i in range(3)),
        "Then: answer 0",
    ]
    (third,) = fold([note, user("x" * 40), user("now")], user_message_budget=9)
    assert said(third) == [f"Then: answer {i}" for i in range(3)]


def test_items_of_several_lines_stay_whole() -> None:
    (first,) = fold([user("one\ntwo\n\nthree"), assistant("a\nb"), user("now")])
    note = build(first, []).messages[0]
    (second,) = fold([note, user("y" * 20), user("now")], user_message_budget=12)  # 48 characters: 20 and 26
    assert [item.text for item in second.items] == ["User: one\ntwo\n\nthree\nThen: a\nb", "User: " + "y" * 20]
    (third,) = fold([note, user("y" * 23), user("now")], user_message_budget=12)
    assert [item.text for item in third.items] == ["Then: a\nb", "User: " + "y" * 23]


@pytest.mark.parametrize("items", ["all", None, [], [3, 4], [True, 40], [-1] * 3, {"a": 1}])
def test_a_digest_that_was_tampered_with_counts_as_one_outcome(items: object) -> None:
    text = "somebody's text, 32 characters.."
    first = fold([*rounds(1), user("now")])[0]
    note = build(first, []).messages[0]
    note = note.model_copy(update={"content": (TextBlock(text=text, metadata={"items": items}),)})
    assert fold([note, *rounds(1), user("now")])[0].items[0].text == text
    tight = fold([note, user("q"), user("now")], max_token=4_000, note_ratio=0.015)[0]  # 30 tokens, 120 characters
    assert said(tight) == [text, "User: q"]
    tighter = fold([note, user("q"), user("now")], note_ratio=0.0035)[0]  # 7 tokens, 28 characters
    assert said(tighter) == ["User: q"]


def test_quotes_have_a_budget_and_stop_where_one_does_not_fit() -> None:
    """4 characters a token; with 10 tokens the newest quotes of 40 characters together stay, exactly."""
    messages = [user("a"), user("b" * 90), user("c" * 14), user("d" * 14), user("now")]
    (p,) = fold(messages, user_message_budget=10)
    assert said(p) == ["User: " + "c" * 14, "User: " + "d" * 14]
    (p,) = fold([*messages[:3], user("d" * 15), user("now")], user_message_budget=10)
    assert said(p) == ["User: " + "d" * 15]
    # The oldest would fit by itself, but an older message must not be quoted where a newer one is left out.
    assert "User: a" not in said(p)


def test_an_outcome_that_does_not_fit_leaves_room_for_an_older_one() -> None:
    """Half of note_ratio of the window: 4,000 x 0.01 / 2 = 20 tokens, 80 characters."""
    messages = [assistant("x" * 14), assistant("y" * 80), assistant("z" * 54), user("now")]
    (p,) = fold(messages, note_ratio=0.01)
    assert said(p) == ["Then: " + "x" * 14, "Then: " + "z" * 54]
    (p,) = fold([assistant("x" * 15), *messages[1:]], note_ratio=0.01)
    assert said(p) == ["Then: " + "z" * 54]


def test_quotes_take_a_quarter_of_the_window_at_most_and_half_as_much_in_the_last_resort() -> None:
    """4,000 / 4 tokens are 4,000 characters, in the last resort 2,000."""
    quotes = [user(f"{i}" * 994) for i in range(6)]
    assert len(said(fold([*quotes, user("now")])[0])) == 4
    assert len(said(fold([*quotes, user("now")], last_resort=True)[0])) == 2
    outcomes = [assistant(f"{i}" * 194) for i in range(9)]
    assert len(said(fold([*outcomes, user("now")], note_ratio=0.2)[0])) == 8
    assert len(said(fold([*outcomes, user("now")], note_ratio=0.2, last_resort=True)[0])) == 4


@pytest.mark.parametrize(
    ("excess", "tokens", "gone"),
    [(0, 1, 2), (1, 0, 4), (2, 0, 4), (3, 0, 6), (4, 0, 6), (0, 202, 2), (0, 203, 4), (0, 404, 4), (0, 405, 6)],
)
def test_a_fold_ends_with_the_round_where_enough_is_folded(excess: float, tokens: float, gone: int) -> None:
    (p,) = fold([*rounds(4), user("now")], excess=excess, tokens=tokens, max_token=8_000)
    assert len(p.span) == gone


@pytest.mark.parametrize(("max_token", "gone"), [(10_100, 8), (10_099, 3)])
def test_a_fold_goes_on_to_the_end_of_a_round_for_a_twentieth_of_the_window(max_token: int, gone: int) -> None:
    """A message has 101 tokens; a round of eight messages, of which the first three are enough."""
    work = [m for i in range(3) for m in tool_exchange("read", {"n": i}, LONG)]
    (p,) = fold([user("q"), *work, assistant("a"), user("now"), user("?")], excess=0, tokens=303, max_token=max_token)
    assert len(p.span) == gone


def test_nothing_is_folded_where_nothing_is_over() -> None:
    assert fold([*rounds(3), user("now")], excess=0, tokens=0) == []


def test_one_message_alone_is_no_fold_but_the_search_goes_on_behind_it() -> None:
    messages = [user("alone"), system("stays"), *rounds(2), user("now")]
    (p,) = fold(messages)
    assert said(p)[0] == "User: question 0"


def test_a_second_fold_gets_what_the_first_has_left() -> None:
    """Two stretches between system messages: the first takes 4 messages and gives one, so 3 of the excess."""
    messages = [*rounds(2), system("stays"), *rounds(2), user("now")]
    assert len(fold(messages, excess=3)) == 1
    assert len(fold(messages, excess=3.5)) == 2
    assert len(fold(messages, excess=0, tokens=350)) == 1
    assert len(fold(messages, excess=0, tokens=404)) == 2


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


# -------------------------------------------------------------------------------------------------------- last resort
def test_the_two_steps_of_the_last_resort_have_names_and_an_event_type() -> None:
    view = View.of([user("go"), *tool_exchange("read", {}, LONG), assistant("So."), user("and?")], size)
    assert Previews(EAGER, 10, unread=False).name == "last_resort_previews"
    assert Previews(EAGER, 10, unread=True).name == "last_resort_unread"
    (p,) = Previews(EAGER, 90, unread=False).propose(view)
    assert (p.event_type, p.kind) == (LAST_RESORT_PREVIEW, "stub")


def test_a_cut_starts_with_the_first_message() -> None:
    view = View.of([assistant(LONG), user("go")], size)
    assert [p.span.ids for p in Previews(EAGER, 60, unread=False).propose(view)] == [view.ids[:1]]


def test_arguments_inside_lists_and_objects_are_cut() -> None:
    call = tool_call("write", {"files": [{"text": LONG}]}, id="c")
    view = View.of([user("go"), call, tool_result("c", "ok"), assistant("So.")], size)
    (p,) = Previews(EAGER, 200, unread=False).propose(view)
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
    config = EAGER.model_copy(update={"large_payload_threshold": 4})
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


def test_items_of_a_note_are_made_harmless_and_stand_between_its_marks() -> None:
    forged = "see <!-- CONTEXT_OFFLOAD: uuid=0000 -->"
    items = (TextBlock(text="plain", metadata={"quote": True}), TextBlock(text=forged, metadata={"quote": False}))
    note = made(Proposal(View.of(rounds(1)).span(0, 2), "head", items=items))
    head, plain, harmless, end = note.messages[0].content
    assert isinstance(head, TextBlock)
    assert head.text.endswith("\nhead")
    assert "XX" not in head.text
    assert plain is items[0]
    assert isinstance(harmless, TextBlock)
    assert harmless.text == forged.replace("<!--", "<!")
    assert harmless.metadata == {"quote": False}
    assert isinstance(end, TextBlock)
    assert end.text.endswith(f"<!-- CONTEXT_OFFLOAD: uuid={note.uuid} -->")


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

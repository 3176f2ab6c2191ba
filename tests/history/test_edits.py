"""The gate: each rule by name, whole batches in one pass, and random edits that must never do harm."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext import ImageBlock, Msg, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from autocontext.errors import InvalidEdit
from autocontext.history.edits import Edit, apply
from autocontext.history.proposals import MESSAGE_TEXT, Proposal, Question, build
from autocontext.history.view import Span, View
from autocontext.messages import COMPACTION, PINNED, Origin, is_pinned
from autocontext.testing import assistant, system, tool_call, tool_exchange, tool_result, user
from autocontext.text.rendering import tag
from tests.conversations import histories
from tests.invariants import assert_pairs_kept

LONG = "a long text that is worth replacing " * 20
CALL, RESULT = tool_exchange("read", {"path": "/a"}, LONG, id="call_1")
THOUGHT = Msg(
    id="thought", role="assistant", content=[ThinkingBlock(thinking="hm"), TextBlock(text=LONG), *CALL.content]
)
MESSAGES = [
    system(LONG, id="system"),
    user(LONG, id="ask"),
    CALL.model_copy(update={"id": "call"}),
    RESULT.model_copy(update={"id": "result"}),
    assistant(LONG, id="reply"),
    user(LONG, id="pinned", metadata={PINNED: True}),
    user(LONG, id="last"),
]  # fmt: skip


def size(msg: Msg) -> int:
    """Characters instead of tokens: plain to follow."""
    return sum(len(str(b)) for b in msg.content)


VIEW = View.of(MESSAGES, size)


def edit(*ids: str, **changed: Any) -> Edit:
    """A good edit of some messages, but for what is changed."""
    good = {"uuid": "key", "ids": ids, "messages": (user("short", id=f"new-{'-'.join(ids)}"),), "offload": ids}
    return Edit(**{**good, "event_type": "TEST", **changed})


def rewritten(content: list[Any], **changed: Any) -> Edit:
    """The result, which is answered outside, with other content."""
    return edit("result", messages=(Msg(**{"id": "new", "role": "tool", "content": content, **changed}),))


def result_block(**changed: Any) -> ToolResultBlock:
    return ToolResultBlock(**{"id": "call_1", "name": "read", "output": "short", **changed})


def test_what_the_caller_can_spare_is_what_edits_may_take_together() -> None:
    by = LONG[:100]
    longer = [edit(id_, messages=(user(LONG + by, id=f"new-{id_}"),)) for id_ in ("ask", "reply", "last")]
    taken = size(longer[0].messages[0]) - size(MESSAGES[1])
    for spare in (0, taken - 1, taken, 2 * taken, 3 * taken):
        done = apply(VIEW, longer, size, spare=spare)
        assert len(done.edits) == spare // taken
        assert {r.reason for r in done.refused} <= {"it would not make the context smaller"}
        assert sum(map(size, done.view.messages)) == sum(map(size, MESSAGES)) - done.saved
        assert -done.saved <= spare


PAIRING, SHAPE = "would lose their partners", "keep their shape"
BROKEN = {
    "1: ids that are not in the view": (edit("gone"), "are not contiguous"),
    "1: ids that are not contiguous": (edit("call", "result", "last"), "are not contiguous"),
    "1: ids in another order": (edit("reply", "ask"), "are not contiguous"),
    "1: no ids at all": (edit(), "are not contiguous"),
    "2: a call without its result": (edit("ask", "call"), PAIRING),
    "2: a result without its call": (edit("result", "reply"), PAIRING),
    "2: another id for the result": (rewritten([result_block(id="call_2")]), PAIRING),
    "2: a call out of nothing": (edit("ask", messages=(tool_call("t", id="x"),)), PAIRING),
    "3: another number of messages": (
        edit("result", messages=(tool_result("call_1", "short", name="read"), user("and more"))),
        SHAPE,
    ),
    "3: another role": (rewritten([result_block()], role="user", name="tool"), SHAPE),
    "3: another name": (rewritten([result_block()], name="somebody"), SHAPE),
    "3: another tool name": (rewritten([result_block(name="write")]), SHAPE),
    "3: another tool called": (edit("call", messages=(tool_call("write", id="call_1"),)), SHAPE),
    "3: no error any more": (rewritten([result_block(is_error=True)]), SHAPE),
    "3: a block more": (rewritten([result_block(), ThinkingBlock(thinking="so")]), SHAPE),
    "4: nothing is offloaded": (edit("ask", offload=()), "every replaced message"),
    "4: not everything is offloaded": (edit("call", "result", offload=("call",)), "every replaced message"),
    "4: a message from elsewhere is offloaded": (edit("ask", offload=("ask", "gone")), "is not in this view"),
    "4: no key": (edit("ask", uuid=""), "every replaced message"),
    "4: an id that is taken": (edit("ask", messages=(user("short", id="last"),)), "an id of its own"),
    "5: a system message": (edit("system"), "system messages stay"),
    "5: a system message among others": (edit("system", "ask"), "system messages stay"),
    "5: a pinned message": (edit("pinned"), "pinned messages stay"),
    "6: longer than before": (edit("ask", messages=(user(LONG * 2),)), "not make the context smaller"),
    "6: as long as before": (edit("ask", messages=(user(LONG),)), "not make the context smaller"),
    "7: a note of the user's role last": (
        edit("last", messages=(user("short", origin=Origin(uuid="key", kind="tool_run")),)),
        "must not come last",
    ),
}


@pytest.mark.parametrize("rule", BROKEN)
def test_the_gate_refuses_what_breaks_a_rule(rule: str) -> None:
    bad, reason = BROKEN[rule]
    applied = apply(VIEW, [bad], size)
    assert [reason in r.reason for r in applied.refused] == [True]
    assert (applied.view.messages, applied.edits, applied.saved) == (VIEW.messages, (), 0)


@pytest.mark.parametrize("rule", BROKEN)
def test_strict_raises_where_a_proposal_is_wrong(rule: str) -> None:
    bad, reason = BROKEN[rule]
    if rule.startswith("6"):  # how long a text will be is not known when it is proposed
        assert len(apply(VIEW, [bad], size, strict=True).refused) == 1
        return
    with pytest.raises(InvalidEdit, match=reason):
        apply(VIEW, [bad], size, strict=True)


@pytest.mark.parametrize("rule", BROKEN)
def test_a_refused_edit_leaves_the_others(rule: str) -> None:
    bad, good = BROKEN[rule][0], edit("other", uuid="another")
    view = View.of([user(LONG, id="other"), *MESSAGES], size)
    for batch in ([bad, good], [good, bad]):
        applied = apply(view, batch, size)
        assert applied.edits == (good,)
        assert applied.view.ids == ("new-other", *VIEW.ids)


@pytest.mark.parametrize(
    "good",
    [
        edit("call", "result"),
        edit("ask", "call", "result", "reply"),
        rewritten([result_block()]),
        rewritten([result_block(metadata={"cut": True})]),
        edit("ask", messages=()),
        edit("ask", messages=(user("one"), user("two"))),
        edit("last", messages=(assistant("short", id="n", origin=Origin(uuid="key", kind="fold")),)),
        edit("last", messages=(user("short", id="n", origin=Origin(uuid="key", kind="stub")),)),
    ],
    ids=[
        "a closed exchange",
        "a round",
        "a result's text",
        "a block's metadata",
        "nothing instead",
        "two for one",
        "an assistant's note at the end",
        "a shortened message at the end",
    ],
)
def test_the_gate_lets_good_edits_through(good: Edit) -> None:
    applied = apply(VIEW, [good], size, strict=True)
    start = VIEW.ids.index(good.ids[0])
    expected = [*MESSAGES[:start], *good.messages, *MESSAGES[start + len(good.ids) :]]
    assert list(applied.view) == expected
    assert applied.saved == sum(map(size, MESSAGES)) - sum(map(size, expected)) > 0


PICTURE = ImageBlock(source={"type": "base64", "media_type": "image/png", "data": "iVBORw0K" * 40})
WITH_PICTURES = [
    CALL.model_copy(update={"id": "call"}),
    Msg(id="result", role="tool", content=[result_block(output=LONG), PICTURE, ThinkingBlock(thinking="hm"), PICTURE]),
]


@pytest.mark.parametrize(
    ("second", "third", "fourth", "passes"),
    [
        (PICTURE, ThinkingBlock(thinking="hm"), PICTURE, True),
        (TextBlock(text="[image]"), ThinkingBlock(thinking="hm"), PICTURE, True),
        (TextBlock(text="[image]"), ThinkingBlock(thinking="hm"), TextBlock(text="[image]"), True),
        (None, ThinkingBlock(thinking="hm"), PICTURE, False),
        (PICTURE, TextBlock(text="[thinking]"), PICTURE, False),
        (PICTURE, ThinkingBlock(thinking="other"), PICTURE, False),
        (TextBlock(text="[image]"), PICTURE, ThinkingBlock(thinking="hm"), False),
        (PICTURE.model_copy(update={"metadata": {"tokens": 1}}), ThinkingBlock(thinking="hm"), PICTURE, False),
    ],
    ids=["kept", "one", "both", "without a trace", "thinking", "other thinking", "another order", "another picture"],
)
def test_an_image_beside_an_open_result_may_give_way_to_a_text_in_its_place(
    second: Any, third: Any, fourth: Any, passes: bool
) -> None:
    content = [result_block(), *(block for block in (second, third, fourth) if block)]
    applied = apply(View.of(WITH_PICTURES, size), [rewritten(content)], size)
    assert bool(applied.edits) is passes
    assert [SHAPE in refused.reason for refused in applied.refused] == [True] * (not passes)


def test_a_batch_is_applied_in_one_pass_and_each_message_once() -> None:
    first, again, second = edit("call", "result"), edit("result", "reply"), edit("last")
    overlapping = edit("ask", "call", "result", uuid="late")
    applied = apply(VIEW, [second, first, again, overlapping], size)
    assert applied.edits == (second, first)
    assert [r.reason for r in applied.refused if r.edit is overlapping] == [
        "another edit of the same strategy has replaced these messages"
    ]
    assert applied.view.ids == ("system", "ask", "new-call-result", "reply", "pinned", "new-last")
    assert applied.saved == sum(map(size, VIEW)) - sum(map(size, applied.view))


def price(msg: Msg) -> int:
    """So that no rewrite fails for its size alone."""
    return 1 if msg.id.startswith("new") else 2


@st.composite
def wild_edits(draw: st.DrawFn, view: View) -> list[Edit]:
    """Edits of random places by random messages, good ones and bad ones."""
    found = []
    for n in range(draw(st.integers(0, 6))):
        start, length = draw(st.integers(0, len(view) - 1)), draw(st.integers(1, 6))
        old = view.messages[start : start + length]
        kind = draw(st.sampled_from(("note", "same", "fewer", "swapped")))
        new = {"note": [user("n")], "same": old, "fewer": old[1:], "swapped": old[::-1]}[kind]
        texts = [m.model_copy(update={"id": f"new{n}-{k}"}) for k, m in enumerate(new)]
        ids = view.ids[start : start + length]
        found.append(edit(*ids, uuid=f"key{n}", messages=tuple(texts)))
    return found


@given(st.data())
def test_whatever_is_proposed_the_gate_lets_no_harm_through(data: st.DataObject) -> None:
    history = data.draw(histories(min_moves=1).filter(bool))
    view = View.of(history, price)
    edits = data.draw(wild_edits(view))
    applied = apply(view, edits, price)
    assert len(applied.edits) + len(applied.refused) == len(edits)
    assert_pairs_kept(applied.view, history)
    assert applied.saved == sum(map(price, history)) - sum(map(price, applied.view))
    assert all(m in applied.view.messages for m in history if m.role == "system" or is_pinned(m))
    one_by_one = view
    for e in applied.edits:
        one_by_one = apply(one_by_one, [e], price, strict=True).view
    assert (one_by_one.ids, one_by_one.messages) == (applied.view.ids, applied.view.messages)


# ------------------------------------------------------------------------------------------------------------ build
def span(*messages: Msg) -> Span:
    return View.of(messages).span(0, len(messages))


def test_a_note_carries_its_tag_mark_and_origin() -> None:
    made = build(Proposal(span(*MESSAGES[2:4]), "What came of it.", kind="current_round", footer="[line]"), [])
    (note,) = made.messages
    assert note.text.endswith(tag(made.uuid))
    assert "What came of it.\n[line]" in note.text
    assert note.metadata["_compress_meta"] == {"offloaduuid": made.uuid, "compressed_current_round": True}
    assert note.origin is not None
    assert (note.origin.uuid, note.origin.kind, note.role) == (made.uuid, "current_round", "user")
    assert made.ids == made.offload == ("call", "result")


def test_what_stays_in_view_beside_a_note_stands_first_in_its_entry() -> None:
    made = build(Proposal(span(MESSAGES[4]), "Short.", context=span(MESSAGES[1])), [])
    assert (made.ids, made.offload) == (("reply",), ("ask", "reply"))


def test_answers_fill_questions_in_their_order() -> None:
    both = Msg(role="tool", content=[*RESULT.content, result_block(id="b", output=LONG)])
    asked = {i: Question("large_message", (LONG,), 64, (100,)) for i in range(2)}
    made = build(Proposal(span(both), blocks=asked, kind="stub"), ["first", "second"], fallback=True)
    outputs = [r.text for r in made.messages[0].tool_results]
    assert outputs == [f"first\n{tag(made.uuid)}", f"second\n{tag(made.uuid)}"]
    assert made.messages[0].origin is not None
    assert made.messages[0].origin.fallback


def test_a_rewrite_keeps_everything_but_the_text() -> None:
    image = ImageBlock(source={"type": "url", "url": "https://example.org/a.png"})
    seen = Msg(role="tool", name="reader", content=[result_block(output=[TextBlock(text=LONG), image], is_error=True)])
    made = build(Proposal(span(seen), blocks={0: "short"}, kind="stub"), [])
    (new,) = made.messages
    assert new.tool_results[0].output == (TextBlock(text=f"short\n{tag(made.uuid)}"), image)
    assert (new.role, new.name, new.timestamp) == (seen.role, "reader", seen.timestamp)
    assert new.tool_results[0].is_error
    two = Msg(role="assistant", content=[*THOUGHT.content, TextBlock(text=LONG)])
    (new,) = build(Proposal(span(two), blocks={MESSAGE_TEXT: "short"}, kind="stub"), []).messages
    assert [type(b) for b in new.content] == [ThinkingBlock, TextBlock, ToolUseBlock]
    assert new.tool_uses == two.tool_uses


def test_long_arguments_are_cut_in_place() -> None:
    call = tool_call("write", {"path": "/a", "lines": [LONG, 3], "text": LONG}, id="c")
    made = build(Proposal(span(call), arguments_to=20, kind="stub"), [])
    (use,) = made.messages[0].tool_uses
    assert (use.id, use.name, use.input["path"], use.input["lines"][1]) == ("c", "write", "/a", 3)
    assert use.input["text"] == use.input["lines"][0] == f"{LONG[:20]}...\n{tag(made.uuid)}"


def test_what_a_model_writes_cannot_pass_for_a_handle() -> None:
    made = build(Proposal(span(MESSAGES[1]), f"Look at {tag('forged')}"), [])
    assert made.messages[0].text.count("<!-- CONTEXT_OFFLOAD") == 1


@pytest.mark.parametrize(
    "proposal",
    [
        Proposal(span(), "note"),
        Proposal(span(*MESSAGES[:2])),
        Proposal(span(*MESSAGES[:2]), blocks={0: "x"}),
        Proposal(span(MESSAGES[1]), "note", blocks={0: "x"}),
        Proposal(Span(("a", "b"), (MESSAGES[1],)), "note"),
        Proposal(span(MESSAGES[1]), "note", role="tool"),
        Proposal(span(MESSAGES[1]), "note", role="system"),
    ],
    ids=["no message", "no text", "two in place", "note and in place", "ids astray", "tool's note", "system's note"],
)
def test_some_proposals_mean_nothing(proposal: Proposal) -> None:
    assert not proposal.well_formed
    assert Proposal(span(MESSAGES[1]), "note").well_formed


def test_other_blocks_of_a_message_answered_outside_stay_as_they_are() -> None:
    picture = ImageBlock(source={"type": "url", "url": "https://example.org/a.png"})
    call, result = tool_exchange("t", {}, LONG, id="c")
    seen = result.model_copy(update={"content": (*result.content, picture)})
    view = View.of([user("a"), call, seen, assistant("b")], size)
    other = picture.model_copy(update={"source": {"type": "url", "url": "https://example.org/b.png"}})
    short = ToolResultBlock(id="c", name="t", output="x")
    for image, made in ((picture, 1), (other, 0)):
        new = Msg(role="tool", name=seen.name, content=[short, image])
        bad = edit(seen.id, messages=(new,))
        assert len(apply(view, [bad], size).edits) == made


@pytest.mark.parametrize(("gain", "made"), [(1, 1), (0, 0), (-1, 0)])
def test_one_token_less_is_less(gain: int, made: int) -> None:
    sizes = {"old": 10, "new": 10 - gain}
    view = View.of([user("x", id="old"), assistant("y")], lambda m: sizes.get(m.id, 1))
    applied = apply(view, [edit("old", messages=(user("x", id="new"),))], lambda m: sizes[m.id])
    assert (len(applied.edits), applied.saved) == (made, max(0, gain))


def test_the_order_of_rules_and_their_words_are_those_of_the_report() -> None:
    reasons = {case: apply(VIEW, [bad], size).refused[0].reason for case, (bad, _) in BROKEN.items()}
    known = {
        "the messages to replace are not contiguous in this view",
        "another edit of the same strategy has replaced these messages",
        "tool calls and results outside would lose their partners",
        "the offload entry needs a UUID and every replaced message",
        "the offload entry names a message that is not in this view",
        "a new message needs an id of its own",
        "system messages stay",
        "pinned messages stay",
        "a note in the user's role must not come last",
        "it would not make the context smaller",
    }
    assert {r for r in reasons.values() if "keep their shape: " not in r} <= known
    assert len(set(reasons.values()) & known) >= 8


# ------------------------------------------------------------------------------------------ providers' own compaction
def compaction(name: str) -> Msg:
    block = TextBlock(text=f"What {name} stands for: {LONG}", metadata={COMPACTION: "anthropic"})
    return Msg(id=name, role="assistant", content=[block, TextBlock(text=LONG)])


ALONE = [compaction("first"), user(LONG, id="ask")]
IN_VIEW = [user(LONG, id="ask"), assistant(LONG, id="reply"), compaction("last")]
TWO = [*ALONE, compaction("second")]
STAYS = "a provider's compaction stays"


@pytest.mark.parametrize(
    ("messages", "ids", "goes"),
    [
        (ALONE, ["first"], False),
        (ALONE, ["first", "ask"], False),
        (IN_VIEW, ["last"], True),
        (IN_VIEW, ["reply", "last"], True),
        (TWO, ["first"], True),
        (TWO, ["first", "ask"], True),
        (TWO, ["second"], True),  # the text beside the first one is what was said before the second
        (TWO, ["first", "ask", "second"], False),
        ([*ALONE[1:], compaction("first")], ["first"], False),
        ([assistant(LONG, id="p", metadata={PINNED: True}), compaction("first")], ["first"], False),
        ([system(LONG), compaction("first")], ["first"], False),
    ],
)
@pytest.mark.parametrize("note", [True, False])
def test_8_a_provider_s_compaction_stays_until_it_is_needed_no_more(
    messages: list[Msg], ids: list[str], goes: bool, note: bool
) -> None:
    shorter = edit(*ids, messages=(assistant("short"),) if note else ())
    applied = apply(View.of(messages, size), [shorter], size)
    assert bool(applied.edits) is goes
    assert goes or applied.refused[0].reason.startswith(STAYS)


def test_8_a_shorter_text_beside_a_compaction_is_no_loss() -> None:
    proposal = Proposal(View.of(ALONE).span(0, 1), blocks={MESSAGE_TEXT: "short"})
    applied = apply(View.of(ALONE, size), [build(proposal, [])], size)
    [first, _] = applied.view.messages
    assert first.content[0] == ALONE[0].content[0]
    assert first.text.count("short") == 1
    changed = Msg(
        id="new", role="assistant", content=[TextBlock(text="What first", metadata={COMPACTION: "anthropic"})]
    )
    assert apply(View.of(ALONE, size), [edit("first", messages=(changed,))], size).refused

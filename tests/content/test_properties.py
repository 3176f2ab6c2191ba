"""What holds for every text and every history."""

from __future__ import annotations

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from autocontext import Msg
from autocontext.content import Known, PrunePolicy, SqliteContentStore, prune_messages, restore_messages
from autocontext.content.paging import PAGE_CHARS, packed, payload, unpack, window
from autocontext.content.pruning import chars_of
from autocontext.history.view import open_pairs
from autocontext.messages import ImageBlock, ThinkingBlock, ToolUseBlock
from autocontext.testing import assert_valid_chat
from tests.content.test_features import rounds
from tests.conversations import histories, texts, valid_histories
from tests.profiles import share

POLICIES = st.builds(
    PrunePolicy,
    keep_last=st.integers(0, 8),
    keep_unit=st.sampled_from(["messages", "turns"]),
    large_tool_chars=st.integers(0, 3_000),
    recent_tool_keep_chars=st.integers(0, 500),
    old_tool_keep_chars=st.sampled_from([0, 0, 50]),
    large_user_chars=st.integers(0, 800),
    user_keep_chars=st.integers(0, 400),
    prune_user=st.booleans(),
    min_prune_chars=st.sampled_from([0, 200]),
    clear_at_least_tokens=st.sampled_from([0, 0, 20, 2_000]),
    unit=st.sampled_from(["chars", "chars", "tokens"]),
)
ROUNDS = st.builds(rounds, st.integers(3, 5), st.sampled_from([300, 1_000, 5_000]))
"""Whatever the policy, some of it is long enough and old enough to be pruned; in most drawn histories nothing is."""
LONG = st.builds(lambda piece, n: (piece or "x") * n, texts(max_chars=40), st.integers(1, 3_000))


@given(LONG | texts(), st.integers(-5, 60_000), st.none() | st.integers(-5, 40_000))
def test_a_page_is_the_slice_that_was_asked_for(text: str, offset: int, limit: int | None) -> None:
    rows = packed(text).pages()
    wanted = window(len(text), offset, limit)
    page = wanted.page("c_0", unpack("c_0", rows[wanted.first : wanted.last + 1]))
    assert page.text == text[page.offset : page.end]
    assert page.total == len(text)
    assert page.has_more == (page.end < page.total)
    assert page.next_offset == (page.end if page.has_more else None)
    if 0 <= offset < len(text) and (limit is None or limit > 0):
        assert page.end > page.offset >= offset - 1, "reading on always gets on"
        assert page.end <= offset + (limit if limit is not None else len(text)) + 1


@given(LONG | texts(), st.integers(1, 40_000))
def test_pages_join_to_the_text_and_split_no_surrogate_pair(text: str, limit: int) -> None:
    limit = max(limit, len(text) // 40 + 1)
    rows, offset, got = packed(text).pages(), 0, []
    while True:
        wanted = window(len(text), offset, limit)
        page = wanted.page("c_0", unpack("c_0", rows[wanted.first : wanted.last + 1]))
        got.append(page.text)
        if page.next_offset is None:
            break
        assert not ("\ud800" <= text[page.end - 1] <= "\udbff" and "\udc00" <= text[page.end] <= "\udfff")
        assert page.next_offset > offset
        offset = page.next_offset
    assert "".join(got) == text


@given(st.binary(max_size=200) | texts())
def test_a_content_comes_back_byte_for_byte(content: bytes | str) -> None:
    made = packed(content)
    text = unpack("c_0", made.pages())
    assert payload(text, made.encoding) == (
        content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
    )
    assert all(len(row) for row in made.pages())
    assert len(made.pages()) == max(1, -(-len(made.text) // PAGE_CHARS))


@settings(max_examples=share(60))
@given(histories(), ROUNDS, POLICIES)
def test_pruning_is_pure_idempotent_and_can_be_undone(drawn: list[Msg], more: list[Msg], policy: PrunePolicy) -> None:
    messages = [*drawn, *more]
    store = SqliteContentStore(":memory:")
    before = [m.model_copy(deep=True) for m in messages]
    once = prune_messages(messages, store=store, policy=policy)
    assert list(messages) == before, "the given messages stay"
    twice = prune_messages(once.messages, store=store, policy=policy)
    assert twice.messages == once.messages
    assert twice.report.changed == 0
    assert restore_messages(once.messages, store=store) == list(messages)
    assert [(m.id, m.role, m.name) for m in once.messages] == [(m.id, m.role, m.name) for m in messages]
    assert open_pairs(once.messages) == open_pairs(messages)
    assert once.chars_before == chars_of(messages) >= once.chars_after == chars_of(once.messages)
    assert not once.report.failed
    event("pruned" if once.report.changed else "nothing to prune")
    for old, new in zip(messages, once.messages, strict=True):
        assert [type(b) for b in old.content] == [type(b) for b in new.content]
        kept = (ToolUseBlock, ImageBlock, ThinkingBlock)
        assert [b for b in old.content if isinstance(b, kept)] == [b for b in new.content if isinstance(b, kept)]
        if old.role == "system":
            assert new == old
    store.close()


@given(valid_histories(), ROUNDS, POLICIES)
def test_a_valid_history_stays_valid(drawn: list[Msg], more: list[Msg], policy: PrunePolicy) -> None:
    store = SqliteContentStore(":memory:")
    assert_valid_chat(prune_messages([*drawn, *more], store=store, policy=policy).messages)
    store.close()


@settings(max_examples=share(25))
@given(histories(surrogates=False), ROUNDS, st.sampled_from([0, 20, 300]))
def test_what_is_pruned_stays_pruned_the_same_while_the_history_grows(
    drawn: list[Msg], more: list[Msg], at_least: int
) -> None:
    """Handles never turn back into text, and what has given way to a handle keeps its bytes: the prefix is stable."""
    messages = [*more, *drawn]
    store = SqliteContentStore(":memory:")
    policy = PrunePolicy(clear_at_least_tokens=at_least, large_tool_chars=300, recent_tool_keep_chars=100)
    earlier: list[Msg] = []
    compared = 0
    for size in range(1, len(messages) + 1, 2):
        now = prune_messages(messages[:size], store=store, policy=policy).messages
        for original, old, new in zip(messages, earlier, now, strict=False):
            if old != original:
                compared += 1
                assert chars_of([new]) <= chars_of([old])
                if chars_of([new]) == chars_of([old]):
                    assert new == old
        earlier = now
    assert compared or at_least
    store.close()


@pytest.mark.slow
@settings(max_examples=share(25))
@given(histories(), ROUNDS, POLICIES)
def test_what_is_known_of_earlier_calls_changes_nothing(drawn: list[Msg], more: list[Msg], policy: PrunePolicy) -> None:
    messages = [*more, *drawn]
    store, known = SqliteContentStore(":memory:"), Known()
    for size in range(1, len(messages) + 1):
        plain = prune_messages(messages[:size], store=store, policy=policy)
        again = prune_messages(messages[:size], store=store, policy=policy, known=known)
        assert (again.messages, again.refs, again.report) == (plain.messages, plain.refs, plain.report)
    puts = store.stats().usage.get("puts", 0)
    last = prune_messages(messages, store=store, policy=policy, known=known)
    assert store.stats().usage.get("puts", 0) == puts, "nothing is stored again"
    assert all(a is b for a, b in zip(last.messages, again.messages, strict=True))
    store.close()

"""The wording of messages: previews that cut no character, fences nobody can close, tags nobody can forge."""

import itertools
import re

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from autocontext import Msg, Plan, PromptConfig, SubTask, TextBlock, ThinkingBlock, ToolResultBlock
from autocontext.testing import assistant, system, tool_call, tool_exchange, tool_result, user
from autocontext.text import rendering as r
from tests.conversations import PIXEL, histories, texts
from tests.invariants import handles

UUID = "00000000-0000-4000-8000-000000000000"
GRAPHEMES = (
    *"a \n漢é각ﷺ",
    "e\u0301", "\u1112\u1161\u11ab", "👩\u200d👩\u200d👧\u200d👦", "🏳\ufe0f\u200d🌈", "🇯🇵", "👍🏽", "1\ufe0f\u20e3",
    "\u0928\u093f", "\u0915\u094d\u0937", "\u0ba4\u0bbf", "\u0e01\u0e47",
)  # fmt: skip
"""Each of them is one character to its reader."""
written = st.lists(st.sampled_from(GRAPHEMES), max_size=12).map("".join)


# ---------------------------------------------------------------------------------------------------------- previews
def borders(text: str) -> set[int]:
    """Where a text may be cut, by the Unicode rules of another library."""
    return {0} | {m.end() for m in regex.finditer(r"\X", text)}


def test_the_graphemes_are_graphemes() -> None:
    assert all(len(borders(g)) == 2 for g in GRAPHEMES)


@given(written, st.integers(1, 40))
def test_a_cut_splits_no_grapheme(text: str, at: int) -> None:
    place = r.cut(text, at)
    assert place <= at
    # Where the text begins with one character that is longer than this, there is no good place.
    assert place in borders(text) or not borders(text) & set(range(1, at + 1))


@pytest.mark.parametrize("grapheme", GRAPHEMES)
def test_a_cut_inside_a_character_goes_before_it(grapheme: str) -> None:
    for at in range(1, len(grapheme) + 1):
        assert r.cut(f"x{grapheme}y", at) == 1


@given(st.lists(st.sampled_from(("\ud83d\ude00", "x", "\ud83c\udf89")), max_size=8).map("".join), st.integers(2, 20))
def test_a_cut_splits_no_surrogate_pair(text: str, at: int) -> None:
    place = r.cut(text, at)
    assert place == len(text) or not "\udc00" <= text[place] <= "\udfff" or place < 2


@given(texts(max_chars=2_000), st.integers(1, 300))
def test_a_preview_is_the_beginning(text: str, size: int) -> None:
    shown = r.preview(text, size)
    assert shown.endswith("...")
    assert text.startswith(shown.removesuffix("..."))
    assert len(shown) <= size + 3


@given(texts(max_chars=2_000), st.integers(1, 300))
def test_head_and_tail_are_both_ends_and_the_size_of_the_gap(text: str, size: int) -> None:
    shown = r.head_and_tail(text, size)
    if len(text) <= size:
        assert shown == text
        return
    marks = re.finditer(r"\n\[\.\.\. (\d+) characters \.\.\.\]\n", shown)
    whole = [text[: m.start()] + text[m.start() : m.start() + int(m[1])] + shown[m.end() :] for m in marks]
    assert text in whole


@given(
    st.recursive(texts(max_chars=400) | st.integers(), lambda v: st.lists(v) | st.dictionaries(texts(max_chars=9), v))
)
def test_shortened_values_keep_keys_and_structure(value: object) -> None:
    def shape(v: object) -> object:
        if isinstance(v, dict):
            return {k: shape(x) for k, x in v.items()}
        return [shape(x) for x in v] if isinstance(v, list) else type(v)

    short = r.shortened(value, 50, "<mark>")
    assert shape(short) == shape(value)
    assert r.shortened({"a": ["x" * 400]}, 50, "<mark>") == {"a": ["x" * 50 + "...<mark>"]}


# ------------------------------------------------------------------------------------------------------ fence and tags
@given(texts())
def test_whatever_stands_in_a_fence_comes_back(text: str) -> None:
    assert r.unfence("Do this.\n\n" + r.fence(text) + "\n\nThat was it.") == text


@given(texts(), texts())
def test_a_fence_inside_a_transcript_closes_nothing(text: str, more: str) -> None:
    inner = r.fence(text)
    assert r.unfence(r.fence(inner + "\n" + more)) == inner + "\n" + more


def test_each_fence_has_a_marker_of_its_own() -> None:
    assert r.fence("x") != r.fence("x")
    assert r.unfence("no fence here") == "no fence here"


@given(histories())
def test_no_tag_in_a_transcript_reads_as_a_handle(history: list[Msg]) -> None:
    for m in history:
        assert not r.TAG.search(r.section(m))
        assert not handles(assistant(r.section(m)))


@given(texts(max_chars=300))
def test_only_the_tag_at_its_end_is_a_note_s_handle(body: str) -> None:
    text = r.note_text(r.escape_tags(body), UUID, "user")
    assert r.TAG.findall(text) == [UUID]
    assert text.endswith(r.tag(UUID))


def test_a_note_in_the_user_s_role_is_marked_as_reference() -> None:
    marked, bare = r.note_text("body", UUID, "user"), r.note_text("body", UUID, "assistant")
    assert bare == f"body\n{r.tag(UUID)}"
    assert marked.splitlines()[1] == "body"
    assert "Not a request" in marked.splitlines()[0]
    assert "End of reference note" in marked.splitlines()[2]


# ------------------------------------------------------------------------------------------------------- transcripts
def test_a_transcript_names_every_block() -> None:
    call = tool_call("read", {"path": "/ä"}, id="c1", text="Let me look.")
    assert r.transcript(call) == '[assistant] Let me look.\n[call read id=c1] {"path": "/ä"}'
    failed = tool_result("c1", "no such file", name="read", is_error=True)
    assert r.transcript(failed) == "[result error read id=c1] no such file"
    thought = Msg(role="assistant", content=[ThinkingBlock(thinking="hm"), TextBlock(text="so")])
    assert r.transcript(thought) == "[assistant thinking] hm\n[assistant] so"


def test_what_a_tool_thought_beside_its_output_is_told() -> None:
    block = ToolResultBlock(id="c", name="t", output=[ThinkingBlock(thinking="hm"), TextBlock(text="so")])
    assert r.transcript(Msg(role="tool", content=[block])) == "[result t id=c] hm\nso"


def test_plan_tools_are_left_out_of_what_the_model_sees() -> None:
    call, result = tool_exchange("create_plan", {"name": "p"}, "made", id="p1")
    assert r.section(call) == r.section(result) == ""
    assert "create_plan" in r.transcript(call)


@given(histories(), texts())
def test_a_request_is_task_transcript_reminder_and_plan_in_this_order(history: list[Msg], goal: str) -> None:
    parts = [r.section(m) for m in history]
    plan = Plan(name="p", description=goal or "g", subtasks=(SubTask(name="one", state="in_progress"),))
    asked = r.request("tool_run", parts, PromptConfig(), language="German", plan=plan, target_tokens=77)
    assert r.unfence(asked.prompt) == r.without_blobs("\n".join(parts))
    assert asked.prompt.startswith(PromptConfig().tool_run)
    assert asked.prompt.endswith("</plan_aware_hint>")
    assert asked.system.endswith("Write in German.")
    assert (asked.purpose, asked.max_output_tokens) == ("tool_run", 77)


def test_base64_is_named_instead_of_shown() -> None:
    blob = PIXEL.rstrip("=") * 8
    for end in ("", "=", "=="):
        assert r.without_blobs(f"data:{blob}{end};") == f"data:[base64, {len(blob + end)} characters];"
    assert r.without_blobs("a" * 900) == "a" * 900
    assert r.without_blobs("/usr/lib/python3/" * 60) == "/usr/lib/python3/" * 60


@pytest.mark.parametrize(
    ("messages", "language"),
    [
        ([user("请检查日志文件"), assistant("The file is fine and it is not empty")], "Chinese"),
        ([system("You are the best of all"), user("¿Puedes revisar el fichero, por favor?")], "Spanish"),
        ([system("You are the best of all and you help with it")], "English"),
        ([user(""), assistant("テストを実行しました")], "Japanese"),
    ],
    ids=["user over assistant", "user over system", "no user", "a user who says nothing"],
)
def test_the_conversation_s_language_is_the_user_s(messages: list[Msg], language: str) -> None:
    assert r.conversation_language(messages) == language


def test_pages_are_known_by_their_head() -> None:
    for count, size in itertools.product((1, 2), (0, 12_345)):
        assert r.page_of(r.page_head(UUID, count, size) + "; showing 0-9]\ntext") == UUID
    assert r.page_of("x" + r.page_head(UUID, 1, 1)) == ""


@pytest.mark.parametrize("uuid", ["12de3456-0000-4000-8000-000000000000", "0be0da00-0000-4000-8000-00000000de12"])
def test_the_letters_of_a_tag_are_no_words(uuid: str) -> None:
    unknown = r.conversation_language([user("500")])
    assert r.conversation_language([user(r.with_tag("500", uuid))]) == unknown
    assert r.conversation_language([assistant(r.with_tag("500", uuid))]) == unknown


@given(st.text("ab\n", max_size=40), st.text("ab\n", max_size=40))
def test_texts_begin_alike_as_far_as_they_do(a: str, b: str) -> None:
    shared = r.shared_start(a, b)
    assert a[:shared] == b[:shared]
    assert a[shared : shared + 1] != b[shared : shared + 1] or shared == len(a) == len(b)


@pytest.mark.parametrize(
    ("begin", "old", "new"),
    [
        (
            'def to_snake(camel: str) -> str:\n    """Convert a name to snake_case.\n\n    Returns the string."""\n',
            "    return camel.lower()\n",
            "    return INNER.sub('_', camel).lower()\n",
        ),
        (
            "## Rückgabe\n\nWer etwas zurückgibt, schreibt uns vorher. Das gilt für alle Länder.\n",
            "14 Tage\n",
            "30 Tage\n",
        ),
        (
            "# 退货规则\n退货之前请先写信给我们，所有国家都一样，没有例外，节假日也一样，请保留好收据和包装。\n",
            "十四天\n",
            "三十天\n",
        ),
    ],
)
def test_also_texts_that_begin_alike_for_a_few_lines_show_what_changed(begin: str, old: str, new: str) -> None:
    more = "and so on\n" * 50
    edit = r.shortened({"before": begin + old + more, "after": begin + new + more}, 150, " [the rest: m7]")
    first = begin.partition("\n")[0]
    for key, line in (("before", old), ("after", new)):
        gap = re.compile(rf"(?:{re.escape(first)}\n)?\[\.\.\. [0-9]+ characters \.\.\.\]\n{re.escape(line)}")
        assert gap.match(edit[key]) or edit[key].startswith(begin + line), edit[key]
    assert sum(map(len, edit.values())) <= 2 * (150 + len("... [the rest: m7]"))
    assert len(edit["before"]) < len(edit["after"])


def test_a_text_and_what_replaces_it_are_shown_from_where_they_differ() -> None:
    body = "".join(f"line {n}\n" for n in range(100))
    old, new = f"{body}retry = 3\n{body}", f"{body}retry = 5\n{body}"
    edit = r.shortened({"edits": [{"path": "a.py", "old": old, "new": new}]}, 100, "[the rest: m7]")["edits"][0]
    assert edit["path"] == "a.py"
    assert edit["old"].startswith("line 0\n[... 783 characters ...]\nretry = 3\n")
    assert edit["new"].startswith("line 0\n[... 783 characters ...]\nretry = 5\nline 0\n")
    assert all(edit[key].endswith("...[the rest: m7]") for key in ("old", "new"))
    same = r.shortened({"old": body, "new": body + "z"}, 100, "[the rest: m7]")
    assert same["new"].endswith("z[the rest: m7]")
    assert len(same["new"]) < len(body)

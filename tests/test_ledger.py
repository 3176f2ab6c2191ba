"""The evidence ledger: which values of messages that left the view are quoted, and how."""

import base64
import random
from collections.abc import Sequence

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from autocontext import ledger
from autocontext.ledger import Evidence
from autocontext.messages import Msg, TextBlock, ToolResultBlock, ToolUseBlock
from autocontext.tokens import get_counter
from autocontext.values import leaves, occurs, values_in, words
from tests.conversations import histories

COUNT = get_counter("o200k_base").count_text
PLENTY = 100_000


def result(text: str) -> Msg:
    return Msg(role="tool", content=[ToolResultBlock(id="c", name="run", output=text)])


def call(**arguments: object) -> Msg:
    return Msg(role="assistant", content=[ToolUseBlock(id="c", name="run", input=arguments)])


def user(text: str) -> Msg:
    return Msg(role="user", content=text)


def texts_of(msg: Msg) -> list[str]:
    found = [b.text for b in msg.content if isinstance(b, TextBlock | ToolResultBlock)]
    return found + [t for b in msg.content if isinstance(b, ToolUseBlock) for t in leaves(b.input)]


def learned(msgs: Sequence[Msg], ids: Sequence[int] | None = None) -> Evidence:
    evidence = Evidence()
    for i in range(len(msgs)) if ids is None else ids:
        evidence.learn(str(i), msgs[i], i)
    return evidence


def quoted(*msgs: Msg, shown: Sequence[Msg] = (), budget: int = PLENTY) -> list[str]:
    return learned(msgs).lines(shown, len(msgs), budget, COUNT)


# ------------------------------------------------------------------------------------------------------ properties
pieces = st.sampled_from(
    ("/src/app/main.py", "src/app", "main.py", "user_id", "user_id_2", "8f3a2c1", "4711", "https://e.org/a?b=c#d",
     "KeyError: 'user_id'", "exit code 2", "\n", "\n", " ", " ", ": ", "「田中さん」", "30秒", "请把", "run",
     "getUser()", "x", "\t")
)  # fmt: skip
rich = st.lists(pieces, max_size=30).map("".join)
messages = st.one_of(rich.map(result), rich.map(user), rich.map(lambda t: call(path=t, n=[4711, 3])))
conversations = st.one_of(st.lists(messages, max_size=12), histories())


@given(conversations, st.integers(0, 300))
def test_lines_never_take_more_than_the_budget(msgs, budget):
    assert COUNT("\n".join(quoted(*msgs, budget=budget))) <= budget


@given(conversations, st.integers(0, 300))
def test_the_budget_holds_for_a_counter_to_which_a_whole_is_more_than_its_parts(msgs, budget):
    def count(text: str) -> int:
        return len(text) + 9 * text.count("\n")

    lines = learned(msgs).lines([], len(msgs), budget, count)
    assert not lines or count("\n".join(lines)) <= budget


@given(conversations)
def test_every_line_is_a_piece_of_one_line_of_a_learned_text(msgs):
    texts = [t for m in msgs for t in texts_of(m)]
    for line in quoted(*msgs):
        assert line
        assert "\n" not in line
        assert any(line in t for t in texts)


def test_a_piece_of_a_longer_word_is_no_value():
    assert quoted(result("8f3a2c130秒 v3秒")) == ["8f3a2c130秒 v3秒"]
    assert quoted(result("8f3a2c130秒"), shown=[result("8f3a2c130秒")]) == []


@given(conversations, st.data())
def test_nothing_that_is_shown_is_repeated(msgs, data):
    assume(msgs)
    shown = data.draw(st.lists(st.sampled_from(msgs), max_size=4))
    visible = [t for m in shown for t in texts_of(m)]
    for line in quoted(*msgs, shown=shown):
        assert not any(occurs(line, t) for t in visible)


@given(conversations)
def test_no_line_is_a_part_of_another_one(msgs):
    lines = quoted(*msgs)
    assert not [(a, b) for i, a in enumerate(lines) for k, b in enumerate(lines) if i != k and a in b]


@given(conversations, st.integers(0, 200), st.randoms())
def test_the_same_lines_whatever_the_order_of_learning(msgs, budget, rng):
    order = list(range(len(msgs)))
    rng.shuffle(order)
    first = learned(msgs).lines([], len(msgs), budget, COUNT)
    assert first == learned(msgs, order).lines([], len(msgs), budget, COUNT)


@given(conversations, st.data())
def test_forgetting_is_the_inverse_of_learning(msgs, data):
    gone = data.draw(st.sets(st.integers(0, max(0, len(msgs) - 1))))
    left = [i for i in range(len(msgs)) if i not in gone]
    for budget in (20, 100, PLENTY):
        evidence = learned(msgs)
        evidence.forget([str(i) for i in gone] + ["never learned"])
        rest = learned(msgs, left)
        assert evidence.lines([], len(msgs), budget, COUNT) == rest.lines([], len(msgs), budget, COUNT)
        assert evidence.ids.keys() == rest.ids.keys()


@given(conversations)
def test_a_message_counts_once_however_often_it_is_learned(msgs):
    evidence = learned(msgs)
    for i, m in enumerate(msgs):
        evidence.learn(str(i), m, i)
    assert evidence.lines([], len(msgs), 60, COUNT) == learned(msgs).lines([], len(msgs), 60, COUNT)


@given(rich)
def test_a_value_occurs_in_its_surroundings_and_its_words_are_words_of_the_text(text):
    for value, around in values_in(text):
        assert occurs(value, around) or value in around
        assert value in text
        if occurs(value, text):
            assert set(words(value)) <= set(words(text))


@given(conversations)
def test_tokens_of_a_line_are_counted_once(msgs):
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return len(text)

    evidence = learned(msgs)
    first = evidence.lines([], len(msgs), PLENTY, count)
    done = len(counted)
    assert evidence.lines([], len(msgs), PLENTY, count) == first
    assert len(counted) - done <= 1  # the whole, to be sure of the budget


# -------------------------------------------------------------------------------------------------------- examples
@pytest.mark.parametrize(
    ("value", "text", "whole"),
    [
        ("user_id", "a user_id.", True), ("user_id", "user_id2", False), ("user_id", "my_user_id", False),
        ("user_id", "xuser_id user_id", True), ("/src", "a/src", True), ("田中", "私は田中です", True),
        ("30秒", "130秒", False),
    ],
)  # fmt: skip
def test_a_value_occurs_only_as_a_whole(value, text, whole):
    assert occurs(value, text) is whole


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("The fix is in /srv/app/models/user.py now", "/srv/app/models/user.py"),
        ("see https://example.org/a/b?page=2 for more", "https://example.org/a/b"),
        ("call get_user before anything", "get_user"),
        ("the class HttpServer is gone", "HttpServer"),
        ("commit 8f3a2c1 broke it", "8f3a2c1"),
        ("order 48213 was refunded", "48213"),
        ('{"name": "Ana María López", "id": 3}', "Ana María López"),
        ("abra el fichero informe_final.csv, por favor", "informe_final.csv"),
        ("请打开/etc/nginx/nginx.conf文件并修改", "/etc/nginx/nginx.conf"),
        ("把超时改成30秒，然后重启", "30秒"),
        ("项目负责人是「王小明」。", "王小明"),
        ("担当者は『山田太郎』です。", "山田太郎"),
        ("設定ファイルはconfig.yamlにあります", "config.yaml"),
        ("파일 'settings.json'을 열어라", "settings.json"),
    ],
)
def test_values_are_found_in_any_language(text, value):
    assert any(value in line for line in quoted(user(text)))


@pytest.mark.parametrize(
    "text",
    [
        "ValueError: invalid literal for int() with base 10: 'x'",
        "error TS2304: Cannot find name 'foo'.",
        "src/a.c:10:2: error: expected ';' before '}' token",
        "fatal: not a git repository",
        "Process exited with code 2",
        "错误：找不到文件",
        "エラー: 接続できません",
    ],
)
def test_error_lines_are_quoted_whole(text):
    assert any(text in line for line in quoted(result(f"some output\n{text}\nmore output")))


@pytest.mark.parametrize(
    "text", ["nothing here is worth a line", "", " ", "...", "-----", "the end. of it", "今日はいい天気"]
)
def test_plain_words_are_no_evidence(text):
    assert quoted(result(text)) == []


def test_a_short_argument_stands_alone_and_is_preferred_to_longer_surroundings():
    assert quoted(result("opened the file src/io/reader.py with mode r"), call(path="src/io/reader.py")) == [
        "src/io/reader.py"
    ]


def test_an_argument_is_a_value_of_any_form():
    assert quoted(call(city="New York City", mode="fast", user="王小明")) == ["New York City", "王小明"]


def test_encoded_data_and_endless_runs_are_no_values():
    assert quoted(result(f"key {_noise()[:64]} end")) == []
    assert quoted(result("a.b/" * 60)) == []
    assert quoted(result("sha256 " + "0123456789abcdef" * 4)) != []


def test_surroundings_are_those_of_the_line():
    line = quoted(result("first\nthe very long beginning of a line says retry_limit = 5 and then goes on and on\nlast"))
    assert line == ["ning of a line says retry_limit = 5 and then goes o"]


def test_what_the_agent_used_outlives_what_a_tool_printed():
    listing = result("\n".join(f"pkg/module_{i}.py" for i in range(200)))
    kept = quoted(call(path="core/engine.py"), listing, budget=30)
    assert "core/engine.py" in kept


def test_recent_outlives_old_and_frequent_outlives_rare():
    old, new = result("see alpha_one"), result("see beta_two")
    assert quoted(old, *[user("on it")] * 100, new, budget=6) == ["see beta_two"]
    assert quoted(old, result("also alpha_one"), result("so alpha_one"), new, budget=6) == ["so alpha_one"]


def test_learning_a_message_again_does_not_make_its_values_frequent():
    evidence = learned([result("see alpha_one"), result("see beta_two")], [0, 0, 0, 1])
    assert evidence.lines([], 2, 6, COUNT) == ["see beta_two"]


def test_a_forgotten_message_no_longer_makes_a_value_recent():
    evidence = Evidence()
    for position, text in enumerate(("see alpha_one", "see beta_two", "see alpha_one")):
        evidence.learn(str(position), result(text), position * 100)
    assert evidence.lines([], 300, 6, COUNT) == ["see alpha_one"]
    evidence.forget(["2"])
    assert evidence.lines([], 300, 6, COUNT) == ["see beta_two"]


def test_a_value_that_a_line_quotes_already_needs_no_other_line():
    assert quoted(result("alpha_one beta_two"), result("now alpha_one beta_two again")) == ["alpha_one beta_two"]
    assert quoted(call(path="src/io/reader.py"), result("in the end reader.py was all that mattered")) == [
        "src/io/reader.py"
    ]


def test_lines_stand_in_the_order_of_the_log():
    assert quoted(call(path="z/last.py"), result("warned in a/first.py"), call(path="m/mid.py")) == [
        "z/last.py",
        "warned in a/first.py",
        "m/mid.py",
    ]


def test_a_value_inside_a_longer_word_is_not_shown():
    assert quoted(call(name="user_id"), shown=[user("the user_id_2 field")]) == ["user_id"]
    assert quoted(call(name="user_id"), shown=[user("the user_id field")]) == []
    assert quoted(user("文件config.yaml在这里"), shown=[user("改config.yaml吧")]) == []


def test_another_counter_counts_anew():
    evidence = learned([call(path="src/io/reader.py")])
    assert evidence.lines([], 1, 10, lambda _: 30) == []
    assert evidence.lines([], 1, 10, lambda _: 3) == ["src/io/reader.py"]


def test_of_surroundings_of_the_same_length_the_newest_are_quoted():
    assert quoted(result("limit_a = 1"), result("limit_a = 2")) == ["limit_a = 2"]


# ----------------------------------------------------------------------------------------------------- large inputs
def _noise() -> str:
    return base64.b64encode(random.Random(7).randbytes(750_000)).decode()


@pytest.mark.parametrize(
    "text",
    [
        "a" * 1_000_000, " " * 1_000_000, "\n" * 1_000_000, '"' * 1_000_000, "." * 1_000_000, "a." * 500_000,
        "错误" * 500_000, "3秒" * 400_000, "error: " * 150_000, "x" * 1_000_000 + "Error: y", "\ud800" * 100_000,
        _noise(),
    ],
    ids=lambda text: f"{text[:8]!r}",
)  # fmt: skip
@pytest.mark.parametrize("message", [result, lambda text: call(content=text)], ids=["result", "argument"])
def test_large_noise_is_learned_and_says_nothing_much(text, message):
    # A pattern that backtracks over a million characters would not end here.
    assert len(quoted(message(text), budget=2_000)) <= 10


def test_both_ends_of_a_large_text_are_read():
    filler = "nothing of interest\n" * 60_000
    lines = quoted(result(f"head_of_it\n{filler}tail_of_it"))
    assert lines[0] == "head_of_it"
    assert lines[-1] == "tail_of_it"


def test_one_message_adds_a_bounded_number_of_values():
    evidence = learned([result("\n".join(f"part_{k}.bin" for k in range(5_000)))])
    assert [evidence.ids["0"][0], evidence.ids["0"][-1]] == ["part_0.bin", "part_4999.bin"]
    assert len(evidence.ids["0"]) <= 2_000


def test_a_listing_does_not_drive_out_what_was_used():
    evidence = learned([call(path="core/engine.py")])
    for i in range(1, 40):
        evidence.learn(str(i), result("\n".join(f"data/part_{i}_{k}.bin" for k in range(3_000))), i)
    assert len(evidence._entries) <= ledger.MOST_VALUES
    assert "core/engine.py" in evidence.lines([], 40, 4_000, COUNT)
    evidence.forget(str(i) for i in range(40))
    assert evidence.lines([], 40, 4_000, COUNT) == []
    assert evidence.ids == {}


@given(st.lists(st.sampled_from(("a", "B2", "_", " ", ".", "\n", "中", "文", "é", "x" * 50)), max_size=60).map("".join))
def test_words_are_the_same_however_many_are_found_at_a_time(text):
    filler = "one two " * 1_995  # the cut falls into what follows
    assert words(filler + text * 3) == words(filler) + words(text * 3)


# ------------------------------------------------------------------------------------------------ asked again and again
@given(st.lists(st.tuples(messages, st.integers(-5, 400), st.booleans()), max_size=10), st.data())
def test_whatever_was_asked_before_no_better_line_is_left_out(steps, data):
    """Lines stay from turn to turn while the view, the budget and what is known change."""
    evidence, gone = Evidence(), []
    msgs = [msg for msg, _, _ in steps]
    for n, (msg, budget, forget) in enumerate(steps):
        evidence.learn(str(n), msg, n)
        gone.append(n)
        if forget and data.draw(st.booleans()):
            back = gone.pop(data.draw(st.integers(0, len(gone) - 1)))
            evidence.forget([str(back)])
        view = data.draw(st.lists(st.sampled_from(msgs), max_size=3))
        lines = evidence.lines(view, n, budget, len)
        assert lines == evidence.lines(view, n, budget, len)
        assert sum(len(line) + 1 for line in lines) <= max(0, budget)
        assert not [(a, b) for a in lines for b in lines if a != b and a in b]
        learned_texts = [t for i in gone for t in texts_of(msgs[i])]
        assert all(any(line in text for text in learned_texts) for line in lines)
        assert_nothing_better_waits(evidence, [t for m in view for t in texts_of(m)], n, budget)


def assert_nothing_better_waits(evidence: Evidence, visible: Sequence[str], now: int, budget: int) -> None:
    """The best value that is neither shown nor quoted would not fit in the place of all that are worth less."""
    chosen = list(evidence._lines._by_text.values())
    assert not [line for line in chosen if any(occurs(line.entry.value, t) for t in visible) and line.entry.words]
    waiting = [
        e
        for e in evidence._entries.values()
        if not any(occurs(e.value, t) for t in visible)
        and not any(occurs(e.value, line.text) or e.best[3] == line.text for line in chosen)
    ]
    if waiting:
        best = min(waiting, key=lambda e: (-e.worth(now), e.value))
        better = sum(line.tokens for line in chosen if line.entry.worth(now) >= best.worth(now))
        assert better + len(best.best[3]) + 1 > budget


@given(st.lists(st.tuples(messages, st.booleans()), max_size=10))
def test_asking_for_the_first_time_gives_the_lines_of_a_fresh_evidence(steps):
    evidence = Evidence()
    for n, (msg, forget) in enumerate(steps):
        evidence.learn(str(n), msg, n)
        if forget:
            evidence.forget([str(n - 1)])
    kept = [n for n in range(len(steps)) if not (n + 1 < len(steps) and steps[n + 1][1])]
    fresh = learned([m for m, _ in steps], kept)
    assert evidence.lines([], len(steps), 60, COUNT) == fresh.lines([], len(steps), 60, COUNT)


def test_a_line_gives_way_to_a_better_one_and_comes_back_when_there_is_room():
    evidence = learned([result("see alpha_one")])
    assert evidence.lines([], 1, 6, COUNT) == ["see alpha_one"]
    evidence.learn("1", call(path="src/io.py"), 1)
    assert evidence.lines([], 2, 6, COUNT) == ["src/io.py"]
    assert evidence.lines([], 2, 12, COUNT) == ["see alpha_one", "src/io.py"]


def test_lines_go_when_the_budget_shrinks_as_if_it_had_been_so_from_the_start():
    msgs = [result("see alpha_one"), result("see beta_two")]
    evidence = learned(msgs)
    assert evidence.lines([], 2, 27, len) == ["see alpha_one", "see beta_two"]
    assert evidence.lines([], 2, 26, len) == learned(msgs).lines([], 2, 26, len) == ["see beta_two"]


def test_a_line_goes_when_a_better_one_holds_its_value():
    evidence = learned([result("see src/app")])
    assert evidence.lines([], 1, PLENTY, COUNT) == ["see src/app"]
    evidence.learn("1", call(path="src/app/main.py"), 1)
    assert evidence.lines([], 2, PLENTY, COUNT) == ["src/app/main.py"]


def test_what_was_held_by_a_line_that_goes_is_quoted_at_once():
    evidence = learned([result("app/src near zeta_2")])
    assert evidence.lines([], 1, PLENTY, COUNT) == ["app/src near zeta_2"]
    evidence.learn("1", call(path="app/src/main.py"), 1)
    assert evidence.lines([], 2, PLENTY, COUNT) == ["app/src near zeta_2", "app/src/main.py"]


def test_the_line_of_a_worse_value_does_not_do_for_a_better_one():
    evidence = learned([result("in src/app/x.py now")])
    assert evidence.lines([], 1, 8, COUNT) == ["in src/app/x.py now"]
    evidence.learn("1", call(path="src/app"), 1)
    assert evidence.lines([], 2, 8, COUNT) == ["src/app"]


def test_what_a_lost_line_held_gets_a_line_of_its_own():
    evidence = learned([result("alpha_one beta_two"), result("and so beta_two")], [0])
    assert evidence.lines([], 1, 9, COUNT) == ["alpha_one beta_two"]
    evidence.learn("1", result("and so beta_two"), 100)
    assert evidence.lines([user("alpha_one")], 101, 9, COUNT) == ["and so beta_two"]


def test_a_part_of_a_line_is_shown_when_that_line_goes():
    evidence = learned([call(path="src/io.py"), call(path="cat src/io.py now")])
    assert evidence.lines([], 2, 30, COUNT) == ["cat src/io.py now"]
    evidence.forget(["1"])
    assert evidence.lines([], 2, 30, COUNT) == ["src/io.py"]

"""The figures of two anchors as recorded elsewhere, and each question answered yes and no."""

from functools import cache
from itertools import pairwise

import pytest
from answers import View, quote, quoted
from casefile import CaseFile
from chat import Tokens
from handover import GOALS, Conversation, Scores, Share, measured, of_half, row, view_text
from hypothesis import given
from policies import POLICIES, Library, make
from questions import QUESTIONS, Probes
from replays import DATA, conversations
from texts import sentences

from autocontext import Msg
from tests.benchmarks.talk import answer, call, result, talks, user

pytestmark = pytest.mark.repo

COUNT = Tokens("bytes4")

# ---------------------------------------------------------------------------------------------------------- recorded
# What another program of the same definitions counts on these conversations, tokens by bytes/4: answered and asked of
# QUESTIONS; broken, quoted lines, useful and quoted characters, tokens of notes and of contexts, over, invalid, probes.
RECORDED = {
    ("truncate", 4_000, ""): (
        [(334, 371), (110, 320), (52, 241), (394269, 773230), (597, 1802)],
        [43, 3373, 5993, 212344, 57942, 537146, 0, 0, 154],
    ),
    ("truncate", 16_000, ""): (
        [(110, 113), (127, 268), (55, 173), (95854, 127561), (548, 916)],
        [0, 0, 0, 0, 0, 639293, 0, 0, 44],
    ),
    ("casefile", 4_000, ""): (
        [(350, 371), (255, 320), (131, 241), (458912, 773230), (1651, 1802)],
        [83, 11848, 54420, 696711, 243258, 529747, 0, 0, 154],
    ),
    ("casefile", 16_000, ""): (
        [(110, 113), (268, 268), (164, 173), (118143, 127561), (916, 916)],
        [0, 12100, 47444, 484053, 176670, 518264, 0, 0, 44],
    ),
    ("truncate", 4_000, "openhands_multiswe/ponylang__ponyc-4595"): (
        [(19, 21), (11, 11), (9, 9), (40188, 60912), (38, 102)],
        [24, 816, 4392, 54556, 14832, 43886, 0, 0, 12],
    ),
    ("casefile", 4_000, "openhands_multiswe/ponylang__ponyc-4595"): (
        [(19, 21), (11, 11), (9, 9), (60912, 60912), (102, 102)],
        [0, 460, 1282, 16134, 6860, 45789, 0, 0, 12],
    ),
    ("truncate", 4_000, "moatless/20241117-psf__requests-863"): (
        [(47, 59), (9, 19), (2, 16), (9528, 9528), (16, 61)],
        [0, 209, 274, 9736, 2776, 40804, 0, 0, 12],
    ),
    ("casefile", 16_000, "moatless/20241117-psf__requests-863"): (
        [(54, 55), (24, 24), (16, 16), (9528, 9528), (72, 72)],
        [0, 1860, 4410, 99786, 27801, 145074, 0, 0, 12],
    ),
    ("truncate", 4_000, "tau2/022b3ed-55-0"): (
        [(6, 11), (10, 10), (0, 14), (9259, 25401), (16, 80)],
        [0, 0, 0, 0, 0, 21647, 0, 0, 7],
    ),
    ("casefile", 4_000, "tau2/022b3ed-55-0"): (
        [(11, 11), (10, 10), (14, 14), (14631, 25401), (80, 80)],
        [2, 199, 4469, 19821, 9349, 25672, 0, 0, 7],
    ),
}


@cache
def replays():
    return {r["id"]: Conversation(r["messages"], COUNT) for r in conversations([DATA])}


@cache
def replayed(name, window, id_):
    return replays()[id_].replay(make(name, window, COUNT), window)


def counted(scores):
    """Scores as they are recorded above."""
    answers = [(sum(s.answers[q].yes for s in scores), sum(s.answers[q].of for s in scores)) for q in QUESTIONS]
    rest = [
        (s.broken.yes, s.broken.of, s.later.yes, s.later.of, s.notes, s.used, s.over, s.invalid, s.probes)
        for s in scores
    ]
    return answers, [sum(column) for column in zip(*rest, strict=True)]


@pytest.mark.parametrize(
    ("name", "window", "id_"),
    # Without an id it is all conversations.
    [pytest.param(*key, marks=() if key[2] else pytest.mark.slow) for key in RECORDED],
)
def test_the_anchors_have_the_recorded_figures(name, window, id_):
    scores = [replayed(name, window, each) for each in ([id_] if id_ else replays())]
    assert counted([s for s in scores if s.probes]) == RECORDED[name, window, id_]


# ------------------------------------------------------------------------------------------------------ hand-made
PATH = "/src/pool_settings.py"
FILE = f"{PATH}\nclass Pool:\n    max_width = 6400\n    shape = round\n" + "# nothing of interest here\n" * 30
LONG = "x" * 90 + " token_limit_77 " + "y " * 60
HISTORY = [
    {"role": "system", "content": "Work in /home/me."},
    user("Do not send anything before Friday, draft it only.\nThanks"),
    call("read_file", "c1", path=PATH),
    result(FILE + LONG, "c1"),
    call("edit_file", "c2", path="/src/other_file.py", text="shape = square"),
    result("done", "c2"),
    call("run_command", "c3", command="pytest -q tests/test_pool.py"),
    result("collected 4 items\nE   AssertionError: 3 != 4 in test_width\n4 failed", "c3"),
    answer("The cause is retry_count_9 in the settings."),
    call("report", "c4", width=6400, limit="token_limit_77", cause="retry_count_9", home="/home/me", again=PATH),
    result("noted", "c4"),
]
PROBE = Probes(HISTORY, COUNT).at(9)


def answers(*context):
    return {question: yes for question, (yes, _) in View(context, PROBE).answers().items()}


def test_what_is_asked():
    assert PROBE.needs == ["6400", "token_limit_77", PATH]  # the agent's own words give nothing, the system's are there
    assert list(PROBE.changes) == ["/src/other_file.py"]
    assert [c.id for c in PROBE.failures] == ["c3"]
    assert PROBE.requests == ["Do not send anything before Friday, draft it only."]
    assert [c.id for c in PROBE.done] == ["c1", "c2", "c3"]
    assert PROBE.future == {"6400", "token_limit_77", "retry_count_9", "/home/me", PATH}


def test_originals_answer_everything_and_nothing_nothing():
    everything, nothing = View(HISTORY[:9], PROBE), View(HISTORY[:1], PROBE)
    assert all(yes == of > 0 for yes, of in everything.answers().values())
    assert all(yes == 0 < of for yes, of in nothing.answers().values())
    assert (everything.notes, list(everything.quotes())) == ([], [])


def test_a_note_can_answer_everything():
    lines = [
        "user: Do not send anything before Friday, draft it only.",
        "/src/other_file.py changed by edit_file",
        "run_command pytest -q tests/test_pool.py -> failed: E   AssertionError: 3 != 4 in test_width",
        "4 failed",
        f"read_file {PATH}:",
        "    max_width = 6400",
        "…" + LONG[60:150] + "…",
    ]
    view = View([user("\n".join(lines))], PROBE)
    assert all(yes == of for yes, of in view.answers().values())
    assert {q.broken for q in view.quotes()} == {False}


@pytest.mark.parametrize(
    ("note", "told"),
    [
        (f"read_file {PATH}:\nmax_width = 6400", 2),  # the path stands in the arguments, whole
        ("max_width = 6400", 0),  # of what?
        (f"read_file {PATH}: width 6400", 1),  # no line of the original
        (f"{PATH}:\nmax_width = 64", 1),
        (f"{PATH}\n" + "more\n" * 29 + "max_width = 6400", 2),
        (f"{PATH}\n" + "more\n" * 30 + "max_width = 6400", 1),  # too far above
        (f"{PATH}:\n{LONG[60:150]}", 2),
        (f"{PATH}:\n{LONG[80:120]}", 1),  # too short a piece
    ],
)
def test_needs(note, told):
    assert answers(user(note))["needs"] == told


def test_a_call_that_is_shown_tells_what_it_was_given():
    assert answers(HISTORY[2])["needs"] == 1


def test_a_changed_result_is_a_note_below_its_calls_label():
    assert answers({**HISTORY[3], "content": "    max_width = 6400\n[cut]"})["needs"] == 1
    assert answers({**HISTORY[3], "content": "[cut]"})["needs"] == 0  # the label is not shown, it only says where
    assert answers({**HISTORY[3], "content": "[cut]"})["done"] == 1


@pytest.mark.parametrize(
    ("note", "told"),
    [
        (user("max_w = 6400_px"), 0),
        (user("You said: see order_77 for Ann"), 1),
        (user("see order_77 for Ann"), 1),  # in the role of who said it
        (answer("see order_77 for Ann"), 0),
        (answer("The user:\nsee order_77 for Ann"), 1),
    ],
)
def test_what_was_said_needs_a_speaker(note, told):
    probe = Probes([user("see order_77 for Ann"), call("look", order="order_77")], COUNT).at(1)
    assert View([note], probe).answers()["needs"] == (told, 1)


def test_a_value_counts_for_each_call_that_needs_it():
    twice = call("a", "1", path=PATH)
    twice["tool_calls"] += call("b", "2", path=PATH)["tool_calls"]
    assert Probes([user(PATH), twice], COUNT).at(1).needs == [PATH, PATH]


@pytest.mark.parametrize(
    ("note", "told"),
    [
        ("Modified: other_file.py", 1),
        ("other_file.py: edit_file", 1),
        ("I looked at other_file.py", 0),
        ("Modified:\nother_file.py", 0),  # not on the same line
        ("Modified: that_file.py", 0),
    ],
)
def test_changes(note, told):
    assert answers(user(note))["changes"] == told
    assert answers(HISTORY[4])["changes"] == 1


@pytest.mark.parametrize(
    ("note", "told"),
    [
        ("pytest -q tests/test_pool.py failed:\nE   AssertionError: 3 != 4 in test_width\n4 failed", 1),
        ("pytest -q tests/test_pool.py\n" + "more\n" * 11 + "4 failed", 1),
        ("pytest -q tests/test_pool.py\n" + "more\n" * 12 + "4 failed", 0),
        ("4 failed\npytest -q tests/test_pool.py", 0),
        ("pytest -q tests/test_pool.py failed", 0),  # not its own words
        ("4 failed", 0),
    ],
)
def test_failures(note, told):
    assert answers(user(note))["failures"] == told


def test_a_failure_without_words_is_told_by_saying_so():
    probe = Probes([user("go"), call("bash", command="make all"), result("exit code: 2"), answer()], COUNT).at(3)
    assert View([user("bash make all -> failed")], probe).answers()["failures"] == (1, 1)
    assert View([user("bash make all")], probe).answers()["failures"] == (0, 1)


def test_a_failure_that_was_repaired_is_not_asked_for():
    again = [call("run_command", "c5", command="pytest -q tests/test_pool.py"), result("4 passed", "c5")]
    assert Probes([*HISTORY[:8], *again, answer()], COUNT).at(10).failures == []


def test_a_failed_result_must_be_whole():
    assert answers(*HISTORY[6:8])["failures"] == 1
    assert answers(HISTORY[6], {**HISTORY[7], "content": "collected 4 items"})["failures"] == 0


@pytest.mark.parametrize(
    ("note", "told"),
    [
        ("User: Do not send anything\nbefore Friday, draft it only.", 50),
        ("User: do not send before Friday", 0),
        ("Do not send anything before Friday", 0),
    ],
)
def test_requests_stand_word_for_word(note, told):
    assert answers(user(note))["requests"] == told


def test_sentences():
    text = (
        "Fix the pool, please. Now!  Then run the\ttests again?\n确认之后再删除旧的文件，不要提前删除任何东西。 Short."
    )
    assert sentences(text) == [
        "Fix the pool, please.",
        "Then run the tests again?",
        "确认之后再删除旧的文件，不要提前删除任何东西。",
    ]


@pytest.mark.parametrize(
    ("note", "told"), [("read_file pool_settings.py", 1), ("read_file\npool_settings.py", 0), ("pool_settings.py", 0)]
)
def test_done(note, told):
    assert answers(user(note))["done"] == told
    assert answers(HISTORY[2], HISTORY[4])["done"] == 2


@pytest.mark.parametrize(
    ("line", "chars", "broken", "useful"),
    [
        ("max_width = 6400", 16, False, True),
        ("- max_width = 6400", 16, False, True),
        ("ax_width = 6400", 15, True, True),
        ("…ax_width = 6400", 15, False, True),
        ("max_width = 64", 14, True, False),
        ("max_width = 64…", 14, False, False),
        ("max_width = 64...", 14, False, False),
        ("# nothing of interest here", 26, False, False),
        ("nothing of interest", 19, False, False),  # between words
    ],
)
def test_quotes(line, chars, broken, useful):
    assert quote(line, PROBE) == (chars, broken, useful)


@pytest.mark.parametrize("line", ["shape", "max_width = 6401", "", "…", "... "])
def test_what_is_no_quote(line):
    assert quote(line, PROBE) is None


def test_a_value_with_blanks_makes_a_quote_useful():
    probe = Probes([user("see the red door now"), call("look", what="the red door")], COUNT).at(1)
    assert quote("see the red door now", probe).useful
    assert not quote("see the red doo", probe).useful


def test_a_long_line_is_quoted_by_a_piece():
    assert quoted("token_limit_77", FILE + LONG, "> " + LONG)
    assert quoted("token_limit_77", FILE + LONG, LONG[40:130])
    assert not quoted("token_limit_77", FILE + LONG, LONG[:104])  # the value is cut off
    assert not quoted("6400", FILE, "6400")


# --------------------------------------------------------------------------------------------------- probes and rows
def test_at_most_twelve_probes_spread_over_what_the_window_does_not_hold():
    talk = [m for n in range(60) for m in (user(f"message {n} " + "word " * 40), answer())]
    places = Probes(talk, COUNT).places(1_000)
    first = next(i for i in range(1, 120, 2) if COUNT(talk[:i]) > 1_000)
    assert (len(places), places[0], places[-1]) == (12, first, 119)
    assert {round((b - a) / 9) for a, b in pairwise(places)} == {1}
    assert Probes(talk[: first + 5], COUNT).places(1_000) == [first, first + 2, first + 4]
    assert Probes(talk, COUNT).places(100_000) == []
    assert Probes([{"role": "system", "content": "s" * 3_000}, *talk], COUNT).places(1_000) == []


RECORD = {
    "id": "tiny",
    "messages": [
        *HISTORY[:9],
        *(m for n in range(5, 9) for m in (call(id_=f"c{n}"), result("word " * 500, f"c{n}"))),
        *HISTORY[9:],
        answer(),
    ],
}


def test_rows_are_pooled_shares():
    [found] = measured([RECORD], ["truncate"], [1_200])
    assert (found["conversations"], found["over"], found["invalid"], found["retrievable"]) == (1, 0, 0, None)
    assert found["requests"] == 1  # the first user message stays
    assert 0 < found["failures"] < 1
    assert 0 < found["done"] < 1
    assert found["fair"] == pytest.approx(sum(found[q] for q in QUESTIONS) / 5)
    assert found["per_conversation"] == pytest.approx(found["fair"])  # there is one, and everything is asked
    assert found["reachable"] < 1


def test_this_library_reaches_everything():
    [found] = measured([RECORD], ["autocontext"], [1_200])
    assert (found["reachable"], found["retrievable"], found["over"], found["invalid"]) == (1, 100, 0, 0)
    assert found["goal"] == ""  # there is none for this window


def test_numbers_in_a_note_are_handles():
    policy = Library(4_000, COUNT)
    policy.step(RECORD["messages"][:9])
    assert list(policy.reachable()) == []
    policy.memory.add_message(Msg(role="user", content="see m1-m2"))
    assert [text.strip() for text in policy.reachable()] == [m["content"] for m in HISTORY[:2]]


def test_a_context_larger_than_the_window_counts_as_over_and_is_truncated():
    [all_, cut] = measured([RECORD], ["everything", "truncate"], [1_200])
    assert (all_["over"], cut["over"]) == (1, 0)
    assert {**all_, "policy": "", "over": 0, "seconds": 0} == {**cut, "policy": "", "over": 0, "seconds": 0}


def test_a_broken_context_is_invalid():
    class Orphans(POLICIES["truncate"]):
        def step(self, new):
            return [m for m in super().step(new) if "tool_calls" not in m]

    scores = Conversation(RECORD["messages"], COUNT).replay(Orphans(1_200, COUNT), 1_200)
    assert scores.invalid == scores.probes > 0


def test_goals_that_are_missed_are_named():
    met = Scores(answers={q: Share(100, 100) for q in QUESTIONS}, probes=1, notes=1_000)
    assert row("autocontext", 4_000, [met])["goal"] == "met"
    assert row("casefile", 4_000, [met])["goal"] == ""
    bad = Scores(probes=1, notes=1_200, broken=Share(1, 100))
    missed = "needs 95, changes 88, failures 62, requests 75, done 95, notes 28, broken 0.3"
    assert row("autocontext", 4_000, [bad])["goal"] == f"MISSED: {missed}"
    assert row("autocontext", 32_000, [met])["goal"] == "met"
    assert all(set(goals) <= {*QUESTIONS, "notes"} for goals in GOALS.values())


def test_shares_are_pooled_over_what_was_asked_and_means_over_conversations():
    large = Scores(answers={q: Share(9, 9) for q in QUESTIONS}, probes=3, used=3_000, later=Share(1, 4))
    small = Scores(answers={"needs": Share(0, 1), **{q: Share() for q in QUESTIONS[1:]}}, probes=1, used=2_000)
    found = row("truncate", 4_000, [large, small])
    assert (found["needs"], found["changes"], found["later"]) == (0.9, 1.0, 0.25)
    assert found["means"] == {"needs": 0.5, **dict.fromkeys(QUESTIONS[1:], 1.0)}
    assert found["used"] == 5_000 / 4 / 4_000


def test_the_halves():
    records = [*conversations([DATA]), RECORD]
    tuning, held_out = of_half(records, "tuning"), of_half(records, "held-out")
    assert [r["id"] for r in tuning] == [r["id"] for r in records[:19:2]]
    assert [r["id"] for r in held_out] == [r["id"] for r in records[1:19:2]]
    assert tuning[0]["id"] == "pi_sessions/large-session"
    assert of_half(records, "all") == records  # what is not shared is in no half


def test_notes_are_shown_with_their_answers():
    view = View([HISTORY[1], user("max_width = 6400\nread_file")], PROBE)
    assert view_text(view).splitlines() == [
        "--- before message 9",
        "[user] max_width = 6400",
        "[user] read_file",
        "needs 0 of 3, changes 0 of 1, failures 0 of 1, done 0 of 3, requests 50 of 50",
    ]


def test_a_conversation_is_shown_before_every_probe():
    said = []
    list(measured([RECORD, {**RECORD, "id": "other"}], ["truncate"], [1_200], only="tin", show=said.append))
    assert said[0] == "=== tiny, window 1,200, truncate"
    assert len(said) == 1 + len(Probes(RECORD["messages"], Tokens()).places(1_200))


@given(talks())
def test_answers_are_parts_of_what_is_asked(messages):
    scores = Conversation(messages, COUNT).replay(CaseFile(600, COUNT), 600)
    assert all(0 <= share.yes <= share.of for share in (*scores.answers.values(), scores.broken, scores.later))
    assert scores.invalid == 0

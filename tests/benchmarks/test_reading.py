"""Readings: drawn evenly and again the same, laid without names, judged by a checked line, told with the key."""

import json
import random
import sys
from collections import Counter

import pytest
from chat import Tokens, invalid
from reading.__main__ import main
from reading.contexts import chosen, context_at, places
from reading.draw import drawn
from reading.judgements import checked, key_of, note, noted, table, tallies
from reading.pages import html_page, text_page, what_came_next
from replays import source_of

from tests.benchmarks.talk import answer, call, result, user

pytestmark = pytest.mark.repo

COUNT = Tokens("bytes4")
NEWEST = """
import chosen_words
from dataclasses import dataclass

@dataclass
class Words:
    one: str = chosen_words.ONE

class Newest:
    def __init__(self, window, count):
        self.messages = []

    def step(self, new):
        self.messages += new
        return [{"role": "user", "content": Words().one}, *self.messages[-1:]]
"""


def talk(name, kind, steps=12):
    messages = [user(f"Please mend {name}.")]
    for n in range(steps):
        messages += [call(path=f"/src/{name}_{n}.py", id_=f"c{n}"), result(f"line {n} of {name}\n" * 60, f"c{n}")]
    return {"id": name, "source": f"github:somebody/{kind} object 1", "messages": [*messages, answer("done")]}


TALKS = [talk(f"{kind}{n}", kind) for kind, of in (("alpha", 4), ("beta", 1), ("gamma", 2)) for n in range(of)]


@pytest.fixture
def own(tmp_path):
    (tmp_path / "newest.py").write_text(NEWEST)
    (tmp_path / "chosen_words.py").write_text("ONE = 'mine'")
    return f"newest={tmp_path / 'newest.py'}:Newest"


@pytest.fixture
def folder(tmp_path, own):
    data = tmp_path / "talks.jsonl"
    data.write_text("".join(json.dumps(t) + "\n" for t in TALKS))
    to = tmp_path / "to"
    main(["lay", str(data), "--policy", own, "--windows", "600", "1000", "--count", "6", "--to", str(to)])
    return to


def test_kinds_and_windows_are_spread_evenly_and_a_seed_draws_the_same_again():
    readings = drawn(TALKS, [600, 1_000], 12, random.Random(3), COUNT)
    assert Counter(source_of(r.conversation) for r in readings) == dict.fromkeys(("alpha", "beta", "gamma"), 4)
    assert Counter(r.window for r in readings) == {600: 6, 1_000: 6}
    assert len({r.conversation["id"] for r in readings}) == len(TALKS)  # none twice before all of its kind came
    assert all(r.place in places(r.conversation["messages"], r.window, COUNT) for r in readings)
    assert readings == drawn(TALKS, [600, 1_000], 12, random.Random(3), COUNT)
    assert readings != drawn(TALKS, [600, 1_000], 12, random.Random(4), COUNT)


def test_no_more_readings_than_places():
    short = talk("short", "alpha", steps=3)
    readings = drawn([short], [600], 50, random.Random(1), COUNT)
    assert sorted(r.place for r in readings) == places(short["messages"], 600, COUNT)


def test_a_policy_by_path_may_import_from_its_folder_and_hides_nothing_here(own, tmp_path):
    (tmp_path / "chat.py").write_text("")
    before = sys.modules["chat"]
    policies = chosen([own])
    assert list(policies) == ["ours", "truncation", "newest"]
    assert sys.modules["chat"] is before
    assert "chosen_words" not in sys.modules
    assert str(tmp_path) not in sys.path
    messages = TALKS[0]["messages"]
    assert context_at(messages, 5, policies["newest"], 600, COUNT) == [user("mine"), messages[4]]


@pytest.mark.parametrize("text", ["ours", "=x", "mine=nowhere", "mine=nowhere.txt:Class"])
def test_what_is_no_policy_says_how_to_write_one(text):
    with pytest.raises(ValueError, match=r"write"):
        chosen([text])


def test_contexts_hold_what_came_before_and_fit():
    messages = TALKS[0]["messages"]
    for name, make in chosen([]).items():
        context = context_at(messages, 19, make, 1_000, COUNT)
        assert COUNT(context) <= 1_000, name
        assert not invalid(context)
        assert "line 8" in json.dumps(context)
        assert "alpha0_9.py" not in json.dumps(context)


def test_a_page_has_no_names_and_folds_away_what_came_next(folder):
    key = json.loads((folder / "key.json").read_text())
    assert len(key) == 6
    assert sorted(tuple(entry["letters"].values()) for entry in key.values()) == sorted(
        {tuple(entry["letters"].values()) for entry in key.values()}
    )  # six readings, each of the six orders once
    for reading, entry in key.items():
        page = (folder / f"{reading}.html").read_text()
        assert sorted(entry["letters"]) == ["A", "B", "C"]
        assert not [name for name in ("ours", "truncation", "newest") if name in page]
        shown, _, folded = page.partition("<details>")
        messages = next(t for t in TALKS if t["id"] == entry["id"])["messages"]
        coming = "done" if entry["place"] == len(messages) - 1 else f"_{(entry['place'] - 1) // 2}.py"
        assert coming in folded
        assert f">{coming}<" not in shown
        assert coming == "done" or coming not in shown
        assert (folder / f"{reading}.history.txt").read_text().count("===== m") == entry["place"]


def test_pages_escape_and_cut_long_results():
    messages = [user("a <b>"), call(path="x"), result("r" * 4_000), answer("next"), user("more")]
    coming = what_came_next(messages, 1)
    assert [m["role"] for m in coming] == ["assistant", "tool", "assistant"]
    assert "[2500 characters left out]" in coming[1]["content"]
    assert "a &lt;b&gt;" in html_page("t", {"A": messages[:1]}, coming)
    assert "a <b>" in text_page("t", {"A": messages[:1]}, coming)


def test_judgements_are_checked_joined_and_told(folder, capsys):
    key = key_of(folder)
    for reading, entry in key.items():
        best = sorted(entry["letters"], key=lambda letter: entry["letters"][letter])  # newest, ours, truncation
        line = {"reading": reading, "order": best, "false_lines": {best[1]: ["x", "y"]}, "reason": "r"}
        main(["judge", str(folder), json.dumps({**line, "order": best[::-1]})])
        note(folder, [json.dumps(line), ""])  # read again: the last counts
    assert len(noted(folder)) == 6
    told = tallies(key, noted(folder))
    assert list(told) == ["newest", "ours", "truncation"]
    assert (told["newest"].first, told["newest"].last, told["newest"].place) == (6, 0, 1)
    assert (told["ours"].first, told["ours"].false_lines, told["ours"].with_false) == (0, 12, 6)
    assert told["truncation"].last == 6
    capsys.readouterr()
    main(["tell", str(folder)])
    printed = capsys.readouterr().out
    assert "| newest | 6 | 6 | 0 | 1.00 | 0 | 0 |" in printed
    assert "| newest | 3 of 3 | 3 of 3 |" in printed


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"reading": "99"}, "name a reading"),
        ({"order": ["A", "B"]}, "order"),
        ({"order": ["A", "B", "B"]}, "order"),
        ({"false_lines": {"D": []}}, "false_lines"),
        ({"false_lines": {"A": "x"}}, "false_lines"),
        ({"reason": ""}, "reason"),
    ],
)
def test_a_wrong_judgement_says_what_is_wrong(wrong, says):
    key = {"01": {"letters": {"A": "x", "B": "y", "C": "z"}, "window": 1}}
    line = {"reading": "01", "order": ["B", "A", "C"], "reason": "r", **wrong}
    with pytest.raises(ValueError, match=says):
        checked(json.dumps(line), key)


def test_nothing_judged_is_an_empty_table():
    assert table({}, []).startswith("| policy |")

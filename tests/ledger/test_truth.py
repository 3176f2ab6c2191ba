"""What a rendering says is true: every line of it against a second, naive reading of the history."""

import re
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory, Msg
from autocontext.ledger import WorkLedger
from autocontext.messages import is_compressed
from tests.conversations import histories
from tests.invariants import handles
from tests.ledger.desks import Step, played, work
from tests.ledger.readings import Listed, Made, Reading, calls_of, plain, tool_counts
from tests.test_replay import CONVERSATIONS


def failed(call: Made) -> bool:
    """In the random work a failure is marked, and says so."""
    return call.is_error


def about(call: Made) -> str:
    """What calls that share a line have in common."""
    if "path" in call.input:
        return str(call.input["path"])
    return ", ".join(map(str, call.input.values()))


def effect(call: Made) -> str:
    """Whether a tool of the random work looks or changes."""
    looks = call.name.startswith(("read", "get", "search")) or call.input.get("command") == "view"
    return "reads" if looks else "changes"


def thing(call: Made) -> str:
    """What a call of the random work changes; "" for those that change nothing."""
    if call.name == "bash":
        command = call.input["command"]
        if command.startswith("git"):
            return "git commit"
        return command.rsplit(" ", 1)[1] if command.startswith(("rm", "touch", "echo")) else ""
    if effect(call) == "reads":
        return ""
    return next(str(call.input[k]) for k in ("path", "order_id", "to") if k in call.input)


def key(call: Made) -> tuple[str, str, str]:
    return call.name, about(call), effect(call) if call.name == "editor" else ""


def check_work(messages: list[Msg], text: str, only: set[int]) -> None:
    """A rendering of the random work: everything, and all numbers exactly."""
    note = Reading(messages, text, only)
    note.check()
    check_states(note)
    check_changes(note)
    check_counts(note)


def groups_of(note: Reading, number: int, name: str, label: str, last: int) -> list[list[Made]]:
    """The calls a listed one may stand for: the newest stands in the span, beside parallel ones of the same label."""
    newest = [c for c in note.calls if c.name == name and number <= c.number <= last and fits(label, c)]
    assert newest, (number, name, label)
    parallel = [c for c in newest if c.number == newest[-1].number]
    return [[c for c in note.calls if key(c) == key(n) and c.number <= n.number] for n in parallel]


def fits(label: str, call: Made) -> bool:
    whole, pieces = plain(about(call)), label.split("…")
    return label == whole or (len(pieces) > 1 and all(p.strip() in whole for p in pieces))


def check_states(note: Reading) -> None:
    for item in note.listed:
        groups = groups_of(note, item.first, item.name, item.label, item.last)
        assert any(describes(item, group, note) for group in groups), item


def describes(item: Listed, group: list[Made], note: Reading) -> bool:
    """Whether a listed call says of these calls what came of them."""
    newest = group[-1]
    later = [c for c in note.every if key(c) == key(newest) and c.number > newest.number]
    mended = failed(newest) and any(c.result and not failed(c) for c in later)
    before = mended or any(failed(c) for c in group[:-1])
    return (
        item.times == len(group)
        and item.open == (not newest.result)
        and item.failed == (failed(newest) and not mended)
        and (not newest.result or item.failed or item.failed_before == before)
    )


def check_changes(note: Reading) -> None:
    for name, said in note.changed.items():
        tried = [c for c in note.calls if thing(c) == name and c.result]
        worked = [c for c in tried if not failed(c)]
        assert worked, name
        since = tried[tried.index(worked[0]) :]
        assert said.first <= since[-1].number <= said.last, (name, said)
        assert said.failed == failed(since[-1]), (name, said)
        assert said.tool in ("", since[-1].name), (name, said)
        times = [
            int((re.findall(r" (\d+)x$", words) or ["1"])[0])
            for words in re.sub(r"\(.*?\)", "", said.words).split(", ")
        ]
        assert sum(times) == len(worked), (name, said)


def check_counts(note: Reading) -> None:
    """Each call is listed, told of as a change, or counted; each change is listed or counted."""
    changed = [c for c in note.calls if thing(c) and c.result and not failed(c)]
    if note.changed:
        assert len(note.changed) + note.more == len({thing(c) for c in changed})
    listed = {(i.name, i.label) for i in note.listed}
    shown = Counter[str]()
    for item in note.listed:
        shown[item.name] += item.times
    told = [c for c in note.calls if c.name != "bash" and thing(c) in note.changed]
    rest = len(note.calls) - sum(shown.values()) - note.unlisted
    assert 0 <= rest <= len([c for c in told if (c.name, about(c)) not in listed or c.name == "editor"]), note.text


KINDS = ("coding", "service")


@pytest.mark.parametrize("kind", KINDS)
@given(st.data())
def test_every_line_about_random_work_is_true(kind: str, data: st.DataObject) -> None:
    messages = data.draw(work(kind))
    budget = data.draw(st.sampled_from((600, 1_500, 10_000)))
    check_work(messages, WorkLedger.of(messages).render(budget, len), set(range(1, len(messages) + 1)))


@pytest.mark.parametrize("kind", KINDS)
@given(st.data())
def test_every_line_about_a_part_is_true(kind: str, data: st.DataObject) -> None:
    """A note of a span that ends anywhere, with results beyond its end."""
    messages = data.draw(work(kind))
    last = data.draw(st.integers(1, len(messages)))
    only = set(range(data.draw(st.integers(1, last)), last + 1))
    check_work(messages, WorkLedger.of(messages).render(3_000, len, only=only), only)


@given(histories(max_moves=8), st.integers(200, 5_000))
def test_lines_about_anything_are_true(messages: list[Msg], budget: int) -> None:
    text = WorkLedger.of(messages).render(budget, len)
    Reading(messages, text, set(range(1, len(messages) + 1))).check_numbers()
    Reading(messages, text, set(range(1, len(messages) + 1))).check_words()


def test_what_failed_and_then_went_well_says_so() -> None:
    run = {"command": "pytest -q"}
    messages = played([Step("bash", run, "failed"), Step("bash", run), Step("bash", {"command": "ls"})])
    everything = set(range(1, len(messages) + 1))
    text = WorkLedger.of(messages).render(2_000, len)
    check_work(messages, text, everything)
    assert "`pytest -q` 2x (failed, then ok); `ls`" in text
    check_work(messages, WorkLedger.of(messages).render(2_000, len, only={1, 2}), {1, 2})
    broken = played([Step("bash", run), Step("bash", run, "failed")])
    assert "bash: pytest -q 2x -> failed: Error: bash could not" in WorkLedger.of(broken).render(2_000, len)


def test_a_view_does_not_mend_an_edit() -> None:
    edit = Step("editor", {"command": "str_replace", "path": "src/a.py"}, "failed")
    messages = played([edit, Step("editor", {"command": "view", "path": "src/a.py"})])
    text = WorkLedger.of(messages).render(2_000, len)
    assert "-> failed: Error: editor could not do that" in text
    assert "then ok" not in text
    assert "failed before" not in text


def test_other_scripts_are_other_calls() -> None:
    script = "python3 - <<'EOF'\nimport {}\nprint(1)\nEOF"
    first = Step("bash", {"command": script.format("nothing")}, "failed")
    messages = played([first, Step("bash", {"command": script.format("json")})])
    text = WorkLedger.of(messages).render(2_000, len)
    assert "2x" not in text
    assert "-> failed: Error: bash could not do that" in text


# ---------------------------------------------------------------------------------------------------- conversations
def notes(memory: AutoContextMemory) -> list[Msg]:
    return [m for m in memory.messages if is_compressed(m) and m.origin is not None]


HEAD = re.compile(r"(\d+) earlier messages?(?: \(m(\d+)(?:-m(\d+))?\))?(?:; calls: (.*))?")


def check_note(memory: AutoContextMemory, originals: list[Msg], note: Msg) -> None:
    number = {m.id: n for n, m in enumerate(originals, 1)}
    behind = [m for key in handles(note) for m in memory.reload(key)]
    only = {number[m.id] for m in behind}
    lines = [x for x in note.text.splitlines() if not x.startswith(("[Reference note", "[End of", "<!--"))]
    head = HEAD.fullmatch(lines[0])
    assert head, lines[0]
    assert int(head[1]) == len(only)
    if head[2]:
        assert (int(head[2]), int(head[3] or head[2])) == (min(only), max(only))
    truth = tool_counts(originals[n - 1] for n in only)
    for name, count in re.findall(r"(\S+) (\d+)x", head[4] or ""):
        assert truth[name] == int(count), lines[0]
    # A note that had room for nothing but its head may leave the calls out.
    assert bool(head[4]) == bool(truth) or not lines[1:]
    Reading(originals, "\n".join(lines[1:]), only).check()


def follow(name: str, window: int, when: Callable[[int], bool]) -> int:
    """Feed a conversation and check the notes in view; returns how many were checked."""
    memory = AutoContextMemory(AutoContextConfig.for_window(window))
    added, checked, seen = list[Msg](), 0, set[str]()
    for i, msg in enumerate(CONVERSATIONS[name]):
        memory.add_message(msg)
        added.append(msg)
        memory.get_messages()
        if when(i) or i == len(CONVERSATIONS[name]) - 1:
            for note in notes(memory):
                if note.id not in seen and "earlier message" in note.text:
                    check_note(memory, added, note)
                    checked += 1
                    seen.add(note.id)
    return checked


SHORT = [name for name in sorted(CONVERSATIONS) if len(CONVERSATIONS[name]) <= 100]


@pytest.mark.parametrize("window", [4_000, 16_000])
def test_every_note_in_real_work_is_true(window: int) -> None:
    """A sample of the conversations; all of them, at every message, in the slow test."""
    assert sum(follow(name, window, lambda i: i % 7 == 0) for name in SHORT[::3]) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("window", [2_000, 4_000, 8_000, 16_000])
@pytest.mark.parametrize("name", sorted(CONVERSATIONS))
def test_every_note_of_every_fold_is_true(name: str, window: int) -> None:
    follow(name, window, lambda i: True)


def test_the_naive_reading_pairs_calls_as_it_should() -> None:
    made = calls_of(played([Step("read_file", {"path": "a"}), Step("bash", {"command": "ls"}, "none")]))
    assert [(c.number, c.result) for c in made] == [(1, 2), (3, 0)]

"""The sizes and losses of the state optimiser, compared with the original's algorithm.

Usage: `python benchmarks/optimiser.py [--json | --markdown]`. Seeded, no network, no model. A FRESH process gets the
optimised state and the database and must come to every original message byte for byte, or the exit code is 1. The
original's algorithm is re-told here from its published behaviour, in messages, so that both are counted the same way.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from measure import Row, percentile, run
from pruning import prose

from autocontext import Msg
from autocontext.content import SqliteContentStore
from autocontext.history.view import open_pairs
from autocontext.sessions import SessionState, StateOptimizer, restore_state_messages
from autocontext.testing import assistant, tool_call, tool_result, user

NAMES = ("main", "views", "models", "forms", "urls", "admin", "tests", "utils", "tasks", "auth", "cache", "api")
FILES = [f"/src/app/{name}.py" for name in NAMES]
ERRORS = (
    "Error: file not found: {path}", "Traceback (most recent call last):\n  File '{path}', line 7\nKeyError: 'user_id'",
    "error: permission denied: {path}", "TimeoutError: no answer after 30 s",
)  # fmt: skip


def coding(turns: int, seed: int = 5, result_chars: int = 7_500) -> list[Msg]:
    """Turns of eight messages: request, three exchanges with tools (15 % fail), answer; twelve files."""
    dice = random.Random(seed)
    messages: list[Msg] = []
    for t in range(turns):
        messages.append(user(f"Turn {t}: please change {dice.choice(FILES)} so that case {t} works", id=f"u{t}"))
        for s in range(3):
            path, call_id = dice.choice(FILES), f"call_{t}_{s}"
            tool = ("read_file", "edit_file", "run_tests")[s]
            arguments = {"path": path, "line": t} if tool == "edit_file" else {"path": path}
            failed = dice.random() < 0.15
            size = result_chars if tool != "edit_file" else 300
            text = dice.choice(ERRORS).format(path=path) + "\n" + prose(t * 10 + s, 400)
            call = tool_call(tool, arguments, id=call_id)
            messages.append(call.model_copy(update={"id": f"c{t}{s}"}))
            text = text if failed else f"{path} at turn {t}\n{prose(t * 10 + s, int(size * (0.5 + dice.random())))}"
            result = tool_result(call_id, text, name=tool)
            messages.append(result.model_copy(update={"id": f"r{t}{s}"}))
        messages.append(assistant(f"Case {t} works now; I changed two lines and the tests pass.", id=f"a{t}"))
    return messages


def chatting(turns: int) -> list[Msg]:
    """A conversation without tools."""
    messages: list[Msg] = []
    for t in range(turns):
        messages += [user(f"Question {t}: {prose(t, 200)}"), assistant(prose(10_000 + t, 900))]
    return messages


# ----------------------------------------------------------------------------------------------- the original's way
def original_way(messages: list[Msg]) -> list[Msg]:
    """The algorithm of the original, by its published steps: what it returns is what is left."""
    history = _dropping_repeats(messages)
    history = _dropping_failures(history)
    history = _dropping_redundant(history)
    if len(history) > 16:
        old, kept = history[:-10], history[-10:]
        tools = sorted({_tool(m) for m in old if m.tool_results})
        used = "; ".join(f"Successfully used {tool} 1 times" for tool in tools)
        requests = sum(m.role == "user" for m in old)
        text = f"Conversation Summary: {used}; User made {requests} requests"
        history = [Msg(role="system", content=text), *kept]
    return history


def _tool(msg: Msg) -> str:
    return msg.tool_results[0].name


def _dropping_repeats(messages: list[Msg]) -> list[Msg]:
    """One result per tool and outcome, the newest, in the place of the first; arguments do not count."""
    places: dict[str, int] = {}
    unique: list[Msg] = []
    for m in messages:
        if not m.tool_results:
            unique.append(m)
            continue
        text = m.tool_results[0].text
        key = f"{_tool(m)}:error:{_kind(text)}" if "Error" in text else f"{_tool(m)}:success"
        if key in places:
            unique[places[key]] = m
        else:
            places[key] = len(unique)
            unique.append(m)
    return unique


def _kind(text: str) -> str:
    words = ("validation", "not found", "permission", "timeout")
    return next((w for w in words if w in text.lower()), "general")


def _dropping_failures(messages: list[Msg]) -> list[Msg]:
    """No failure of a tool that has succeeded anywhere."""
    good = {_tool(m) for m in messages if m.tool_results and "Error" not in m.tool_results[0].text}
    return [m for m in messages if not (m.tool_results and "Error" in m.tool_results[0].text and _tool(m) in good)]


def _dropping_redundant(messages: list[Msg]) -> list[Msg]:
    """Without assistant messages that repeat or contain the previous one, whatever is between them."""
    remaining: list[Msg] = []
    last: str | None = None
    for m in messages:
        if m.role == "assistant":
            text = m.text.lower().strip()
            tools = set(re.findall(r"(\w+)_tool", text))
            if last is not None and _is_redundant(last, text, tools):
                continue
            last = text
        remaining.append(m)
    return remaining


def _is_redundant(last: str, text: str, tools: set[str]) -> bool:
    if text == last or (tools and tools == set(re.findall(r"(\w+)_tool", last))):
        return True
    return min(len(text), len(last)) > 20 and (text in last or last in text)


# ------------------------------------------------------------------------------------------------------------ cases
def compared(name: str, messages: list[Msg]) -> list[dict[str, Any]]:
    """One trace through both; every figure counted by the same code."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.db"
        store = SqliteContentStore(path)
        state = SessionState("bench", "u", messages, user_input="which file did I change for case 3?")
        begun = time.perf_counter()
        after, report = StateOptimizer(store=store).optimize(state)
        spent = time.perf_counter() - begun
        again, _ = StateOptimizer(store=store).optimize(after)
        store.close()
        lossy = original_way(messages)
        ours = _row(f"{name}, autocontext", messages, after.messages, retrieved(after, path, messages)) | {
            "ms": 1_000 * spent, "idempotent": again == after, "disk": path.stat().st_size,
            "tokens": [report.tokens_before, report.tokens_after], "state": [report.bytes_before, report.bytes_after],
        }  # fmt: skip
        return [ours, _row(f"{name}, the original's way", messages, lossy, _kept(messages, lossy))]


def _row(name: str, before: list[Msg], after: list[Msg], share: float) -> dict[str, Any]:
    size, left = (sum(len(m.model_dump_json().encode()) for m in ms) for ms in (before, after))
    old, new = open_pairs(before), open_pairs(after)
    results_before = {r.text for m in before for r in m.tool_results}
    results_after = {r.text for m in after for r in m.tool_results}
    return {
        "case": name, "bytes": [size, left], "reduction": 100 * (1 - left / size), "retrievable": share,
        "broken": len(set(new.unanswered_calls) - set(old.unanswered_calls))
        + len(set(new.orphan_results) - set(old.orphan_results)),
        "results": [len(results_before & results_after), len(results_before)], "items": [len(before), len(after)],
        "requests": [sum(m.role == "user" for m in ms) for ms in (after, before)],
    }  # fmt: skip


def _kept(before: list[Msg], after: list[Msg]) -> float:
    left = {m.id for m in after}
    return 100 * sum(m.id in left for m in before) / len(before)


def retrieved(state: SessionState, database: Path, messages: list[Msg]) -> float:
    """Percent of the messages that a fresh process gets back byte for byte from the state and the database."""
    command = [sys.executable, __file__, "--restore", str(database)]
    done = subprocess.run(command, input=state.to_json(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    digests = json.loads(done.stdout)
    return 100 * sum(digests.get(m.id) == _digest(m) for m in messages) / len(messages)


def restore(database: str) -> None:
    """In the fresh process: id and hash of every original message."""
    state = SessionState.from_json(sys.stdin.read())
    got = restore_state_messages(state.messages, store=SqliteContentStore(database))
    json.dump({m.id: _digest(m) for m in got}, sys.stdout)


def _digest(msg: Msg) -> str:
    return hashlib.sha256(msg.model_dump_json().encode()).hexdigest()


def saving(turns: int = 1_000) -> dict[str, Any]:
    """A state saved at every turn: how long that takes early and late, what it writes, and that nothing is lost."""
    messages = coding(turns, result_chars=1_500)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.db"
        store = SqliteContentStore(path)
        optimizer = StateOptimizer(store=store)
        state, spent, sizes, raw, total = SessionState("bench"), [], [], 0, 0
        for t in range(turns):
            new = messages[8 * t : 8 * t + 8]
            begun = time.perf_counter()
            state, _ = optimizer.optimize(state.changed(messages=[*state.messages, *new]))
            saved = state.to_json()
            spent.append(time.perf_counter() - begun)
            sizes.append(len(saved))
            raw += sum(len(m.model_dump_json()) for m in new)
            total += raw
        store.close()
        return {
            "turns": turns, "early_ms": 1_000 * percentile(spent[20:120], 50),
            "late_ms": 1_000 * percentile(spent[-100:], 50), "state_early": sizes[100], "state_late": sizes[-1],
            "payload": raw, "disk": path.stat().st_size, "saving_all_each_time": total,
            "retrievable": retrieved(state, path, messages),
        }  # fmt: skip


def optimising() -> Iterator[Row]:
    """Both ways on a session with tools and on one without."""
    for name, messages in (("a: 40 coding turns", coding(40)), ("b: 40 turns of chat", chatting(40))):
        ours, theirs = compared(name, messages)
        yield case_row(ours)
        yield case_row(theirs, beside=ours)


def case_row(case: dict[str, Any], beside: dict[str, Any] | None = None) -> Row:
    """One case as a row; the last column has what the original loses, since it promises nothing."""
    before, after = case["bytes"]
    more: dict[str, Any] = {
        "before": f"{before:,}", "less": f"{case['reduction']:.1f} %",
        "results shown": "{} of {}".format(*case["results"]), "requests": "{} of {}".format(*case["requests"]),
    }  # fmt: skip
    if beside is not None:
        more |= {"retrievable": f"{case['retrievable']:.0f} %", "broken pairs": case["broken"]}
        return Row(case["case"], after, "bytes", "ours", after / beside["bytes"][1], more=more)
    if not case["idempotent"]:
        raise SystemExit(f"{case['case']}: optimising once more changes the state")
    more |= {"on disk": f"{case['disk']:,}", "ms": round(case["ms"])}
    return Row(
        case["case"], after, "bytes", "what there was", after / before, retrievable=case["retrievable"],
        invalid=case["broken"], more=more,
    )  # fmt: skip


def saved(turns: int = 1_000) -> Iterator[Row]:
    """Saving a state at each of many turns."""
    figures = saving(turns)
    kept = {"retrievable": figures["retrievable"], "invalid": 0}
    early, late = figures["early_ms"], figures["late_ms"]
    yield Row(
        f"c: a save at the last 100 of {turns:,} turns", late, "ms", "a save at turns 20 to 120", late / early, **kept
    )
    states = {"state": f"{figures['state_late']:,}", "state at turn 100": f"{figures['state_early']:,}"}
    yield Row(
        f"c: bytes on disk after {turns:,} turns", figures["disk"] / figures["payload"], "x payload",
        "saving all each time", figures["disk"] / figures["saving_all_each_time"], more=states, **kept,
    )  # fmt: skip


if __name__ == "__main__":
    if sys.argv[1:2] == ["--restore"]:
        restore(sys.argv[2])
    else:
        sys.exit(run("optimiser", [optimising, saved]))

"""Putting messages away for a note about them, and putting back what a note replaced."""

from __future__ import annotations

from typing import Any

from autocontext.events import CompressionReport
from autocontext.history.edits import NO_GAIN
from autocontext.history.entries import Entry
from autocontext.history.log import Log
from autocontext.history.numbering import name, short_list
from autocontext.history.runs import Runs
from autocontext.history.undoing import undo_entry
from autocontext.steering.parts import BUSY, MemoryParts, Refusal, counted
from autocontext.strategies.archive import Archive
from autocontext.tools import as_text


def archive(memory: MemoryParts, messages: Any, reason: Any) -> str:
    """Replace messages by a note about them."""
    with memory.lock:
        strategy = Archive(memory.numbers(messages), as_text(reason), memory.config)
    report = memory.runner.run(only=strategy.bound)
    if report.outcome == "busy":
        raise Refusal(BUSY)
    if strategy.problem:
        raise Refusal(strategy.problem)
    left = {refused.ids[0] for refused in report.refused}
    gone = Runs.union(numbers for span, numbers in strategy.spans if span.ids[0] not in left)
    small = Runs.union(numbers for span, numbers in strategy.spans if span.ids[0] in left)
    if not gone:
        raise Refusal(f"{short_list(small)} stays in view: {_why(report)}.")
    saved = sum(strategy.tokens_saved for strategy in report.strategies)
    away = f"{short_list(gone)}: {counted(len(gone), 'message')}, {counted(saved, 'token')} freed"
    way_back = f'context_restore("{name(gone.pairs[0][0])}") puts them back'
    texts = [f"Put away {away}. A note about them stands in their place; {way_back}."]
    if strategy.widened:
        texts.append(f"{short_list(strategy.widened)} went along: calls and their results stay together.")
    if small:
        texts.append(f"{short_list(small)} stayed: {_why(report)}.")
    return " ".join(texts)


def _why(report: CompressionReport) -> str:
    """Why the gate has refused a note."""
    reasons = [refused.reason for refused in report.refused if refused.reason != NO_GAIN]
    return reasons[0] if reasons else "a note about it would be as long"


def restore(memory: MemoryParts, messages: Any) -> str:
    """Put back the originals of messages that a note or a preview stands for."""
    answer = ""

    def entries() -> list[Entry]:
        nonlocal answer
        entries, answer = _plan(memory, memory.numbers(messages))
        return entries

    memory.journal.commit_anew(entries)
    return answer


def _plan(memory: MemoryParts, numbers: Runs) -> tuple[list[Entry], str]:
    """What puts these messages back into the view, worked out on a copy of the log. Raises Refusal."""
    log = memory.log.as_it_is()
    there = memory.in_view()
    missing = [n for n in numbers if n not in there]
    if not missing:
        raise Refusal(f"{short_list(numbers)} {_are(numbers)} in view, word for word; there is nothing to put back.")
    # What a framework's list has no more is left where it is.
    missing = [n for n in missing if log.original[n - 1] not in log.taken_back] or missing
    entries: list[Entry] = []
    while (note := _note_over(log, Runs.of(missing))) is not None:
        entry = undo_entry(log, note)
        if entry is None:
            break
        log.follow(entry)
        entries.append(entry)
        missing = [n for n in missing if log.original[n - 1] not in set(log.view_ids)]
    if missing:
        some = Runs.of(missing)
        raise Refusal(
            f"{short_list(some)} {_are(some)} not behind a note in view, so there is no place to put it back to. "
            f'context_reload("{name(missing[0])}") reads it.'
        )
    return entries, _answer(memory, numbers, log.view_ids)


def _note_over(log: Log, missing: Runs) -> str | None:
    """The id of a note or a shortened message in view that stands for any of these messages."""
    notes = (id_ for id_ in log.view_ids if id_ in log.replaced)
    return next((id_ for id_ in notes if any(n in missing for n in log.numbers([id_]))), None)


def _answer(memory: MemoryParts, numbers: Runs, view_ids: list[str]) -> str:
    """What is put back, and what is used then. Raises Refusal if it would be condensed again at once."""
    before = set(memory.log.view_ids)
    back = memory.log.numbers(id_ for id_ in view_ids if id_ not in before)
    messages, count = memory.log.messages, memory.token_sum.count
    added = sum(count(id_, messages[id_]) for id_ in view_ids if id_ not in before)
    gone = sum(count(id_, messages[id_]) for id_ in before - set(view_ids))
    after, limit = memory.token_sum.total() + added - gone, memory.config.token_trigger
    what = f"{short_list(back)} ({counted(len(back), 'message')}, {counted(added, 'token')})"
    if after >= limit:
        raise Refusal(
            f"putting {short_list(numbers)} back means {what} and a context of {after:,} tokens, which is condensed "
            f'from {limit:,} on. Read it in part with context_reload("{name(numbers.pairs[0][0])}"), or put something '
            "else away first."
        )
    return f"Put back {what}. The context has {after:,} of {memory.config.max_token:,} tokens now."


def _are(numbers: Runs) -> str:
    return "is" if len(numbers) == 1 else "are"

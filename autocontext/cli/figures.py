"""Shows the results of replays: strategies, plots, reloads, and the summary."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from autocontext.cli.layout import Column, printable
from autocontext.cli.proof import ReloadCheck
from autocontext.cli.replay_run import ModelCall, ReplayResult
from autocontext.cli.screen import Line, Screen
from autocontext.events import Repeats

_STRATEGIES = {
    "READ_ONCE": "+  read again further down",
    "SHORTENED": "+  results and arguments in short",
    "TOOL_INVOCATION_COMPRESS": "1  tool runs",
    "LARGE_MESSAGE_OFFLOAD_WITH_PROTECTION": "2  large messages, newest kept",
    "LARGE_MESSAGE_OFFLOAD": "3  large messages",
    "PREVIOUS_ROUND_CONVERSATION_SUMMARY": "4  earlier rounds",
    "CURRENT_ROUND_LARGE_MESSAGE_SUMMARY": "5  current round, large messages",
    "CURRENT_ROUND_MESSAGE_COMPRESS": "5  current round",
    "PROVIDER_COMPACTION": "+  compacted by the provider",
    "PROVIDER_COMPACTION_LEFT_OUT": "+  the provider's compaction left out",
    "FIRST_MESSAGE_SHORTENED": "+  first message in part",
    "PASTE_SHORTENED": "+  the user's paste in part",
    "IMAGES_LEFT_OUT": "+  older images left out",
    "OLDEST_ROUNDS_FOLD": "+  oldest rounds folded",
    "LAST_RESORT_PREVIEW": "+  last resort, texts cut",
    "ARCHIVED_BY_AGENT": "+  put away by the agent",
    "RECALLED": "+  recalled lines",
}
"""Event types in the words of the documentation, in the order in which they are tried."""

_KINDS = {
    "tool_run": "tool run",
    "bare": "without the provider's compaction",
    "round_summary": "earlier round",
    "stub": "in short",
    "current_round": "current round",
    "fold": "oldest rounds",
    "archive": "put away by the agent",
    "recall": "recalled lines",
}


def strategy_name(event_type: str) -> str:
    """An event type in the words of the documentation."""
    return _STRATEGIES.get(event_type, event_type)


def origin_name(origin: str) -> str:
    """The origin of a message in words."""
    return _KINDS.get(origin, origin)


def show_results(screen: Screen, results: Sequence[ReplayResult], window: int) -> None:
    """Show what was compressed, the contexts of the longest conversation, what was reloaded, and the summary."""
    screen.heading("what was compressed")
    show_strategies(screen, results)
    longest = max(results, key=lambda r: r.tokens)
    if longest.calls:
        title = f": {printable(longest.title)[:30]}" if len(results) > 1 else ""
        screen.heading(f"tokens in the context at each of {len(longest.calls):,} model calls{title}")
        show_context_plot(screen, longest, window)
    items = [item for r in results for item in r.reloaded]
    if items:
        identical = sum(i.identical for i in items)
        screen.heading(f"reloaded and compared with what was added: {identical:,} of {len(items):,} items identical")
        # Those that differ first, then the largest.
        show_reloads(screen, sorted(items, key=lambda i: (i.identical, -i.characters))[:3])
    screen.heading("the numbers that matter")
    show_figures(screen, summary_figures(results, window))


def show_strategies(screen: Screen, results: Sequence[ReplayResult]) -> None:
    """One row per strategy that was applied, over all conversations."""
    events = [e for r in results for e in r.events]
    if not events:
        screen.text("Nothing was compressed: no conversation came near the window.")
        return
    kinds = [k for k in _STRATEGIES if any(e.event_type == k for e in events)]
    kinds += sorted({e.event_type for e in events} - _STRATEGIES.keys())
    rows = []
    for kind in [*kinds, ""]:
        matching = [e for e in events if kind in ("", e.event_type)]
        before = sum(int(e.metadata.get("tokenBefore", 0)) for e in matching)
        after = sum(int(e.metadata.get("tokenAfter", 0)) for e in matching)
        replaced = sum(e.compressed_message_count for e in matching)
        numbers = [len(matching), replaced, before, after, before - after]
        rows.append([_STRATEGIES.get(kind, kind) or "all", *(f"{n:,}" for n in numbers)])
    columns = [Column("strategy", right=False), Column("times"), Column("messages", optional=True)]
    tokens = [Column("tokens"), Column("after"), Column("saved", optional=True)]
    screen.table([*columns, *tokens], rows, total=True)


def show_context_plot(screen: Screen, result: ReplayResult, window: int) -> None:
    """A plot of the context against the full conversation."""
    block, shade = ("█", "░") if screen.unicode else ("#", ".")
    screen.line((f"{shade} ", "yellow"), f"without compression: up to {result.full:,}")
    screen.line((f"{block} ", "green"), f"with compression: never over {result.largest:,}")
    for line in plotted(result.calls, window, width=screen.width, unicode=screen.unicode):
        screen.line(*line)


def show_reloads(screen: Screen, items: Sequence[ReloadCheck]) -> None:
    """Show each reloaded item with both hashes."""
    for item in items:
        count = f"{item.messages} message{'s' if item.messages != 1 else ''}"
        shrunk = f"{item.characters:,} characters, {item.note_characters:,} in view, uuid {item.uuid[:8]}…"
        screen.aside((_KINDS[item.kind], "bold"), (f": {count}, ", ""), remark=shrunk)
        room = screen.width - 13
        screen.line(("  added    ", "dim"), item.sha256_added[:room])
        screen.line(("  reloaded ", "dim"), item.sha256_reloaded[:room], " ", verdict(ok=item.identical))
        pages = f"{item.pages} page{'s' if item.pages != 1 else ''}"
        read = "every text verbatim" if item.verbatim else "TEXTS MISSING"
        screen.aside(("  context_reload: ", "dim"), remark=f"{pages}, {read}")


def verdict(*, ok: bool) -> tuple[str, str]:
    """A tick or a cross."""
    return ("✓", "green") if ok else ("✗", "bold red")


def show_repeats(screen: Screen, repeats: Repeats) -> None:
    """Show whether the agent repeats itself after passes; nothing if no call followed a pass."""
    after, before = repeats.after, repeats.before
    if not after.calls:
        return

    def rates(what: str, n: int, earlier: int) -> str:
        compared = f"{earlier:,} of {before.calls:,} before" if before.calls else "no calls before to compare with"
        return f"{n:,} of {after.calls:,} {what}; {compared}."

    one = "s" if after.repeated == 1 else ""
    screen.text(rates(f"calls within ten after a pass repeat{one} an earlier one", after.repeated, before.repeated))
    one = "s" if after.reread == 1 else ""
    reloads = f", {after.reloads:,} of them by reloading" if after.reloads else ""
    screen.text(rates(f"read{one} again what was read before{reloads}", after.reread, before.reread))


class Figure(NamedTuple):
    """A number, a remark, and whether a check passed (None: there is no check)."""

    name: str
    value: str
    remark: str = ""
    passed: bool | None = None


def show_figures(screen: Screen, figures: Iterable[Figure]) -> None:
    """Show one figure per line, with a tick or a cross if it was checked."""
    for name, value, remark, passed in figures:
        mark, style = (" ", "") if passed is None else verdict(ok=passed)
        gap = " " * (3 - len(screen.plain(mark)))
        screen.aside((mark + gap, style), (f"{name:<21}", ""), (f"{value:>12}  ", "bold"), remark=remark)


def summary_figures(results: Sequence[ReplayResult], window: int) -> Iterator[Figure]:
    """The figures of all conversations together."""
    calls, added = sum(len(r.calls) for r in results), sum(r.messages for r in results)
    full, largest = max(r.tokens for r in results), max(r.largest for r in results)
    yield Figure("window", f"{window:,}", "tokens")
    name = "whole conversation" if len(results) == 1 else "longest conversation"
    yield Figure(name, f"{full:,}", f"tokens, {full / window:.1f} windows")
    over = sum(r.over for r in results)
    yield Figure("largest context sent", f"{largest:,}", f"tokens; {over} of {calls:,} over the window", not over)
    yield _valid(results, calls)
    sent, without = sum(r.sent for r in results), sum(r.sent_without for r in results)
    share = f"{sent / without:.0%}" if without else "all"
    yield Figure("tokens sent in sum", f"{sent:,}", f"instead of {without:,} ({share})")
    yield Figure("messages in view", f"{sum(r.in_view for r in results):,}", f"of {added:,} at the end")
    intact, reachable = sum(r.intact for r in results), sum(r.reachable for r in results)
    yield Figure("originals intact", f"{intact:,}", f"of {added:,}, byte for byte", intact == added)
    yield Figure("found from the view", f"{reachable:,}", f"of {added:,}, by reloading notes", reachable == added)
    edits = sum(len(r.events) for r in results)
    yield Figure("compressions", f"{sum(r.passes for r in results):,}", f"with {edits:,} edits")
    yield from _model_calls(results)
    wait = max(r.longest_wait for r in results)
    yield Figure(
        "seconds", f"{sum(r.seconds for r in results):.1f}", f"longest wait for a context {wait * 1000:,.0f} ms"
    )


def _valid(results: Sequence[ReplayResult], calls: int) -> Figure:
    invalid, broken = sum(len(r.invalid) for r in results), sum(len(r.came_broken) for r in results)
    remark = f"of {calls:,}, by strict chat rules"
    if broken:
        remark += f"; {broken:,} came broken"
    return Figure("contexts valid", f"{calls - invalid - broken:,}", remark, not invalid and not broken)


def _model_calls(results: Sequence[ReplayResult]) -> Iterator[Figure]:
    if not results[0].health.model:
        yield Figure("model calls", "0", "notes by rules alone")
        return
    calls, failed = sum(r.usage.model_calls for r in results), sum(r.health.failed for r in results)
    tokens = sum(r.usage.input_tokens for r in results), sum(r.usage.output_tokens for r in results)
    used = f"{tokens[0]:,} tokens in, {tokens[1]:,} out"
    yield Figure("model calls", f"{calls:,}", f"{failed:,} questions failed; {used}", not failed or None)
    if fallbacks := sum(r.usage.fallbacks for r in results):
        yield Figure("notes without it", f"{fallbacks:,}", "by rules alone")


_EIGHTHS = " ▁▂▃▄▅▆▇█"
_WITH, _WITHOUT, _OVER, _AXIS, _LIMIT = "green", "yellow", "red", "dim", "cyan"
_HEIGHT = 11


def plotted(calls: Sequence[ModelCall], window: int, *, width: int, unicode: bool = True) -> list[Line]:
    """The full conversation and the sent context on one scale: the rows, top first, and the axis."""
    top = max(window, *(c.full for c in calls))
    step, margin = top / _HEIGHT, len(f"{top:,}")
    columns = _columns(calls, max(10, width - margin - 2))
    row_of_window = min(_HEIGHT - 1, math.ceil(window / step) - 1)
    lines: list[Line] = []
    for r in reversed(range(_HEIGHT)):
        at_window = r == row_of_window
        label = f"{window:,}" if at_window else f"{top:,}" if r == _HEIGHT - 1 else "0" if r == 0 else ""
        pieces = [(f"{label:>{margin}} {'┤' if unicode else '|'}", _LIMIT if at_window else _AXIS)]
        for column in columns:
            covered = column.full >= (r + 0.5) * step
            glyph, style = _cell(column.sent / step - r, covered=covered, unicode=unicode, bottom=r == 0)
            if style == _WITH and column.sent > window:
                style = _OVER
            if glyph == " " and at_window:
                glyph, style = ("┄" if unicode else "-"), _LIMIT
            if pieces[-1][1] == style and len(pieces) > 1:
                pieces[-1] = (pieces[-1][0] + glyph, style)
            else:
                pieces.append((glyph, style))
        lines.append(tuple(pieces))
    first, last = "call 1", f"{len(calls):,}"
    gap = max(1, len(columns) - len(first) - len(last))
    return [*lines, ((" " * (margin + 2), ""), (first + " " * gap + last, _AXIS))]


def _cell(sent: float, *, covered: bool, unicode: bool, bottom: bool) -> tuple[str, str]:
    """The glyph and style of a cell; `sent` is a height in rows, from the cell's lower edge on."""
    eighths = max(0, min(8, math.ceil(sent * 8)))
    if unicode and eighths and not (covered and eighths < 4):
        return _EIGHTHS[eighths], _WITH
    if not unicode and (eighths >= 4 or (eighths and bottom)):
        return "#", _WITH
    return ("░" if unicode else ".", _WITHOUT) if covered else (" ", "")


def _columns(calls: Sequence[ModelCall], width: int) -> list[ModelCall]:
    """One or several consecutive calls as one. The largest context sets the height, so every peak is visible."""
    count = len(calls)
    groups = [calls[i * count // width : max((i + 1) * count // width, i * count // width + 1)] for i in range(width)]
    return [ModelCall(max(t.sent for t in g), max(t.full for t in g)) for g in groups]

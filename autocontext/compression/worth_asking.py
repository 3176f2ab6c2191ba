"""Finds the proposals that surely pass the gate once a model has answered, so that they need no draft.

This only saves work: drafting and checking takes most of a pass with many questions. The gate in `history.edits`
checks every edit in any case, and proposals that are not sure here are drafted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from autocontext.history.proposals import Proposal, Question
from autocontext.history.view import View
from autocontext.messages import is_pinned

_UUID_CHARACTERS = 36
"""One UUID has at most this many tokens more than another."""


def surely_shorter(view: View, asking: Sequence[Proposal], frame_tokens: Callable[[Proposal], int]) -> set[int]:
    """Those (by identity) that make one note of whole exchanges that are longer than the note's frame.

    `frame_tokens` gives the tokens of the note with an answer of one character.
    """
    ids = [id_ for p in asking for id_ in p.span.ids]
    if len(set(ids)) < len(ids):
        return set()
    frames: dict[tuple[str, str], int] = {}
    sure = set()
    for p in asking:
        if isinstance(p.text, Question) and (size := _whole(view, p)):
            frame = (p.role, p.footer)
            if frame not in frames:
                frames[frame] = frame_tokens(p) + _UUID_CHARACTERS
            if size > frames[frame]:
                sure.add(id(p))
    return sure


def _whole(view: View, p: Proposal) -> int:
    """Tokens of a proposal's span when it stands in the view, not last, and nothing in it must stay; else 0."""
    start = view.position.get(p.span.ids[0], -1)
    stop = start + len(p.span.ids)
    if start < 0 or stop >= len(view) or view.ids[start:stop] != p.span.ids or not view.closed(start, stop):
        return 0
    if any(m.role == "system" or is_pinned(m) for m in p.span.messages):
        return 0
    if p.context is not None and any(id_ not in view.position for id_ in p.context.ids):
        return 0
    return view.tokens(start, stop)

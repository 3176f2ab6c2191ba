"""A reading as a page: the contexts under letters, and what the agent did next folded away at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from chat import Chat, content_text

_NEXT_CALLS = 5
_RESULT_CHARS = 1_500
_STYLE = """
body { font: 14px/1.4 sans-serif; margin: 1em; }
.side { display: grid; grid-auto-columns: 1fr; grid-auto-flow: column; gap: 1em; }
.side > section { min-width: 0; border-left: 3px solid #999; padding-left: .6em; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .2em 0 .8em; font-size: 12px; }
b { color: #555; }
"""
ASKED = "You take over now and see one of these contexts only. Which would you choose? Which of their lines are not so?"


def as_text(message: Chat) -> str:
    """What a message says: its content, and each call as NAME ARGUMENTS."""
    calls = [f"[call {c['function']['name']}] {c['function'].get('arguments') or ''}" for c in _calls(message)]
    return "\n".join(filter(None, [content_text(message), *calls])).replace("\0", "\ufffd")


def _calls(message: Chat) -> Sequence[Chat]:
    return message.get("tool_calls") or ()


def what_came_next(messages: Sequence[Chat], place: int) -> list[Chat]:
    """The agent's next message and what followed it, up to five calls or the user's next word; long results cut."""
    shown: list[Chat] = []
    calls = 0
    for message in messages[place:]:
        if message["role"] == "user" or (message["role"] == "assistant" and calls >= _NEXT_CALLS):
            break
        calls += len(_calls(message))
        text = content_text(message)
        if message["role"] == "tool" and len(text) > _RESULT_CHARS:
            left_out = len(text) - _RESULT_CHARS
            message = {**message, "content": f"{text[:_RESULT_CHARS]}\n[{left_out} characters left out]"}  # noqa: PLW2901
        shown.append(message)
    return shown


def history(messages: Sequence[Chat]) -> str:
    """The whole history as text, its messages numbered from m1, to look up what is so."""
    return "\n\n".join(f"===== m{n} {m['role']}\n{as_text(m)}" for n, m in enumerate(messages, start=1)) + "\n"


def html_page(title: str, contexts: Mapping[str, Sequence[Chat]], came_next: Sequence[Chat]) -> str:
    """The contexts in columns."""
    columns = "\n".join(f"<section><h2>{letter}</h2>{_html(context)}</section>" for letter, context in contexts.items())
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>\n'
        f'<h1>{escape(title)}</h1><p>{ASKED}</p>\n<div class="side">\n{columns}\n</div>\n'
        f"<details><summary>What the agent did next</summary>{_html(came_next)}</details></html>\n"
    )


def _html(messages: Sequence[Chat]) -> str:
    return "\n".join(f"<b>{escape(m['role'])}</b><pre>{escape(as_text(m))}</pre>" for m in messages)


def text_page(title: str, contexts: Mapping[str, Sequence[Chat]], came_next: Sequence[Chat]) -> str:
    """The contexts one below the other."""
    parts = [f"# {title}\n\n{ASKED}"]
    parts += [f"################ {letter} ################\n\n{_text(context)}" for letter, context in contexts.items()]
    parts.append(f"<details><summary>What the agent did next</summary>\n\n{_text(came_next)}\n\n</details>")
    return "\n\n".join(parts) + "\n"


def _text(messages: Sequence[Chat]) -> str:
    return "\n\n".join(f"--- {m['role']}\n{as_text(m)}" for m in messages)

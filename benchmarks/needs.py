"""What an agent needs next: the values in its tool calls that occurred earlier in the conversation.

A *decision* is an assistant message with calls. Its *values* are scalars of the calls' decoded arguments that occurred
verbatim before, in a tool result, a user message or an earlier call's arguments, and do not occur in a system message
(there they are always visible):

- strings of 4 to 200 characters (2 if not ASCII) on one line, but no single word of lower-case letters and no literal;
- numbers of three or more digits, as written;
- of a command (a string with white space under a command-like key or tool, or longer than 200 characters, or of several
  lines; its first 4,000 characters): paths, file names and identifiers of at least 4 characters that hold a digit, "_",
  "/", "." or an inner capital. Flags are left out; of a shell variable the name counts if it looks like an identifier.

At most 50 values a decision, the first ones. Verbatim: a part of the text whose neighbours are not word characters,
where the value's own edge is one. Independent of how the library itself looks for values, on purpose.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from chat import Chat, Number, Tokens, content_text, scalars, source_text

MOST_VALUES = 50
_COMMAND_CHARS = 4_000
_AROUND = 20
"""Characters of its line on either side of a value that are its surroundings."""
_LITERALS = {"true", "false", "none", "null", "nan", "undefined"}
_COMMAND_KEY = re.compile(r"command|cmd|script|bash|shell|code|query_string|expression", re.IGNORECASE)
_COMMAND_TOOL = re.compile(r"bash|shell|terminal|exec|run|python|command", re.IGNORECASE)
_TOKEN = re.compile(r"[^\s\"'`()\[\]{}<>|;&,=*$!?\\]+")
_MENTIONED = re.compile(r"[^\s\"'`()\[\]{}<>|;&,=*$!?\\]{4,200}")
_WORD = re.compile(r"\w")


@dataclass
class Need:
    """One value of a decision."""

    value: str
    whole: bool
    """A whole argument, not an identifier out of a command."""
    where: list[int]
    """Indices of the messages it occurred in."""
    surroundings: list[str]


@dataclass
class Decision:
    """An assistant message with calls: its position, what it needs, and the size of the context before it."""

    at: int
    tokens: int
    system_tokens: int
    needs: list[Need] = field(default_factory=list)

    def scored(self, window: int) -> bool:
        """Whether the history before it is larger than the window, and the system messages leave room in it."""
        return bool(self.needs) and self.tokens > window and self.system_tokens < 0.75 * window


def decisions(messages: Sequence[Chat], count: Tokens) -> list[Decision]:
    """Every assistant message with calls, with the values it needs."""
    texts = ["" if m["role"] == "system" else source_text(m) for m in messages]
    system = [m for m in messages if m["role"] == "system"]
    always_visible, system_tokens = "\n".join(map(content_text, system)), count(system)
    decisions: list[Decision] = []
    total = 0
    for i, message in enumerate(messages):
        if message["role"] == "assistant" and message.get("tool_calls"):
            decisions.append(Decision(i, total, system_tokens, _needs(message, texts[:i], always_visible)))
        total += count.message(message)
    return decisions


def _needs(message: Chat, before: Sequence[str], always_visible: str) -> list[Need]:
    needs: list[Need] = []
    candidates: dict[str, bool] = {}
    for call in message["tool_calls"]:
        for value, whole in values(call).items():
            candidates.setdefault(value, whole)
    for value, whole in candidates.items():
        if len(needs) == MOST_VALUES:
            break
        if occurs(value, always_visible):
            continue
        where = [j for j, text in enumerate(before) if occurs(value, text)]
        if where:
            needs.append(Need(value, whole, where, surroundings(value, [before[j] for j in where])))
    return needs


def values(call: Chat) -> dict[str, bool]:
    """Values of a call's arguments, and whether each is a whole argument."""
    function = call["function"]
    candidates: dict[str, bool] = {}
    for key, text in scalars(function.get("arguments")):
        stripped = text.strip()
        if isinstance(text, Number):
            if sum(ch.isdigit() for ch in stripped) >= 3:
                candidates.setdefault(stripped, True)
        elif _is_command(stripped, key, function.get("name") or ""):
            for identifier in identifiers(stripped[:_COMMAND_CHARS]):
                candidates.setdefault(identifier, False)
        elif len(stripped) >= (4 if stripped.isascii() else 2) and _says_something(stripped):
            candidates.setdefault(stripped, True)
    return candidates


def _is_command(text: str, key: str, tool: str) -> bool:
    spaced = any(ch.isspace() for ch in text)
    command_like = bool(_COMMAND_KEY.search(key) or _COMMAND_TOOL.search(tool))
    return (spaced and command_like) or len(text) > 200 or "\n" in text


def identifiers(command: str) -> list[str]:
    """The paths, file names and identifiers of a command."""
    tokens = []
    for raw in _TOKEN.findall(command):
        token = raw.strip(":,-" if raw.startswith(("/", ".")) else ".:,/-").rstrip(".:/")
        if distinctive(token):
            tokens.append(token)
    return tokens


def mentioned(text: str) -> set[str]:
    """The paths, names and numbers of any text that say more than a word does; not part of the definition above."""
    tokens = (token.strip(".:,-").rstrip("/") for token in _MENTIONED.findall(text))
    return {token for token in tokens if distinctive(token)}


def _says_something(text: str) -> bool:
    return any(ch.isalnum() for ch in text) and not _plain(text)


def _plain(text: str) -> bool:
    return (text.isascii() and text.isalpha() and text.islower()) or text.lower() in _LITERALS


def distinctive(token: str) -> bool:
    """Whether a token of a command says more than a word does."""
    if len(token) < 4 or token.startswith("-") or not _says_something(token):
        return False
    return any(ch.isdigit() or ch in "_/." for ch in token) or any(ch.isupper() for ch in token[1:])


def occurs(value: str, text: str) -> bool:
    """Whether a text holds a value verbatim, and not as a part of a longer word."""
    at, size = text.find(value), len(value)
    word_left, word_right = bool(_WORD.match(value[0])), bool(_WORD.match(value[-1]))
    while at >= 0:
        end = at + size
        joined_left = word_left and at and _WORD.match(text[at - 1])
        joined_right = word_right and end < len(text) and _WORD.match(text[end])
        if not (joined_left or joined_right):
            return True
        at = text.find(value, at + 1)
    return False


def surroundings(value: str, texts: Sequence[str]) -> list[str]:
    """The value with up to 20 characters of its line on either side.

    Taken from at most 3 places in each of the first and the last 5 texts.
    """
    contexts: dict[str, None] = {}
    for text in texts if len(texts) <= 10 else [*texts[:5], *texts[-5:]]:
        at, places = text.find(value), 0
        while at >= 0 and places < 3:
            end = at + len(value)
            line_start, line_end = text.rfind("\n", 0, at) + 1, text.find("\n", end)
            contexts[
                text[max(at - _AROUND, line_start) : min(end + _AROUND, len(text) if line_end < 0 else line_end)]
            ] = None
            places += 1
            at = text.find(value, end)
    return list(contexts)


def fewest_reloads(missing: Sequence[Need]) -> int:
    """Messages to bring back so that every missing value is there: greedy cover, the newest of equals first."""
    left = list(missing)
    reloads = 0
    while left:
        gives: dict[int, int] = {}
        for need in left:
            for j in need.where:
                gives[j] = gives.get(j, 0) + 1
        best = max(gives, key=lambda j: (gives[j], j))
        left = [need for need in left if best not in need.where]
        reloads += 1
    return reloads

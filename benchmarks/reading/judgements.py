"""What readers noted, one JSON line each, and what it says about the policies once the key is joined to it.

    {"reading": "01", "order": ["B", "A", "C"], "false_lines": {"A": ["edited 6x"]}, "reason": "...", "reader": "..."}

`reader` may be missing. Who judges a reading again replaces what was noted before.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

Judgement = dict[str, Any]
Key = Mapping[str, Mapping[str, Any]]
"""Reading to {"letters": {"A": policy}, "window": tokens, ...}."""
KEY, NOTED = "key.json", "judgements.jsonl"


def key_of(folder: Path) -> Key:
    """The key of a folder with readings."""
    key: Key = json.loads((folder / KEY).read_text(encoding="utf-8"))
    return key


def checked(line: str, key: Key) -> Judgement:
    """A reader's line; raises ValueError saying what is wrong with it."""
    judgement = json.loads(line)
    if not isinstance(judgement, dict) or judgement.get("reading") not in key:
        raise ValueError(f"name a reading: one of {', '.join(key)}")
    letters = sorted(key[judgement["reading"]]["letters"])
    if sorted(judgement.get("order") or ()) != letters:
        raise ValueError(f"order: needs each of {', '.join(letters)} once, the best first")
    false_lines = judgement.setdefault("false_lines", {})
    if not isinstance(false_lines, dict) or not all(
        letter in letters and isinstance(lines, list) for letter, lines in false_lines.items()
    ):
        raise ValueError('false_lines: needs {"LETTER": ["line", ...]}')
    if not judgement.get("reason"):
        raise ValueError("reason: say why the first is the best")
    judgement["order"] = list(judgement["order"])
    return judgement


def note(folder: Path, lines: Iterable[str]) -> int:
    """Append readers' lines to the folder's judgements; all are checked first. How many there were."""
    key = key_of(folder)
    found = [checked(line, key) for line in lines if line.strip()]
    with (folder / NOTED).open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(judgement, ensure_ascii=False) + "\n" for judgement in found)
    return len(found)


def noted(folder: Path) -> list[Judgement]:
    """The judgements that count: the last of each reader on each reading."""
    path = folder / NOTED
    lines = path.read_text(encoding="utf-8").split("\n") if path.exists() else []
    judgements = [json.loads(line) for line in lines if line]
    return list({(j["reading"], j.get("reader", "")): j for j in judgements}.values())


class Tally(NamedTuple):
    """What readers said of one policy."""

    readings: int
    first: int
    last: int
    place: float
    """Mean place, 1 is the best."""
    false_lines: int
    with_false: int
    """Judgements that name a false line of it."""


def tallies(key: Key, judgements: Sequence[Judgement]) -> dict[str, Tally]:
    """Each policy's tally, the one that came first most often first."""
    seen: dict[str, list[tuple[int, int, int]]] = {}
    for judgement in judgements:
        letters = key[judgement["reading"]]["letters"]
        for place, letter in enumerate(judgement["order"], start=1):
            lines = len(judgement["false_lines"].get(letter, ()))
            seen.setdefault(letters[letter], []).append((place, len(letters), lines))
    found = {
        name: Tally(
            len(rows),
            sum(place == 1 for place, _, _ in rows),
            sum(place == of for place, of, _ in rows),
            sum(place for place, _, _ in rows) / len(rows),
            sum(lines for _, _, lines in rows),
            sum(lines > 0 for _, _, lines in rows),
        )
        for name, rows in seen.items()
    }
    return dict(sorted(found.items(), key=lambda item: (-item[1].first, item[1].place, item[0])))


def table(key: Key, judgements: Sequence[Judgement]) -> str:
    """Markdown tables: all readings, and how often each came first at each window."""
    all_ = tallies(key, judgements)
    lines = ["| policy | read | first | last | mean place | false lines | readings with one |", "|" + "---|" * 7]
    lines += [
        f"| {n} | {t.readings} | {t.first} | {t.last} | {t.place:.2f} | {t.false_lines} | {t.with_false} |"
        for n, t in all_.items()
    ]
    windows = sorted({key[j["reading"]]["window"] for j in judgements})
    lines += ["", f"| first at | {' | '.join(f'{w:,}' for w in windows)} |", "|" + "---|" * (len(windows) + 1)]
    at = {w: tallies(key, [j for j in judgements if key[j["reading"]]["window"] == w]) for w in windows}
    for name in all_:
        cells = [f"{at[w][name].first} of {at[w][name].readings}" if name in at[w] else "" for w in windows]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)

"""`autocontext bench facts FILE`: recall of the default ranker on labelled facts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from autocontext.cli.conversations import JsonLines
from autocontext.cli.layout import Column, printable
from autocontext.cli.screen import Screen
from autocontext.errors import InvalidMessage
from autocontext.memories import default_ranker
from autocontext.ranking.recall import Judged, Labelled, LabelledQuery, judge

DEPTHS = (5, 10, 15)
_COLUMNS = (Column("category", right=False), Column("n"), *(Column(f"recall@{depth}") for depth in DEPTHS))


def run(screen: Screen, file: str) -> bool:
    """Rank the facts of each line for its queries and show recall by category; False if a line could not be read.

    Raises OSError for an unreadable file, InvalidMessage for one without a query.
    """
    judged: list[Judged] = []
    unlabelled = 0
    lines = JsonLines(file, facts_in, screen.complain)
    for facts, without in lines:
        unlabelled += without
        for done, one in enumerate(judge(default_ranker, facts, DEPTHS), 1):
            judged.append(one)
            screen.progress(f"{facts.name} · query {done} of {len(facts.queries)}", done / len(facts.queries))
    screen.done()
    if not judged:
        raise InvalidMessage(f"{file}: no query has evidence among its facts; check the ids in `evidence`")
    screen.table(_COLUMNS, list(rows(judged)), total=True)
    if unlabelled:
        screen.text(f"{unlabelled:,} queries skipped: none of their evidence is among the facts.")
    return not lines.broken


def rows(judged: Iterable[Judged]) -> Iterator[list[str]]:
    """One row per category, in alphabetical order, and one for all."""
    judged = list(judged)
    by_category: dict[str, list[Judged]] = {}
    for one in judged:
        by_category.setdefault(one.category or "-", []).append(one)
    for name, group in [*sorted(by_category.items()), ("all", judged)]:
        means = [sum(one.recall[i] for one in group) / len(group) for i in range(len(DEPTHS))]
        yield [printable(name), str(len(group)), *(f"{mean:.3f}" for mean in means)]


def facts_in(record: Any, number: int) -> tuple[Labelled, int]:
    """The labelled facts of a line, and how many of its queries lack evidence. Raises InvalidMessage."""
    if not isinstance(record, dict):
        raise InvalidMessage('not an object; write {"id", "facts": [...], "queries": [...]}')
    facts: dict[str, str] = {}
    for place, fact in enumerate(_list(record, "facts")):
        if not isinstance(fact, dict) or "id" not in fact or not isinstance(fact.get("content"), str):
            raise InvalidMessage(f"facts[{place}] needs an `id` and the text `content`")
        facts[str(fact["id"])] = fact["content"]
    questions, without = [], 0
    for place, query in enumerate(_list(record, "queries")):
        if not isinstance(query, dict) or not isinstance(query.get("text"), str):
            raise InvalidMessage(f"queries[{place}] needs the text `text`")
        evidence = frozenset(map(str, _list(query, "evidence"))) & facts.keys()
        if not evidence:
            without += 1
            continue
        questions.append(LabelledQuery(query["text"], evidence, str(query.get("category", ""))))
    return Labelled(str(record.get("id", f"line {number}")), facts, questions), without


def _list(record: dict[str, Any], key: str) -> list[Any]:
    value = record.get(key)
    if not isinstance(value, list):
        raise InvalidMessage(f"`{key}` must be a list")
    return value

"""Scores sentences: errors, decisions, numbers, identifiers, and how central the words are.

Centrality is the cosine between a unit's TF-IDF vector and the mean vector of all units (the centroid method of
Radev, Jing and Budzikowska, 2000), over stems and pairs of CJK characters.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

from autocontext.text.words import rarity, terms

_ERROR = re.compile(
    r"\b(?:errors?|exceptions?|fail(?:s|ed|ures?|ing)?|traceback|fatal|denied|refused|invalid|cannot|can't|could not"
    r"|unable|not found|time[sd]? ?-?out|warnings?|aborted|crash(?:es|ed)?|exit (?:code|status) [1-9]|no such"
    r"|undefined|missing|conflicts?|fall[oó]s?|excepci[oó]n|no se pudo|advertencia)\b|(?<=[a-z])(?:Error|Exception)\b"
    r"|错误|失败|异常|无法|不能|拒绝|超时|警告|报错|エラー|失敗|例外|できません|できない|警告",
    re.IGNORECASE,
)
_DECISION = re.compile(
    r"\b(?:decid(?:e|es|ed|ing)|decisions?|cho(?:se|sen|ose)|agreed|instead|must(?: not)?|should(?: not)?"
    r"|prefer(?:s|red)?|will use|let's|going to|plan(?:ned)? to|because|conclu(?:de|ded|sion)|root cause|fix(?:ed|es)?"
    r"|resolved|do not|don't|never|always|need(?:s|ed)? to|want(?:s|ed)?"
    r"|please|decidi(?:do|mos)?|elegi(?:do|mos)?|usaremos|debe(?:mos|n)?|porque|en lugar de|acordamos|por favor)\b"
    r"|决定|选择|采用|改为|必须|应该|因为|不要|需要|结论|请|決定|決め|選択|採用|べき|必要|結論|ください",
    re.IGNORECASE,
)
_IDENTIFIER = re.compile(
    r"https?://[^\s\"'<>)\]]+"  # URLs
    r"|(?<![\w/])[~.]{0,2}/?(?:[\w.@+-]+/)+[\w.@+-]+|(?<!\w)/[\w.@+-]{2,}"  # paths
    r"|[\w.+-]+@[\w-]+\.[\w.-]+"  # addresses
    r"|\b[A-Za-z_]\w*_\w+\b|\b[a-z]+[A-Z]\w*\b|\b(?:[A-Z][a-z0-9]+){2,}\b"  # snake_case, camelCase, PascalCase
    r"|\b[A-Za-z_][\w-]*\.(?:[A-Za-z]\w{0,4}|[\w]+\(\))(?!\w)"  # files, methods
    r"|\b[A-Z][A-Z0-9]*-?\d[\w-]*\b|\b(?=\w*\d)(?=\w*[a-f])[0-9a-f]{7,}\b"  # ticket numbers, hashes
    r"|`[^`\n]{2,60}`"
)
_SEARCHED = 1_000
"""Characters of a text in which identifiers are looked for: more than the longest unit but a call with a long name."""
_NUMBER = re.compile(r"\d[\d.,:]*(?<![.,:])%?|[一二三四五六七八九十百千万]{2,}")


def is_error(text: str) -> bool:
    """Whether a text reports an error."""
    return _ERROR.search(text) is not None


def is_decision(text: str) -> bool:
    """Whether a text states a wish, a rule, a decision or a reason."""
    return _DECISION.search(text) is not None


def identifiers(text: str) -> frozenset[str]:
    """Paths, URLs, names from code and the like in a text."""
    return frozenset(_IDENTIFIER.findall(text, 0, _SEARCHED))


def numbers(text: str) -> frozenset[str]:
    """The numbers in a text."""
    return frozenset(_NUMBER.findall(text))


def centrality(texts: Sequence[str]) -> list[float]:
    """How close each text is to the mean of all, from 0 to 1 (the most central one)."""
    bags = [set(terms(text)) for text in texts]
    spread = Counter(term for bag in bags for term in bag)
    weight = {term: rarity(spread[term], len(bags)) for term in spread}
    raw = []
    for bag in bags:
        # fsum, because the order of a set of strings changes from process to process and must not matter.
        shared = math.fsum(weight[term] ** 2 * spread[term] for term in bag)
        length = math.sqrt(math.fsum(weight[term] ** 2 for term in bag))
        raw.append(shared / length if length else 0.0)
    top = max(raw, default=0.0)
    return [value / top if top else 0.0 for value in raw]

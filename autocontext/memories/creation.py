"""Which statements of a user are worth remembering, without a model."""

from __future__ import annotations

import re
from dataclasses import dataclass

_URGENT = r"urgent|critical|important"
_ASKED = re.compile(
    r"\b(?:remember|save|note)(?: down)? (?:this|that)\b|\bkeep (?:this|that) in mind\b|\bfor future reference\b"
    r"|记住|记下|请注意|別忘|别忘|覚えて|メモして",
    re.IGNORECASE,
)
_IS_URGENT = re.compile(rf"\b(?:{_URGENT})\b|重要|紧急|緊急", re.IGNORECASE)
_IS_HABIT = re.compile(r"\b(?:preferences?|habits?|routines?|patterns?)\b|偏好|习惯|習慣", re.IGNORECASE)
_PERSONAL = re.compile(
    r"\bi (?:(?:really|much|strongly) )?"
    r"(?:prefer|like|love|dislike|hate|always|never|usually|typically|often|sometimes)\b"
    r"|\bi(?:'m| am) (?:allergic|vegan|vegetarian)\b|\bi (?:work|live)\b"
    r"|\bmy (?:preference|habit|routine|name|birthday)\b"
    r"|\bi\b[^.!?]{0,200}\bevery (?:day|week|month|morning|evening|night)\b"
    r"|\bevery (?:day|week|month|morning|evening|night)\b[^.!?]{0,200}\bi\b"
    r"|我(?:更|很|最)?(?:喜欢|讨厌|不喜欢|总是|从不|通常|经常|住|在.{1,12}工作|对.{1,12}过敏)"
    r"|私は.{0,30}(?:好き|嫌い|苦手|住んで|働いて)",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[^.!?。！？\n]+[.!?。！？]*")

_TAGS = {
    "preference": r"\b(?:prefer|like|love|favou?rite)|喜欢|好き",
    "dislike": r"\b(?:dislike|hate|never)|讨厌|嫌い",
    "work": r"\b(?:work|job|office|colleague|boss)|工作|仕事",
    "home": r"\b(?:live|home|house|apartment)|住",
    "health": r"\b(?:allergic|allergy|doctor|health|sick)|过敏|アレルギー",
    "food": r"\b(?:eat|food|vegan|vegetarian|cook|coffee|tea)|吃|喝|食べ",
    "routine": r"every (?:day|week|month|morning)|usually|routine|habit|习惯|毎",
    "schedule": r"\b(?:meeting|deadline|calendar|birthday)|会议|生日|会議",
    "coding": r"\b(?:python|code|coding|program|software|test)|代码|编程",
    "family": r"\b(?:wife|husband|son|daughter|mother|father)|妻|儿子|女儿|家族",
    "travel": r"\b(?:travel|trip|flight|holiday)|旅行|旅游",
    "urgent": rf"\b(?:{_URGENT})",
}


@dataclass(frozen=True)
class Suggestion:
    """Arguments for `MemoryStore.add`, and why."""

    content: str
    importance: int
    tags: tuple[str, ...]
    reasons: tuple[str, ...]


def memory_worth_making(user_text: str, agent_text: str = "", *, importance_threshold: int = 1) -> Suggestion | None:
    """What to remember from one exchange, None for most of them.

    Looks at whole words of the user's text, and skips questions unless they ask to remember something. Importance is 9
    for anything called urgent, critical or important, 8 for a preference, habit or routine, else 7; the result is None
    below `importance_threshold`. The content is "User: ...", followed by the agent's answer if there is one.
    """
    sentences = [s.strip() for s in _SENTENCE.findall(user_text)]
    statements = " ".join(s for s in sentences if s and s[-1] not in "?？")
    importance = 9 if _IS_URGENT.search(statements) else 8 if _IS_HABIT.search(statements) else 7
    found = {"asked": _ASKED.search(user_text), "marked": importance > 7, "personal": _PERSONAL.search(statements)}
    reasons = [name for name, is_there in found.items() if is_there]
    if not reasons or importance < importance_threshold:
        return None
    content = f"User: {user_text.strip()}" + (f"\nAgent: {agent_text.strip()}" if agent_text.strip() else "")
    return Suggestion(content, importance, suggested_tags(user_text), tuple(reasons))


def suggested_tags(text: str, most: int = 5) -> tuple[str, ...]:
    """Tags that the words of a text suggest, ("general",) without one."""
    tags = [tag for tag, pattern in _TAGS.items() if re.search(pattern, text, re.IGNORECASE)][:most]
    return tuple(tags) or ("general",)

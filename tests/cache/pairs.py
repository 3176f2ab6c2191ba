"""Pairs of arguments that must share a key, and pairs that must not; also used by the benchmark."""

# ruff: noqa: DTZ001 (times without a zone are a kind of their own)

from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from uuid import UUID

from pydantic import BaseModel


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Text(StrEnum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: int


@dataclass
class Size:
    x: int
    y: int


class Budget(BaseModel):
    limit: float


class Pair(NamedTuple):
    x: int
    y: int


EAST = timezone(timedelta(hours=2))
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)

EQUAL: dict[str, tuple[Any, Any]] = {
    "int and float": (50000, 50000.0),
    "int and decimal": (50000, Decimal("50000.0")),
    "decimal with trailing zero": (Decimal("5.0"), 5),
    "decimal with an exponent": (Decimal("5E+4"), 50000),
    "float and decimal": (0.1, Decimal("0.1")),
    "float and fraction": (0.25, Fraction(1, 4)),
    "negative zero": (-0.0, 0),
    "huge int and decimal": (10**5000, Decimal("1E+5000")),
    "float past the integers": (1e22, 10**22),
    "order of keys": ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    "order of nested keys": ([{"a": {"b": 1, "c": 2}}], [{"a": {"c": 2, "b": 1}}]),
    "ordered dict and dict": (OrderedDict(b=2, a=1), {"a": 1, "b": 2}),
    "tuple and list": ((1, 2), [1, 2]),
    "nested tuple and list": ({"a": (1, (2,))}, {"a": [1, [2]]}),
    "order of a set": ({3, 1, 2}, {2, 3, 1}),
    "set and frozenset": ({1, 2}, frozenset({1, 2})),
    "NFC and NFD": ("caf\u00e9", "cafe\u0301"),
    "NFC and NFD as keys": ({"caf\u00e9": 1}, {"cafe\u0301": 1}),
    "one instant in two zones": (NOON, NOON.astimezone(EAST)),
    "equal dataclasses": (Point(1, 2), Point(1.0, 2)),
    "equal models": (Budget(limit=5), Budget(limit=5.0)),
    "equal enums": (Colour.RED, Colour("red")),
    "keys that are numbers": ({1: "a", 2: "b"}, {2.0: "b", Decimal(1): "a"}),
    "bytes and bytearray": (b"ab", bytearray(b"ab")),
}
DIFFERENT: dict[str, tuple[Any, Any]] = {
    "more than five values": ([1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 4, 5, 900, 900]),
    "one more value": ([1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 6]),
    "text and number": ("50000", 50000),
    "text of a list and list": ("[1,2]", [1, 2]),
    "delimiter in a text": (["1,2"], [1, 2]),
    "one text and two": (["a,b"], ["a", "b"]),
    "bool and int": (True, 1),
    "False and zero": (False, 0),
    "None and its name": (None, "None"),
    "None and null": (None, "null"),
    "None and empty list": (None, []),
    "empty list and empty text": ([], ""),
    "empty list and empty dict": ([], {}),
    "neighbouring numbers": (50000, 50001),
    "a sum that is not quite": (0.1 + 0.2, 0.3),
    "order of a list": ([1, 2], [2, 1]),
    "set and list": ({1, 2}, [1, 2]),
    "case": ("A", "a"),
    "surrounding space": ("a", "a "),
    "compatibility character": ("\ufb01", "fi"),
    "bytes and text": (b"ab", "ab"),
    "nested delimiter": ({"a": "1,b:2"}, {"a": "1", "b": "2"}),
    "key that is a number": ({1: "a"}, {"1": "a"}),
    "key that is true": ({True: "a"}, {"true": "a"}),
    "aware and naive time": (NOON, NOON.replace(tzinfo=None)),
    "time and its text": (NOON, "2026-03-01T12:00:00Z"),
    "naive time and its text": (datetime(2026, 3, 1), "2026-03-01T00:00:00"),
    "date and midnight": (date(2026, 3, 1), datetime(2026, 3, 1)),
    "enum and its value": (Colour.RED, "red"),
    "text enum and its value": (Text.RED, "red"),
    "two enums of one value": (Colour.RED, Text.RED),
    "int enum and its value": (Level.HIGH, 3),
    "dataclass and dict": (Point(1, 2), {"x": 1, "y": 2}),
    "two dataclasses alike": (Point(1, 2), Size(1, 2)),
    "model and dict": (Budget(limit=5), {"limit": 5.0}),
    "named tuple and tuple": (Pair(1, 2), (1, 2)),
    "path and text": (PurePosixPath("a/b"), "a/b"),
    "uuid and text": (UUID(int=1), str(UUID(int=1))),
    "duration and number": (timedelta(seconds=1), 1_000_000),
    "a dict that looks like a set": ({"$set": [1]}, {1}),
    "a dict that looks like pairs": ({"$map": [["$a", 1]]}, {"$a": 1}),
    "a dict that looks like a time": ({"$time": "2026-03-01T12:00:00Z"}, NOON),
    "a third and its decimals": (Fraction(1, 3), Decimal("0.3333333333333333")),
}

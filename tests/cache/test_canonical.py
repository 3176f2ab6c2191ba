"""Keys: equal calls share one, different calls never do, and what has no canonical form is refused."""

# ruff: noqa: DTZ001 (times without a zone are a kind of their own)

import json
import math
import re
import subprocess
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import InitVar, dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from numbers import Integral
from typing import Any, Generic, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from autocontext.cache import ResultCache
from autocontext.cache.canonical import canonical, canonical_key
from autocontext.errors import ConfigError, UncacheableError
from tests.cache.pairs import DIFFERENT, EQUAL, Budget, Colour, Level, Pair, Point

T = TypeVar("T")
atoms = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8)
)  # fmt: skip
values = st.recursive(
    atoms,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


def plain(value: Any) -> Any:
    """A slow and separate definition of equality for JSON-like values."""
    if isinstance(value, bool) or value is None:
        return ("constant", value)
    if isinstance(value, int | float):
        return ("number", Fraction(repr(value)))
    if isinstance(value, str):
        return ("text", unicodedata.normalize("NFC", value))
    if isinstance(value, list):
        return ("list", tuple(plain(item) for item in value))
    return ("dict", tuple(sorted((plain(k), repr(plain(v))) for k, v in value.items())))


@given(values, values)
def test_two_values_share_a_text_exactly_when_they_are_equal(a: Any, b: Any) -> None:
    assert (canonical(a) == canonical(b)) == (plain(a) == plain(b))


def test_numbers_are_written_as_in_the_keys_that_are_stored() -> None:
    """Another text finds no result of an earlier release."""
    assert [canonical(n) for n in (10**17, 10**18 - 1, 10**18, 123 * 10**16, 1.5e17, -1e18, 1e-18, 1e-19)] == [
        "100000000000000000", "999999999999999999", "1E18", "123E16", "150000000000000000", "-1E18",
        "0.000000000000000001", "1E-19",
    ]  # fmt: skip
    assert canonical(Fraction(1, 2**4_000)).endswith("5E-4000")
    assert canonical(Fraction(1, 2**4_001)).startswith('{"$fraction":[1,')


@pytest.mark.parametrize(
    "around",
    [lambda v: [v], lambda v: (v,), lambda v: {"k": v}, lambda v: frozenset([v]), lambda v: Pair(v, 1)],
    ids=["list", "tuple", "dict", "set", "object"],
)
def test_a_value_of_many_levels_has_a_text_and_one_of_more_than_a_hundred_is_refused(
    around: Callable[[Any], Any],
) -> None:
    nested = list(accumulate(range(150), lambda value, _: around(value), initial=()))
    assert all(map(canonical, nested[:50]))
    with pytest.raises(UncacheableError, match="nested deeper than 100 levels"):
        canonical(nested[-1])


def test_a_hundred_levels_are_not_too_many() -> None:
    levels = "[" * 100 + "1" + "]" * 100
    assert canonical(json.loads(levels)) == levels
    with pytest.raises(UncacheableError, match="nested deeper than 100 levels"):
        canonical(json.loads(f"[{levels}]"))


@given(values)
def test_the_text_is_json_in_ascii_and_does_not_depend_on_the_container(value: Any) -> None:
    text = canonical(value)
    assert text.isascii()
    assert "\0" not in text
    json.loads(text)
    assert canonical((value,)) == canonical([value])
    assert canonical(json.loads(json.dumps(value))) == text


@given(st.fractions() | st.decimals(allow_nan=False, allow_infinity=False, places=6) | st.integers())
def test_numbers_of_one_value_share_a_text(number: Any) -> None:
    text = canonical(number)
    assert canonical(Fraction(number)) == text
    if not text.startswith("{"):
        assert Fraction(text) == number
        assert canonical(Decimal(text)) == text


@given(st.dictionaries(st.text(min_size=1, max_size=6), values, max_size=4), st.randoms())
def test_the_order_of_parameters_does_not_matter(params: dict[str, Any], random: Any) -> None:
    names = list(params)
    random.shuffle(names)
    a, b = canonical_key("t", params), canonical_key("t", {name: params[name] for name in names})
    assert a == b
    assert str(a) == str(b)
    assert hash(a) == hash(b)


def test_there_are_forty_pairs_and_more() -> None:
    assert len(EQUAL) + len(DIFFERENT) >= 40


@pytest.mark.parametrize("name", EQUAL)
def test_b002_d_equal(name: str) -> None:
    a, b = EQUAL[name]
    one, other = canonical_key("t", {"x": a}), canonical_key("t", {"x": b})
    assert one == other
    assert str(one) == str(other)


@pytest.mark.parametrize("name", DIFFERENT)
def test_b002_d_different(name: str) -> None:
    a, b = DIFFERENT[name]
    one, other = canonical_key("t", {"x": a}), canonical_key("t", {"x": b})
    assert one.args != other.args
    assert one.digest != other.digest
    assert str(one) != str(other)


def test_missing_is_not_none() -> None:
    assert canonical_key("t", {}) != canonical_key("t", {"x": None})


def test_002_2_a_key_reads_like_the_originals() -> None:
    key = canonical_key("analyze_budget", {"limit": 50000, "spent": 42000, "history": [5000, 7000, 8000, 6000]})
    assert key.label == "50000:42000:5000,7000,8000,6000"
    assert str(key) == f"analyze_budget:{key.label}:{key.digest[:16]}"
    assert re.fullmatch("[0-9a-f]{64}", key.digest)
    assert json.loads(key.args) == {"limit": 50000, "spent": 42000, "history": [5000, 7000, 8000, 6000]}


@pytest.mark.parametrize("empty", [[], None, (), ""])
def test_002_2_an_empty_list_is_labelled_and_still_told_from_none(empty: Any) -> None:
    assert canonical_key("analyze_budget", {"limit": 1, "history": empty}).label.endswith("no_history")


def test_a_label_holds_no_separators_and_ends_somewhere() -> None:
    key = canonical_key("t", {"q": "a:b/c d", "long": "x" * 500})
    assert "a_b_c_d" in canonical_key("t", {"q": "a:b/c d"}).label
    assert len(key.label) <= 60
    assert canonical_key("t", {}).label == "no_parameters"


@pytest.mark.slow
def test_a_key_is_the_same_in_every_process() -> None:
    program = (
        "from autocontext.cache.canonical import canonical_key\n"
        "print(canonical_key('t', {'s': {'b', 'a', 'c'}, 'd': {'y': 1.5, 'x': None}}, version=2).digest)"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1


def test_the_written_form_stays_what_it_is() -> None:
    # Golden vector: another text would lose every result that is stored.
    key = canonical_key("t", {"s": {"b", "a"}, "d": {"y": 1.5, 1: None}, "t": "é", "when": datetime(2026, 1, 2)})
    assert key.args == (
        '{"d":{"$map":[["y",1.5],[1,null]]},"s":{"$set":["a","b"]},"t":"\\u00e9","when":{"$local":"2026-01-02T00:00:00"}}'
    )
    assert canonical_key("t", {"x": 1}).digest == "6c8f7b47ac5bc5decaba8a32a5f76942641faf234e4d8205b5c04d671a35d6b3"


def test_versions_have_keys_of_their_own() -> None:
    keys = {canonical_key("t", {"x": 1}, version=v) for v in (None, 1, "1", 2, "")}
    assert len(keys) == 5
    assert canonical_key("t", {"x": 1}, version=1) == canonical_key("t", {"x": 1}, version=1.0)


def test_tasks_have_keys_of_their_own() -> None:
    assert canonical_key("a", {"x": 1}).digest != canonical_key("b", {"x": 1}).digest


def test_ignored_parameters_leave_no_trace() -> None:
    a = canonical_key("t", {"x": 1, "api_key": "s3cret"}, ignore=("api_key",))
    assert a == canonical_key("t", {"x": 1})
    assert a == canonical_key("t", {"x": 1, "api_key": object()}, ignore="api_key")
    assert "s3cret" not in repr(a)


def test_hashed_parameters_count_and_are_not_stored() -> None:
    a = canonical_key("t", {"x": 1, "account": "DE89 3704"}, hashed=("account",))
    b = canonical_key("t", {"x": 1, "account": "DE89 3705"}, hashed=("account",))
    assert a != b
    assert a == canonical_key("t", {"account": "DE89 3704", "x": 1}, hashed="account")
    assert "3704" not in repr(a)
    assert a.label == "1:hashed"


def test_quantize_rounds_the_named_parameter_and_no_other() -> None:
    def key(spent: Any, limit: Any = 50000) -> Any:
        return canonical_key("t", {"spent": spent, "limit": limit}, quantize={"spent": 100})

    assert key(42049) == key(42000) == key(Decimal("41950.5")) != key(42051)
    assert key(42000, 50000) != key(42000, 50001)
    assert key(42050) == key(42000)  # half to even
    assert key([42049, 99]) == key((42000, 100))
    assert key(None) != key(0)
    tenths = [canonical_key("t", {"x": x}, quantize={"x": 0.1}) for x in (0.1 + 0.2, 0.3, Decimal("0.3"))]
    assert len(set(tenths)) == 1
    assert json.loads(tenths[0].args) == {"x": 0.3}


@pytest.mark.parametrize("step", [0, -1, "100", None, math.nan, True])
def test_a_step_that_is_no_positive_number_is_told(step: Any) -> None:
    with pytest.raises(ConfigError, match="quantize"):
        canonical_key("t", {"x": 1}, quantize={"x": step})


@pytest.mark.parametrize("value", ["42000", True, object(), math.nan, Decimal("1E+999999")])
def test_only_numbers_can_be_quantized(value: Any) -> None:
    with pytest.raises(UncacheableError, match="'x'"):
        canonical_key("t", {"x": value}, quantize={"x": 100})


def test_float_digits_forgive_what_arithmetic_adds() -> None:
    def key(x: float) -> Any:
        return canonical_key("t", {"x": x}, float_digits=12)

    assert key(0.1 + 0.2) == key(0.3) == canonical_key("t", {"x": 0.3})
    assert key(1 / 3) != key(1 / 3 + 1e-9)
    assert canonical_key("t", {"x": 10**15 + 1}, float_digits=12) != canonical_key("t", {"x": 10**15}, float_digits=12)


def endless() -> Any:
    held: list[Any] = []
    held.append(held)
    return held


@dataclass
class Holder:
    inside: Any


@pytest.mark.parametrize(
    "value",
    [
        math.nan, math.inf, -math.inf, Decimal("NaN"), Decimal("Infinity"), Decimal("sNaN"), object(), object, len,
        lambda: 1, (n for n in range(3)), range(3), 1j, ..., re.compile("a"), SecretStr("s3cret"), endless(),
        Holder(object()), {"a": [object()]}, {object()}, {object(): 1}, Level, Point, Budget, {}.keys(),
        datetime.max.replace(tzinfo=timezone(-timedelta(hours=2))),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_has_no_canonical_form_is_refused_by_name(value: Any) -> None:
    with pytest.raises(UncacheableError, match="parameter 'x'") as caught:
        canonical_key("t", {"x": value})
    assert "s3cret" not in str(caught.value)
    assert " at 0x" not in str(caught.value)


LONGEST = 10**9_999 - 1


@pytest.mark.sampled
@pytest.mark.parametrize(
    "value",
    [10**1_000_000, -(7**50_000), Fraction(1, 7**50_000), Decimal("7" * 1_000_000), Fraction(5**50_000)],
    ids=["power of ten", "integer", "fraction", "decimal", "whole fraction"],
)
def test_row_24_a_number_of_too_many_digits_is_refused_at_once(value: Any) -> None:
    # Written in decimal it took a minute.
    start = time.thread_time()
    with pytest.raises(UncacheableError, match="'x': numbers of more than 10,000 digits"):
        canonical_key("t", {"x": value})
    if not isinstance(value, Decimal):
        with pytest.raises(UncacheableError, match="digits"):
            canonical_key("t", {"x": value}, quantize={"x": 10})
    assert time.thread_time() - start < 5


def test_row_24_numbers_of_ten_thousand_digits_count_by_value() -> None:
    assert canonical(LONGEST) == canonical(Decimal(LONGEST)) == canonical(Fraction(LONGEST))
    assert canonical(LONGEST) != canonical(LONGEST - 1)
    assert canonical(Decimal("1E+999999")) == "1E999999"


def test_row_24_marks_without_end_take_linear_time() -> None:
    # A web page of combining marks, passed to a tool: 64,000 took 15 seconds.
    start = time.thread_time()
    assert canonical_key("t", {"x": "a" + "\u0301\u0316" * 100_000}) != canonical_key("t", {"x": "a\u0301\u0316"})
    assert time.thread_time() - start < 10


def test_a_list_that_contains_itself_cannot_be_quantized() -> None:
    with pytest.raises(UncacheableError, match="contains itself"):
        canonical_key("t", {"x": endless()}, quantize={"x": 1})


def test_bad_calls_are_told() -> None:
    for task in ("", None, 5):
        with pytest.raises(ConfigError, match="task"):
            canonical_key(task, {})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="params"):
        canonical_key("t", {1: 2})  # type: ignore[dict-item]
    with pytest.raises(ConfigError, match=r"params: give a mapping from names to values \(got list\)"):
        canonical_key("t", [1])  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="ignore"):
        canonical_key("t", {}, ignore=(1,))  # type: ignore[arg-type]
    with pytest.raises(UncacheableError, match="version"):
        canonical_key("t", {}, version=object())


def test_keys_that_normalise_to_one_text_are_kept_apart() -> None:
    both = {"caf\u00e9": 1, "cafe\u0301": 2}
    assert canonical(both) == canonical(dict(reversed(both.items())))
    assert canonical(both) not in (canonical({"caf\u00e9": 1}), canonical({"caf\u00e9": 2}))


def test_an_hour_that_comes_twice_is_two_times() -> None:
    hour = datetime(2026, 10, 25, 2, 30)
    assert canonical(hour) != canonical(hour.replace(fold=1))


def test_private_parts_and_extras_of_a_model_count() -> None:
    class Open(Budget, extra="allow"):
        _seen: int = 0

    one, other = Open(limit=1, more=1), Open(limit=1, more=2)  # type: ignore[call-arg]
    assert canonical(one) != canonical(other)
    other = Open(limit=1, more=1)  # type: ignore[call-arg]
    assert canonical(one) == canonical(other)
    other._seen = 1
    assert canonical(one) != canonical(other)


def test_readable_kinds() -> None:
    assert canonical(Colour.RED) == '{"$enum":["tests.cache.pairs.Colour","red"]}'
    assert canonical(Pair(1, 2)) == '{"$named":["tests.cache.pairs.Pair",[1,2]]}'
    assert canonical(datetime(2026, 1, 2, 3, tzinfo=UTC)) == '{"$time":"2026-01-02T03:00:00Z"}'
    assert canonical(-0.5) == "-0.5"
    assert canonical(1.5e300) == "15E299"


class Whole:
    """A number of another library, as numpy's are."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value

    def __eq__(self, other: object) -> bool:
        return self.value == other

    __hash__ = None  # type: ignore[assignment]


class Hours(Whole):
    """A length of time, which is no plain number."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hours) and self.value == other.value

    __hash__ = None  # type: ignore[assignment]


class Detached(Mapping[str, int]):
    def __getitem__(self, name: str) -> int:
        raise RuntimeError("detached")

    def __iter__(self) -> Iterator[str]:
        return iter("a")

    def __len__(self) -> int:
        return 1


class Unreadable(tuple[int, ...]):
    __slots__ = ()

    def __iter__(self) -> Iterator[int]:
        raise MemoryError


@dataclass
class Opened:
    url: str
    token: InitVar[str]

    def __post_init__(self, token: str) -> None:
        self._session = f"session of {token}"


@dataclass
class Base:
    url: str


class Client(Base):
    def __init__(self, url: str, tenant: str) -> None:
        super().__init__(url)
        self.tenant = tenant


class Slotted(Base):
    __slots__ = ("__tenant",)

    def __init__(self, url: str, tenant: str) -> None:
        super().__init__(url)
        self.__tenant = tenant


@dataclass(slots=True)
class InSlots:
    url: str
    tenant: str = field(init=False)

    def __init__(self, url: str, tenant: str) -> None:
        self.url = url
        if tenant != "ann":
            self.tenant = tenant


@pytest.mark.parametrize("kind", [Opened, Client, Slotted, InSlots])
def test_all_that_a_dataclass_holds_counts(kind: Any) -> None:
    ann, bob, again = kind("https://git", "ann"), kind("https://git", "bob"), kind("https://git", "ann")
    assert canonical(ann) == canonical(again) != canonical(bob)


def test_what_a_dataclass_computes_does_not_count() -> None:
    @dataclass
    class Read:
        url: str

        @cached_property
        def host(self) -> str:
            return self.url.split("/")[2]

    one = Read("https://git/x")
    before = canonical(one)
    assert one.host == "git"
    assert canonical(one) == before


def test_the_hint_of_a_generic_dataclass_does_not_count() -> None:
    @dataclass
    class Box(Generic[T]):
        held: T

    assert canonical(Box[int](1)) == canonical(Box(1)) != canonical(Box[int](2))


@pytest.mark.parametrize("value", [Hours(1), Detached(), Unreadable((1, 2)), Client("u", object()), [Detached()]])  # type: ignore[arg-type]
def test_a_value_whose_own_code_refuses_is_computed_each_time(value: Any) -> None:
    Integral.register(Whole)
    cache = ResultCache(namespace="n")
    assert [cache.get_or_compute("t", {"x": value}, lambda x, n=n: n) for n in (1, 2)] == [1, 2]
    assert cache.stats().uncacheable == 2
    with pytest.raises(UncacheableError, match="parameter 'x'"):
        canonical_key("t", {"x": value})
    with pytest.raises(UncacheableError, match="version"):
        canonical_key("t", {}, version=value)


def test_integers_of_other_libraries_count_by_value() -> None:
    Integral.register(Whole)
    assert canonical(Whole(7)) == "7"

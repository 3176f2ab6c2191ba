"""The decorator: every spelling of one call shares a result, and no two different calls do."""

import asyncio
import functools
import inspect
import math
import re
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from autocontext.cache import MISS, ResultCache
from autocontext.cache.versions import identified, version_of
from autocontext.errors import ConfigError

calls: list[Any] = []


@pytest.fixture
def cache() -> ResultCache:
    calls.clear()
    return ResultCache(namespace="agent")


def total(x: int, /, y: int = 2, *rest: int, z: int = 3, **others: int) -> list[Any]:
    calls.append(x)
    return [x, y, list(rest), z, others]


def test_defaults_are_filled_in_from_the_signature(cache: ResultCache) -> None:
    @cache.memoize()
    def f(x: int, y: int | None = None) -> int:
        calls.append(x)
        return x

    assert [f(1), f(x=1), f(1, None), f(1, y=None), f(y=None, x=1), f(1.0)] == [1] * 6  # type: ignore[arg-type]
    assert len(calls) == 1
    f(1, 0)
    f(2)
    assert len(calls) == 3


def test_every_kind_of_parameter_counts(cache: ResultCache) -> None:
    f = cache.memoize(total)
    assert f(1) == f(1, 2) == f(1, 2, z=3) == [1, 2, [], 3, {}]
    assert len(calls) == 1
    different: list[tuple[tuple[int, ...], dict[str, int]]] = [
        ((2,), {}), ((1, 3), {}), ((1, 2, 4), {}), ((1, 2, 5), {}), ((1,), {"z": 4}), ((1,), {"w": 1}),
        ((1,), {"v": 1}), ((1,), {"x": 1}), ((1,), {"rest": 1}),
    ]  # fmt: skip
    for args, kwargs in different:
        calls.clear()
        expected = total(*args, **kwargs)
        assert [f(*args, **kwargs), f(*args, **kwargs)] == [expected, expected]
        assert len(calls) == 2  # one of them was the line before the last


def test_a_wrong_call_fails_as_without_the_decorator(cache: ResultCache) -> None:
    @cache.memoize
    def f(x: int) -> int:
        return x

    with pytest.raises(TypeError, match="missing"):
        f()  # type: ignore[call-arg]


def test_it_looks_like_the_function(cache: ResultCache) -> None:
    @cache.memoize(ttl=5)
    def f(x: int) -> int:
        """Doubles."""
        return 2 * x

    assert f.__name__ == "f"
    assert f.__doc__ == "Doubles."
    assert str(inspect.signature(f)) == "(x: int) -> int"
    assert f.__wrapped__(3) == 6  # type: ignore[attr-defined]
    assert cache.stats().entries == 0


def test_the_key_of_a_call_can_be_had(cache: ResultCache) -> None:
    @cache.memoize(name="double")
    def f(x: int) -> int:
        return 2 * x

    key = f.cache_key(x=3)  # type: ignore[attr-defined]
    assert cache.get(key) is MISS
    assert f(3) == cache.get(key) == 6
    assert str(key).startswith("double:3:")
    assert cache.invalidate(task="double") == 1


def test_asynchronous_functions_stay_asynchronous(cache: ResultCache) -> None:
    @cache.memoize(ignore="client")
    async def f(x: int, client: object) -> int:
        calls.append(x)
        await asyncio.sleep(0)
        return 2 * x

    assert inspect.iscoroutinefunction(f)

    async def main() -> list[int]:
        return list(await asyncio.gather(*(f(3, object()) for _ in range(10))))

    assert asyncio.run(main()) == [6] * 10
    assert asyncio.run(main()) == [6] * 10
    assert calls == [3]


def test_methods_depend_on_their_object(cache: ResultCache) -> None:
    @dataclass
    class Shop:
        name: str

        @cache.memoize()
        def price(self, item: str) -> str:
            calls.append(item)
            return f"{self.name}: {item}"

    assert [Shop("a").price("tea"), Shop("a").price("tea"), Shop("b").price("tea")] == ["a: tea", "a: tea", "b: tea"]
    assert len(calls) == 2
    bound = [cache.memoize()(Shop(name).price.__wrapped__.__get__(Shop(name))) for name in "ab"]  # type: ignore[attr-defined]
    assert [f("milk") for f in bound] == ["a: milk", "b: milk"]


def test_an_object_without_a_value_is_computed_each_time(cache: ResultCache) -> None:
    class Shop:
        @cache.memoize()
        def price(self) -> int:
            calls.append(1)
            return 1

    shop = Shop()
    assert [shop.price(), shop.price()] == [1, 1]
    assert len(calls) == 2
    assert cache.stats().uncacheable == 2


def test_methods_made_by_one_factory_are_told_apart(cache: ResultCache) -> None:
    def shop(rate: int) -> Any:
        @dataclass
        class Shop:
            name: str

            def price(self, amount: int) -> int:
                return amount * rate

        return Shop("a")

    assert [cache.memoize()(shop(rate).price)(5) for rate in (2, 3)] == [10, 15]


def test_functions_made_by_one_factory_are_told_apart(cache: ResultCache) -> None:
    def times(n: int) -> Callable[[int], int]:
        @cache.memoize()
        def f(x: int) -> int:
            return n * x

        return f

    assert [times(2)(3), times(5)(3), times(2)(3)] == [6, 15, 6]
    assert cache.stats().hits == 1


def twice(word: str) -> str:
    return word * 2


def thrice(word: str) -> str:
    return word * 3


class Repeated:
    def __init__(self, n: int) -> None:
        self.n = n

    def of(self, word: str) -> str:
        return word * self.n


@dataclass(frozen=True)
class Written:
    n: int

    def __call__(self, word: str) -> str:
        return word * self.n


def around(fn: Any) -> Callable[[str], str]:
    return lambda word: str(fn(word))


def of(shop: Repeated) -> Callable[[str], str]:
    def tool(word: str) -> str:
        return shop.of(word)

    return tool


PAIRS: dict[str, tuple[Callable[[str], str], ...]] = {
    "lambdas of a line": (lambda word: word * 2, lambda word: word * 3),
    "lambdas behind a text": (lambda word: "é日" + word, lambda word: "é日" + word * 2),
    "lambdas of several lines": (
        lambda word: word
        * 2, lambda word: word
        * 3,
    ),
    "parameters": (lambda word, n=2: word * n, lambda word, n=3: word * n),
    "around functions": (around(twice), around(thrice)),
    "around partials": (around(functools.partial(twice)), around(functools.partial(thrice))),
    "around arguments": tuple(around(functools.partial(Written.__call__, Written(n))) for n in (2, 3)),
    "around lambdas": (around(lambda word: word * 2), around(lambda word: word * 3)),
    "around objects with a value": (around(Written(2)), around(Written(3))),
}  # fmt: skip


@pytest.mark.parametrize("pair", PAIRS)
def test_functions_that_do_something_else_share_nothing(cache: ResultCache, pair: str) -> None:
    one, two = PAIRS[pair]
    assert one("ab") != two("ab")
    assert [cache.memoize(f)("ab") for f in (one, two, one, two)] == [one("ab"), two("ab")] * 2
    assert cache.stats().hits == 2


@pytest.mark.parametrize(
    "make",
    [lambda n: of(Repeated(n)), lambda n: around(Repeated(n).of), lambda n: around(functools.partial(Repeated(n).of))],
    ids=["object", "method", "partial"],
)
def test_a_function_around_an_object_needs_a_name_or_a_version(cache: ResultCache, make: Any) -> None:
    with pytest.raises(ConfigError, match=r"uses (shop|fn) of an enclosing function.*name= or version="):
        cache.memoize(make(2))
    assert [cache.memoize(f"times {n}")(make(n))("ab") for n in (2, 3, 2)] == ["abab", "ababab", "abab"]
    assert [cache.memoize(version=n)(make(n))("ab") for n in (2, 3, 2)] == ["abab", "ababab", "abab"]


def test_functions_that_enclose_each_other_have_versions(cache: ResultCache) -> None:
    def make(step: int) -> Callable[[int], bool]:
        def even(n: int) -> bool:
            return n == 0 or odd(n - step)

        def odd(n: int) -> bool:
            return n != 0 and even(n - step)

        return even

    assert [version_of(make(n)) == version_of(make(1)) for n in (1, 2)] == [True, False]


def test_a_method_in_c_needs_a_version(cache: ResultCache) -> None:
    with pytest.raises(ConfigError, match="version=1"):
        cache.memoize(re.compile("a").findall)


def test_state_that_a_function_keeps_changes_no_version_after_decoration(cache: ResultCache) -> None:
    count = 0

    @cache.memoize()
    def f(x: int) -> int:
        nonlocal count
        count += 1
        return x

    assert [f(1), f(1), f(2), f(2)] == [1, 1, 2, 2]
    assert count == 2


def test_partials_need_a_name_and_keep_what_they_hold(cache: ResultCache) -> None:
    def add(x: int, y: int) -> int:
        return x + y

    with pytest.raises(ConfigError, match="name="):
        cache.memoize()(functools.partial(add, 1))
    one, two = (cache.memoize("add")(functools.partial(add, n)) for n in (1, 2))
    assert [one(5), two(5), one(y=5)] == [6, 7, 6]
    assert cache.stats().hits == 1


def test_another_source_is_another_version(cache: ResultCache) -> None:
    def first() -> Callable[[int], int]:
        def f(x: int) -> int:
            return x + 1

        return f

    def second() -> Callable[[int], int]:
        def f(x: int) -> int:
            return x + 2

        return f

    results = [cache.memoize("f")(make())(1) for make in (first, second, first)]
    assert results == [2, 3, 2]
    assert cache.stats().hits == 1


def test_a_function_of_equal_code_with_another_decorator_is_another_version(cache: ResultCache, tmp_path: Path) -> None:
    """As when a notebook runs a cell again: only the prompt, an argument of the decorator, is another."""
    path = tmp_path / "prompts.py"
    answers = []
    for prompt in ("In English: ", "In German, please: "):
        path.write_text(
            f"def prompt(text):\n    return lambda fn: fn\n\n@prompt({prompt!r})\ndef ask():\n    return 1\n"
        )
        space: dict[str, Any] = {"__name__": "prompts"}
        exec(compile(path.read_text(), path, "exec"), space)  # noqa: S102 (a module that is loaded again)
        answers.append(cache.memoize(space["ask"]).cache_key().version)
    assert answers[0] != answers[1]


def test_two_functions_of_one_source_differ_by_their_qualified_name(cache: ResultCache) -> None:
    class One:
        @staticmethod
        def f() -> str:
            return __class__.__name__  # type: ignore[name-defined, no-any-return]

    class Two:
        @staticmethod
        def f() -> str:
            return __class__.__name__  # type: ignore[name-defined, no-any-return]

    assert [cache.memoize("f")(kind.f)() for kind in (One, Two)] == ["One", "Two"]


def test_without_source_a_version_is_asked_for(cache: ResultCache) -> None:
    space: dict[str, Any] = {}
    exec("def f(x):\n    return x + 1", space)  # noqa: S102 (a function whose source is in no file)
    with pytest.raises(ConfigError, match=r"source.*version=1"):
        cache.memoize("f")(space["f"])
    assert cache.memoize("f", version=1)(space["f"])(1) == 2


@pytest.mark.slow
def test_the_text_of_a_program_is_not_the_source_of_what_it_makes() -> None:
    program = """
from autocontext.cache.versions import identified, version_of
space = {}
exec("def f(x): return x", space)
try:
    print(version_of(space["f"]))
except ValueError as e:
    print(type(e).__name__)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "ConfigError\n"


def test_a_function_in_c_counts_by_its_name(cache: ResultCache) -> None:
    assert [cache.memoize()(math.isqrt)(16), cache.memoize()(math.isqrt)(16)] == [4, 4]
    assert cache.stats().hits == 1
    assert version_of(len) == "builtins.len"
    assert version_of(str.upper).endswith("str.upper")


def test_an_object_with_call_counts_by_the_source_of_its_class(cache: ResultCache) -> None:
    class Adder:
        def __call__(self, x: int) -> int:
            calls.append(x)
            return x + 1

    with pytest.raises(ConfigError, match="name="):
        cache.memoize()(Adder())
    assert [cache.memoize("add")(Adder())(1), cache.memoize("add")(Adder())(1)] == [2, 2]
    assert calls == [1]


def test_an_own_version_takes_the_place_of_the_source(cache: ResultCache) -> None:
    assert cache.memoize("f", version=1)(lambda x: x + 1)(1) == 2  # type: ignore[misc]
    assert cache.memoize("f", version=1)(lambda x: x + 2)(1) == 2  # type: ignore[misc]
    assert cache.memoize("f", version=2)(lambda x: x + 2)(1) == 3  # type: ignore[misc]


def test_quantize_hashed_and_exceptions_reach_the_call(cache: ResultCache) -> None:
    @cache.memoize(quantize={"spent": 100}, hashed=("iban",), cache_exceptions=(LookupError,))
    def f(spent: int, iban: str = "") -> int:
        calls.append(spent)
        if spent < 0:
            raise LookupError(spent)
        return spent

    assert [f(1000), f(1001), f(1000, "DE1"), f(1001, "DE1")] == [1000] * 4
    assert calls == [1000, 1000]
    for _ in range(2):
        with pytest.raises(LookupError):
            f(-500)
    assert len(calls) == 3


def test_per_call_fields_are_only_special_when_asked(cache: ResultCache) -> None:
    @cache.memoize()
    def f(_x: int) -> dict[str, int]:
        return {"_id": _x}

    assert [f(1), f(2), f(1)] == [{"_id": 1}, {"_id": 2}, {"_id": 1}]


@pytest.mark.parametrize("option", ["ignore", "hashed", "quantize"])
def test_a_mistyped_parameter_name_is_told_at_once(cache: ResultCache, option: str) -> None:
    value: Any = {"api_kye": 1} if option == "quantize" else ("api_kye",)
    with pytest.raises(ConfigError, match=f"{option}.*api_kye.*api_key"):

        @cache.memoize(**{option: value})
        def f(api_key: str) -> str:
            return api_key


def test_what_cannot_be_kept_is_refused(cache: ResultCache) -> None:
    def numbers() -> Iterator[int]:
        yield 1

    async def later() -> AsyncIterator[int]:
        yield 1

    for fn in (numbers, later):
        with pytest.raises(ConfigError, match="generator"):
            cache.memoize()(fn)
    with pytest.raises(ConfigError, match="functions"):
        cache.memoize()(5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="tttl"):
        cache.memoize(tttl=5)  # type: ignore[call-overload]


def test_what_a_decorator_was_made_with_tells_functions_apart(tmp_path):
    cache = ResultCache(tmp_path / "c.db", namespace="n")

    def price(x):
        return x

    def times(k, lock=None):
        def around(fn):
            @functools.wraps(fn)
            def wrapper(x):
                return lock or k * fn(x)

            return wrapper

        return around

    double, triple = cache.memoize()(times(2)(price)), cache.memoize()(times(3)(price))
    assert [double(10), triple(10)] == [20, 30]
    # An object of a decorator that no key can hold does not count.
    assert version_of(times(2, threading.Lock())(price)) == version_of(times(2, threading.Lock())(price))
    assert version_of(functools.lru_cache(price)) == version_of(price)


def test_what_is_assigned_below_the_decorator_tells_functions_apart(cache: ResultCache) -> None:
    def make(n: int) -> Callable[[int], int]:
        @cache.memoize
        def f(x: int) -> int:
            return g(x)

        def g(x: int) -> int:
            return x * k

        k = n
        return f

    assert [make(2)(3), make(5)(3), make(2)(3)] == [6, 15, 6]
    assert cache.stats().hits == 1


def tools_of_one_log(cache: ResultCache) -> tuple[Any, Any]:
    log: list[str] = []

    @cache.memoize
    def search(word: str) -> str:
        log.append(word)
        return f"hits of {word}"

    @cache.memoize
    def fetch(url: str) -> str:
        log.append(url)
        return f"page {url}"

    return search, fetch


def tools_of_each_other(cache: ResultCache) -> tuple[Any, Any]:
    @cache.memoize
    def search(word: str) -> str:
        return f"{fetch('a')} has {word}" if word else ""

    @cache.memoize
    def fetch(url: str) -> str:
        return f"{search('')}page {url}"

    return search, fetch


@pytest.mark.parametrize("make", [tools_of_one_log, tools_of_each_other])
def test_which_tool_of_a_factory_is_called_first_changes_no_key(cache: ResultCache, make: Any) -> None:
    keys = []
    for first in ("neither", "search", "fetch"):
        tools = make(cache)
        for tool in tools:
            if tool.__name__ == first:
                tool("a")
        keys.append([tool.cache_key("b") for tool in tools])
    assert keys == keys[:1] * 3


def test_a_client_that_the_first_call_makes_does_not_count(cache: ResultCache) -> None:
    client = None

    def page_of(url: str) -> str:
        nonlocal client
        client = client or threading.Lock()
        return f"page {url} of {below.locked()}"

    search, fetch = (cache.memoize(fn) for fn in (lambda word: page_of(f"?{word}"), lambda url: page_of(f"/{url}")))
    below = threading.Lock()
    assert [search("a"), fetch("b")] == ["page ?a of False", "page /b of False"]
    with pytest.raises(ConfigError, match="uses client of an enclosing function"):
        cache.memoize(lambda url: f"{client}{url}")


@pytest.mark.parametrize("between", [lambda fn: fn, functools.partial], ids=["itself", "a partial"])
def test_a_function_around_itself_is_told_and_not_cached(cache: ResultCache, between: Callable[..., Any]) -> None:
    def f(x: int) -> int:
        return x

    f.__wrapped__ = between(f)  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match=r"memoize: .*has no signature"):
        cache.memoize(f)
    f.__signature__ = inspect.signature(lambda x: x)  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match=r"decorators of .*f are around each other"):
        cache.memoize(f)
    assert identified(f, {"x": 1}) == ({"x": 1}, f)

"""What every cache does, wherever it lives: in memory, in a file, on a PostgreSQL server."""

import asyncio
import json
import math
import statistics
import unicodedata
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autocontext.cache import MISS, ResultCache, UncacheableError, canonical_key
from autocontext.cache.stats import FIGURES
from autocontext.errors import ConfigError, StoreCorruptError
from autocontext.stores.database import Statement
from tests.cache.conftest import Clock, Counted
from tests.profiles import WITH_FIXTURES, share

Make = Callable[..., ResultCache]
BUDGET = {"limit": 50000, "spent": 42000, "history": [5000, 7000, 8000, 6000]}


def analyze(limit: int, spent: int, history: list[int]) -> dict[str, Any]:
    """The budget analysis that the original has as its example."""
    rate = statistics.mean(history)
    bar = rate + 2.0 * statistics.stdev(history)
    predicted = spent + rate * 4
    return {
        "remaining": limit - spent, "rate": rate, "predicted": predicted, "overshoot": predicted > limit,
        "anomalies": [value for value in history if value > bar],
    }  # fmt: skip


# --------------------------------------------------------------------------------------------------------- what it does
def test_002_1_the_key_is_made_of_the_parameters_not_of_the_wording(cache: ResultCache) -> None:
    fn = Counted(analyze)
    first = cache.get_or_compute("analyze_budget", {**BUDGET, "_user_query": "How is my budget?"}, fn)
    again = cache.get_or_compute("analyze_budget", {"_user_query": "Am I overspending?", **BUDGET}, fn)
    other = cache.get_or_compute("analyze_budget", {**BUDGET, "spent": 42001}, fn)
    assert fn.times == 2
    assert first["remaining"] == again["remaining"] == 8000
    assert other["remaining"] == 7999


def test_002_2_a_stored_key_can_be_read(cache: ResultCache) -> None:
    cache.get_or_compute("analyze_budget", BUDGET, analyze)
    key = canonical_key("analyze_budget", BUDGET)
    assert str(key).startswith("analyze_budget:50000:42000:5000,7000,8000,6000:")
    assert cache.get(key) == cache.get(str(key)) == analyze(**BUDGET)  # type: ignore[arg-type]


def test_002_3_a_hit_computes_nothing_and_only_success_is_stored(cache: ResultCache) -> None:
    failing = Counted(RuntimeError("down"))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="down"):
            cache.get_or_compute("t", {"x": 1}, failing)
    assert failing.times == 2
    assert cache.get(canonical_key("t", {"x": 1})) is MISS
    fn = Counted("done")
    assert [cache.get_or_compute("t", {"x": 1}, fn) for _ in range(3)] == ["done"] * 3
    assert fn.times == 1


def test_002_3_what_is_stored_is_there_for_others_at_once(make_cache: Make) -> None:
    make_cache().get_or_compute("t", {"x": 1}, Counted("done"))
    assert make_cache().get(canonical_key("t", {"x": 1})) == "done"


def test_002_5_read_and_write(cache: ResultCache) -> None:
    assert cache.get("missing") is MISS
    assert not MISS
    assert cache.get("missing", None) is None
    assert cache.set("key", {"a": 1}) is True
    assert cache.get("key", None) == {"a": 1}
    assert cache.delete("key") is True
    assert cache.delete("key") is False
    assert cache.get("key") is MISS


def test_002_6_the_switch(make_cache: Make) -> None:
    cache = make_cache(enabled=False)
    fn = Counted(lambda **_: len(fn.calls))
    assert [cache.get_or_compute("t", {"x": 1}, fn) for _ in range(2)] == [1, 2]
    assert cache.set("k", 1) is False
    assert cache.get("k") is MISS
    assert cache.get("k", 2) == 2
    assert cache.invalidate(task="t") == cache.purge_expired() == 0
    stats = cache.stats()
    assert not any(stats[name] for name in FIGURES)  # what is off looks for nothing, so it misses nothing
    with pytest.raises(ConfigError, match="key"):
        cache.get("")
    assert not cache.enabled
    on = make_cache()
    assert on.get(canonical_key("t", {"x": 1})) is MISS


def test_002_7_fields_of_one_query_are_not_stored_and_each_call_gets_its_own(cache: ResultCache) -> None:
    fn = Counted(lambda limit: {"limit": limit, "_intent": "computed"})
    first = cache.get_or_compute("t", {"limit": 1, "_intent": "a", "_user_query": "q1"}, fn)
    again = cache.get_or_compute("t", {"limit": 1, "_intent": "b"}, fn)
    assert first == {"limit": 1, "_intent": "a", "_user_query": "q1"}
    assert again == {"limit": 1, "_intent": "b"}
    assert cache.get(canonical_key("t", {"limit": 1})) == {"limit": 1}
    assert fn.times == 1


def test_002_7_can_be_switched_off(cache: ResultCache) -> None:
    for _ in range(2):
        assert cache.get_or_compute("t", {"x": 1}, lambda x: {"_id": 5}, per_call=None) == {"_id": 5}


def test_002_11_the_worked_example(cache: ResultCache) -> None:
    for _ in range(2):
        assert cache.get_or_compute("analyze_budget", BUDGET, analyze) == {
            "remaining": 8000, "rate": 6500, "predicted": 68000, "overshoot": True, "anomalies": [],
        }  # fmt: skip


# ----------------------------------------------------------------------------------------- what the original does wrong
def test_defect_key_collision_after_five_values(cache: ResultCache) -> None:
    short, long = [1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 4, 5, 900, 900]

    def total(history: list[int]) -> int:
        return sum(history)

    assert cache.get_or_compute("total", {"history": short}, total) == 28
    assert cache.get_or_compute("total", {"history": long}, total) == 1815


def test_defect_key_collision_of_the_digest_itself(cache: ResultCache) -> None:
    one, other = canonical_key("t", {"x": 1}), canonical_key("t", {"x": 2})
    forged = type(one)(one.label, one.digest, other.args, one.task)
    cache.set(one, "of one")
    assert str(forged) == str(one)
    assert cache.get(forged) is MISS
    fn = Counted("recomputed")
    assert cache.get_or_compute("t", {"x": 1}, fn) == "of one"
    assert fn.times == 0


@pytest.mark.parametrize("value", [{}, [], 0, "", False, 0.0])
def test_defect_falsy_results_are_results(cache: ResultCache, value: Any) -> None:
    fn = Counted(value)
    assert [cache.get_or_compute("t", {}, fn) for _ in range(2)] == [value, value]
    assert fn.times == 1


def test_defect_none_is_a_result_when_asked(cache: ResultCache) -> None:
    fn = Counted(None)
    for _ in range(2):
        assert cache.get_or_compute("t", {}, fn) is None
    assert fn.times == 2
    for _ in range(2):
        assert cache.get_or_compute("t", {}, fn, cache_none=True) is None
    assert fn.times == 3
    assert cache.get(canonical_key("t", {})) is None
    cache.set("k", None)
    assert cache.get("k") is None


def test_defect_the_hit_path_mutated_the_cached_dict(cache: ResultCache) -> None:
    first = cache.get_or_compute("t", {}, lambda: {"a": [1]})
    first["a"].append(2)
    first["_intent"] = "x"
    second = cache.get_or_compute("t", {}, Counted())
    second["a"].append(3)
    assert cache.get_or_compute("t", {}, Counted()) == cache.get(canonical_key("t", {})) == {"a": [1]}


def test_a_hit_and_a_miss_cannot_be_told_apart(cache: ResultCache) -> None:
    results = [cache.get_or_compute("t", {}, lambda: {"pair": (1, (2,)), "n": 1.0}) for _ in range(2)]
    assert results == [{"pair": [1, [2]], "n": 1.0}] * 2


def test_defect_nothing_expired(cache: ResultCache, clock: Clock) -> None:
    fn = Counted(lambda: fn.times)
    assert cache.get_or_compute("t", {}, fn, ttl=10) == 1
    clock.now += 9.999
    assert cache.get_or_compute("t", {}, fn, ttl=10) == 1
    clock.now += 0.001
    assert cache.get(canonical_key("t", {})) is MISS
    assert cache.get_or_compute("t", {}, fn, ttl=timedelta(seconds=10)) == 2
    assert cache.stats().entries == 1


@pytest.mark.parametrize(
    ("ahead", "ttl", "served"),
    [
        (3_600, 60, False),
        (301, 60, False),
        (300, 60, True),
        (240, 60, True),
        (2, 1, True),
        (3_600, 7_200, True),
        (3_600, 3_600, True),
        (3_601, 3_600, False),
        (3_600, None, True),
        (10**8, None, True),
    ],
)
def test_what_a_clock_stored_that_was_ahead_lives_no_longer_than_its_ttl_or_than_clocks_differ(
    make_cache: Callable[..., ResultCache],
    clock: Clock,
    tmp_path: Path,
    ahead: float,
    ttl: float | None,
    *,
    served: bool,
) -> None:
    cache = make_cache()
    clock.now += ahead
    cache.get_or_compute("t", {}, lambda: "old", ttl=ttl, stale_while_revalidate=10**9)
    cache.export_json(tmp_path / "all.json")
    clock.now -= ahead
    key = canonical_key("t", {})
    assert cache.export_json(tmp_path / "now.json") == served
    assert cache.import_json(tmp_path / "all.json") == served
    assert cache.get(key, "none") == ("old" if served else "none")
    assert cache.get_or_compute("t", {}, lambda: "new", ttl=ttl) == ("old" if served else "new")
    assert cache.get(key) == ("old" if served else "new")


def test_default_ttl_and_its_exceptions(make_cache: Make, clock: Clock) -> None:
    cache = make_cache(default_ttl=10)
    cache.set("default", 1)
    cache.set("longer", 1, ttl=20)
    cache.set("for ever", 1, ttl=math.inf)
    clock.now += 15
    assert [cache.get(key) for key in ("default", "longer", "for ever")] == [MISS, 1, 1]
    assert cache.purge_expired() == 1
    clock.now += 1e9
    assert cache.purge_expired() == 1
    assert cache.get("for ever") == 1
    assert cache.stats().entries == 1


def test_a_function_discards_what_it_chooses_also_what_has_expired(make_cache: Make, clock: Clock) -> None:
    cache = make_cache()
    for number, ttl in enumerate((None, 1, None)):
        cache.set(f"k{number}", number, ttl=ttl)
    clock.now += 2
    assert cache.discard(lambda entry: entry.key != "k2") == 2
    assert cache.stats().entries == 1
    assert cache.get("k2") == 2


def test_a_ttl_beyond_any_float_is_for_ever(make_cache: Make, clock: Clock) -> None:
    cache = make_cache()
    cache.set("k", 1, ttl=10**400)
    clock.now += 1e9
    assert cache.get("k") == 1


def test_defect_no_version(cache: ResultCache) -> None:
    fn = Counted(lambda: fn.times)
    assert [cache.get_or_compute("t", {}, fn, version=v) for v in (None, 1, 2, 1, None)] == [1, 2, 3, 2, 1]


def test_defect_no_size_bound_the_least_recently_used_go(make_cache: Make) -> None:
    cache = make_cache(max_entries=3)
    for key in "abc":
        cache.set(key, key)
    assert cache.get("a") == "a"
    cache.set("d", "d")
    assert [cache.get(key, None) for key in "abcd"] == ["a", None, "c", "d"]
    cache.get_or_compute("t", {}, Counted())
    assert cache.stats().entries == 3
    assert cache.stats().evicted == 2
    assert cache.get("a") is MISS  # it was used before c and d were


def test_a_use_is_written_once_and_one_in_the_meantime_the_next_time(make_cache: Make) -> None:
    cache = make_cache(max_entries=3)
    cache.set("a", 1)
    cache.get("a")
    write_uses = cache._namespace.write_uses
    writing = write_uses()
    next(writing)
    cache.get("a")
    assert list(writing) == []
    assert len([*write_uses()]) == 1
    assert [*write_uses()] == []


@pytest.mark.sampled
def test_max_entries_is_never_exceeded(make_cache: Make) -> None:
    cache = make_cache(max_entries=70)
    most = 0
    for i in range(150):
        cache.set(f"k{i}", i)
        most = max(most, cache.stats().entries)
    assert 66 <= most <= 70
    assert cache.get("k149") == 149


def test_max_bytes_is_never_exceeded(make_cache: Make) -> None:
    cache = make_cache(max_bytes=10_000, large_bytes=2_000)
    for i in range(60):
        cache.set(f"k{i}", "x" * (i * 97 % 3000))
        assert cache.stats().bytes <= 10_000
    assert cache.get("k59") == "x" * (59 * 97 % 3000)
    assert cache.set("huge", "x" * 10_000) is False
    assert cache.get("huge") is MISS
    fn = Counted("y" * 10_000)
    assert [len(cache.get_or_compute("t", {}, fn)) for _ in range(2)] == [10_000] * 2
    assert fn.times == 2
    assert cache.stats().entries >= 3


def test_what_was_stored_is_there_and_what_has_no_room_is_not_stored(make_cache: Make) -> None:
    """Near the limit, of which a 64th is kept free, too."""
    cache = make_cache(max_bytes=6_400)
    answers = []
    for size in range(6_200, 6_420, 4):
        stored = cache.set("key", "x" * size)
        assert cache.get("key") == ("x" * size if stored else MISS)
        cache.delete("key")
        answers.append(stored)
    assert answers == sorted(answers, reverse=True)
    assert set(answers) == {True, False}


def test_an_exception_is_not_raised_past_its_time(make_cache: Make, clock: Clock) -> None:
    """A result may be used while a new one is computed; an exception may not."""
    cache, fn = make_cache(), Counted(LookupError("no"))
    for calls, later in ((1, 0.0), (1, 4.9), (2, 0.2)):
        clock.now += later
        with pytest.raises(LookupError):
            cache.get_or_compute(
                "t", {}, fn, cache_exceptions=(LookupError,), exception_ttl=5, stale_while_revalidate=60
            )
        assert len(fn.calls) == calls
    assert cache.stats()["stale"] == 0


def test_what_is_past_its_time_goes_before_what_is_in_use(make_cache: Make, clock: Clock) -> None:
    cache = make_cache(max_entries=3)
    cache.set("a", 1)
    cache.set("late", 1, ttl=1)
    cache.set("b", 1)
    clock.now += 2
    cache.set("c", 1)
    assert [cache.get(key) for key in ("a", "late", "b", "c")] == [1, MISS, 1, 1]


def test_invalidate_by_key_task_tag_and_prefix(cache: ResultCache) -> None:
    for task in ("weather", "news"):
        for city in ("Bonn", "Köln"):
            cache.get_or_compute(task, {"city": city}, lambda city: city, tags=("daily", city))
    assert cache.invalidate(canonical_key("news", {"city": "Bonn"})) == 1
    assert cache.invalidate(tag="Köln") == 2
    assert cache.invalidate(tag="Köln") == 0
    assert cache.invalidate(task="weather") == 1
    assert cache.stats().entries == 0
    cache.set("report:1", 1)
    cache.set("report:2", 1)
    cache.set("reporting", 1)
    cache.set("re%ort:1", 1)
    assert cache.invalidate(prefix="re%") == 1
    assert cache.invalidate(prefix="report:") == 2
    assert cache.invalidate(task="reporting") == 1


def test_tags_follow_the_latest_result(cache: ResultCache) -> None:
    cache.set("k", 1, tags=("old", "both"))
    cache.set("k", 2, tags=["new", "both"])
    assert cache.invalidate(tag="old") == 0
    assert cache.invalidate(tag="both") == 1
    cache.set("k", 3)
    assert cache.invalidate(tag="new") == 0


@pytest.mark.parametrize(
    "arguments", [{}, {"task": "t", "tag": "u"}, {"task": ""}, {"tag": ""}, {"prefix": ""}, {"key": ""}]
)
def test_invalidate_wants_exactly_one(cache: ResultCache, arguments: dict[str, Any]) -> None:
    cache.set("t", 1)
    with pytest.raises(ConfigError):
        cache.invalidate(**arguments)
    assert cache.get("t") == 1


def test_defect_tenant_leak(make_cache: Make) -> None:
    spaces = [("u1",), ("u1", "a"), ("u1", "b"), ("u1a",), ('u1", "a',), ("u2", "a")]
    caches = {space: make_cache(space) for space in spaces}
    for space, cache in caches.items():
        assert cache.get_or_compute("t", {}, lambda space=space: str(space)) == str(space)
        cache.set("k", str(space), tags="t")
    assert [cache.get("k") for cache in caches.values()] == [str(space) for space in spaces]
    above, below = caches["u1",], caches["u1", "a"]
    assert below.invalidate(tag="t") == 1
    with pytest.raises(ConfigError, match="namespace"):
        below.invalidate(namespace=above.namespace)
    assert above.invalidate(namespace=above.namespace) == 5
    assert [cache.stats().entries for cache in caches.values()] == [0, 0, 0, 2, 2, 2]


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("task", ["résumé", "한국어", "weather"])
def test_a_task_is_found_in_the_form_in_which_it_was_given(cache: ResultCache, task: str, form: Any) -> None:
    text = unicodedata.normalize(form, task)
    cache.set(f"{text}:1", 5)
    cache.get_or_compute(text, {}, lambda: 6)
    assert cache.invalidate(task=text) == 2


@pytest.mark.parametrize("namespace", ["", (), None, ("a", ""), ("a", None), 5])
def test_a_namespace_is_mandatory(namespace: Any) -> None:
    with pytest.raises((ConfigError, TypeError)):
        ResultCache(namespace=namespace)
    with pytest.raises(TypeError):
        ResultCache()  # type: ignore[call-arg]


def test_defect_exceptions_are_stored_only_when_named(cache: ResultCache, clock: Clock) -> None:
    fn = Counted(LookupError("no such city", 404))
    for _ in range(3):
        with pytest.raises(LookupError) as caught:
            cache.get_or_compute("t", {}, fn, cache_exceptions=(LookupError,), exception_ttl=5)
        assert caught.value.args == ("no such city", 404)
    assert fn.times == 1
    assert cache.get(canonical_key("t", {})) is MISS
    clock.now += 5
    with pytest.raises(LookupError):
        cache.get_or_compute("t", {}, fn, cache_exceptions=(LookupError,))
    assert fn.times == 2
    assert cache.get_or_compute("t", {}, Counted("fine")) == "fine"  # who does not name it computes


def test_derived_exceptions_and_odd_constructors(cache: ResultCache) -> None:
    fn = Counted(Odd(code=7))
    for _ in range(2):
        with pytest.raises(Odd, match="code 7"):
            cache.get_or_compute("t", {}, fn, cache_exceptions=(LookupError,))
    assert fn.times == 1


class Odd(KeyError):
    def __init__(self, *, code: int) -> None:
        super().__init__(f"code {code}")


def test_an_exception_that_is_no_data_is_raised_and_not_stored(cache: ResultCache) -> None:
    fn = Counted(LookupError(object()))
    for _ in range(2):
        with pytest.raises(LookupError):
            cache.get_or_compute("t", {}, fn, cache_exceptions=(LookupError,))
    assert fn.times == 2


def test_defect_secrets_are_neither_in_the_key_nor_stored(cache: ResultCache) -> None:
    fn = Counted("r")
    for secret in ("s3cret-1", "s3cret-2"):
        cache.get_or_compute("t", {"x": 1, "api_key": secret}, fn, ignore=("api_key",))
    assert fn.times == 1
    assert fn.calls[0][1] == {"x": 1, "api_key": "s3cret-1"}
    cache.get_or_compute("t", {"x": 1, "iban": "DE89"}, fn, hashed=("iban",))
    cache.get_or_compute("t", {"x": 1, "iban": "DE90"}, fn, hashed=("iban",))
    assert fn.times == 3
    assert cache.stats().entries == 3


def test_defect_nearby_values_are_apart_unless_quantized(cache: ResultCache) -> None:
    fn = Counted(lambda spent: spent)
    assert [cache.get_or_compute("t", {"spent": n}, fn) for n in (50000, 50001)] == [50000, 50001]
    rounded = [cache.get_or_compute("r", {"spent": n}, fn, quantize={"spent": 100}) for n in (50000, 50001, 50051)]
    assert rounded == [50000, 50000, 50051]


def test_a_normalizer_decides_what_forms_the_key(cache: ResultCache) -> None:
    fn = Counted(lambda q: q)
    for q in ("  What is X? ", "what is x?"):
        assert (
            cache.get_or_compute("t", {"q": q}, fn, normalizer=lambda p: {"q": p["q"].strip().lower()})
            == "  What is X? "
        )
    assert fn.times == 1


@pytest.mark.parametrize("params", [{"x": math.nan}, {"x": math.inf}, {"x": object()}, {"x": [object()]}])
def test_defect_uncacheable_arguments_are_computed_and_not_stored(cache: ResultCache, params: dict[str, Any]) -> None:
    fn = Counted(1)
    assert [cache.get_or_compute("t", params, fn) for _ in range(2)] == [1, 1]
    assert fn.times == 2
    assert cache.stats().entries == 0
    assert cache.stats().uncacheable == 2


@pytest.mark.parametrize("value", [{1: "a"}, {1, 2}, object(), math.nan, b"bytes", [math.inf], {"a": {(1, 2): 3}}])
def test_results_that_json_would_change_are_returned_and_not_stored(cache: ResultCache, value: Any) -> None:
    fn = Counted(value)
    assert [cache.get_or_compute("t", {}, fn) for _ in range(2)] == [value, value]
    assert fn.times == 2
    with pytest.raises(UncacheableError, match="result"):
        cache.set("k", value)
    assert cache.get("k") is MISS


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
names = st.text(min_size=1, max_size=20)


@pytest.mark.sampled
@settings(max_examples=share(30), deadline=None, suppress_health_check=WITH_FIXTURES)
@given(names, names, names, json_values)
def test_any_text_and_any_json_come_back(cache: ResultCache, key: str, task: str, tag: str, value: Any) -> None:
    assert cache.set(key, value, tags=tag)
    assert cache.get(key) == value
    result = cache.get_or_compute(task, {"x": value}, lambda x: x, cache_none=True, tags=tag, per_call=None)
    assert result == value
    assert cache.get(canonical_key(task, {"x": value})) == value
    assert cache.invalidate(tag=tag) == 2
    assert cache.get(key) is MISS


def test_large_results_are_in_the_content_store(make_cache: Make) -> None:
    cache = make_cache(large_bytes=1000)
    large, larger = {"rows": ["é" * 50] * 30}, {"rows": ["x" * 50] * 3000}
    for value in (large, larger, {"small": 1}, large):
        assert cache.set("k", value)
        assert cache.get("k") == value
        assert contents_of(cache) == (0 if "small" in value else 1)
    fn = Counted(larger)
    for _ in range(2):
        assert cache.get_or_compute("t", {}, fn) == larger
    assert fn.times == 1
    assert contents_of(cache) == 2
    assert cache.invalidate(task="t") == 1
    assert cache.delete("k")
    assert contents_of(cache) == 0


def contents_of(cache: ResultCache) -> int:
    from autocontext.cache.namespace import content_space
    from autocontext.content.queries import safe

    space = {"ns": safe(content_space(cache._namespace.text))}

    def count() -> Any:
        rows = yield Statement("SELECT COUNT(*) FROM autocontext_content WHERE namespace = :ns", space)
        return rows[0][0]

    return int(cache.database.read(count))


def test_a_damaged_record_is_told_and_computed_anew(cache: ResultCache) -> None:
    def damage() -> Any:
        yield Statement("UPDATE autocontext_cache SET body = '{' WHERE namespace = :ns", {"ns": cache._namespace.text})

    key = canonical_key("t", {"x": 1})
    cache.get_or_compute("t", {"x": 1}, lambda x: "first")
    cache.database.write(damage)
    with pytest.raises(StoreCorruptError, match=str(key)):
        cache.get(key)
    assert cache.get_or_compute("t", {"x": 1}, lambda x: "second") == "second"
    assert cache.get(key) == "second"


def test_what_is_invalidated_while_it_is_computed_is_not_stored(cache: ResultCache) -> None:
    for what in ({"task": "t"}, {"tag": "u"}, {"key": canonical_key("t", {})}, {"namespace": cache.namespace}):

        def fn(what: dict[str, Any] = what) -> str:
            cache.invalidate(**what)
            return "old"

        assert cache.get_or_compute("t", {}, fn, tags="u") == "old"
        assert cache.get(canonical_key("t", {})) is MISS
    assert cache.get_or_compute("t", {}, lambda: "new", tags="u") == "new"
    assert cache.get(canonical_key("t", {})) == "new"


def test_stats_count_what_happened(cache: ResultCache) -> None:
    for _ in range(3):
        cache.get_or_compute("t", {"x": 1}, lambda x: x)
    cache.get("nothing")
    stats = cache.stats()
    assert (stats.hits, stats.misses, stats.computed, stats.stored, stats.entries) == (2, 2, 1, 1, 1)
    assert stats["hits"] == 2
    assert stats.bytes > 0
    with pytest.raises(KeyError):
        stats["rate"]


def takes_all(**params: Any) -> Any:
    return params


@pytest.mark.parametrize(
    ("fn", "result"),
    [
        (lambda x, y: [x, y], [1, 2]),
        (lambda y, x=9: [x, y], [1, 2]),
        (takes_all, {"x": 1, "y": 2}),
        (dict, {"x": 1, "y": 2}),
    ],
)
def test_the_function_gets_the_parameters_by_name(cache: ResultCache, fn: Any, result: Any) -> None:
    assert cache.get_or_compute("t", {"x": 1, "y": 2}, fn) == result


@pytest.mark.sampled(7)
@pytest.mark.parametrize(
    ("fn", "problem"),
    [
        (lambda: 1, "'x'"),
        (lambda params: 1, "'params'"),
        (lambda x: 1, "'y'"),
        (lambda x, y, z: 1, "'z'"),
        (lambda x, y, /: 1, "'x\\b"),
        (lambda x, y, _q: 1, "'_q'.*per_call=None"),
    ],
)
@pytest.mark.parametrize("enabled", [True, False])
def test_a_function_with_other_parameters_is_told(make_cache: Make, fn: Any, problem: str, enabled: bool) -> None:
    cache = make_cache(enabled=enabled)
    with pytest.raises(ConfigError, match=f"fn\\(x=..., y=...\\).*{problem}.*lambda x, y: fn"):
        cache.get_or_compute("t", {"x": 1, "y": 2, "_q": 3}, fn)
    with pytest.raises(ConfigError, match=problem):
        asyncio.run(cache.aget_or_compute("t", {"x": 1, "y": 2, "_q": 3}, fn))
    assert cache.stats().entries == 0


def test_a_function_with_other_parameters_is_never_stored_as_an_exception(cache: ResultCache) -> None:
    options: Any = {"cache_exceptions": (ValueError,)}
    with pytest.raises(ConfigError):  # a ValueError
        cache.get_or_compute("t", {"x": 1}, lambda: 1, **options)
    assert cache.get_or_compute("t", {"x": 1}, lambda x: x, **options) == 1


def test_an_error_inside_the_function_is_its_own(cache: ResultCache) -> None:
    def fn(x: int) -> int:
        return len(x)  # type: ignore[arg-type]

    with pytest.raises(TypeError, match="len"):
        cache.get_or_compute("t", {"x": 1}, fn)


def test_an_unknown_option_is_named(cache: ResultCache) -> None:
    with pytest.raises(TypeError, match="tttl"):
        cache.get_or_compute("t", {"x": 1}, Counted(1), tttl=5)  # type: ignore[call-arg]


def test_clear_empties_this_namespace_and_no_other(make_cache: Make) -> None:
    cache, below, other = make_cache("a"), make_cache(("a", "b")), make_cache("c")
    for each in (cache, below, other):
        each.set("k", 1, tags="t")
    assert cache.clear() == 1
    assert [each.get("k", None) for each in (cache, below, other)] == [None, 1, 1]

    def fn() -> str:
        cache.clear()
        return "old"

    assert cache.get_or_compute("t", {}, fn) == "old"
    assert cache.stats().entries == 0


def test_an_asynchronous_function_is_told(cache: ResultCache) -> None:
    async def fn() -> int:
        return 1

    with pytest.raises(ConfigError, match="aget_or_compute"):
        cache.get_or_compute("t", {}, fn)


@pytest.mark.parametrize(
    "options",
    [
        {"ttl": 0}, {"ttl": -1}, {"ttl": math.nan}, {"ttl": "5"}, {"ttl": True}, {"tags": [""]}, {"tags": [5]},
        {"early_beta": 0}, {"early_beta": "x"}, {"stale_while_revalidate": 0}, {"float_digits": 0},
        {"float_digits": True},
        {"cache_exceptions": (5,)}, {"cache_exceptions": LookupError}, {"cache_exceptions": (KeyboardInterrupt,)},
        {"cache_exceptions": (LookupError,), "exception_ttl": 0},
    ],
)  # fmt: skip
def test_bad_options_are_told_by_name(options: dict[str, Any]) -> None:
    cache = ResultCache(namespace="n")
    name = "exception_ttl" if "exception_ttl" in options else next(iter(options))
    fn = Counted(1)
    with pytest.raises(ConfigError, match=name):
        cache.get_or_compute("t", {}, fn, **options)  # type: ignore[arg-type]
    assert fn.times == 0


@pytest.mark.parametrize("limits", [{"max_entries": 0}, {"max_bytes": -1}, {"max_entries": 1.5}, {"default_ttl": 0}])
def test_bad_limits_are_told_by_name(limits: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(limits))):
        ResultCache(namespace="n", **limits)


def test_a_bad_key_is_told() -> None:
    cache = ResultCache(namespace="n")
    for key in ("", None, 5):
        with pytest.raises(ConfigError, match="key"):
            cache.get(key)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="key"):
            cache.set(key, 1)  # type: ignore[arg-type]


def test_json_only(cache: ResultCache) -> None:
    def bodies() -> Any:
        rows = yield Statement(
            "SELECT body, args, tags FROM autocontext_cache WHERE namespace = :ns", {"ns": cache._namespace.text}
        )
        return rows

    cache.get_or_compute("t", {"x": {1, 2}}, lambda x: {"a": [1, None]}, tags="u")
    ((body, args, tags),) = cache.database.read(bodies)
    assert json.loads(body) == {"a": [1, None]}
    assert json.loads(args) == {"x": {"$set": [1, 2]}}
    assert json.loads(tags) == ["u"]

"""A cached result whose row has changed since it was stored is never another answer."""

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autocontext.cache import MISS, ResultCache, canonical_key
from autocontext.errors import StoreCorruptError
from autocontext.stores.places import PLACE
from tests.cache.conftest import Clock
from tests.profiles import WITH_FIXTURES

KEY = canonical_key("t", {"n": 1, "who": "ann"}, version=2)
LARGE = canonical_key("large", {})
VERSION: dict[Any, Any] = {KEY: {"version": 2}, LARGE: {}}
STORED: dict[Any, Any] = {KEY: {"total": 1200, "by": "ann"}, "plain": [1, 2.5, "three"], LARGE: "x" * 500, "b": "beta"}
_PLACE = PLACE["autocontext_cache"]
COLUMNS = list(_PLACE.columns)


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pristine") / "a.db"
    with opened(path) as cache:
        for key, value in STORED.items():
            if isinstance(key, str):
                cache.set(key, value, ttl=100, tags="t")
            else:
                cache.get_or_compute(key.task, json.loads(key.args), lambda value=value, **_args: value, **VERSION[key])
    return path


def opened(path: Path) -> ResultCache:
    return ResultCache(path, namespace="n", large_bytes=100, clock=Clock())


def flipped(value: Any, bit: int) -> Any:
    """The value with one bit changed; of the same type, as a database has types."""
    if isinstance(value, int):
        return value ^ (1 << bit % 62)
    raw = bytearray(value.encode())
    raw[bit // 7 % len(raw)] ^= 1 << bit % 7  # ASCII stays ASCII
    return bytes(raw).decode()


@pytest.mark.slow
@settings(max_examples=40, suppress_health_check=WITH_FIXTURES, deadline=None)
@given(st.sampled_from(COLUMNS), st.integers(0, 10**6), st.integers(0, len(STORED) - 1))
def test_one_bit_of_a_row_makes_no_other_answer(
    pristine: Path, tmp_path: Path, column: str, bit: int, row: int
) -> None:
    path = shutil.copy(pristine, tmp_path / "a.db")
    damaged = damage(path, column, bit, row)
    with opened(path) as cache:
        for key in [*STORED, damaged] if column == "key" and damaged else STORED:
            try:
                assert cache.get(key) in (STORED.get(key, MISS), MISS)
            except StoreCorruptError as error:
                assert "delete(key)" in str(error)  # noqa: PT017 (either is fine)
        cache.export_json(tmp_path / "out.json")
        exported = json.loads((tmp_path / "out.json").read_text())["tasks"]
        known = {str(key): value for key, value in STORED.items()}
        assert {key: known.get(key) for key in exported} == exported
        for key, version in VERSION.items():
            answer = cache.get_or_compute(key.task, json.loads(key.args), lambda **_args: "computed", **version)
            assert answer in (STORED[key], "computed")
    Path(path).unlink()


def damage(path: Path, column: str, bit: int, row: int) -> Any:
    """Flip a bit of a cell; returns its new value."""
    file = sqlite3.connect(path, isolation_level=None)
    try:
        rowid, value = file.execute(f"SELECT rowid, {column} FROM autocontext_cache ORDER BY rowid").fetchall()[row]
        if value == "":
            return None
        changed = flipped(value, bit)
        file.execute(f"UPDATE autocontext_cache SET {column} = ? WHERE rowid = ?", (changed, rowid))
        return changed
    finally:
        file.close()


def test_a_damaged_result_is_told_counted_and_computed_again(
    pristine: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = shutil.copy(pristine, tmp_path / "a.db")
    for row in range(len(STORED)):
        damage(path, "body", 22, row)
    with opened(path) as cache:
        for key in STORED:
            with pytest.raises(StoreCorruptError, match=r"delete\(key\)"):
                cache.get(key)
        assert cache.get_or_compute("t", {"n": 1, "who": "ann"}, lambda **_args: "again", version=2) == "again"
        assert cache.get(KEY) == "again"
        assert cache.stats().damaged > 0
        assert cache.delete("plain")
        assert cache.get("plain") is MISS
    assert {record.name for record in caplog.records} == {"autocontext.cache"}


def test_rows_of_earlier_versions_have_no_checksum_and_are_read(pristine: Path, tmp_path: Path) -> None:
    path = shutil.copy(pristine, tmp_path / "a.db")
    with sqlite3.connect(path) as file:
        file.execute("UPDATE autocontext_cache SET checksum = NULL")
    file.close()
    with opened(path) as cache:
        assert {key: cache.get(key) for key in STORED} == STORED

"""The original's memory.json, in and out."""

import json
from pathlib import Path
from typing import Any

import pytest

from autocontext.cache import MISS, ResultCache, canonical_key
from autocontext.errors import ConfigError, StoreCorruptError, StoreVersionError
from autocontext.stores.database import Statement, Work
from tests.cache.conftest import Clock, Counted

ORIGINAL = {
    "tasks": {
        "analyze_budget:50000:42000:5000,7000,8000,6000": {"remaining": 8000, "overshoot": True},
        "analyze_budget:60000:0:no_history": {"remaining": 60000, "rate": None},
    }
}


@pytest.fixture
def cache(clock: Clock) -> ResultCache:
    return ResultCache(namespace="agent", clock=clock)


def test_002_4_the_originals_file_can_be_read(cache: ResultCache, tmp_path: Path) -> None:
    file = tmp_path / "memory.json"
    file.write_text(json.dumps(ORIGINAL, indent=2))
    assert cache.import_json(file) == cache.stats().stored == 2
    for key, value in ORIGINAL["tasks"].items():
        assert cache.get(key) == value
    assert cache.invalidate(task="analyze_budget") == 2


def test_002_4_what_is_written_is_of_that_form(cache: ResultCache, tmp_path: Path) -> None:
    file = tmp_path / "memory.json"
    assert cache.export_json(file) == 0
    assert json.loads(file.read_text())["tasks"] == {}
    cache.set("key", {"é": [1, None]})
    cache.get_or_compute("t", {"x": 1}, lambda x: "r")
    assert cache.export_json(str(file)) == 2
    text = file.read_text()
    assert json.loads(text)["tasks"] == {"key": {"é": [1, None]}, str(canonical_key("t", {"x": 1})): "r"}
    assert text.startswith('{\n  "tasks": {\n    ')
    assert [path.name for path in tmp_path.iterdir()] == ["memory.json"]


def test_nothing_is_lost_on_the_way(clock: Clock, tmp_path: Path) -> None:
    file = tmp_path / "memory.json"
    with ResultCache(namespace="one", clock=clock, large_bytes=100) as one:
        one.get_or_compute("t", {"x": {1, 2}}, lambda x: "x" * 1000, ttl=10, tags=("u", "v"), version=3)
        one.set("short", 1, ttl=5)
        one.set("for ever\0\ud800", None)
        with pytest.raises(LookupError):
            one.get_or_compute("t", {}, Counted(LookupError()), cache_exceptions=(LookupError,))
        assert one.export_json(file) == 3
    clock.now += 6
    with ResultCache(namespace="two", clock=clock) as two:
        assert two.import_json(file) == 2
        key = canonical_key("t", {"x": {1, 2}}, version=3)
        assert two.get(key) == "x" * 1000
        assert two.get(canonical_key("t", {"x": {1, 2}})) is MISS
        assert two.get("for ever\0\ud800") is None
        assert two.get("short") is MISS
        clock.now += 4
        assert two.get(key) is MISS
        clock.now -= 4
        assert two.invalidate(tag="v") == 1


def test_what_was_read_from_a_file_is_as_large_as_before(clock: Clock, tmp_path: Path) -> None:
    file = tmp_path / "memory.json"
    one, two = ResultCache(namespace="one", clock=clock), ResultCache(namespace="two", clock=clock)
    one.get_or_compute("t", {"name": "n" * 100}, lambda name: "x" * 50)
    one.export_json(file)
    two.import_json(file)
    assert two.stats().bytes == one.stats().bytes > 150


@pytest.mark.parametrize(
    "text",
    [
        "", "{", '{"tasks": {"a": 1}', "[]", "null", "\xff\xfe", '{"tasks": [1]}', '{"task": {}}',
        '{"tasks": {"a": NaN}}',
        '{"tasks": {"a": 1}, "autocontext": {"a": {"task": 5}}}', '{"tasks": {"a": 1}, "autocontext": {"a": []}}',
    ],
)  # fmt: skip
def test_defect_a_corrupt_file_is_told_or_set_aside_never_wiped(cache: ResultCache, tmp_path: Path, text: str) -> None:
    file = tmp_path / "memory.json"
    file.write_bytes(text.encode("latin-1"))
    cache.set("mine", 1)
    with pytest.raises(StoreCorruptError, match=r"memory\.json"):
        cache.import_json(file)
    assert file.read_bytes() == text.encode("latin-1")
    with pytest.warns(UserWarning, match="corrupt-"):
        assert cache.import_json(file, on_corrupt="quarantine") == 0
    (aside,) = tmp_path.iterdir()
    assert aside.name.startswith("memory.json.corrupt-")
    assert aside.read_bytes() == text.encode("latin-1")
    assert cache.stats().entries == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("tags", tags) for tags in ("notjson", "5", '["a",5]', '["a","a"]', '[""]', "null", "[" * 100_000)),
        *(("args", args) for args in ("[1]", "notjson")),
        *((field, number) for field in ("expires", "created", "gone", "cost") for number in (10**30, -(10**30), True)),
    ],
)
@pytest.mark.parametrize("once", [False, True])
def test_damaged_details_of_a_result_are_told_or_set_aside(
    cache: ResultCache, tmp_path: Path, field: str, value: object, *, once: bool
) -> None:
    file = tmp_path / "memory.json"
    cache.get_or_compute("k", {"a": 1}, lambda a: a)
    cache.export_json(file)
    document = json.loads(file.read_text())
    for details in document["autocontext"].values():
        details[field] = value
    file.write_text(json.dumps(document))
    if once:
        with pytest.raises(StoreCorruptError, match=r"memory\.json"):
            ResultCache.from_config({"agent_id": "a", "ltm_path": str(file)})
        return
    other = ResultCache(":memory:", namespace="other")
    with pytest.raises(StoreCorruptError, match=r"memory\.json"):
        other.import_json(file)
    with pytest.warns(UserWarning, match="corrupt-"):
        assert other.import_json(file, on_corrupt="quarantine") == 0
    assert [path.name.startswith("memory.json.corrupt-") for path in tmp_path.iterdir()] == [True]


def test_a_missing_file_is_told(cache: ResultCache, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        cache.import_json(tmp_path / "none.json")
    with pytest.raises(ConfigError, match="on_corrupt"):
        cache.import_json(tmp_path / "none.json", on_corrupt="ignore")  # type: ignore[arg-type]


def test_a_missing_folder_is_told_and_not_made(cache: ResultCache, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        cache.export_json(tmp_path / "none" / "memory.json")
    assert list(tmp_path.iterdir()) == []


def test_defect_a_damaged_database_is_told_and_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "cache.db"
    file.write_bytes(b"this is no database" * 1000)
    with pytest.raises(StoreCorruptError, match=r"cache\.db"):
        ResultCache(file, namespace="agent")
    assert file.read_bytes() == b"this is no database" * 1000


def test_002_6_the_originals_settings(tmp_path: Path) -> None:
    config: dict[str, Any] = {
        "agent_id": "budget", "supervisor_id": "boss", "ltm_path": str(tmp_path / "LTM"), "enable_ltm_cache": True,
        "anomaly_threshold_multiplier": 2.0,
    }  # fmt: skip
    with ResultCache.from_config(config) as cache:
        assert cache.namespace == ("boss", "budget")
        cache.set("k", 1)
    with ResultCache.from_config(config) as again:
        assert again.get("k") == 1
    with ResultCache.from_config({**config, "agent_id": "other"}) as other:
        assert other.get("k") is MISS
    with ResultCache.from_config({**config, "enable_ltm_cache": False}) as off:
        assert off.get("k") is MISS
        assert not off.enabled
    with pytest.raises(ConfigError, match="agent_id"):
        ResultCache.from_config({"ltm_path": str(tmp_path)})
    # The original's settings name its JSON file.
    with ResultCache.from_config({**config, "ltm_path": str(tmp_path / "LTM" / "memory.json")}) as by_file:
        assert by_file.get("k") == 1


@pytest.fixture
def config(tmp_path: Path) -> dict[str, Any]:
    """The original's settings, beside the file that it has written."""
    file = tmp_path / "LTM" / "budget" / "memory.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(ORIGINAL, indent=2))
    return {"agent_id": "budget", "ltm_path": str(file)}


def test_the_file_of_the_original_is_read_once(config: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    first, second = ORIGINAL["tasks"]
    before = Path(config["ltm_path"]).read_bytes()
    with caplog.at_level("INFO", "autocontext.cache"), ResultCache.from_config(config) as cache:
        assert {key: cache.get(key) for key in ORIGINAL["tasks"]} == ORIGINAL["tasks"]
        assert cache.delete(first)
        cache.set(second, "newer")
    assert [(r.name, config["ltm_path"] in r.getMessage()) for r in caplog.records] == [("autocontext.cache", True)]
    for _ in range(2):
        with ResultCache.from_config(config) as again:
            assert again.get(first) is MISS
            assert again.get(second) == "newer"
            assert again.clear() in (0, 1)
            again.set(second, "newer")
    with ResultCache.from_config({**config, "agent_id": "other"}) as other:
        assert other.get(first) == ORIGINAL["tasks"][first]
    assert Path(config["ltm_path"]).read_bytes() == before


def test_what_the_database_has_is_not_replaced_by_the_file(config: dict[str, Any]) -> None:
    first, second = ORIGINAL["tasks"]
    with ResultCache(Path(config["ltm_path"]).with_name("autocontext.db"), namespace=("budget",)) as cache:
        cache.set(first, "newer")
    with ResultCache.from_config(config) as cache:
        assert [cache.get(first), cache.get(second)] == ["newer", ORIGINAL["tasks"][second]]


def test_a_damaged_file_of_the_original_is_told_until_it_is_repaired(config: dict[str, Any]) -> None:
    file = Path(config["ltm_path"])
    file.write_text("{")
    for _ in range(2):
        with pytest.raises(StoreCorruptError, match=r"memory\.json.*move it away"):
            ResultCache.from_config(config)
    assert file.read_text() == "{"
    with ResultCache.from_config({**config, "enable_ltm_cache": False}) as off:
        assert not off.enabled
    file.write_text(json.dumps(ORIGINAL))
    with ResultCache.from_config(config) as cache:
        assert cache.stats().entries == 2


def test_a_file_of_a_newer_version_is_refused_and_closed(tmp_path: Path) -> None:
    with ResultCache(tmp_path / "agent.db", namespace="n") as cache:

        def future() -> Work[None]:
            yield Statement("UPDATE autocontext_schema SET version = 99 WHERE part LIKE '%cache%'")

        cache.database.write(future)
    with pytest.raises(StoreVersionError, match="99"):
        ResultCache(tmp_path / "agent.db", namespace="n")


def test_a_cache_that_is_switched_off_takes_nothing_from_a_file(cache: ResultCache, tmp_path: Path) -> None:
    cache.set("k", 1)
    assert cache.export_json(tmp_path / "all.json") == 1
    with ResultCache(namespace="agent", enabled=False) as off:
        assert off.import_json(tmp_path / "all.json") == 0
        assert off.stats().entries == off.stats().stored == 0

"""The configuration: frozen, checked field by field, the same by keywords and by builder."""

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import autocontext.content
from autocontext import AutoContextConfig, AutoContextError, PromptConfig
from autocontext.config import STRATEGIES, ConfigBuilder
from autocontext.errors import ConfigError
from autocontext.strategies import View, steps
from autocontext.suite import Session

DEFAULTS = {
    "msg_threshold": 100,
    "max_token": 128 * 1024,
    "token_ratio": 0.75,
    "last_keep": 50,
    "min_consecutive_tool_messages": 6,
    "large_payload_threshold": 5 * 1024,
    "offload_single_preview": 200,
    "min_compression_token_threshold": None,
    "current_round_compression_ratio": 0.3,
    "custom_prompt": None,
    "escalation": "until_fit",
    "target_ratio": 0.8,
    "keep_unread": True,
    "note_role": "user",
    "strategies": STRATEGIES,
    "protected_tools": {"context_reload"},
    "strict_fit": False,
    "model_timeout": 60.0,
    "model_retries": 2,
    "max_parallel_summaries": 16,
    "summary_max_input_tokens": None,
    "background": False,
    "background_ratio": 0.6,
    "user_message_budget": 20_000,
    "redact": None,
    "prices": None,
    "cache_ttl": None,
    "token_counter": "auto",
}


class Quiet:
    """A user's own strategy that never proposes anything."""

    name = "quiet"

    def propose(self, view: View) -> list[Any]:
        return []


THREE_DISTANCES = ("read_once", "shorten")
WINDOWED = ("msg_threshold", "target_ratio", "last_keep", "large_payload_threshold", "ledger_ratio", "strategies")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"max_token": 4_000}, (1_000, 0.9, 4, 1_000, 0.18, THREE_DISTANCES)),
        ({"max_token": "16000"}, (4_000, 0.8, 6, 1_000, 0.1, THREE_DISTANCES)),
        ({"max_token": 64_000, "token_counter": "bytes4"}, (16_000, 0.8, 24, 2_500, 0.1, THREE_DISTANCES)),
        ({"max_token": 1_048_576}, (262_144, 0.8, 400, 40_960, 0.1, THREE_DISTANCES)),
        ({"max_token": 64_000, "last_keep": 9}, (16_000, 0.53, 9, 5_120, 0.1, STRATEGIES)),
        ({"max_token": 64_000, "offload_single_preview": 3_000}, (16_000, 0.53, 50, 5_120, 0.1, STRATEGIES)),
        ({"max_token": 64_000, "msg_threshold": 30}, (30, 0.8, 24, 2_500, 0.1, STRATEGIES)),
        ({"max_token": 64_000, "escalation": "single"}, (100, 0.8, 24, 2_500, 0.1, STRATEGIES)),
        ({"max_token": 300}, (100, 0.9, 4, 1_000, 0.4, THREE_DISTANCES)),
        ({"token_ratio": 0.9}, (100, 0.8, 50, 5_120, 0.1, STRATEGIES)),
    ],
    ids=str,
)
def test_row_25_defaults_fit_a_window_that_is_set(fields: dict[str, Any], expected: tuple[Any, ...]) -> None:
    config = AutoContextConfig(**fields)
    assert tuple(getattr(config, field) for field in WINDOWED) == expected
    assert config.token_ratio == fields.get("token_ratio", 0.75)


@given(
    st.integers(1, 3_000_000),
    st.dictionaries(st.sampled_from(WINDOWED[:4]), st.integers(1, 1), max_size=4),
    st.booleans(),
)
def test_row_25_what_is_given_stands_in_any_window(window: int, fields: dict[str, Any], large: bool) -> None:
    if large:
        fields = {**fields, "large_payload_threshold": 300, "strategies": ("rounds",)}
    else:
        fields = {field: value for field, value in fields.items() if field != "large_payload_threshold"}
    config = AutoContextConfig(max_token=window, **fields)
    assert {field: getattr(config, field) for field in fields} == fields
    assert config.offload_single_preview < config.large_payload_threshold
    assert AutoContextConfig(**dict(config)) == config


@pytest.mark.parametrize("window", [2_000, 16_000, 128 * 1024, 1_000_000])
def test_row_25_the_reference_s_preset_is_the_reference_s_in_any_window(window: int) -> None:
    config, plain = AutoContextConfig.agentscope_java(max_token=window), AutoContextConfig.agentscope_java()
    assert {**dict(config), "max_token": plain.max_token} == dict(plain)
    assert [getattr(plain, field) for field in WINDOWED] == [100, 1.0, 50, 5_120, 0.0, STRATEGIES]


def test_row_25_a_copy_with_another_window_keeps_all_other_fields() -> None:
    config = AutoContextConfig()
    assert dict(config.model_copy(update={"max_token": 4_000})) == {**dict(config), "max_token": 4_000}


@pytest.mark.parametrize("field", DEFAULTS)
def test_the_defaults_are_those_of_the_documentation(field: str) -> None:
    assert getattr(AutoContextConfig(), field) == DEFAULTS[field]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("msg_threshold", 0), ("msg_threshold", -1), ("msg_threshold", "many"), ("msg_threshold", 2.5),
        ("max_token", 0), ("token_ratio", 0), ("token_ratio", 1.01), ("token_ratio", float("nan")),
        ("last_keep", -1), ("min_consecutive_tool_messages", 0), ("large_payload_threshold", 0),
        ("offload_single_preview", 0), ("offload_single_preview", 5 * 1024), ("min_compression_token_threshold", -1),
        ("current_round_compression_ratio", 0), ("current_round_compression_ratio", 2), ("escalation", "sometimes"),
        ("target_ratio", 0), ("target_ratio", 1.5), ("note_role", "system"), ("keep_unread", "perhaps"),
        ("protected_tools", 3), ("strategies", ("invented",)), ("strategies", ("rounds", "rounds")),
        ("strategies", (object(),)), ("strategies", "rounds"), ("model_timeout", 0), ("model_retries", -1),
        ("max_parallel_summaries", 0), ("summary_max_input_tokens", 0), ("background_ratio", 0),
        ("user_message_budget", -1), ("redact", "secrets"), ("prices", {"outputs": 1.0}), ("prices", 3),
        ("tool_effects", {"deploy": "explodes"}),
        ("custom_prompt", "short"), ("max_tokens", 5), ("ledger_ratio", 0.9), ("keep_recent", 1),
    ],
)  # fmt: skip
def test_a_bad_value_is_one_line_that_names_the_field(field: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"\b{field}\b") as caught:
        AutoContextConfig(**{field: value})
    assert "\n" not in str(caught.value)
    assert "pydantic" not in str(caught.value)
    assert isinstance(caught.value, AutoContextError)
    assert isinstance(caught.value, ValueError)


def test_every_bad_field_is_named_at_once() -> None:
    with pytest.raises(ConfigError, match=r"max_token.*last_keep"):
        AutoContextConfig(max_token=0, last_keep=-1)


def test_a_threshold_of_zero_messages_is_the_reference_s() -> None:
    assert AutoContextConfig.agentscope_java(msg_threshold=0).msg_threshold == 0


def outcome(make: Callable[[], AutoContextConfig]) -> AutoContextConfig | str:
    """What comes of it: a configuration, or the error's text."""
    try:
        return make()
    except ConfigError as e:
        return str(e)


@given(st.dictionaries(st.sampled_from(sorted(AutoContextConfig.model_fields)), st.integers(-3, 300), max_size=4))
def test_keywords_and_builder_give_the_same(fields: dict[str, int]) -> None:
    builder = AutoContextConfig.builder()
    for field, value in fields.items():
        builder = getattr(builder, field)(value)
    assert outcome(builder.build) == outcome(lambda: AutoContextConfig(**fields))


def test_the_builder_knows_its_fields() -> None:
    with pytest.raises(ConfigError, match=r"no field 'max_tokens'; did you mean 'max_token'"):
        AutoContextConfig.builder().max_tokens(3)


def test_the_builder_lists_its_methods_with_the_types_of_the_fields() -> None:
    builder = AutoContextConfig.builder()
    fields = get_type_hints(AutoContextConfig)
    methods = {k: v for k, v in get_type_hints(ConfigBuilder).items() if not k.startswith("_")}
    assert methods.keys() == AutoContextConfig.model_fields.keys() <= {*dir(builder)}
    assert {k: get_args(v)[0][0] for k, v in methods.items()} == {k: fields[k] for k in methods}


def test_a_wrong_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"AutoContextConfig\.max_tokens: .*did you mean 'max_token'"):
        AutoContextConfig(max_tokens=4)
    with pytest.raises(ConfigError, match=r"no such field; it has .*last_keep"):
        AutoContextConfig(zzzzzz=4)


def test_a_copy_is_checked_like_a_new_configuration() -> None:
    config = AutoContextConfig.for_window(16_000)
    assert config.model_copy() == config
    assert config.model_copy(update={"last_keep": 3}).last_keep == 3
    assert config.model_copy(update={"last_keep": 3}).max_token == 16_000
    with pytest.raises(ConfigError, match=r"AutoContextConfig\.max_token: .*greater"):
        config.model_copy(update={"max_token": -4})


@pytest.mark.parametrize("window", ["16k", "16K", " 16_000 ", "16,000", "16000", 16_000])
def test_a_window_is_a_number_of_tokens_as_on_the_command_line(window: int | str) -> None:
    assert AutoContextConfig.for_window(window) == AutoContextConfig.for_window(16_000)


@pytest.mark.parametrize("window", ["16m", "", "k", "-5", "1" * 30, 1.5, None, True])
def test_any_other_window_is_refused(window: Any) -> None:
    with pytest.raises(ConfigError, match="is not a number of tokens"):
        AutoContextConfig.for_window(window)


def test_a_configuration_is_frozen() -> None:
    config = AutoContextConfig()
    with pytest.raises(ValidationError, match="frozen"):
        config.max_token = 5
    assert config == AutoContextConfig()
    assert hash(config) == hash(AutoContextConfig())


@pytest.mark.parametrize(
    ("window", "least"), [(128 * 1024, 5000), (16_000, 640), (25, 1)], ids=["capped", "a share", "tiny"]
)
def test_the_smallest_span_worth_a_summary_goes_by_the_window(window: int, least: int) -> None:
    assert AutoContextConfig(max_token=window).min_tokens == least
    assert AutoContextConfig(max_token=window, min_compression_token_threshold=7).min_tokens == 7


def test_the_trigger_is_rounded_down_as_in_the_reference() -> None:
    assert AutoContextConfig(max_token=999, token_ratio=0.75).token_trigger == 749


@given(st.integers(500, 2_000_000))
def test_any_window_gives_a_sound_configuration(window: int) -> None:
    config = AutoContextConfig.for_window(window)
    assert config.max_token == window
    assert config.token_trigger <= window
    assert config.min_tokens < window
    assert 0 < config.target_ratio < 1
    assert 0 < config.ledger_ratio <= 0.5
    assert config.token_trigger * (1 - config.target_ratio) > 0


@given(st.integers(500, 200_000), st.integers(500, 200_000))
def test_a_small_window_is_emptied_less_far_and_gives_the_ledger_a_larger_share(one: int, other: int) -> None:
    small, large = (AutoContextConfig.for_window(window) for window in sorted((one, other)))
    assert small.target_ratio >= large.target_ratio
    if (small.max_token < 12_000) == (large.max_token < 12_000):  # from there on, a lower target makes room for more
        assert small.ledger_ratio >= large.ledger_ratio


def test_three_distances_share_a_window_and_the_presets_differ_in_the_ledger() -> None:
    shares = {2_000: (0.28, 0.27, 0.9), 4_000: (0.28, 0.18, 0.9), 8_000: (0.38, 0.12, 0.85), 16_000: (0.38, 0.1, 0.8)}
    for window, expected in shares.items():
        config = AutoContextConfig.for_window(window)
        assert (config.keep_recent, config.ledger_ratio, config.target_ratio) == expected
        assert config.strategies == THREE_DISTANCES
    assert AutoContextConfig().ledger_ratio > 0
    assert AutoContextConfig.agentscope_java().ledger_ratio == 0


def test_what_is_passed_beside_a_preset_wins() -> None:
    assert AutoContextConfig.for_window(16_000, last_keep=3).last_keep == 3
    assert AutoContextConfig.agentscope_java(note_role="user").note_role == "user"
    with pytest.raises(ConfigError, match="last_keep"):
        AutoContextConfig.for_window(16_000, last_keep=-3)
    with pytest.raises(ConfigError, match=r"for_window: window must be at least 500 tokens \(got 499\)"):
        AutoContextConfig.for_window(499)


def test_strategies_are_switches_and_take_one_s_own() -> None:
    own = Quiet()
    config = AutoContextConfig(strategies=("rounds", own, "tool_runs"))
    assert [s.name for s in steps(config)] == ["rounds", "quiet", "tool_runs"]
    assert [s.name for s in steps(AutoContextConfig(strategies=()))] == []
    assert len(steps(AutoContextConfig())) == len(STRATEGIES) + 1


def test_prompts_fall_back_to_their_defaults() -> None:
    own = PromptConfig(tool_run="Be brief.")
    prompts = AutoContextConfig(custom_prompt=own).prompts
    assert prompts.tool_run == "Be brief."
    assert prompts.round_summary == PromptConfig().round_summary
    assert AutoContextConfig().prompts == PromptConfig()


def test_a_prompt_of_another_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(
        ConfigError, match=r"^PromptConfig\.toolRun: no such field; did you mean 'tool_run'\? \(got 'x'\)$"
    ):
        PromptConfig(toolRun="x")  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match=r"^AutoContextConfig\.custom_prompt\.toolRun: .*\(got 'x'\)$"):
        AutoContextConfig(custom_prompt={"toolRun": "x"})  # type: ignore[arg-type]


def test_the_page_on_differences_lists_every_field_that_the_preset_changes() -> None:
    page = (Path(__file__).parents[1] / "docs" / "reference-differences.md").read_text()
    table = page.split("These fields differ:")[1].split("\n\nA value")[0]
    default, preset = AutoContextConfig(), AutoContextConfig.agentscope_java()
    changed = {f for f in AutoContextConfig.model_fields if getattr(default, f) != getattr(preset, f)}
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == changed


def test_the_page_on_the_original_systems_names_what_there_is() -> None:
    """The first name of each cell of its right columns can be imported, or is a method of one of its classes."""
    modules = [importlib.import_module(f"autocontext{m}") for m in ("", ".content", ".cache", ".memories", ".sessions")]
    modules.append(importlib.import_module("autocontext.compat"))
    known = {name for module in modules for name in dir(module)}
    known |= {name for module in modules for c in vars(module).values() if isinstance(c, type) for name in dir(c)}
    known |= {*dir(autocontext.content.SqliteContentStore), *dir(Session)}
    page = (Path(__file__).parents[1] / "docs" / "from-the-originals.md").read_text()
    cells = [line.split("|")[2] for line in page.splitlines() if line.startswith("| ") and "original |" not in line]
    named = [n for cell in cells for n in re.findall(r"`(?:[a-z]+\.)*@?(?:[a-z]+\.)?(\w+)\(", cell)]
    assert len(named) > 40
    assert [n for n in named if n not in known] == []

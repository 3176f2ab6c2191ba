"""The configuration: frozen, checked field by field, the same by keywords and by builder."""

import importlib
import itertools
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import autocontext.content
from autocontext import AutoContextConfig, AutoContextError, AutoContextMemory, PromptConfig
from autocontext.compression.limits import Limits
from autocontext.config import JAVA_NAMES, STRATEGIES, ConfigBuilder
from autocontext.errors import ConfigError
from autocontext.prices import Prices
from autocontext.strategies import View, steps
from autocontext.suite import Session
from autocontext.testing import ScriptedModel, assistant, user

TAG = re.compile(r"<!-- CONTEXT_OFFLOAD: uuid=[0-9a-f-]+ -->")

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
    "note_state": True,
    "recall": False,
    "show_gaps": False,
    "note_role": "user",
    "strategies": STRATEGIES,
    "protected_tools": {"context_reload"},
    "reloaded_share": 1.0,
    "instruction_sources": ("CLAUDE.md", "AGENTS.md", "GEMINI.md", ".cursorrules", "SKILL.md", "skill"),
    "strict_fit": False,
    "model_timeout": 60.0,
    "model_retries": 2,
    "max_parallel_summaries": 16,
    "summary_max_input_tokens": None,
    "background": False,
    "background_ratio": 0.6,
    "user_message_budget": 20_000,
    "max_images": None,
    "max_request_bytes": 4_000_000,
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
OTHER: dict[str, Any] = {
    "msg_threshold": 30, "max_token": 16_000, "token_ratio": 0.9, "last_keep": 10, "min_consecutive_tool_messages": 3,
    "large_payload_threshold": 900, "offload_single_preview": 120, "min_compression_token_threshold": 7,
    "current_round_compression_ratio": 0.5, "keep_unread": False, "protected_tools": frozenset({"read_skill"}),
    "instruction_sources": ("HOUSE.md",), "reloaded_share": 0.5,
    "strategies": ("rounds",), "escalation": "single", "target_ratio": 0.6, "last_resort": False, "strict_fit": True,
    "user_message_budget": 9, "keep_recent": 0.3, "provider_compaction": "instead", "ledger_ratio": 0.2,
    "max_images": 9, "max_request_bytes": 123_456,
    "tool_effects": {"probe": "reads"}, "note_state": False, "recall": True, "show_gaps": True,
    "note_role": "assistant", "note_ratio": 0.2,
    "custom_prompt": PromptConfig(tool_run="Be brief."), "model_timeout": 5.0, "model_retries": 0,
    "max_parallel_summaries": 2, "extractive_fallback": False, "summary_max_input_tokens": 900, "redact": str.strip,
    "prices": Prices(input=3.0, output=15.0), "cache_ttl": 300.0, "steering": True, "show_status": True,
    "search_scope": "user", "background": True, "background_ratio": 0.5, "token_counter": "bytes4",
}  # fmt: skip
"""For each field a value that no configuration below has."""
FIELDS = list(AutoContextConfig.model_fields)
REFERENCE, PRESET = AutoContextConfig, AutoContextConfig.agentscope_java
CONFIGURATIONS: list[Callable[..., AutoContextConfig]] = [
    REFERENCE,
    *(partial(AutoContextConfig.for_window, window) for window in (500, 4_000, 16_000, 128_000)),
    PRESET,
]
NAMES = ["reference", "500", "4k", "16k", "128k", "preset"]


def behaviour(config: AutoContextConfig) -> tuple[Any, ...]:
    """What a pass goes by: its steps in order, and what starts it."""
    return [s.name for s in steps(config)], config.strategies, Limits.of(config), config.min_tokens


@pytest.mark.parametrize("make", CONFIGURATIONS, ids=NAMES)
def test_stating_defaults_changes_nothing(make: Callable[..., AutoContextConfig]) -> None:
    """Alone, in pairs and all together."""
    plain = dict(make())
    for pair in itertools.combinations_with_replacement(FIELDS, 2):
        stated = make(**{field: plain[field] for field in pair})
        assert stated == make(), pair
        assert behaviour(stated) == behaviour(make()), pair
    assert make(**plain) == make()


@pytest.mark.parametrize("make", CONFIGURATIONS, ids=NAMES)
def test_what_is_not_stated_is_the_default_beside_any_two_fields(make: Callable[..., AutoContextConfig]) -> None:
    plain = dict(make())
    for pair in itertools.combinations(FIELDS, 2):
        stated = {field: OTHER[field] for field in pair}
        assert dict(make(**stated)) == plain | stated, pair


@given(st.sampled_from(CONFIGURATIONS), st.sets(st.sampled_from(FIELDS)), st.sets(st.sampled_from(FIELDS)))
def test_stating_defaults_changes_nothing_whatever_else_is_stated(
    make: Callable[..., AutoContextConfig], changed: set[str], stated: set[str]
) -> None:
    others = {field: OTHER[field] for field in changed}
    defaults = {field: value for field, value in dict(make()).items() if field in stated - changed}
    config = make(**others, **defaults)
    assert config == make(**others)
    assert behaviour(config) == behaviour(make(**others))
    assert dict(config) == dict(make()) | others


@given(st.integers(1, 3_000_000), st.sets(st.sampled_from(FIELDS)))
def test_the_five_strategies_run_in_their_order_whatever_is_stated(window: int, changed: set[str]) -> None:
    others = {field: OTHER[field] for field in changed - {"strategies"}}
    config = AutoContextConfig(**others | {"max_token": window})
    assert config.strategies == STRATEGIES
    assert [s.name for s in steps(config)] == [s.name for s in steps(AutoContextConfig())]
    thresholds = ("msg_threshold", "last_keep", "large_payload_threshold", "target_ratio", "ledger_ratio")
    for field in {*thresholds} - changed:
        assert getattr(config, field) == getattr(AutoContextConfig(), field)


@pytest.mark.parametrize("model", [ScriptedModel("In short."), None], ids=["model", "rules"])
def test_a_builder_that_states_the_defaults_makes_the_same_contexts(model: ScriptedModel | None) -> None:
    stated = AutoContextConfig.builder().max_token(128 * 1024).token_ratio(0.75).build()
    passes = []
    for config in (AutoContextConfig(), stated):
        memory = AutoContextMemory(config, model)
        for n in range(50):
            memory.add_messages([user(f"Question {n}, please?"), assistant(f"Answer {n}: " + "as I said, " * 40)])
        report = memory.compress_if_needed()
        passes.append(([s.name for s in report.strategies], [TAG.sub("", m.text) for m in memory.messages]))
    assert passes[0] == passes[1]
    assert passes[0][0][:4] == list(STRATEGIES[:4])


def test_a_copy_with_another_window_keeps_all_other_fields() -> None:
    config = AutoContextConfig.for_window(16_000)
    assert dict(config.model_copy(update={"max_token": 4_000})) == {**dict(config), "max_token": 4_000}


@given(st.sampled_from(CONFIGURATIONS), st.sets(st.sampled_from(FIELDS)))
def test_the_builder_starts_from_any_configuration(make: Callable[..., AutoContextConfig], changed: set[str]) -> None:
    builder = AutoContextConfig.builder(make())
    assert AutoContextConfig.builder(make()).build() == make()
    for field in changed:
        builder = getattr(builder, field)(OTHER[field])
    assert builder.build() == make(**{field: OTHER[field] for field in changed})


def test_the_builder_starts_from_nothing_else() -> None:
    with pytest.raises(ConfigError, match=r"AutoContextConfig\.builder\.config: 16000 .*for_window\(16000\)"):
        AutoContextConfig.builder(16_000)  # type: ignore[arg-type]


@given(st.dictionaries(st.sampled_from(sorted(JAVA_NAMES)), st.booleans(), min_size=1))
def test_the_builder_takes_the_names_of_agentscope_java(names: dict[str, bool]) -> None:
    """`names`: whether each is written as in Java."""
    builder = AutoContextConfig.builder()
    for name, as_in_java in names.items():
        value = OTHER[JAVA_NAMES[name]]
        if name == "compressionTimeoutMillis":
            builder = builder.compressionTimeoutMillis(value * 1000) if as_in_java else builder.model_timeout(value)
        else:
            builder = getattr(builder, name if as_in_java else JAVA_NAMES[name])(value)
    assert builder.build() == AutoContextConfig(**{field: OTHER[field] for field in map(JAVA_NAMES.get, names)})


def test_a_java_name_that_the_reference_does_not_have_is_answered_with_the_field() -> None:
    with pytest.raises(ConfigError, match=r"no field 'keepUnread'; did you mean 'keep_unread'"):
        AutoContextConfig.builder().keepUnread(False)  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match="msg_threshold"):
        AutoContextConfig.builder().msgThreshold(-3).build()
    with pytest.raises(ConfigError, match="model_timeout"):
        AutoContextConfig.builder().compressionTimeoutMillis("soon").build()  # type: ignore[arg-type]


@pytest.mark.parametrize("of", [AutoContextConfig, PromptConfig])
def test_a_java_name_as_a_keyword_is_answered_with_the_field(of: type[AutoContextConfig | PromptConfig]) -> None:
    page = (Path(__file__).parents[1] / "docs" / "from-agentscope-java.md").read_text()
    assert len(of.java_names) > 3
    for name, field in of.java_names.items():
        assert field in of.model_fields
        assert f"`{name}`" in page
        with pytest.raises(ConfigError, match=rf"^{of.__name__}\.{name}: no such field; here it is '{field}'"):
            of(**{name: "x"})


@pytest.mark.parametrize("field", PromptConfig.model_fields)
def test_a_prompt_named_in_camel_case_is_answered_with_the_field(field: str) -> None:
    camel = re.sub("_(.)", lambda m: m[1].upper(), field)
    if camel != field:
        with pytest.raises(ConfigError, match=rf"PromptConfig\.{camel}: no such field; did you mean '{field}'\?"):
            PromptConfig(**{camel: "Short, please."})


def test_a_builder_of_prompts_is_answered_with_the_keywords() -> None:
    with pytest.raises(ConfigError, match=r"write PromptConfig\(.*tool_run= for previousRoundToolCompressPrompt"):
        PromptConfig.builder()  # type: ignore[attr-defined]


@pytest.mark.slow
def test_the_log_says_once_what_a_java_name_is_here() -> None:
    """In a process of its own, as the note comes once in a process."""
    program = (
        "import logging, sys; logging.basicConfig(level=logging.INFO, format='%(name)s %(levelname)s %(message)s')\n"
        "from autocontext import AutoContextConfig\n"
        "for _ in range(2): AutoContextConfig.builder().msgThreshold(30).lastKeep(10).last_keep(9).build()\n"
        "AutoContextConfig.builder().lastKeep(10).tokenRatio(0.5).build()\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True)
    said = "autocontext.config INFO AgentScope-Java's names in a builder"
    assert done.stderr.splitlines() == [
        f"{said}: msgThreshold is msg_threshold, lastKeep is last_keep",
        f"{said}: tokenRatio is token_ratio",
    ]


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
    assert methods.keys() - JAVA_NAMES.keys() == AutoContextConfig.model_fields.keys() <= {*dir(builder)}
    assert methods.keys() >= JAVA_NAMES.keys()
    assert {k: get_args(v)[0][0] for k, v in methods.items()} == {k: fields[JAVA_NAMES.get(k, k)] for k in methods}


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
    shares = {
        2_000: (0.28, 0.298, 0.9),
        4_000: (0.28, 0.22, 0.9),
        8_000: (0.38, 0.162, 0.85),
        16_000: (0.38, 0.12, 0.85),
    }
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


def test_the_page_on_the_original_systems_names_what_there_is() -> None:
    """The first name of each right side of its lists can be imported, or is a method of one of its classes."""
    modules = [importlib.import_module(f"autocontext{m}") for m in ("", ".content", ".cache", ".memories", ".sessions")]
    modules.append(importlib.import_module("autocontext.compat"))
    known = {name for module in modules for name in dir(module)}
    known |= {name for module in modules for c in vars(module).values() if isinstance(c, type) for name in dir(c)}
    known |= {*dir(autocontext.content.SqliteContentStore), *dir(Session)}
    page = (Path(__file__).parents[1] / "docs" / "from-the-originals.md").read_text()
    cells = [line.partition(": ")[2] for line in page.splitlines() if line.startswith("- ")]
    named = [n for cell in cells for n in re.findall(r"`(?:[a-z]+\.)*@?(?:[a-z]+\.)?(\w+)\(", cell)]
    assert len(named) > 40
    assert [n for n in named if n not in known] == []

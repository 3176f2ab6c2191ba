# ruff: noqa: N815 (the methods of the builder of AgentScope-Java)
"""Configuration: one frozen value, its builder, and the presets.

Names and defaults are AgentScope-Java's AutoContextConfig in snake_case, where it has the field.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from math import log2
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, TypeVar

from pydantic import ConfigDict, Field, model_validator

from autocontext.errors import ConfigError, did_you_mean, short
from autocontext.messages import Value
from autocontext.prices import Prices
from autocontext.prompts import PromptConfig

_SMALLEST_WINDOW = 500
"""Tokens; in smaller windows the marks and tags of notes take more than they save."""
_FILLED, _FILLED_SMALL = 0.85, 0.90
"""`target_ratio` of the three distances, from 8,000 tokens on and up to 4,000: what a pass leaves of the window. More
room for the next steps would be taken from what they need to know."""
_SMALL_WINDOW = 4_000
"""Tokens; from here to twice as many the near part grows."""
_LONGEST_NUMBER = 20
"""Characters of a window given as text."""
_RELOADED = 0.25
"""Share of the window for reloaded pages: four reloads in a row would otherwise leave no room for the work."""
_IMAGES = 5
"""Images in a request: enough to see what changed."""
_REQUEST, _BYTES_OF_TOKEN = 4_000_000, 8
"""Bytes of a request, and in windows that hold more text, bytes for each token: twice what texts take."""
_NO_LIMIT = 2**31 - 1
"""Tokens."""
STRATEGIES = ("tool_runs", "large_messages_protected", "large_messages", "rounds", "current_round")
"""Names of the reference's strategies, in the order in which they are tried: the default."""
READ_ONCE, SHORTEN = "read_once", "shorten"
"""Names of the strategies that call no model and are tried first; the only ones in `for_window`."""
INSTRUCTION_SOURCES = ("CLAUDE.md", "AGENTS.md", "GEMINI.md", ".cursorrules", "SKILL.md", "skill")
"""Files with instructions for coding agents, and the word in the names of tools that load a skill."""
JAVA_NAMES = {
    "msgThreshold": "msg_threshold",
    "maxToken": "max_token",
    "tokenRatio": "token_ratio",
    "lastKeep": "last_keep",
    "minConsecutiveToolMessages": "min_consecutive_tool_messages",
    "largePayloadThreshold": "large_payload_threshold",
    "offloadSinglePreview": "offload_single_preview",
    "minCompressionTokenThreshold": "min_compression_token_threshold",
    "currentRoundCompressionRatio": "current_round_compression_ratio",
    "customPrompt": "custom_prompt",
    "compressionTimeoutMillis": "model_timeout",
}
"""Methods of AgentScope-Java's builder, with the field that each sets; its time is in milliseconds."""
_MILLISECONDS = "compressionTimeoutMillis"
_log = logging.getLogger(__name__)
_told: set[str] = set()
"""Java names that the log has named."""


class AutoContextConfig(Value):
    """When to compress, how far, and with what. Raises ConfigError naming the field and its range.

    AgentScope-Java's defaults and its five strategies in their order, whatever else is stated; further fields say how a
    pass goes on until the context fits. For settings that go by the size of your model's window: `for_window`.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)
    error_type = ConfigError
    java_names = JAVA_NAMES

    # --- when
    msg_threshold: int = Field(default=100, ge=0)
    """Number of messages that triggers a pass."""
    max_token: int = Field(default=128 * 1024, ge=1)
    """The model's window, in tokens."""
    token_ratio: float = Field(default=0.75, gt=0, le=1)
    """Share of `max_token` that triggers a pass."""

    # --- what
    strategies: tuple[Any, ...] = STRATEGIES
    """Names of built-in strategies, or own ones (anything with `name` and `propose(view)`), in order."""
    protected_tools: frozenset[str] = frozenset({"context_reload"})
    """Tools whose calls and results are not compressed; those of `context_reload` only until the user writes again."""
    reloaded_share: float = Field(default=1.0, gt=0, le=1)
    """Most of `max_token` that `shorten` leaves to reloaded pages once the model has answered; the oldest get a short
    form, with the number they came from if it was one. 1.0: they stay until the user writes again."""
    instruction_sources: tuple[str, ...] = INSTRUCTION_SOURCES
    """Files with instructions for the agent (a name, or a pattern such as ".cursor/rules/*.mdc") and words of the names
    of tools that load some: the newest result of reading each stays in view unshortened, up to a tenth of `max_token`
    altogether. So does that of a file which the system text names, until a call has changed it. () for none."""
    large_payload_threshold: int = Field(default=5 * 1024, ge=1)
    """Characters; a text longer than this is large: for strategies 2, 3 and 5, and for `Session.call_tool`."""

    # --- the five strategies
    last_keep: int = Field(default=50, ge=0)
    """Newest messages that strategies 1 and 2 leave alone."""
    min_consecutive_tool_messages: int = Field(default=6, ge=1)
    """Strategy 1 takes tool runs longer than this many messages."""
    offload_single_preview: int = Field(default=200, ge=1)
    """Characters of a large text that strategies 2 and 3 keep in view."""
    min_compression_token_threshold: int | None = Field(default=None, ge=0)
    """Strategies 1 and 4 ask no model about spans of fewer tokens, until nothing else helps; None means
    min(5000, max_token // 25). With escalation="single" and last_resort=False, such spans always stay."""
    current_round_compression_ratio: float = Field(default=0.3, gt=0, le=1)
    """Size of strategy 5's summary as a share of what it replaces."""
    keep_unread: bool = True
    """Strategy 5 leaves tool results that the model has not answered yet, and a final reply that the user has not."""

    # --- how far
    escalation: Literal["until_fit", "single"] = "until_fit"
    """Go on to the next strategy until the target is met, or stop after the first that did something."""
    target_ratio: float = Field(default=0.8, gt=0, le=1)
    """With until_fit: continue until under this share of both triggers, a little more where much of the view stays."""

    last_resort: bool = True
    """With until_fit: if the strategies miss the target, the oldest part becomes one note; while the view is over
    `max_token`, texts are cut without a model."""
    strict_fit: bool = False
    """Raise ContextOverflowError if the view cannot be made to fit, instead of returning it as small as possible."""
    user_message_budget: int = Field(default=20_000, ge=0)
    """Most tokens of the user's own words in a note, within the size of the note."""

    keep_recent: float = Field(default=0.0, ge=0, lt=1)
    """Share of `max_token`: the strategies leave the newest messages of this size alone while the view can fit."""

    provider_compaction: Literal["keep", "instead"] = "keep"
    """What a provider has compacted itself (Claude's `compaction` blocks, OpenAI's encrypted items): "keep" sends its
    block in the place of what stands before it; "instead" leaves the block out, and the passes compress."""

    # --- images and bytes
    max_images: int | None = Field(default=None, ge=0)
    """Most images in a request: where there are more, a pass puts lines in the place of older ones until half of this
    number is left. Images that the model has not answered yet stay. 0 for none at all, None for no limit."""
    max_request_bytes: int | None = Field(default=4_000_000, ge=1)
    """Most bytes of the messages of a request: where there are more, older images and files give way until half of what
    the texts leave is free, and images that the model has not answered yet, if nothing else helps. None for no limit.
    """

    # --- notes
    ledger_ratio: float = Field(default=0.10, ge=0, le=0.5)
    """Share of `max_token` for work ledgers: what was said and called in the messages that a note replaces, and what
    came back, quoted by rules. 0: a twentieth in folds, else none."""
    tool_effects: Mapping[str, Literal["reads", "changes", "runs"]] | None = None
    """Which of your own tools only look, by name or by a word of their names: {"probe": "reads", "lock": "changes"}. It
    chooses the part of a note that has their calls; built-in rules know the usual names (read, get, search ...)."""
    note_state: bool = True
    """Notes say where the agent is (folder, branch, environment, host, database, page), and what it has started of
    which no end was seen."""
    recall: bool = False
    """When a new message of the user names an id, a path, a number or a name that only originals out of view have, at
    most five lines with it come right before that message, in a note of at most three percent of `max_token`."""
    show_gaps: bool = False
    """Before a message of the user that comes more than an hour after the message before it, one line says how much
    later, and when; within one request it stands after the results. So do notes, which also say until when they reach.
    By the messages' own times, in UTC."""
    note_role: Literal["user", "assistant"] = "user"
    """Role of the notes; those of strategy 4 are the assistant's."""
    note_ratio: float = Field(default=0.125, gt=0, le=0.5)
    """Most tokens to ask a model for in a note, as a share of `max_token`; in a fold 0.06 at most."""
    custom_prompt: PromptConfig | None = None
    """Your own prompts; unset fields keep their defaults."""

    # --- the model
    model_timeout: float = Field(default=60.0, gt=0)
    """Seconds for one call of the summarising model."""
    model_retries: int = Field(default=2, ge=0)
    """Further attempts after a failed call or an unusable reply."""
    max_parallel_summaries: int = Field(default=16, ge=1)
    """Most concurrent calls of the model."""
    extractive_fallback: bool = True
    """If the model gives no usable answer, write the note without it; False leaves the messages unchanged."""

    summary_max_input_tokens: int | None = Field(default=None, ge=100)
    """Tokens of transcript in one request; more is summarised in chunks. None means half of `max_token`."""
    redact: Callable[[str], str] | None = None
    """Applied to every text that a pass reads, sends to the model, gets from it or writes into the view, e.g.
    `redaction.redact_secrets`; the originals do not change, nor do messages that no pass has written."""

    # --- what it costs
    prices: Prices | None = None
    """What a million tokens cost: `Prices(input=3.0, cached_input=0.3, cache_write=3.75, output=15.0)` or the same as a
    dict. Passes then also run below the triggers, as soon as they pay; fills the costs in reports."""
    cache_ttl: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Seconds after a request until the provider's prompt cache expires. A pass then costs nothing extra, and runs at
    the next request or in `compress_if_idle`. None: unknown."""

    # --- the agent's own tools
    steering: bool = False
    """Adapters, loop and MCP server give the agent all of `memory.tools()`, and not only `context_reload`."""
    show_status: bool = False
    """The last message of each request is one line about the room in the context; it is not stored."""
    search_scope: Literal["session", "user"] = "session"
    """What the agent may search: this conversation, or all of its user's."""

    # --- in the background
    background: bool = False
    """Start passes early, beside the conversation: a turn waits only when the view is over `max_token`.

    Closing the database gives up its pass: keep it open between requests.
    """
    background_ratio: float = Field(default=0.6, gt=0, le=1)
    """Share of `max_token` (and of `msg_threshold`, in the same proportion to `token_ratio`) that starts one."""

    # --- counting
    token_counter: Any = "auto"
    """"auto" (from the model's name), a vocabulary's or model's name, or a TokenCounter."""

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with other values for some fields, checked like those of a new configuration."""
        if not update:
            return super().model_copy(deep=deep)
        return type(self)(**{**dict(self), **update})

    @model_validator(mode="after")
    def _fields_agree(self) -> Self:
        if self.msg_threshold < 1 and self.escalation != "single":
            raise ValueError(
                "msg_threshold must be at least 1 (0, a pass at every turn, only with escalation='single')"
            )
        if self.offload_single_preview >= self.large_payload_threshold:
            raise ValueError(
                f"offload_single_preview ({self.offload_single_preview}) must be below "
                f"large_payload_threshold ({self.large_payload_threshold})"
            )
        known = READ_ONCE, SHORTEN, *STRATEGIES
        for strategy in self.strategies:
            name, propose = getattr(strategy, "name", None), getattr(strategy, "propose", None)
            if isinstance(strategy, type):
                raise ValueError(f"strategies: {strategy.__name__} is a class; write {strategy.__name__}()")
            if isinstance(strategy, str) and strategy not in known:
                raise ValueError(f"strategies: unknown name {strategy!r}; use {', '.join(known)} or an object")
            if not (isinstance(strategy, str) or (isinstance(name, str) and callable(propose))):
                raise ValueError(f"strategies: {strategy!r} needs a text `name` and a method `propose(view)`")
        names = [strategy for strategy in self.strategies if isinstance(strategy, str)]
        if len(set(names)) != len(names):
            raise ValueError(f"strategies: {names} has a name twice")
        return self

    @property
    def min_tokens(self) -> int:
        """`min_compression_token_threshold`, or its default for this window."""
        if self.min_compression_token_threshold is not None:
            return self.min_compression_token_threshold
        return min(5000, self.max_token // 25)

    @property
    def token_trigger(self) -> int:
        """Tokens at which a pass starts."""
        return int(self.max_token * self.token_ratio)

    @property
    def prompts(self) -> PromptConfig:
        """The prompts in force."""
        return self.custom_prompt or PromptConfig()

    @classmethod
    def builder(cls, config: AutoContextConfig | None = None) -> ConfigBuilder:
        """Start a configuration in builder style: one method per field, then `build()`.

        It starts from the defaults, or from another configuration, such as a preset:

            AutoContextConfig.builder(AutoContextConfig.for_window(100_000)).last_resort(False).build()
        """
        return ConfigBuilder(config)

    @classmethod
    def for_window(cls, window: int | str, **fields: Any) -> Self:
        """Recommended settings for requests of at most `window` tokens (16_000 or "16k"); `fields` override them.

        `window` is the model's context window less the room for its reply, at least 500. A late trigger, and three
        distances after a pass: the newest messages unchanged, before them rounds with long results and arguments in
        short (`shorten`), before those one note that quotes what was said, done and answered. `keep_recent`,
        `ledger_ratio` and `target_ratio` are their shares.

            AutoContextConfig.for_window(100_000, last_resort=False)
        """
        return cls(**{**_by_window(parse_window(window)), **fields})

    def resized(self, window: int | str) -> Self:
        """These settings for another window, of at least 500 tokens; where `for_window` made them, with its shares.

        What differs from `for_window` stays as it is.
        """
        now, then = _by_window(self.max_token, least=1), _by_window(parse_window(window))
        if self.strategies != now["strategies"]:
            return self.model_copy(update={"max_token": then["max_token"]})
        return self.model_copy(update={name: then[name] for name in then if getattr(self, name) == now[name]})

    @classmethod
    def agentscope_java(cls, **fields: Any) -> Self:
        """Settings comparable with AgentScope-Java 1.x: one strategy a pass, its estimate, its roles."""
        reference: dict[str, Any] = {
            "escalation": "single",
            "keep_unread": False,
            "note_role": "assistant",
            "target_ratio": 1.0,
            "last_resort": False,
            "instruction_sources": (),
            "ledger_ratio": 0.0,
            "max_request_bytes": None,
            "min_compression_token_threshold": 5000,
            "extractive_fallback": False,
            "summary_max_input_tokens": _NO_LIMIT,
            "token_counter": "agentscope_java",
        }
        return cls(**{**reference, **fields})


def _by_window(window: int, *, least: int = _SMALLEST_WINDOW) -> dict[str, Any]:
    """The settings that go by the size of the window, in tokens. Raises ConfigError for one that is too small."""
    if window < least:
        raise ConfigError(f"AutoContextConfig.for_window: window must be at least {least} tokens (got {window})")
    return {
        "max_token": window,
        "msg_threshold": max(100, window // 4),  # so many that the token trigger is reached first
        "token_ratio": 0.98,
        "target_ratio": _filled(window),
        "strategies": (READ_ONCE, SHORTEN),
        "reloaded_share": _RELOADED,
        "recall": True,
        "show_gaps": True,
        "keep_recent": _near_share(window),
        "ledger_ratio": _note_share(window),
        "max_images": _IMAGES,
        "max_request_bytes": max(_REQUEST, window * _BYTES_OF_TOKEN),
    }


def _filled(window: int) -> float:
    """What a pass leaves of a window: 0.9 at 4,000 tokens, 0.85 from 8,000 on."""
    return round(max(_FILLED, min(_FILLED_SMALL, _FILLED_SMALL - 0.05 * log2(window / _SMALL_WINDOW))), 3)


def _near_share(window: int) -> float:
    """Share of a window for the newest messages, unchanged: 0.28 at 4,000 tokens, 0.38 from 8,000 on."""
    return round(0.28 + 0.10 * min(1.0, max(0, window - _SMALL_WINDOW) / _SMALL_WINDOW), 3)


def _note_share(window: int) -> float:
    """Most of a window for the notes: 0.22 at 4,000 tokens, 0.162 at 8,000, 0.12 at 16,000, 0.10 from 24,000 on."""
    share: float = 0.22 * (_SMALL_WINDOW / window) ** 0.44
    return round(min(0.4, max(0.1, share)), 3)


def parse_window(window: int | str) -> int:
    """A number of tokens: 16000, "16000", "16_000" or "16k". Raises ConfigError for anything else."""
    if isinstance(window, str) and len(window) <= _LONGEST_NUMBER:
        match = re.fullmatch(r"(\d[\d_,]*)(k?)", window.strip().lower())
        if match is not None:
            return int(re.sub("[_,]", "", match[1])) * (1000 if match[2] else 1)
    if isinstance(window, bool) or not isinstance(window, int):
        raise ConfigError(f"AutoContextConfig.for_window: {window!r} is not a number of tokens; write 16000 or 16k")
    return window


def as_config(config: AutoContextConfig | None, owner: str) -> AutoContextConfig:
    """The configuration, by default AutoContextConfig(). Raises ConfigError for anything else, naming the `owner`."""
    if config is None:
        return AutoContextConfig()
    if isinstance(config, AutoContextConfig):
        return config
    right = {int: "AutoContextConfig.for_window({!r})", dict: "AutoContextConfig(**{!r})"}.get(type(config), "")
    raise ConfigError(
        f"{owner}.config: {short(config)} is not an AutoContextConfig"
        + (f"; write {right.format(config)}" if right else "")
    )


def config_of(
    place: str, window: int | str | None, config: AutoContextConfig | None, own: AutoContextConfig | None = None
) -> AutoContextConfig | None:
    """The configuration that the arguments of `open` mean, of a child with its parent's `own`.

    Raises ConfigError for both or a wrong window.
    """
    if window is None:
        return own if config is None else config
    if config is not None:
        raise ConfigError(f"{place}: pass window or config, not both; a config has its max_token")
    return AutoContextConfig.for_window(window) if own is None else own.resized(window)


_T = TypeVar("_T")
_Setter: TypeAlias = Callable[[_T], "ConfigBuilder"]


class ConfigBuilder:
    """Builds an AutoContextConfig field by field: `builder().msg_threshold(30).last_keep(10).build()`.

    It also takes the names of AgentScope-Java's builder, `msgThreshold(30)`, and says in the log which fields they are.
    """

    # A method for each field, for type checkers and editors; __getattr__ makes them.
    msg_threshold: _Setter[int]
    max_token: _Setter[int]
    token_ratio: _Setter[float]
    last_keep: _Setter[int]
    min_consecutive_tool_messages: _Setter[int]
    large_payload_threshold: _Setter[int]
    offload_single_preview: _Setter[int]
    min_compression_token_threshold: _Setter[int | None]
    current_round_compression_ratio: _Setter[float]
    keep_unread: _Setter[bool]
    protected_tools: _Setter[frozenset[str]]
    reloaded_share: _Setter[float]
    instruction_sources: _Setter[tuple[str, ...]]
    strategies: _Setter[tuple[Any, ...]]
    escalation: _Setter[Literal["until_fit", "single"]]
    target_ratio: _Setter[float]
    last_resort: _Setter[bool]
    strict_fit: _Setter[bool]
    user_message_budget: _Setter[int]
    keep_recent: _Setter[float]
    provider_compaction: _Setter[Literal["keep", "instead"]]
    max_images: _Setter[int | None]
    max_request_bytes: _Setter[int | None]
    ledger_ratio: _Setter[float]
    tool_effects: _Setter[Mapping[str, Literal["reads", "changes", "runs"]] | None]
    note_state: _Setter[bool]
    recall: _Setter[bool]
    show_gaps: _Setter[bool]
    note_role: _Setter[Literal["user", "assistant"]]
    note_ratio: _Setter[float]
    custom_prompt: _Setter[PromptConfig | None]
    model_timeout: _Setter[float]
    model_retries: _Setter[int]
    max_parallel_summaries: _Setter[int]
    extractive_fallback: _Setter[bool]
    summary_max_input_tokens: _Setter[int | None]
    redact: _Setter[Callable[[str], str] | None]
    prices: _Setter[Prices | None]
    cache_ttl: _Setter[float | None]
    steering: _Setter[bool]
    show_status: _Setter[bool]
    search_scope: _Setter[Literal["session", "user"]]
    background: _Setter[bool]
    background_ratio: _Setter[float]
    token_counter: _Setter[Any]

    # The methods of AgentScope-Java's builder.
    msgThreshold: _Setter[int]
    maxToken: _Setter[int]
    tokenRatio: _Setter[float]
    lastKeep: _Setter[int]
    minConsecutiveToolMessages: _Setter[int]
    largePayloadThreshold: _Setter[int]
    offloadSinglePreview: _Setter[int]
    minCompressionTokenThreshold: _Setter[int | None]
    currentRoundCompressionRatio: _Setter[float]
    customPrompt: _Setter[PromptConfig | None]
    compressionTimeoutMillis: _Setter[float]

    def __init__(self, config: AutoContextConfig | None = None) -> None:
        self._fields = dict(as_config(config, "AutoContextConfig.builder"))
        self._java: list[str] = []

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *AutoContextConfig.model_fields]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[[Any], ConfigBuilder]:
            known, field = AutoContextConfig.model_fields, JAVA_NAMES.get(name, name)
            if field not in known:
                raise ConfigError(f"AutoContextConfig has no field {name!r}; {did_you_mean(name, known)}")

            def set_field(value: Any) -> ConfigBuilder:
                if name in JAVA_NAMES:
                    self._java.append(name)
                    value = _seconds(value) if name == _MILLISECONDS else value
                self._fields[field] = value
                return self

            return set_field

    def build(self) -> AutoContextConfig:
        """The configuration. Raises ConfigError naming the field and its range."""
        config = AutoContextConfig(**self._fields)
        if new := [name for name in dict.fromkeys(self._java) if name not in _told]:
            _told.update(new)
            _log.info("AgentScope-Java's names in a builder: %s", ", ".join(f"{n} is {JAVA_NAMES[n]}" for n in new))
        return config


def _seconds(milliseconds: Any) -> Any:
    """A time of AgentScope-Java; what is no number is refused by the field."""
    return milliseconds / 1000 if isinstance(milliseconds, int | float) else milliseconds

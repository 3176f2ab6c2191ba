"""What a compression records: one event per edit in the log, one report per pass."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import Field

from autocontext.messages import JsonObject, Value
from autocontext.requests import Summed, Usage

TOOL_INVOCATION_COMPRESS = "TOOL_INVOCATION_COMPRESS"
LARGE_MESSAGE_OFFLOAD_WITH_PROTECTION = "LARGE_MESSAGE_OFFLOAD_WITH_PROTECTION"
LARGE_MESSAGE_OFFLOAD = "LARGE_MESSAGE_OFFLOAD"
PREVIOUS_ROUND_CONVERSATION_SUMMARY = "PREVIOUS_ROUND_CONVERSATION_SUMMARY"
CURRENT_ROUND_LARGE_MESSAGE_SUMMARY = "CURRENT_ROUND_LARGE_MESSAGE_SUMMARY"
CURRENT_ROUND_MESSAGE_COMPRESS = "CURRENT_ROUND_MESSAGE_COMPRESS"
READ_ONCE = "READ_ONCE"
SHORTENED = "SHORTENED"
IMAGES_LEFT_OUT = "IMAGES_LEFT_OUT"
PROVIDER_COMPACTION = "PROVIDER_COMPACTION"
PROVIDER_COMPACTION_LEFT_OUT = "PROVIDER_COMPACTION_LEFT_OUT"
RECALLED = "RECALLED"


class CompressionEvent(Value):
    """One edit of the working memory, as the reference records it."""

    event_type: str
    timestamp: int
    """Milliseconds since 1970."""
    compressed_message_count: int
    previous_message_id: str | None = None
    """The message before the replaced ones; None at the start."""
    next_message_id: str | None = None
    """The message after them; None at the end."""
    compressed_message_id: str | None = None
    """The message that replaces them."""
    metadata: JsonObject = Field(default_factory=dict)
    """inputToken, outputToken, time (seconds) of the model calls; tokenBefore and tokenAfter of the messages; window,
    that of the memory in tokens; the uuid of the offload entry where no message replaces them."""
    token_reduction: int = 0
    """tokenBefore - tokenAfter; below zero where a fold's note was written anew because its pass left room."""


class StrategyReport(Value):
    """What one strategy did in a pass."""

    name: str
    applied: bool
    reason: str
    """Why it did nothing, or what it replaced."""
    tokens_saved: int = 0


class RefusedEdit(Value):
    """An edit that the gate refused."""

    strategy: str
    reason: str
    ids: tuple[str, ...]


Outcome: TypeAlias = Literal["not_needed", "applied", "partly", "impossible", "failed", "busy"]


class CompressionReport(Value):
    """What a pass did; true if it compressed something."""

    outcome: Outcome
    """not_needed: no trigger reached; applied: compressed, and the target met; partly: under `max_token` but not under
    the target; impossible: still over `max_token`; failed: the model gave no answer and nothing changed; busy: another
    pass or process was running."""
    reason: str = ""
    tokens_before: int = 0
    """Like all tokens here by the memory's own counter, also where `record_usage` has told that the provider's count is
    another."""
    tokens_after: int = 0
    messages_before: int = 0
    messages_after: int = 0
    strategies: tuple[StrategyReport, ...] = ()
    """One entry per strategy tried, in order."""
    model_calls: int = 0
    fallbacks: int = 0
    """Notes written without the model because it gave no usable answer."""
    usage: Usage = Field(default_factory=Usage)
    """Sum over the model calls; `seconds` adds up calls that ran at the same time."""
    cost: float | None = None
    """Cost of the model calls by `AutoContextConfig.prices`; None without prices."""
    refused: tuple[RefusedEdit, ...] = ()
    receipt: str = ""
    """What left the view, in one line, with the numbers of the messages; "" if nothing did."""
    first_changed: int | None = None
    """Index of the first message that the pass changed; None if it changed nothing."""
    prefix_tokens_invalidated: int = 0
    """Tokens from there on before the pass, which a provider's prompt cache loses."""
    tokens_uncached: int = 0
    """Tokens of the view after the pass that the provider has not cached for the next request."""
    break_even_turn: int | None = None
    """Model calls after the next one until the pass has paid for itself; 0: at once; None: never, or it changed
    nothing. By `AutoContextConfig.prices`; without them cached input counts a tenth, other input 1.25 times."""
    extra_cost: float | None = None
    """What the next model call's input costs more because of the pass, with `cost`; below 0: less. None without
    prices."""
    saved_per_turn: float | None = None
    """What each later model call's input costs less. None without prices."""

    @property
    def tokens_saved(self) -> int:
        """Tokens that each later model call has fewer; at least 0."""
        return max(0, self.tokens_before - self.tokens_after)

    def __bool__(self) -> bool:
        return any(s.applied for s in self.strategies)


class Health(Value):
    """How the summarising model and the store of a memory do, as far as this process has seen."""

    model: str = ""
    """The summarising model's name; "" if rules alone write the notes."""
    answered: int = 0
    """Questions that the model has answered since the memory was opened."""
    failed: int = 0
    """Questions without a usable answer, after all retries."""
    last_failure: str = ""
    """What was wrong with the last of these."""
    failing: bool = False
    """Whether the last question had no usable answer: what rules write is all that notes have."""
    store: Literal["none", "in step", "behind"] = "none"
    """behind: the store could not be read after an interrupt; the next write tries again, and says why if it fails."""


class UsageTotals(Value):
    """Totals over all passes of a memory since it was opened."""

    passes: int = 0
    model_calls: int = 0
    fallbacks: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    cost: float | None = None
    """In the currency of the configured prices; None without them."""
    tokens_saved: int = 0

    def __add__(self, report: CompressionReport) -> UsageTotals:
        return UsageTotals(
            passes=self.passes + 1,
            model_calls=self.model_calls + report.model_calls,
            fallbacks=self.fallbacks + report.fallbacks,
            input_tokens=self.input_tokens + report.usage.input_tokens,
            output_tokens=self.output_tokens + report.usage.output_tokens,
            seconds=self.seconds + report.usage.seconds,
            cost=self.cost if report.cost is None else (self.cost or 0.0) + report.cost,
            tokens_saved=self.tokens_saved + report.tokens_saved,
        )


class CallCounts(Summed):
    """Tool calls, and how many of them were made before or read what was read before."""

    calls: int = 0
    repeated: int = 0
    """Calls of a tool with the arguments of an earlier call of it."""
    reread: int = 0
    """Calls that read what an earlier call of the tool had read, or another part of it, and all reloads."""
    reloads: int = 0
    """Of `reread`, uses of `context_reload`."""


class Repeats(Value):
    """Whether an agent repeats itself more after its passes than before them; each call counts at most once."""

    before: CallCounts = Field(default_factory=CallCounts)
    """The last ten calls before each pass, without those that are near after an earlier one."""
    after: CallCounts = Field(default_factory=CallCounts)
    """The first ten calls after each pass, up to the next one."""

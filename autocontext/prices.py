"""What a model's tokens cost."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from autocontext.errors import ConfigError
from autocontext.messages import Value
from autocontext.requests import Usage

_MILLION = 1_000_000
CACHED_SHARE, WRITE_SHARE = 0.1, 1.25
"""Cached input and writing to the cache, as shares of plain input, where a price list does not name them."""


class Prices(Value):
    """Prices of a million tokens, in any currency: those of the model that reads the context.

        Prices(input=3.0, cached_input=0.3, cache_write=3.75, output=15.0)

    If the provider does not charge for writing to its cache, `cache_write` is `input`; if it has no cache, both
    `cached_input` and `cache_write` are `input`. Raises ConfigError naming the field.
    """

    error_type = ConfigError

    input: float = Field(ge=0, allow_inf_nan=False)
    """Plain input."""
    cached_input: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Input that the provider has cached; None means a tenth of `input`. At most `input`."""
    cache_write: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Input that is not cached yet; None means 1.25 times `input`."""
    output: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Output."""
    summary_input: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Input of the summarising model; None means `input`: it is the same model."""
    summary_output: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Output of the summarising model; None means `output`."""

    @model_validator(mode="after")
    def _cache_is_no_dearer(self) -> Self:
        if self.cached_input is not None and self.cached_input > self.input:
            raise ValueError(
                f"cached_input ({self.cached_input:g}) must not be above input ({self.input:g}); without a cache they "
                "are the same"
            )
        return self

    @property
    def reading(self) -> float:
        """Price of a cached token of input, in millionths."""
        return self.input * CACHED_SHARE if self.cached_input is None else self.cached_input

    @property
    def writing(self) -> float:
        """Price of a token of input that is not cached, in millionths."""
        return self.input * WRITE_SHARE if self.cache_write is None else self.cache_write

    def request(self, cached: int, fresh: int) -> float:
        """The price of one request's input: `cached` tokens from the provider's cache and `fresh` ones."""
        return (cached * self.reading + fresh * self.writing) / _MILLION

    def summaries(self, used: Usage) -> float:
        """The price of calls of the summarising model."""
        price_in = self.input if self.summary_input is None else self.summary_input
        price_out = self.output if self.summary_output is None else self.summary_output
        return (used.input_tokens * price_in + used.output_tokens * price_out) / _MILLION


RATIOS = Prices.model_construct(input=1.0)
"""Used where no prices are configured: cached input costs a tenth of plain input, writing to the cache 1.25 times."""

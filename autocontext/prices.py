"""What a model's tokens cost."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from autocontext.errors import ConfigError, one_line
from autocontext.requests import Usage

_MILLION = 1_000_000
CACHED_SHARE, WRITE_SHARE = 0.1, 1.25
"""Cached input and writing to the cache, as shares of plain input, where a price list does not name them."""


class Prices(BaseModel):
    """Prices of a million tokens, in any currency: those of the model that reads the context.

        Prices(input=3.0, cached_input=0.3, cache_write=3.75, output=15.0)

    If the provider does not charge for writing to its cache, `cache_write` is `input`; if it has no cache, both
    `cached_input` and `cache_write` are `input`. Raises ConfigError naming the field.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

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

    def __init__(self, **data: Any) -> None:
        try:
            super().__init__(**data)
        except ValidationError as e:
            raise ConfigError(one_line("Prices", e.errors(include_url=False), type(self).model_fields)) from None

    # As in Value: in a configuration the error names both the field there and the price.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

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
        """The input of one request, of which so many tokens are cached and so many not."""
        return (cached * self.reading + fresh * self.writing) / _MILLION

    def summaries(self, used: Usage) -> float:
        """Calls of the summarising model."""
        price_in = self.input if self.summary_input is None else self.summary_input
        price_out = self.output if self.summary_output is None else self.summary_output
        return (used.input_tokens * price_in + used.output_tokens * price_out) / _MILLION


RATIOS = Prices.model_construct(input=1.0)
"""What is reckoned with where no prices are configured: cached input a tenth of plain input, writing 1.25 times."""

"""The model that an argument stands for: an object as it is, a name as its provider's model."""

from __future__ import annotations

import os
import re
from typing import Literal

from autocontext import models
from autocontext.errors import ConfigError, did_you_mean, short
from autocontext.models import AsyncChatModel, ChatModel

_QWEN = ("qwen", "qwq", "qvq")
"""How the names of DashScope's own models begin."""
_OPENAI = re.compile(r"ft:|(?:gpt|chatgpt|codex|o\d)(?:[-.]|$)|computer-use|davinci|babbage")
"""How those of OpenAI's begin."""
_NAMES = ("gpt-4.1-mini", "gpt-4.1", "gpt-4o", "gpt-4o-mini", "gpt-5", "gpt-5-mini", "o3", "o4-mini", "qwen-plus")
"""For the nearest one to a misspelt name."""


def open_model(model: ChatModel | AsyncChatModel | str | None, owner: str) -> ChatModel | AsyncChatModel | None:
    """The model by its name ("gpt-4.1-mini", "qwen-plus"), or the object itself; None for None.

    A name that is neither OpenAI's nor DashScope's is refused, unless OPENAI_BASE_URL names another service.

    Raises ConfigError naming the `owner`, MissingExtraError without the provider's extra.
    """
    if not isinstance(model, str):
        return checked_model(model, owner)
    if not model.strip():
        raise ConfigError(f'{owner}.model: "" names no model; leave it out for notes by rule')
    if service := service_of(model):
        return models.OpenAIChatModel(model) if service == "openai" else models.DashScopeChatModel(model)
    ways = f"OpenAIChatModel({model!r}, base_url=...) for a service that speaks OpenAI's API, or CallableModel(...)"
    raise ConfigError(f"{owner}.model: {unknown_model(model, f'pass {ways}')}")


def service_of(model: str) -> Literal["openai", "dashscope", ""]:
    """The service that has a model of this name; "" for neither. OPENAI_BASE_URL may have models of any name."""
    if model.lower().startswith(_QWEN):
        return "dashscope"
    return "openai" if os.environ.get("OPENAI_BASE_URL") or _OPENAI.match(model.lower()) else ""


def unknown_model(model: str, way_out: str) -> str:
    """Why no service is known for this name, in words, with the nearest one and the way out."""
    meant = did_you_mean(model, _NAMES, otherwise="")
    meant = f"{meant} Otherwise" if meant else "for any other"
    return f"{model!r} is no name of a model of OpenAI or DashScope; {meant} {way_out}"


def checked_model(
    model: ChatModel | AsyncChatModel | None, owner: str, *, opens: bool = True
) -> ChatModel | AsyncChatModel | None:
    """The model, if it has a method `complete` or `acomplete`. Raises ConfigError naming the `owner` otherwise.

    `opens`: the owner has a method `open` that takes a model's name.
    """
    if model is None or any(callable(getattr(model, name, None)) for name in ("complete", "acomplete")):
        return model
    if isinstance(model, str):
        hint = f"write OpenAIChatModel({model!r})" + (f", or {owner}.open(..., model={model!r})" if opens else "")
    elif callable(model):
        hint = "write CallableModel(...) around a function"
    else:
        hint = "a model has a method `complete` or `acomplete`; see autocontext.models"
    raise ConfigError(f"{owner}.model: {short(model)} is not a model; {hint}")

"""The model that an argument stands for: an object as it is, a name as its provider's model."""

from __future__ import annotations

from autocontext.errors import ConfigError, short
from autocontext.models import AsyncChatModel, ChatModel

_QWEN = ("qwen", "qwq", "qvq")
"""How the names of DashScope's own models begin."""


def open_model(model: ChatModel | AsyncChatModel | str | None, owner: str) -> ChatModel | AsyncChatModel | None:
    """The model by its name ("gpt-4.1-mini", "qwen-plus"), or the object itself; None for None.

    Raises ConfigError naming the `owner`, MissingExtraError without the provider's extra.
    """
    if not isinstance(model, str):
        return checked_model(model, owner)
    if not model.strip():
        raise ConfigError(f'{owner}.model: "" names no model; leave it out for notes by rule')
    if model.lower().startswith(_QWEN):
        from autocontext.models.dashscope import DashScopeChatModel  # noqa: PLC0415 (needs an extra)

        return DashScopeChatModel(model)
    from autocontext.models.openai import OpenAIChatModel  # noqa: PLC0415 (needs an extra)

    return OpenAIChatModel(model)


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

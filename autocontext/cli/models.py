"""The model of the option `--model`."""

from __future__ import annotations

from autocontext.errors import ConfigError
from autocontext.models import DashScopeChatModel, OpenAIChatModel
from autocontext.models.opening import service_of, unknown_model


def open_model(spec: str) -> OpenAIChatModel | DashScopeChatModel | None:
    """The model of a `--model` argument; None for the built-in summariser.

    A name is that of a model as `AutoContextMemory.open(model=...)` takes it, and chooses the same token counter.
    Raises ConfigError for a wrong name or a missing key, MissingExtraError without the SDK.
    """
    if spec == "extractive":
        return None
    service, _, name = spec.partition(":")
    if service not in ("openai", "dashscope"):
        service, name = service_of(spec), spec
    if service == "openai" and name:
        return OpenAIChatModel(name)
    if service == "dashscope" and name:
        return DashScopeChatModel(name)
    way_out = "write openai:NAME, dashscope:NAME or extractive"
    raise ConfigError(f"--model {spec}: {unknown_model(name, way_out) if name else way_out}")

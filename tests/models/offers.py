"""Every model, ready to use: what the contract suite runs over."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from autocontext.models import CallableModel, DashScopeChatModel, ExtractiveModel, OpenAIChatModel
from autocontext.requests import ModelReply, ModelRequest
from tests.extras import need
from tests.fakes import FakeDashScope, FakeOpenAI

KEY = "sk-proj-Zx81kQ-verysecret"
SERVICES = {"openai": (FakeOpenAI, OpenAIChatModel), "dashscope": (FakeDashScope, DashScopeChatModel)}


def ask(prompt: str = "What happened?", **fields: Any) -> ModelRequest:
    return ModelRequest(**{"system": "Condense.", "prompt": prompt, "purpose": "tool_run", **fields})


def model_class(name: str) -> Any:
    """The model of a service; it needs the service's SDK."""
    need(name)
    return SERVICES[name][1]


@contextmanager
def service(name: str, **options: Any) -> Iterator[tuple[Any, Any]]:
    """A fake service and a model that talks to it through the real SDK."""
    need(name)
    fake, model = SERVICES[name]
    with fake(api_key=KEY) as running:
        made = model("qwen-plus", api_key=KEY, base_url=running.base_url, **options)
        yield running, made
        made.close()


async def _answer_later(request: ModelRequest) -> ModelReply:
    return ModelReply(text=f"async note on {len(request.prompt)} characters")


def _answer_of_its_own(body: dict[str, Any]) -> str:
    """A service's answer by which one can tell what it was asked."""
    asked = (body.get("input") or body)["messages"][-1]["content"]
    return f"answer {len(asked)} {hash(asked)}"


@contextmanager
def offer(name: str) -> Iterator[Any]:
    if name in SERVICES:
        with service(name) as (fake, model):
            fake.default = _answer_of_its_own
            yield model
    elif name == "extractive":
        yield ExtractiveModel()
    elif name == "callable":
        yield CallableModel(lambda request: f"note on {len(request.prompt)} characters")
    else:
        yield CallableModel(_answer_later, name="later")


OFFERS = ["extractive", "callable", "async callable", "openai", "dashscope"]

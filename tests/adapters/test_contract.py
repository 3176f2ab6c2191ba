"""The contract on the plain agent of the examples; and that an agent without a memory breaks it."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from tests.extras import need

need("openai")

from openai import OpenAI

from autocontext import AutoContextConfig, AutoContextMemory
from tests.adapters.contract.driver import WINDOW, Setup, asked
from tests.adapters.contract.scripted_agent import ScriptedAgent
from tests.adapters.contract.suite import READ, AdapterContract
from tests.adapters.frameworks.environments import ENVIRONMENTS, HERE
from tests.fakes import FakeOpenAI

_spec = importlib.util.spec_from_file_location("react_agent", Path(__file__).parents[2] / "examples" / "react_agent.py")
assert _spec is not None
assert _spec.loader is not None
react_agent = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(react_agent)
PARAMETERS = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
SCHEMA = {"type": "function", "function": {"name": "read_part", "parameters": PARAMETERS}}


class PlainDriver:
    """examples/react_agent.py with OpenAI's SDK, streaming or not."""

    modes = ("sync", "sync stream")

    def __init__(self, setup: Setup) -> None:
        self._memory = AutoContextMemory(**setup.adapter)
        self._client = OpenAI(
            api_key=setup.api_key, base_url=setup.base_url, timeout=setup.timeout, max_retries=setup.retries
        )
        self._stream = False
        tools = {"read_part": (SCHEMA, setup.tool)}
        self._agent = react_agent.ReactAgent(self._complete, self._memory, tools, setup.system)

    @property
    def memory(self) -> AutoContextMemory:
        return self._memory

    def ask(self, text: str, *, stream: bool = False, image: str | None = None) -> str:
        self._stream = stream
        if image is None:
            return str(self._agent.ask(text))
        return str(
            self._agent.ask([{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": image}}])
        )

    async def aask(self, text: str, *, stream: bool = False, image: str | None = None) -> str:
        raise NotImplementedError

    def history(self) -> Any:
        return None

    async def aclose(self) -> None:
        self._client.close()

    def _complete(self, messages: list[Any], tools: list[Any]) -> Any:
        given: Any = {"model": "m", "messages": messages, "tools": tools}
        if not self._stream:
            return self._client.chat.completions.create(**given).choices[0].message
        calls: dict[int, Any] = {}
        text = ""
        with self._client.chat.completions.create(stream=True, **given) as chunks:
            for chunk in chunks:
                delta = chunk.choices[0].delta
                text += delta.content or ""
                for call in delta.tool_calls or ():
                    if call.id:
                        function = {"name": call.function.name, "arguments": ""}
                        calls[call.index] = {"id": call.id, "type": "function", "function": function}
                    calls[call.index]["function"]["arguments"] += call.function.arguments
        return {"role": "assistant", "content": text or None, **({"tool_calls": [*calls.values()]} if calls else {})}


@pytest.mark.slow
class TestPlainOpenAI(AdapterContract):
    driver = PlainDriver


class Forgetful(PlainDriver):
    """As an agent is without compression."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._memory = AutoContextMemory(AutoContextConfig(max_token=10**6, msg_threshold=10**6))
        self._agent.memory = self._memory


def test_without_compression_the_contract_is_broken() -> None:
    agent = ScriptedAgent()
    with FakeOpenAI(default=agent, window=WINDOW) as server:
        [answer] = asked(Forgetful(Setup(base_url=server.base_url)), "sync", READ)
    assert isinstance(answer, Exception)
    assert "context_length_exceeded" in server.refused[0]


@pytest.mark.sampled
@pytest.mark.parametrize("stream", [False, True])
def test_the_responses_endpoint_says_the_same(stream: bool) -> None:
    items: list[Any] = [
        {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "42"},
    ]
    with FakeOpenAI(default="so it is") as server, OpenAI(api_key="test-key", base_url=server.base_url) as client:
        if stream:
            with client.responses.stream(model="m", input=items, instructions="s") as events:
                response = events.until_done().get_final_response()
        else:
            response = client.responses.create(model="m", input=items, instructions="s")
        assert response.output_text == "so it is"
        turn = server.turn(server.requests[0].body)
        assert [m["role"] for m in turn.messages] == ["system", "user", "assistant", "tool"]
        for wrong in (items[:2], items[::2], [*items, items[2]], [{"role": "bot", "content": "x"}]):
            with pytest.raises(Exception, match="400"):
                client.responses.create(model="m", input=wrong)
        assert len(server.refused) == 4
        assert json.loads(server.refused[0])["error"]["code"] == "invalid_request"


def test_every_framework_has_its_environment() -> None:
    """A test file that no environment names would never run."""
    named = [file for files in ENVIRONMENTS.values() for file in files]
    assert sorted(named) == sorted(path.name for path in HERE.glob("test_*.py"))

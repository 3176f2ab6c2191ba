"""A summarising model that fails is told: one warning a session, `health`, and the top of the report."""

import asyncio
import logging

import pytest

from tests.extras import need

need("openai")
from autocontext import AutoContextConfig, AutoContextMemory
from autocontext.cli.report import data
from autocontext.cli.session_history import SessionHistory
from autocontext.errors import ConfigError, ModelError
from autocontext.events import Health
from autocontext.models import OpenAIChatModel
from autocontext.models.opening import open_model
from autocontext.stores import InMemorySessionStore
from autocontext.testing import ScriptedModel, conversation
from tests.fakes import FakeOpenAI, Raw

CONFIG = AutoContextConfig.for_window(4_000, model_retries=0)


def passes(memory: AutoContextMemory, count: int = 2) -> None:
    for _ in range(count):
        memory.add_messages(conversation(rounds=8, tools_per_round=4, chars=600))
        memory.compress_if_needed(force=True)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]


def test_a_model_that_the_service_does_not_have_is_told_once_with_status_name_and_way_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    answer = {"error": {"message": "The model `gpt-9` does not exist", "code": "model_not_found"}}
    with FakeOpenAI(default=Raw(404, answer)) as service:
        model = OpenAIChatModel("gpt-9", base_url=service.base_url, api_key="test-key")
        store = InMemorySessionStore()
        memory = AutoContextMemory(CONFIG, model, store=store, session_id="s-17")
        passes(memory)
        model.close()
    told = warnings(caplog)
    assert len(told) == 1
    for word in ("'s-17'", "'gpt-9'", "HTTP 404", "Check the model's name and base_url", "memory.health()"):
        assert word in told[0]
    health = memory.health()
    assert (health.model, health.failing, health.answered, health.store) == ("gpt-9", True, 0, "in step")
    assert health.failed == len(service.requests) > 1
    assert "HTTP 404" in health.last_failure
    history = SessionHistory(store.read(memory.session), memory.counter)
    assert data(history, memory.session, "a.db", memory.counter)["fallbacks"] >= 1


@pytest.mark.parametrize(
    ("status", "way"),
    [
        (401, "Check the API key"),
        (400, "Check the model's name"),
        (429, "Check the quota"),
        (500, "Pass another model"),
    ],
)
def test_the_way_out_goes_by_the_status(status: int, way: str, caplog: pytest.LogCaptureFixture) -> None:
    memory = AutoContextMemory(CONFIG, ScriptedModel(ModelError(f"HTTP {status}: no", retryable=False)))
    passes(memory)
    assert [way in text for text in warnings(caplog)] == [True]


def test_a_model_that_answers_again_is_well_again(caplog: pytest.LogCaptureFixture) -> None:
    model = ScriptedModel([ConnectionError("down"), "The user asked for rounds."])
    memory = AutoContextMemory(CONFIG, model)
    asyncio.run(memory.acompress_if_needed(force=True))
    assert memory.health() == Health(model="ScriptedModel")
    passes(memory)
    health = memory.health()
    assert (health.failing, health.failed >= 1, health.answered >= 1) == (False, True, True)
    assert "down" in health.last_failure
    assert len(warnings(caplog)) == 1


def test_without_a_model_there_is_nothing_to_tell(caplog: pytest.LogCaptureFixture) -> None:
    memory = AutoContextMemory(CONFIG)
    passes(memory)
    assert memory.health() == Health()
    assert warnings(caplog) == []


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("claude-opus-4", r"for any other pass OpenAIChatModel\('claude-opus-4', base_url=\.\.\.\)"),
        ("gemini-2.5-pro", "no name of a model of OpenAI or DashScope; for any other pass"),
        ("gtp-4.1-mini", r"did you mean 'gpt-4\.1-mini'\?"),
        ("openai:gpt-4.1-mini", r"did you mean 'gpt-4\.1-mini'\?"),
        ("nonsense", r"for any other pass OpenAIChatModel\('nonsense', base_url=\.\.\.\)"),
    ],
)
def test_a_name_of_another_provider_is_refused_when_opened(
    name: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(ConfigError, match=told):
        AutoContextMemory.open(":memory:", window="16k", model=name)
    monkeypatch.setenv("OPENAI_BASE_URL", "https://openrouter.example/v1")
    assert isinstance(open_model(name, "here"), OpenAIChatModel)


@pytest.mark.parametrize("name", ["gpt-4.1-mini", "gpt-5", "o3", "o4-mini", "chatgpt-4o-latest", "ft:gpt-4.1:me::1"])
def test_the_names_of_openai_are_taken(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert isinstance(open_model(name, "here"), OpenAIChatModel)

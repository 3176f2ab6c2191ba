"""`--model`: notes by a model behind a real SDK and a fake service, its calls counted, its failures told."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from autocontext import AutoContextConfig, AutoContextMemory
from autocontext.cli.replay import open_model
from autocontext.errors import ConfigError
from tests.cli.terminal import Done, chat, run, write
from tests.extras import need
from tests.fakes.http_server import Raw
from tests.fakes.openai_server import FakeOpenAI

KEY = "sk-test-0123456789"


@pytest.fixture
def service() -> Iterator[FakeOpenAI]:
    with FakeOpenAI() as fake:
        yield fake


def replayed(tmp_path: Path, service: FakeOpenAI, key: str) -> Done:
    file = write(tmp_path / "chats.jsonl", [{"id": "chat", "messages": chat(16)}])
    arguments = ("replay", file, "--window", "6k", "--model", "openai:gpt-4o-mini")
    return run(*arguments, OPENAI_BASE_URL=service.base_url, OPENAI_API_KEY=key)


@pytest.mark.slow
def test_calls_and_tokens_are_those_the_service_saw(tmp_path: Path, service: FakeOpenAI) -> None:
    done = replayed(tmp_path, service, service.api_key)
    calls = len(service.requests)
    assert (done.code, done.err, calls > 3) == (0, "", True)
    assert {r.body["model"] for r in service.requests} == {"gpt-4o-mini"}
    (match,) = re.findall(
        r"^✓ +model calls +(\d+)  0 questions failed; ([\d,]+) tokens in, ([\d,]+) out$", done.out, re.MULTILINE
    )
    assert [int(n.replace(",", "")) for n in match] == [calls, 11 * calls, 7 * calls]


@pytest.mark.slow
def test_model_that_never_answers_is_told_and_the_replay_goes_on(tmp_path: Path, service: FakeOpenAI) -> None:
    done = replayed(tmp_path, service, KEY)
    assert done.code == 1
    assert re.search(r"originals intact +(\d+)  of \1, byte", done.out)
    (failed, calls) = re.findall(r"gpt-4o-mini failed in ([\d,]+) of ([\d,]+) questions; the last: ", done.err)[0]
    assert failed == calls
    assert int(calls) > 0
    assert "401" in done.err
    assert KEY not in done.out + done.err
    assert re.search(r"notes without it +[1-9]\d*  by rules alone", done.out)


@pytest.mark.slow
def test_model_that_fails_once_costs_nothing(tmp_path: Path, service: FakeOpenAI) -> None:
    service.script([Raw(400, {"error": {"message": "no", "type": "invalid_request_error"}})])
    done = replayed(tmp_path, service, service.api_key)
    assert done.code == 0
    assert "gpt-4o-mini failed in 1 of " in done.err


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("gpt-4.1", "gpt-4.1"), ("gpt-4", "gpt-4"), ("openai:gpt-4", "gpt-4"), ("o3", "o3"),
        ("ft:gpt-4.1:org::1", "ft:gpt-4.1:org::1"), ("qwen-plus", "qwen-plus"), ("dashscope:qwen-max", "qwen-max"),
    ],
)  # fmt: skip
def test_a_name_opens_the_model_and_the_counter_that_open_does(
    spec: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    need("openai", "dashscope")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("DASHSCOPE_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    model = open_model(spec)
    assert model is not None
    assert model.model == name
    replayed_ = AutoContextMemory(AutoContextConfig.for_window(16_000), model)
    with AutoContextMemory.open(":memory:", session_id="42", window=16_000, model=name) as opened:
        assert (replayed_.counter.name, replayed_.counter.exact) == (opened.counter.name, opened.counter.exact)


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("claude-opus-4", "no name of a model of OpenAI or DashScope; for any other write openai:NAME"),
        ("gtp-4.1", r"did you mean 'gpt-4\.1'\? Otherwise write openai:NAME, dashscope:NAME or extractive"),
        ("openai:", "--model openai:: write openai:NAME, dashscope:NAME or extractive"),
        ("", "--model : write openai:NAME"),
    ],
)
def test_what_is_no_model_is_told_with_the_way_out(spec: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(ConfigError, match=told):
        open_model(spec)

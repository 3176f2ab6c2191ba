"""`--model`: notes by a model behind a real SDK and a fake service, its calls counted, its failures told."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.terminal import Done, chat, run, write
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
        r"^✓ +model calls +(\d+)  0 failed; ([\d,]+) tokens in, ([\d,]+) out$", done.out, re.MULTILINE
    )
    assert [int(n.replace(",", "")) for n in match] == [calls, 11 * calls, 7 * calls]


@pytest.mark.slow
def test_model_that_never_answers_is_told_and_the_replay_goes_on(tmp_path: Path, service: FakeOpenAI) -> None:
    done = replayed(tmp_path, service, KEY)
    assert done.code == 1
    assert re.search(r"originals intact +(\d+)  of \1, byte", done.out)
    (failed, calls) = re.findall(r"gpt-4o-mini failed in ([\d,]+) of ([\d,]+) calls; the last: ", done.err)[0]
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

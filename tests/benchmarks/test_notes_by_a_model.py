"""`--model openai:NAME`: that model writes the notes, the peers' and this library's, over the real SDK."""

import json
import os
import subprocess
import sys

import pytest
from chat import Tokens
from peer_notes import MODEL, Notes, named
from policies import Library, make
from replays import DATA, conversations

from tests.benchmarks.talk import answer, user
from tests.fakes.openai_server import FakeOpenAI

pytestmark = pytest.mark.repo

NOTE = "The goal is a width of 6400. It was tried and ruled out to cast it."


@pytest.fixture
def service(monkeypatch):
    with FakeOpenAI(default=NOTE) as service:
        monkeypatch.setenv("OPENAI_API_KEY", "test-key")
        monkeypatch.setenv("OPENAI_BASE_URL", service.base_url)
        monkeypatch.setenv(MODEL, "openai:gpt-4.1-mini")
        yield service


def test_a_peers_note_is_the_models(service):
    count = Tokens()
    notes = Notes(4_000, count)
    assert notes.of(["first", "second"], "Be brief.") == NOTE
    [request] = service.requests
    assert request.body["model"] == "gpt-4.1-mini"
    assert [m["content"] for m in request.body["messages"]] == ["Be brief.", "first\n\nsecond"]
    assert 400 in request.body.values()  # the limit: a tenth of the window
    assert notes.read == count.text("first\n\nsecond") + count.text("Be brief.")


def test_this_librarys_note_is_the_models_and_is_on_the_bill(service):
    policy = make("autocontext", 1_000, Tokens())
    assert isinstance(policy, Library)
    for n in range(12):
        policy.step([user(f"step {n} " + "more words " * 60), answer()])
    assert NOTE in json.dumps(policy.context, ensure_ascii=False)
    assert policy.note_tokens > 0


@pytest.mark.slow
def test_the_command_line_names_the_model(tmp_path, service):
    talk = tmp_path / "talk.jsonl"
    talk.write_text(json.dumps(next(r for r in conversations([DATA]) if r["id"] == "tau2/022b3ed-55-0")) + "\n")
    command = [sys.executable, "-m", "autocontext", "bench", "handover", str(talk), "--policy", "autocontext"]
    there = {name: value for name, value in os.environ.items() if name != MODEL}
    done = subprocess.run(
        [*command, "--windows", "4000", "--model", "openai:gpt-4.1-mini"], capture_output=True, text=True, check=True,
        cwd=DATA.parents[2], env=there, timeout=120,
    )  # fmt: skip
    assert done.stdout.rstrip().endswith("notes by openai:gpt-4.1-mini")
    assert {request.body["model"] for request in service.requests} == {"gpt-4.1-mini"}
    assert "MISSED" not in done.stdout  # the goals are for the embedded summariser


@pytest.mark.parametrize("name", ["gpt-4.1-mini", "openai:", ""])
def test_a_model_without_a_provider_is_refused(name):
    with pytest.raises(ValueError, match="write openai:NAME"):
        named(name)

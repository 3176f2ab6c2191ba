"""With a `redact` hook nothing that a pass writes, sends or reports holds a secret; the originals stay whole."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory, ContextOffloadTool, ModelRequest, Msg, Plan, SubTask
from autocontext.adapters.openai_chat import to_openai
from autocontext.errors import ModelError
from autocontext.flows.logs import logger
from autocontext.messages import ToolResultBlock, ToolUseBlock, is_pinned
from autocontext.redaction import REDACTED, redact_secrets
from autocontext.stores import InMemorySessionStore
from autocontext.strategies import Proposal, View
from autocontext.testing import ScriptedModel, assert_valid_chat, assistant, tool_exchange, user
from tests.keys import KEYS, NAMED, named
from tests.production.agents import day, notes, rounds_only, small
from tests.profiles import share

SECRETS = {**{kind: (key, key) for kind, key in KEYS.items()}, **{k: (text, secret) for k, text, secret in named()}}
LEAST = 12
"""Characters of a secret that must not be found; shorter pieces, such as `github_pat_`, tell nothing."""


def pieces(secret: str) -> set[str]:
    """The pieces of a secret, without the frame of a private key, that must not be found."""
    body = "".join(line for line in secret.split("\n") if not line.startswith("-----"))
    return {body[i : i + LEAST] for i in range(max(1, len(body) - LEAST + 1))}


def leaked(texts: list[str], secret: str) -> list[str]:
    return [piece for piece in pieces(secret) if any(piece in text for text in texts)]


def written(memory: AutoContextMemory) -> list[str]:
    """What passes have written into the view."""
    return [str(m.to_dict()) for m in memory.messages if m.origin is not None]


def place_everywhere(text: str, secret: str) -> list[Msg]:
    """Finished rounds in which somebody says, reads, writes and passes on a secret, at the ends and amid long texts."""
    long = [f"setting_{n} = value {n}" for n in range(60)]
    return [
        user(f"Deploy the shop. We use {text} for it. Never restart the database on a Monday."),
        *tool_exchange("read_file", {"path": "/srv/shop/.env"}, "\n".join([*long[:30], text, *long[30:]]), id="c1"),
        assistant(f"The file holds {text}, so I use that for the deployment."),
        user("Go on."),
        *tool_exchange("login", {"user": "ann", "password": secret}, f"Error: {text} was refused", id="c2"),
        *tool_exchange("write_file", {"path": "/srv/a.txt", "content": "\n".join([*long, text, *long])}, "ok", id="c3"),
        *tool_exchange("bash", {"command": f"deploy '{text}'"}, f"{text} " * 9, id="c4"),
        assistant("Done."),
        *day(14, 12),
        user("What is next?"),
    ]


@pytest.mark.sampled(21)
@pytest.mark.parametrize("window", [1_500, 4_000])
@pytest.mark.parametrize("kind", SECRETS)
def test_no_secret_is_in_what_passes_write(kind: str, window: int) -> None:
    text, secret = SECRETS[kind]
    memory = AutoContextMemory(AutoContextConfig.for_window(window, redact=redact_secrets))
    before = place_everywhere(text, secret)
    for msg in before:
        if msg.role == "assistant":
            assert_valid_chat(memory.get_messages())
        memory.add_message(msg)
        if msg.role == "user":
            assert leaked(written(memory), secret) == []
    assert written(memory)
    assert memory.get_original_memory_msgs() == before
    reload = ContextOffloadTool(memory)
    first_page = reload("m3")
    assert secret[:100] in first_page or secret.split("\n")[1] in first_page


@pytest.mark.slow
@given(data=st.data())
@settings(max_examples=share(60))
def test_no_secret_is_in_what_any_strategy_writes_or_asks(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from([*SECRETS]), min_size=1, max_size=3, unique=True))
    config = data.draw(
        st.sampled_from(
            [
                AutoContextConfig.for_window(1_000, redact=redact_secrets),
                AutoContextConfig.for_window(2_500, redact=redact_secrets),
                small(redact=redact_secrets),
                small(redact=redact_secrets, ledger_ratio=0.1, summary_max_input_tokens=150),
                AutoContextConfig.agentscope_java(redact=redact_secrets, msg_threshold=8, last_keep=2),
            ]
        )
    )
    model = ScriptedModel(lambda request: request.prompt[-300:])
    memory = AutoContextMemory(config, data.draw(st.sampled_from([model, None])))
    before: list[Msg] = []
    for kind in kinds:
        before += place_everywhere(*SECRETS[kind])
    for msg in before:
        memory.add_message(msg)
    memory.compress_if_needed(force=True)
    memory.compress_if_needed(force=True)
    sent = [request.prompt for request in model.requests]
    for kind in kinds:
        assert leaked([*written(memory), *sent], SECRETS[kind][1]) == []
    assert memory.get_original_memory_msgs() == before


def test_without_a_hook_nothing_changes() -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(2_500))
    memory.add_messages(place_everywhere(*SECRETS["OpenAI key"]))
    memory.compress_if_needed(force=True)
    assert leaked(written(memory), SECRETS["OpenAI key"][1])


def test_messages_that_no_pass_has_written_stay_as_they_are() -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(2_000, redact=redact_secrets))
    memory.add_messages([*day(14), user(f"Use {KEYS['OpenAI key']}.")])
    assert memory.compress_if_needed(force=True)
    assert KEYS["OpenAI key"] in to_openai(memory.messages)[-1]["content"]


def test_arguments_with_a_secret_name_are_hidden_and_others_stay() -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(1_500, redact=redact_secrets))
    arguments = {"user": "ann", "auth": {"password": "swordfish " + "today"}, "host": "db.example.org"}
    memory.add_messages([user("Log in."), *tool_exchange("login", arguments, "ok"), assistant("Done."), *day(14)])
    memory.compress_if_needed(force=True)
    text = "\n".join(written(memory))
    assert "db.example.org" in text
    assert REDACTED in text
    assert "swordfish" not in text


def test_of_a_long_argument_with_a_secret_in_it_the_rest_stays() -> None:
    tests = "".join(f"def test_{n}(): assert {n} == f({n})\n" for n in range(60))
    long = f'COUNTED = {{"token_counter": "bytes4"}}\n{tests}'
    memory = AutoContextMemory(AutoContextConfig.for_window(1_500, redact=redact_secrets))
    call = tool_exchange("write_file", {"path": "test_compute.py", "content": long}, "ok")
    memory.add_messages([user("Test it."), *call, assistant("Done."), *day(14)])
    memory.compress_if_needed(force=True)
    assert 'write_file test_compute.py "COUNTED = ' in "\n".join(written(memory))


def test_readings_that_differ_in_a_secret_alone_are_not_called_the_same() -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(2_500, redact=redact_secrets))
    for n, key in enumerate((KEYS["OpenAI key"], KEYS["Groq key"])):
        text = "\n".join([*(f"line {i}" for i in range(40)), f"key: {key}"])
        read = tool_exchange("read_file", {"path": "/srv/x.env"}, text, id=f"s{n}")
        memory.add_messages([user("Read it."), *read, assistant("Read.")])
    memory.add_messages(day(2, 60))
    memory.compress_if_needed(force=True)
    assert "read again below; different there" in "\n".join(written(memory))


def test_the_plan_is_quoted_without_secrets() -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(1_500, redact=redact_secrets))
    memory.attach_plan_note(Plan(name="Deploy", subtasks=[SubTask(name=f"Deploy with {KEYS['Linear key']}")]))
    memory.add_messages(day(14))
    memory.compress_if_needed(force=True)
    assert f"Deploy with {REDACTED}" in "\n".join(written(memory))


class Telltale:
    """A strategy of somebody's own that knows a secret from elsewhere."""

    name = "telltale"

    def __init__(self, *, note: bool) -> None:
        self.note = note

    def propose(self, view: View) -> list[Proposal]:
        at = next((i for i, m in enumerate(view.messages) if m.tool_results and m.origin is None), None)
        if at is None:
            return []
        if self.note:
            return [Proposal(view.span(at - 1, at + 1), f"The key is {KEYS['OpenAI key']}.")]
        return [Proposal(view.span(at, at + 1), blocks={0: f"The key is {KEYS['OpenAI key']}."})]


@pytest.mark.parametrize("note", [True, False])
def test_own_strategies_write_without_secrets(*, note: bool) -> None:
    memory = AutoContextMemory(small(redact=redact_secrets, strategies=(Telltale(note=note),), last_resort=False))
    memory.add_messages(day(2, 60))
    assert memory.compress_if_needed(force=True)
    assert f"The key is {REDACTED}." in "\n".join(written(memory))


@pytest.mark.slow
def test_what_a_model_wrote_before_there_was_a_hook_is_not_carried_on() -> None:
    store = InMemorySessionStore()
    model = ScriptedModel(f"The key is {KEYS['OpenAI key']}.")
    config = AutoContextConfig.for_window(1_500)
    memory = AutoContextMemory(config, model, store=store, session_id="s")
    memory.add_messages(day(20))
    memory.compress_if_needed(force=True)
    assert KEYS["OpenAI key"] in "\n".join(written(memory))
    later = AutoContextMemory(
        config.model_copy(update={"redact": redact_secrets}), ScriptedModel(""), store=store, session_id="s"
    )
    later.add_messages(day(20))
    later.compress_if_needed(force=True)
    assert f"The key is {REDACTED}." in "\n".join(written(later))
    assert KEYS["OpenAI key"] not in "\n".join(written(later))


def test_words_of_the_user_inside_a_result_are_hidden_too() -> None:
    words = f"use {KEYS['Stripe live key']} instead"
    lines = [f"line {n} of the output" for n in range(200)]
    output = "\n".join([*lines, words, *lines])
    result = Msg(
        role="tool",
        content=[ToolResultBlock(id="c", name="bash", output=output)],
        metadata={"said_by_user": [words]},
    )
    call = Msg(role="assistant", content=[ToolUseBlock(id="c", name="bash", input={"command": "make"})])
    memory = AutoContextMemory(AutoContextConfig.for_window(4_000, redact=redact_secrets))
    memory.add_messages([user("Go."), call, result, assistant("Used."), *day(2, 60)])
    memory.compress_if_needed(force=True)
    assert f"use {REDACTED} instead" in memory.messages[2].tool_results[0].text
    assert leaked(written(memory), KEYS["Stripe live key"]) == []


def test_a_hook_that_fails_hides_all_texts_and_the_report_says_so(caplog: pytest.LogCaptureFixture) -> None:
    def broken(text: str) -> str:
        if "price_" in text:
            raise ValueError("bad pattern")
        return text

    memory = AutoContextMemory(AutoContextConfig.for_window(1_500, redact=broken))
    memory.add_messages(day(14))
    report = memory.compress_if_needed(force=True)
    assert report
    assert "the redact hook failed, so texts were hidden: ValueError: bad pattern" in report.reason
    assert caplog.text.count("the redact hook failed") == 1
    memory.add_messages(day(14))
    assert memory.compress_if_needed(force=True)
    assert caplog.text.count("the redact hook failed") == 1
    assert not [m for m in notes(memory) if "price_" in m.text]
    assert "price_0" in ContextOffloadTool(memory)("m3")


@pytest.mark.parametrize("returned", [None, 7])
def test_a_hook_that_returns_no_text_hides_it(returned: object) -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(1_500, redact=lambda _: returned))  # type: ignore[arg-type,return-value]
    memory.add_messages(day(14))
    report = memory.compress_if_needed(force=True)
    assert f"it returned {type(returned).__name__}" in report.reason


# ------------------------------------------------------------------------------------ reports, health and log lines
@pytest.mark.parametrize("hook", [None, redact_secrets])
def test_a_failure_that_quotes_a_key_is_told_without_it(hook: object, caplog: pytest.LogCaptureFixture) -> None:
    def refuse(_: ModelRequest) -> str:
        raise ModelError(f"HTTP 401: wrong key {KEYS['Anthropic key']}", retryable=False)

    memory = AutoContextMemory(rounds_only(redact=hook, extractive_fallback=False), ScriptedModel(refuse))
    memory.add_messages(day(3))
    with caplog.at_level(logging.INFO):
        report = memory.compress_if_needed(force=True)
    told = [str(report), memory.health().last_failure, caplog.text]
    assert "HTTP 401: wrong key [redacted]" in memory.health().last_failure
    assert all("wrong key [redacted]" in text for text in told)
    assert leaked(told, KEYS["Anthropic key"]) == []


def test_a_listener_that_quotes_a_password_is_logged_without_it(caplog: pytest.LogCaptureFixture) -> None:
    text, secret = SECRETS["PostgreSQL URI"]
    memory = AutoContextMemory(AutoContextConfig.for_window(1_500))

    def broken(_: object) -> None:
        raise RuntimeError(f"no connection to {text}")

    memory.on_compression(broken)
    memory.add_messages(day(14))
    memory.compress_if_needed(force=True)
    assert "no connection to postgres://shop:[redacted]@10.0.0.5" in caplog.text
    assert secret not in caplog.text


@pytest.mark.parametrize("kind", [*KEYS, *NAMED])
def test_a_log_line_holds_no_secret(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    text, secret = SECRETS[kind]
    logger("autocontext.passes").warning("it says %s", text)
    assert leaked([record.getMessage() for record in caplog.records], secret) == []


def test_a_log_line_without_a_secret_keeps_its_arguments(caplog: pytest.LogCaptureFixture) -> None:
    logger("autocontext.passes").warning("session %r of %d", "42", 7)
    assert caplog.records[0].args == ("42", 7)
    assert caplog.records[0].msg == "session %r of %d"


@pytest.mark.slow
def test_a_hook_changes_no_pin() -> None:
    """Whether a message is pinned when a pass first reads it says nothing about later ones."""
    for hook in (None, redact_secrets):
        memory = AutoContextMemory(AutoContextConfig.for_window(4_000, redact=hook, recall=False))
        memory.add_messages([user("Begin."), *tool_exchange("read", {"n": 0}, "first of all\n" * 30)])
        [pin] = memory.tools("pin")
        for n in range(1, 40):
            memory.add_messages(tool_exchange("read", {"n": n}, f"line {n}\n" * 30))
            memory.get_messages()
            if n == 20:
                assert "Pinned m42-m43" in pin(messages="m42")
        assert [r.text for m in memory.messages if is_pinned(m) for r in m.tool_results] == ["line 20\n" * 30]
        assert "Unpinned" in pin(messages="m42", unpin=True)
        for n in range(40, 80):
            memory.add_messages(tool_exchange("read", {"n": n}, f"line {n}\n" * 30))
            memory.get_messages()
        assert not any("line 20\n" * 30 in r.text for m in memory.messages for r in m.tool_results)

"""With `redact` the state optimiser quotes no secrets; what it removes and what it keeps stays as it was."""

from __future__ import annotations

from autocontext import AutoContext, AutoContextConfig
from autocontext.content import SqliteContentStore
from autocontext.messages import Msg
from autocontext.redaction import redact_secrets
from autocontext.sessions import (
    ConversationCompressor,
    SessionState,
    StateConfig,
    StateOptimizer,
    restore_state_messages,
)
from autocontext.testing import ScriptedModel, assistant, tool_exchange, user
from tests.keys import KEYS, NAMED

KEY = KEYS["GitHub personal token"]
URI, PASSWORD = NAMED["PostgreSQL URI"]


def history() -> list[Msg]:
    """Requests, answers, failures, long and repeated results, all with secrets in them."""
    uri, messages = URI.format(PASSWORD), []
    for n in range(12):
        messages += [
            user(f"Deploy {n} with {KEY}"),
            *tool_exchange("login", {"host": n, "password": PASSWORD}, f"Error: {uri} refused\n" * 9, id=f"a{n}"),
            *tool_exchange("login", {"host": n, "password": PASSWORD}, f"connected to {uri}\n" * 60, id=f"b{n}"),
            assistant(f"Deployed with {KEY}"),
        ]
    return messages


def test_nothing_that_it_writes_or_asks_holds_a_secret() -> None:
    store, model, messages = SqliteContentStore(":memory:"), ScriptedModel(f"They used {KEY}."), history()
    optimizer = StateOptimizer(StateConfig(), store, model, redact=redact_secrets)
    state, report = optimizer.optimize(SessionState("s", messages=messages, user_input="Deploy"))
    before = {m.id: m for m in messages}
    made = [m for m in state.messages if before.get(m.id) != m]
    assert len(made) > 1
    told = [str(m.to_dict()) for m in made] + [str(report.errors)] + [r.prompt for r in model.requests]
    assert model.requests
    assert "[redacted]" in told[0]
    assert not [text for text in told if KEY in text or PASSWORD in text]
    assert restore_state_messages(state.messages, store=store) == messages


def test_lines_in_the_place_of_results_hold_no_secret() -> None:
    messages = history()
    after = ConversationCompressor(redact=redact_secrets).compress_conversation_history(messages)
    made = [str(m.to_dict()) for m in after if m not in messages]
    assert len(made) > 10
    lines = [r.text for m in after if m not in messages for r in m.tool_results]
    assert any("[redacted]" in line for line in lines)
    assert not [line for line in lines if KEY in line or PASSWORD in line]


def test_saved_sessions_use_the_hook_of_their_configuration() -> None:
    with AutoContext.open(":memory:", config=AutoContextConfig.for_window(100_000, redact=redact_secrets)) as ac:
        session = ac.session("s", user_id="u")
        session.add(history())
        session.save()
        state = session.state()
        assert state is not None
        summaries = [str(m.to_dict()) for m in state.messages if m.role == "system"]
        assert summaries
        assert not [text for text in summaries if KEY in text or PASSWORD in text]

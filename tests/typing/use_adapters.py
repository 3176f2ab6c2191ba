"""The adapters as a user makes them: every right option passes `mypy --strict`, every wrong one is refused.

It is only type-checked: AgentScope 1 and 2 cannot be installed together. `# type: ignore[...]` stands where an error
must be: `warn_unused_ignores` makes mypy report one that is not there.
"""

from typing import Unpack, assert_type

from autocontext import AutoContextConfig, AutoContextMemory, Plan
from autocontext.adapters.agent_framework import AutoContextCompaction
from autocontext.adapters.agentscope_v1 import AutoContextAgentScopeMemory
from autocontext.adapters.agentscope_v2 import AutoContextMiddleware, AutoContextOffloader
from autocontext.adapters.langchain import AutoContextMiddleware as LangChainMiddleware
from autocontext.adapters.openai_agents import AutoContextSession
from autocontext.adapters.options import MemoryOptions
from autocontext.adapters.pydantic_ai import AutoContextCapability
from autocontext.models import ChatModel
from autocontext.stores import SessionStore
from autocontext.testing import ScriptedModel

OPTIONS: MemoryOptions = {
    "config": AutoContextConfig(),
    "model": ScriptedModel("SUMMARY"),
    "store": None,
    "session_id": "42",
    "user_id": "ann",
    "plan": Plan(name="tidy"),
}


def right(memory: AutoContextMemory, store: SessionStore) -> None:
    """A memory, no options, some, all."""
    AutoContextSession(memory)
    LangChainMiddleware(memory=memory, plan=Plan(name="tidy"))
    AutoContextCapability()
    AutoContextMiddleware(config=AutoContextConfig(), store=store, session_id=None)
    AutoContextOffloader(**OPTIONS)
    AutoContextAgentScopeMemory(**OPTIONS)
    AutoContextCompaction(memory, source_id="memory")
    AutoContextCompaction(source_id="memory", **OPTIONS)


def names_complete(options: MemoryOptions) -> None:
    """A type checker knows each option's type, as an editor does that completes it."""
    assert_type(options["user_id"], str)
    assert_type(options["session_id"], str | None)
    assert_type(options["store"], SessionStore | None)
    options["sesion_id"]  # type: ignore[typeddict-item]


def wrong(config: AutoContextConfig, model: ChatModel) -> None:
    """Wrong names, wrong types, options by position."""
    AutoContextSession(sesion_id="42")  # type: ignore[call-arg]
    AutoContextCapability(conifg=config)  # type: ignore[call-arg]
    LangChainMiddleware(thread_id="42")  # type: ignore[call-arg]
    AutoContextMiddleware(model="gpt-5")  # type: ignore[arg-type]
    AutoContextOffloader(user_id=None)  # type: ignore[arg-type]
    AutoContextAgentScopeMemory(None, config)  # type: ignore[call-arg]
    AutoContextCompaction(source=model)  # type: ignore[call-arg]


def passed_on(memory: AutoContextMemory | None = None, **options: Unpack[MemoryOptions]) -> AutoContextSession:
    """A wrapper of one's own takes the same options."""
    return AutoContextSession(memory, **options)


def use_wrapper() -> None:
    """Its options are checked as well."""
    passed_on(user_id="ann")
    passed_on(user="ann")  # type: ignore[call-arg]

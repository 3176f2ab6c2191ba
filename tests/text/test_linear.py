"""What reads messages takes time linear in them, whatever they say: a page from the web must not stop an agent.

The bounds only tell working from hanging: what is linear takes a fraction of a second here, what is not takes minutes.
"""

import asyncio
import gc
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from autocontext import AutoContextConfig, AutoContextMemory, ModelRequest, Msg
from autocontext.errors import StateError
from autocontext.history.entries import Added, dump_entry, load_entry
from autocontext.memories import InjectionSettings, MemoryInjector, compose, updating
from autocontext.messages import ToolResultBlock
from autocontext.models import ExtractiveModel
from autocontext.models.services import scrub
from autocontext.notes import answers, pieces, sentences, values
from autocontext.ranking import default_ranker
from autocontext.redaction import redact_secrets
from autocontext.stores.search import find
from autocontext.testing import assistant, tool_exchange, user
from autocontext.text import failures, language, rendering
from autocontext.text.words import terms
from autocontext.tokens import get_counter
from autocontext.tools import ContextOffloadTool
from tests.characters import MADE_OF, of_each_category
from tests.profiles import share

KEY = "00000000-0000-4000-8000-000000000000"
CHARACTERS = of_each_category() | MADE_OF


def read_update(reply: str) -> None:
    with suppress(StateError):
        updating.parse_update(reply)


def rank(text: str) -> None:
    ranker = default_ranker()
    ranker.update("it", text)
    ranker.scores(text[:2_000])


def inject(text: str) -> None:
    facts = [{"id": "a", "content": text, "confidence": 1}, {"id": "b", "content": "short", "confidence": 0.5}]
    compose({"facts": facts}, text[:1_000], InjectionSettings())


def one_pass(messages: list[Msg]) -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(4_000))
    memory.add_messages([user("go"), *messages, assistant("done"), user("go on")])
    memory.get_messages()
    memory.compress_if_needed(force=True)


def answered(text: str) -> None:
    for is_error in (False, True):
        answer = answers.answer_of(ToolResultBlock(id="a", output=text, is_error=is_error))
        answers.came_back(answers.telling(text, answer), answer, 100)


READERS: dict[str, Callable[[str], object]] = {
    "terms": lambda text: list(terms(text)),
    "language": lambda text: language.language_of([text]),
    "cuts": lambda text: [rendering.cut(text, len(text) * k // 20) for k in range(1, 20)],
    "one_line": rendering.one_line,
    "without_blobs": rendering.without_blobs,
    "unfence": rendering.unfence,
    "head_and_tail": lambda text: rendering.head_and_tail(text, 500),
    "failure": lambda text: (failures.is_failure_text(text), failures.failure_kind(text), failures.first_line(text)),
    "answer": answered,
    "line_around": lambda text: pieces.line_around(text, min(len(text), 15_000), 3),
    "values": values.values_in,
    "find": lambda text: values.find(text[:4], f"x{text}"),
    "sentences": lambda text: (sentences.of_user.__wrapped__(text), sentences.of_agent(text)),
    "counts": lambda text: [get_counter(n).count_text(text) for n in ("o200k_base", "cl100k_base", "qwen", "bytes4")],
    "bounds": lambda text: [get_counter(name).bound(user(text)) for name in ("o200k_base", "qwen")],
    "entry": lambda text: load_entry(dump_entry(Added(message=user(text)))),
    "search": lambda text: find({("", ""): [Added(message=user(text))]}, f"needle {text[:40]}"),
    "ranking": rank,
    "extractive": lambda text: ExtractiveModel().complete(
        ModelRequest(system="", prompt=rendering.fence(f"[user] {text}"), purpose="fold", max_output_tokens=500)
    ),
    "redaction": redact_secrets,
    "scrub": lambda text: scrub(text, SecretStr("sk-of-ours")),
    "update": read_update,
    "injection": inject,
    "user": lambda text: one_pass([user(text)]),
    "result": lambda text: one_pass(tool_exchange("bash", {"command": "cat x"}, text)),
    "call": lambda text: one_pass(tool_exchange("bash", {"command": text}, "ok")),
}
SIZE = 60_000
HOSTILE = [
    ("failure", "returncode" + " " * SIZE),
    ("failure", "content=[" + "TextContent(type='text', text=\"" * (SIZE // 8)),
    ("failure", "content=[TextContent(type='text', text='" + "\\" * SIZE),
    ("failure", "content=[" + "isError=True" * (SIZE // 8)),
    ("answer", "\n".join(" " * 700 + ": command not found" for _ in range(8))),
    ("line_around", "[" + "{" * SIZE),
    ("line_around", '["' + '\\"' * SIZE),
    ("call", '\\"' * SIZE),
    ("call", "sed " * SIZE),
    ("call", "cat '" + '"a' * SIZE),
    ("redaction", "a-" * SIZE),
    ("redaction", "a." * SIZE),
    ("redaction", "credential" * (SIZE // 8)),
    ("redaction", "-eyJabcdefgh" * (SIZE // 8)),
    ("redaction", "token=a" * (SIZE // 4)),
    ("redaction", "password=ab8(" * (SIZE // 8)),
    ("redaction", 'password="a' * (SIZE // 8)),
    ("redaction", "curl -u " * (SIZE // 8)),
    ("redaction", "x://a:b" * (SIZE // 4)),
    ("scrub", "a/?" * SIZE),
    ("injection", "word" + "\t" * SIZE + "word"),
    ("extractive", "1" * SIZE),
    ("update", "```" + " \n" * SIZE + "x"),
    ("unfence", '<transcript id="0123456789abcdef">\n' * (SIZE // 8)),
    ("terms", "\u0301\u0323" * SIZE),
    ("counts", "\u0301\u0323" * SIZE),
    ("bounds", "\u0301\u0323" * SIZE),
]


def seconds(reader: str, text: str) -> float:
    began = time.thread_time()
    READERS[reader](text)
    return time.thread_time() - began


@pytest.fixture(scope="module", autouse=True)
def _warm() -> None:
    for reader in READERS:
        seconds(reader, "a word")


@pytest.mark.sampled
@pytest.mark.parametrize(("reader", "text"), [pytest.param(*case, id=f"{case[0]} {case[1][:8]!a}") for case in HOSTILE])
def test_row_21_hostile_texts_take_linear_time(reader: str, text: str) -> None:
    assert seconds(reader, text) < 10


@pytest.mark.slow
@pytest.mark.parametrize("name", CHARACTERS)
@pytest.mark.parametrize("reader", READERS)
def test_a_quarter_million_times_any_one_character_takes_a_second(reader: str, name: str) -> None:
    assert seconds(reader, CHARACTERS[name] * 250_000) < 10


@pytest.mark.soak
@pytest.mark.parametrize("name", CHARACTERS)
@pytest.mark.parametrize("reader", READERS)
def test_row_21_a_million_times_any_one_character_takes_a_second(reader: str, name: str) -> None:
    assert seconds(reader, CHARACTERS[name] * 1_000_000) < 60


words = [
    "error", "Error", "exit", "code", "failed", "://", "sk-", "eyJ", "token=", "-----BEGIN", "cat", "<<EOF", "$(",
    "<think>", "not", "please", "return", "File", "bearer", "Traceback", "[call", "result", "1:", "&&", "do", "sed",
]  # fmt: skip
bits = st.sampled_from([*"aA10 \n.'_-/<>`\"=!,:;()[]{}\\|@#$&*+?%é中の。\t\u0301\u0323\u200d", *words])
few = st.lists(bits, max_size=2).map("".join)


@pytest.mark.slow
@given(reader=st.sampled_from(list(READERS)), before=few, unit=few.filter(bool), after=few)
@settings(max_examples=share(400))
def test_row_21_anything_repeated_takes_linear_time(*, reader: str, before: str, unit: str, after: str) -> None:
    assert seconds(reader, before + unit * (100_000 // len(unit)) + after) < 20


# -------------------------------------------------------------------------------------------------- event loops
async def share_of_the_loop(work: Coroutine[Any, Any, object]) -> tuple[float, float]:
    """CPU seconds that the event loop's own thread spends on the work, and those of the whole process."""
    gc.collect()
    gc.disable()  # a collection runs in whichever thread happens to need it
    try:
        own, whole = time.thread_time(), time.process_time()
        await work
        return time.thread_time() - own, time.process_time() - whole
    finally:
        gc.enable()


class Documents:
    """A source with many memories. They are made beforehand, as making them is not the library's work."""

    facts = tuple({"id": f"u{i}", "content": f"fact {i} of many words here {i * 7}"} for i in range(8_000))

    def document(self, *, user_id: str) -> dict[str, Any]:
        return {"facts": list(self.facts)}

    async def adocument(self, *, user_id: str) -> dict[str, Any]:
        return self.document(user_id=user_id)


def queried() -> Coroutine[Any, Any, object]:
    memory = AutoContextMemory()
    memory.offload(KEY, user("words of a page about nothing, " * 100_000))
    return ContextOffloadTool(memory).acall(working_context_offload_uuid=KEY, query="needle page")


def injected() -> Coroutine[Any, Any, object]:
    return MemoryInjector(Documents(), user_id="u").ainject([user("fact many words")])


def compressed() -> Coroutine[Any, Any, object]:
    memory = AutoContextMemory(AutoContextConfig.for_window(8_000))
    memory.add_messages([user("go"), *tool_exchange("read", {}, "a value of 17, " * 200_000), user("on")])
    return memory.aget_messages()


@pytest.mark.slow
@pytest.mark.parametrize("work", [queried, injected, compressed])
def test_row_21_large_work_is_done_beside_the_event_loop(work: Callable[[], Coroutine[Any, Any, object]]) -> None:
    async def measured() -> tuple[float, float]:
        return await share_of_the_loop(work())

    own, whole = asyncio.run(measured())
    assert own < whole / 10

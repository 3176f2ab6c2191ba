"""OpenAI's own compaction with OpenAI's SDK: `context_management`, `responses.compact`, and what goes back."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.extras import need

need("openai")

from openai import BadRequestError, OpenAI
from openai.types.responses import (
    CompactedResponse,
    Response,
    ResponseCompactionItem,
    ResponseCompactionItemParamParam,
    ResponseInputItemParam,
)
from pydantic import TypeAdapter

from autocontext import AutoContextConfig, AutoContextMemory
from tests.fakes import FakeOpenAI
from tests.fakes.openai_responses import compacted

WORDS = "the lock in /srv/queue.py waits 30 s before it gives up; " * 30
INPUT: TypeAdapter[Any] = TypeAdapter(list[ResponseInputItemParam])


@pytest.fixture
def service() -> Iterator[FakeOpenAI]:
    with FakeOpenAI(default="Understood.") as running:
        yield running


@pytest.fixture
def client(service: FakeOpenAI) -> Iterator[OpenAI]:
    with OpenAI(base_url=service.base_url, api_key="test-key", max_retries=0) as made:
        yield made


def turn(client: OpenAI, memory: AutoContextMemory, text: str, **parameters: Any) -> Response:
    memory.add({"role": "user", "content": text})
    items: Any = memory.to_responses()
    INPUT.validate_python(items)
    response: Response = client.responses.create(model="m", input=items, store=False, **parameters)
    memory.add(response.output)
    return response


def test_the_item_has_the_shape_of_the_sdk() -> None:
    item = compacted([])
    ResponseCompactionItem.model_validate(item, strict=True)
    TypeAdapter(ResponseCompactionItemParamParam).validate_python(item)


def test_what_the_server_compacts_takes_the_place_of_what_was_before(client: OpenAI, service: FakeOpenAI) -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(100_000))
    limit = {"context_management": [{"type": "compaction", "compact_threshold": 1_000}]}
    kinds = []
    for n in range(8):
        response = turn(client, memory, f"{n}: {WORDS}", **limit)
        kinds.append([item.type for item in response.output])
    assert ["compaction", "message"] in kinds
    assert ["message"] in kinds
    assert not service.refused
    sent = service.requests[-1].body["input"]
    assert [item["type"] for item in sent if item.get("type") == "compaction"] == ["compaction"]
    assert len(sent) < 8 < len(memory.get_original_memory_msgs())
    assert service.largest < 3_000


def test_a_compacted_window_is_sent_as_it_was_returned(client: OpenAI, service: FakeOpenAI) -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(100_000))
    for n in range(3):
        turn(client, memory, f"{n}: short")
    items: Any = memory.to_responses()
    window: CompactedResponse = client.responses.compact(model="m", input=items)
    memory.add(window.output)
    assert memory.to_responses() == [
        item.model_dump(mode="json", exclude_unset=True, warnings=False) for item in window.output
    ]
    turn(client, memory, "And now?")
    assert not service.refused
    assert [m.text for m in memory.reload("m1-m6")] == [m.text for m in memory.get_original_memory_msgs()[:6]]


def test_back_in_view_the_users_words_stand_once(client: OpenAI) -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(100_000))
    for n in range(3):
        turn(client, memory, f"{n}: short")
    items: Any = memory.to_responses()
    memory.add(client.responses.compact(model="m", input=items).output)
    assert len(memory.to_responses()) == 4
    texts = [message["content"] for message in memory.to_openai()]
    assert texts == ["0: short", "Understood.", "1: short", "Understood.", "2: short", "Understood."]


def test_instead_nothing_of_it_is_sent(client: OpenAI, service: FakeOpenAI) -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(2_000, provider_compaction="instead"))
    limit = {"context_management": [{"type": "compaction", "compact_threshold": 1_000}]}
    for n in range(8):
        turn(client, memory, f"{n}: {WORDS}", **limit)
    assert not service.refused
    assert all(item.get("type") != "compaction" for item in service.requests[-1].body["input"])
    memory.to_responses()  # the last answer is there too now
    assert memory.token_count <= 2_000


def test_the_service_refuses_what_was_changed(client: OpenAI) -> None:
    item = compacted([{"role": "user", "content": "x"}])
    changed: Any = {**item, "encrypted_content": item["encrypted_content"][:-8] + "AAAAAAA="}
    for items in ([changed], [{"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}]):
        with pytest.raises(BadRequestError, match="could not be verified") as refused:
            client.responses.create(model="m", input=items)
        assert refused.value.code == "invalid_encrypted_content"


def test_a_streamed_compaction_is_read(client: OpenAI) -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(100_000))
    memory.add({"role": "user", "content": WORDS})
    limit: Any = [{"type": "compaction", "compact_threshold": 1}]
    items: Any = memory.to_responses()
    with client.responses.stream(model="m", input=items, context_management=limit) as stream:
        memory.add(stream.get_final_response().output)
    assert [item.get("type") for item in memory.to_responses()] == [None, "compaction", "message"]

"""The agent's tools: bound to one user, always answering with a text."""

import asyncio
import json

import pytest

from autocontext.errors import InvalidMemory
from autocontext.memories import MemoryStore, memory_tools
from tests.stores.homes import HOMES, database


@pytest.fixture(params=HOMES)
def store(request, tmp_path):
    with database(request.param, tmp_path) as opened:
        yield MemoryStore(opened)


def tools(store, user="ann"):
    return {tool.name: tool for tool in memory_tools(store, user_id=user)}


def test_five_tools_whose_schemas_name_no_user(store) -> None:
    made = tools(store)
    assert list(made) == ["memory_add", "memory_search", "memory_update", "memory_delete", "memory_stats"]
    for name, tool in made.items():
        schema = tool.schema()
        assert schema["function"]["name"] == name
        assert "user" not in json.dumps(schema["function"]["parameters"]["properties"]).replace("user asks", "")
        assert (
            set(schema["function"]["parameters"]["required"]) <= schema["function"]["parameters"]["properties"].keys()
        )
    with pytest.raises(InvalidMemory, match="user_id"):
        memory_tools(store, user_id="")


def test_a_memory_s_life_through_the_tools(store) -> None:
    mine, theirs = tools(store), tools(store, "bob")
    answer = mine["memory_add"](content="Likes tea", tags=["drinks"], importance=8, user_id="bob", made_up=1)
    key = answer.removeprefix("Remembered as ").rstrip(".")
    assert mine["memory_add"](content="likes tea") == f"Already known as {key}; confirmed."
    found = json.loads(mine["memory_search"](query="tea"))
    assert (found["id"], found["importance"], found["tags"]) == (key, 8, ["drinks"])
    assert theirs["memory_search"](query="tea") == "Nothing is remembered about that."
    assert theirs["memory_update"](memory_id=key, content="x").startswith("Error: there is no memory")
    assert theirs["memory_delete"](memory_id=key).startswith("Error: there is no memory")
    assert mine["memory_update"](memory_id=key, content="Likes coffee") == f"Changed {key}."
    assert json.loads(mine["memory_stats"]()) == {
        "total_memories": 1,
        "average_importance": 8.0,
        "top_tags": {"drinks": 1},
    }
    assert mine["memory_delete"](memory_id=key) == "Deleted."
    assert store.all(user_id="ann", archived=True) == []


def test_mistakes_are_answered(store) -> None:
    made = tools(store)
    assert made["memory_add"]() == "Error: content: must be passed."
    assert made["memory_add"](content="x", importance=99).startswith("Error: importance must be")
    assert made["memory_add"](content="x", tags="a").startswith("Error: tags must be a list of strings")
    assert made["memory_search"](query="x", limit="many") == "Nothing is remembered about that."
    assert made["memory_add"](content=" ").startswith("Error: content is empty")
    assert made["memory_search"](query="x", min_importance=10**400) == "Nothing is remembered about that."
    assert made["memory_search"](query="x", min_importance=True).startswith("Error: min_importance must be a number")
    assert made["memory_update"](content="x") == "Error: memory_id: must be passed."


def test_the_async_tools_do_the_same(store) -> None:
    made = tools(store)

    async def work():
        answers = [await made["memory_add"].acall(content="Likes tea"), await made["memory_add"].acall()]
        key = store.search("tea", user_id="ann")[0].memory.id
        answers += [
            await made["memory_search"].acall(query="tea"),
            await made["memory_update"].acall(memory_id=key, importance=9),
            await made["memory_stats"].acall(),
            await made["memory_delete"].acall(memory_id=key),
        ]
        if store.database.name != ":memory:":
            await store.database.aclose()
        return key, answers

    key, answers = asyncio.run(work())
    assert answers[:2] == [f"Remembered as {key}.", "Error: content: must be passed."]
    assert json.loads(answers[2])["content"] == "Likes tea"
    assert json.loads(answers[4])["average_importance"] == 9.0
    assert [answers[3], answers[5]] == [f"Changed {key}.", "Deleted."]

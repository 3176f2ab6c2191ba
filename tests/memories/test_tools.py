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


@pytest.mark.sampled
@pytest.mark.parametrize("word", ["release ", "会议"])
def test_long_contents_are_cut_and_read_page_by_page_under_their_id(store, word) -> None:
    search = tools(store)["memory_search"]
    made = [store.add(f"meeting {i} {word * (90_000 // len(word))}", user_id="ann") for i in range(5)]
    answer = search(query="meeting")
    assert len(answer) < 18_000
    rows = [json.loads(line) for line in answer.splitlines()]
    assert len(rows) == 5
    assert all(row["content"].endswith(f" [...] (cut; the whole is {row['id']})") for row in rows)
    for way in (search, lambda **arguments: asyncio.run(tools(store)["memory_search"].acall(**arguments))):
        if store.database.name == ":memory:" and way is not search:
            continue
        pages, offset = [], 0
        while offset is not None:
            row = json.loads(way(query=made[2].id, offset=offset, limit=1))
            pages.append(row["content"])
            offset = row.get("next_offset")
        assert len(pages) == 6
        assert "".join(pages) == made[2].content


def test_short_contents_are_whole_however_many(store) -> None:
    for i in range(50):
        store.add(f"Fact {i} about {'tea ' * 70}", user_id="ann")
    rows = [json.loads(line) for line in tools(store)["memory_search"](query="", limit=50).splitlines()]
    assert len(rows) == 50
    assert not any("[...]" in row["content"] for row in rows)


LONG = "word " * 20_000


@pytest.mark.parametrize(
    ("tool", "arguments", "named"),
    [
        ("memory_add", {"tags": LONG}, "tags"),
        ("memory_add", {"tags": [LONG]}, "tags"),
        ("memory_add", {"importance": LONG}, "importance"),
        ("memory_add", {"category": LONG}, "category"),
        ("memory_add", {"content": LONG + LONG}, "content"),
        ("memory_search", {"query": [LONG]}, "query"),
        ("memory_search", {"query": "x", "min_importance": LONG}, "min_importance"),
        ("memory_search", {"query": "x", "tags": [{LONG: 1}]}, "tags"),
        ("memory_update", {"memory_id": [LONG]}, "memory_id"),
    ],
)
def test_an_error_names_the_argument_and_does_not_repeat_it(store, tool, arguments, named) -> None:
    answer = tools(store)[tool](**{"content": "x", **arguments})
    assert answer.startswith(f"Error: {named}")
    assert len(answer) < 300


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

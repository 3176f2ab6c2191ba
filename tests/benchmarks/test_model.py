"""The benchmarks of a real model, against a small server that answers as `server.mjs` does; no model runs."""

import json
import random
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from tests.extras import need

need("openai")

import httpx
import pytest
from chat import Tokens
from model import likelihood, summarise
from model.endpoint import Endpoint, Token
from model.prompts import calls_text, plain_chat

from tests.benchmarks.talk import answer, call, result, user

pytestmark = pytest.mark.repo

COUNT = Tokens("bytes4")
SAID = "The model remembers a purple elephant in the boiler room."


class Served(ThreadingHTTPServer):
    """A word that the prompt shows costs 1 nat, another 3; a prompt over `longest` characters does not fit."""

    longest = 10**9
    broken = False

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers, self.asked = "model", []
        self.address = f"http://127.0.0.1:{self.server_port}/v1"

    def reply(self, path, body):
        self.asked.append((path, body))
        if self.broken:
            return 500, {"error": {"message": "broken"}}
        if path == "/answers":
            self.answers = body["answers"]
            return 200, {"answers": self.answers}
        if path == "/v1/chat/completions":
            message = {"role": "assistant", "content": {"model": SAID, "empty": ""}.get(self.answers, self.answers)}
            return 200, {"choices": [{"index": 0, "finish_reason": "stop", "message": message}]}
        prompt = "\n".join(m["content"] for m in body["messages"])
        if len(prompt) > self.longest:
            return 400, {"error": {"message": "too long", "code": "context_length_exceeded"}}
        tokens, at = [], 0
        for word in body["continuation"].split(" "):
            end = at + len(word) + 1
            tokens.append({"start": at, "end": end, "logprob": -1.0 if word in prompt else -3.0})
            at = end
        return 200, {"prompt_tokens": len(prompt), "tokens": tokens}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status, value = self.server.reply(self.path, body)
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    with Served() as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def data(tmp_path):
    file = tmp_path / "talks.jsonl"
    file.write_text("".join(json.dumps(talk(name)) + "\n" for name in ("one", "two", "three")))
    return file


def talk(name):
    messages = [user(f"Please mend all files of {name}. The first is /src/{name}_first.py, the rest follow.")]
    for n in range(12):
        path = f"/src/{name}_{2 if n == 10 else n}.py"
        messages += [call(path=path, id_=f"c{n}"), result(f"{name} has /src/{name}_{n + 1}.py\n" * 20, f"c{n}")]
    return {"id": name, "source": "made", "messages": [*messages, answer("done")]}


def test_a_context_becomes_a_chat_of_three_roles_that_take_turns():
    context = [user("a"), user("b"), call(path="x"), result("r1"), user("c"), {"role": "assistant", "content": ""}]
    assert [(m["role"], m["content"]) for m in plain_chat(context)] == [
        ("user", "a\nb"),
        ("assistant", '<tool_call>\n{"name": "read_file", "arguments": {"path": "x"}}\n</tool_call>'),
        ("user", "<tool_response>\nr1\n</tool_response>\nc"),
    ]
    assert context[0] == user("a")  # unchanged
    assert calls_text(answer("x")) == ""


def test_tokens_that_touch_an_old_value_are_old():
    text = 'open "a\\nb" 日本'
    tokens = [
        Token(0, 5, -1),
        Token(5, 7, -2),
        Token(7, 10, -3),
        Token(10, 12, -4),
        Token(12, 12, -5),
        Token(12, 14, -6),
    ]
    assert likelihood.losses(tokens, text, ["a\nb"]) == {"old": [2, 3], "other": [1, 4, 5, 6]}
    assert likelihood.losses(tokens, text, ["日本"]) == {"old": [5, 6], "other": [1, 2, 3, 4]}
    assert likelihood.losses(tokens, text, [])["old"] == []


def test_places_come_evenly_and_each_conversation_once_before_one_comes_twice():
    talks = [talk("one"), talk("two")]
    places = likelihood.places(talks, 600, COUNT, 3)
    assert [p.conversation["id"] for p in places] == ["one", "two"] * 3
    ats = [p.decision.at for p in places if p.conversation["id"] == "one"]
    assert sorted(ats)[1] == ats[0]
    assert len(set(ats)) == 3
    assert likelihood.places(talks, 10**6, COUNT, 3) == []


def test_the_server_is_asked_for_tokens_and_says_what_does_not_fit(server):
    endpoint = Endpoint(server.address)
    assert endpoint.tokens([user("a b")], "a c") == [Token(0, 2, -1.0), Token(2, 4, -3.0)]
    server.longest = 2
    assert endpoint.tokens([user("a b")], "a c") is None
    server.broken = True
    with pytest.raises(httpx.HTTPStatusError):
        endpoint.tokens([user("a b")], "a c")


def test_a_run_measures_every_context_goes_on_and_tells(server, data, tmp_path, capsys):
    to = tmp_path / "rows.jsonl"
    given = [str(data), "--window", "600", "--counter", "bytes4", "--address", server.address, "--to", str(to)]
    likelihood.main([*given, "--each", "12", "--minutes", "0"])
    assert "places are not measured yet" in capsys.readouterr().out
    likelihood.main([*given, "--each", "12"])
    told = capsys.readouterr().out
    rows = likelihood.read(to)
    assert all(set(row["losses"]) == {"ours", "truncation", "whole"} for row in rows)
    [old] = [row for row in rows if row["old"] and row["id"] == "one"]
    assert (old["at"], old["old"]) == (21, ["/src/one_2.py"])
    assert old["losses"]["truncation"]["old"] == [3.0]  # the server finds what is not shown less likely
    assert old["losses"]["whole"]["old"] == [1.0]
    assert "| whole | old | 3 | 3 | 1.00 | -2.00 | [-2.00, -2.00] |" in told
    before = len(server.asked)
    likelihood.main([*given, "--each", "12"])
    assert capsys.readouterr().out == told
    assert len(server.asked) == before
    given += ["--whole", "100000"]
    server.longest = 4_000  # the whole history does not fit any more
    to.unlink()
    likelihood.main([*given, "--each", "12"])
    assert {name for row in likelihood.read(to) for name in row["losses"]} >= {"ours", "truncation"}
    assert not all("whole" in row["losses"] for row in likelihood.read(to))


def test_differences_are_paired_and_their_interval_is_of_conversations():
    def row(id_, mine, base):
        return {"id": id_, "losses": {"ours": {"old": mine, "other": [1]}, "truncation": {"old": base, "other": [1]}}}

    rows = [row("a", [1, 2], [3, 3]), row("a", [2], [2]), row("b", [1], [2]), row("b", [], [])]
    groups = likelihood.differences(rows, "ours", "old", "truncation")
    assert groups == {"a": [-1.5, 0.0], "b": [-1.0]}
    low, high = likelihood.interval(groups, random.Random(1))
    assert -1.0 <= low < high <= -0.75
    assert "| ours | old | 3 | 2 | 1.50 | -0.83 | [-1.00, -0.75] |" in likelihood.table(rows)
    assert "| truncation | old | 3 | 2 | 2.33 | | |" in likelihood.table(rows)


def test_what_each_way_of_writing_leaves(server, data, tmp_path, capsys):
    to = tmp_path / "rows.jsonl"
    given = [str(data), "--only", "one", "--window", "600", "--counter", "bytes4", "--address", server.address]
    ways = ["truncation", "embedded", "own", "vague", "empty"]
    summarise.main([*given, "--ways", *ways, "--to", str(to)])
    rows = {row["way"]: row for row in summarise.read(to)}
    assert list(rows) == ways
    assert server.answers == "empty"
    assert rows["own"]["replies"] == [SAID] * rows["own"]["calls"]
    assert rows["own"]["its words"][0] > 0 == rows["embedded"]["its words"][0]
    assert rows["empty"]["by rules"] > 0 == rows["own"]["by rules"]
    for way in ways:
        row = rows[way]
        assert row["contexts"] == row["its words"][1] > 5
        assert (row["over"], row["invalid"]) == (0, 0)
        assert row["goal"][0] <= row["goal"][1]
        assert row.get("retrievable", 100) == 100
    assert rows["embedded"]["constraints"][0] > rows["truncation"]["constraints"][0]
    told = capsys.readouterr().out
    assert told.count("\n") == 2 + len(ways)
    before = len(server.asked)
    summarise.main([*given, "--ways", *ways, "--to", str(to)])  # all done before
    assert capsys.readouterr().out == told
    assert len(server.asked) == before

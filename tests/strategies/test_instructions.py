"""Instruction files and skills that a tool has read stay in view: the newest of each, whole, up to a tenth of it."""

from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory, Msg
from autocontext.formats.anthropic_messages import from_anthropic
from autocontext.messages import ToolUseBlock, is_note
from autocontext.notes.instructions import instructions_of, named_in
from autocontext.strategies import View
from autocontext.strategies.instructions import instructions
from autocontext.testing import assert_valid_chat, assistant, system, tool_call, tool_exchange, tool_result, user
from autocontext.tokens import get_counter

SOURCES = AutoContextConfig().instruction_sources
COUNT = get_counter("bytes4").count


def rules(tokens: int, word: str = "tabs") -> str:
    """The text of a file, of about so many tokens."""
    lines = [f"- Rule {n}: indent module number {n} with {word}, not with anything else.\n" for n in range(tokens)]
    return "".join(lines)[: tokens * 4 - 40].rpartition("\n")[0]


def read(path: str, text: str, tool: str = "Read", **more: Any) -> list[Msg]:
    return tool_exchange(tool, {"file_path": path, **more}, text)


def coding(n: int) -> list[Msg]:
    return read(f"/srv/app/part_{n}.py", f"def f_{n}(x):\n    return x * {n}\n" * 30)


def shop(n: int) -> list[Msg]:
    return tool_exchange("get_order", {"id": f"W{n}"}, f'{{"id": "W{n}", "note": "{"Lieferung " * 60}"}}')


def checks(n: int) -> list[Msg]:
    return tool_exchange("Bash", {"command": f"pytest tests/test_{n}.py"}, f"tests/test_{n}.py . ok\n" * 60)


COUNTED = {"token_counter": "bytes4"}


def worked(window: int, *exchanges: list[Msg], **fields: Any) -> AutoContextMemory:
    memory = AutoContextMemory(AutoContextConfig.for_window(window, **COUNTED, **fields))
    memory.add_message(user("Please make the exporter faster, and keep the rules of this project."))
    for messages in exchanges:
        memory.add_messages(messages)
        memory.get_messages()
        assert memory.token_count <= window
    return memory


def results(memory: AutoContextMemory) -> list[str]:
    return [result.text for m in memory.messages for result in m.tool_results]


def notes(memory: AutoContextMemory) -> str:
    return "\n".join(m.text for m in memory.messages if is_note(m))


# ------------------------------------------------------------------------------------------------ three kinds of work
@pytest.mark.sampled
@pytest.mark.parametrize("window", [4_000, 8_000, 16_000])
class TestStays:
    def test_the_file_of_a_coding_agent(self, window: int) -> None:
        text = rules(window // 12)
        shell = tool_exchange("shell", {"command": ["bash", "-lc", "cat AGENTS.md"]}, text)
        memory = worked(window, shell, *map(coding, range(window // 100)))
        assert results(memory).count(text) == 1
        assert_valid_chat(memory.messages)

    def test_a_skill(self, window: int) -> None:
        text = rules(window // 12, "refunds")
        skill = tool_exchange("load_skill", {"skill": "refunds"}, text)
        memory = worked(window, *map(shop, range(5)), skill, *map(shop, range(window // 100)))
        assert results(memory).count(text) == 1
        assert_valid_chat(memory.messages)

    def test_the_newest_version_of_a_file_that_was_read_twice(self, window: int) -> None:
        old, new = rules(window // 12), rules(window // 12, "blanks")
        edit = tool_exchange("Edit", {"file_path": "/srv/app/CLAUDE.md", "old_string": "tabs"}, "The file was updated.")
        steps = map(checks, range(window // 80))
        first = [*read("/srv/app/CLAUDE.md", old), *checks(0), *edit]
        memory = worked(window, first, *map(checks, range(3)), read("/srv/app/CLAUDE.md", new), *steps)
        assert results(memory).count(new) == 1
        assert old not in results(memory)
        assert_valid_chat(memory.messages)

    def test_beside_large_results_of_one_message(self, window: int) -> None:
        """Anthropic's results of parallel calls are one message: only the file in it stays whole."""
        text = rules(window // 12)
        texts = {"a": ("/srv/AGENTS.md", text), "b": ("/srv/data.csv", "1;2;3\n" * window)}
        calls = [{"type": "tool_use", "id": k, "name": "Read", "input": {"path": p}} for k, (p, _) in texts.items()]
        answers = [{"type": "tool_result", "tool_use_id": k, "content": t[: window * 2]} for k, (_, t) in texts.items()]
        both = from_anthropic([{"role": "assistant", "content": calls}, {"role": "user", "content": answers}])
        memory = worked(window, both, *map(coding, range(window // 100)))
        assert results(memory).count(text) == 1
        assert "1;2;3\n" * window not in results(memory)

    def test_it_gives_way_over_a_tenth_and_the_note_says_where_it_is(self, window: int) -> None:
        large, small = rules(window // 7), rules(window // 14, "care")
        files = [read("/srv/CLAUDE.md", large), read("/srv/sub/AGENTS.md", small)]
        memory = worked(window, *files, *map(coding, range(window // 40)))
        assert small in results(memory)
        assert large not in results(memory)
        in_short = [m for m in memory.messages if any("[m3: " in r.text for r in m.tool_results)]
        assert in_short or "Instructions read:\nm3: /srv/CLAUDE.md" in notes(memory)
        assert large in [r.text for m in memory.reload("m3") for r in m.tool_results]


RULES = {
    "PROTOKOL.md": ("Przestrzegaj zasad z PROTOKOL.md.", "Read"),
    "docs/estilo_respostas.md": ("6. Lê `docs/estilo_respostas.md` antes de escrever.", "read"),
    "docs/数据修复政策.md": ("一切改动按docs/数据修复政策.md执行。", "read_file"),
    "prices-2026.csv": ("Amounts come from (prices-2026.csv).", "open_file"),
}


@pytest.mark.parametrize(("path", "said", "tool"), [(path, *rest) for path, rest in RULES.items()], ids=RULES)
@pytest.mark.parametrize("window", [4_000, 8_000])
class TestWhatTheSystemTextNames:
    def worked(self, window: int, said: str, *exchanges: list[Msg]) -> AutoContextMemory:
        memory = AutoContextMemory(AutoContextConfig.for_window(window, **COUNTED))
        memory.add_messages([system(said), user("Please go on with the work.")])
        for messages in exchanges:
            memory.add_messages(messages)
            memory.get_messages()
            assert memory.token_count <= window
        return memory

    @pytest.mark.sampled
    def test_is_an_instruction_file(self, window: int, path: str, said: str, tool: str) -> None:
        text, steps = rules(window // 12), range(window // 100)
        memory = self.worked(window, said, read(f"/srv/{path}", text, tool), *map(shop, steps))
        assert results(memory).count(text) == 1
        assert_valid_chat(memory.messages)
        other = self.worked(
            window, "Follow the rules, e.g. no md. csv", read(f"/srv/{path}", text, tool), *map(shop, steps)
        )
        assert text not in results(other)

    @pytest.mark.sampled
    def test_no_longer_once_it_was_changed(self, window: int, path: str, said: str, tool: str) -> None:
        text, steps = rules(window // 12), range(window // 100)
        edit = tool_exchange("edit", {"file_path": f"/srv/{path}", "old": "number 3", "new": "number 4"}, "done")
        memory = self.worked(window, said, read(f"/srv/{path}", text, tool), edit, *map(shop, steps))
        assert text not in results(memory)

    @pytest.mark.sampled
    def test_nor_what_only_has_the_end_of_its_name(self, window: int, path: str, said: str, tool: str) -> None:
        text, steps = rules(window // 12), range(window // 100)
        longer = path.rpartition("/")[2].partition(".")[2]
        memory = self.worked(window, said, read(f"/srv/x.{longer}", text, tool), *map(shop, steps))
        assert text not in results(memory)


def test_what_the_system_text_names_leaves_room_to_instruction_files() -> None:
    first, named = rules(600, "tabs"), rules(600, "blanks")
    messages = [system("See README.md."), user("Go on."), *read("/r/AGENTS.md", first), *read("/r/README.md", named)]
    view = View([m.id for m in messages], messages, lambda _, m: COUNT(m))
    kept = instructions(AutoContextConfig.for_window(8_000, **COUNTED), view)
    assert [view.messages[view.ids.index(id_)].tool_results[0].text for id_ in kept] == [first]


@pytest.mark.parametrize(
    ("path", "edited"),
    [
        ("/r/docs/prices.md", "docs/prices.md"),
        ("C:\\r\\prices.md", "C:\\r\\prices.md"),
        ("docs/prices.md", "prices.md"),
    ],
)
@pytest.mark.parametrize("failed", [True, False])
def test_a_change_of_a_named_file_counts_in_any_spelling_if_it_went_well(path: str, edited: str, failed: bool) -> None:
    call, answer = tool_exchange("Edit", {"file_path": edited, "new": "x"}, "not found" if failed else "done")
    result = answer.tool_results[0].model_copy(update={"is_error": failed})
    edit = [call, answer.model_copy(update={"content": (result,)})]
    messages = [system("Answer by prices.md."), user("Go on."), *read(path, rules(200)), *edit]
    view = View([m.id for m in messages], messages, lambda _, m: COUNT(m))
    assert bool(instructions(AutoContextConfig.for_window(8_000, **COUNTED), view)) is failed


@pytest.mark.parametrize(
    "command",
    [
        "cat rules.md && make all",
        "python3 setup.py; cat docs/rules.md",
        "cd docs && cat rules.md > /tmp/x; cat rules.md",
    ],
)
def test_a_command_that_reads_it_among_others_is_no_change_of_it(command: str) -> None:
    text = rules(200)
    messages = [system("Follow rules.md."), user("Go on."), *tool_exchange("run", {"command": command}, text)]
    view = View([m.id for m in messages], messages, lambda _, m: COUNT(m))
    kept = instructions(AutoContextConfig.for_window(8_000, **COUNTED), view)
    assert [view.messages[view.ids.index(id_)].tool_results[0].text for id_ in kept] == [text]


def test_calls_that_are_looked_at_for_changes_are_few_however_many_files_the_system_text_names() -> None:
    names = [f"part_{n}.py" for n in range(200)]
    messages = [system("Layout: " + " ".join(names)), user("Go on.")]
    for name in names:
        messages += read(f"/r/{name}", f"def f():\n    return '{name}'\n")
        messages += tool_exchange("Edit", {"file_path": "/r/other.py", "new": name[:4]}, "done")
    view = View([m.id for m in messages], messages, lambda _, m: COUNT(m))
    kept = instructions(AutoContextConfig.for_window(100_000, **COUNTED), view)
    assert 0 < len(kept) <= 16


@pytest.mark.parametrize("text", ["Use prices.csv.gz.", "Use my-prices.csv", "Use prices.csv-old"])
def test_a_longer_name_names_another_file(text: str) -> None:
    assert not named_in(text, "prices.csv")
    assert named_in(f"{text} and prices.csv.", "data/prices.csv")


@pytest.mark.slow
def test_it_can_be_switched_off_and_extended() -> None:
    text = rules(300)
    work = [read("/srv/AGENTS.md", text), read("/srv/.cursor/rules/style.mdc", text), *map(coding, range(80))]
    assert text not in results(worked(4_000, *work, instruction_sources=()))
    own = worked(4_000, *work, instruction_sources=(".cursor/rules/*.mdc",))
    assert results(own).count(text) == 1
    assert ".mdc" in str([use.input for m in own.messages for use in m.tool_uses])
    assert AutoContextConfig.agentscope_java().instruction_sources == ()


def test_it_gives_way_before_the_view_is_over_the_window() -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(4_000, **COUNTED))
    memory.add_messages([user("Sort this: " + "one two three " * 950), *read("AGENTS.md", rules(350))])
    memory.add_messages([assistant("All of it?"), user("Yes, and the rest " + "four five six " * 60)])
    memory.get_messages()
    assert memory.token_count <= 4_000


# -------------------------------------------------------------------------------------------------- what is a reading
@pytest.mark.parametrize(
    ("tool", "arguments", "names"),
    [
        ("Read", {"file_path": "/srv/CLAUDE.md"}, ("/srv/CLAUDE.md",)),
        ("read_file", {"path": ".\\docs\\agents.MD"}, ("docs/agents.MD",)),
        ("mcp__fs__read_text_file", {"path": "./a/../GEMINI.md"}, ("GEMINI.md",)),
        ("str_replace_based_edit_tool", {"command": "view", "path": "/x/.cursorrules"}, ("/x/.cursorrules",)),
        ("bash", {"command": "cd /x && cat AGENTS.md 'sub/CLAUDE.md'"}, ("AGENTS.md", "sub/CLAUDE.md")),
        ("shell", {"command": ["bash", "-lc", "sed -n '1,200p' skills/pdf/SKILL.md"]}, ("skills/pdf/SKILL.md",)),
        ("Skill", {"command": "pdf"}, ('["Skill", {"command": "pdf"}]',)),
        ("read_multiple_files", {"paths": ["src/a.py", "./CLAUDE.md"]}, ("CLAUDE.md",)),
        ("read_files", {"files": [{"path": "AGENTS.md"}, {"path": "sub/AGENTS.md"}]}, ("AGENTS.md", "sub/AGENTS.md")),
        ("read_many_files", {"include": ["AGENTS.md"], "exclude": ["CLAUDE.md"]}, ("AGENTS.md",)),
        ("read_file", {"path": ["AGENTS.md", 3, None, {"lines": 4}]}, ("AGENTS.md",)),
        ("powershell", {"command": "Get-Content -Raw .\\AGENTS.md"}, ("AGENTS.md",)),
        ("powershell", {"command": "cd docs; gc CLAUDE.md | Select-Object -First 9"}, ("CLAUDE.md",)),
        ("cmd", {"command": "type sub\\AGENTS.md"}, ("sub/AGENTS.md",)),
        ("write_files", {"files": [{"path": "AGENTS.md", "content": "x"}]}, None),
        ("Write", {"file_path": "/srv/CLAUDE.md", "content": "x"}, None),
        ("str_replace_based_edit_tool", {"command": "create", "path": "/x/AGENTS.md", "file_text": "x"}, None),
        ("bash", {"command": "cat <<EOF > AGENTS.md\nx\nEOF"}, None),
        ("bash", {"command": "grep -rn CLAUDE.md . ; ls AGENTS.md; git diff AGENTS.md; sed -i s/a/b/ AGENTS.md"}, None),
        ("bash", {"command": "sed s/tabs/blanks/ AGENTS.md; sed 5q AGENTS.md"}, None),
        ("bash", {"command": "git commit -n AGENTS.md; tee -n AGENTS.md"}, None),
        ("Read", {"file_path": "/srv/MY-CLAUDE.md.py"}, None),
        ("Grep", {"pattern": "x", "path": "AGENTS.md"}, None),
        ("search", {"query": "skill"}, None),
    ],
)
def test_names_of_files_and_tools_decide(tool: str, arguments: dict[str, Any], names: tuple[str, ...] | None) -> None:
    found = instructions_of(ToolUseBlock(id="c", name=tool, input=arguments), SOURCES)
    assert (found and found.names) == names


@pytest.mark.parametrize(
    ("tool", "part", "whole"),
    [
        ("read_files", {"files": [{"path": "AGENTS.md", "end_line": 9}]}, {"files": [{"path": "AGENTS.md"}]}),
        ("read_files", {"paths": ["AGENTS.md"], "limit": 9}, {"paths": ["AGENTS.md"]}),
        ("powershell", {"command": "gc AGENTS.md | select -First 9"}, {"command": "gc AGENTS.md"}),
        ("powershell", {"command": "Get-Content AGENTS.md -TotalCount 9"}, {"command": "Get-Content AGENTS.md"}),
    ],
)
def test_a_part_does_not_stand_for_the_whole(tool: str, part: dict[str, Any], whole: dict[str, Any]) -> None:
    some, every = (instructions_of(ToolUseBlock(id="c", name=tool, input=use), SOURCES) for use in (part, whole))
    assert some is not None
    assert every is not None
    assert (every.covers(some), some.covers(every)) == (True, False)
    # Beside another file it is still all of this one.
    both = ToolUseBlock(id="c", name="read_files", input={"paths": ["a.py", "AGENTS.md"]})
    assert instructions_of(both, SOURCES).part == ""  # type: ignore[union-attr]


def kept(*exchanges: list[Msg], window: int = 100_000) -> list[str]:
    """The results that stay, in order."""
    messages = [m for exchange in exchanges for m in exchange]
    whole = instructions(AutoContextConfig.for_window(window), View.of(messages, COUNT))
    return [m.content[k].text for m in messages for k in sorted(whole.get(m.id, ()))]  # type: ignore[union-attr]


def both(files: str, text: str) -> list[Msg]:
    return list(tool_exchange("bash", {"command": f"cat {files}"}, text))


OTHERS = "Quite other words " * 30
STUB = "File unchanged since last read. The earlier result is still current."


@pytest.mark.parametrize(
    ("exchanges", "left"),
    [
        # Another tool, the same file.
        ([read("/s/AGENTS.md", rules(99)), tool_exchange("bash", {"command": "cat /s/AGENTS.md"}, rules(99))], [1]),
        # A relative path, and a file of that name in another folder.
        ([read("/s/AGENTS.md", rules(99)), read("AGENTS.md", rules(99) + "\n- More.")], [1]),
        ([read("/s/AGENTS.md", rules(99)), read("/s/sub/AGENTS.md", rules(99))], [0, 1]),
        ([read("AGENTS.md", rules(99)), read("AGENTS.md", "Quite other words " * 9)], [0, 1]),
        (
            [
                read("AGENTS.md", rules(99)),
                tool_exchange("bash", {"command": "grep -c tabs AGENTS.md"}, "99"),
                read("AGENTS.md", "Quite other words " * 9),
            ],
            [0, 2],
        ),
        # Two files in one call: a reading of one stands for no more than that one.
        ([both("/s/AGENTS.md /s/CLAUDE.md", rules(99)), read("/s/AGENTS.md", rules(99))], [0, 1]),
        ([both("/s/AGENTS.md /s/CLAUDE.md", rules(99)), read("/s/CLAUDE.md", rules(99))], [0, 1]),
        ([read("/s/AGENTS.md", rules(99)), both("/s/AGENTS.md /s/CLAUDE.md", rules(99) + "\n- More.")], [1]),
        ([read("/s/CLAUDE.md", rules(99)), both("/s/AGENTS.md /s/CLAUDE.md", rules(99) + "\n- More.")], [1]),
        # One of them may be in another folder.
        ([both("AGENTS.md /s/CLAUDE.md", rules(99)), both("AGENTS.md /s/CLAUDE.md", OTHERS)], [0, 1]),
        ([both("/s/AGENTS.md /s/CLAUDE.md", rules(99)), both("/s/AGENTS.md /s/CLAUDE.md", OTHERS)], [1]),
        # A part does not stand for the whole, nor a failure, nor a line that says that nothing has changed.
        ([read("/s/AGENTS.md", rules(99)), read("/s/AGENTS.md", rules(20), limit=9)], [0, 1]),
        ([read("/s/AGENTS.md", rules(99)), read("/s/AGENTS.md", "Error: no such file")], [0]),
        ([read("/s/AGENTS.md", rules(99)), read("/s/AGENTS.md", STUB)], [0, 1]),
        # All is new, though no call says so; and nearly nothing is left, by a call.
        ([read("/s/AGENTS.md", rules(99)), read("/s/AGENTS.md", "Quite other words " * 30)], [1]),
        (
            [
                read("AGENTS.md", rules(99)),
                tool_exchange("bash", {"command": "echo Go > AGENTS.md"}, ""),
                read("AGENTS.md", "Go"),
            ],
            [2],
        ),
    ],
)
def test_the_newest_reading_stands_for_older_ones(exchanges: list[list[Msg]], left: list[int]) -> None:
    assert kept(*exchanges) == [exchanges[i][1].tool_results[0].text for i in left]


def test_a_newer_reading_that_was_cut_still_makes_the_older_one_old() -> None:
    newer = "Short words. [m9: 3,412 of 3,657 characters left out]"
    assert kept(read("/s/AGENTS.md", rules(99)), read("/s/AGENTS.md", newer)) == []


PATHS = st.sampled_from(("AGENTS.md", "/srv/CLAUDE.md", "/srv/sub/AGENTS.md", "main.py"))


@given(st.lists(st.tuples(PATHS, st.integers(1, 400), st.sampled_from(("tabs", "blanks"))), max_size=12))
@example([("/srv/CLAUDE.md", 86, "tabs"), ("/srv/CLAUDE.md", 40, "blanks")])
def test_what_stays_is_whole_takes_a_tenth_and_has_each_text_of_a_file_once(readings: list[Any]) -> None:
    exchanges = [read(path, rules(60 + size, word)) for path, size, word in readings]
    texts = kept(*exchanges, window=5_000)
    assert sum(COUNT(tool_result("c", text)) for text in texts) <= 600  # 500 and their frames
    assert all(text in [m.tool_results[0].text for _, m in exchanges] for text in texts)
    newest = {path: rules(60 + size, word) for path, size, word in readings if path.startswith("/srv/")}
    if len(newest) == 1 and not any(path == "AGENTS.md" for path, *_ in readings):
        (text,) = newest.values()
        longest = max(len(rules(60 + size, word)) for path, size, word in readings if path in newest)
        assume(2 * len(text) >= longest)  # a much shorter text may only say that the file is the same
        assert texts == ([text] if COUNT(tool_result("c", text)) <= 500 else []) or COUNT(tool_result("c", text)) > 480


@pytest.mark.slow
@given(st.data())
def test_a_pass_leaves_what_stays_as_it_is(data: st.DataObject) -> None:
    steps = st.sampled_from((coding, shop, checks))
    work = [data.draw(steps)(n) for n in range(data.draw(st.integers(10, 60)))]
    text = rules(data.draw(st.integers(60, 250)))
    at = data.draw(st.integers(0, len(work)))
    memory = worked(4_000, *work[:at], read("/srv/AGENTS.md", text), *work[at:])
    assert text in results(memory)
    assert_valid_chat(memory.messages)


@pytest.mark.slow
def test_calls_of_the_same_message_are_shortened_all_the_same() -> None:
    call = tool_call("Read", {"file_path": "/s/AGENTS.md"}, id="a")
    more = ToolUseBlock(id="b", name="Write", input={"file_path": "/s/x.py", "content": "x = 1\n" * 900})
    call = call.model_copy(update={"content": (*call.content, more)})
    step = [call, tool_result("a", rules(250)), tool_result("b", "written")]
    memory = worked(4_000, step, *map(coding, range(60)))
    assert rules(250) in results(memory)
    assert "x = 1\n" * 900 not in str([use.input for m in memory.messages for use in m.tool_uses])

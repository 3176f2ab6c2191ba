"""Older images give way to lines: the request stays within its limits, its prefix holds, and every image comes back."""

import asyncio
import base64
import json
import random
import struct
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory, ImageBlock, Msg, TextBlock, ToolResultBlock
from autocontext.events import IMAGES_LEFT_OUT
from autocontext.formats.openai_responses import from_responses
from autocontext.testing import ScriptedModel, assert_valid_chat, assistant, system, tool_call, tool_exchange, user
from autocontext.tokens import get_counter
from autocontext.tokens.media import media_tokens
from autocontext.tokens.request_size import images_in
from tests.fakes.anthropic_server import _check_pairs, _check_shape
from tests.fakes.chat_rules import check_messages
from tests.fakes.openai_responses import as_chat
from tests.fakes.openai_server import _check_parts
from tests.invariants import ESTIMATE, check, unreachable

WINDOW = AutoContextConfig.for_window(100_000)


# ---------------------------------------------------------------------------------------------------------- images
def png(seed: int, size: int = 25_000, width: int = 1024, height: int = 768) -> str:
    """The base64 of what looks like a PNG file of about so many bytes; each seed has its own."""
    head = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sIIBBBBB", 13, b"IHDR", width, height, 8, 2, 0, 0, 0)
    return base64.b64encode(head + random.Random(seed).randbytes(size)).decode()


def image(seed: int, size: int = 25_000, **fields: Any) -> ImageBlock:
    return ImageBlock(source={"type": "base64", "media_type": "image/png", "data": png(seed, size)}, **fields)


def address(seed: int) -> ImageBlock:
    return ImageBlock(source={"type": "url", "url": f"https://example.org/shots/{seed}.png?signature=secret"})


def screenshot(n: int, *images: ImageBlock, text: str = "The page shows a form.") -> list[Msg]:
    """A step of an agent that looks at its screen."""
    output = [TextBlock(text=text), *(images or (image(n),))]
    result = ToolResultBlock(id=f"call_{n}", name="screenshot", output=output)
    return [tool_call("screenshot", {"step": n}, id=f"call_{n}"), Msg(role="tool", content=[result])]


def shown(messages: Iterable[Msg]) -> list[ImageBlock]:
    return [block for m in messages for _, block in images_in(m)]


def unseen(messages: list[Msg]) -> list[ImageBlock]:
    """Those after the last message of the model."""
    last = max((i for i, m in enumerate(messages) if m.role == "assistant"), default=-1)
    return shown(messages[last + 1 :])


def text_of(memory: AutoContextMemory) -> str:
    return json.dumps([m.to_dict() for m in memory.messages])


def requests(memory: AutoContextMemory) -> list[list[dict[str, Any]]]:
    """What is sent to three services, as strict ones take it."""
    openai = memory.to_openai()
    assert_valid_chat(openai)
    check_messages(openai, frozenset({"system", "user", "assistant", "tool"}))
    _check_parts(openai)
    anthropic = memory.to_anthropic()
    for i, message in enumerate(anthropic):
        _check_shape(message, f"messages.{i}")
    _check_pairs(anthropic)
    return [openai, anthropic, memory.to_responses()]


def put_all_back(memory: AutoContextMemory) -> None:
    """Undo every replacement of images that is in view; a message may have lost some twice."""
    while rewritten := [m.origin.uuid for m in memory.messages if m.origin is not None]:
        assert all(memory.undo(uuid) for uuid in rewritten)


# ------------------------------------------------------------------------------------------------------- property
class Step(NamedTuple):
    """What comes next in a conversation: images as (kind, bytes)."""

    who: str
    images: list[tuple[str, int]]


IMAGES = st.lists(
    st.tuples(st.sampled_from(["inline", "data url", "address", "no picture"]), st.sampled_from([30_000, 9_000, 90])),
    max_size=4,
)
STEPS = st.lists(
    st.builds(Step, st.sampled_from(["user", "tool", "tools", "beside", "agent", "pinned"]), IMAGES), max_size=10
)
BIG = ("inline", 30_000)


def made(kind: str, size: int, seed: int) -> ImageBlock:
    if kind == "address":
        return address(seed)
    if kind == "no picture":
        return ImageBlock(source={"type": "base64", "media_type": "image/x-[odd]\n", "data": "not base64 " * 40})
    if kind == "data url":
        return ImageBlock(source={"type": "url", "url": f"data:image/png;base64,{png(seed, size)}"})
    return image(seed, size)


def played(n: int, step: Step) -> list[Msg]:
    images = [made(kind, size, 100 * n + k) for k, (kind, size) in enumerate(step.images)]
    if step.who == "agent":
        return [assistant(f"Step {n} is done.")]
    if step.who == "tool":
        return screenshot(n, *images)
    if step.who == "tools":  # several calls of one message, each with a share of the images
        calls = [tool_call("look", {"at": k}, id=f"c{n}_{k}") for k in range(2)]
        both = Msg(role="assistant", content=[b for call in calls for b in call.content])
        halves = images[::2], images[1::2]
        results = [ToolResultBlock(id=f"c{n}_{k}", output=half or "nothing") for k, half in enumerate(halves)]
        return [both, *(Msg(role="tool", content=[result]) for result in results)]
    if step.who == "beside":  # Anthropic's form: a result and images in one message
        call, result = tool_exchange("click", {"n": n}, "clicked", id=f"b{n}")
        return [call, Msg(role="user", content=[*result.content, *images])]
    words = TextBlock(text=f"Look at this, please: {n}")
    pinned = {"metadata": {"pinned": True}} if step.who == "pinned" else {}
    return [Msg(role="user", content=[words, *(images[:1] if pinned else images)], **pinned)]


@given(STEPS, st.integers(0, 6) | st.none(), st.integers(60_000, 120_000) | st.none(), st.booleans())
@example([Step("user", [BIG] * 4), Step("agent", []), Step("tool", [BIG])], None, 60_000, False)
@example([Step("tools", [BIG] * 2), Step("beside", [BIG, ("data url", 30_000)])], None, 100_000, True)
def test_any_mix_of_images_stays_within_the_limits_and_comes_back(
    steps: list[Step], most: int | None, room: int | None, java: bool
) -> None:
    fields = {"max_images": most, "max_request_bytes": room}
    config = AutoContextConfig.agentscope_java(**fields) if java else WINDOW.model_copy(update=fields | ESTIMATE)
    memory = AutoContextMemory(config, ScriptedModel("In short."))
    memory.add_messages([user("Begin.")])
    for n, step in enumerate(steps):
        memory.add_messages(played(n, step))
        bodies = requests(memory)
        view = memory.messages
        pinned = shown(m for m in view if m.metadata.get("pinned"))
        if most is not None:
            held = {id(b) for b in [*pinned, *(unseen(view) if most else [])]}
            assert len(shown(view)) <= max(most, len(held))
        if room is not None and all(len(json.dumps(b.source["data"])) < 100 for b in pinned if "data" in b.source):
            assert all(len(json.dumps(body, ensure_ascii=False).encode()) <= room for body in bodies)
    check(memory)
    originals = memory.get_original_memory_msgs()
    assert unreachable(memory, originals) == []
    assert all(m in memory.reload(f"m{n}") for n, m in enumerate(originals, start=1))
    put_all_back(memory)
    assert memory.messages == originals


# ------------------------------------------------------------------------------------------- three kinds of work
def browser_agent(steps: int) -> list[list[Msg]]:
    return [[user("Book a table for two at eight.")], *(screenshot(n) for n in range(steps))]


def desktop_agent(steps: int) -> list[list[Msg]]:
    """Each action and its screenshot in the form of Anthropic's computer tool; now and then a word of the user."""
    made: list[list[Msg]] = [[user("Fill in the tax form.")]]
    for n in range(steps):
        if n % 20 == 10:
            made.append([assistant("A page is done."), user("Go on, please.")])
        call, result = tool_exchange("computer", {"action": "left_click", "coordinate": [n, n]}, "ok", id=f"d{n}")
        made.append([call, Msg(role="user", content=[*result.content, image(n)])])
    return made


def uploads(steps: int) -> list[list[Msg]]:
    """Photographs of receipts, one after the other, each answered."""
    made = [[system("You file receipts.")]]
    for n in range(steps):
        receipt = Msg(role="user", content=[TextBlock(text=f"Receipt {n}, please."), image(n)])
        made.append([receipt])
        made.append([assistant(f"Receipt {n} is filed under travel: 4{n}.50 EUR.")])
    return made


def computer_use(steps: int) -> list[list[Msg]]:
    """The same in the form of OpenAI's computer tool."""
    made: list[list[Msg]] = [[user("Fill in the tax form.")]]
    for n in range(steps):
        click = {"type": "click", "button": "left", "x": n, "y": n}
        call = {"type": "computer_call", "id": f"cu_{n}", "call_id": f"c{n}", "action": click, "status": "completed"}
        shot = {"type": "computer_screenshot", "image_url": f"data:image/png;base64,{png(n)}"}
        result = {"type": "computer_call_output", "call_id": f"c{n}", "output": shot}
        made.append(from_responses([{**call, "pending_safety_checks": []}, result]))
    return made


WORK = pytest.mark.parametrize("work", [browser_agent, desktop_agent, computer_use, uploads])


@pytest.mark.sampled
@WORK
def test_sixty_images_break_the_prefix_nineteen_times(work: Any) -> None:
    """Six are too many, three stay: a pass comes with each third image, and what stands before it stays as it was."""
    memory = AutoContextMemory(WINDOW)
    breaks, sent = 0, []
    for messages in work(60):
        memory.add_messages(messages)
        now = memory.get_messages()
        as_chat({"input": memory.to_responses()})
        assert 0 <= len(shown(now)) <= 5
        breaks += now[: len(sent)] != sent
        sent = now
    assert breaks == 19
    assert {e.event_type for e in memory.get_compression_events()} == {IMAGES_LEFT_OUT}
    assert [b.source["data"] for b in shown(sent)][-3:] == [png(n) for n in (57, 58, 59)]
    assert len(json.dumps(memory.to_openai())) < 300_000


def test_bytes_leave_room_for_several_images_before_the_next_pass() -> None:
    """A megabyte holds 29 screenshots of 34 KB; when it is full, half of them go."""
    memory = AutoContextMemory(AutoContextConfig(max_request_bytes=1_000_000, msg_threshold=1_000))
    passes = []
    for messages in browser_agent(60):
        memory.add_messages(messages)
        memory.get_messages()
        passes.append(len(shown(memory.messages)))
    assert max(passes) == 29
    left = [after for before, after in pairwise(passes) if after < before]
    assert len(left) == 3
    assert set(left) <= {13, 14}


@WORK
def test_a_line_says_which_image_stood_there_and_everything_comes_back_from_a_file(work: Any, tmp_path: Path) -> None:
    with AutoContextMemory.open(tmp_path / "a.db", session_id="s", window=100_000) as memory:
        for messages in work(12):
            memory.add_messages(messages)
            memory.get_messages()
        written = text_of(memory)
    with AutoContextMemory.open(tmp_path / "a.db", session_id="s", window=100_000) as memory:
        assert text_of(memory) == written
        assert len(memory.get_messages()) == len(memory.get_original_memory_msgs())
        originals = memory.get_original_memory_msgs()
        first = next(n for n, m in enumerate(originals) if shown([m]))
        line = f"[image m{first + 1}: 1,024 x 768 PNG, 25 KB, left out]"
        assert line in json.dumps(memory.to_openai())
        assert originals[first] in memory.reload(f"m{first + 1}")
        assert unreachable(memory, originals) == []
        put_all_back(memory)
        assert memory.messages == originals
        memory.get_messages()
        assert len(shown(memory.messages)) <= 5


# ------------------------------------------------------------------------------------------------------- what stays
def test_new_images_stay_until_the_model_has_answered_them() -> None:
    memory = AutoContextMemory(WINDOW)
    photographs = [image(n, 1_000) for n in range(9)]
    memory.add_messages([Msg(role="user", content=[TextBlock(text="Which is the best?"), *photographs])])
    assert shown(memory.get_messages()) == photographs
    memory.add_messages([assistant("The third.")])
    assert shown(memory.get_messages()) == photographs[-3:]
    assert "Which is the best?" in memory.messages[0].text


def test_bytes_alone_start_a_pass_and_even_new_images_give_way_to_them() -> None:
    memory = AutoContextMemory(AutoContextConfig(max_request_bytes=200_000))
    pages = [image(n, 60_000) for n in range(4)]
    memory.add_messages([Msg(role="user", content=[TextBlock(text="Read these."), *pages])])
    assert shown(memory.get_messages()) == pages[-2:]
    assert len(json.dumps(memory.to_openai())) < 200_000


# ----------------------------------------------------------------------------------------------------------- files
def pdf(n: int, size: int = 60_000) -> str:
    return base64.b64encode(b"%PDF-1.7\n" + random.Random(n).randbytes(size)).decode()


def chat_file(n: int) -> list[Any]:
    part = {"type": "file", "file": {"filename": f"合同 {n}.pdf", "file_data": f"data:application/pdf;base64,{pdf(n)}"}}
    return [{"role": "user", "content": [{"type": "text", "text": f"Contract {n}:"}, part]}, READ]


def input_file(n: int) -> list[Any]:
    part = {"type": "input_file", "filename": f"合同 {n}.pdf", "file_data": f"data:application/pdf;base64,{pdf(n)}"}
    return [{"role": "user", "content": [{"type": "input_text", "text": f"Contract {n}:"}, part]}, READ]


def document(n: int) -> list[Any]:
    source = {"type": "base64", "media_type": "application/pdf", "data": pdf(n)}
    part = {"type": "document", "source": source, "title": f"合同 {n}.pdf"}
    return [{"role": "user", "content": [{"type": "text", "text": f"Contract {n}:"}, part]}, READ]


def generated(n: int) -> list[Any]:
    item = {"type": "image_generation_call", "id": f"ig_{n}", "status": "completed", "result": png(n, 60_000)}
    return [{"role": "user", "content": f"Draw contract {n}."}, item]


READ = {"role": "assistant", "content": "Read."}
FILES = {
    "chat": (chat_file, AutoContextMemory.to_openai, "[file m1: 合同 0.pdf, 60 KB, left out]"),
    "responses": (input_file, AutoContextMemory.to_responses, "[file m1: 合同 0.pdf, 60 KB, left out]"),
    "anthropic": (document, AutoContextMemory.to_anthropic, "[file m1: 合同 0.pdf, 60 KB, left out]"),
    "generated": (generated, AutoContextMemory.to_responses, "[image m2: 1,024 x 768 PNG, 60 KB, left out]"),
}


@pytest.mark.parametrize(("made", "write", "line"), FILES.values(), ids=FILES)
def test_older_files_give_way_where_a_request_has_too_many_bytes(made: Any, write: Any, line: str) -> None:
    """The newest stays, and everything comes back."""
    memory = AutoContextMemory(WINDOW.model_copy(update={"max_request_bytes": 200_000}))
    for n in range(5):
        memory.add(made(n))
        sent = write(memory)
        assert len(json.dumps(sent)) < 200_000
        assert made(n)[-1] in sent or made(n)[0] in sent
    memory.add({"role": "user", "content": "Compare them."})
    sent = json.dumps(write(memory), ensure_ascii=False)
    assert line in sent
    data = pdf if "file" in line else png
    assert data(0, 60_000) not in sent
    assert data(4, 60_000) in sent
    assert memory.overflow() == ""
    put_all_back(memory)
    assert memory.messages == memory.get_original_memory_msgs()


PASTED = "Line of a log that was pasted here, and nothing in it.\n" * 900


@pytest.mark.parametrize("made", [chat_file, input_file, document])
def test_a_text_that_is_shortened_takes_no_file_with_it(made: Any) -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(8_000))
    [words, part] = made(1)[0]["content"]
    memory.add([{"role": "user", "content": [{**words, "text": PASTED}, part]}, READ])
    memory.add({"role": "user", "content": "And?"})
    sent = [*memory.to_openai(), *memory.to_responses(), *memory.to_anthropic()]
    assert len(memory.messages[0].text) < 1_000
    assert part in [p for message in sent if isinstance(message["content"], list) for p in message["content"]]


def test_a_result_that_is_shortened_keeps_its_file() -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(8_000))
    part = document(1)[0]["content"][1]
    for n in range(6):
        call = {"type": "tool_use", "id": f"c{n}", "name": "read", "input": {"n": n}}
        content = [{"type": "text", "text": PASTED[: 9_000 + n]}, *([] if n else [part])]
        result = {"type": "tool_result", "tool_use_id": f"c{n}", "content": content}
        memory.add([{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}])
        memory.to_anthropic()
    assert len(memory.messages[1].tool_results[0].text) < 1_000
    assert part in memory.to_anthropic()[2]["content"][0]["content"]  # a line of the user stands first


def test_an_image_that_the_provider_made_costs_as_others() -> None:
    count = get_counter("o200k_base").count
    item = generated(1)[1]
    [msg] = from_responses([item])
    without = count(msg.model_copy(update={"content": (TextBlock(text=msg.text),)}))
    assert count(msg) - without == media_tokens(image(1))


def test_as_many_images_that_the_provider_made_stay_as_others() -> None:
    memory = AutoContextMemory(WINDOW)
    for n in range(12):
        memory.add(generated(n))
        assert sum(item.get("type") == "image_generation_call" for item in memory.to_responses()) <= 5
    assert memory.to_responses()[-1] == generated(11)[-1]


@pytest.mark.parametrize("made", [chat_file, document])
@pytest.mark.parametrize("answered", [True, False])
def test_what_a_file_takes_pushes_no_new_image_out(made: Any, answered: bool) -> None:
    """Without the image the request would be too large all the same."""
    memory = AutoContextMemory(WINDOW.model_copy(update={"max_request_bytes": 50_000}))
    memory.add(made(0)[: 1 + answered])
    memory.add_messages([Msg(role="user", content=[TextBlock(text="Is this the signature?"), image(1, 3_000)])])
    assert shown(memory.get_messages()) == [image(1, 3_000)]
    assert made(0)[0] in (*memory.to_openai(), *memory.to_anthropic())
    assert "more than max_request_bytes (50,000); the largest part is the user message" in memory.overflow()


def test_an_image_of_the_users_last_message_outlives_older_screenshots() -> None:
    memory = AutoContextMemory(WINDOW)
    design = image(999)
    memory.add_messages([Msg(role="user", content=[TextBlock(text="Make the page look like this."), design])])
    for n in range(20):
        memory.add_messages(screenshot(n))
        assert design in shown(memory.get_messages())


def test_pinned_images_those_of_protected_tools_and_notes_of_addresses() -> None:
    config = WINDOW.model_copy(update={"max_images": 2, "protected_tools": frozenset({"context_reload", "look"})})
    memory = AutoContextMemory(config)
    pinned = Msg(role="user", content=[TextBlock(text="The plan."), image(1)], metadata={"pinned": True})
    look = ToolResultBlock(id="l", name="look", output=[image(2)])
    memory.add_messages([pinned, tool_call("look", id="l"), Msg(role="tool", content=[look])])
    memory.add_messages([m for n in range(3) for m in screenshot(n, address(n))])
    memory.add_messages([assistant("Done."), user("Thanks.")])
    assert shown(memory.get_messages()) == [image(1), image(2)]
    assert "[image m5: https://example.org/shots/0.png, left out]" in text_of(memory)
    assert "secret" not in "".join(r.text for m in memory.messages for r in m.tool_results)


def test_limits_that_cannot_be_kept_start_no_pass_again_and_again() -> None:
    memory = AutoContextMemory(WINDOW)
    pinned = [Msg(role="user", content=[image(n, 100)], metadata={"pinned": True}) for n in range(8)]
    memory.add_messages([*pinned, assistant("Eight.")])
    assert len(shown(memory.get_messages())) == 8
    assert memory.compress_if_needed().outcome == "not_needed"
    assert not memory.get_compression_events()


def test_the_reference_s_presets_keep_every_image() -> None:
    for config in (AutoContextConfig.agentscope_java(), AutoContextConfig(max_request_bytes=None)):
        memory = AutoContextMemory(config, ScriptedModel("In short."))
        memory.add_messages([m for messages in browser_agent(20) for m in messages])
        assert len(shown(memory.get_messages())) == 20


def test_the_line_outlives_a_short_form_of_its_result() -> None:
    """`shorten` writes a result's text anew: the line beside it stays, so that nobody takes the image for gone."""
    config = WINDOW.model_copy(update={"keep_recent": 0.0, "target_ratio": 0.02, "last_resort": False})
    memory = AutoContextMemory(config)
    page = "\n".join(f"Line {n} of the page has nothing of interest." for n in range(200))
    memory.add_messages([user("Read."), *(m for n in range(8) for m in screenshot(n, text=page)), assistant("Read.")])
    memory.get_messages()
    memory.compress_if_needed(force=True)
    result = memory.messages[2].tool_results[0]
    assert "characters left out]" in result.text
    assert "[image m3: 1,024 x 768 PNG, 25 KB, left out]" in result.text.splitlines()


@pytest.mark.parametrize("background", [False, True])
def test_asynchronous_readers_and_passes_in_the_background(background: bool) -> None:
    """With `background` a turn waits for images as it does for a full window: no model is asked."""

    async def run() -> None:
        memory = AutoContextMemory(WINDOW.model_copy(update={"background": background}))
        for messages in browser_agent(12):
            memory.add_messages(messages)
            assert len(shown(await memory.aget_messages())) <= 5

    asyncio.run(run())


def test_a_larger_window_brings_texts_back_and_no_images() -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(16_000))
    for messages in browser_agent(20):
        memory.add_messages(messages)
        memory.get_messages()
    before = memory.messages
    memory.resize(200_000)
    assert memory.get_messages() == before


def test_forty_equal_screenshots_leave_little_in_view() -> None:
    memory = AutoContextMemory(WINDOW)
    for n in range(40):
        memory.add_messages(screenshot(n, image(1)))
        memory.get_messages()
    assert len(shown(memory.messages)) <= 5
    assert len(json.dumps(memory.to_openai())) < 200_000

"""All parts on one database: a scripted agent in a small window, restarted in the middle, loses nothing.

Runs offline. A tool's large results go to the content store, repeated calls come from the cache, what is known about
the user is put into each request, and what was removed from the context is read back at the end, byte for byte.
"""

import tempfile
from pathlib import Path

from autocontext import AutoContext, AutoContextConfig, Msg, ToolUseBlock
from autocontext.suite import Session

WINDOW = 8_000


def read_log(day: int) -> str:
    """A tool without side effects: 20 KB of text."""
    return "\n".join(f"day {day}, entry {i}: request {i * 31 % 997} took {i * 17 % 90} ms" for i in range(500))


def work(session: Session, days: range) -> dict[int, str]:
    """One step per day, as an agent's loop has it: get the context, call the model (here a script), run the tool."""
    handles = {}
    for day in days:
        prepared = session.prepare()
        assert prepared.report.fits
        call = ToolUseBlock(id=f"c{day}", name="read_log", input={"day": day % 9})
        session.add(Msg(role="assistant", content=[call]))
        answer = session.call_tool(read_log, call.input, call.id, cacheable=True)
        handles[day % 9] = answer.tool_results[0].metadata["pruned"]["ref"]
        session.add([Msg(role="assistant", content=f"Day {day} is fine."), Msg(role="user", content="And the next?")])
    return handles


def whole(session: Session, handle: str) -> str:
    """Everything behind a handle, page by page, through the tool that the model has."""
    reload, text = session.tools()[0], ""
    while True:
        head, _, page = reload.call(handle, offset=len(text)).partition("\n")
        text += page
        if "continue with offset" not in head:
            return text


with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "agent.db"
    config = AutoContextConfig.for_window(WINDOW)
    with AutoContext.open(file, config=config) as ac:
        ac.memories.add("Wants times in milliseconds", user_id="ann")
        first = ac.session("logs", user_id="ann")
        first.add([Msg(role="system", content="You read logs."), Msg(role="user", content="Is any day slow?")])
        work(first, range(15))
        print("saved:", str(first.save().optimization).splitlines()[0])

    with AutoContext.open(file, config=config) as ac:  # a new process would do just this
        session = ac.session("logs", user_id="ann")
        handles = work(session, range(15, 30))
        originals = session.memory.get_original_memory_msgs()
        print(f"{len(originals)} messages, {session.prepare().report.tokens:,} tokens in a request, window {WINDOW:,}")
        stats = ac.content.stats(None)
        print(f"{stats.contents} contents stored, 30 calls made")
        assert all(whole(session, handle) == read_log(day) for day, handle in handles.items())
        print("every removed byte was read back")

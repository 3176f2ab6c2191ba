"""A program as in the README; its tool kills the process on one day."""

import os
import signal
import sys

from openai import OpenAI

from autocontext import AutoContextMemory, loop
from tests.loop import test_loop


def read_log(day: int) -> str:
    """The log of one day."""
    if day == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    return test_loop.read_log(day)


with AutoContextMemory.open(sys.argv[1], session_id="42", window="16k") as memory:
    if len(memory) == 0:
        memory.add({"role": "user", "content": "Read the logs."})
    print(loop.run(OpenAI(), "gpt-4.1-mini", memory, tools=[read_log]))

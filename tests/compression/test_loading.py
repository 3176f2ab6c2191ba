"""When the vocabulary is loaded: not by a short session, ahead in a thread, once for all, and never on an event loop.

Each case runs in a process of its own, which has loaded nothing yet.
"""

import subprocess
import sys

import pytest

BEGIN = """
import asyncio, os, sys, threading, time
from autocontext import AutoContextConfig, AutoContextMemory, Msg
from autocontext.tokens.vocabularies import VOCABULARIES, encoding

def loads():
    return encoding.cache_info().misses

def loading():
    return [t for t in threading.enumerate() if t.name == "autocontext-vocabulary"]

def began(*_):
    sys.setprofile(None)
    if threading.current_thread().name == "autocontext-vocabulary":
        begun.append(1)

begun = []  # one for each thread that has loaded, as a quick one is over before anybody looks
threading.setprofile(began)

def memory_with(chars, **fields):
    memory = AutoContextMemory(AutoContextConfig(**{"max_token": 16_000, "msg_threshold": 100, **fields}))
    memory.add_message(Msg(role="user", content=("word " * chars)[:chars]))
    return memory
"""


def outcome(code: str) -> str:
    """What a new process prints; it must end well and quietly."""
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + code], capture_output=True, text=True, timeout=600, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout.strip()


@pytest.mark.slow
def test_a_short_session_loads_none() -> None:
    code = """
memory = memory_with(500)
for n in range(20):
    memory.set_overhead("You help.", {"name": "tool", "parameters": {}})
    memory.add_message(Msg(role="user", content=f"question {n}"))
    memory.get_messages()
    asyncio.run(memory.aget_messages())
    memory.record_usage(300 + n)
    memory.add_message(Msg(role="assistant", content="answer"))
repr(memory), len(memory)
print(loads(), begun)
"""
    assert outcome(code) == "0 []"


@pytest.mark.slow
@pytest.mark.parametrize("first", ["chars=8_000", "chars=10, msg_threshold=2"])
def test_it_is_loaded_in_a_thread_from_half_of_either_limit_on(first: str) -> None:
    code = f"""
memory = memory_with({first})
assert not loads() and not loading()
memory.get_messages()
for thread in loading(): thread.join()
print(begun, loads())
memory.get_messages(), memory_with({first}).get_messages()
for thread in loading(): thread.join()
print(begun, memory.token_count > 0, loads())
"""
    assert outcome(code).split("\n") == ["[1] 1", "[1] True 1"]


@pytest.mark.slow
def test_it_is_loaded_once_whoever_counts_meanwhile() -> None:
    code = """
memories = [memory_with(9_000) for _ in range(4)]
memories[0].get_messages()
counts = []
threads = [threading.Thread(target=lambda m=m: counts.append(m.token_count)) for m in memories]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(set(counts)), loads())
"""
    assert outcome(code) == "1 1"


@pytest.mark.slow
@pytest.mark.parametrize("chars", [9_000, 15_000, 30_000])
def test_an_event_loop_goes_on_meanwhile(chars: int) -> None:
    code = f"""
async def main():
    memory, turns = memory_with({chars}), 0

    async def others():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    await asyncio.sleep(0)
    on_loop = threading.get_ident()
    before = turns
    await memory.aget_messages()
    while loading():
        await asyncio.sleep(0)
    print(loads(), turns - before > 20)
    task.cancel()

asyncio.run(main())
"""
    assert outcome(code) == "1 True"


@pytest.mark.slow
def test_a_fork_while_it_is_loaded_leaves_both_processes_able_to_count() -> None:
    code = """
import warnings
warnings.simplefilter("ignore", DeprecationWarning)  # from 3.12 on Python warns of a fork beside a thread
memory = memory_with(9_000)
memory.get_messages()
children = []
for n in range(6):
    child = os.fork()
    if not child:
        os._exit(0 if memory.token_count == 1_805 else 1)
    children.append(child)
    time.sleep(0.03)
print([os.waitpid(child, 0)[1] for child in children], memory.token_count)
"""
    assert outcome(code) == "[0, 0, 0, 0, 0, 0] 1805"


@pytest.mark.slow
def test_an_error_reaches_whoever_counts() -> None:
    code = """
from dataclasses import replace
whole = VOCABULARIES["o200k_base"]
VOCABULARIES["o200k_base"] = replace(whole, sha256="0")
memory = memory_with(9_000)
memory.get_messages()
for _ in range(2):
    try:
        memory.token_count
    except Exception as e:
        print(type(e).__name__, "is damaged" in str(e))
VOCABULARIES["o200k_base"] = whole
print(memory.token_count)
"""
    assert outcome(code).split("\n") == ["AutoContextError True", "AutoContextError True", "1805"]


@pytest.mark.slow
@pytest.mark.parametrize("pause", [0.0, 0.03, 0.08, 0.15])
def test_a_program_may_end_meanwhile(pause: float) -> None:
    assert outcome(f"memory_with(9_000).get_messages()\ntime.sleep({pause})") == ""


@pytest.mark.slow
def test_a_counter_of_the_caller_s_own_needs_none() -> None:
    code = """
class Words:
    name, exact = "words", True
    def count_text(self, text): return len(text.split())
    def count(self, msg): return self.count_text(msg.text)
    bound = count

memory = memory_with(9_000, token_counter=Words(), max_token=2_000)
memory.set_overhead("a b c")
asyncio.run(memory.aget_messages())
print(memory.token_count, loads(), begun)
"""
    assert outcome(code) == "1803 0 []"

"""Hand-made chat messages."""

import json

from hypothesis import strategies as st


def user(text):
    return {"role": "user", "content": text}


def call(name="read_file", id_="1", **arguments):
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": id_, "type": "function", "function": function}]}


def result(text, id_="1"):
    return {"role": "tool", "tool_call_id": id_, "content": text}


def answer(text="ok"):
    return {"role": "assistant", "content": text}


@st.composite
def talks(draw):
    """Valid conversations whose calls use values of earlier results, or none."""
    messages = [{"role": "system", "content": "Be brief."}] if draw(st.booleans()) else []
    messages.append(user(draw(st.text(max_size=400))))
    for n in range(draw(st.integers(0, 12))):
        path = f"/src/{draw(st.sampled_from('abc'))}/file_{draw(st.integers(0, n))}.py"
        messages += [
            call(id_=f"c{n}", path=path),
            result(f"see /src/a/file_{n}.py\n" * draw(st.integers(1, 60)), f"c{n}"),
        ]
        if draw(st.booleans()):
            messages += [answer(), user("go on")]
    return messages

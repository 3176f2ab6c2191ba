"""Random histories of two kinds of work, with words that nobody else would say, so that truth can be told."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from hypothesis import strategies as st

from autocontext.messages import Msg, TextBlock, ToolResultBlock, ToolUseBlock

PATHS = tuple(f"{folder}{name}.py" for folder in ("src/", "src/pool/", "tests/", "") for name in ("a", "bb", "alpha"))
ORDERS = tuple(f"#W{n}" for n in (1001, 1002, 2003))
RULES = (
    "Never touch the vendor folder.",
    "Only draft mails, do not send them.",
    "不要修改测试文件。",
    "You may refund up to $50 without asking.",
    "Actually, use tabs instead of spaces.",
)
CHAT = (
    "Thanks!",
    "Go on.",
    "What does the pool do when it is full?",
    "It crashed again here on my laptop",
    "好的，继续。",
)
REMARKS = (
    "The root cause is the missing lock in the pool.",
    "So the fix must close the pool first.",
    "Let me look at the next file.",
    "I have decided to keep the public names.",
)


def use(id_: str, name: str, /, **arguments: Any) -> ToolUseBlock:
    return ToolUseBlock(id=id_, name=name, input=arguments)


def calls(text: str, *uses: ToolUseBlock) -> Msg:
    return Msg(role="assistant", content=(TextBlock(text=text), *uses) if text else uses)


@dataclass(frozen=True)
class Step:
    """A call, how it ends, and how often it is made in a row."""

    name: str
    input: dict[str, Any]
    end: Literal["ok", "failed", "none"] = "ok"
    said: str = ""
    times: int = 1

    @property
    def output(self) -> str:
        about = next(iter(self.input.values()), "")
        if self.end == "failed":
            return f"Error: {self.name} could not do that to {about}"
        return f"{self.name} did it\nresult_{len(repr(self.input))} = {about}"


Move = Step | tuple[Step, Step] | str


def _ends() -> st.SearchStrategy[Any]:
    return st.sampled_from(("ok", "ok", "ok", "failed", "none"))


def _step(names_and_inputs: Iterable[tuple[str, dict[str, Any]]]) -> st.SearchStrategy[Step]:
    pairs = list(names_and_inputs)
    return st.builds(
        lambda pair, end, said, times: Step(pair[0], pair[1], end, said, times),
        st.sampled_from(pairs),
        _ends(),
        st.sampled_from(("", "", *REMARKS)),
        st.sampled_from((1, 1, 1, 2, 5)),
    )


CODING = [
    *((name, {"path": path}) for path in PATHS for name in ("read_file", "write_file", "edit_file", "delete_file")),
    *(("bash", {"command": f"{program} {path}"}) for path in PATHS for program in ("pytest -q", "cat", "rm", "touch")),
    *(("bash", {"command": f"echo x {sign} {path}"}) for path in PATHS for sign in (">", ">>")),
    ("bash", {"command": "git commit -m 'the fix'"}),
    *(("editor", {"command": c, "path": p}) for p in PATHS for c in ("view", "create", "str_replace")),
]
SERVICE = [
    *((name, {"order_id": order}) for order in ORDERS for name in ("get_order", "cancel_order", "return_order_items")),
    *(("update_address", {"order_id": order, "street": f"{n} Elm"}) for order in ORDERS for n in (1, 2)),
    *(("get_user", {"user_id": f"ann_{n}"}) for n in (1, 2)),
    ("send_email", {"to": "ann@example.org", "subject": "Your order"}),
    ("search_products", {"query": "lamp"}),
]


def work(kind: Literal["coding", "service"], *, max_moves: int = 14) -> st.SearchStrategy[list[Msg]]:
    """A history of steps (alone or two in one message) and of what the user and the agent say in between."""
    step = _step(CODING if kind == "coding" else SERVICE)
    said = st.sampled_from((*RULES, *CHAT, " ".join(RULES[:2]), "\n".join((*CHAT, *RULES))))
    move = st.one_of(step, step, step, st.tuples(step, step), said)
    return st.lists(move, min_size=1, max_size=max_moves).map(played)


def played(moves: list[Move]) -> list[Msg]:
    made: list[Msg] = []
    count = 0
    for move in moves:
        if isinstance(move, str):
            made.append(Msg(role="user", content=move))
            continue
        steps = move if isinstance(move, tuple) else (move,)
        for _ in range(steps[0].times):
            ids = [f"c{count + i}" for i in range(len(steps))]
            count += len(steps)
            made.append(calls(steps[0].said, *(use(i, s.name, **s.input) for i, s in zip(ids, steps, strict=True))))
            results = [
                ToolResultBlock(id=i, name=s.name, output=s.output, is_error=s.end == "failed")
                for i, s in zip(ids, steps, strict=True)
                if s.end != "none"
            ]
            made += [Msg(role="tool", content=(r,)) for r in results]
    return made

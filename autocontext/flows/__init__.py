"""Flows: code that waits for a store, a model or a tool is written once, as a generator, and driven sync or async.

`run` and `arun` are the drivers; `sync_and_async` makes both forms of a method from one flow.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial, wraps
from inspect import Signature, signature
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeAlias, TypeVar

from autocontext.flows.threads import in_thread

S = TypeVar("S")
T = TypeVar("T")
P = ParamSpec("P")

Flow: TypeAlias = Generator[Any, Any, T]
"""Yields steps, is sent the result of each, and returns its own result."""


class _End(NamedTuple):
    """A flow has come to its end."""

    result: Any


def run(flow: Generator[S, Any, T], do: Callable[[S], Any]) -> T:
    """Run a flow to its end: it is sent what `do` returns for each step, and what `do` raises is raised in it."""
    try:
        step = next(flow)
        while True:
            try:
                answer = do(step)
            except BaseException as e:  # noqa: BLE001 (raised inside the flow, which decides)
                step = flow.throw(e)
            else:
                step = flow.send(answer)
    except StopIteration as done:
        result: T = done.value
        return result


async def arun(flow: Generator[S, Any, T], do: Callable[[S], Awaitable[Any]], *, in_threads: bool = False) -> T:
    """`run` without blocking the event loop; `in_threads` is for a flow that itself computes, or waits for a lock."""
    go_on: Callable[[Any], S]
    go_on, answer = flow.send, None
    while True:
        step = await in_thread(lambda: _next(go_on, answer)) if in_threads else _next(go_on, answer)  # noqa: B023 (awaited at once)
        if isinstance(step, _End):
            result: T = step.result
            return result
        try:
            go_on, answer = flow.send, await do(step)
        except GeneratorExit:
            flow.close()  # the coroutine is closed and may await nothing more
            raise
        except BaseException as e:  # noqa: BLE001 (raised inside the flow, which decides)
            go_on, answer = flow.throw, e


def _next(go_on: Callable[[Any], S], answer: Any) -> S | _End:
    """The next step, or the end; a value, since StopIteration cannot leave a thread or a coroutine."""
    try:
        return go_on(answer)
    except StopIteration as done:
        return _End(done.value)


class Operation(NamedTuple):
    """A call in its two forms, as a step of a flow: it receives the result, or the exception is raised there."""

    do: Callable[[], Any]
    ado: Callable[[], Awaitable[Any]]


def operation(do: Callable[..., Any], ado: Callable[..., Awaitable[Any]], /, *args: Any, **options: Any) -> Operation:
    """Both forms with the same arguments."""
    return Operation(partial(do, *args, **options), partial(ado, *args, **options))


def method(of: Any, name: str, /, *args: Any, **options: Any) -> Operation:
    """A method of an object and its asynchronous form, of the same name with an `a`; without one, in a thread."""
    fn, afn = getattr(of, name), getattr(of, f"a{name}", None)
    return operation(fn, afn or (lambda *args, **options: in_thread(lambda: fn(*args, **options))), *args, **options)


def compute(fn: Callable[[], T]) -> Flow[T]:
    """Run what may take long and has no other form, in async code in a thread, and return its result."""
    result: T = yield Operation(fn, lambda: in_thread(fn))
    return result


def do(step: Operation) -> Any:
    """Do a step, for `run`."""
    return step.do()


async def ado(step: Operation) -> Any:
    """Do a step, for `arun`."""
    return await step.ado()


class DoesSteps(Protocol):
    """An object whose flows `sync_and_async` drives: it does each step that they yield; here, operations."""

    def _do(self, step: Any) -> Any:
        """Do a step and return what the flow is sent."""
        return do(step)

    async def _ado(self, step: Any) -> Any:
        """`_do` without blocking the event loop."""
        return await ado(step)


D = TypeVar("D", bound=DoesSteps)


def sync_and_async(
    steps: Callable[Concatenate[D, P], Flow[T]],
    *,
    in_threads: bool = False,
) -> tuple[Callable[Concatenate[D, P], T], Callable[Concatenate[D, P], Coroutine[Any, Any, T]]]:
    """The blocking method and the awaitable one, both with the parameters and the docstring of `steps`.

    `get, aget = sync_and_async(_get)` names them; the class has `_do` and `_ado`. `in_threads` is as in `arun`.
    """
    name = steps.__name__.removeprefix("_")

    @wraps(steps)
    def blocking(self: D, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run(steps(self, *args, **kwargs), self._do)

    @wraps(steps)
    async def awaitable(self: D, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await arun(steps(self, *args, **kwargs), self._ado, in_threads=in_threads)

    method: Any
    for method, its_name in ((blocking, name), (awaitable, f"a{name}")):
        method.__name__ = its_name
        method.__qualname__ = steps.__qualname__.removesuffix(steps.__name__) + its_name
        method.__signature__ = _without_flow(signature(steps))
    return blocking, awaitable


def _without_flow(flow: Signature) -> Signature:
    """The signature of a method made from a flow: `-> T` for `-> Flow[T]` or another alias of one argument."""
    returned = flow.return_annotation
    if isinstance(returned, str) and returned.endswith("]"):
        returned = returned.split("[", 1)[1][:-1]
    return flow.replace(return_annotation=returned)

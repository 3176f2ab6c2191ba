"""What tells a function and its call apart from others: parameters by name, and the version of the function."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from autocontext.cache.canonical import canonical
from autocontext.errors import ConfigError
from autocontext.stores.records import text_hash


class Arguments:
    """Turns the arguments of a call into parameters by name, so that all spellings of a call share a key.

    Raises ConfigError without a signature.
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        self._args, self._kwargs, fn = _bound(fn)
        try:
            self._signature = inspect.signature(fn)
        except (ValueError, RecursionError) as error:  # decorators around each other, or a function in C
            raise ConfigError(f"memoize: {fn!r} has no signature that can be read ({error})") from None
        kinds = {parameter.kind: name for name, parameter in self._signature.parameters.items()}
        self._var_keyword = kinds.get(inspect.Parameter.VAR_KEYWORD)
        self.names = tuple(self._signature.parameters)
        self.open_ended = self._var_keyword is not None
        """Whether the function takes names that its signature does not list."""

    def __call__(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Parameters by name with defaults filled in, those of `**kwargs` included. Raises TypeError."""
        bound = self._signature.bind(*self._args, *args, **{**self._kwargs, **kwargs})
        bound.apply_defaults()
        params = dict(bound.arguments)
        if self._var_keyword is not None:
            for name, value in params.pop(self._var_keyword).items():
                # A positional-only parameter may have the same name.
                params[f"**{name}" if name in params else name] = value
        return params


def _bound(fn: Callable[..., Any]) -> tuple[tuple[Any, ...], dict[str, Any], Callable[..., Any]]:
    """The arguments that a partial or a method holds, and the function inside."""
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    while isinstance(fn, functools.partial):
        args, kwargs = (*fn.args, *args), {**fn.keywords, **kwargs}
        fn = fn.func
    if inspect.ismethod(fn):
        # The object is an argument like any other: the results of two objects differ.
        args, fn = (fn.__self__, *args), fn.__func__
    return args, kwargs, fn


class _Variable(NamedTuple):
    """What a function takes from an enclosing one; `inside` are those around what it holds."""

    name: str
    cell: CellType
    inside: tuple[Any, ...]


def version_of(
    fn: Callable[..., Any],
    *,
    named: bool = False,
    inside: tuple[Any, ...] = (),
    unassigned: list[_Variable] | None = None,
) -> str:
    """A hash of a function's qualified name and source, and of what it takes from enclosing functions now.

    A function in C counts by name. Functions of a module that `fn` calls do not count. Raises ConfigError without a
    source, for decorators around each other, and when an object from enclosing functions has no canonical form; of a
    function that is `named` such an object does not count. `inside` are the functions that enclose it. To `unassigned`
    is added what has no value yet.
    """
    unassigned = [] if unassigned is None else unassigned
    decorators: list[FunctionType] = []
    while True:
        if isinstance(fn, functools.partial):
            fn = fn.func
        elif fn in decorators:
            raise ConfigError(f"memoize: the decorators of {task_name(fn)} are around each other (__wrapped__)")
        elif inspect.isfunction(fn) and callable(around := getattr(fn, "__wrapped__", None)) and fn not in inside:
            decorators.append(fn)
            fn = around
        else:
            break
    fn = inspect.unwrap(fn)
    fn = getattr(fn, "__func__", fn)
    if not inspect.isroutine(fn) and not inspect.isclass(fn):
        fn = type(fn)  # an object with __call__
    version = name = task_name(fn)
    of_object = not isinstance(getattr(fn, "__self__", None), ModuleType | type | None)
    if not (fn in inside or (inspect.isbuiltin(fn) and not of_object) or inspect.ismethoddescriptor(fn)):
        values = _values(_enclosed(fn, (*inside, *decorators, fn)), name, named=named, unassigned=unassigned)
        version = text_hash("\0".join((name, _source(fn, name), canonical(dict(values)))))[:16]
    for decorator in reversed(decorators):
        version = _decorated(decorator, version, (*inside, *decorators, fn), unassigned)
    return version


def _decorated(fn: FunctionType, version: str, inside: tuple[Any, ...], unassigned: list[_Variable]) -> str:
    """The version of a function with that of its decorator: what this is and what it was made with.

    An object that has no canonical form, such as a client or a lock, does not count there.
    """
    try:
        values = _values(_enclosed(fn, inside), "", named=True, unassigned=unassigned)
        return text_hash("\0".join((version, inspect.getsource(fn.__code__), canonical(dict(values)))))[:16]
    except (OSError, TypeError, ConfigError):
        return version  # a decorator without a source does not count


def kept_version(fn: Callable[..., Any], *, named: bool = False) -> Callable[[], str]:
    """Takes the version now, and returns what gives it at the first call.

    State that functions change, and share, is part of it as it is now. What has no value yet counts with that of the
    first call, or not at all when this has no canonical form: a call is too late to refuse it. The version of a
    function is the one of its first call: a source takes milliseconds to read. Raises ConfigError as `version_of` does.
    """
    function = _bound(fn)[2]
    unassigned: list[_Variable] = []
    taken = _known(function).get(named) or version_of(fn, named=named, unassigned=unassigned)

    def version() -> str:
        values = _values(unassigned, "", named=True, unassigned=[])
        text = text_hash(f"{taken}\0{canonical(values)}")[:16] if values else taken
        return _known(function).setdefault(named, text)

    return version


def _known(fn: Callable[..., Any]) -> dict[bool, str]:
    return _VERSIONS.setdefault(fn, {}) if inspect.isfunction(fn) else {}


_VERSIONS: WeakKeyDictionary[Callable[..., Any], dict[bool, str]] = WeakKeyDictionary()
"""Of functions, by `named`."""


def identified(fn: Callable[..., Any], args: Mapping[str, Any]) -> tuple[Mapping[str, Any], Any]:
    """Parameters and version that tell a call `fn(**args)` apart from one of any other function.

    The object of a method, or one with `__call__`, is a parameter. Where nothing tells the function apart, the version
    is the function, with which nothing can be cached. Raises TypeError when it does not take the arguments.
    """
    fn = _as_function(fn)
    try:
        arguments, version = Arguments(fn), kept_version(fn)()
    except ValueError:
        return args, fn
    return arguments((), args), version


def _as_function(fn: Callable[..., Any]) -> Callable[..., Any]:
    if isinstance(fn, functools.partial):
        return functools.partial(_as_function(fn.func), *fn.args, **fn.keywords)
    if inspect.isroutine(fn) or inspect.isclass(fn):
        return fn
    call: Callable[..., Any] = fn.__call__  # type: ignore[operator]
    return call


def task_name(fn: Callable[..., Any]) -> str:
    """The function's module and qualified name."""
    name = getattr(fn, "__qualname__", "")
    if not name:
        raise ConfigError(f"memoize: give {type(fn).__name__} objects a name=, they have none of their own")
    return f"{getattr(fn, '__module__', '')}.{name}"


def _source(fn: Callable[..., Any], name: str) -> str:
    """The source of a function or class; of a lambda also its own part of it. Raises ConfigError without one."""
    code = getattr(fn, "__code__", None)
    try:
        # Under `python -c`, Python 3.13 returns the program's text for a function made by `exec`.
        source = "" if code is not None and code.co_filename == "<string>" else inspect.getsource(fn)
        if source and code is not None and code.co_name == "<lambda>":
            source += "\0" + _body(inspect.findsource(fn)[0], code)
    except (OSError, TypeError, ValueError):
        source = ""
    if not source:
        raise ConfigError(
            f"memoize: {name} has no source to tell its versions apart; give it one, e.g. memoize(version=1), "
            "and change it with the function"
        )
    return source


def _body(lines: Sequence[str], code: CodeType) -> str:
    """Parameters and expression of a lambda: several may stand in one statement. Raises ValueError without columns."""
    spans = [
        (first, start, last, end)
        for first, last, start, end in code.co_positions()
        if first is not None and last is not None and start is not None and end is not None
        if (first, start) != (last, end)  # the first instruction has no place
    ]
    (first, start), (last, end) = min(span[:2] for span in spans), max(span[2:] for span in spans)
    body = [line.encode() for line in lines[first - 1 : last]]
    body[-1] = body[-1][:end]
    body[0] = body[0][start:]
    return "\0".join((*code.co_varnames, b"".join(body).decode()))


def _enclosed(fn: Any, inside: tuple[Any, ...]) -> list[_Variable]:
    """What a function takes from enclosing ones, which tells apart the functions that one factory makes."""
    if not inspect.isfunction(fn):
        return []
    cells = zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True)
    return [_Variable(variable, cell, inside) for variable, cell in cells]


def _values(
    variables: Iterable[_Variable], name: str, *, named: bool, unassigned: list[_Variable]
) -> list[tuple[str, Any]]:
    values: list[tuple[str, Any]] = []
    for variable in variables:
        try:
            value = variable.cell.cell_contents
        except ValueError:
            unassigned.append(variable)
            continue
        try:
            if inspect.ismodule(value) or inspect.isclass(value):
                value = f"{getattr(value, '__module__', '')}.{value.__name__}"
            elif callable(value):
                function = _as_function(value)
                version = version_of(function, named=named, inside=variable.inside, unassigned=unassigned)
                value = [version, *_bound(function)[:2]]
            canonical(value)
        except ValueError:
            if named:
                continue
            raise ConfigError(
                f"memoize: {name} uses {variable.name} of an enclosing function ({type(value).__name__}), which cannot "
                "be part of a key: give a name= or version= that no function around another one has"
            ) from None
        values.append((variable.name, value))
    return values

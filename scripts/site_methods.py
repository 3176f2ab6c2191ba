"""What the API reference shows of a class: methods made by `sync_and_async`, documented members, and all fields."""

from __future__ import annotations

import ast
from typing import Any

import griffe


class SyncAndAsync(griffe.Extension):
    """What `get, aget = sync_and_async(_get)` makes: Griffe reads source, not objects.

    Both methods have the parameters, the result and the docstring of the flow that they are made of.
    """

    def on_class_members(self, *, node: ast.AST | griffe.ObjectNode, cls: griffe.Class, **_: Any) -> None:
        """Read the assignments of a class; Griffe has read everything else."""
        for statement in node.body if isinstance(node, ast.ClassDef) else ():
            match statement:
                case ast.Assign(
                    targets=[ast.Tuple(elts=[ast.Name(id=name), ast.Name(id=asynchronous)])],
                    value=ast.Call(func=ast.Name(id="sync_and_async"), args=[ast.Name(id=flow)]),
                ):
                    cls.set_member(name, _method(name, cls.members[flow], statement.lineno))
                    cls.set_member(asynchronous, _method(asynchronous, cls.members[flow], statement.lineno, "async"))


class Fields(griffe.Extension):
    """Members without a docstring are shown if they are fields (`role: Role`), not if __init__ sets them."""

    def on_class_members(self, *, node: ast.AST | griffe.ObjectNode, cls: griffe.Class, **_: Any) -> None:
        """Remove the others; the site shows what is left."""
        body = node.body if isinstance(node, ast.ClassDef) else ()
        fields = {ast.unparse(statement.target) for statement in body if isinstance(statement, ast.AnnAssign)}
        for name, member in list(cls.members.items()):
            kept = name in fields or name == "__init__" or member.is_alias or member.is_class
            if not (kept or member.has_docstring):
                del cls.members[name]


def _method(name: str, flow: griffe.Object | griffe.Alias, line: int, *labels: str) -> griffe.Function:
    assert isinstance(flow, griffe.Function)
    returns = flow.returns.slice if isinstance(flow.returns, griffe.ExprSubscript) else flow.returns  # Flow[T]
    made = griffe.Function(
        name, lineno=line, endlineno=line, parameters=flow.parameters, returns=returns, docstring=flow.docstring
    )
    made.labels |= set(labels)
    return made

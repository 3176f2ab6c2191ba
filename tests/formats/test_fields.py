"""The tables of fields know every field and type of the SDK that is installed."""

from collections.abc import Iterator, Mapping
from typing import Any, get_args

import typing_extensions

from tests.extras import need

need("openai")
from openai.types.chat import ChatCompletionMessageParam
from openai.types.responses import ResponseInputItemParam

from autocontext.formats.fields import CHAT, ITEMS, RESPONSES_INPUT, RESPONSES_OUTPUT
from autocontext.formats.fitting import Fields, Kinds
from tests.formats.sdk_types import bare, hints, members


def unknown(annotation: Any, shape: Any, at: str) -> Iterator[str]:
    """The fields and types of an SDK's type that a table does not have."""
    annotation = bare(annotation)
    if typing_extensions.is_typeddict(annotation):
        shapes = list(objects(shape, annotation))
        if not shapes:
            if any(isinstance(one, Fields | Kinds) for one in inside(shape)):
                yield f"{at}: {annotation.__name__}"
            return
        for name, kind in hints(annotation).items():
            found = [s for s in shapes if name in s.shapes]
            if not found:
                yield f"{at}.{name}"
            for s in found:
                yield from unknown(kind, s.shapes[name], f"{at}.{name}")
        return
    for one in get_args(annotation):
        if not isinstance(one, str):
            yield from unknown(one, shape, at)


def inside(shape: Any) -> Iterator[Any]:
    if isinstance(shape, tuple | list):
        for one in shape:
            yield from inside(one)
    else:
        yield shape


def objects(shape: Any, typed_dict: Any) -> Iterator[Fields]:
    """The tables that an object of this type is checked with."""
    # `type` may be an optional word.
    kinds = [w for one in get_args(hints(typed_dict).get("type")) for w in (get_args(one) or (one,))]
    for one in inside(shape):
        if isinstance(one, Fields):
            yield one
        if isinstance(one, Kinds):
            yield from (one.by_type[kind] for kind in kinds if kind in one.by_type)


def test_no_field_of_openai_s_request_types_is_missing() -> None:
    missing = []
    for message in members(ChatCompletionMessageParam):
        role = get_args(hints(message)["role"])[0]
        missing += unknown(message, CHAT[role], role)
    for item in members(ResponseInputItemParam):
        if "role" in hints(item) and "tools" not in hints(item):
            output = item.__name__ == "ResponseOutputMessageParam"
            missing += unknown(item, RESPONSES_OUTPUT if output else RESPONSES_INPUT, item.__name__)
        else:
            missing += unknown(item, ITEMS, item.__name__)
    assert missing == []


def test_every_table_has_the_type_it_stands_under() -> None:
    tables: list[Mapping[str, Fields]] = [ITEMS.by_type]
    assert all("type" in f.shapes for table in tables for f in table.values())

"""Objects in a bucket or a folder, by their path: requests as generators, run by obstore in sync and async code."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, cast
from urllib.parse import unquote, urlsplit

from autocontext import flows
from autocontext.errors import StoreError, headline, needs_extra
from autocontext.flows import Operation, operation
from autocontext.stores.checks import checked_place
from autocontext.stores.database import Read, Write

with needs_extra("object storage", "cloud"):
    import obstore
    from obstore.exceptions import AlreadyExistsError, BaseError
    from obstore.store import from_url


class Get(NamedTuple):
    """An object's bytes: all, or `size` of them from `start` on; None if there is no such object."""

    path: str
    start: int = 0
    size: int | None = None


class Put(NamedTuple):
    """Write an object, with `new` only if there is none. The answer is whether it was written."""

    path: str
    body: bytes
    new: bool = False


class Copy(NamedTuple):
    """Copy an object. The answer is True, or None if there is no such object."""

    path: str
    to: str


class Delete(NamedTuple):
    """Delete an object, if there is one."""

    path: str


class List(NamedTuple):
    """The paths of all objects under a path, sorted."""

    prefix: str


Request: TypeAlias = Get | Put | Copy | Delete | List

_process: list[int] = []
"""The process in which obstore's threads run, once there are any. A forked child has none and would wait forever."""


class Bucket:
    """The objects under a URL: s3://, gs://, az://, file://, or the path of a folder.

    All objects are under the path `private`; on this machine only the owner can read that folder. `options` go to
    obstore (region, endpoint, keys). Raises StoreError if the service refuses or cannot be reached.
    """

    def __init__(self, url: str | Path, *, private: str = "", **options: Any) -> None:
        self.name = checked_place(url)
        address = self.name if "://" in self.name else Path(url).absolute().as_uri()
        root = Path(unquote(urlsplit(address).path)) if address.startswith("file://") else None
        try:
            self._objects: Any = from_url(address, **options)
            if private and root is not None:
                folder = root / private
                folder.mkdir(mode=0o700, exist_ok=True)
                folder.chmod(0o700)  # also when it was there, readable by all
        except (BaseError, ValueError, OSError) as e:
            if root is not None and not root.is_dir():
                raise StoreError(f"{url}: no such folder; create it first, or pass mkdir=True") from e
            raise StoreError(f"{url}: cannot be opened as object storage ({headline(e)})") from e

    def do(self, step: Read | Write | Operation) -> Any:
        """Do a step of a flow: run its requests, or the operation. There are no transactions."""
        if isinstance(step, Operation):
            return step.do()
        self._check_process()
        return flows.run(cast("flows.Flow[Any]", step.work()), self._do)

    async def ado(self, step: Read | Write | Operation) -> Any:
        """`do` without blocking the event loop."""
        if isinstance(step, Operation):
            return await step.ado()
        self._check_process()
        return await flows.arun(cast("flows.Flow[Any]", step.work()), self._ado)

    def _check_process(self) -> None:
        if not _process:
            _process.append(os.getpid())
        if _process != [os.getpid()]:
            raise StoreError(
                f"{self.name}: this process was forked after its parent had used object storage, which does not work "
                'in a child then: use it in the children only, or start them with multiprocessing.get_context("spawn")'
            )

    def _do(self, request: Request) -> Any:
        return flows.run(self._answer(request), flows.do)

    async def _ado(self, request: Request) -> Any:
        return await flows.arun(self._answer(request), flows.ado)

    def _answer(self, request: Request) -> flows.Flow[Any]:
        """The answer to a request. Raises StoreError for a problem of the service."""
        objects = self._objects
        try:
            match request:
                case Get(path, _, None):
                    response = yield operation(obstore.get, obstore.get_async, objects, path)
                    return bytes((yield operation(response.bytes, response.bytes_async)))
                case Get(path, start, size):
                    part = operation(
                        obstore.get_range, obstore.get_range_async, objects, path, start=start, length=size
                    )
                    return bytes((yield part))
                case Put(path, body, new):
                    mode = "create" if new else "overwrite"
                    yield operation(obstore.put, obstore.put_async, objects, path, body, mode=mode)
                case Copy(path, to):
                    yield operation(obstore.copy, obstore.copy_async, objects, path, to)
                case Delete(path):
                    yield operation(obstore.delete, obstore.delete_async, objects, path)
                case List(prefix):
                    listing = obstore.list(objects, prefix=prefix)
                    found = yield operation(listing.collect, listing.collect_async)
                    return sorted(str(each["path"]) for each in found)
        except AlreadyExistsError:
            return False
        except FileNotFoundError:
            return None
        except (BaseError, OSError) as e:
            raise StoreError(f"{self.name}: {headline(e)}") from e
        return True

"""Objects in a bucket or a folder, by their path: requests as generators, run by obstore in sync and async code."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar
from urllib.parse import unquote, urlsplit

from autocontext import flows
from autocontext.errors import MissingExtraError, StoreError
from autocontext.stores.checks import checked_place
from autocontext.stores.database import Read, Write

try:
    import obstore
    from obstore.exceptions import AlreadyExistsError, BaseError
    from obstore.store import from_url
except ImportError as e:
    raise MissingExtraError("object storage", "cloud") from e

T = TypeVar("T")


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
    """Paths and sizes of all objects under a path, sorted by path."""

    prefix: str


Request: TypeAlias = Get | Put | Copy | Delete | List
Flow: TypeAlias = Generator[Request, Any, T]

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
        try:
            self._objects: Any = from_url(address, **options)
            if private and address.startswith("file://"):
                folder = Path(unquote(urlsplit(address).path)) / private
                folder.mkdir(mode=0o700, exist_ok=True)
                folder.chmod(0o700)  # also when it was there, readable by all
        except (BaseError, ValueError, OSError) as e:
            raise StoreError(f"{url}: cannot be opened as object storage ({_first_line(e)})") from e

    def do(self, step: Read | Write) -> Any:
        """Run the flow of a step. There are no transactions."""
        self._check_process()
        operation: Generator[Any, Any, Any] = step.work()
        return flows.run(operation, self._do)

    async def ado(self, step: Read | Write) -> Any:
        """`do` without blocking the event loop."""
        self._check_process()
        operation: Generator[Any, Any, Any] = step.work()
        return await flows.arun(operation, self._ado)

    def _check_process(self) -> None:
        if not _process:
            _process.append(os.getpid())
        if _process != [os.getpid()]:
            raise StoreError(
                f"{self.name}: this process was forked after its parent had used object storage, which does not work "
                'in a child then: use it in the children only, or start them with multiprocessing.get_context("spawn")'
            )

    def _do(self, request: Request) -> Any:
        try:
            return self._run(request)
        except (BaseError, OSError) as e:
            return self._answer_in(e)

    async def _ado(self, request: Request) -> Any:
        try:
            return await self._arun(request)
        except (BaseError, OSError) as e:
            return self._answer_in(e)

    def _answer_in(self, error: Exception) -> bool | None:
        """The answer that an error stands for; raises StoreError for a problem of the service."""
        if isinstance(error, AlreadyExistsError):
            return False
        if isinstance(error, FileNotFoundError):
            return None
        raise StoreError(f"{self.name}: {_first_line(error)}") from error

    def _run(self, request: Request) -> Any:
        objects = self._objects
        if isinstance(request, Get) and request.size is None:
            return bytes(obstore.get(objects, request.path).bytes())
        if isinstance(request, Get):
            return bytes(obstore.get_range(objects, request.path, start=request.start, length=request.size or 0))
        if isinstance(request, Put):
            obstore.put(objects, request.path, request.body, mode="create" if request.new else "overwrite")
            return True
        if isinstance(request, Copy):
            obstore.copy(objects, request.path, request.to)
            return True
        if isinstance(request, Delete):
            return obstore.delete(objects, request.path)
        return _listed(obstore.list(objects, prefix=request.prefix).collect())

    async def _arun(self, request: Request) -> Any:
        objects = self._objects
        if isinstance(request, Get) and request.size is None:
            response = await obstore.get_async(objects, request.path)
            return bytes(await response.bytes_async())
        if isinstance(request, Get):
            return bytes(
                await obstore.get_range_async(objects, request.path, start=request.start, length=request.size or 0)
            )
        if isinstance(request, Put):
            await obstore.put_async(objects, request.path, request.body, mode="create" if request.new else "overwrite")
            return True
        if isinstance(request, Copy):
            await obstore.copy_async(objects, request.path, request.to)
            return True
        if isinstance(request, Delete):
            return await obstore.delete_async(objects, request.path)
        return _listed(await obstore.list(objects, prefix=request.prefix).collect_async())


def _listed(objects: Any) -> list[tuple[str, int]]:
    return sorted((str(each["path"]), int(each["size"])) for each in objects)


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]

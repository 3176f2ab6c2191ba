"""Reads the URL of a PostgreSQL or CockroachDB server."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from autocontext.errors import StoreError

_ENGINES = {
    **dict.fromkeys(("postgres", "postgresql", "postgresql+psycopg"), "postgresql"),
    **dict.fromkeys(("cockroachdb", "cockroachdb+psycopg"), "cockroachdb"),
}
_HOST = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::(\d*))?")
_SECRETS = ("password", "sslpassword")
"""Options of a URL that nobody else is to see."""


class Address(NamedTuple):
    """Where a server is."""

    engine: str
    """`postgresql` or `cockroachdb`."""
    name: str
    """The URL without its secrets."""
    options: dict[str, str]
    """The options of libpq."""


def parsed(url: str) -> Address:
    """Read a URL. Raises StoreError for one of another form, which it does not quote: it may hold a password."""
    unreadable = StoreError("the database URL cannot be read; give postgresql://user:password@host:5432/name")
    scheme, _, _ = url.partition("://")
    if scheme not in _ENGINES:
        raise StoreError(f"{scheme} is not supported; give a postgresql:// URL, cockroachdb:// or a path for SQLite")
    try:
        parts = urlsplit(url)
        query = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise unreadable from None
    login, _, place = parts.netloc.rpartition("@")
    hosts = [_HOST.fullmatch(host) for host in place.split(",")]
    options = dict(query)
    if not all(hosts) or len(options) < len(query):
        raise unreadable
    user, _, password = login.partition(":")
    given = {
        "user": unquote(user),
        "password": unquote(password),
        "host": ",".join(unquote(host[1].strip("[]")) for host in hosts if host),
        "port": ",".join(host[2] or "" for host in hosts if host),
        "dbname": unquote(parts.path[1:]),
    }
    shown = urlencode({key: "***" if key in _SECRETS else value for key, value in query}, safe="*", quote_via=quote)
    name = f"{scheme}://{user}{':***' * bool(password)}{'@' * bool(login)}{place}{parts.path}{'?' * bool(shown)}{shown}"
    return Address(_ENGINES[scheme], name, {key: value for key, value in given.items() if value.strip(",")} | options)

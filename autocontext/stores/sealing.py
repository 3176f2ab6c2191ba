"""AES-256-GCM for single entries and values, bound to their position; errors show neither keys nor texts."""

from __future__ import annotations

import json
import os
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from autocontext.errors import ConfigError, StoreCorruptError, StoreError, needs_extra
from autocontext.history.entries import Entry, Sealed
from autocontext.stores.protocol import SessionKey
from autocontext.stores.records import from_bytes, to_bytes

with needs_extra("encryption", "crypto"):
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM, AESSIV

_KEY_BYTES, _NONCE_BYTES = 32, 12
"""AES-256, and random nonces of 96 bits (NIST SP 800-38D, section 8.2.2): at most 2**32 entries per key."""
_TEXT, _BYTES, _NAME = "ac1:", b"\x00ac1", "acn1:"
"""Prefixes of sealed texts, bytes and names."""
V = TypeVar("V", str, bytes)


class Keyring:
    """Keys by their ids; one of them seals. Its repr shows ids, never a key."""

    def __init__(self, key: bytes | Mapping[str, bytes], current: str | None) -> None:
        if not isinstance(key, bytes | Mapping):
            raise ConfigError(
                f"key must be {_KEY_BYTES} random bytes, or several by their ids: secrets.token_bytes(32)"
            )
        keys = {"key" if current is None else current: key} if isinstance(key, bytes) else dict(key)
        for key_id, key_bytes in keys.items():
            if not isinstance(key_bytes, bytes) or len(key_bytes) != _KEY_BYTES:
                raise ConfigError(
                    f"key {key_id!r} must be {_KEY_BYTES} random bytes: secrets.token_bytes(32) makes one"
                )
        if current is None and len(keys) == 1:
            current = next(iter(keys))
        if current is None or current not in keys:
            ids = ", ".join(map(repr, keys)) or "none"
            raise ConfigError(f"current must name the key that seals new entries (got {current!r}, keys: {ids})")
        self.current = current
        self._ciphers = {key_id: AESGCM(key_bytes) for key_id, key_bytes in keys.items()}

    def __repr__(self) -> str:
        return f"Keyring({', '.join(map(repr, self._ciphers))}; current={self.current!r})"

    @property
    def ids(self) -> frozenset[str]:
        """The ids of all keys."""
        return frozenset(self._ciphers)

    def seal_value(self, value: V, place: Sequence[Any]) -> V:
        """Seal a text or bytes for this place only; a text gives a text."""
        key_id = self.current.encode()
        data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
        sealed = len(key_id).to_bytes(2, "big") + key_id + b"".join(self._encrypted(data, place))
        return _TEXT + b64encode(sealed).decode() if isinstance(value, str) else _BYTES + sealed

    def key_of(self, sealed: str | bytes) -> str:
        """The id of the key that has sealed a value. Raises StoreError if it is not sealed."""
        return _parted(sealed, "a value")[0]

    def open_value(self, sealed: V, place: Sequence[Any], *, where: str) -> V:
        """The value that was sealed for this place. Raises as `open` does, and StoreError if it is not encrypted."""
        key_id, data = _parted(sealed, where)
        value = self._decrypted(key_id, data[:_NONCE_BYTES], data[_NONCE_BYTES:], place, where)
        return value.decode("utf-8", "surrogatepass") if isinstance(sealed, str) else value

    def seal(self, entry: Entry, session: SessionKey, sequence: int) -> Sealed:
        """Seal an entry for this place in this session only."""
        nonce, data = self._encrypted(to_bytes(entry), (*session, sequence))
        return Sealed(key_id=self.current, nonce=b64encode(nonce).decode(), data=b64encode(data).decode())

    def open(self, sealed: Sealed, session: SessionKey, sequence: int) -> Entry:
        """The entry that was sealed for this place.

        Raises StoreError for an unknown key, StoreCorruptError if the key is wrong or the record was changed or moved.
        """
        where = f"user {session[0]!r}, session {session[1]!r}, sequence {sequence}"
        try:
            nonce, data = b64decode(sealed.nonce, validate=True), b64decode(sealed.data, validate=True)
        except ValueError:
            nonce, data = b"", b""  # no nonce at all: told as any other change
        body = self._decrypted(sealed.key_id, nonce, data, (*session, sequence), where)
        try:
            return from_bytes(body)
        except StoreCorruptError as e:
            raise StoreCorruptError(f"{where}: {e}") from e

    def _encrypted(self, data: bytes, place: Sequence[Any]) -> tuple[bytes, bytes]:
        """A new nonce, and the data encrypted with it and the current key."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce, self._ciphers[self.current].encrypt(nonce, data, _bound(place, self.current))

    def _decrypted(self, key_id: str, nonce: bytes, data: bytes, place: Sequence[Any], where: str) -> bytes:
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            raise StoreError(f"{where}: no key {key_id!r}; open it with the key of this id, too")
        try:
            return cipher.decrypt(nonce, data, _bound(place, key_id))
        except (InvalidTag, ValueError):
            raise StoreCorruptError(
                f"{where}: it cannot be decrypted: key {key_id!r} is another one than it was sealed with, or the "
                "record was changed or moved"
            ) from None


class Names:
    """AES-SIV (RFC 5297) for columns that rows are looked up by: equal values of one owner stay equal, no others.

    The key is 64 random bytes.
    """

    def __init__(self, key: bytes) -> None:
        self.key = key
        self._cipher = AESSIV(key)

    def seal(self, value: str, column: str, owner: str) -> str:
        """Seal a value for this column and owner only."""
        # The "=" because AES-SIV takes no empty text.
        data = self._cipher.encrypt(b"=" + value.encode("utf-8", "surrogatepass"), _name(column, owner))
        return _NAME + b64encode(data).decode()

    def open(self, sealed: str, column: str, owner: str, where: str) -> str:
        """The value that was sealed for this column. Raises StoreCorruptError if it was changed or moved."""
        try:
            data = b64decode(sealed[len(_NAME) :] if sealed.startswith(_NAME) else "", validate=True)
            return self._cipher.decrypt(data, _name(column, owner))[1:].decode("utf-8", "surrogatepass")
        except (InvalidTag, ValueError):
            raise StoreCorruptError(f"{where}: a {column} of {owner!r} was changed or moved") from None


def _name(column: str, owner: str) -> list[bytes]:
    return [column.encode(), owner.encode("utf-8", "surrogatepass")]


def _parted(sealed: str | bytes, where: str) -> tuple[str, bytes]:
    """The id of the key, and the encrypted data."""
    try:
        if isinstance(sealed, str) and sealed.startswith(_TEXT):
            data = b64decode(sealed[len(_TEXT) :], validate=True)
        elif isinstance(sealed, bytes) and sealed.startswith(_BYTES):
            data = sealed[len(_BYTES) :]
        else:
            # Accepting it would let anybody with write access put words into the agent's memory.
            raise StoreError(f"{where}: it is not encrypted")
        end = 2 + int.from_bytes(data[:2], "big")
        return data[2:end].decode(), data[end:]
    except ValueError as e:
        raise StoreCorruptError(f"{where}: it cannot be decrypted: it was changed") from e


def _bound(place: Sequence[Any], key_id: str) -> bytes:
    """The authenticated data; a JSON array, so that no two places are equal."""
    return json.dumps([*place, key_id]).encode()

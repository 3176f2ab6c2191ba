"""AES-256-GCM around single entries: which key, which place; errors show neither."""

from __future__ import annotations

import json
import os
from base64 import b64decode, b64encode
from collections.abc import Mapping

from autocontext.errors import ConfigError, MissingExtraError, StoreCorruptError, StoreError
from autocontext.history.entries import Entry, Sealed
from autocontext.stores.protocol import SessionKey
from autocontext.stores.records import from_bytes, to_bytes

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
except ImportError as e:
    raise MissingExtraError("EncryptedSessionStore", "crypto") from e

_KEY_BYTES, _NONCE_BYTES = 32, 12
"""AES-256, and the 96 bits of NIST SP 800-38D section 8.2.2 for random nonces: 2**32 entries a key at most."""
DEFAULT_KEY_ID = "key"
"""The id of a key that comes without one."""


class Keyring:
    """Keys by their ids, one of which seals; shows its ids, never a key."""

    def __init__(self, key: bytes | Mapping[str, bytes], current: str | None) -> None:
        keys = {DEFAULT_KEY_ID if current is None else current: key} if isinstance(key, bytes) else dict(key)
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

    def seal(self, entry: Entry, session: SessionKey, sequence: int) -> Sealed:
        """The entry, readable at this place of this session only."""
        nonce = os.urandom(_NONCE_BYTES)
        data = self._ciphers[self.current].encrypt(nonce, to_bytes(entry), _place(session, sequence, self.current))
        return Sealed(key_id=self.current, nonce=b64encode(nonce).decode(), data=b64encode(data).decode())

    def open(self, sealed: Sealed, session: SessionKey, sequence: int) -> Entry:
        """What was sealed at this place.

        Raises StoreError for an unknown key, StoreCorruptError when the key is not the one that sealed it or the
        record has been changed or moved.
        """
        where = f"user {session[0]!r}, session {session[1]!r}, sequence {sequence}"
        cipher = self._ciphers.get(sealed.key_id)
        if cipher is None:
            raise StoreError(f"{where}: no key {sealed.key_id!r}; give EncryptedSessionStore the key with this id")
        try:
            nonce, data = b64decode(sealed.nonce, validate=True), b64decode(sealed.data, validate=True)
            body = cipher.decrypt(nonce, data, _place(session, sequence, sealed.key_id))
        except (InvalidTag, ValueError):
            raise StoreCorruptError(
                f"{where}: it cannot be decrypted: key {sealed.key_id!r} is another one than it was sealed with, "
                "or the record was changed or moved"
            ) from None
        return from_bytes(body, where=where)


def _place(session: SessionKey, sequence: int, key_id: str) -> bytes:
    """What the tag vouches for besides the entry; a JSON array, so that no two places read the same."""
    return json.dumps([session[0], session[1], sequence, key_id]).encode()

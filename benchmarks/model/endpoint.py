"""The endpoints of `server.mjs`, or of any server that has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import httpx
from chat import Chat

ADDRESS = "http://127.0.0.1:8137/v1"


class Token(NamedTuple):
    """A token of a continuation: its code points, and the natural logarithm of its probability."""

    start: int
    end: int
    logprob: float


class Endpoint:
    """A served model."""

    def __init__(self, address: str = ADDRESS, timeout: float = 600.0) -> None:
        self.address = address.rstrip("/")
        self._client = httpx.Client(timeout=timeout, trust_env=False)

    def tokens(self, messages: Sequence[Chat], continuation: str) -> list[Token] | None:
        """How likely the assistant's `continuation` is, token by token; None where the prompt does not fit."""
        reply = self._client.post(
            f"{self.address}/loglikelihood", json={"messages": messages, "continuation": continuation}
        )
        if reply.status_code == httpx.codes.BAD_REQUEST and _code(reply) == "context_length_exceeded":
            return None
        reply.raise_for_status()
        return [Token(t["start"], t["end"], t["logprob"]) for t in reply.json()["tokens"]]

    def answer_with(self, answers: str) -> None:
        """Let the chat answer in that way from now on: model, wrong, vague, empty or late."""
        root = self.address.removesuffix("/v1")
        self._client.post(f"{root}/answers", json={"answers": answers}).raise_for_status()

    def health(self) -> dict[str, Any]:
        """The model's name and the size of its context."""
        reply = self._client.get(f"{self.address.removesuffix('/v1')}/health")
        reply.raise_for_status()
        health: dict[str, Any] = reply.json()
        return health


def _code(reply: httpx.Response) -> object:
    try:
        return reply.json()["error"].get("code")
    except (ValueError, KeyError, AttributeError, TypeError):
        return None

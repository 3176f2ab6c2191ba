"""A fake of Claude's Messages API with its two kinds of compaction; it refuses what the API refuses.

    with FakeAnthropic() as service:
        client = anthropic.Anthropic(base_url=service.base_url, api_key="test-key", max_retries=0)

`seen` holds what the model was shown of each request: the texts of the messages, from the last compaction on. The rules
are those of platform.claude.com/docs, "Compaction on demand" and "Threshold compaction".
"""

from __future__ import annotations

import json
import re
from typing import Any

from tests.fakes.http_server import FakeService, Item, Raw, Refusal, Reply, Request, Streamed
from tests.fakes.sealing import seal, unseal

ON_DEMAND, THRESHOLD = "compact-2026-09-04", "compact-2026-01-12"
_BLOCKS = {
    "text": {"text", "citations"},
    "thinking": {"thinking", "signature"},
    "redacted_thinking": {"data"},
    "tool_use": {"id", "name", "input"},
    "tool_result": {"tool_use_id", "content", "is_error"},
    "image": {"source"},
    "document": {"source", "title", "context", "citations"},
    "compaction": {"content", "encrypted_content", "signature", "tool_changes"},
}
_ID, _NAME = re.compile(r"[a-zA-Z0-9_-]+"), re.compile(r"[a-zA-Z0-9_-]{1,64}")
_IMAGES = {"image/jpeg", "image/png", "image/gif", "image/webp"}
_MARKS = 4
_PARAMETERS = {
    "model", "max_tokens", "messages", "system", "tools", "tool_choice", "stop_sequences", "temperature", "thinking",
    "metadata", "context_management", "compaction",
}  # fmt: skip


class FakeAnthropic(FakeService):
    """POST {base_url}/v1/messages, without streams."""

    path = "/v1/messages"
    default: Item = "Understood."

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[list[str]] = []
        self.refused: list[str] = []

    def respond(self, request: Request) -> Raw | Streamed | None:
        path = request.path.partition("?")[0]
        body = request.body
        if isinstance(body, dict):
            body = {**body, "_betas": request.headers.get("anthropic-beta", "").split(",")}
        headers = dict(request.headers)
        if "x-api-key" in headers:
            headers["authorization"] = f"Bearer {headers['x-api-key']}"
        return super().respond(Request(path, headers, body))

    def refusal(self, refusal: Refusal) -> Any:
        self.refused.append(refusal.message)
        error = {"type": "invalid_request_error", "message": refusal.message, "details": {"error_code": refusal.code}}
        return {"type": "error", "error": error}

    def check(self, body: Any) -> None:
        if unknown := sorted(body.keys() - _PARAMETERS - {"_betas"}):
            raise _bad(f"{unknown[0]}: Extra inputs are not permitted")
        messages = body.get("messages")
        check_messages(messages)
        _check_marks([*body.get("tools", ()), *_blocks({"content": body.get("system", [])}), *_all_blocks(messages)])
        _check_compactions(messages, body)
        read = _from_last_compaction(messages)
        _check_pairs(read)
        if messages[-1]["role"] == "assistant" and "compaction" not in body:
            raise _bad("This model does not support assistant message prefill.")
        self.seen.append([text for m in read for b in _blocks(m) if (text := _said(b))])

    def answer(self, reply: Reply, body: Any) -> Any:
        content: list[dict[str, Any]] = [{"type": "text", "text": reply.text}]
        stop = "end_turn"
        if "compaction" in body:
            content, stop = [self._signed()], "compaction"
        elif self._over_threshold(body):
            summary = f"Summary of {len(self.seen[-1])} texts: {' | '.join(t[:12] for t in self.seen[-1])}"
            content.insert(0, {"type": "compaction", "content": summary, "encrypted_content": seal(summary)})
        usage = {"input_tokens": reply.input_tokens, "output_tokens": reply.output_tokens}
        head = {"id": f"msg_{len(self.requests)}", "type": "message", "role": "assistant", "model": body["model"]}
        return {**head, "content": content, "stop_reason": stop, "stop_sequence": None, "usage": usage}

    def _signed(self) -> dict[str, Any]:
        summary = f"Summary of {len(self.seen[-1])} texts: {' | '.join(t[:12] for t in self.seen[-1])}"
        return {"type": "compaction", "content": summary, "signature": seal(summary)}

    def _over_threshold(self, body: Any) -> bool:
        edits = (body.get("context_management") or {}).get("edits") or []
        limits = [e.get("trigger", {}).get("value", 150_000) for e in edits if e["type"] == "compact_20260112"]
        return any(len(json.dumps(self.seen[-1])) // 4 > limit for limit in limits)


def check_messages(messages: Any) -> None:
    """Raise Refusal (400) for the first fault of a list of messages, calls and results aside."""
    if not isinstance(messages, list) or not messages:
        raise _bad("messages: at least one message is required")
    for i, message in enumerate(messages):
        _check_shape(message, f"messages.{i}")
    if messages[0]["role"] != "user" and "compaction" not in [b["type"] for b in _blocks(messages[0])]:
        raise _bad("messages: first message must use the user role")
    _check_marks(_all_blocks(messages))


def _all_blocks(messages: list[Any]) -> list[Any]:
    """The blocks of all messages, with those that stand in results."""
    blocks = [b for m in messages for b in _blocks(m)]
    inner = [b for result in blocks if isinstance(result.get("content"), list) for b in result["content"]]
    return [*blocks, *inner]


def _check_marks(blocks: list[Any]) -> None:
    marks = sum("cache_control" in block for block in blocks)
    if marks > _MARKS:
        raise _bad(f"A maximum of {_MARKS} blocks with cache_control may be provided. Found {marks}.")


def _check_shape(message: Any, where: str) -> None:
    if not isinstance(message, dict) or message.get("role") not in ("user", "assistant"):
        raise _bad(f"{where}.role: Input should be 'user' or 'assistant'")
    if unknown := sorted(message.keys() - {"role", "content"}):
        raise _bad(f"{where}.{unknown[0]}: Extra inputs are not permitted")
    if not isinstance(message.get("content"), str | list) or message["content"] in ("", []):
        raise _bad(f"{where}.content: must be a text or blocks, and not empty")
    for k, block in enumerate(_blocks(message)):
        at = f"{where}.content.{k}"
        if block.get("type") not in _BLOCKS:
            raise _bad(f"{at}: Input tag {block.get('type')!r} is not one of the expected content block types")
        if unknown := sorted(block.keys() - _BLOCKS[block["type"]] - {"type", "cache_control"}):
            raise _bad(f"{at}.{unknown[0]}: Extra inputs are not permitted")
        _check_block(block, message["role"], at)


def _check_block(block: Any, role: str, at: str) -> None:
    if block["type"] == "text" and not block["text"].strip():
        raise _bad(f"{at}.text: text content blocks must contain non-whitespace text")
    if block["type"] == "tool_use" and not (role == "assistant" and _ID.fullmatch(block["id"])):
        raise _bad(f"{at}.tool_use.id: String should match pattern '^{_ID.pattern}$'")
    if block["type"] == "tool_use" and not (_NAME.fullmatch(block["name"]) and isinstance(block["input"], dict)):
        raise _bad(f"{at}.tool_use: the name should match '^{_NAME.pattern}$', and input should be an object")
    if block["type"] == "tool_result" and role != "user":
        raise _bad(f"{at}: `tool_result` blocks can only be in `user` messages")
    for image in [block, *(block["content"] if isinstance(block.get("content"), list) else ())]:
        source = image["source"] if image["type"] == "image" else {}
        if source.get("type") == "base64" and source["media_type"] not in _IMAGES:
            raise _bad(f"{at}.source.base64.media_type: Input should be one of {sorted(_IMAGES)}")
        if source.get("type") == "url" and not source["url"].startswith("https://"):
            raise _bad(f"{at}.source.url: Only HTTPS URLs are supported")


def _check_compactions(messages: list[Any], body: Any) -> None:
    places = [
        (i, k, b)
        for i, m in enumerate(messages)
        for k, b in enumerate(_blocks(m))
        if b["type"] == "compaction" and b.get("content") is not None
    ]
    signed = [place for place in places if "signature" in place[2]]
    needed = {ON_DEMAND} if signed or "compaction" in body else {THRESHOLD} if places else set()
    if not needed <= set(body["_betas"]):
        raise _bad(f"'compaction' is not one of the expected content block types: send the beta header {needed}")
    if "compaction" in body and "context_management" in body:
        raise _bad("compaction and context_management exclude each other")
    for i, k, block in places:
        if block["content"] == "":
            raise _bad(f"messages.{i}.content.{k}.content: must not be empty")
        kept = unseal(block.get("signature", block.get("encrypted_content")))
        if kept is None:
            raise _bad("The compaction block's signature does not verify.", "compaction_signature_invalid")
        if kept != block["content"]:
            raise _bad("The content differs from what was signed.", "compaction_content_mismatch")
    if signed and len(places) > 1:
        raise _bad("Send only the block the conversation returned last.", "compaction_block_ambiguous")
    if signed and signed[0][:2] != (0, 0):
        raise _bad("`compaction` block must be sent first; remove those messages", "compaction_block_misplaced")


def _check_pairs(messages: list[Any]) -> None:
    """Each call has an id of its own and is answered in the next message, before anything else, and nothing else is."""
    waiting: list[str] = []
    called = [b["id"] for m in messages for b in _blocks(m) if b["type"] == "tool_use"]
    if len({*called}) < len(called):
        raise _bad("`tool_use` ids must be unique")
    for i, message in enumerate(messages):
        blocks = _blocks(message)
        results = [b["tool_use_id"] for b in blocks if b["type"] == "tool_result"]
        if sorted(results) != sorted(waiting):
            raise _bad(f"messages.{i}: `tool_use` {waiting} and `tool_result` {results} do not fit")
        if any(b["type"] != "tool_result" for b in blocks[: len(results)]):
            raise _bad(f"messages.{i}: `tool_result` blocks must come before other content")
        waiting = [b["id"] for b in blocks if b["type"] == "tool_use"]
    if waiting:
        raise _bad(f"`tool_use` {waiting} without `tool_result`")


def _from_last_compaction(messages: list[Any]) -> list[Any]:
    """What the model reads: everything before the last compaction with a summary is ignored."""
    for i in range(len(messages) - 1, -1, -1):
        blocks = _blocks(messages[i])
        for k in range(len(blocks) - 1, -1, -1):
            if blocks[k]["type"] == "compaction" and blocks[k].get("content") is not None:
                return [{**messages[i], "content": blocks[k:]}, *messages[i + 1 :]]
    return messages


def _blocks(message: Any) -> list[Any]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _said(block: Any) -> str:
    if block["type"] == "tool_result":
        content = block.get("content") or ""
        return content if isinstance(content, str) else " ".join(b.get("text", "") for b in content)
    return str(block.get("text") or block.get("content") or "")


def _bad(message: str, code: str = "invalid_request") -> Refusal:
    return Refusal(400, message, code)

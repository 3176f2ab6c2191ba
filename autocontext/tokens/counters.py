"""The counters: exact ones over a vocabulary, estimators, and the reference's own estimate."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

from autocontext.caches import cached
from autocontext.messages import ContentBlock, Msg, OutputBlock, TextBlock, ToolResultBlock, ToolUseBlock
from autocontext.text.normal_forms import normalized
from autocontext.tokens.chunks import CHUNK_CHARS, chunks, lines
from autocontext.tokens.request_size import utf8_bytes
from autocontext.tokens.vocabularies import VOCABULARIES, encoding
from autocontext.tokens.wire import wire_texts


@runtime_checkable
class TokenCounter(Protocol):
    """Counts tokens of texts and messages; implement it for a tokenizer of your own."""

    @property
    def name(self) -> str:
        """Name in reports."""

    @property
    def exact(self) -> bool:
        """Whether `count_text` is the model's own count, not an estimate."""

    def count_text(self, text: str) -> int:
        """Tokens of a text; 0 for ""."""

    def count(self, msg: Msg) -> int:
        """Tokens of a message as it is sent, with its overhead."""

    def bound(self, msg: Msg) -> int:
        """An upper limit of `count(msg)`, computed without tokenizing."""


@dataclass(frozen=True)
class VocabularyCounter:
    """Counts with a shipped vocabulary; `exact` is False for a model that only resembles the vocabulary's family.

    Special tokens (`<|endoftext|>`) count as ordinary text, lone surrogates as U+FFFD. `autocontext.tokens.wire`
    defines the overhead of messages. Raises AutoContextError if the data file is damaged.

        VocabularyCounter("o200k_base").count_text("hello world")      # 2
    """

    name: str
    exact: bool = True

    def load(self) -> None:
        """Load the vocabulary now, which the first count does otherwise; takes about 0.3 s, once in a process."""
        encoding(self.name)

    def count_text(self, text: str) -> int:
        """Tokens of a text, at 5 to 10 MB/s; the first call loads the vocabulary."""
        return self._sum((text,))

    def _count(self, text: str) -> int:
        if not text:
            return 0
        encode = encoding(self.name).encode_ordinary
        return sum([len(encode(part)) for part in self._parts(text)])

    def count(self, msg: Msg) -> int:
        """Tokens of a message as it is sent."""
        fixed, texts = wire_texts(msg)
        return fixed + (self._sum(texts) if msg.origin is None else sum(map(self.count_lines, texts)))

    def count_lines(self, text: str) -> int:
        """As `count_text`, but faster for texts whose lines were mostly counted before, such as notes."""
        return self._sum(lines(text)) if "\n" in text else self.count_text(text)

    def _sum(self, texts: Iterable[str]) -> int:
        short = _cached_count(self.name)
        return sum([short(text) if len(text) <= _SHORT else self._count(text) for text in texts])

    def bound(self, msg: Msg) -> int:
        """The fixed tokens and the UTF-8 bytes of the texts: a token has at least one byte."""
        fixed, texts = wire_texts(msg)
        return fixed + sum(map(self.bound_text, texts))

    def bound_text(self, text: str) -> int:
        """An upper limit of `count_text(text)`, computed without tokenizing."""
        if text.isascii() or not VOCABULARIES[self.name].normalize:
            return utf8_bytes(text)
        # NFC can add bytes (U+0958: from 3 to 6), and at a cut the accents behind it may change the letter before it.
        slices = (text[at : at + _SLICE] for at in range(0, len(text), _SLICE))
        sizes = [utf8_bytes(unicodedata.normalize("NFC", part)) for part in slices]
        return sum(sizes) + _AT_CUT * (len(sizes) - 1)

    def sampled(self, msg: Msg) -> int:
        """About `count(msg)`: of a text of more than a million characters, parts are tokenized."""
        fixed, texts = wire_texts(msg)
        return fixed + sum(map(self._sampled, texts))

    def _sampled(self, text: str) -> int:
        if len(text) <= _SAMPLES * CHUNK_CHARS:
            return self._count(text)
        parts = [text[at : at + CHUNK_CHARS] for at in range(0, len(text), len(text) // _SAMPLES)]
        return sum(map(self._count, parts)) * len(text) // sum(map(len, parts))

    def _parts(self, text: str) -> Iterable[str]:
        return map(normalized, chunks(text)) if VOCABULARIES[self.name].normalize else chunks(text)


BYTES_OF_TOKEN = 256
"""A message has more than `bound / BYTES_OF_TOKEN` tokens: the longest has 128 bytes, and a bound that normalizes texts
may count some bytes twice."""
_SAMPLES = 256
"""Parts of a long text that are tokenized for an estimate, a chunk each."""
_SLICE = 512
"""Characters that are normalized together for a bound; of a long run of combining marks more would take too long."""
_AT_CUT = 16
"""Bytes that a letter with accents, of which a cut separates some, can have more in NFC: the table of Unicode has 8."""
_SHORT = 256
"""Characters; counts of texts up to this length are cached, as notes repeat their lines from pass to pass."""


@cache
def _cached_count(name: str) -> Callable[[str], int]:
    """A cached count of short texts; not kept in the counter, which is a value and may be pickled."""
    return cached(8192)(VocabularyCounter(name)._count)  # noqa: SLF001 (the cache belongs to the class)


_BASE64 = re.compile(r"[A-Za-z0-9+/]{128,}={0,2}")
_LEAST_BLOB = 128
_BASE64_PER_TOKEN = 1.35
"""Characters of base64 per token, measured on random bytes: o200k 1.46, cl100k 1.40, Qwen 1.35."""


@dataclass(frozen=True)
class EstimatingCounter:
    """Estimates a token per four UTF-8 bytes ("bytes4") or characters ("chars4"), rounded up.

    Bytes suit all scripts about equally; characters suit English only (a Chinese character is about one token). Long
    runs of base64 count 1.35 characters a token.
    """

    name: Literal["bytes4", "chars4"] = "bytes4"
    exact: ClassVar[bool] = False

    def count_text(self, text: str) -> int:
        """Estimated tokens of a text."""
        blob = sum(len(run) for run in _BASE64.findall(text)) if len(text) >= _LEAST_BLOB else 0
        size = (utf8_bytes(text) if self.name == "bytes4" else len(text)) - blob
        return (size + 3) // 4 + math.ceil(blob / _BASE64_PER_TOKEN)

    def count(self, msg: Msg) -> int:
        """Estimated tokens of a message as it is sent."""
        fixed, texts = wire_texts(msg)
        return fixed + sum(map(self.count_text, texts))

    def bound(self, msg: Msg) -> int:
        """The estimate itself."""
        return self.count(msg)


@dataclass(frozen=True)
class AgentScopeJavaCounter:
    """The estimate of AgentScope-Java 1.x, so that passes trigger at the same points.

    A text costs its UTF-16 length / 2.5, rounded up. Overhead: 5 for a message, 10 for a call, 8 for a result, 5 for
    any other block that is not a text.
    """

    name: Literal["agentscope_java"] = "agentscope_java"
    exact: ClassVar[bool] = False

    def count_text(self, text: str) -> int:
        """Estimated tokens of a text."""
        utf16_units = len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
        return (utf16_units * 2 + 4) // 5

    def count(self, msg: Msg) -> int:
        """Estimated tokens of a message."""
        return 5 + self.count_text(msg.role) + self.count_text(msg.name) + sum(map(self._block, msg.content))

    def bound(self, msg: Msg) -> int:
        """The estimate itself."""
        return self.count(msg)

    def _block(self, block: ContentBlock | OutputBlock) -> int:
        est = self.count_text
        if isinstance(block, TextBlock):
            return est(block.text)
        if isinstance(block, ToolUseBlock):
            arguments = _java_map(block.input) if block.input else ""
            return 10 + est(block.name) + est(block.id) + est(arguments)
        if isinstance(block, ToolResultBlock):
            output = est(block.output) if isinstance(block.output, str) else sum(map(self._block, block.output))
            return 8 + est(block.name) + est(block.id) + output
        return 5


def _java_map(value: Any) -> str:
    """Arguments as the reference writes them: JSON without spaces and escapes."""
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, Mapping):
        return "{" + ",".join(f'"{k}":{_java_map(v)}' for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_java_map, value)) + "]"
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)

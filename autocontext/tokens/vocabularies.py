"""The shipped vocabularies, and the tokenizers built from them.

A data file is xz: the length of each token as one byte, in the order of ranks, then the bytes of all tokens.
`scripts/build_vocabularies.py` makes the files; NOTICE names their sources and licences.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from autocontext.errors import AutoContextError

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    import tiktoken


@dataclass(frozen=True)
class Vocabulary:
    """What a tokenizer needs besides the ranks, and the hash of the file with the ranks."""

    size: int
    """Number of tokens in the data file."""
    sha256: str
    """Of the data file."""
    pattern: str
    """Regular expression that splits a text into the pieces within which bytes are merged."""
    special_tokens: Mapping[str, int]
    normalize: bool = False
    """Whether the tokenizer first normalizes texts to NFC."""


# Two threads may build it at the same time; one result is kept, and counting needs no lock.
@cache
def encoding(name: str) -> tiktoken.Encoding:
    """The tokenizer of a vocabulary, built at the first use in about 0.3 s. Raises AutoContextError on damaged data."""
    # Late imports save 50 ms of `import autocontext`.
    from importlib.resources import files  # noqa: PLC0415

    import tiktoken  # noqa: PLC0415

    vocabulary = VOCABULARIES[name]
    file = files("autocontext.tokens") / "data" / f"{name}.xz"
    return tiktoken.Encoding(
        name,
        pat_str=vocabulary.pattern,
        mergeable_ranks=read_ranks(file, vocabulary.sha256, vocabulary.size),
        special_tokens=dict(vocabulary.special_tokens),
    )


def read_ranks(file: Traversable, sha256: str, size: int) -> dict[bytes, int]:
    """The tokens of a data file with their ranks. Raises AutoContextError if the file is missing or damaged."""
    import hashlib  # noqa: PLC0415
    import lzma  # noqa: PLC0415

    try:
        compressed = file.read_bytes()
    except OSError as e:
        raise AutoContextError(f"vocabulary {file} cannot be read ({e}); reinstall autocontext-memory") from e
    if hashlib.sha256(compressed).hexdigest() != sha256:
        raise AutoContextError(
            f"vocabulary {file} is damaged (its SHA-256 is not {sha256}); reinstall autocontext-memory"
        )
    raw = lzma.decompress(compressed)
    ends = accumulate(raw[:size], initial=size)
    return {raw[start:end]: rank for rank, (start, end) in enumerate(pairwise(ends))}


# Patterns and special tokens: tiktoken's openai_public (MIT) for OpenAI's, dashscope's qwen_tokenizer (Apache-2.0).
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_SHORT_FORM = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_O200K = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_SHORT_FORM}?|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_SHORT_FORM}?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++"
    r"|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)
_QWEN = rf"{_SHORT_FORM}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+" r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"

VOCABULARIES: Mapping[str, Vocabulary] = {
    "o200k_base": Vocabulary(
        size=199_998,
        sha256="87153d9c9c01efca072ae40a1c59a5f696bfde9ddabbbe94195df7a12d45080d",
        pattern=_O200K,
        special_tokens={"<|endoftext|>": 199_999, "<|endofprompt|>": 200_018},
    ),
    "cl100k_base": Vocabulary(
        size=100_256,
        sha256="89abe0092a9ff9eddb8324a59122fddbff4c975d339081ed6f21c4aeb5877bee",
        pattern=_CL100K,
        special_tokens={
            "<|endoftext|>": 100_257,
            "<|fim_prefix|>": 100_258,
            "<|fim_middle|>": 100_259,
            "<|fim_suffix|>": 100_260,
            "<|endofprompt|>": 100_276,
        },
    ),
    "qwen": Vocabulary(
        size=151_643,
        sha256="689c2d216de361acb77e5389b2dbff63204b138aaab740c397a323fa78822135",
        pattern=_QWEN,
        special_tokens={"<|endoftext|>": 151_643, "<|im_start|>": 151_644, "<|im_end|>": 151_645},
        normalize=True,
    ),
}
"""The vocabularies by name."""

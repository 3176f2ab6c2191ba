"""Make the vocabulary files of autocontext/tokens/data from the packages that carry the ranks.

    pip download --no-deps -d wheels llama-index-core==0.14.25 dashscope==2.0.2
    python scripts/build_vocabularies.py wheels

llama-index-core (MIT) carries OpenAI's o200k_base and cl100k_base under the names of tiktoken's cache (the SHA-1 of
their address), dashscope (Apache-2.0) carries Qwen's ranks. Each source must have the SHA-256 known for it: for
OpenAI's the one tiktoken itself checks. A file made is xz (LZMA2 with lc=4, pb=0): one byte of length per token in the
order of ranks, then the tokens' bytes. The SHA-256 printed goes into autocontext/tokens/vocabularies.py; other
versions of liblzma may give other bytes, so it changes with a rebuild, the ranks do not.
"""

from __future__ import annotations

import base64
import hashlib
import lzma
import sys
import zipfile
from pathlib import Path

TARGET = Path(__file__).resolve().parent.parent / "autocontext" / "tokens" / "data"

SOURCES = {
    "o200k_base": (
        "llama_index_core-*.whl",
        "llama_index/core/_static/tiktoken_cache/fb374d419588a4632f3f557e76b4b70aebbca790",
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    ),
    "cl100k_base": (
        "llama_index_core-*.whl",
        "llama_index/core/_static/tiktoken_cache/9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    ),
    "qwen": (
        "dashscope-*.whl",
        "dashscope/resources/qwen.tiktoken",
        "b2b1b8dfb5cc5f024bafc373121c6aba3f66f9a5a0269e243470a1de16a33186",
    ),
}

FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 4, "pb": 0}]


def tokens_of(ranks: bytes) -> list[bytes]:
    """The tokens of a .tiktoken file (lines of base64 and rank) in the order of ranks, which must have no gap."""
    pairs = [line.split() for line in ranks.splitlines() if line]
    if [int(rank) for _, rank in pairs] != list(range(len(pairs))):
        raise SystemExit("the ranks are not 0, 1, 2, ...")
    return [base64.b64decode(token) for token, _ in pairs]


def build(wheels: Path) -> None:
    """Write one data file per source and print name, tokens, bytes and SHA-256."""
    TARGET.mkdir(exist_ok=True)
    for name, (wheel, member, sha256) in SOURCES.items():
        downloads = sorted(wheels.glob(wheel))
        if not downloads:
            raise SystemExit(f"no {wheel} in {wheels}; see the docstring for the download")
        with zipfile.ZipFile(downloads[-1]) as archive:
            ranks = archive.read(member)
        if hashlib.sha256(ranks).hexdigest() != sha256:
            raise SystemExit(f"{downloads[-1].name}: {member} is not the known file")
        tokens = tokens_of(ranks)
        packed = lzma.compress(bytes(map(len, tokens)) + b"".join(tokens), check=lzma.CHECK_CRC32, filters=FILTERS)
        (TARGET / f"{name}.xz").write_bytes(packed)
        sys.stdout.write(f"{name}: {len(tokens)} tokens, {len(packed)} bytes, {hashlib.sha256(packed).hexdigest()}\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    build(Path(sys.argv[1]))

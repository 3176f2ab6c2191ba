"""The ranks shipped are upstream's, byte for byte, and damage is noticed."""

import base64
import hashlib
from importlib.resources import files

import pytest
import tiktoken
from tiktoken_ext import openai_public

from autocontext.errors import AutoContextError
from autocontext.tokens.vocabularies import VOCABULARIES, encoding, read_ranks

NAMES = sorted(VOCABULARIES)
# Of the .tiktoken files: OpenAI's are the ones tiktoken checks after its download, Qwen's is of dashscope 2.0.2.
UPSTREAM = {
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    "qwen": "b2b1b8dfb5cc5f024bafc373121c6aba3f66f9a5a0269e243470a1de16a33186",
}


def data(name):
    return files("autocontext.tokens") / "data" / f"{name}.xz"


def ranks(name):
    return read_ranks(data(name), VOCABULARIES[name].sha256, VOCABULARIES[name].size)


@pytest.mark.sampled
@pytest.mark.parametrize("name", NAMES)
def test_the_ranks_written_as_upstream_writes_them_have_its_hash(name):
    lines = (base64.b64encode(token) + b" %d\n" % rank for token, rank in ranks(name).items())
    text = b"".join(lines)
    assert UPSTREAM[name] in (hashlib.sha256(text).hexdigest(), hashlib.sha256(text[:-1]).hexdigest())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["o200k_base", "cl100k_base"])
def test_pattern_and_special_tokens_are_those_of_tiktoken(name, tmp_path):
    """tiktoken reads its definition with our ranks put where it keeps its downloads, so that it needs no network."""
    address = f"https://openaipublic.blob.core.windows.net/encodings/{name}.tiktoken"
    lines = (base64.b64encode(token) + b" %d\n" % rank for token, rank in ranks(name).items())
    (tmp_path / hashlib.sha1(address.encode(), usedforsecurity=False).hexdigest()).write_bytes(b"".join(lines))
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
        theirs = openai_public.ENCODING_CONSTRUCTORS[name]()
    assert theirs["pat_str"] == VOCABULARIES[name].pattern
    assert theirs["special_tokens"] == VOCABULARIES[name].special_tokens


@pytest.mark.slow
def test_qwen_is_dashscopes_own_tokenizer():
    from dashscope.tokenizers import qwen_tokenizer as dashscope

    vocabulary = VOCABULARIES["qwen"]
    assert vocabulary.pattern == dashscope.PAT_STR
    assert {(i, token) for token, i in vocabulary.special_tokens.items()} <= set(dashscope.SPECIAL_TOKENS)
    path = files("dashscope") / "resources" / "qwen.tiktoken"
    theirs = dashscope.QwenTokenizer(str(path))
    for text in ("你好，世界！", "Hello, world 12345", "e\u0301\u0323 नमस्ते \u0958", "def f(x):\n\treturn x  \n\n"):
        assert theirs.encode(text) == encoding("qwen").encode(theirs.decode(theirs.encode(text)))


# Samples of tiktoken's own tests (test_encoding.py).
@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("hello world", [15339, 1917]),
        ("rer", [38149]),
        ("'rer", [2351, 81]),
        ("today\n ", [31213, 198, 220]),
        ("today\n \n", [31213, 27907]),
        ("today\n  \n", [31213, 14211]),
    ],
)
def test_ids_are_those_of_tiktokens_tests(text, tokens):
    assert encoding("cl100k_base").encode(text) == tokens


def test_special_tokens_have_their_ids():
    assert encoding("cl100k_base").encode("hello <|endoftext|>", allowed_special="all") == [15339, 220, 100257]
    assert encoding("o200k_base").eot_token == 199_999
    assert encoding("qwen").eot_token == 151_643


@pytest.mark.parametrize("name", NAMES)
def test_it_is_built_once(name):
    assert isinstance(encoding(name), tiktoken.Encoding)
    assert encoding(name) is encoding(name)


def test_a_damaged_file_is_named(tmp_path):
    packed = bytearray(data("qwen").read_bytes())
    packed[len(packed) // 2] ^= 1
    damaged = tmp_path / "qwen.xz"
    damaged.write_bytes(packed)
    with pytest.raises(AutoContextError, match=r"qwen\.xz is damaged.*reinstall autocontext-memory"):
        read_ranks(damaged, VOCABULARIES["qwen"].sha256, VOCABULARIES["qwen"].size)


@pytest.mark.slow
def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(AutoContextError, match=r"qwen\.xz cannot be read.*reinstall autocontext-memory"):
        read_ranks(tmp_path / "qwen.xz", VOCABULARIES["qwen"].sha256, VOCABULARIES["qwen"].size)

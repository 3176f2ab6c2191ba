"""Arbitrary texts and messages: every script, white space, special tokens, lone surrogates, every kind of block."""

from hypothesis import strategies as st

from autocontext.messages import AudioBlock, ImageBlock, Msg, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock

PIECES = [
    " ", "  ", "\t", "\n", "\n\n", "\r\n", " \n", "\u00a0", "\u3000", "\x1c", "\x85",
    "a", "the", "Word", "HTTPServer", "it's", "we'LL", "'", "'s", "über", "naïve", "e\u0301", "\u0301\u0323",
    "1", "1234567", "²", "½", "Ⅷ", "٣",
    "_", "__init__", "-", "--", "...", ",", ".", "!?", "://", "/", "()", '{"k": 1}',
    "汉", "汉字", "測試", "，", "。", "「", "」", "…", "—",
    "ひらがな", "カナ", "한글", "สวัสดี", "नमस्ते", "مرحبا", "שלום",
    "😀", "👩‍💻", "\u0958", "\ufb2c", "\U0001d160", "\u212a",
    "<|endoftext|>", "<|im_start|>", "\ud800", "\udc00", "\x00",
]  # fmt: skip

texts = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=30).map("".join),
    st.text(st.characters(), max_size=60),  # surrogates included
)

_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)

_source = st.one_of(
    st.fixed_dictionaries({"type": st.just("url"), "url": texts}),
    st.fixed_dictionaries({"type": st.just("base64"), "media_type": st.just("image/png"), "data": texts}),
)
_media = st.builds(ImageBlock, source=_source) | st.builds(AudioBlock, source=_source)
_said = st.builds(TextBlock, text=texts) | st.builds(ThinkingBlock, thinking=texts)
blocks = st.one_of(
    _said,
    _media,
    st.builds(ToolUseBlock, id=texts, name=texts, input=st.dictionaries(texts, _json, max_size=3)),
    st.builds(ToolResultBlock, id=texts, name=texts, output=texts | st.lists(_said | _media, max_size=3).map(tuple)),
)
messages = st.builds(
    Msg,
    role=st.sampled_from(["system", "user", "assistant", "tool"]),
    name=texts,
    content=st.lists(blocks, max_size=4),
)

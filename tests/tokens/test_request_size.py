"""The size of a message as a request."""

import json

from hypothesis import given
from hypothesis import strategies as st

from autocontext.messages import TextBlock
from autocontext.tokens.request_size import block_size
from tests.tokens.strategies import texts

EVERY_ESCAPE = "".join(map(chr, range(128)))


@given(st.lists(texts | st.just(EVERY_ESCAPE), min_size=1), st.integers(1, 500))
def test_a_text_of_any_length_takes_the_bytes_of_its_json(parts, times):
    text = "".join(parts) * times
    written = json.dumps(text, ensure_ascii=False).encode("utf-8", "surrogatepass")
    empty = block_size(TextBlock(text="")) - 2
    assert block_size(TextBlock(text=text)) == empty + len(written)

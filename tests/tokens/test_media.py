"""Images cost by their pixels, read from the header of the file; what cannot be read costs a fixed price."""

import base64
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autocontext import AutoContextMemory
from autocontext.messages import AudioBlock, ImageBlock, VideoBlock
from autocontext.tokens.media import described, image_size, image_tokens, media_tokens
from autocontext.tokens.request_size import images_in

sides = st.integers(1, 16_383)


def png(width, height):
    return b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + struct.pack(">II", width, height) + b"\x08\x06\x00\x00\x00"


def gif(width, height):
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\x00\x00\x00"


def jpeg(width, height, start_of_frame=0xC0, preview=70_000):
    # An embedded preview in segments of at most 65,533 bytes holds a frame of its own, which must not be taken.
    inner = b"\xff\xd8\xff\xc0\x00\x11\x08\x00\x10\x00\x10".ljust(preview, b"\xff")
    segments = [inner[i : i + 65_533] for i in range(0, len(inner), 65_533)]
    before = b"".join(b"\xff\xe1" + struct.pack(">H", len(s) + 2) + s for s in segments)
    tables = b"\xff\xc4\x00\x04\x00\x00\xff\xff\xdb\x00\x03\x00"  # DHT, a fill byte, DQT
    frame = struct.pack(">BBHBHHB", 0xFF, start_of_frame, 17, 8, height, width, 3)
    return b"\xff\xd8" + before + tables + frame + bytes(9)


def webp(kind, header):
    return b"RIFF\x00\x00\x00\x00WEBP" + kind + b"\x00\x00\x00\x00" + header


def webp_lossy(width, height):
    return webp(b"VP8 ", b"\x00\x00\x00\x9d\x01\x2a" + struct.pack("<HH", width, height))


def webp_lossless(width, height):
    return webp(b"VP8L", b"\x2f" + struct.pack("<I", (width - 1) | (height - 1) << 14))


def webp_extended(width, height):
    return webp(b"VP8X", bytes(4) + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little"))


def progressive_jpeg(width, height):
    return jpeg(width, height, start_of_frame=0xC2, preview=0)


FORMATS = [png, gif, jpeg, progressive_jpeg, webp_lossy, webp_lossless, webp_extended]


def inline(data, **more):
    encoded = base64.b64encode(data).decode()
    return ImageBlock(source={"type": "base64", "media_type": "image/png", "data": encoded, **more})


@pytest.mark.parametrize("make", FORMATS)
@given(width=sides, height=sides, body=st.binary(max_size=50))
@settings(deadline=None)
def test_the_size_is_read_from_every_format(make, width, height, body):
    data = make(width, height) + body
    assert image_size(data) == (width, height)
    assert media_tokens(inline(data)) == image_tokens(width, height)


@pytest.mark.slow
@pytest.mark.parametrize("make", FORMATS)
def test_a_cut_header_has_no_size(make):
    whole = make(70_000, 70_000) if make is webp_extended else make(640, 480)
    found = [image_size(whole[:end]) for end in range(len(whole))]
    assert set(found) <= {None, image_size(whole)}
    assert set(found[:9]) == {None}


@given(st.binary(max_size=200), st.sampled_from([make(1, 1)[:n] for make in FORMATS for n in (2, 8, 16)]))
def test_no_bytes_break_it(data, start):
    size = image_size(start + data)
    assert size is None or min(size) > 0


# OpenAI's guide "Images and vision": its examples, and 150 x 150 from its price calculator.
@pytest.mark.parametrize(
    ("width", "height", "tokens"),
    [(1024, 1024, 765), (2048, 4096, 1105), (150, 150, 255), (512, 512, 255), (513, 512, 425), (768, 2048, 1445)],
)
def test_published_prices(width, height, tokens):
    assert image_tokens(width, height) == tokens


@given(sides, sides)
def test_prices_lie_between_one_tile_and_eight_and_do_not_depend_on_the_orientation(width, height):
    assert 255 <= image_tokens(width, height) <= 1445
    assert image_tokens(width, height) == image_tokens(height, width)


def test_a_data_url_is_read_and_an_address_is_not():
    data = base64.b64encode(png(1024, 1024)).decode()
    for url, tokens in [
        (f"data:image/png;base64,{data}", 765),
        (f"data:image/png;charset=x;base64,{data[:20]}\n{data[20:]}", 765),
        ("data:image/svg+xml,<svg/>", 1105),
        ("https://example.org/a.png", 1105),
        (data, 1105),
    ]:
        assert media_tokens(ImageBlock(source={"type": "url", "url": url})) == tokens


@pytest.mark.parametrize("data", ["", "A", "not base64 at all!", "汉字", "\ud800", "AAAA" * 100_000])
def test_data_that_is_no_image_costs_the_fixed_price(data):
    source = {"type": "base64", "media_type": "image/png", "data": data}
    assert media_tokens(ImageBlock(source=source)) == 1105


def test_length_does_not_count():
    assert media_tokens(inline(png(512, 512) + bytes(2_000_000))) == 255


def test_low_detail_and_what_the_caller_tells():
    assert media_tokens(inline(png(2048, 4096), detail="low")) == 85
    assert media_tokens(inline(png(2048, 4096), detail="high")) == 1105
    source = {"type": "url", "url": "https://example.org/clip"}
    assert media_tokens(AudioBlock(source=source)) == 600
    assert media_tokens(VideoBlock(source=source)) == 2630
    for block in (ImageBlock, AudioBlock, VideoBlock):
        assert media_tokens(block(source=source, metadata={"tokens": 12})) == 12
        assert media_tokens(block(source=source, metadata={"tokens": -1})) > 12
        assert media_tokens(block(source=source, metadata={"tokens": True})) > 12


@pytest.mark.parametrize("make", FORMATS)
def test_a_description_says_what_the_bytes_tell(make):
    kind = make.__name__.split("_")[-1 if make is progressive_jpeg else 0].upper()
    assert described(inline(make(1024, 768) + bytes(2_000_000))) in (
        f"1,024 x 768 {kind}, 2.0 MB",
        f"1,024 x 768 {kind}, 2.1 MB",
    )
    assert described(inline(make(3, 4))).startswith(f"3 x 4 {kind}, ")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ({"type": "base64", "media_type": "image/heic", "data": "AAAA" * 300}, "HEIC, 900 bytes"),
        ({"type": "base64", "media_type": "image/x] [m1", "data": "%" * 8_000}, "image, 6 KB"),
        ({"type": "url", "url": "data:image/png;base64,AAAA"}, "image, 3 bytes"),
        ({"type": "url", "url": "https://example.org/a.png?key=secret"}, "https://example.org/a.png"),
        ({"type": "url", "url": "https://e.org/" + "a" * 200}, "https://e.org/" + "a" * 66 + "..."),
        ({"type": "url", "url": "\n[x]?"}, "x"),
        ({"type": "url", "url": ""}, "from an address"),
    ],
)
def test_a_description_is_one_line_without_what_is_unknown(source, said):
    assert described(ImageBlock(source=source)) == said


URL = "https://example.org/a.png"


@pytest.mark.parametrize("detail", ["low", "high", "auto", None])
@pytest.mark.parametrize("form", ["chat", "responses", "result"])
def test_the_detail_of_a_format_counts(form, detail):
    more = {} if detail is None else {"detail": detail}
    given = {
        "chat": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": URL, **more}}]}],
        "responses": [{"type": "message", "role": "user", "content": [_image(more)]}],
        "result": [
            {"role": "user", "content": "Look."},
            {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": [_image(more)]},
        ],
    }[form]
    memory = AutoContextMemory()
    memory.add(given)
    [(_, image)] = images_in(memory.messages[-1])
    assert media_tokens(image) == (85 if detail == "low" else 1105)
    sent = memory.to_openai() if form == "chat" else memory.to_responses()
    assert sent[-1] == given[-1]


def _image(more):
    return {"type": "input_image", "image_url": URL, **more}

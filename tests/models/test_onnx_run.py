"""What an ONNX file may not do, told from its bytes alone: neither onnx nor onnxruntime is needed to see it."""

import pytest

from askless.models.onnx_run import has_outside_data


def field(number, content):
    """A field of protobuf: bytes, or a whole number."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(value):
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


INSIDE = field(1, 2) + field(9, bytes(300)) + field(14, 0)
LOCATED = INSIDE + field(14, 1)
NAMED = INSIDE + field(13, field(1, b"location") + field(2, b"/etc/passwd"))
PLACES = {
    "a weight": lambda tensor: field(7, field(5, tensor)),
    "indices of a sparse weight": lambda tensor: field(7, field(15, field(2, tensor))),
    "a constant": lambda tensor: field(7, field(1, field(5, field(5, tensor)))),
    "one of several constants": lambda tensor: field(7, field(1, field(5, field(10, tensor)))),
    "a branch": lambda tensor: field(7, field(1, field(5, field(6, field(5, tensor))))),
    "a function": lambda tensor: field(25, field(7, field(5, field(5, tensor)))),
    "training": lambda tensor: field(20, field(1, field(5, tensor))),
    "a second graph": lambda tensor: field(7, field(5, INSIDE)) + field(7, field(5, tensor)),
}


@pytest.mark.parametrize("place", PLACES)
def test_data_in_another_file_are_seen_wherever_a_tensor_can_be(place):
    assert not has_outside_data(field(1, 9) + PLACES[place](INSIDE))
    assert has_outside_data(field(1, 9) + PLACES[place](LOCATED))
    assert has_outside_data(field(1, 9) + PLACES[place](NAMED))


def test_what_is_no_protobuf_is_refused():
    for content in (
        b"\x3a",
        b"\x3a\xff\xff\xff\xff\x0f",
        b"\x3b\x00",
        b"\xff" * 20,
        b"\x0d\x00",
        field(7, b"\x2a\x09"),
    ):
        with pytest.raises(ValueError, match="that does not end"):
            has_outside_data(content)
    with pytest.raises(ValueError, match="a field number that does not exist"):  # some take it for field 7
        has_outside_data(field(7 + 2**29, field(5, LOCATED)))

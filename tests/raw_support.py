"""A RAW file made by hand: a DNG with sensor data and, if given, an embedded preview."""

import struct

import numpy as np

SHORT, LONG, TEXT, RATIONAL, SIGNED_RATIONAL, BYTE = 3, 4, 2, 5, 10, 1
FORMATS = {SHORT: "H", LONG: "I", BYTE: "B", RATIONAL: "II", SIGNED_RATIONAL: "ii"}
ONES = [(1, 1)] * 3
IDENTITY = [(int(row == column), 1) for row in range(3) for column in range(3)]


def make_dng(
    preview: tuple[bytes, int, int] | None = None,
    size: tuple[int, int] = (800, 600),
    orientation: int = 1,
    taken: str = "2021:07:04 12:30:00",
) -> bytes:
    """The left half of the sensor is bright; `preview` is a JPEG with its width and height."""
    width, height = size
    sensor = np.full((height, width), 8_000, np.uint16)
    sensor[:, : width // 2] = 30_000
    out = bytearray(b"II*\0\0\0\0\0")
    raw = [
        (254, LONG, [0]), (256, LONG, [width]), (257, LONG, [height]), (258, SHORT, [16]),
        (259, SHORT, [1]), (262, SHORT, [32803]), (273, LONG, [_put(out, sensor.tobytes())]),
        (277, SHORT, [1]), (278, LONG, [height]), (279, LONG, [sensor.nbytes]),
        (33421, SHORT, [2, 2]), (33422, BYTE, [0, 1, 1, 2]), (50714, SHORT, [0]),
        (50717, LONG, [65535]),
    ]  # fmt: skip
    camera = [
        (271, TEXT, "Test"), (272, TEXT, "Camera"), (274, SHORT, [orientation]), (306, TEXT, taken),
        (34665, LONG, [_directory(out, [(0x9003, TEXT, taken)])]), (50706, BYTE, [1, 4, 0, 0]),
        (50707, BYTE, [1, 1, 0, 0]), (50708, TEXT, "Test Camera"),
        (50721, SIGNED_RATIONAL, IDENTITY), (50728, RATIONAL, ONES), (50778, SHORT, [21]),
    ]  # fmt: skip
    if preview is None:
        first = _directory(out, raw + camera)
    else:
        jpeg, wide, high = preview
        first = _directory(out, [
            (254, LONG, [1]), (256, LONG, [wide]), (257, LONG, [high]), (258, SHORT, [8, 8, 8]),
            (259, SHORT, [7]), (262, SHORT, [6]), (273, LONG, [_put(out, jpeg)]), (277, SHORT, [3]),
            (278, LONG, [high]), (279, LONG, [len(jpeg)]), (330, LONG, [_directory(out, raw)]),
            *camera,
        ])  # fmt: skip
    struct.pack_into("<I", out, 4, first)
    return bytes(out)


def _put(out: bytearray, data: bytes) -> int:
    out.extend(bytes(-len(out) % 4))
    out.extend(data)
    return len(out) - len(data)


def _directory(out: bytearray, entries: list) -> int:
    rows = []
    for tag, kind, values in sorted(entries, key=lambda entry: entry[0]):
        if kind == TEXT:
            data, count = values.encode() + b"\0", len(values) + 1
        else:
            flat = np.ravel(values).tolist()
            data, count = struct.pack(f"<{len(flat)}{FORMATS[kind][0]}", *flat), len(values)
        value = data.ljust(4, b"\0") if len(data) <= 4 else struct.pack("<I", _put(out, data))
        rows.append(struct.pack("<HHI", tag, kind, count) + value)
    return _put(out, struct.pack("<H", len(rows)) + b"".join(rows) + bytes(4))

"""Files that break readers: images, models, arrays, tables and configurations, from seeds.

Each generator yields (name, bytes). Half of the files are valid ones with damage: flipped bits, cut
ends, repeated and exchanged parts, large numbers where sizes are. The others are built to be large,
deep, long or of a wrong type.
"""

import io
import json
import struct
import zlib
from collections.abc import Callable, Iterator

import numpy as np
from PIL import Image

HUGE = (0, 1, 255, 2**15, 2**16 - 1, 2**31 - 1, 2**32 - 1)


def damaged(data: bytes, rng: np.random.Generator) -> bytes:
    """A file with one to four faults."""
    for _ in range(rng.integers(1, 5)):
        buffer = bytearray(data)
        kind, at = rng.integers(6), int(rng.integers(max(len(data), 1)))
        near = int(rng.integers(min(len(data), 64) or 1))  # headers are at the start
        if kind == 0 and buffer:
            buffer[at] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            buffer = buffer[:at]
        elif kind == 2:
            size = int(rng.choice([2, 4]))
            number = int(rng.choice(HUGE)) % 256**size
            buffer[near : near + size] = number.to_bytes(size, rng.choice(["big", "little"]))
        elif kind == 3:
            other = int(rng.integers(max(len(data), 1)))
            buffer[at:at] = buffer[other : other + int(rng.integers(1, 4000))]
        elif kind == 4:
            buffer[at : at + 20] = rng.bytes(20)
        else:
            buffer[near] = int(rng.integers(256)) if buffer else 0
        data = bytes(buffer)
    return data


def saved(image: Image.Image, kind: str, **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def valid_images(rng: np.random.Generator) -> list[tuple[str, bytes]]:
    """A small image in every format and in many modes."""
    pixels = Image.fromarray(rng.integers(0, 255, (60, 80, 3), dtype=np.uint8))
    exif = Image.Exif()
    exif[0x0112] = 6
    frames = [pixels.rotate(angle).convert("P") for angle in (0, 10, 20)]
    images = [
        ("jpg", saved(pixels, "JPEG", exif=exif)),
        ("jpg", saved(pixels, "JPEG", progressive=True, quality=30)),
        ("jpg", saved(pixels.convert("CMYK"), "JPEG")),
        ("png", saved(pixels, "PNG")),
        ("png", saved(pixels.convert("RGBA"), "PNG")),
        ("png", saved(pixels.convert("P"), "PNG", transparency=3)),
        ("png", saved(pixels.convert("L").convert("I;16"), "PNG")),
        ("png", saved(pixels.convert("1"), "PNG")),
        ("gif", saved(frames[0], "GIF", save_all=True, append_images=frames[1:])),
        ("bmp", saved(pixels, "BMP")),
        ("webp", saved(pixels, "WEBP")),
        ("webp", saved(pixels, "WEBP", lossless=True)),
        ("tif", saved(pixels, "TIFF")),
        ("tif", saved(pixels, "TIFF", compression="tiff_lzw")),
        ("tif", saved(pixels, "TIFF", compression="jpeg")),
        ("tif", saved(pixels.convert("F"), "TIFF", compression="tiff_deflate")),
    ]
    try:
        import pillow_heif

        stream = io.BytesIO()
        pillow_heif.from_pillow(pixels).save(stream, quality=50)
        images.append(("heic", stream.getvalue()))
    except ImportError:
        pass
    return images


def png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def zeros_png(width: int, height: int, colour: int, depth: int = 8, extra: bytes = b"") -> bytes:
    """A valid PNG of zeros, made without holding its pixels."""
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour]
    row = 1 + -(-width * channels * depth // 8)
    packer, left, parts = zlib.compressobj(9), row * height, []
    while left:
        size = min(left, 2**20)
        parts.append(packer.compress(bytes(size)))
        left -= size
    parts.append(packer.flush())
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    palette = png_chunk(b"PLTE", bytes(768)) if colour == 3 else b""
    body = png_chunk(b"IHDR", header) + palette + extra + png_chunk(b"IDAT", b"".join(parts))
    return b"\x89PNG\r\n\x1a\n" + body + png_chunk(b"IEND", b"")


LARGE: list[Callable[[], tuple[str, bytes]]] = [
    lambda: ("png", zeros_png(1, 49_900_000, 0)),
    lambda: ("png", zeros_png(1, 80_000_000, 0)),
    lambda: ("png", zeros_png(80_000_000, 1, 0)),
    lambda: ("png", zeros_png(9_400, 9_400, 2)),
    lambda: ("png", zeros_png(9_400, 9_400, 6)),
    lambda: ("png", zeros_png(9_400, 9_400, 3)),
    lambda: ("png", zeros_png(9_400, 9_400, 0, 16)),
    lambda: ("png", zeros_png(1_365, 65_535, 6)),
    lambda: ("png", zeros_png(700, 65_535, 6)),
    lambda: ("png", zeros_png(65_535, 700, 0, 16)),
    lambda: ("png", zeros_png(9, 9, 2, extra=8 * inflating_text())),
    lambda: ("jpg", saved(Image.new("RGB", (9_400, 9_400)), "JPEG", progressive=True)),
    lambda: ("jpg", saved(Image.new("CMYK", (8_000, 8_000)), "JPEG", progressive=True)),
    lambda: ("jpg", saved(Image.new("RGB", (65_500, 1_300)), "JPEG")),
    lambda: ("webp", saved(Image.new("RGB", (16_383, 5_000)), "WEBP", method=0)),
    lambda: ("webp", saved(Image.new("RGB", (5_700, 5_700)), "WEBP", lossless=True, method=0)),
    lambda: ("tif", saved(Image.new("RGB", (9_000, 9_000)), "TIFF", compression="tiff_lzw")),
    lambda: ("tif", saved(Image.new("F", (9_000, 9_000)), "TIFF", compression="tiff_lzw")),
    lambda: ("gif", saved(Image.new("P", (9_000, 9_000)), "GIF")),
    lambda: ("bmp", saved(Image.new("L", (9_000, 9_000)), "BMP")),
]


def inflating_text() -> bytes:
    """A text of a PNG that becomes 100 MB."""
    return png_chunk(b"zTXt", b"note\0\0" + zlib.compress(bytes(100_000_000), 9))


def hostile_images(count: int, seed: int, large: bool = True) -> Iterator[tuple[str, bytes]]:
    """Damaged images, those that claim to be large, and those that are."""
    rng = np.random.default_rng(seed)
    valid = valid_images(rng)
    makers = LARGE if large else []
    for number in range(count):
        if number < len(makers):
            suffix, data = makers[number]()
        else:
            suffix, data = valid[rng.integers(len(valid))]
            data = rng.bytes(300) if number % 50 == 0 else damaged(data, rng)
        yield f"{number:05}.{suffix}", data


# Values of every wrong kind, put in the place of any value of a configuration.
STRANGE = [
    None, True, -1, 0, 10**9, 10**30, -1.5, 1e308, float("nan"), float("inf"), "", "x" * 10_000,
    "\x00", "../../etc/passwd", [], {}, [[]], {"a": None}, ["a"] * 1000, "\ud800", 3.7, "4",
]  # fmt: skip


def with_strange_value(config: object, rng: np.random.Generator) -> object:
    """A copy of nested dicts with one value replaced, removed or added."""
    if not isinstance(config, dict) or not config or rng.random() < 0.1:
        return STRANGE[rng.integers(len(STRANGE))]
    copy, key = dict(config), list(config)[rng.integers(len(config))]
    action = rng.random()
    if action < 0.1:
        del copy[key]
    elif action < 0.2:
        copy[f"{key}?"] = 1
    else:
        copy[key] = with_strange_value(copy[key], rng)
    return copy


def with_large_numbers(config: dict[str, object]) -> Iterator[dict[str, object]]:
    """Copies of nested dicts, each with one number that would take far too much memory or time."""
    for key, value in config.items():
        if isinstance(value, dict):
            for copy in with_large_numbers(value):
                yield config | {key: copy}
        elif isinstance(value, int | float) and not isinstance(value, bool):
            for large in (10**9, 100_000):
                yield config | {key: large}


def nested(depth: int) -> bytes:
    return b'{"format":' + b"[" * depth + b"]" * depth + b"}"


def hostile_configs(config: dict[str, object], count: int, seed: int) -> Iterator[bytes]:
    """The config.json of a model, with strange values or damaged."""
    rng = np.random.default_rng(seed)
    plain = json.dumps(config).encode()
    first = [b"", b"{}", b"[]", b"null", b"\xff\xfe{}", nested(100_000), plain[:-5]]
    first += [json.dumps(large).encode() for large in with_large_numbers(config)]
    yield from first[:count]
    for number in range(count - len(first)):
        if number % 4 == 3:
            yield damaged(plain, rng)
        else:
            yield json.dumps(with_strange_value(config, rng)).encode()


def npy(header: str) -> bytes:
    """A .npy file that has only a header."""
    text = header.encode().ljust(118) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def hostile_arrays(count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    rng = np.random.default_rng(seed)
    stream = io.BytesIO()
    np.save(stream, rng.standard_normal((5, 4, 8)).astype(np.float32))
    for shape in (
        "(10000000000, 4, 8)",
        "(9223372036854775807,)",
        "(-1, 3)",
        "(1.5,)",
        "()",
        "(0,)",
    ):
        yield "a.npy", npy(f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}")
    for descr in ("'|O'", "'<U1000000000'", "[('a', '<f4')]", "'<M8[ns]'", "1", "'<f16'"):
        yield "a.npy", npy(f"{{'descr': {descr}, 'fortran_order': False, 'shape': (2,), }}")
    yield "a.npy", npy("(" * 100)
    for _ in range(count - 13):
        yield "a.npy", damaged(stream.getvalue(), rng)


def hostile_tables(count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    rng = np.random.default_rng(seed)
    plain = b'id,caption\n1,"a dog, asleep"\n2,a cat\n3,snow\n'
    yield "a.csv", b"caption\n" + b'"' + b"x" * 5_000_000
    yield "a.csv", b"caption\n" + b"x," * 200_000
    yield "a.csv", b"caption" * 50_000 + b"\n1\n"
    yield "a.csv", b"caption\n\x00\n\xff\xfe\n"
    yield "a.csv", b""
    yield "a.tsv", b"caption\n" + b"\t" * 100_000
    parquet = _parquet()
    for number in range(count - 6):
        suffix, data = ("parquet", parquet) if parquet and number % 2 else ("csv", plain)
        yield f"a.{suffix}", damaged(data, rng)


def _parquet() -> bytes | None:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        return None
    table = pyarrow.table({"id": list(range(50)), "caption": [f"text {n}" for n in range(50)]})
    stream = io.BytesIO()
    pyarrow.parquet.write_table(table, stream)
    return stream.getvalue()

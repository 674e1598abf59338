"""Writes locked.txt: every version of constraints.txt with the hashes of its files.

    python scripts/lock.py --index URL

URL is a package index ("simple" pages), which states the SHA-256 of every file. Files for Linux and
Python 3.11 are listed, wheels only: a source archive would run code while it is installed. torch is
left out: its builds for CPUs and for each CUDA come from different indexes under one version, and
pip would prefer the build that is listed to the one that fits the machine.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit
from urllib.request import urlopen

from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

ROOT = Path(__file__).parents[1]
UNLOCKED = "torch"
PYTHON = (3, 11)
PLATFORM = re.compile(r"any|(many)?linux.*_(x86_64|aarch64)")
INTERPRETERS = {
    (tag.interpreter, tag.abi)
    for tags in (
        cpython_tags(PYTHON, platforms=["any"]),
        compatible_tags(PYTHON, "cp311", platforms=["any"]),
    )
    for tag in tags
}
HEADER = """\
# Written by scripts/lock.py from constraints.txt: SHA-256 of every wheel for Linux and Python 3.11.
# Install it with make install-locked (docs/supply-chain.md).
"""


class Links(HTMLParser):
    """Names and hashes of the files on a page of an index."""

    def __init__(self) -> None:
        super().__init__()
        self.files: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        href = dict(attrs).get("href") if tag == "a" else None
        if href:
            url, fragment = urldefrag(href)
            if fragment.startswith("sha256="):
                name = unquote(urlsplit(url).path.rpartition("/")[2])
                self.files.append((name, fragment.removeprefix("sha256=")))


def fits(tag: Tag) -> bool:
    """Whether Linux and this version of Python can install a wheel with this tag."""
    return (tag.interpreter, tag.abi) in INTERPRETERS and bool(PLATFORM.fullmatch(tag.platform))


def is_wheel_of(file: str, name: str, version: str) -> bool:
    """Whether a file is a wheel of this version that fits."""
    try:
        found, release, _, tags = parse_wheel_filename(file)
    except InvalidWheelFilename:
        return False
    same = found == canonicalize_name(name) and release == Version(version)
    return same and any(map(fits, tags))


def published_hashes(index: str, name: str, version: str) -> list[str]:
    """Hashes of the wheels of a version that fit."""
    page = Links()
    with urlopen(f"{index.rstrip('/')}/{canonicalize_name(name)}/", timeout=60) as response:
        page.feed(response.read().decode())
    return [value for file, value in page.files if is_wheel_of(file, name, version)]


def pins(text: str) -> Iterator[tuple[str, str]]:
    """Names and versions of constraints.txt."""
    for line in text.split():
        name, _, version = line.partition("==")
        yield name, version


def lock(index: str, constraints: str) -> str:
    """The content of locked.txt."""
    packages = [pin for pin in pins(constraints) if pin[0] != UNLOCKED]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda package: published_hashes(index, *package), packages))
    lines = []
    for (name, version), hashes in zip(packages, found, strict=True):
        if not hashes:
            sys.exit(f"the index has no wheel of {name} {version} for Linux and Python 3.11")
        entries = (f"--hash=sha256:{value}" for value in sorted(set(hashes)))
        lines.append(" \\\n    ".join([f"{name}=={version}", *entries]))
    return HEADER + "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--index", required=True, metavar="URL")
    args = parser.parse_args()
    constraints = (ROOT / "constraints.txt").read_text()
    (ROOT / "locked.txt").write_text(lock(args.index, constraints))


if __name__ == "__main__":
    main()

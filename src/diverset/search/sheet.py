"""An HTML page of results that stands alone: `diverset search ... --open`."""

from __future__ import annotations

import base64
import hashlib
import html
import os
import webbrowser
from collections.abc import Sequence
from pathlib import Path

from diverset.errors import DataError
from diverset.search.searcher import Match
from diverset.search.thumbnails import thumbnail

STYLE = """
:root { color-scheme: light dark; font: 15px/1.4 system-ui, sans-serif }
body { margin: 2rem auto; max-width: 75rem; padding: 0 1rem }
.grid { display: grid; gap: .8rem; grid-template-columns: repeat(auto-fill, minmax(11rem, 1fr)) }
figure { margin: 0 } img { width: 100%; height: 11rem; object-fit: cover; border-radius: .4rem }
figcaption { font-size: .8rem; overflow-wrap: anywhere } .note { font-weight: 600 }
"""


def open_sheet(folder: Path, title: str, groups: Sequence[Sequence[Match]], note: str) -> Path:
    """Write the page into the library's folder, show it, and say where it is."""
    page = write_sheet(folder / "sheets", title, groups, note)
    webbrowser.open(page.as_uri())
    return page


def write_sheet(folder: Path, title: str, groups: Sequence[Sequence[Match]], note: str) -> Path:
    """The page as a file; the same question writes the same one."""
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / f"{hashlib.blake2b(os.fsencode(title), digest_size=6).hexdigest()}.html"
    parts = [f"<p class=note>{html.escape(note)}</p>" if note else ""]
    for at, some in enumerate(groups):
        head = f"<h2>group {at + 1}</h2>" if len(groups) > 1 else ""
        parts.append(f"{head}<div class=grid>{''.join(map(_figure, some))}</div>")
    said = html.escape(title)
    page.write_text(
        "<!doctype html><html lang=en><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width'>"
        f"<title>{said}</title><style>{STYLE}</style><h1>{said}</h1>{''.join(parts)}",
        encoding="utf-8",
        errors="replace",
    )
    return page


def _figure(match: Match) -> str:
    said = f"{match.score:.3f}" if match.probability is None else f"{match.probability:.0%}"
    path = html.escape(match.id, quote=True)
    try:
        data = base64.b64encode(thumbnail(match.id)).decode()
        shown = f"<img alt='{path}' src='data:image/jpeg;base64,{data}'>"
    except DataError:
        shown = "<p>the file is gone or broken</p>"
    link = html.escape(Path(match.id).as_uri(), quote=True)
    return f"<figure><a href='{link}'>{shown}</a><figcaption>{said} {path}</figcaption></figure>"

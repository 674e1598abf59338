"""A self-contained HTML page of hits: `diverset search ... --open`."""

from __future__ import annotations

import base64
import hashlib
import html
import os
import webbrowser
from collections.abc import Sequence
from pathlib import Path

from diverset.errors import DataError
from diverset.photos.search.result import SearchHit
from diverset.photos.search.thumbnails import thumbnail

STYLE = """
:root { color-scheme: light dark; font: 15px/1.4 system-ui, sans-serif }
body { margin: 2rem auto; max-width: 75rem; padding: 0 1rem }
.grid { display: grid; gap: .8rem; grid-template-columns: repeat(auto-fill, minmax(11rem, 1fr)) }
figure { margin: 0 } img { width: 100%; height: 11rem; object-fit: cover; border-radius: .4rem }
figcaption { font-size: .8rem; overflow-wrap: anywhere } .note { font-weight: 600 }
"""


def open_page(folder: Path, title: str, groups: Sequence[Sequence[SearchHit]], note: str) -> Path:
    """Write the page into the library's folder, open it in a browser and return its path.

    The same title overwrites the same file.
    """
    page = (
        folder / "pages" / f"{hashlib.blake2b(os.fsencode(title), digest_size=6).hexdigest()}.html"
    )
    page.parent.mkdir(exist_ok=True)
    body = [f"<p class=note>{html.escape(note)}</p>" if note else ""]
    for number, hits in enumerate(groups, start=1):
        heading = f"<h2>group {number}</h2>" if len(groups) > 1 else ""
        body.append(f"{heading}<div class=grid>{''.join(map(_figure, hits))}</div>")
    heading = html.escape(title)
    page.write_text(
        "<!doctype html><html lang=en><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width'>"
        f"<title>{heading}</title><style>{STYLE}</style><h1>{heading}</h1>{''.join(body)}",
        encoding="utf-8",
        errors="replace",
    )
    webbrowser.open(page.as_uri())
    return page


def _figure(hit: SearchHit) -> str:
    path = html.escape(hit.id, quote=True)
    try:
        data = base64.b64encode(thumbnail(hit.id)).decode()
        image = f"<img alt='{path}' src='data:image/jpeg;base64,{data}'>"
    except DataError:
        image = "<p>the file is missing or damaged</p>"
    link = html.escape(Path(hit.id).as_uri(), quote=True)
    caption = f"<figcaption>{hit.label} {path}</figcaption>"
    return f"<figure><a href='{link}'>{image}</a>{caption}</figure>"

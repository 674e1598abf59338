"""Hooks of the documentation site (mkdocs.yml): pages from files outside of docs/.

The model card, the examples, SECURITY.md, CONTRIBUTING.md and CHANGELOG.md stay where readers of
the repository look for them; the site shows them as pages. Links between all of them are rewritten.
"""

from __future__ import annotations

import json
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PAGES = {
    "SECURITY.md": "security.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "src/diverset/weights/photos/README.md": "model-card.md",
    "examples/README.md": "examples.md",
    "README.md": "index.md",
}
"""File of the repository -> page of the site. README.md is only linked to, as the start page."""
LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\])\(([^)\s#]+)(#[^)\s]*)?\)")
CODE = re.compile(r"(```.*?```|`[^`\n]+`)", re.DOTALL)


def on_files(files: Files, config: Any) -> Files:
    for source, page in PAGES.items():
        if source == "README.md":
            continue
        text = (ROOT / source).read_text(encoding="utf-8")
        if source == "examples/README.md":
            text += example_sources()
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    uri = page.file.src_uri
    source = next((name for name, target in PAGES.items() if target == uri), f"docs/{uri}")
    if uri == "index.md":
        source = "docs/index.md"
    parts = CODE.split(markdown)
    parts[::2] = [rewrite_links(text, source, uri) for text in parts[::2]]
    return "".join(parts)


def rewrite_links(text: str, source: str, page: str) -> str:
    """Links of a file of the repository as links of its page; others become plain text.

    >>> rewrite_links("[rules](../SECURITY.md#reporting)", "docs/photos.md", "photos.md")
    '[rules](security.md#reporting)'
    >>> rewrite_links("[code](../pyproject.toml)", "docs/photos.md", "photos.md")
    'code'
    """

    def rewrite(match: re.Match[str]) -> str:
        label, target, anchor = match[1], match[2], match[3] or ""
        if "://" in target or target.startswith("mailto:"):
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if path.startswith("examples/") and path not in PAGES:
            path, anchor = "examples/README.md", "#" + heading_id(posixpath.basename(path))
        uri = PAGES.get(path) or path.removeprefix("docs/")
        if uri == path:  # neither a page nor in docs/
            return label.removeprefix("[").removesuffix("]")
        return f"{label}({posixpath.relpath(uri, posixpath.dirname(page) or '.')}{anchor})"

    return LINK.sub(rewrite, text)


def heading_id(name: str) -> str:
    """The anchor that Markdown gives to a heading with the name of a file.

    >>> heading_id("train_on_csv.py")
    'train_on_csvpy'
    """
    return name.replace(".", "")


def example_sources() -> str:
    """All examples below their table."""
    sections = []
    for path in sorted((ROOT / "examples").glob("*.py")):
        sections.append(f"## {path.name}\n\n```python\n{path.read_text(encoding='utf-8')}```\n")
    for path in sorted((ROOT / "examples").glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        body = "\n\n".join(notebook_cell(cell) for cell in cells)
        sections.append(f"## {path.name}\n\n{body}\n")
    return "\n" + "\n".join(sections)


def notebook_cell(cell: dict[str, Any]) -> str:
    text = "".join(cell["source"])
    if cell["cell_type"] == "code":
        return f"```python\n{text}\n```"
    return re.sub(r"^(#+) ", r"##\1 ", text, flags=re.MULTILINE)

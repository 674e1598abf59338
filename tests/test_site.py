"""The documentation site builds without warnings, its links lead somewhere, and it loads nothing
from other hosts."""

import doctest
import importlib.util
import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[1]
pytest.importorskip("material", reason="pip install 'diverset[docs]'")
pytest.importorskip("mkdocstrings", reason="pip install 'diverset[docs]'")


class Page(HTMLParser):
    """The ids of a page, its links, and what a browser loads for it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = dict(attributes)
        if "id" in values:
            self.ids.add(values["id"] or "")
        if tag == "a" and values.get("href"):
            self.links.append(values["href"] or "")
        elif tag == "link" and values.get("rel") not in ("canonical", "prev", "next"):
            self.loaded.append(values.get("href") or "")
        elif tag in ("script", "img", "iframe", "source") and values.get("src"):
            self.loaded.append(values["src"] or "")


def build(folder: Path) -> dict[Path, Page]:
    """The pages of the site, built without a warning."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return {path: Page(path) for path in folder.rglob("*.html") if path.name != "404.html"}


def check_links(site: dict[Path, Page]) -> None:
    """Links lead to pages and headings."""
    for path, page in site.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.exists(), (path.name, link)
            if parts.fragment and target.suffix == ".html":
                ids = site[target].ids
                assert unquote(parts.fragment) in ids or parts.fragment == "__skip", (path, link)


def check_loaded(site: dict[Path, Page]) -> None:
    """Nothing is loaded from other hosts, and what is loaded exists."""
    for path, page in site.items():
        for address in page.loaded:
            assert not urlsplit(address).netloc, (path.name, address)
            local = (path.parent / unquote(urlsplit(address).path)).resolve()
            assert address.startswith("data:") or local.exists(), (path.name, address)


def check_reference(site: dict[Path, Page]) -> None:
    """Docstrings are shown, with their examples as code."""
    (path,) = (path for path in site if path.parts[-2:] == ("reference", "similarity.html"))
    text = path.read_text(encoding="utf-8")
    assert "every element is softly assigned to the other set" in text
    assert "<blockquote>" not in text  # doctests are code, not quotations


def test_the_site_is_complete(tmp_path):
    site = build(tmp_path)  # once: it takes several seconds
    assert len(site) > 50
    check_links(site)
    check_loaded(site)
    check_reference(site)


@pytest.mark.parametrize("name", ["site_hooks", "griffe_doctests"])
def test_examples_in_the_hooks_hold(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    result = doctest.testmod(module)
    assert result.attempted > 0 and result.failed == 0

"""The page in a real Chromium: the whole way, on a desk and on a phone."""

import io
import shutil
import time
from dataclasses import replace

import pytest
from library.making import make_model, make_picture, make_pictures
from PIL import Image
from serve.running import running

from diverset.library.indexing import index_folders
from diverset.library.library import Library
from diverset.search.calibration import Calibration
from diverset.search.query import Asked
from diverset.serve.app import create_app

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM, reason="needs a Chromium"),
    pytest.mark.filterwarnings("ignore"),
]
OPTIONS = ["--no-sandbox", "--headless", "--disable-gpu", "--disable-background-networking"]


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    base = tmp_path_factory.mktemp("page")
    make_pictures(base / "photos", 6)
    with Library.prepare(base / "library", make_model(base / "model")) as library:
        index_folders(library, [base / "photos"])
        made = create_app(library)
        made.state.diverset.searcher.calibration = Calibration(9, 0, 0)
        yield made


@pytest.fixture(scope="module")
def address(app):
    with running(app) as found:
        yield found


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield opened
        opened.close()


@pytest.fixture(params=["desk", "phone"])
def page(browser, address, request):
    phone = {"viewport": {"width": 390, "height": 800}, "has_touch": True, "color_scheme": "dark"}
    context = browser.new_context(**(phone if request.param == "phone" else {}))
    context.set_default_timeout(30_000)
    opened = context.new_page()
    wrong: list[str] = []
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on(
        "console",
        lambda one: wrong.append(one.text) if "Content Security Policy" in one.text else None,
    )
    opened.goto(address)
    yield opened
    context.close()
    assert wrong == []


def cards(page, count: int) -> None:
    playwright.expect(page.locator(".card")).to_have_count(count)


def test_words_overlays_parts_and_groups(page):
    note = page.locator("#note")
    playwright.expect(page.locator("#status")).to_contain_text("6 pictures")
    page.keyboard.press("/")
    page.keyboard.type("a dog")
    page.keyboard.press("Enter")
    cards(page, 6)
    playwright.expect(note).to_contain_text("6 pictures")
    loaded = "() => [...document.querySelectorAll('.card img')].every(i => i.naturalWidth > 0)"
    page.wait_for_function(loaded)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    viewer = page.locator("#viewer")
    playwright.expect(viewer).to_be_visible()
    part = page.locator("#elements button").nth(1)
    part.focus()
    page.wait_for_function("() => document.getElementById('layer').naturalWidth > 0")
    playwright.expect(page.locator("#layer")).to_be_visible()
    part.click()
    playwright.expect(viewer).to_be_hidden()
    playwright.expect(page.locator("#like")).to_contain_text("like part 2 of")
    cards(page, 6)
    page.get_by_role("button", name="without this picture").click()
    playwright.expect(note).to_contain_text("Type some words")
    page.locator("summary").click()
    page.locator("#words").fill("a cat")
    page.locator("#groups").check()
    cards(page, 6)


def test_hovering_shows_what_matched(page):
    page.locator("#words").fill("a dog")
    page.locator("#words").press("Enter")
    cards(page, 6)
    page.locator(".card").first.hover()
    page.wait_for_function("() => document.querySelector('.card .layer')?.naturalWidth > 0")


def test_pictures_errors_and_empty_answers(page, tmp_path, app):
    picture = make_picture(tmp_path / "mine.png", 3)
    page.locator("#file").set_input_files(str(picture))
    playwright.expect(page.locator("#like")).to_contain_text("like mine.png")
    cards(page, 6)
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no picture")
    page.locator("#file").set_input_files(str(broken))
    playwright.expect(page.locator("#note.error")).to_contain_text("not a picture")
    page.get_by_role("button", name="without this picture").click()
    page.locator("#words").fill("a dog")
    page.locator("summary").click()
    page.locator("#filter").fill("width > 100000")
    page.locator("#words").press("Enter")
    playwright.expect(page.locator("#note")).to_contain_text("No picture passes")
    page.locator("#filter").fill("width >")
    page.locator("#words").press("Enter")
    playwright.expect(page.locator("#note.error")).to_contain_text("cannot be read")
    page.locator("#filter").fill("")
    app.state.diverset.searcher.calibration = Calibration(-9, 0, 0)
    page.locator("#words").press("Enter")
    playwright.expect(page.locator("#note")).to_contain_text("Nothing matches well")
    app.state.diverset.searcher.calibration = Calibration(9, 0, 0)


HANDED = """async ([event, name, type]) => {
  const canvas = new OffscreenCanvas(40, 30);
  canvas.getContext('2d').fillRect(0, 0, 9, 9);
  const file = new File([await canvas.convertToBlob()], name, {type});
  const data = new DataTransfer();
  data.items.add(file);
  const made = event === 'paste'
    ? new ClipboardEvent('paste', {clipboardData: data, bubbles: true})
    : new DragEvent(event, {dataTransfer: data, cancelable: true});
  dispatchEvent(made);
}"""


@pytest.mark.parametrize("event", ["drop", "paste"])
def test_a_picture_is_dropped_or_pasted(page, event):
    page.evaluate(HANDED, [event, f"{event}ed.png", "image/png"])
    playwright.expect(page.locator("#like")).to_contain_text(f"like {event}ed.png")
    cards(page, 6)
    page.evaluate(HANDED, [event, "notes.txt", "text/plain"])
    playwright.expect(page.locator("#note.error")).to_contain_text("no picture")
    cards(page, 6)  # what was found before stays


def test_a_kind_that_browsers_do_not_know_is_for_the_server_to_tell(page):
    page.evaluate(HANDED, ["drop", "IMG_1.HEIC", ""])
    playwright.expect(page.locator("#like")).to_contain_text("like IMG_1.HEIC")
    cards(page, 6)


def test_wishes_are_sent_with_pictures(page, app, tmp_path, monkeypatch):
    asked, search = [], app.state.diverset.search

    def noted(question, *more):
        asked.append(question)
        return search(question, *more)

    monkeypatch.setattr(app.state.diverset, "search", noted)
    page.locator("summary").click()
    page.locator("#also").fill("snow, a cat")
    page.locator("#without").fill("a red boat")
    page.locator("#filter").fill("width > 1")
    page.locator("#coverage").check()
    page.locator("#words").fill("a dog")
    page.locator("#file").set_input_files(str(make_picture(tmp_path / "mine.png", 3)))
    cards(page, 6)
    near = Asked("", ["snow", "a cat"], ["a red boat"], "width > 1", 40)
    beside = replace(near, words="a dog", coverage=True, weights=[])
    assert asked[-1] == beside
    page.locator(".card").first.click()
    page.locator("#whole").click()
    playwright.expect(page.locator("#like")).not_to_contain_text("mine.png")
    playwright.expect(page.locator("#coverage")).to_be_disabled()
    playwright.expect(page.locator("#note")).to_contain_text("6 pictures")
    assert asked[-1] == near
    page.locator("#words").fill("a dog")
    page.locator("#words").press("Enter")
    playwright.expect(page.locator("#coverage")).to_be_enabled()
    playwright.expect(page.locator("#note")).to_contain_text("6 pictures")
    assert asked[-1] == beside


def test_keys(page):
    page.locator("#words").fill("a dog")
    page.keyboard.press("Enter")
    cards(page, 6)
    page.keyboard.press("ArrowDown")
    focused = "() => [...document.querySelectorAll('.card')].indexOf(document.activeElement)"
    assert page.evaluate(focused) == 0
    page.keyboard.press("ArrowRight")
    assert page.evaluate(focused) == 1
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")  # nothing lies before the first
    assert page.evaluate(focused) == 0
    page.keyboard.press("Enter")
    playwright.expect(page.locator("#viewer")).to_be_visible()
    page.keyboard.press("Escape")
    playwright.expect(page.locator("#viewer")).to_be_hidden()
    assert page.evaluate(focused) == 0  # back where one was
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "words"


def test_light_and_dark_can_be_read(page):
    page.locator("#words").fill("a dog")
    page.keyboard.press("Enter")
    cards(page, 6)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for place in ("#note", "summary", "#ask > button", "#ask .button", "#words", "#status"):
            ink, ground = seen(page.locator(place))
            assert (luminance(ground) < 0.2) == (scheme == "dark"), (scheme, place, ground)
            assert contrast(ink, ground) >= 4.5, (scheme, place, ink, ground)
    page.locator("summary").click()
    page.locator("#filter").fill("width >")
    page.locator("#words").press("Enter")
    playwright.expect(page.locator("#note.error")).to_be_visible()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert contrast(*seen(page.locator("#note"))) >= 4.5


def seen(place) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The colours on the screen: the commonest, and the one that stands out most from it."""
    with Image.open(io.BytesIO(place.screenshot())) as picture:
        found = picture.convert("RGB").getcolors(1_000_000)
    ground = max(found)[1]
    return max((colour for _, colour in found), key=lambda one: contrast(one, ground)), ground


def luminance(colour: tuple[int, ...]) -> float:
    """Relative, by WCAG."""
    shares = (one / 255 for one in colour)
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: tuple[int, ...], other: tuple[int, ...]) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_indexing_is_seen_while_it_runs(page, app):
    catalog = app.state.diverset.library.catalog
    job = {"done": 3, "total": 12, "rate": 1.5, "at": time.time(), "ended": False}
    catalog.note("job", job)
    page.reload()
    playwright.expect(page.locator("#status")).to_contain_text("indexing: 3 of 12, 1.5 a second")
    bar = page.locator("#status progress")
    assert bar.evaluate("one => [one.value, one.max]") == [3, 12]
    catalog.note("job", {**job, "done": 7})
    playwright.expect(page.locator("#status")).to_contain_text("indexing: 7 of 12")
    catalog.note("job", {**job, "done": 12, "ended": True})
    playwright.expect(page.locator("#status")).to_contain_text("6 pictures")
    playwright.expect(bar).to_have_count(0)


def test_the_routes_can_be_read(page):
    page.goto(page.url + "docs")
    heads = page.locator("h2")
    playwright.expect(heads.filter(has_text="POST /search")).to_have_count(1)
    said = page.locator("section", has=heads.filter(has_text="POST /similar"))
    playwright.expect(said).to_contain_text("picture file")
    playwright.expect(said).to_contain_text("k integer: 40 by default, from 1, to 200")
    asked = page.locator("section", has=heads.filter(has_text="GET /similar"))
    playwright.expect(asked).to_contain_text("id string: 1000 characters at most")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_server_that_is_gone(page):
    page.locator("#words").fill("a dog")
    page.route("**/search", lambda route: route.abort())
    page.locator("#words").press("Enter")
    playwright.expect(page.locator("#note.error")).to_contain_text("server does not answer")
    page.unroute("**/search")
    page.locator("#words").press("Enter")
    cards(page, 6)

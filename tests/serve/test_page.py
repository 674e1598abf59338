"""The page in a real Chromium: the whole way, on a desk and on a phone."""

import shutil

import pytest
from library.making import make_model, make_picture, make_pictures
from serve.running import running

from diverset.library.indexing import index_folders
from diverset.library.library import Library
from diverset.search.calibration import Calibration
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


def test_a_picture_is_dropped(page):
    page.evaluate(
        """async () => {
          const canvas = new OffscreenCanvas(40, 30);
          canvas.getContext('2d').fillRect(0, 0, 9, 9);
          const file = new File([await canvas.convertToBlob()], 'dropped.png', {type: 'image/png'});
          const data = new DataTransfer();
          data.items.add(file);
          dispatchEvent(new DragEvent('drop', {dataTransfer: data, cancelable: true}));
        }"""
    )
    playwright.expect(page.locator("#like")).to_contain_text("like dropped.png")
    cards(page, 6)

"""The page in Chromium, on a desktop and on a phone."""

import io
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from photos.library_support import make_image, make_images, make_model
from photos.serve.server_support import running_server
from PIL import Image

from diverset.evaluation.calibration import Calibration
from diverset.photos.library.indexing import index_folders
from diverset.photos.library.library import Library
from diverset.photos.search.query import SearchQuery
from diverset.photos.serve.app import create_app

playwright = pytest.importorskip("playwright.sync_api")
playwright.expect.set_options(timeout=30_000)  # the default of 5 s is short for a busy machine
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM, reason="needs Chromium"),
    pytest.mark.filterwarnings("ignore"),
]
OPTIONS = ["--no-sandbox", "--headless", "--disable-gpu", "--disable-background-networking"]


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    base = tmp_path_factory.mktemp("page")
    make_images(base / "photos", 6)
    with Library.open_or_create(base / "library", make_model(base / "model")) as library:
        index_folders(library, [base / "photos"])
        app = create_app(library)
        app.state.diverset.searcher.calibration = Calibration(9, 0)
        yield app


@pytest.fixture(scope="module")
def address(app):
    with running_server(app) as address:
        yield address


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield opened
        opened.close()


@pytest.fixture(params=["desktop", "phone"])
def page(browser, address, request):
    phone = {"viewport": {"width": 390, "height": 800}, "has_touch": True, "color_scheme": "dark"}
    context = browser.new_context(**(phone if request.param == "phone" else {}))
    context.set_default_timeout(30_000)
    opened = context.new_page()
    errors: list[str] = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on(
        "console",
        lambda line: errors.append(line.text) if "Content Security Policy" in line.text else None,
    )
    opened.goto(address)
    yield opened
    context.close()
    assert errors == []


def expect_cards(page, count: int) -> None:
    playwright.expect(page.locator("#results .card")).to_have_count(count)


def wait_for_hits(page) -> None:
    """Waits for the search that the last action started."""
    playwright.expect(page.locator("#results")).not_to_have_attribute("aria-busy", "true")


def search(page, text: str, count: int = 6) -> None:
    page.locator("#text").fill(text)
    page.locator("#text").press("Enter")
    wait_for_hits(page)
    expect_cards(page, count)


def test_search_overlays_similar_elements_and_groups(page):
    message = page.locator("#message")
    playwright.expect(page.locator("#status")).to_contain_text("6 photos")
    page.keyboard.press("/")
    page.keyboard.type("a dog")
    page.keyboard.press("Enter")
    expect_cards(page, 6)
    playwright.expect(message).to_contain_text("6 photos")
    loaded = (
        "() => [...document.querySelectorAll('#results .card img')].every(i => i.naturalWidth > 0)"
    )
    page.wait_for_function(loaded)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    viewer = page.locator("#viewer")
    playwright.expect(viewer).to_be_visible()
    page.locator(".element").nth(1).focus()
    playwright.expect(page.locator("#overlay")).to_be_visible()
    page.keyboard.press("Enter")
    page.locator("#similar-element").click()
    playwright.expect(viewer).to_be_hidden()
    playwright.expect(page.locator("#image-chip")).to_contain_text("similar to element 2 of")
    expect_cards(page, 5)  # without the queried image
    page.get_by_role("button", name="remove this photo").click()
    playwright.expect(message).to_contain_text("Type a text")
    playwright.expect(page.locator("#start")).to_be_visible()
    page.locator("summary").click()
    page.locator("#text").fill("a cat")
    page.locator("#groups").check()
    expect_cards(page, 6)
    headings = page.locator("#results h2")
    playwright.expect(headings.first).to_contain_text("group 1")
    has_overlay = "heading => heading.querySelectorAll('.icon img').length === 2"
    assert all(heading.evaluate(has_overlay) for heading in headings.all())


def test_hovering_and_focus_show_the_overlay(page):
    search(page, "a dog")
    page.locator("#results .card").first.scroll_into_view_if_needed()
    overlay = page.locator("#results .card .overlay")
    page.locator("#results .card").first.hover()
    page.wait_for_function(
        "() => document.querySelector('#results .card .overlay')?.naturalWidth > 0"
    )
    page.mouse.move(0, 0)
    playwright.expect(overlay).to_have_count(0)
    page.locator("#text").focus()
    page.keyboard.press("ArrowDown")
    playwright.expect(overlay).to_have_count(1)
    page.keyboard.press("/")
    playwright.expect(overlay).to_have_count(0)


def test_an_overlay_that_fails_to_load_is_not_shown(page):
    search(page, "a dog")
    page.route("**/items/overlay*", lambda route: route.abort())
    with page.expect_event("requestfailed"):
        page.locator("#results .card").nth(1).hover()
    playwright.expect(page.locator("#results .card .overlay")).to_have_count(0)
    page.locator("#results .card").nth(1).click()
    with page.expect_event("requestfailed"):
        page.locator(".element").first.click()
    playwright.expect(page.locator("#overlay")).to_be_hidden()


BOX = """image => { const {x, y, width, height} = image.getBoundingClientRect();
                    return [x, y, width, height, image.naturalWidth / image.naturalHeight]; }"""


def test_the_overlay_covers_the_image_exactly(page):
    """Both have the proportions of the file, not those of the network's square input."""
    search(page, "a dog")
    page.locator("#results .card").first.click()
    page.locator(".element").first.click()
    for selector in ("#large", "#overlay"):
        playwright.expect(page.locator(selector)).to_be_visible()
    image, overlay = (page.locator(selector).evaluate(BOX) for selector in ("#large", "#overlay"))
    assert overlay == pytest.approx(image, rel=0.01)
    assert image[2] / image[3] == pytest.approx(4 / 3, rel=0.01) == image[4]
    assert image[0] >= 0 and image[0] + image[2] <= page.viewport_size["width"] + 1


def test_elements_that_cover_the_whole_image_say_so(page, app, monkeypatch):
    maps = torch.ones(3, 2, 2)
    maps[1, 0] = 0.1
    monkeypatch.setattr(app.state.diverset, "element_maps", lambda file: maps)
    search(page, "a dog")
    page.locator("#results .card").nth(4).click()
    page.locator(".element").first.click()
    elements, note = page.locator(".element"), page.locator("#coverage-note")
    playwright.expect(note).to_have_text("Element 1 covers the whole image.")
    with page.expect_response("**/items/elements*"):
        elements.nth(1).click()
    playwright.expect(page.locator("#overlay")).to_be_visible()
    playwright.expect(note).to_be_empty()
    elements.nth(2).click()
    playwright.expect(note).to_have_text("Element 3 covers the whole image.")


def test_taps_select_and_deselect_elements(page):
    search(page, "a dog")
    page.locator("#results .card").nth(2).click()
    overlay, similar = page.locator("#overlay"), page.locator("#similar-element")
    first, second = page.locator(".element").nth(0), page.locator(".element").nth(1)
    playwright.expect(page.locator("#large")).to_be_visible()
    playwright.expect(overlay).to_be_hidden()  # at first no element is selected
    playwright.expect(page.locator("#close")).to_be_focused()
    playwright.expect(similar).to_be_disabled()
    playwright.expect(page.locator("#details")).to_contain_text("40 × 30")

    def tap(button) -> None:
        if page.evaluate("navigator.maxTouchPoints"):
            return button.tap()
        button.click()
        page.mouse.move(0, 0)  # a click selects, hovering does not

    tap(first)
    playwright.expect(overlay).to_be_visible()
    playwright.expect(similar).to_be_enabled()
    tap(second)
    pressed = page.locator(".element[aria-pressed=true]")
    playwright.expect(pressed).to_have_count(1)
    playwright.expect(pressed).to_contain_text("element 2")
    tap(second)
    playwright.expect(pressed).to_have_count(0)
    playwright.expect(overlay).to_be_hidden()
    playwright.expect(similar).to_be_disabled()
    first.hover()
    playwright.expect(overlay).to_be_visible()
    page.mouse.move(0, 0)
    playwright.expect(overlay).to_be_hidden()


def test_the_viewer_steps_through_the_hits(page):
    search(page, "a dog")
    ids = page.locator("#results .card").evaluate_all("cards => cards.map(c => c.dataset.id)")
    names = [id_.rsplit("/", 1)[1] for id_ in ids]
    page.locator("#results .card").first.click()
    name = page.locator("#name")
    playwright.expect(name).to_have_text(names[0])
    playwright.expect(page.locator("#previous")).to_be_disabled()
    page.keyboard.press("ArrowRight")
    playwright.expect(name).to_have_text(names[1])
    page.locator("#next").click()
    playwright.expect(name).to_have_text(names[2])
    page.keyboard.press("ArrowLeft")
    playwright.expect(name).to_have_text(names[1])
    page.keyboard.press("Escape")
    playwright.expect(page.locator("#viewer")).to_be_hidden()
    page.wait_for_function("id => document.activeElement.dataset.id === id", arg=ids[1])
    page.locator("#results .card").first.click()
    page.locator("#stage").click(position={"x": 3, "y": 3})  # beside the image
    playwright.expect(page.locator("#viewer")).to_be_hidden()


def test_the_original_is_opened_downloaded_and_its_path_copied(page, app):
    search(page, "a dog")
    path = page.locator("#results .card").nth(1).get_attribute("data-id")
    page.locator("#results .card").nth(1).click()
    with page.expect_download() as download:
        page.locator("#download").click()
    assert Path(download.value.path()).read_bytes() == Path(path).read_bytes()
    assert download.value.suggested_filename == Path(path).name
    with page.context.expect_page() as opened:
        page.locator("#open").click()
    opened.value.wait_for_load_state()
    assert opened.value.evaluate("document.images[0].naturalWidth") == 40
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator("#copy").click()
    playwright.expect(page.locator("#action")).to_have_text("Path copied.")
    assert page.evaluate("navigator.clipboard.readText()") == path
    page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(); }")
    page.locator("#copy").click()
    playwright.expect(page.locator("#action")).to_have_text(path)
    assert page.evaluate("getSelection().toString()") == path


WIDTH = "image => image.getBoundingClientRect().width"


def test_the_image_can_be_zoomed_and_moved(page):
    search(page, "a dog")
    page.locator("#results .card").first.click()
    large, zoom, stage = (page.locator(id_) for id_ in ("#large", "#zoom", "#stage"))
    playwright.expect(large).to_be_visible()
    fitting = large.evaluate(WIDTH)
    zoom.click()
    assert large.evaluate(WIDTH) == pytest.approx(2.5 * fitting, rel=0.01)
    playwright.expect(zoom).to_have_attribute("aria-pressed", "true")
    box, before = stage.bounding_box(), large.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 20, y, steps=4)
    page.mouse.up()
    playwright.expect(page.locator("#viewer")).to_be_visible()  # a drag is not a click
    if before["width"] > box["width"] + 40:
        assert large.bounding_box()["x"] == pytest.approx(before["x"] + 20, abs=1)
    page.keyboard.press("0")
    assert large.evaluate(WIDTH) == pytest.approx(fitting, rel=0.01)
    page.keyboard.press("+")
    assert large.evaluate(WIDTH) == pytest.approx(1.5 * fitting, rel=0.01)
    page.mouse.wheel(0, -300)
    page.wait_for_function(
        f"width => ({WIDTH})(document.getElementById('large')) > 3 * width", arg=fitting
    )
    page.keyboard.press("ArrowRight")  # the next image is not zoomed
    playwright.expect(zoom).to_have_attribute("aria-pressed", "false")
    large.dblclick()
    playwright.expect(zoom).to_have_attribute("aria-pressed", "true")
    stage.dblclick()
    playwright.expect(zoom).to_have_attribute("aria-pressed", "false")


def test_a_deleted_file_and_copies_are_named(browser, tmp_path):
    photos = make_images(tmp_path / "photos", 3)
    shutil.copy(photos / "0.png", photos / "again.png")
    with Library.open_or_create(tmp_path / "library", make_model(tmp_path / "model")) as library:
        index_folders(library, [photos])
        (photos / "1.png").unlink()
        with running_server(create_app(library)) as address:
            context = browser.new_context()
            opened = context.new_page()
            opened.goto(address)
            search(opened, "a dog", 3)
            deleted = opened.locator("#results .card", has=opened.locator(".missing"))
            playwright.expect(deleted).to_contain_text("1.png")
            playwright.expect(deleted).to_contain_text("the file was deleted or moved")
            deleted.click()
            playwright.expect(opened.locator("#problem")).to_contain_text("deleted or moved")
            opened.keyboard.press("Escape")
            card = opened.locator("#results .card", has_text="2 copies")
            playwright.expect(card).to_have_count(1)
            card.click()
            playwright.expect(opened.locator("#problem")).to_be_empty()
            playwright.expect(opened.locator("#copies")).to_contain_text("1 identical copy: ")
            context.close()


def test_the_start_page_shows_photos_and_examples(page):
    sample = page.locator("#sample .card")
    playwright.expect(sample).to_have_count(6)
    sample.first.click()
    playwright.expect(page.locator("#details")).to_contain_text("40 × 30")
    playwright.expect(page.locator(".element")).to_have_count(3)
    page.locator(".element").nth(2).click()
    playwright.expect(page.locator("#overlay")).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="people at the beach").click()
    expect_cards(page, 6)
    playwright.expect(page.locator("#start")).to_be_hidden()


def test_the_address_stores_the_query(page):
    search(page, "a dog")
    page.locator("summary").click()
    page.locator("#filter").fill("name < '4'")
    page.locator("#filter").press("Enter")  # every field searches
    expect_cards(page, 4)
    page.reload()
    expect_cards(page, 4)
    assert page.locator("#text").input_value() == "a dog"
    playwright.expect(page.locator("#filter")).to_be_visible()
    assert page.locator("#filter").input_value() == "name < '4'"
    page.locator("#results .card").nth(1).click()
    page.locator(".element").nth(1).click()
    page.locator("#similar-element").click()
    playwright.expect(page.locator("#image-chip")).to_contain_text("similar to element 2")
    page.reload()
    playwright.expect(page.locator("#image-chip")).to_contain_text("similar to element 2")
    expect_cards(page, 3)
    page.go_back()
    playwright.expect(page.locator("#image-chip")).to_be_hidden()
    expect_cards(page, 4)
    page.go_back()
    expect_cards(page, 6)
    assert page.locator("#filter").input_value() == ""
    page.go_back()
    playwright.expect(page.locator("#start")).to_be_visible()
    expect_cards(page, 0)
    page.go_forward()
    expect_cards(page, 6)


def test_text_beside_an_image_is_sent_with_it(page, app, monkeypatch):
    queries, batches = [], app.state.diverset.batches
    search_library = batches.search

    def record(given):
        query = given.query
        queries.append((query.text, list(query.required), given.image is not None, given.element))
        return search_library(given)

    monkeypatch.setattr(batches, "search", record)
    search(page, "a dog")
    page.locator("#results .card").first.click()
    page.locator("#similar-image").click()
    playwright.expect(page.locator("#image-chip")).to_contain_text("similar to ")
    wait_for_hits(page)
    search(page, "snow", 5)
    assert queries[-1] == ("snow", [], True, None)
    page.locator("#results .card").first.click()
    page.locator(".element").first.click()
    page.locator("#similar-element").click()
    playwright.expect(page.locator("#image-chip")).to_contain_text("similar to element 1")
    wait_for_hits(page)
    search(page, "a cat", 5)
    playwright.expect(page.locator("#message")).to_contain_text("also show “a cat”")
    assert queries[-1] == ("", ["a cat"], True, 0)


TALL = ".grid { grid-template-columns: 1fr } .card { height: 1500px; aspect-ratio: auto }"


def use_small_pages(page, tall: bool = False) -> None:
    """Two hits per page, so that six photos take three."""
    page.route(
        "**/query.js",
        lambda route: route.fulfill(
            response=(response := route.fetch()),
            body=response.text().replace("PAGE_SIZE = 40", "PAGE_SIZE = 2"),
        ),
    )
    page.route(
        "**/style.css",
        lambda route: route.fulfill(
            response=(response := route.fetch()), body=response.text() + (TALL if tall else "")
        ),
    )
    page.reload()


def test_scrolling_loads_all_hits(page):
    use_small_pages(page, tall=True)
    message = page.locator("#message")
    search(page, "a dog", 2)
    playwright.expect(message).to_contain_text("1–2 of 6 photos")
    for count in (4, 6):
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
        expect_cards(page, count)
    playwright.expect(message).to_contain_text("6 photos")
    playwright.expect(message).not_to_contain_text("of 6")
    playwright.expect(page.locator("#more")).to_be_hidden()
    ids = page.locator("#results .card").evaluate_all("cards => cards.map(c => c.dataset.id)")
    assert len(set(ids)) == 6
    page.reload()  # the address stores how many are shown
    expect_cards(page, 6)
    page.go_back()  # one step: more hits are not a new query
    playwright.expect(page.locator("#start")).to_be_visible()


def test_a_short_page_of_hits_fills_the_window_and_the_viewer_steps_through_all(page):
    use_small_pages(page)
    search(page, "a dog", 6)
    page.locator("#results .card").first.click()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    playwright.expect(page.locator("#next")).to_be_disabled()
    page.keyboard.press("Escape")
    page.locator("summary").click()
    page.locator("#groups").check()  # groups are loaded again with more hits
    playwright.expect(page.locator("#results h2").first).to_contain_text("group 1")
    expect_cards(page, 6)


def test_hits_beyond_the_limit_are_explained(page):
    page.route(
        "**/query.js",
        lambda route: route.fulfill(
            response=(response := route.fetch()),
            body=response.text()
            .replace("PAGE_SIZE = 40", "PAGE_SIZE = 2")
            .replace("MAX_OFFSET = 10000", "MAX_OFFSET = 2"),
        ),
    )
    page.reload()
    search(page, "a dog", 4)
    playwright.expect(page.locator("#limit")).to_contain_text("the best 4 photos")
    playwright.expect(page.locator("#message")).to_contain_text("1–4 of 6 photos")
    playwright.expect(page.locator("#more")).to_be_hidden()


def test_a_failed_page_of_hits_can_be_retried(page):
    use_small_pages(page, tall=True)
    search(page, "a dog", 2)
    page.route("**/search", lambda route: route.abort())
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    playwright.expect(page.locator("#message.error")).to_contain_text("server does not respond")
    page.unroute("**/search")
    page.locator("#more").click()
    playwright.expect(page.locator("#message")).not_to_have_class("error")
    playwright.expect(page.locator("#results .card").nth(3)).to_be_attached()


def test_an_empty_library_says_so_until_photos_are_indexed(browser, tmp_path):
    photos = make_images(tmp_path / "photos", 2)
    with Library.open_or_create(tmp_path / "library", make_model(tmp_path / "model")) as library:
        with running_server(create_app(library)) as address:
            context = browser.new_context()
            opened = context.new_page()
            opened.goto(address)
            empty = opened.locator("#empty")
            playwright.expect(empty).to_contain_text("The library is empty")
            index_folders(library, [photos])
            playwright.expect(empty).to_be_hidden(timeout=20_000)
            playwright.expect(opened.locator("#sample .card")).to_have_count(2)
            context.close()


def test_uploads_errors_and_empty_results(page, tmp_path, app):
    image = make_image(tmp_path / "mine.png", 3)
    page.locator("#file").set_input_files(str(image))
    playwright.expect(page.locator("#image-chip")).to_contain_text("similar to mine.png")
    expect_cards(page, 6)
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"not an image")
    for _ in range(2):  # the same file may be chosen again
        page.locator("#file").set_input_files(str(broken))
        playwright.expect(page.locator("#message.error")).to_contain_text("not an image")
        playwright.expect(page.locator("#image-chip")).to_be_hidden()
        expect_cards(page, 6)
        playwright.expect(page.locator("#results")).to_have_class("stale")
        search(page, "a dog")
    page.locator("#text").fill("a dog")
    page.locator("summary").click()
    page.locator("#filter").fill("width > 100000")
    page.locator("#text").press("Enter")
    playwright.expect(page.locator("#message")).to_contain_text("No photo passes")
    page.locator("#filter").fill("width >")
    page.locator("#text").press("Enter")
    playwright.expect(page.locator("#message.error")).to_contain_text("it ends too early")
    page.locator("#filter").fill("")
    app.state.diverset.searcher.calibration = Calibration(-9, 0, thresholds=[[9] * 4] * 3)
    page.locator("#text").press("Enter")
    playwright.expect(page.locator("#note")).to_have_text("Probably nothing like this here")
    playwright.expect(page.locator("#message .confidence")).to_have_text("weak match")
    playwright.expect(page.locator("#results .unlikely b")).to_have_count(6)
    app.state.diverset.searcher.calibration = Calibration(9, 0)


DROP_OR_PASTE = """async ([event, name, type]) => {
  const canvas = new OffscreenCanvas(40, 30);
  canvas.getContext('2d').fillRect(0, 0, 9, 9);
  const file = new File([await canvas.convertToBlob()], name, {type});
  const data = new DataTransfer();
  data.items.add(file);
  const dispatched = event === 'paste'
    ? new ClipboardEvent('paste', {clipboardData: data, bubbles: true})
    : new DragEvent(event, {dataTransfer: data, cancelable: true});
  dispatchEvent(dispatched);
}"""


@pytest.mark.parametrize("event", ["drop", "paste"])
def test_an_image_can_be_dropped_or_pasted(page, event):
    page.evaluate(DROP_OR_PASTE, [event, f"{event}ed.png", "image/png"])
    playwright.expect(page.locator("#image-chip")).to_contain_text(f"similar to {event}ed.png")
    expect_cards(page, 6)
    page.evaluate(DROP_OR_PASTE, [event, "notes.txt", "text/plain"])
    playwright.expect(page.locator("#message.error")).to_contain_text("not an image")
    expect_cards(page, 6)  # earlier hits stay


def test_a_file_of_unknown_type_is_sent_to_the_server(page):
    page.evaluate(DROP_OR_PASTE, ["drop", "IMG_1.HEIC", ""])
    playwright.expect(page.locator("#image-chip")).to_contain_text("similar to IMG_1.HEIC")
    expect_cards(page, 6)


def test_all_options_are_sent_with_images(page, app, tmp_path, monkeypatch):
    queries, batches = [], app.state.diverset.batches
    search_library = batches.search

    def record(given):
        queries.append(given.query)
        return search_library(given)

    monkeypatch.setattr(batches, "search", record)
    page.locator("summary").click()
    page.locator("#required").fill("snow, a cat")
    page.locator("#excluded").fill("a red boat")
    page.locator("#filter").fill("width > 1")
    page.locator("#coverage").check()
    page.locator("#text").fill("a dog")
    page.locator("#file").set_input_files(str(make_image(tmp_path / "mine.png", 3)))
    expect_cards(page, 6)
    wait_for_hits(page)
    by_image = SearchQuery("", ["snow", "a cat"], ["a red boat"], "width > 1", 40)
    with_text = replace(by_image, text="a dog", coverage=True, weights=[])
    assert queries[-1] == with_text
    first = page.locator("#results .card").first.get_attribute("data-id")
    page.locator("#results .card").first.click()
    page.locator("#similar-image").click()
    playwright.expect(page.locator("#image-chip")).not_to_contain_text("mine.png")
    playwright.expect(page.locator("#coverage")).to_be_disabled()
    wait_for_hits(page)
    assert queries[-1] == replace(by_image, leave_out=queries[-1].leave_out)
    assert queries[-1].leave_out == first
    playwright.expect(page.locator("#results .card b")).to_have_count(5)  # of the required texts
    page.locator("#text").fill("a dog")
    page.locator("#text").press("Enter")
    playwright.expect(page.locator("#coverage")).to_be_enabled()
    wait_for_hits(page)
    assert queries[-1] == replace(with_text, leave_out=first)  # the image stays beside the text


def test_hints_name_the_fields_of_the_page(page):
    search(page, "a dog without snow")
    note = page.locator("#note")
    playwright.expect(note).to_contain_text(
        'to exclude something, write "snow" into the field “not”'
    )
    search(page, "a dog")
    playwright.expect(note).to_be_empty()


def test_keyboard_shortcuts(page):
    page.locator("#text").fill("a dog")
    page.keyboard.press("Enter")
    expect_cards(page, 6)
    page.keyboard.press("ArrowDown")
    focused = """() => [...document.querySelectorAll('#results .card')]
        .indexOf(document.activeElement)"""
    assert page.evaluate(focused) == 0
    page.keyboard.press("ArrowRight")
    assert page.evaluate(focused) == 1
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")  # there is none before the first
    assert page.evaluate(focused) == 0
    page.keyboard.press("Enter")
    playwright.expect(page.locator("#viewer")).to_be_visible()
    page.keyboard.press("Escape")
    playwright.expect(page.locator("#viewer")).to_be_hidden()
    assert page.evaluate(focused) == 0  # focus returns to the card
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "text"
    page.keyboard.type("a cat")  # the old text is selected
    assert page.locator("#text").input_value() == "a cat"


def test_text_has_enough_contrast_in_light_and_dark_mode(page):
    page.locator("#text").fill("a dog")
    page.keyboard.press("Enter")
    expect_cards(page, 6)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for selector in (
            "#message",
            "summary",
            "header button.button",
            "label.button",
            "#text",
            "#status",
        ):
            text, background = colours(page.locator(selector))
            assert (luminance(background) < 0.2) == (scheme == "dark"), (scheme, selector)
            assert contrast(text, background) >= 4.5, (scheme, selector, text, background)
    page.locator("summary").click()
    page.locator("#filter").fill("width >")
    page.locator("#text").press("Enter")
    playwright.expect(page.locator("#message.error")).to_be_visible()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert contrast(*colours(page.locator("#message"))) >= 4.5


def colours(locator) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Text and background colour on the screen: the most contrasting and the most frequent one."""
    with Image.open(io.BytesIO(locator.screenshot())) as image:
        counts = image.convert("RGB").getcolors(1_000_000)
    background = max(counts)[1]
    return max((colour for _, colour in counts), key=lambda c: contrast(c, background)), background


def luminance(colour: tuple[int, ...]) -> float:
    """Relative luminance as defined by WCAG."""
    channels = (value / 255 for value in colour)
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: tuple[int, ...], second: tuple[int, ...]) -> float:
    dark, light = sorted((luminance(first), luminance(second)))
    return (light + 0.05) / (dark + 0.05)


def test_the_progress_of_indexing_is_shown(page, app):
    library = app.state.diverset.library
    progress = {"done": 3, "total": 12, "rate": 1.5, "finished": False}
    status, bar = page.locator("#status"), page.locator("#status progress")
    with library.indexing_lock():
        library.catalog.set_info("indexing", progress)
        page.reload()
        playwright.expect(status).to_contain_text("indexing: 3 of 12, 1.5 per second")
        playwright.expect(status).to_contain_text("about 6 s left")
        assert bar.evaluate("bar => [bar.value, bar.max]") == [3, 12]
        library.catalog.set_info("indexing", {**progress, "done": 7})
        playwright.expect(status).to_contain_text("indexing: 7 of 12")
    playwright.expect(status).to_contain_text("6 photos")
    playwright.expect(bar).to_have_count(0)


def test_the_api_page_lists_routes_with_their_fields(page):
    page.goto(page.url + "docs")
    headings = page.locator("h2")
    playwright.expect(headings.filter(has_text="POST /search")).to_have_count(1)
    post = page.locator("section", has=headings.filter(has_text="POST /similar"))
    playwright.expect(post).to_contain_text("image file")
    playwright.expect(post).to_contain_text("k integer: default 40, from 1, to 200")
    get = page.locator("section", has=headings.filter(has_text="GET /similar"))
    playwright.expect(get).to_contain_text("id string: at most 1000 characters")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_stopped_server_is_reported(page):
    search(page, "a dog")
    page.route("**/search", lambda route: route.abort())
    page.locator("#text").press("Enter")
    playwright.expect(page.locator("#message.error")).to_contain_text("server does not respond")
    expect_cards(page, 6)  # earlier hits stay, greyed out
    playwright.expect(page.locator("#results")).to_have_class("stale")
    page.unroute("**/search")
    page.locator("#text").press("Enter")
    playwright.expect(page.locator("#results:not(.stale) .card")).to_have_count(6)

"""The page in a real Chromium: the whole way, on a desk and on a phone."""

import io
import shutil
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
    playwright.expect(page.locator("#results .card")).to_have_count(count)


def search(page, words: str, count: int = 6) -> None:
    page.locator("#words").fill(words)
    page.locator("#words").press("Enter")
    cards(page, count)
    playwright.expect(page.locator("#note")).not_to_contain_text("searching")


def test_words_overlays_parts_and_groups(page):
    note = page.locator("#note")
    playwright.expect(page.locator("#status")).to_contain_text("6 pictures")
    page.keyboard.press("/")
    page.keyboard.type("a dog")
    page.keyboard.press("Enter")
    cards(page, 6)
    playwright.expect(note).to_contain_text("6 pictures")
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
    part = page.locator(".part").nth(1)
    part.focus()
    playwright.expect(page.locator("#layer")).to_be_visible()
    page.keyboard.press("Enter")
    page.locator("#alike").click()
    playwright.expect(viewer).to_be_hidden()
    playwright.expect(page.locator("#like")).to_contain_text("like part 2 of")
    cards(page, 6)
    page.get_by_role("button", name="without this picture").click()
    playwright.expect(note).to_contain_text("Type some words")
    playwright.expect(page.locator("#start")).to_be_visible()
    page.locator("summary").click()
    page.locator("#words").fill("a cat")
    page.locator("#groups").check()
    cards(page, 6)
    heads = page.locator("#results h2")
    playwright.expect(heads.first).to_contain_text("group 1")
    layered = "one => one.querySelectorAll('.face img').length === 2"
    assert all(heads.nth(at).evaluate(layered) for at in range(heads.count()))


def test_hovering_and_focus_show_what_matched(page):
    search(page, "a dog")
    page.locator("#results .card").first.scroll_into_view_if_needed()
    over = page.locator("#results .card .layer")
    page.locator("#results .card").first.hover()
    page.wait_for_function(
        "() => document.querySelector('#results .card .layer')?.naturalWidth > 0"
    )
    page.mouse.move(0, 0)
    playwright.expect(over).to_have_count(0)
    page.locator("#words").focus()
    page.keyboard.press("ArrowDown")
    playwright.expect(over).to_have_count(1)
    page.keyboard.press("/")
    playwright.expect(over).to_have_count(0)


def test_a_layer_that_does_not_come_is_not_drawn(page):
    search(page, "a dog")
    page.route("**/items/map*", lambda route: route.abort())
    with page.expect_event("requestfailed"):
        page.locator("#results .card").nth(1).hover()
    playwright.expect(page.locator("#results .card .layer")).to_have_count(0)
    page.locator("#results .card").nth(1).click()
    with page.expect_event("requestfailed"):
        page.locator(".part").first.click()
    playwright.expect(page.locator("#layer")).to_be_hidden()


BOX = """one => { const {x, y, width, height} = one.getBoundingClientRect();
                  return [x, y, width, height, one.naturalWidth / one.naturalHeight]; }"""


def test_the_layer_lies_on_the_picture(page):
    """Both in the proportions of the file, which are not those of the network's square."""
    search(page, "a dog")
    page.locator("#results .card").first.click()
    page.locator(".part").first.click()
    for place in ("#large", "#layer"):
        playwright.expect(page.locator(place)).to_be_visible()
    picture, layer = (page.locator(place).evaluate(BOX) for place in ("#large", "#layer"))
    assert layer == pytest.approx(picture, rel=0.01)
    assert picture[2] / picture[3] == pytest.approx(4 / 3, rel=0.01) == picture[4]
    assert picture[0] >= 0 and picture[0] + picture[2] <= page.viewport_size["width"] + 1


def test_parts_are_switched_by_taps(page):
    search(page, "a dog")
    page.locator("#results .card").nth(2).click()
    layer, alike = page.locator("#layer"), page.locator("#alike")
    first, second = page.locator(".part").nth(0), page.locator(".part").nth(1)
    playwright.expect(page.locator("#large")).to_be_visible()
    playwright.expect(layer).to_be_hidden()  # the clean picture comes first
    playwright.expect(page.locator("#close")).to_be_focused()
    playwright.expect(alike).to_be_disabled()
    playwright.expect(page.locator("#facts")).to_contain_text("40 × 30")

    def tap(one) -> None:
        if page.evaluate("navigator.maxTouchPoints"):
            return one.tap()
        one.click()
        page.mouse.move(0, 0)  # what was clicked stays, what is hovered does not

    tap(first)
    playwright.expect(layer).to_be_visible()
    playwright.expect(alike).to_be_enabled()
    tap(second)
    pressed = page.locator(".part[aria-pressed=true]")
    playwright.expect(pressed).to_have_count(1)
    playwright.expect(pressed).to_contain_text("part 2")
    tap(second)
    playwright.expect(pressed).to_have_count(0)
    playwright.expect(layer).to_be_hidden()
    playwright.expect(alike).to_be_disabled()
    first.hover()
    playwright.expect(layer).to_be_visible()
    page.mouse.move(0, 0)
    playwright.expect(layer).to_be_hidden()


def test_from_picture_to_picture_in_the_viewer(page):
    search(page, "a dog")
    all_ids = page.locator("#results .card").evaluate_all("all => all.map(one => one.dataset.id)")
    names = [one.rsplit("/", 1)[1] for one in all_ids]
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
    page.wait_for_function("id => document.activeElement.dataset.id === id", arg=all_ids[1])
    page.locator("#results .card").first.click()
    page.locator(".stage").click(position={"x": 3, "y": 3})  # beside the picture
    playwright.expect(page.locator("#viewer")).to_be_hidden()


def test_the_start(page):
    some = page.locator("#some .card")
    playwright.expect(some).to_have_count(6)
    some.first.click()
    playwright.expect(page.locator("#facts")).to_contain_text("40 × 30")
    playwright.expect(page.locator(".part")).to_have_count(3)
    page.locator(".part").nth(2).click()
    playwright.expect(page.locator("#layer")).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="people at the beach").click()
    cards(page, 6)
    playwright.expect(page.locator("#start")).to_be_hidden()


def test_the_address_keeps_the_question(page):
    search(page, "a dog")
    page.locator("summary").click()
    page.locator("#filter").fill("name < '4'")
    page.locator("#filter").press("Enter")  # every field searches
    cards(page, 4)
    page.reload()
    cards(page, 4)
    assert page.locator("#words").input_value() == "a dog"
    playwright.expect(page.locator("#filter")).to_be_visible()
    assert page.locator("#filter").input_value() == "name < '4'"
    page.locator("#results .card").nth(1).click()
    page.locator(".part").nth(1).click()
    page.locator("#alike").click()
    playwright.expect(page.locator("#like")).to_contain_text("like part 2")
    page.reload()
    playwright.expect(page.locator("#like")).to_contain_text("like part 2")
    cards(page, 4)
    page.go_back()
    playwright.expect(page.locator("#like")).to_be_hidden()
    cards(page, 4)
    page.go_back()
    cards(page, 6)
    assert page.locator("#filter").input_value() == ""
    page.go_back()
    playwright.expect(page.locator("#start")).to_be_visible()
    cards(page, 0)
    page.go_forward()
    cards(page, 6)


def test_words_beside_a_picture_are_sent_with_it(page, app, monkeypatch):
    asked, ask = [], app.state.diverset.search

    def noted(question, picture, rule):
        asked.append((question.words, list(question.also), picture is not None, rule))
        return ask(question, picture, rule)

    monkeypatch.setattr(app.state.diverset, "search", noted)
    search(page, "a dog")
    page.locator("#results .card").first.click()
    page.locator("#whole").click()
    playwright.expect(page.locator("#like")).to_contain_text("like ")
    playwright.expect(page.locator("#note")).to_contain_text("6 pictures")
    search(page, "snow")
    assert asked[-1] == ("snow", [], True, "similarity")
    page.locator("#results .card").first.click()
    page.locator(".part").first.click()
    page.locator("#alike").click()
    playwright.expect(page.locator("#like")).to_contain_text("like part 1")
    playwright.expect(page.locator("#note")).to_contain_text("6 pictures")
    search(page, "a cat")
    playwright.expect(page.locator("#note")).to_contain_text("also show “a cat”")
    assert asked[-1] == ("", ["a cat"], True, "part")


def test_more_hits_are_asked_for(page):
    page.route(
        "**/question.js",
        lambda route: route.fulfill(
            response=(got := route.fetch()), body=got.text().replace("FIRST = 40", "FIRST = 2")
        ),
    )
    page.reload()
    search(page, "a dog", 2)
    page.locator("#further").click()
    cards(page, 4)
    page.reload()
    cards(page, 4)
    page.locator("#further").click()
    cards(page, 6)
    page.go_back()  # one step: more of the same is no new question
    playwright.expect(page.locator("#start")).to_be_visible()


def test_an_empty_library_says_so_until_pictures_come(browser, tmp_path):
    photos = make_pictures(tmp_path / "photos", 2)
    with Library.prepare(tmp_path / "library", make_model(tmp_path / "model")) as library:
        with running(create_app(library)) as found:
            context = browser.new_context()
            opened = context.new_page()
            opened.goto(found)
            empty = opened.locator("#empty")
            playwright.expect(empty).to_contain_text("The library is empty")
            index_folders(library, [photos])
            playwright.expect(empty).to_be_hidden(timeout=20_000)
            playwright.expect(opened.locator("#some .card")).to_have_count(2)
            context.close()


def test_pictures_errors_and_empty_answers(page, tmp_path, app):
    picture = make_picture(tmp_path / "mine.png", 3)
    page.locator("#file").set_input_files(str(picture))
    playwright.expect(page.locator("#like")).to_contain_text("like mine.png")
    cards(page, 6)
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no picture")
    for _ in range(2):  # the same file may be chosen again
        page.locator("#file").set_input_files(str(broken))
        playwright.expect(page.locator("#note.error")).to_contain_text("not a picture")
        playwright.expect(page.locator("#like")).to_be_hidden()
        cards(page, 6)
        playwright.expect(page.locator("#results")).to_have_class("stale")
        search(page, "a dog")
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
    playwright.expect(page.locator("#results .unlikely b")).to_have_count(6)
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
    page.locator("#results .card").first.click()
    page.locator("#whole").click()
    playwright.expect(page.locator("#like")).not_to_contain_text("mine.png")
    playwright.expect(page.locator("#coverage")).to_be_disabled()
    playwright.expect(page.locator("#note")).to_contain_text("6 pictures")
    assert asked[-1] == near
    playwright.expect(page.locator("#results .card b")).to_have_count(0)  # no odds, no number
    page.locator("#words").fill("a dog")
    page.locator("#words").press("Enter")
    playwright.expect(page.locator("#coverage")).to_be_enabled()
    playwright.expect(page.locator("#note")).to_contain_text("6 pictures")
    assert asked[-1] == beside  # the picture stays, the words come to it


def test_keys(page):
    page.locator("#words").fill("a dog")
    page.keyboard.press("Enter")
    cards(page, 6)
    page.keyboard.press("ArrowDown")
    focused = """() => [...document.querySelectorAll('#results .card')]
        .indexOf(document.activeElement)"""
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
        for place in ("#note", "summary", "button.button", "label.button", "#words", "#status"):
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
    library = app.state.diverset.library
    job = {"done": 3, "total": 12, "rate": 1.5, "ended": False}
    status, bar = page.locator("#status"), page.locator("#status progress")
    with library.working():
        library.catalog.note("job", job)
        page.reload()
        playwright.expect(status).to_contain_text("indexing: 3 of 12, 1.5 a second")
        playwright.expect(status).to_contain_text("about 6 s left")
        assert bar.evaluate("one => [one.value, one.max]") == [3, 12]
        library.catalog.note("job", {**job, "done": 7})
        playwright.expect(status).to_contain_text("indexing: 7 of 12")
    playwright.expect(status).to_contain_text("6 pictures")
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
    search(page, "a dog")
    page.route("**/search", lambda route: route.abort())
    page.locator("#words").press("Enter")
    playwright.expect(page.locator("#note.error")).to_contain_text("server does not answer")
    cards(page, 6)  # what was found before stays, but not as if it were the answer
    playwright.expect(page.locator("#results")).to_have_class("stale")
    page.unroute("**/search")
    page.locator("#words").press("Enter")
    playwright.expect(page.locator("#results:not(.stale) .card")).to_have_count(6)

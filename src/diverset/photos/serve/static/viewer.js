// One large image: overlays of its elements, and searches for similar images.
import { byId, create, onHover } from "./dom.js";
import {
  basename, elementAreas, imageUrl, itemInfo, originalUrl, overlayUrl, problemOf,
} from "./server.js";
import {
  handleZoomKey, isZoomed, resetZoom, setUpZoom, toggleZoom, wasDragged,
} from "./zoom.js";

const SWIPE = 50; // smallest distance in pixels
const [SIDE, ZOOMED_SIDE] = [1024, 2048]; // of the large image in pixels
const AHEAD = 4; // images before the last from which more are loaded
const MESSAGE_TIME = 3000; // milliseconds
let loadMore = () => {};
let items = [];
let index = 0;
let selected = 0; // the element whose overlay stays, counted from 1; 0 for none
let shownElement = 0; // the selected element, or the one that is hovered over

export function view(newItems, item) {
  items = newItems;
  show(items.indexOf(item));
  byId("viewer").showModal();
}

// The id of the image that is shown, or was last.
export const viewed = () => items[index]?.id;

async function show(newIndex) {
  index = newIndex;
  const item = items[index];
  resetZoom();
  byId("large").hidden = true; // the image before must not be seen in these proportions
  byId("large").parentElement.hidden = false;
  byId("large").parentElement.style.backgroundImage = "";
  byId("large").src = imageUrl(item.id, SIDE);
  byId("large").alt = basename(item.id);
  byId("problem").textContent = "";
  byId("open").href = originalUrl(item.id);
  byId("download").href = originalUrl(item.id, { download: true });
  byId("download").download = basename(item.id);
  byId("action").textContent = "";
  updateSteps();
  describe(item, item.metadata, item.shares, item.copies);
  if (items.length - index <= AHEAD) loadMore();
  if (item.metadata) return;
  const info = await itemInfo(item.id).catch(() => null); // not a hit: it has only an id
  if (!info || items[index] !== item) return;
  describe(item, info.metadata, Array(info.elements).fill(null), info.copies);
}

// After a step, and when further hits were loaded.
export function updateSteps() {
  byId("previous").disabled = !index;
  byId("next").disabled = index >= items.length - 1;
}

function describe(item, metadata = {}, shares = [], copies = []) {
  byId("name").textContent = basename(item.id);
  const { folder, taken, width, height } = metadata;
  const day = taken && new Date(taken).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
  const details = [day, width && `${width} × ${height}`, folder];
  byId("details").textContent = details.filter(Boolean).join("  ·  ");
  const label = copies.length === 1 ? "1 identical copy: " : `${copies.length} identical copies: `;
  byId("copies").textContent = copies.length ? label + copies.join(", ") : "";
  if (width) setProportions(width, height, item.id);
  byId("elements").replaceChildren(
    ...shares.map((share, position) => elementButton(item.id, position + 1, share)));
  select(0);
}

// The frame has the proportions of the image, so that overlays fit. Until the large image is
// loaded, the thumbnail of the grid is shown in it.
function setProportions(width, height, id) {
  const frame = byId("large").parentElement;
  frame.style.setProperty("--ratio", width / height);
  frame.style.backgroundImage = `url("${imageUrl(id, 256)}")`;
  frame.style.setProperty("--max-width", `${3 * width}px`); // larger would only be blurred
}

function elementButton(id, number, share) {
  const button = create("button", "element", `element ${number}`);
  button.setAttribute("aria-pressed", "false");
  if (share !== null) {
    const percent = `${Math.round(100 * share)} %`;
    button.append(create("small", "", ` ${percent}`));
    button.title = `${percent} of the match`;
  }
  onHover(button, () => showOverlay(id, number), () => showOverlay(id, selected));
  button.addEventListener("click", () => select(selected === number ? 0 : number));
  return button;
}

function select(number) {
  selected = number;
  [...byId("elements").children].forEach((button, position) =>
    button.setAttribute("aria-pressed", String(position + 1 === number)));
  byId("similar-element").disabled = !number;
  showOverlay(viewed(), number);
}

// Says when the overlay that is shown covers the whole image. It has a line of its own, so that the
// buttons stay where they are under the mouse.
async function explainOverlay(id, number) {
  const { whole_image = [] } = await elementAreas(id).catch(() => ({}));
  if (viewed() !== id || byId("overlay").hidden || shownElement !== number) return;
  byId("coverage-note").textContent = whole_image[number - 1]
    ? `Element ${number} covers the whole image.` : "";
}

async function showOverlay(id, number) {
  const image = byId("overlay");
  if (shownElement !== number) byId("coverage-note").textContent = "";
  shownElement = number;
  const url = number ? new URL(overlayUrl(id, number), location).href : "";
  if (url && image.src === url && image.naturalWidth) {
    image.hidden = false;
    return explainOverlay(id, number);
  }
  const loading = image.src === url && !image.complete; // by hovering, before the click
  if (!loading) image.hidden = true; // until it is loaded
  if (!url) return image.removeAttribute("src");
  if (!loading) image.src = url;
  await image.decode().catch(() => {});
  if (image.src !== url || !image.naturalWidth) return;
  image.hidden = false;
  explainOverlay(id, number); // the maps of all elements are computed by now
}

// Why the image cannot be shown: the file was deleted, or has changed.
async function showProblem() {
  const item = items[index];
  const problem = await problemOf(byId("large").src);
  if (items[index] !== item) return;
  byId("large").parentElement.hidden = true;
  byId("problem").textContent = problem;
}

// A zoomed image is replaced by a larger one, if the file has more pixels.
function sharpen(zoomed) {
  byId("zoom").setAttribute("aria-pressed", String(zoomed));
  const url = imageUrl(viewed(), ZOOMED_SIDE);
  const large = byId("large");
  if (zoomed && large.naturalWidth && Math.max(large.naturalWidth, large.naturalHeight) >= SIDE
      && !large.src.endsWith(url)) large.src = url;
}

async function copyPath() {
  try {
    await navigator.clipboard.writeText(viewed());
    byId("action").textContent = "Path copied.";
    setTimeout(() => { byId("action").textContent = ""; }, MESSAGE_TIME);
  } catch { // browsers allow it on localhost and over HTTPS only
    byId("action").textContent = viewed();
    getSelection().selectAllChildren(byId("action"));
  }
}

function step(by) {
  if (!items[index + by]) return;
  const inside = byId("elements").contains(document.activeElement);
  show(index + by);
  if (inside || document.activeElement?.disabled) byId("close").focus();
}

// The next step then finds them in the browser's cache.
function prefetchNeighbours() {
  for (const item of [items[index + 1], items[index - 1]])
    if (item) new Image().src = imageUrl(item.id, SIDE);
}

// `search` is called with the id of the image, and with an element if one is selected;
// `newLoadMore` when the last images are near.
export function setUpViewer(search, newLoadMore) {
  const viewer = byId("viewer");
  loadMore = newLoadMore;
  const searchSimilar = (element) => {
    const id = viewed();
    items = []; // closing must not focus a card
    viewer.close();
    search(id, element);
  };
  byId("close").addEventListener("click", () => viewer.close());
  byId("previous").addEventListener("click", () => step(-1));
  byId("next").addEventListener("click", () => step(1));
  byId("similar-image").addEventListener("click", () => searchSimilar());
  byId("similar-element").addEventListener("click", () => searchSimilar(selected));
  byId("large").addEventListener("load", () => { byId("large").hidden = false; prefetchNeighbours(); });
  byId("large").addEventListener("error", showProblem);
  byId("zoom").addEventListener("click", toggleZoom);
  byId("copy").addEventListener("click", copyPath);
  viewer.addEventListener("click", ({ target }) => {
    const beside = target === viewer || target === byId("stage");
    if (beside && !wasDragged() && !isZoomed()) viewer.close();
  });
  viewer.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by) { event.preventDefault(); step(by); }
    if (handleZoomKey(event.key)) event.preventDefault();
    if (event.key !== "Escape") event.stopPropagation(); // the grid below handles keys, too
  });
  setUpZoom(byId("stage"), byId("large").parentElement, sharpen);
  setUpSwiping(byId("stage"));
}

function setUpSwiping(stage) {
  let startX = null; // of a single touch; two fingers zoom, and one then scrolls
  stage.addEventListener("touchstart", ({ touches }) => {
    const single = touches.length === 1 && visualViewport.scale < 1.01 && !isZoomed();
    startX = single ? touches[0].clientX : null;
  }, { passive: true });
  stage.addEventListener("touchend", ({ changedTouches }) => {
    const distance = startX === null ? 0 : changedTouches[0].clientX - startX;
    if (Math.abs(distance) > SWIPE) step(distance < 0 ? 1 : -1);
  });
}

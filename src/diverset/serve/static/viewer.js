// One picture, large: its parts can be looked at one by one, and more like it be asked for.
import { at, made } from "./dom.js";
import { about, basename, layer, source } from "./server.js";

const SWIPE = 50; // pixels a finger goes sideways at least
let items = [];
let place = 0;
let chosen = 0; // the part whose layer stays, counted from 1; 0 for none

export function view(all, item) {
  items = all;
  show(all.indexOf(item));
  at("viewer").showModal();
}

// The picture that is being looked at, or was last.
export const viewed = () => items[place]?.id;

async function show(to) {
  place = to;
  const item = items[to];
  at("large").hidden = true; // the one before must not be seen in these proportions
  at("large").parentElement.style.backgroundImage = "";
  at("large").src = source(item.id, 1024);
  at("large").alt = basename(item.id);
  at("previous").disabled = !to;
  at("next").disabled = to === items.length - 1;
  describe(item, item.metadata, item.elements);
  if (item.metadata) return;
  const known = await about(item.id).catch(() => null); // not a hit: nothing came with it
  if (known && items[place] === item) describe(item, known.metadata, Array(known.parts).fill(null));
}

function describe(item, metadata = {}, shares = []) {
  at("name").textContent = basename(item.id);
  const { folder, taken, width, height } = metadata;
  const day = taken && new Date(taken).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
  const facts = [day, width && `${width} × ${height}`, folder];
  at("facts").textContent = facts.filter(Boolean).join("  ·  ");
  if (width) proportion(width, height, item.id);
  at("parts").replaceChildren(...shares.map((share, number) => part(item.id, number + 1, share)));
  choose(0);
}

// The frame has the picture's own proportions, so that a layer that fills it lies right. Until the
// large picture has come, the small one that the grid had is seen in it.
function proportion(width, height, id) {
  const frame = at("large").parentElement;
  frame.style.setProperty("--ratio", width / height);
  frame.style.backgroundImage = `url("${source(id, 256)}")`;
  frame.style.setProperty("--most", `${3 * width}px`); // more would only be blur
}

function part(id, number, share) {
  const one = made("button", "part", `part ${number}`);
  one.setAttribute("aria-pressed", "false");
  if (share !== null) {
    const percent = `${Math.round(100 * share)} %`;
    one.append(made("small", "", ` ${percent}`));
    one.title = `${percent} of the match`;
  }
  one.addEventListener("pointerenter", (event) => { if (event.pointerType === "mouse") lay(number); });
  one.addEventListener("pointerleave", () => lay(chosen));
  one.addEventListener("focus", () => { if (one.matches(":focus-visible")) lay(number); });
  one.addEventListener("blur", () => lay(chosen));
  one.addEventListener("click", () => choose(chosen === number ? 0 : number));
  return one;

  function lay(shown) { overlay(id, shown); }
}

function choose(number) {
  chosen = number;
  [...at("parts").children].forEach((one, before) =>
    one.setAttribute("aria-pressed", String(before + 1 === number)));
  at("alike").disabled = !number;
  overlay(viewed(), number);
}

async function overlay(id, number) {
  const image = at("layer");
  const wanted = number ? new URL(layer(id, number), location).href : "";
  if (wanted && image.src === wanted && image.naturalWidth) { image.hidden = false; return; }
  image.hidden = true; // until it has come, and for good where it does not
  if (!wanted) return image.removeAttribute("src");
  image.src = wanted;
  await image.decode().catch(() => {});
  if (image.src === wanted && image.naturalWidth) image.hidden = false;
}

function step(by) {
  if (!items[place + by]) return;
  const inside = at("parts").contains(document.activeElement);
  show(place + by);
  if (inside || document.activeElement?.disabled) at("close").focus();
}

// So that the next step finds them in the browser's cache.
function fetchNeighbours() {
  for (const one of [items[place + 1], items[place - 1]])
    if (one) new Image().src = source(one.id, 1024);
}

// `ask` is called with the picture, and the part where one was chosen.
export function setUpViewer(ask) {
  const viewer = at("viewer");
  const more = (element) => {
    const id = viewed();
    items = []; // nothing to come back to
    viewer.close();
    ask(id, element);
  };
  at("close").addEventListener("click", () => viewer.close());
  at("previous").addEventListener("click", () => step(-1));
  at("next").addEventListener("click", () => step(1));
  at("whole").addEventListener("click", () => more());
  at("alike").addEventListener("click", () => more(chosen));
  at("large").addEventListener("load", () => { at("large").hidden = false; fetchNeighbours(); });
  viewer.addEventListener("click", ({ target }) => {
    if (target === viewer || target.className === "stage") viewer.close();
  });
  viewer.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by) { event.preventDefault(); step(by); }
    if (event.key !== "Escape") event.stopPropagation(); // the grid below has keys of its own
  });
  setUpSwiping(viewer.querySelector(".stage"));
}

function setUpSwiping(stage) {
  let from = null; // where the only finger began; two fingers enlarge, and one then moves about
  stage.addEventListener("touchstart", ({ touches }) => {
    from = touches.length === 1 && visualViewport.scale < 1.01 ? touches[0].clientX : null;
  }, { passive: true });
  stage.addEventListener("touchend", ({ changedTouches }) => {
    const way = from === null ? 0 : changedTouches[0].clientX - from;
    if (Math.abs(way) > SWIPE) step(way < 0 ? 1 : -1);
  });
}

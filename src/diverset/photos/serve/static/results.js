// The hits of the newest query: shown in a grid, with further ones on scrolling.
import { byId, create, formatNumber, showMessage } from "./dom.js";
import { createCards, createIcon } from "./cards.js";
import { MAX_HITS, MAX_SHOWN, PAGE_SIZE, send } from "./query.js";
import { updateSteps, view } from "./viewer.js";

const NEAR = "800px"; // below the window, from where further hits are loaded
let latest = 0; // number of the newest query; responses to older ones are dropped
let shown = null; // {query, hits, total, response} of the hits on the page
let loading = false;

const most = ({ groups }) => (groups ? MAX_HITS : MAX_SHOWN);
const isComplete = () => shown.hits.length >= Math.min(shown.total, most(shown.query));

export function clearResults() {
  latest += 1;
  shown = null;
  loading = false;
  showMessage("");
  byId("note").textContent = "";
  byId("results").replaceChildren();
  byId("results").classList.remove("stale");
  showEnd();
}

// Show a query from its best hit on. Hits of the query before stay until there are new ones.
export async function showResults(query, onError) {
  const number = ++latest;
  shown = null;
  loading = true;
  showMessage("searching …");
  byId("results").setAttribute("aria-busy", "true");
  showEnd();
  try {
    const response = await send({ ...query, k: Math.min(query.k, MAX_HITS) });
    if (number !== latest) return;
    show(query, response);
    while (shown.hits.length < query.k && !isComplete() && number === latest) await append(number);
  } catch (error) {
    if (number === latest) showError(error, onError);
  }
  finish(number);
}

// Load further hits; `onMore` is called with the number of hits on the page.
async function loadMore(onMore) {
  if (loading || !shown || isComplete()) return;
  const number = latest;
  loading = true;
  try {
    await append(number);
    if (number === latest) onMore(shown.hits.length);
  } catch (error) {
    if (number === latest) showMessage(error.message, true);
    if (number === latest) loading = false;
    return; // not again before the user scrolls or clicks
  }
  finish(number);
}

function finish(number) {
  if (number !== latest) return;
  loading = false;
  byId("results").removeAttribute("aria-busy");
  showEnd();
}

async function append(number) {
  const { query, hits } = shown;
  const k = Math.min(PAGE_SIZE, most(query) - hits.length);
  // Groups are made of all hits, so they are loaded again.
  const page = query.groups ? { k: hits.length + k } : { k, offset: hits.length };
  const response = await send({ ...query, ...page });
  if (number !== latest) return;
  if (query.groups) return show(query, response);
  const more = response.groups.flat();
  hits.push(...more);
  shown.total = more.length ? response.total : hits.length; // the library may have shrunk
  byId("results").querySelector(".grid").append(...createCards(more, isWeak(), open));
  showSummary();
  updateSteps();
}

const isWeak = () => shown.response.confidence === "weak";
const open = (hit) => view(shown.hits, hit);

function show(query, response) {
  const images = new Map([...byId("results").querySelectorAll(".card")].map((card) =>
    [card.dataset.id, card.querySelector("img")]));
  shown = { query, response, hits: response.groups.flat(), total: response.total };
  const sections = response.groups.flatMap((group, index) => {
    const grid = create("div", "grid", ...createCards(group, isWeak(), open, images));
    return query.groups ? [heading(group, index), grid] : [grid];
  });
  byId("start").hidden = true;
  byId("results").classList.remove("stale");
  byId("results").replaceChildren(...sections);
  showSummary();
}

function showError(error, onError) {
  showMessage(error.message, true);
  byId("note").textContent = "";
  byId("results").classList.add("stale"); // earlier hits stay, greyed out
  onError();
}

function heading(group, index) {
  const [best] = group;
  const count = group.length === 1 ? "1 photo" : `${group.length} photos`;
  return create("h2", "", createIcon(best.id, best.element), `group ${index + 1}`,
    create("small", "", ` ${count}`));
}

// A note names options of the command line; the page has fields.
const forPage = (note) => note[0].toUpperCase()
  + note.slice(1).replace(/: --not (".*?")/g, ", write $1 into the field “not”");

function showSummary() {
  const { hits, total, response, query: { text, element } } = shown;
  const { confidence, note } = response;
  byId("note").textContent = note && hits.length ? forPage(note) : "";
  if (!hits.length)
    return showMessage("No photo passes. Change the filter, or index a folder: diverset index FOLDER");
  const photos = total === 1 ? "photo" : "photos";
  const range = hits.length < total ? `1–${formatNumber(hits.length)} of ` : "";
  const both = element && text ? ` similar to this element that also show “${text}”` : "";
  const time = `${Math.round(response.milliseconds)} ms`;
  showMessage(`${range}${formatNumber(total)} ${photos}${both}, ${time}`);
  if (!confidence) return;
  const label = create("span", `confidence ${confidence}`, `${confidence} match`);
  label.title = "how likely it is that the library contains what was searched for";
  byId("message").prepend(label);
}

// Below the hits: a button for more, or why there are no more.
function showEnd() {
  const more = Boolean(shown) && !isComplete();
  byId("more").hidden = !more;
  const limited = shown && !more && shown.hits.length < shown.total;
  byId("limit").textContent = !limited ? "" : shown.query.groups
    ? `Groups are made of the best ${MAX_HITS} photos.`
    : `These are the best ${formatNumber(shown.hits.length)} photos. Narrow the search to see others.`;
  observer?.unobserve(byId("end")); // observed again, it reports whether it is still in view
  observer?.observe(byId("end"));
}

let observer = null;

// `onMore` is called with the number of hits when further ones were loaded.
export function setUpResults(onMore) {
  const load = () => loadMore(onMore);
  byId("more").addEventListener("click", load);
  observer = new IntersectionObserver(
    ([entry]) => { if (entry.isIntersecting) load(); }, { rootMargin: NEAR });
  return load;
}

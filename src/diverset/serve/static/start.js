// Before anything is asked: what this is, examples, and some pictures of the library.
import { cards } from "./cards.js";
import { at } from "./dom.js";
import { fetched } from "./server.js";

const SHOWN = 24;
const LISTED = 1000; // ids that one answer may have; from these some are picked
let there = -1; // pictures of the library when the grid was filled

// `open` is called with the items and the one that was clicked.
export async function fill(now, open) {
  at("empty").hidden = now.pictures > 0;
  at("first").hidden = !now.pictures;
  at("empty").textContent = now.indexing
    ? "The first pictures are being indexed; they appear here."
    : "The library is empty. Index a folder: diverset index FOLDER";
  if (now.pictures === there || there >= SHOWN) return; // a full grid stays as it is
  if (!now.pictures) return;
  const { ids } = await fetched(`/items?limit=${LISTED}`);
  // Neighbours by path are often of one series: pictures far apart show more of the library.
  const every = Math.max(1, ids.length / SHOWN);
  const count = Math.min(SHOWN, ids.length);
  const items = Array.from({ length: count }, (_, place) => ({ id: ids[Math.floor(place * every)] }));
  there = now.pictures;
  at("some").replaceChildren(...cards(items, 0, (item) => open(items, item)));
}

export function setUpExamples(ask) {
  for (const one of document.querySelectorAll(".examples button"))
    one.addEventListener("click", () => ask(one.textContent));
}

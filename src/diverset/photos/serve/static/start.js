// The start page: examples, and some images of the library.
import { createCards } from "./cards.js";
import { byId } from "./dom.js";
import { request } from "./server.js";

const SAMPLE_SIZE = 24;
const MAX_IDS = 1000; // ids of one response, of which the sample is taken
let imagesBefore = -1; // number of images in the library when the sample was taken

// `open` is called with the items and the one that was clicked.
export async function fillStart(status, open) {
  byId("empty").hidden = status.images > 0;
  byId("welcome").hidden = !status.images;
  byId("empty").textContent = status.indexing
    ? "The first photos are being indexed; they will appear here."
    : "The library is empty. Index a folder: diverset index FOLDER";
  if (status.images === imagesBefore || imagesBefore >= SAMPLE_SIZE) return; // a full grid stays
  if (!status.images) return;
  const { ids } = await request(`/items?limit=${MAX_IDS}`);
  // Neighbours by path are often of one series: photos far apart show more of the library.
  const step = Math.max(1, ids.length / SAMPLE_SIZE);
  const count = Math.min(SAMPLE_SIZE, ids.length);
  const items = Array.from({ length: count }, (_, index) => ({ id: ids[Math.floor(index * step)] }));
  imagesBefore = status.images;
  byId("sample").replaceChildren(...createCards(items, false, (item) => open(items, item)));
}

export function setUpExamples(search) {
  for (const button of document.querySelectorAll(".examples button"))
    button.addEventListener("click", () => search(button.textContent));
}

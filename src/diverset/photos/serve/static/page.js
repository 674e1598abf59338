// The page: the query of the fields or the address, and what is shown for it.
import { byId, create, createDecoration, showMessage } from "./dom.js";
import { createIcon } from "./cards.js";
import {
  addUpload, fromAddress, fromFields, isEmpty, toAddress, toFields, uploadedFile,
} from "./query.js";
import { clearResults, setUpResults, showResults } from "./results.js";
import { basename } from "./server.js";
import { fillStart, setUpExamples } from "./start.js";
import { pollStatus } from "./status.js";
import { setUpViewer, view, viewed } from "./viewer.js";

let image = {}; // the image of the query: {image_id, element} or {upload}

// Search by the fields; Back leads to the query before.
function search() {
  const query = fromFields(image);
  const address = toAddress(query);
  if (address !== (location.hash || location.pathname)) history.pushState(null, "", address);
  if (!isEmpty(query)) return run(query);
  showStart();
  showMessage("Type a text, or drop a photo.");
}

// Search by the address: after a reload, Back or Forward.
function restore() {
  const query = fromAddress(location.hash);
  const { image_id, element, upload } = query;
  const lost = upload && !uploadedFile(upload);
  image = lost ? {} : image_id ? { image_id, element } : upload ? { upload } : {};
  toFields(query);
  if (byId("viewer").open) byId("viewer").close();
  if (!isEmpty(query) && !lost) return run(query);
  showStart();
  if (lost) showMessage("Uploaded photos are not stored; drop it again.");
}

function showStart() {
  clearResults();
  showImage();
  document.title = "diverset";
  byId("start").hidden = false;
}

function run(query) {
  showImage();
  document.title = `${query.text || byId("image-chip").innerText.replace("✕", "").trim()} – diverset`;
  // An uploaded image that failed does not stay.
  return showResults(query, () => {
    if (!query.upload) return;
    image = {};
    history.replaceState(null, "", toAddress({ ...query, upload: "" }));
    showImage();
  });
}

// The chip that names the image of the query, with a button to remove it.
function showImage() {
  const { image_id, element, upload } = image;
  byId("image-chip").hidden = !image_id && !upload;
  byId("image-chip").replaceChildren();
  updateCoverage();
  if (byId("image-chip").hidden) return;
  const file = uploadedFile(upload);
  const name = image_id ? basename(image_id) : file.name || "the pasted photo";
  const remove = create("button", "", "✕");
  remove.setAttribute("aria-label", "remove this photo");
  remove.addEventListener("click", () => { image = {}; search(); });
  const icon = image_id ? createIcon(image_id, element) : preview(file);
  const text = element ? `similar to element ${element} of ${name}` : `similar to ${name}`;
  byId("image-chip").append(icon, create("span", "", text), remove);
}

function preview(file) {
  const url = URL.createObjectURL(file);
  const thumbnail = createDecoration(url);
  thumbnail.addEventListener("load", () => URL.revokeObjectURL(url));
  return create("span", "icon", thumbnail);
}

// Coverage is about the elements of the main text, which a search by an element does not have.
function updateCoverage() {
  const { image_id, element } = image;
  byId("coverage").disabled = Boolean(element || (image_id && !byId("text").value.trim()));
}

function searchByFile(file) {
  if (!file) return;
  // Browsers do not know every format, such as HEIC; a file without a type is left to the server.
  if (file.type && !file.type.startsWith("image/"))
    return showMessage("This file is not an image.", true);
  image = { upload: addUpload(file) };
  search();
}

const visibleCards = () =>
  [...document.querySelectorAll(".card")].filter((card) => card.checkVisibility());

function moveAmongCards(event) {
  const cards = visibleCards();
  const index = cards.indexOf(document.activeElement);
  const columns = index < 0
    ? 1 : getComputedStyle(cards[index].parentElement).gridTemplateColumns.split(" ").length;
  const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[event.key];
  if (step && index >= 0) { event.preventDefault(); cards[index + step]?.focus(); }
  if (event.key === "ArrowDown" && document.activeElement === byId("text")) cards[0]?.focus();
}

byId("search-form").addEventListener("submit", (event) => { event.preventDefault(); search(); });
byId("text").addEventListener("input", updateCoverage);
byId("file").addEventListener("change", () => {
  const [file] = byId("file").files;
  byId("file").value = ""; // otherwise the same file could not be chosen again
  searchByFile(file);
});
for (const id of ["groups", "coverage"])
  byId(id).addEventListener("change", () => { if (!isEmpty(fromFields(image))) search(); });
addEventListener("paste", (event) => searchByFile(event.clipboardData.files[0]));
addEventListener("dragover", (event) => { event.preventDefault(); document.body.classList.add("dropping"); });
addEventListener("dragleave", (event) => {
  if (!event.relatedTarget) document.body.classList.remove("dropping"); // left the window
});
addEventListener("drop", (event) => {
  event.preventDefault();
  document.body.classList.remove("dropping");
  searchByFile(event.dataTransfer.files[0]);
});
addEventListener("keydown", (event) => {
  if (event.key === "/" && !document.activeElement.matches("input:not([type=checkbox])")) {
    event.preventDefault();
    byId("text").select();
  }
  moveAmongCards(event);
});
addEventListener("popstate", restore);

// The address stores how many hits are shown; they are not a new query.
const loadMore = setUpResults((k) =>
  history.replaceState(null, "", toAddress({ ...fromAddress(location.hash), k })));
setUpViewer((image_id, element) => {
  byId("text").value = "";
  image = { image_id, element };
  search();
  scrollTo(0, 0);
}, loadMore);
byId("viewer").addEventListener("close", () => {
  if (document.activeElement.matches("input")) return; // the user is typing already
  visibleCards().find((card) => card.dataset.id === viewed())?.focus();
});
setUpExamples((text) => { byId("text").value = text; image = {}; search(); });
restore();
pollStatus((status) => fillStart(status, view));

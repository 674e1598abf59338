// The page: asks what the fields or the address say, and shows the answer.
import { at, made, say } from "./dom.js";
import { cards, face } from "./cards.js";
import {
  FIRST, MOST, fromAddress, fromFields, isAsked, keep, kept, send, toAddress, toFields,
} from "./question.js";
import { basename } from "./server.js";
import { fill, setUpExamples } from "./start.js";
import { watch } from "./status.js";
import { setUpViewer, view, viewed } from "./viewer.js";

let beside = {}; // the picture a question is about: {like, element} or {upload}
let latest = 0; // the newest question; answers to older ones are dropped

// Ask what stands in the fields, and let Back lead to what was asked before.
function ask(k = FIRST) {
  const question = fromFields(beside, k);
  const address = toAddress(question);
  const same = address === (location.hash || location.pathname);
  if (!same && k !== FIRST) history.replaceState(null, "", address);
  else if (!same) history.pushState(null, "", address);
  if (isAsked(question)) return answer(question);
  begin();
  say("Type some words, or drop a picture.");
}

// Ask what stands in the address: after a reload, Back or Forward.
function restore() {
  const question = fromAddress(location.hash);
  const { like, element, upload } = question;
  const lost = upload && !kept(upload);
  beside = lost ? {} : like ? { like, element } : upload ? { upload } : {};
  toFields(question);
  if (at("viewer").open) at("viewer").close();
  if (isAsked(question) && !lost) return answer(question);
  begin();
  if (lost) say("The picture that was sent is not kept; drop it again.");
}

function begin() {
  latest += 1;
  showBeside();
  say("");
  document.title = "diverset";
  at("start").hidden = false;
  at("further").hidden = true;
  at("results").replaceChildren();
  at("results").classList.remove("stale");
}

async function answer(question) {
  const mine = ++latest;
  showBeside();
  say("searching …");
  at("results").setAttribute("aria-busy", "true");
  try {
    const found = await send(question);
    if (mine === latest) show(found, question);
  } catch (error) {
    if (mine === latest) fail(error, question);
  }
  if (mine === latest) at("results").removeAttribute("aria-busy");
}

// What was found before stays, visibly old; a picture that could not be searched with does not.
function fail(error, question) {
  say(error.message, true);
  at("results").classList.add("stale");
  at("further").hidden = true;
  if (!question.upload) return;
  beside = {};
  history.replaceState(null, "", toAddress({ ...question, upload: "" }));
  showBeside();
}

function show(found, question) {
  const items = found.groups.flat();
  const before = new Map([...at("results").querySelectorAll(".card")].map((one) =>
    [one.dataset.id, one.querySelector("img")]));
  const open = (item) => view(items, item);
  const parts = found.groups.flatMap((some, place) => {
    const grid = made("div", "grid", ...cards(some, found.cutoff, open, before));
    return question.groups ? [heading(some, place), grid] : [grid];
  });
  at("start").hidden = true;
  at("results").classList.remove("stale");
  at("results").replaceChildren(...parts);
  at("further").hidden = items.length < question.k || question.k >= MOST;
  say(summary(found, items.length, question));
  document.title = `${question.words || at("like").innerText.replace("✕", "").trim()} – diverset`;
}

function heading(some, place) {
  const count = some.length === 1 ? "1 picture" : `${some.length} pictures`;
  return made("h2", "", face(some[0].id, some[0].element), `group ${place + 1}`,
    made("small", "", ` ${count}`));
}

function summary(found, count, { words, element }) {
  if (!count) return "No picture passes. Change the filter, or index a folder: diverset index FOLDER";
  const also = element && words ? ` with something like this part that also show “${words}”` : "";
  if (!found.matches_well) return "Nothing matches well; these are the nearest.";
  return `${count} ${count === 1 ? "picture" : "pictures"}${also}, ${Math.round(found.milliseconds)} ms`;
}

// The chip that names the picture a question is about, and the way to get rid of it.
function showBeside() {
  const { like, element, upload } = beside;
  at("like").hidden = !like && !upload;
  at("like").replaceChildren();
  showCoverage();
  if (at("like").hidden) return;
  const name = like ? basename(like) : kept(upload).name || "the pasted picture";
  const drop = made("button", "", "✕");
  drop.setAttribute("aria-label", "without this picture");
  drop.addEventListener("click", () => { beside = {}; ask(); });
  const small = like ? face(like, element) : preview(kept(upload));
  const text = element ? `like part ${element} of ${name}` : `like ${name}`;
  at("like").append(small, made("span", "", text), drop);
}

function preview(file) {
  const image = new Image();
  const address = URL.createObjectURL(file);
  image.alt = "";
  image.addEventListener("load", () => URL.revokeObjectURL(address));
  image.addEventListener("error", () => image.remove()); // a kind that the browser does not know
  image.src = address;
  return made("span", "face", image);
}

// Only words have things to be met, and beside a part they are asked for in another way.
function showCoverage() {
  const { like, element } = beside;
  at("coverage").disabled = Boolean(element || (like && !at("words").value.trim()));
}

function take(file) {
  if (!file) return;
  // Browsers do not know every kind, such as HEIC; what has none is for the server to tell.
  if (file.type && !file.type.startsWith("image/")) return say("That is no picture.", true);
  beside = { upload: keep(file) };
  ask();
}

function moveAmongCards(event) {
  const all = [...document.querySelectorAll(".card")].filter((one) => one.checkVisibility());
  const place = all.indexOf(document.activeElement);
  const columns = place < 0
    ? 1 : getComputedStyle(all[place].parentElement).gridTemplateColumns.split(" ").length;
  const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[event.key];
  if (step && place >= 0) { event.preventDefault(); all[place + step]?.focus(); }
  if (event.key === "ArrowDown" && document.activeElement === at("words")) all[0]?.focus();
}

at("ask").addEventListener("submit", (event) => { event.preventDefault(); ask(); });
at("words").addEventListener("input", showCoverage);
at("file").addEventListener("change", () => {
  const [file] = at("file").files;
  at("file").value = ""; // else the same file could not be chosen again
  take(file);
});
for (const id of ["groups", "coverage"])
  at(id).addEventListener("change", () => { if (isAsked(fromFields(beside))) ask(); });
at("further").addEventListener("click", () =>
  ask(Math.min(MOST, fromAddress(location.hash).k + FIRST)));
addEventListener("paste", (event) => take(event.clipboardData.files[0]));
addEventListener("dragover", (event) => { event.preventDefault(); document.body.classList.add("dropping"); });
addEventListener("dragleave", (event) => {
  if (!event.relatedTarget) document.body.classList.remove("dropping"); // out of the window
});
addEventListener("drop", (event) => {
  event.preventDefault();
  document.body.classList.remove("dropping");
  take(event.dataTransfer.files[0]);
});
addEventListener("keydown", (event) => {
  if (event.key === "/" && !document.activeElement.matches("input:not([type=checkbox])")) {
    event.preventDefault();
    at("words").focus();
  }
  moveAmongCards(event);
});
addEventListener("popstate", restore);

setUpViewer((like, element) => {
  at("words").value = "";
  beside = { like, element };
  ask();
  scrollTo(0, 0);
});
at("viewer").addEventListener("close", () => {
  if (document.activeElement.matches("input")) return; // somebody was faster and types already
  const all = [...document.querySelectorAll(".card")].filter((one) => one.checkVisibility());
  all.find((one) => one.dataset.id === viewed())?.focus();
});
setUpExamples((words) => { at("words").value = words; beside = {}; ask(); });
restore();
watch((now) => fill(now, view));

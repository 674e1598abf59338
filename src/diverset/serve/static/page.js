// The page: asks the server, shows a grid, lays what an element looked at over the pictures.
const at = (id) => document.getElementById(id);
let picture = null; // a File that was dropped, pasted or chosen
let like = null; // {id, element} of "more like this"
let latest = 0; // the newest question; answers to older ones are dropped
let cutoff = 0;

async function fetched(url, options) {
  const answer = await fetch(url, options).catch(() => {
    throw new Error("The server does not answer; is diverset serve still running?");
  });
  const content = await answer.json().catch(() => ({}));
  if (answer.ok) return content;
  const detail = content.detail;
  throw new Error(typeof detail === "string" ? detail : detail?.[0]?.message ?? `status ${answer.status}`);
}

function question() {
  const split = (id) => at(id).value.split(",").map((one) => one.trim()).filter(Boolean);
  const narrowed = {
    also: split("also"), without: split("without"), filter: at("filter").value.trim(),
    groups: at("groups").checked,
  };
  if (like) return fetched(`/similar?${filled(new URLSearchParams(), { ...like, ...narrowed })}`);
  const wished = {
    ...narrowed, words: at("words").value.trim(), coverage: at("coverage").checked,
  };
  if (picture) {
    const body = filled(new FormData(), { ...wished, picture });
    return fetched("/similar", { method: "POST", body });
  }
  return fetched("/search", {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(wished),
  });
}

// Fields as forms and addresses have them: one for each value of a list, none for what is empty.
function filled(form, fields) {
  for (const [name, value] of Object.entries(fields))
    for (const one of [value].flat()) if (one) form.append(name, one);
  return form;
}

async function ask() {
  const mine = ++latest;
  if (!picture && !like && !at("words").value.trim()) return say("Type some words, or drop a picture.");
  say("searching …");
  at("results").setAttribute("aria-busy", "true");
  try {
    const found = await question();
    if (mine === latest) show(found);
  } catch (error) {
    if (mine === latest) { at("results").replaceChildren(); say(error.message, true); }
  } finally {
    at("results").removeAttribute("aria-busy");
  }
}

function say(text, wrong = false) {
  at("note").textContent = text;
  at("note").classList.toggle("error", wrong);
}

function show(found) {
  cutoff = found.cutoff;
  const count = found.groups.reduce((sum, some) => sum + some.length, 0);
  const took = `${Math.round(found.milliseconds)} ms`;
  if (!count) say("No picture passes. Change the filter, or index a folder: diverset index FOLDER");
  else if (!found.matches_well) say("Nothing matches well; these are the nearest.");
  else say(`${count} pictures, ${took}`);
  const parts = found.groups.flatMap((some, place) => {
    const grid = document.createElement("div");
    grid.className = "grid";
    grid.append(...some.map(card));
    if (found.groups.length < 2) return [grid];
    const head = document.createElement("h2");
    head.textContent = `group ${place + 1}`;
    return [head, grid];
  });
  at("results").replaceChildren(...parts);
}

const source = (id, side) => `/items/picture?${new URLSearchParams({ id, side })}`;
const layer = (id, element) => `/items/map?${new URLSearchParams({ id, element })}`;

function card(item) {
  const one = document.createElement("button");
  one.className = "card";
  one.title = item.id;
  const image = new Image();
  image.loading = "lazy";
  image.alt = item.metadata.name ?? item.id;
  image.src = source(item.id, 256);
  const said = document.createElement("b");
  const likely = item.probability;
  said.textContent = likely === null ? item.score.toFixed(2) : `${Math.round(100 * likely)} %`;
  if (likely !== null && likely < cutoff) one.classList.add("unlikely");
  one.append(image, said);
  const over = new Image();
  over.className = "layer";
  over.alt = "";
  one.addEventListener("pointerenter", (event) => {
    if (event.pointerType !== "mouse") return;
    over.src = layer(item.id, item.element);
    image.after(over);
  });
  one.addEventListener("pointerleave", () => over.remove());
  one.addEventListener("click", () => view(item));
  return one;
}

function view(item) {
  at("large").src = source(item.id, 1024);
  at("large").alt = item.metadata.name ?? "";
  at("path").textContent = item.id;
  at("layer").hidden = true;
  const shares = item.elements.map((share, place) => {
    const one = document.createElement("button");
    one.textContent = `part ${place + 1}: ${Math.round(100 * share)} %`;
    one.title = "click: more like this part";
    const peek = () => { at("layer").src = layer(item.id, place + 1); at("layer").hidden = false; };
    one.addEventListener("pointerenter", peek);
    one.addEventListener("focus", peek);
    one.addEventListener("click", () => more(item.id, place + 1));
    return one;
  });
  at("elements").replaceChildren(...shares);
  at("whole").onclick = () => more(item.id);
  at("viewer").showModal();
}

function more(id, element) {
  at("viewer").close();
  picture = null;
  like = { id, element };
  at("words").value = "";
  const name = id.split("/").pop();
  limit(element ? `like part ${element} of ${name}` : `like ${name}`);
  ask();
}

function take(file) {
  if (!file) return;
  // Browsers do not know every kind, such as HEIC; what has none is for the server to tell.
  if (file.type && !file.type.startsWith("image/")) return say("That is no picture.", true);
  picture = file;
  like = null;
  limit(`like ${file.name || "the pasted picture"}`);
  ask();
}

function limit(text) {
  const drop = document.createElement("button");
  drop.textContent = "✕";
  drop.setAttribute("aria-label", "without this picture");
  drop.onclick = () => { picture = like = null; limit(""); ask(); };
  at("like").replaceChildren(text, " ", drop);
  at("like").hidden = !text;
  at("coverage").disabled = Boolean(like); // a picture has no words to be met
}

async function progress() {
  try {
    const now = await fetched("/status");
    const job = now.indexing;
    at("status").textContent = job
      ? `indexing: ${job.done} of ${job.total}, ${job.rate.toFixed(1)} a second `
      : `${now.pictures} pictures` + (now.skipped ? `, ${now.skipped} skipped` : "");
    if (job) {
      const bar = document.createElement("progress");
      bar.max = job.total;
      bar.value = job.done;
      bar.setAttribute("aria-label", "indexing");
      at("status").append(bar);
    }
    if (!now.pictures && !at("note").textContent)
      say("The library is empty. Index a folder: diverset index FOLDER");
    setTimeout(progress, job ? 2000 : 15000);
  } catch (error) {
    at("status").textContent = error.message;
    setTimeout(progress, 5000);
  }
}

at("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  if (like) { like = null; limit(""); }
  ask();
});
at("file").addEventListener("change", () => take(at("file").files[0]));
at("groups").addEventListener("change", ask);
at("coverage").addEventListener("change", ask);
at("close").addEventListener("click", () => at("viewer").close());
addEventListener("paste", (event) => take(event.clipboardData.files[0]));
addEventListener("dragover", (event) => { event.preventDefault(); document.body.classList.add("dropping"); });
addEventListener("dragleave", () => document.body.classList.remove("dropping"));
addEventListener("drop", (event) => {
  event.preventDefault();
  document.body.classList.remove("dropping");
  take(event.dataTransfer.files[0]);
});
addEventListener("keydown", (event) => {
  if (event.key === "/" && !/^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName)) {
    event.preventDefault();
    at("words").focus();
  }
  const cards = [...document.querySelectorAll(".card")];
  const place = cards.indexOf(document.activeElement);
  const columns = cards.length
    ? getComputedStyle(cards[0].parentElement).gridTemplateColumns.split(" ").length : 1;
  const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[event.key];
  if (step && place >= 0) { event.preventDefault(); cards[place + step]?.focus(); }
  if (event.key === "ArrowDown" && document.activeElement === at("words")) cards[0]?.focus();
});
progress();

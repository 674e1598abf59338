// A question: as the fields have it, as the address has it, as the server wants it.
//
// It is {words, also, without, filter, groups, coverage, k} and, where it is about a picture,
// {like, element} for one of the library or {upload} for one that was sent.
import { at } from "./dom.js";
import { fetched, filled } from "./server.js";

export const FIRST = 40; // hits of a new question
export const MOST = 200; // hits that the server gives at most
const TEXTS = ["words", "also", "without", "filter"];
const SWITCHES = ["groups", "coverage"];
const sent = new Map(); // files by the name they have in addresses; gone when the page is

export function keep(file) {
  const name = `${Date.now()}`;
  sent.set(name, file);
  return name;
}

export const kept = (name) => sent.get(name);
export const isAsked = ({ words, like, upload }) => Boolean(words || like || upload);

export function fromFields(beside, k = FIRST) {
  const texts = TEXTS.map((id) => [id, at(id).value.trim()]);
  const switches = SWITCHES.map((id) => [id, at(id).checked]);
  return { ...Object.fromEntries([...texts, ...switches]), ...beside, k };
}

export function toFields(question) {
  for (const id of TEXTS) at(id).value = question[id] ?? "";
  for (const id of SWITCHES) at(id).checked = Boolean(question[id]);
  const { also, without, filter, groups, coverage } = question;
  if (also || without || filter || groups || coverage) at("narrower").open = true;
}

// After the #, so that what is searched for is not written into the server's log.
export function toAddress(question) {
  if (!isAsked(question)) return location.pathname;
  const k = question.k === FIRST ? 0 : question.k;
  return `#${filled(new URLSearchParams(), { ...question, k })}`;
}

export function fromAddress(hash) {
  const question = Object.fromEntries(new URLSearchParams(hash.slice(1)));
  const element = Number(question.element) || undefined;
  return { ...question, element, k: Math.min(MOST, Number(question.k) || FIRST) };
}

export function send(question) {
  const { words, like, element, upload, coverage, filter, groups, k } = question;
  const [also, without] = [question.also, question.without].map((some) =>
    (some ?? "").split(",").map((one) => one.trim()).filter(Boolean));
  const narrowed = { also, without, filter: filter ?? "", groups: Boolean(groups), k };
  if (upload) {
    const body = filled(new FormData(), { ...narrowed, words, coverage, picture: kept(upload) });
    return fetched("/similar", { method: "POST", body });
  }
  if (element || (like && !words)) {
    // A part takes no words beside itself: what was typed becomes a further thing to be met.
    const near = { ...narrowed, id: like, element, also: [words, ...also] };
    return fetched(`/similar?${filled(new URLSearchParams(), near)}`);
  }
  const body = { ...narrowed, words, coverage: Boolean(coverage), like: like ?? "" };
  return fetched("/search", {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
  });
}

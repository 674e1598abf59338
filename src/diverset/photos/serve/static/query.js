// A query: read from the fields, read from the address, sent to the server.
//
// It is {text, required, excluded, filter, groups, coverage, k, offset} and, if it is about an image,
// {image_id, element} for an image of the library or {upload} for an uploaded one.
import { byId } from "./dom.js";
import { appendFields, request } from "./server.js";

export const PAGE_SIZE = 40; // hits of a new query
export const MAX_HITS = 200; // of one response
const MAX_OFFSET = 10000; // of a response, see schemas.py
export const MAX_SHOWN = MAX_OFFSET + PAGE_SIZE; // of one query
const TEXT_FIELDS = ["text", "required", "excluded", "filter"];
const CHECKBOXES = ["groups", "coverage"];
const uploads = new Map(); // files by their name in addresses; lost when the page is reloaded

export function addUpload(file) {
  const name = `${Date.now()}`;
  uploads.set(name, file);
  return name;
}

export const uploadedFile = (name) => uploads.get(name);
export const isEmpty = ({ text, image_id, upload }) => !(text || image_id || upload);

export function fromFields(image, k = PAGE_SIZE) {
  const texts = TEXT_FIELDS.map((id) => [id, byId(id).value.trim()]);
  const switches = CHECKBOXES.map((id) => [id, byId(id).checked]);
  return { ...Object.fromEntries([...texts, ...switches]), ...image, k };
}

export function toFields(query) {
  for (const id of TEXT_FIELDS) byId(id).value = query[id] ?? "";
  for (const id of CHECKBOXES) byId(id).checked = Boolean(query[id]);
  const { required, excluded, filter, groups, coverage } = query;
  if (required || excluded || filter || groups || coverage) byId("options").open = true;
}

// After the #, so that queries do not appear in the server's log.
export function toAddress(query) {
  if (isEmpty(query)) return location.pathname;
  const k = query.k === PAGE_SIZE ? 0 : query.k;
  return `#${appendFields(new URLSearchParams(), { ...query, k })}`;
}

export function fromAddress(hash) {
  const query = Object.fromEntries(new URLSearchParams(hash.slice(1)));
  const element = Number(query.element) || undefined;
  return { ...query, element, k: Math.min(MAX_SHOWN, Number(query.k) || PAGE_SIZE) };
}

const splitAtCommas = (text) =>
  (text ?? "").split(",").map((part) => part.trim()).filter(Boolean);

export function send(query) {
  const { text, image_id, element, upload, coverage, filter, groups, k, offset = 0 } = query;
  const [required, excluded] = [query.required, query.excluded].map(splitAtCommas);
  const common = { required, excluded, filter: filter ?? "", groups: Boolean(groups), k, offset };
  if (upload) {
    const fields = { ...common, text, coverage, image: uploadedFile(upload) };
    return request("/similar", { method: "POST", body: appendFields(new FormData(), fields) });
  }
  if (element || (image_id && !text)) {
    // A search by an element has no main text: what was typed becomes a required text.
    const fields = { ...common, id: image_id, element, required: [text, ...required] };
    return request(`/similar?${appendFields(new URLSearchParams(), fields)}`);
  }
  const body = { ...common, text, coverage: Boolean(coverage), image_id: image_id ?? null };
  return request("/search", {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
  });
}

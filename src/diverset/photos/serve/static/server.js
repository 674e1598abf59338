// Requests to the server, and the addresses of images.
export async function request(url, options) {
  const response = await fetch(url, options).catch(() => {
    throw new Error("The server does not respond. Is diverset serve still running?");
  });
  const content = await response.json().catch(() => ({}));
  if (response.ok) return content;
  const detail = content.detail;
  throw new Error(
    typeof detail === "string" ? detail : detail?.[0]?.message ?? `status ${response.status}`);
}

// Why an image of the server cannot be shown.
export const problemOf = (url) =>
  request(url).then(() => "the browser cannot show it", (error) => error.message);

export const itemInfo = (id) => request(`/items/info?${new URLSearchParams({ id })}`);
export const elementAreas = (id) => request(`/items/elements?${new URLSearchParams({ id })}`);
export const imageUrl = (id, side) => `/items/image?${new URLSearchParams({ id, side })}`;
export const originalUrl = (id, more = {}) =>
  `/items/original?${new URLSearchParams({ id, ...more })}`;
export const overlayUrl = (id, element) => `/items/overlay?${new URLSearchParams({ id, element })}`;
export const basename = (id) => id.split(/[\\/]/).pop();

// Adds fields to a form or an address: one entry per value of a list, none for empty values.
export function appendFields(form, fields) {
  for (const [name, values] of Object.entries(fields))
    for (const value of [values].flat()) if (value) form.append(name, value);
  return form;
}

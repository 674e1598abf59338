// What the server is asked, and where it keeps pictures. Knows nothing of the page.
export async function fetched(url, options) {
  const answer = await fetch(url, options).catch(() => {
    throw new Error("The server does not answer; is diverset serve still running?");
  });
  const content = await answer.json().catch(() => ({}));
  if (answer.ok) return content;
  const detail = content.detail;
  throw new Error(typeof detail === "string" ? detail : detail?.[0]?.message ?? `status ${answer.status}`);
}

export const about = (id) => fetched(`/items/about?${new URLSearchParams({ id })}`);
export const source = (id, side) => `/items/picture?${new URLSearchParams({ id, side })}`;
export const layer = (id, element) => `/items/map?${new URLSearchParams({ id, element })}`;
export const basename = (id) => id.split(/[\\/]/).pop();

// Fields as forms and addresses have them: one for each value of a list, none for what is empty.
export function filled(form, fields) {
  for (const [name, value] of Object.entries(fields))
    for (const one of [value].flat()) if (one) form.append(name, one);
  return form;
}

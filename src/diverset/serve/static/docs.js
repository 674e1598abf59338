// The routes of openapi.json as a list, without a viewer from elsewhere.
function made(kind, ...inside) {
  const one = document.createElement(kind);
  one.append(...inside);
  return one;
}

// A field's kind in a few words.
function kind(schema) {
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.anyOf) return schema.anyOf.map((one) => kind(one)).join(" or ");
  if (schema.type === "array") return `list of ${kind(schema.items)}`;
  return schema.contentMediaType || schema.format === "binary" ? "file" : schema.type ?? "anything";
}

function bounds(schema) {
  const said = [];
  if (schema.default !== undefined) said.push(`${JSON.stringify(schema.default)} by default`);
  if (schema.minimum !== undefined) said.push(`from ${schema.minimum}`);
  if (schema.maximum !== undefined) said.push(`to ${schema.maximum}`);
  if (schema.maxLength !== undefined) said.push(`${schema.maxLength} characters at most`);
  if (schema.maxItems !== undefined) said.push(`${schema.maxItems} at most`);
  return said.length ? `: ${said.join(", ")}` : "";
}

function fields(route, all) {
  const found = (route.parameters ?? []).map(({ name, schema }) => [name, schema]);
  for (const { schema } of Object.values(route.requestBody?.content ?? {}))
    found.push(...Object.entries(all[schema.$ref.split("/").pop()].properties));
  return found.map(([name, schema]) =>
    made("li", made("code", name), ` ${kind(schema)}${bounds(schema)}`));
}

function section(path, method, route, all) {
  const types = Object.keys(route.requestBody?.content ?? {}).map((type) => ` (${type})`);
  return made("section",
    made("h2", made("code", `${method.toUpperCase()} ${path}`), ...types),
    made("p", route.description ?? route.summary ?? ""),
    made("ul", ...fields(route, all)));
}

const answer = await fetch("/openapi.json");
const { paths, components } = await answer.json();
document.getElementById("routes").append(...Object.entries(paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, route]) =>
    section(path, method, route, components.schemas))));

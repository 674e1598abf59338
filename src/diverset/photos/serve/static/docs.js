// The routes of openapi.json as a list; no viewer from another site is loaded.
import { create } from "./dom.js";

function typeName(schema) {
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.anyOf) return schema.anyOf.map(typeName).join(" or ");
  if (schema.type === "array") return `list of ${typeName(schema.items)}`;
  return schema.contentMediaType || schema.format === "binary" ? "file" : schema.type ?? "any";
}

function limits(schema) {
  const parts = [];
  if (schema.default !== undefined) parts.push(`default ${JSON.stringify(schema.default)}`);
  if (schema.minimum !== undefined) parts.push(`from ${schema.minimum}`);
  if (schema.maximum !== undefined) parts.push(`to ${schema.maximum}`);
  if (schema.maxLength !== undefined) parts.push(`at most ${schema.maxLength} characters`);
  if (schema.maxItems !== undefined) parts.push(`at most ${schema.maxItems}`);
  return parts.length ? `: ${parts.join(", ")}` : "";
}

function fields(route, schemas) {
  const entries = (route.parameters ?? []).map(({ name, schema }) => [name, schema]);
  for (const { schema } of Object.values(route.requestBody?.content ?? {}))
    entries.push(...Object.entries(schemas[schema.$ref.split("/").pop()].properties));
  return entries.map(([name, schema]) =>
    create("li", "", create("code", "", name), ` ${typeName(schema)}${limits(schema)}`));
}

function section(path, method, route, schemas) {
  const types = Object.keys(route.requestBody?.content ?? {}).map((type) => ` (${type})`);
  return create("section", "",
    create("h2", "", create("code", "", `${method.toUpperCase()} ${path}`), ...types),
    create("p", "", route.description ?? route.summary ?? ""),
    create("ul", "", ...fields(route, schemas)));
}

const response = await fetch("/openapi.json");
const { paths, components } = await response.json();
document.getElementById("routes").append(...Object.entries(paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, route]) =>
    section(path, method, route, components.schemas))));

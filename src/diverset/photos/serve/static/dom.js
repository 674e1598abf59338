// Small helpers for the document.
export const byId = (id) => document.getElementById(id);

export function create(tag, className, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children);
  return element;
}

// A decorative image, removed if the browser cannot show it.
export function createDecoration(url) {
  const image = new Image();
  image.alt = "";
  image.addEventListener("error", () => image.remove());
  image.src = url;
  return image;
}

// Hovering with a mouse and keyboard focus; touches do not count.
export function onHover(element, enter, leave) {
  element.addEventListener("pointerenter", ({ pointerType }) => { if (pointerType === "mouse") enter(); });
  element.addEventListener("pointerleave", leave);
  element.addEventListener("focus", () => { if (element.matches(":focus-visible")) enter(); });
  element.addEventListener("blur", leave);
}

export const formatNumber = (number) => number.toLocaleString("en");

export function showMessage(text, isError = false) {
  byId("message").textContent = text;
  byId("message").classList.toggle("error", isError);
}

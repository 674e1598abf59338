// The few things every module does with the document.
export const at = (id) => document.getElementById(id);

export function made(kind, className, ...inside) {
  const one = document.createElement(kind);
  if (className) one.className = className;
  one.append(...inside);
  return one;
}

export function say(text, wrong = false) {
  at("note").textContent = text;
  at("note").classList.toggle("error", wrong);
}

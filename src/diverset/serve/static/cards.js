// Pictures as cards in a grid; a hovered or focused card shows what matched in it.
import { made } from "./dom.js";
import { basename, layer, source } from "./server.js";

const PAUSE = 80; // milliseconds on a card before its layer is asked for, which takes computing

// Cards of items that are shown one after the other; images that were there before are used again.
export function cards(items, cutoff, open, before = new Map()) {
  return items.map((item) => card(item, cutoff, () => open(item), before.get(item.id)));
}

function card(item, cutoff, open, image = picture(item)) {
  const one = made("button", "card", image);
  one.title = item.id;
  one.dataset.id = item.id;
  const likely = item.probability ?? null;
  if (likely !== null) {
    one.append(made("b", "", `${Math.round(100 * likely)} %`));
    if (likely < cutoff) {
      one.classList.add("unlikely");
      one.title += "\nan unlikely match";
    }
  }
  if (item.element) peeks(one, image, layer(item.id, item.element));
  one.addEventListener("click", open);
  return one;
}

function picture(item) {
  const image = new Image();
  image.loading = "lazy";
  image.alt = item.metadata?.name ?? basename(item.id);
  image.addEventListener("error", () => image.replaceWith(made("span", "gone", image.alt)));
  image.src = source(item.id, 256);
  return image;
}

// Pointers that hover and keys that focus show the layer; a finger opens the viewer instead.
function peeks(one, image, address) {
  const over = layered(address);
  let wait = 0;
  const leave = () => { clearTimeout(wait); over.image.remove(); };
  const enter = () => {
    leave();
    wait = setTimeout(async () => {
      const mine = wait;
      if (await over.loaded() && wait === mine && one.matches(":hover, :focus-visible"))
        image.after(over.image);
    }, PAUSE);
  };
  one.addEventListener("pointerenter", (event) => { if (event.pointerType === "mouse") enter(); });
  one.addEventListener("pointerleave", leave);
  one.addEventListener("focus", () => { if (one.matches(":focus-visible")) enter(); });
  one.addEventListener("blur", leave);
}

// A layer that is in the page only when it has come, so that nothing broken is ever drawn.
function layered(address) {
  const image = new Image();
  image.className = "layer";
  image.alt = "";
  const loaded = () => {
    if (!image.naturalWidth) image.src = address; // also after a failure
    return image.decode().then(() => true, () => false);
  };
  return { image, loaded };
}

// A small picture with the layer of one part; for headings, where text beside it says the same.
export function face(id, element) {
  const small = made("span", "face");
  for (const address of [source(id, 256), element && layer(id, element)].filter(Boolean)) {
    const image = new Image();
    image.alt = "";
    image.addEventListener("error", () => image.remove());
    image.src = address;
    small.append(image);
  }
  return small;
}

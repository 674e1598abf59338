// Images as cards in a grid; a hovered or focused card shows the overlay of what matched.
import { create, createDecoration, onHover } from "./dom.js";
import { basename, imageUrl, overlayUrl, problemOf } from "./server.js";

const DELAY = 80; // milliseconds on a card before its overlay is requested, which is expensive

// One card per item; <img> elements of earlier cards are reused.
export function createCards(items, unlikely, open, images = new Map()) {
  return items.map((item) => createCard(item, unlikely, () => open(item), images.get(item.id)));
}

function createCard(item, unlikely, open, image = createImage(item)) {
  const card = create("button", "card", image);
  card.title = item.id;
  card.dataset.id = item.id;
  const probability = item.probability ?? null;
  if (probability !== null) {
    card.append(create("b", "", `${Math.round(100 * probability)} %`));
    card.classList.toggle("unlikely", unlikely);
  }
  if (item.copies?.length) {
    card.append(create("i", "", `${item.copies.length + 1} copies`));
    card.title = [item.id, ...item.copies].join("\n");
  }
  if (item.element) showOverlayOnHover(card, image, overlayUrl(item.id, item.element));
  card.addEventListener("click", open);
  return card;
}

function createImage(item) {
  const image = new Image();
  image.loading = "lazy";
  image.alt = item.metadata?.name ?? basename(item.id);
  image.addEventListener("error", async () => {
    const name = create("span", "missing", image.alt);
    image.replaceWith(name);
    name.append(create("small", "", await problemOf(image.src)));
  });
  image.src = imageUrl(item.id, 256);
  return image;
}

// Hovering and keyboard focus show the overlay; a tap opens the viewer instead.
function showOverlayOnHover(card, image, url) {
  const overlay = createOverlay(url);
  let timer = 0;
  const leave = () => { clearTimeout(timer); overlay.image.remove(); };
  const enter = () => {
    leave();
    timer = setTimeout(async () => {
      const started = timer;
      const loaded = await overlay.load();
      if (loaded && timer === started && card.matches(":hover, :focus-visible"))
        image.after(overlay.image);
    }, DELAY);
  };
  onHover(card, enter, leave);
}

// An overlay enters the page only when it is loaded, so that no broken image is shown.
function createOverlay(url) {
  const image = new Image();
  image.className = "overlay";
  image.alt = "";
  const load = () => {
    if (!image.naturalWidth) image.src = url; // retries after a failure
    return image.decode().then(() => true, () => false);
  };
  return { image, load };
}

// A small image with the overlay of one element, decorating a heading.
export function createIcon(id, element) {
  const urls = [imageUrl(id, 256), element && overlayUrl(id, element)].filter(Boolean);
  return create("span", "icon", ...urls.map(createDecoration));
}

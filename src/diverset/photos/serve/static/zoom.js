// Zooming into the frame of the viewer: wheel, double click, keys, and dragging to move.
const [MAX_SCALE, STEP, CLOSE_UP] = [8, 1.5, 2.5];
const DRAG = 4; // pixels from which a press is a drag and not a click
let stage = null;
let frame = null;
let onZoom = () => {};
let [scale, x, y] = [1, 0, 0]; // of the frame, moved from the centre of the stage
let dragged = false;

export const isZoomed = () => scale > 1;
export const wasDragged = () => dragged;
export const resetZoom = () => zoomTo(1);
export const toggleZoom = () => zoomTo(isZoomed() ? 1 : CLOSE_UP);

// `newOnZoom` is called whenever the scale has changed.
export function setUpZoom(newStage, newFrame, newOnZoom) {
  [stage, frame, onZoom] = [newStage, newFrame, newOnZoom];
  stage.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoomTo(scale * Math.exp(-event.deltaY / 300), event.clientX, event.clientY);
  }, { passive: false });
  stage.addEventListener("dblclick", ({ target, clientX, clientY }) => {
    if (isZoomed()) zoomTo(1);
    else if (frame.contains(target)) zoomTo(CLOSE_UP, clientX, clientY);
  });
  setUpDragging();
}

export function handleZoomKey(key) {
  const target = { "+": scale * STEP, "=": scale * STEP, "-": scale / STEP, 0: 1 }[key];
  if (target) zoomTo(target);
  return Boolean(target);
}

// The point under the pointer stays where it is; by default the centre of the stage.
function zoomTo(newScale, clientX, clientY) {
  const limited = Math.min(MAX_SCALE, Math.max(1, newScale));
  const box = stage.getBoundingClientRect();
  const fromX = clientX === undefined ? 0 : clientX - box.x - box.width / 2;
  const fromY = clientY === undefined ? 0 : clientY - box.y - box.height / 2;
  x = fromX - (fromX - x) * (limited / scale);
  y = fromY - (fromY - y) * (limited / scale);
  scale = limited;
  move();
  onZoom(isZoomed());
}

// Not beyond the edges of the image.
function move() {
  const limit = (size, room) => Math.max(0, (scale * size - room) / 2);
  const [maxX, maxY] = [
    limit(frame.offsetWidth, stage.clientWidth), limit(frame.offsetHeight, stage.clientHeight)];
  x = Math.min(maxX, Math.max(-maxX, x));
  y = Math.min(maxY, Math.max(-maxY, y));
  frame.style.transform = isZoomed() ? `translate(${x}px, ${y}px) scale(${scale})` : "";
  stage.classList.toggle("zoomed", isZoomed());
}

function setUpDragging() {
  let last = null;
  stage.addEventListener("pointerdown", (event) => {
    dragged = false;
    if (!isZoomed() || event.button) return;
    last = { x: event.clientX, y: event.clientY, distance: 0 };
    stage.setPointerCapture(event.pointerId);
  });
  stage.addEventListener("pointermove", (event) => {
    if (!last) return;
    const [byX, byY] = [event.clientX - last.x, event.clientY - last.y];
    const distance = last.distance + Math.abs(byX) + Math.abs(byY);
    last = { x: event.clientX, y: event.clientY, distance };
    dragged ||= distance > DRAG;
    x += byX;
    y += byY;
    move();
  });
  for (const end of ["pointerup", "pointercancel"])
    stage.addEventListener(end, () => { last = null; });
}

// The size of the library and the progress of indexing, polled.
import { byId, create, formatNumber } from "./dom.js";
import { request } from "./server.js";

const [BUSY, IDLE, LOST] = [2000, 15000, 5000]; // milliseconds until the next request

// `update` is called with every status.
export async function pollStatus(update) {
  let delay = LOST;
  try {
    const status = await request("/status");
    byId("status").replaceChildren(...describe(status));
    delay = status.indexing || !status.images ? BUSY : IDLE;
    await update(status);
  } catch (error) {
    byId("status").textContent = error.message;
  }
  setTimeout(pollStatus, delay, update);
}

function describe({ images, skipped, indexing }) {
  if (!indexing) return [`${formatNumber(images)} photos` + (skipped ? `, ${formatNumber(skipped)} skipped` : "")];
  const bar = create("progress");
  bar.max = indexing.total;
  bar.value = indexing.done;
  bar.setAttribute("aria-label", "indexing");
  const rate = `${indexing.rate.toFixed(1)} per second`;
  return [`indexing: ${formatNumber(indexing.done)} of ${formatNumber(indexing.total)}, ${rate}${remaining(indexing)} `, bar];
}

function remaining({ done, total, rate }) {
  if (!(rate > 0) || done >= total) return "";
  const seconds = (total - done) / rate;
  const [value, unit] = seconds < 90
    ? [seconds, "s"] : seconds < 5400 ? [seconds / 60, "min"] : [seconds / 3600, "h"];
  return `, about ${Math.ceil(value)} ${unit} left`;
}

// What the library holds and how far indexing is, asked again and again.
import { at, made } from "./dom.js";
import { fetched } from "./server.js";

const [BUSY, IDLE, LOST] = [2000, 15000, 5000]; // milliseconds until the next look

// `seen` is called with every answer.
export async function watch(seen) {
  let pause = LOST;
  try {
    const now = await fetched("/status");
    at("status").replaceChildren(...said(now));
    pause = now.indexing || !now.pictures ? BUSY : IDLE;
    await seen(now);
  } catch (error) {
    at("status").textContent = error.message;
  }
  setTimeout(watch, pause, seen);
}

function said({ pictures, skipped, indexing: job }) {
  if (!job) return [`${pictures} pictures` + (skipped ? `, ${skipped} skipped` : "")];
  const bar = made("progress");
  bar.max = job.total;
  bar.value = job.done;
  bar.setAttribute("aria-label", "indexing");
  const rate = `${job.rate.toFixed(1)} a second`;
  return [`indexing: ${job.done} of ${job.total}, ${rate}${left(job)} `, bar];
}

function left({ done, total, rate }) {
  if (!(rate > 0) || done >= total) return "";
  const seconds = (total - done) / rate;
  const [many, unit] = seconds < 90
    ? [seconds, "s"] : seconds < 5400 ? [seconds / 60, "min"] : [seconds / 3600, "h"];
  return `, about ${Math.ceil(many)} ${unit} left`;
}

// @ts-check
/** Numbers, sizes and times as texts. */

const whole = new Intl.NumberFormat("en");
const TOKENS = /"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+/g; // of JSON
const BYTES = ["B", "kB", "MB", "GB", "TB", "PB"];
const LAST_DATE_MS = 8.64e15; // of JavaScript
const DATE = new Intl.DateTimeFormat("sv", { dateStyle: "short", timeStyle: "medium" });

/** 12,345. A dash when it is not known. @param {number | null | undefined} value */
export const count = (value) => (known(value) ? whole.format(value) : "–");

/** 12.3 k, for places without room. @param {number | null | undefined} value */
export function short(value) {
  if (!known(value)) return "–";
  const steps = [" k", " M", " G", " T"];
  if (Math.abs(value) < 10000) return whole.format(Math.round(value * 10) / 10);
  let step = 0;
  for (value /= 1000; Math.abs(value) >= 1000 && step < steps.length - 1; step++) value /= 1000;
  return digits(value) + steps[step];
}

/** 1.2 MB, in powers of ten. @param {number | null | undefined} value */
export function bytes(value) {
  if (!known(value)) return "–";
  let step = 0;
  while (Math.abs(value) >= 1000 && step < BYTES.length - 1) {
    value /= 1000;
    step += 1;
  }
  return `${step ? digits(value) : Math.round(value)} ${BYTES[step]}`;
}

/** 3 ms, 1.2 s, 4 min, 3 h, 2 d. @param {number | null | undefined} ms */
export function duration(ms) {
  if (!known(ms)) return "–";
  if (ms < 1) return `${digits(ms)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 90e3) return `${digits(ms / 1000)} s`;
  if (ms < 5400e3) return `${Math.round(ms / 60e3)} min`;
  if (ms < 48 * 3600e3) return `${Math.round(ms / 3600e3)} h`;
  return `${Math.round(ms / 86400e3)} d`;
}

/**
 * 2026-11-28 01:20:03, in the browser's zone; far out, where no date is, the number itself.
 * @param {number | null | undefined} ms since 1970
 */
export const time = (ms) =>
  !known(ms) ? "–" : Math.abs(ms) > LAST_DATE_MS ? `${ms} ms` : DATE.format(ms);

/** @param {number} value between 0 and 1 */
export const percent = (value) => `${Math.round(value * 100)} %`;

/** "1 topic", "3 topics". @param {number} value @param {string} one @param {string} [many] */
export const counted = (value, one, many = `${one}s`) =>
  `${count(value)} ${value === 1 ? one : many}`;

/**
 * Return a text of JSON with line ends and indents, or as it is where JavaScript would change it:
 * round or rewrite numbers, reorder names, or leave out one of two. Raise SyntaxError.
 * @param {string} text
 */
export function indented(text) {
  const found = JSON.stringify(JSON.parse(text), null, 2);
  return tokens(found) === tokens(text) ? found : text;
}

/** @param {string} text of JSON */
const tokens = (text) => (text.match(TOKENS) ?? []).join(" ");

/** @param {number} value */
const digits = (value) => (value >= 100 ? value.toFixed(0) : value.toFixed(1));

/** @param {unknown} value @returns {value is number} */
const known = (value) => typeof value === "number" && Number.isFinite(value);

// @ts-check
/** The base of pages: live data by key, failures shown in place. */
import { watch } from "./api.js";
import { Element } from "./element.js";
import { html } from "./render.js";

/**
 * A page. The shell sets `params` and `query` from its address before it comes into the page, and
 * calls `changed()`
 * when they change while it stays.
 *
 *   class TopicsView extends View {
 *     changed() { this.watch("/api/topics", {search: this.query.search}, "topics"); }
 *     template() { return this.shown("topics", (data) => html`...`); }
 *   }
 */
export class View extends Element {
  /** @type {Record<string, string>} of the path: {topic} */
  params = {};
  /** @type {Record<string, string>} of the address, after ? */
  query = {};
  /** @type {Record<string, any>} the latest data by key */
  data = {};
  /** @type {Record<string, import("./api.js").ApiFailure>} the latest failure by key; it goes when data come again */
  failures = {};

  /** @type {Map<string, {target: string, stop: () => void}>} */
  #watches = new Map();

  connected() {
    this.changed();
  }

  /** Called when the page opens, and when `params` or `query` have changed: begin or change the watches here. */
  changed() {}

  /**
   * Keep `this.data[key]` live while the page is open. The same key with another path or query
   * replaces the old one;
   * with the same it does nothing.
   * @param {string} path
   * @param {import("./api.js").Query} query
   * @param {string} key
   * @param {(data: any) => void} [onData] called before the page is rendered
   */
  watch(path, query, key, onData = () => {}) {
    const target = JSON.stringify([path, query]);
    const before = this.#watches.get(key);
    if (before?.target === target) return;
    before?.stop();
    // data of another path is of another thing; of another query it is shown until the new data
    // come
    if (before && JSON.parse(before.target)[0] !== path) delete this.data[key];
    const stop = watch(
      path,
      query,
      (data) => {
        this.data[key] = data;
        delete this.failures[key];
        onData(data);
        this.update();
      },
      (failure) => {
        this.failures[key] = failure;
        this.update();
      },
    );
    this.#watches.set(key, { target, stop });
  }

  /** @param {string} key */
  unwatch(key) {
    this.#watches.get(key)?.stop();
    this.#watches.delete(key);
  }

  disconnected() {
    for (const { stop } of this.#watches.values()) stop();
    this.#watches.clear();
  }

  /**
   * Show live data, or that they are on their way, or why they are not there. With data and a
   * failure both are shown.
   * @param {string} key
   * @param {(data: any) => unknown} template
   */
  shown(key, template) {
    const failure = this.failures[key];
    const data = this.data[key];
    if (data === undefined) return failure ? problem(failure) : waiting();
    return html`${failure ? stale(failure) : null}${missing(data.missing)}${template(data)}`;
  }
}

export const waiting = () =>
  html`<div class="waiting" role="status"><span class="visually-hidden">Loading</span></div>`;

/** @param {import("./api.js").ApiFailure} failure */
export const problem = (failure) => html`
  <div class="problem" role="alert">
    <strong>${TITLES[failure.status] ?? "That did not work"}</strong>
    <p>${failure.message}</p>
  </div>
`;

/** @type {Record<number, string>} */
const TITLES = {
  0: "No answer",
  400: "The request was not understood",
  403: "You may not see this",
  404: "Not found",
  409: "That is not possible now",
  503: "The cluster does not answer",
};

/** @param {import("./api.js").ApiFailure} failure */
const stale = (failure) => html`
  <p class="notice warn" role="status">
    ${sentence(failure.message)} You see what was last known.
  </p>
`;

/** @param {string} message of the API, which has neither a capital letter nor a full stop */
const sentence = (message) =>
  `${message.slice(0, 1).toUpperCase()}${message.slice(1)}${/[.!?]$/.test(message) ? "" : "."}`;

/** @param {Record<string, string> | undefined} nodes reasons by name */
const missing = (nodes) => {
  const names = Object.keys(nodes ?? {});
  if (!names.length) return null;
  return html`
    <p class="notice warn" role="status">
      ${names.map((name) => html`<span>${/^\d+$/.test(name) ? `Node ${name}` : name}: ${nodes?.[name]} </span>`)}
    </p>
  `;
};

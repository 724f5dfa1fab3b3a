// @ts-check
/** Addresses of pages, in the part after #, so that each view has a link: #/topics/orders?tab=records. */

/**
 * @typedef {object} Route
 * @property {string} path as "/topics/:topic"
 * @property {string} title as "Topic {topic}"
 * @property {string} tag the custom element that shows it
 * @property {() => Promise<unknown>} load imports the module that defines the element
 * @property {string} [nav] path of the entry of the navigation that it belongs to
 */

/** @typedef {{route: Route | null, path: string, params: Record<string, string>, query: Record<string, string>}} Place */

/** @type {Route[]} */
const routes = [];
/** @type {Set<(place: Place) => void>} */
const listeners = new Set();

/** @param {Route[]} more */
export function register(...more) {
  routes.push(...more);
}

/** @returns {Place} */
export function current() {
  const [path, query] = (location.hash.slice(1) || "/").split("?", 2);
  const parts = path.split("/").filter(Boolean);
  for (const route of routes) {
    const params = match(route.path.split("/").filter(Boolean), parts);
    if (params)
      return { route, path, params, query: Object.fromEntries(new URLSearchParams(query)) };
  }
  return { route: null, path, params: {}, query: {} };
}

/**
 * @param {string[]} pattern
 * @param {string[]} parts
 */
function match(pattern, parts) {
  if (pattern.length !== parts.length) return null;
  /** @type {Record<string, string>} */
  const params = {};
  for (const [index, piece] of pattern.entries()) {
    if (piece[0] === ":") {
      try {
        params[piece.slice(1)] = decodeURIComponent(parts[index]);
      } catch {
        return null; // a % that encodes nothing: no address of ours
      }
    } else if (piece !== parts[index]) return null;
  }
  return params;
}

/**
 * The link to a page.
 * @param {string[]} parts of the path, not encoded: link(["topics", name], {tab: "records"})
 * @param {import("./api.js").Query} [query] null, undefined, false and "" are left out
 */
export function link(parts, query = {}) {
  const given = Object.entries(query).filter(
    ([, value]) => value !== null && value !== undefined && value !== false && value !== "",
  );
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return `#/${parts.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

/**
 * Go to a page.
 * @param {string[]} parts
 * @param {import("./api.js").Query} [query]
 */
export function go(parts, query = {}) {
  location.hash = link(parts, query);
}

/**
 * Change the query of this page, without an entry in the browser's history. The view sees it in
 * `changed()`.
 * @param {import("./api.js").Query} patch
 */
export function refine(patch) {
  const { path, query } = current();
  const parts = path.split("/").filter(Boolean).map(decodeURIComponent);
  history.replaceState(null, "", link(parts, { ...query, ...patch }));
  tell();
}

/**
 * @param {(place: Place) => void} listener called with each new place
 * @returns {() => void} ends it
 */
export function onPlace(listener) {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

const tell = () => {
  const place = current();
  for (const listener of [...listeners]) listener(place);
};
window.addEventListener("hashchange", tell);

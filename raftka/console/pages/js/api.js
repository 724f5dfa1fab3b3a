// @ts-check
/** The JSON API: single requests, data that stays live, and streams of events. */

/** @typedef {Record<string, string | number | boolean | null | undefined>} Query */

const RETRY_MS = [500, 1000, 2000, 5000, 10000];
const SILENCE_MS = 90000; // the server sends something at least each minute

export class ApiFailure extends Error {
  /**
   * @param {number} status of HTTP; 0 when no answer came
   * @param {string} code
   * @param {string} message
   */
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/**
 * @param {string} path with encoded parts, as in `/api/topics/${encodeURIComponent(name)}`
 * @param {Query} [query] null, undefined, false and "" are left out
 */
export function address(path, query = {}) {
  const given = Object.entries(query).filter(
    ([, value]) => value !== null && value !== undefined && value !== false && value !== "",
  );
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return text ? `${path}?${text}` : path;
}

export const api = {
  /** @param {string} path @param {Query} [query] @returns {Promise<any>} */
  get: (path, query) => ask("GET", address(path, query)),
  /** @param {string} path @param {unknown} [body] @returns {Promise<any>} */
  post: (path, body) => ask("POST", path, body),
  /** @param {string} path @param {unknown} [body] @returns {Promise<any>} */
  put: (path, body = {}) => ask("PUT", path, body),
  /** @param {string} path @param {unknown} [body] @returns {Promise<any>} */
  delete: (path, body) => ask("DELETE", path, body),
};

/**
 * @param {string} method
 * @param {string} target
 * @param {unknown} [body]
 */
async function ask(method, target, body) {
  const response = await send(target, {
    method,
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  return response.status === 204 ? null : response.json();
}

/**
 * @param {string} target
 * @param {RequestInit} options
 * @param {string} accept
 */
async function send(target, options, accept = "application/json") {
  /** @type {Record<string, string>} */
  const headers = { Accept: accept };
  if (options.method && options.method !== "GET") headers["X-Raftka-Console"] = "1";
  if (options.body) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(target, { ...options, headers, cache: "no-store" });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ApiFailure(0, "no_answer", "The console does not answer.");
  }
  if (response.ok) return response;
  const answer = await response.json().catch(() => ({}));
  throw failureOf({ ...answer, status: response.status });
}

/**
 * The failure of an answer, or of the event `failure` of a stream.
 * @param {{status: number, error?: string, message?: string}} answer
 */
function failureOf({ status, error, message }) {
  if (status === 401) window.dispatchEvent(new Event("login-needed"));
  return new ApiFailure(status, error ?? "failed", message ?? `The console answered ${status}.`);
}

/**
 * Keep the data of a GET route live. Pauses while the page is hidden, and comes back by itself
 * after failures.
 * @param {string} path
 * @param {Query} query `every`: seconds between two looks of the server, 2 by default
 * @param {(data: any) => void} onData with the first answer and with each that differs from the
 *   last
 * @param {(failure: ApiFailure) => void} [onError]
 * @returns {() => void} ends it
 */
export function watch(path, query, onData, onError = () => {}) {
  /** @type {AbortController | null} */
  let running = null;
  let timer = 0;
  let failures = 0;

  const begin = () => {
    if (document.hidden || running) return;
    const mine = (running = new AbortController());
    follow(address(path, query), { signal: mine.signal }, (name, data) => {
      failures = 0;
      if (name === "failure") onError(failureOf(data));
      else onData(data);
    })
      .catch((failure) => {
        if (mine.signal.aborted) return;
        onError(asFailure(failure));
        // a refusal stays one: no permission, no such topic
        return failure.status >= 400 && failure.status < 500;
      })
      .then((isFinal) => {
        if (mine.signal.aborted) return;
        running = null;
        if (isFinal) return;
        const wait = RETRY_MS[Math.min(failures++, RETRY_MS.length - 1)];
        timer = window.setTimeout(begin, wait);
      });
  };
  const pause = () => {
    window.clearTimeout(timer);
    running?.abort();
    running = null;
  };
  const onVisibility = () => (document.hidden ? pause() : begin());
  document.addEventListener("visibilitychange", onVisibility);
  begin();
  return () => {
    document.removeEventListener("visibilitychange", onVisibility);
    pause();
  };
}

/**
 * Read a stream of events once: a search, an export, the progress of a change.
 * @param {string} path
 * @param {Query} query
 * @param {Record<string, (data: any) => void>} on by the event's name; `error` gets an ApiFailure,
 *   `end` comes last
 * @param {unknown} [body] makes it a POST
 * @returns {() => void} ends it, and the work of the server too
 */
export function stream(path, query, on, body) {
  const control = new AbortController();
  const options =
    body === undefined
      ? { signal: control.signal }
      : { signal: control.signal, method: "POST", body: JSON.stringify(body) };
  follow(address(path, query), options, (name, data) => {
    if (control.signal.aborted) return;
    if (name === "failure") on.failure?.(failureOf(data));
    else on[name]?.(data);
  })
    .catch((failure) => control.signal.aborted || on.failure?.(asFailure(failure)))
    .then(() => control.signal.aborted || on.end?.(null));
  return () => control.abort();
}

/** @param {unknown} failure */
const asFailure = (failure) =>
  failure instanceof ApiFailure
    ? failure
    : new ApiFailure(0, "no_answer", "The connection to the console broke.");

/**
 * @param {string} target
 * @param {RequestInit} options
 * @param {(name: string, data: any) => void} onEvent
 */
async function follow(target, options, onEvent) {
  const response = await send(target, options, "text/event-stream");
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const { value, done } = await inTime(reader);
    if (done) return;
    text += decoder.decode(value, { stream: true });
    const blocks = text.split("\n\n");
    text = /** @type {string} */ (blocks.pop());
    for (const block of blocks) {
      let name = "message";
      let data = "";
      for (const line of block.split("\n")) {
        if (line.startsWith("event:")) name = line.slice(6).trim();
        else if (line.startsWith("data:")) data += line.slice(5);
      }
      if (data) onEvent(name, JSON.parse(data));
    }
  }
}

/** @param {ReadableStreamDefaultReader<Uint8Array>} reader */
async function inTime(reader) {
  let timer = 0;
  const late = new Promise((_, reject) => {
    timer = window.setTimeout(
      () => reject(new ApiFailure(0, "silent", "The console has gone silent.")),
      SILENCE_MS,
    );
  });
  try {
    return await Promise.race([reader.read(), /** @type {Promise<never>} */ (late)]);
  } catch (failure) {
    reader.cancel().catch(() => {});
    throw failure;
  } finally {
    window.clearTimeout(timer);
  }
}

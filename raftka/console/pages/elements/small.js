// @ts-check
/** Small elements of many pages: copy button, dots, times, sizes, tabs, search, spark lines. */
import { bytes, duration, time } from "../js/format.js";
import { Element } from "../js/element.js";
import { html, svg } from "../js/render.js";

/** <copy-button .text=${...}>: copies the text, and says so. */
class CopyButton extends Element {
  static properties = { text: "", label: "Copy" };

  template() {
    const { label } = this.props;
    return html`<button type="button" class="quiet small copy" @click=${() => this.copy()}>
      ${this.state.done ? "Copied" : label}
    </button>`;
  }

  async copy() {
    const { text } = this.props;
    if (navigator.clipboard) await navigator.clipboard.writeText(text);
    else copyOldWay(text); // the clipboard's API is there for https and localhost only
    this.update({ done: true });
    window.setTimeout(() => this.update({ done: false }), 1500);
  }
}

/** @param {string} text */
function copyOldWay(text) {
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "visually-hidden";
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

/** <command-line .command=${"raftka topics delete orders"}>: the command that does what the page does. */
class CommandLine extends Element {
  static properties = { command: "" };

  template() {
    const { command } = this.props;
    return html`<code tabindex="0" role="group" aria-label="Command"
        ><span aria-hidden="true">$ </span>${command}</code
      ><copy-button .text=${command}></copy-button>`;
  }
}

/** <status-dot kind="good | warn | bad | idle" .text=${...}>: a colour, and always its word. */
class StatusDot extends Element {
  static properties = { kind: "idle", text: "" };

  template() {
    const { kind, text } = this.props;
    return html`<i class="dot ${kind}" aria-hidden="true"></i>${text}`;
  }
}

const AHEAD_MS = 60e3; // clocks of machines differ

/** <time-ago .ms=${since 1970}>: "3 min ago", the exact time as a hint; goes on by itself. */
class TimeAgo extends Element {
  static properties = { ms: null };

  #timer = 0;

  connected() {
    this.#timer = window.setInterval(() => this.update(), 10000);
  }

  disconnected() {
    window.clearInterval(this.#timer);
  }

  template() {
    const { ms } = this.props;
    if (typeof ms !== "number" || ms < 0) return "–";
    const age = Date.now() - ms;
    if (age < -AHEAD_MS) return time(ms); // clients set times as they like
    return html`<time datetime=${new Date(ms).toISOString()} title=${time(ms)}
      >${age < 1500 ? "now" : `${duration(age)} ago`}</time
    >`;
  }
}

/** <byte-size .bytes=${n}>: 1.2 MB, the exact number as a hint. */
class ByteSize extends Element {
  static properties = { bytes: null };

  template() {
    const { bytes: value } = this.props;
    return html`<span title=${typeof value === "number" ? `${value} bytes` : null}
      >${bytes(value)}</span
    >`;
  }
}

/**
 * <tab-bar .tabs=${[{id, title, count?}]} .current=${id} @tab=${(e) => refine({tab: e.detail})}>,
 * with the keys of tabs.
 * The page shows the panel: <section role="tabpanel" aria-labelledby=${`tab-${id}`}>.
 */
class TabBar extends Element {
  static properties = { tabs: [], current: "", label: "Parts of this page" };

  template() {
    const { tabs, current, label } = this.props;
    return html`
      <div
        role="tablist"
        aria-label=${label}
        @keydown=${(/** @type {KeyboardEvent} */ e) => this.move(e)}
      >
        ${tabs.map(
          (/** @type {any} */ tab) =>
            html`<button
              role="tab"
              id=${`tab-${tab.id}`}
              aria-selected=${String(tab.id === current)}
              tabindex=${tab.id === current ? "0" : "-1"}
              @click=${() => this.emit("tab", tab.id)}
            >
              ${tab.title}${tab.count === undefined ? null : html`<span class="count">${tab.count}</span>`}
            </button>`,
        )}
      </div>
    `;
  }

  /** @param {KeyboardEvent} event */
  move(event) {
    const { tabs, current } = this.props;
    const at = tabs.findIndex((/** @type {any} */ tab) => tab.id === current);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const { id } = tabs[(to + tabs.length) % tabs.length];
    this.emit("tab", id);
    /** @type {HTMLElement | null} */ (this.querySelector(`#tab-${CSS.escape(id)}`))?.focus();
  }
}

/** <search-box .value=${...} label="Find a topic" @find=${(e) => refine({search: e.detail, page: null})}>, while the user types. */
class SearchBox extends Element {
  static properties = { value: "", label: "Search", placeholder: "" };

  #timer = 0;

  template() {
    const { value, label, placeholder } = this.props;
    return html`<input
      type="search"
      aria-label=${label}
      placeholder=${placeholder || label}
      autocomplete="off"
      spellcheck="false"
      .value=${this.state.typed ?? value}
      @input=${(/** @type {Event} */ e) => this.typed(e)}
    />`;
  }

  /** @param {Event} event */
  typed(event) {
    event.stopPropagation();
    this.state.typed = /** @type {HTMLInputElement} */ (event.target).value;
    window.clearTimeout(this.#timer);
    this.#timer = window.setTimeout(() => this.emit("find", this.state.typed), 150);
  }
}

/** <spark-line .values=${[1, 2, 3]} label="Records a second">: a small curve; null leaves a gap. */
class SparkLine extends Element {
  static properties = { values: [], label: "", width: 120, height: 28 };

  template() {
    const { values, label, width, height } = this.props;
    const known = values.filter((/** @type {any} */ v) => v !== null && v !== undefined);
    const top = Math.max(...known, 1e-9);
    const step = width / Math.max(values.length - 1, 1);
    let line = "";
    let pen = "M";
    values.forEach((/** @type {number | null} */ v, /** @type {number} */ at) => {
      if (v === null || v === undefined) pen = "M";
      else {
        line += `${pen}${(at * step).toFixed(1)} ${(height - 2 - (v / top) * (height - 4)).toFixed(1)}`;
        pen = "L";
      }
    });
    const isWhole = known.length === values.length && known.length > 1; // one value has no width
    const area = isWhole ? `${line}L${width} ${height}L0 ${height}Z` : "";
    return html`<svg
      role="img"
      aria-label=${label}
      viewBox=${`0 0 ${width} ${height}`}
      preserveAspectRatio="none"
    >
      ${svg`<path class="area" d=${area}></path><path class="line" d=${line}></path>`}
    </svg>`;
  }
}

/** <json-tree .value=${...}>: a JSON value that opens and closes; .masked fields are shown as told by the server. */
class JsonTree extends Element {
  static properties = { value: null, depth: 2 };

  template() {
    const { value, depth } = this.props;
    return html`<div class="json">${branch(value, null, depth)}</div>`;
  }
}

const MOST_CHILDREN = 200;

/** A number as a record has it: JavaScript would round it, or write it in another way. */
export class WrittenNumber {
  /** @param {string} text */
  constructor(text) {
    this.text = text;
  }
}

/**
 * @param {any} value
 * @param {string | null} name
 * @param {number} depth levels that are open at first
 * @returns {unknown}
 */
function branch(value, name, depth) {
  const label = name === null ? null : html`<span class="json-name">${name}</span>: `;
  if (value instanceof WrittenNumber) {
    return html`<div>${label}<span class="json-number">${value.text}</span></div>`;
  }
  if (value === null || typeof value !== "object") {
    return html`<div>
      ${label}<span class="json-${value === null ? "null" : typeof value}"
        >${JSON.stringify(value) ?? "–"}</span
      >
    </div>`;
  }
  const entries = Object.entries(value);
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  if (!entries.length) return html`<div>${label}${open}${close}</div>`;
  const shown = entries.slice(0, MOST_CHILDREN);
  return html`
    <details ?open=${depth > 0}>
      <summary>${label}${open}<span class="muted"> ${entries.length} </span>${close}</summary>
      ${shown.map(([key, item]) => branch(item, key, depth - 1))}
      ${entries.length > shown.length ? html`<div class="muted">and ${entries.length - shown.length} more</div>` : null}
    </details>
  `;
}

CopyButton.define("copy-button");
CommandLine.define("command-line");
StatusDot.define("status-dot");
TimeAgo.define("time-ago");
ByteSize.define("byte-size");
TabBar.define("tab-bar");
SearchBox.define("search-box");
SparkLine.define("spark-line");
JsonTree.define("json-tree");

// @ts-check
/** One topic of dead letters: counts by failure, the letters, and their redrives. */
import { api, stream } from "../js/api.js";
import { count, counted, percent, time } from "../js/format.js";
import { me } from "../js/me.js";
import { each, html } from "../js/render.js";
import { link, refine } from "../js/router.js";
import { View, problem, waiting } from "../js/view.js";
import { askForRedrive } from "./redrive_dialog.js";
import "../elements/data_table.js";
import "../elements/small.js";
import "./letter_detail.js";

const SIZE = 50;

class DeadLetterView extends View {
  /** @type {Record<string, any>} */
  state = {
    summary: null,
    is_counting: false,
    rows: null,
    next: null,
    busy: false,
    failure: null,
    open: null,
    chosen: new Set(),
  };

  #stop = () => {};
  #asked = "";

  get path() {
    return `/api/dead-letters/topics/${encodeURIComponent(this.params.topic)}`;
  }

  /** The filter of the address, as the API has it. */
  get filter() {
    const { kind, origin, unknown_origin, search } = this.query;
    return { kind, origin, unknown_origin: unknown_origin === "true", search };
  }

  changed() {
    this.watch("/api/dead-letters/redrives", { topic: this.params.topic }, "redrives", (data) =>
      this.onRedrives(data.redrives),
    );
    const asked = JSON.stringify([this.path, this.filter]);
    if (asked === this.#asked) return;
    if (JSON.parse(this.#asked || "[]")[0] !== this.path) this.count();
    this.#asked = asked;
    this.begin();
  }

  disconnected() {
    super.disconnected();
    this.#stop();
  }

  /** Count all letters of the topic. */
  count() {
    this.#stop();
    this.update({ is_counting: true });
    this.#stop = stream(
      `${this.path}/summary`,
      {},
      {
        summary: (summary) => this.update({ summary }),
        failure: (failure) => this.update({ failure, is_counting: false }),
      },
    );
  }

  begin() {
    this.update({ rows: null, next: "", open: null, chosen: new Set(), failure: null });
    this.more();
  }

  /** Read on, until there is a letter more: a filter may pass over many. */
  async more() {
    const asked = this.#asked;
    const { path, filter } = this;
    this.update({ busy: true });
    try {
      let found = { letters: [], next: this.state.next };
      do {
        found = await api.get(`${path}/letters`, { ...filter, before: found.next, size: SIZE });
        if (asked !== this.#asked || !this.isConnected) return;
      } while (!found.letters.length && found.next !== null);
      this.update({ rows: [...(this.state.rows ?? []), ...found.letters], next: found.next });
    } catch (failure) {
      if (asked === this.#asked) this.update({ failure });
    } finally {
      if (asked === this.#asked) this.update({ busy: false });
    }
  }

  /** @param {any[]} redrives */
  onRedrives(redrives) {
    const ended = redrives.filter(({ state }) => state !== "running").map(({ id }) => id);
    const before = this.state.ended;
    this.state.ended = ended;
    // what was sent is marked in the list
    if (before && ended.some((id) => !before.includes(id))) this.begin();
  }

  template() {
    const { summary, failure } = this.state;
    const name = this.params.topic;
    return html`
      <p class="crumbs"><a href="#/dead-letters">Dead letters</a></p>
      <div class="head">
        <h1>${name}</h1>
        <a href=${link(["topics", name])}>Topic</a>
        ${this.buttons()}
      </div>
      ${failure ? problem(failure) : null} ${this.redrives()}
      ${failure && !summary ? null : summary ? this.summary(summary) : waiting()}
      <div class="tools letters-tools">
        <search-box
          .value=${this.query.search ?? ""}
          label="Find in keys, values and failures"
          @find=${(/** @type {CustomEvent} */ e) => refine({ search: e.detail })}
        ></search-box>
        ${this.badges()}
      </div>
      ${this.letters()}
    `;
  }

  buttons() {
    if (me.read_only) return null;
    const { chosen, summary } = this.state;
    const { kind, origin, unknown_origin, search } = this.filter;
    const isFiltered = Boolean(kind || origin || unknown_origin || search);
    const [text, order] = chosen.size
      ? [
          `Send ${count(chosen.size)} again`,
          { offsets: [...chosen].map((key) => String(key).split("@").map(Number)) },
        ]
      : [
          isFiltered ? "Send these again" : "Send all again",
          { kind, origin, unknown_origin, search },
        ];
    return html`<div class="buttons">
      <button
        class="primary"
        ?disabled=${!summary?.total}
        @click=${() => askForRedrive(this.params.topic, order)}
      >
        ${text}
      </button>
    </div>`;
  }

  badges() {
    const { kind, origin, unknown_origin } = this.query;
    const one = (/** @type {string} */ text, /** @type {any} */ off) =>
      html`<button
        class="small"
        @click=${() => refine(off)}
        aria-label=${`Leave the filter ${text}`}
      >
        ${text} <span aria-hidden="true">×</span>
      </button>`;
    return html`
      ${kind ? one(kind, { kind: null }) : null}
      ${origin ? one(`from ${origin}`, { origin: null }) : null}
      ${unknown_origin ? one("origin unknown", { unknown_origin: null }) : null}
    `;
  }

  /** @param {any} summary */
  summary({ counts, letters, done, total, is_whole }) {
    return html`<section class="card" aria-labelledby="kinds-title">
      <div class="card-head">
        <h2 id="kinds-title">By failure and origin</h2>
        <span class="muted" aria-live="polite"
          >${counted(letters, "letter")}${is_whole ? "" : `, ${percent(total ? done / total : 1)} read`}</span
        >
      </div>
      <data-table
        label="Letters by failure and origin"
        .columns=${this.kinds()}
        .rows=${counts}
        .key=${(/** @type {any} */ row) => `${row.kind}\n${row.origin}`}
        .local=${true}
        .sort=${"-letters"}
        .empty=${is_whole ? "The topic has no letters" : this.state.is_counting ? "Counting" : "The letters could not be counted"}
      ></data-table>
    </section>`;
  }

  kinds() {
    const most = Math.max(
      1,
      ...this.state.summary.counts.map((/** @type {any} */ row) => row.letters),
    );
    return [
      {
        key: "kind",
        title: "Failure",
        sort: true,
        wide: true,
        cell: (/** @type {any} */ row) =>
          html`<a
              href=${link(["dead-letters", this.params.topic], { kind: row.kind, origin: row.origin, unknown_origin: !row.origin })}
              >${row.kind}</a
            >${row.message && row.message !== row.kind ? html`<div class="muted brief">${row.message}</div>` : null}`,
      },
      {
        key: "origin",
        title: "From",
        sort: true,
        cell: (/** @type {any} */ row) =>
          row.origin
            ? html`<a href=${link(["topics", row.origin])}>${row.origin}</a>`
            : html`<span class="muted">unknown</span>`,
      },
      {
        key: "letters",
        title: "Letters",
        sort: true,
        descending: true,
        number: true,
        cell: (/** @type {any} */ row) =>
          html`<span class="share"
            ><span class="meter"><i style=${{ width: `${(row.letters / most) * 100}%` }}></i></span
            >${count(row.letters)}</span
          >`,
      },
      {
        key: "redriven",
        title: "Failed again",
        hint: "Letters of records that had been sent again before",
        sort: true,
        descending: true,
        number: true,
        cell: (/** @type {any} */ row) => count(row.redriven),
        desk: true,
      },
      {
        key: "last_ms",
        title: "Last",
        sort: true,
        descending: true,
        cell: (/** @type {any} */ row) => html`<time-ago .ms=${row.last_ms}></time-ago>`,
      },
    ];
  }

  letters() {
    const { rows, next, busy, open, chosen } = this.state;
    if (!rows) return busy ? waiting() : null;
    return html`
      <data-table
        label="Letters, the newest first"
        .columns=${this.columns()}
        .rows=${rows}
        .key=${keyOf}
        .selectable=${!me.read_only}
        .selected=${chosen}
        .empty=${next === null ? "No letter is so" : "Looking on"}
        .detail=${(/** @type {any} */ row) =>
          keyOf(row) === open
            ? html`<letter-detail .topic=${this.params.topic} .place=${row}></letter-detail>`
            : null}
        @select=${(/** @type {CustomEvent} */ e) => this.choose(e)}
      ></data-table>
      <div class="more" aria-live="polite">
        ${
          next === null
            ? html`<span class="muted">${rows.length ? "That is the oldest one." : ""}</span>`
            : html`<button ?disabled=${busy} @click=${() => this.more()}>
                ${busy ? "Reading" : "Older letters"}
              </button>`
        }
      </div>
    `;
  }

  /** @param {CustomEvent} event of the table; one of a text field that is selected comes here too */
  choose({ detail }) {
    if (detail instanceof Set) this.update({ chosen: detail });
  }

  columns() {
    return [
      {
        key: "offset",
        title: "Letter",
        cell: (/** @type {any} */ row) =>
          html`<button
              class="row-link open-record"
              aria-expanded=${String(keyOf(row) === this.state.open)}
              @click=${() => this.update({ open: keyOf(row) === this.state.open ? null : keyOf(row) })}
            >
              ${keyOf(row)}</button
            >${row.sent ? html` <span class="badge ${row.sent === "sent" ? "good" : "warn"}">${row.sent}</span>` : null}`,
      },
      {
        key: "timestamp",
        title: "Time",
        cell: (/** @type {any} */ row) => time(row.timestamp),
        desk: true,
      },
      {
        key: "kind",
        title: "Failure",
        wide: true,
        cell: (/** @type {any} */ row) =>
          html`<div>${row.kind}</div>
            ${row.error && row.message ? html`<div class="muted brief">${row.message}</div>` : null}`,
      },
      { key: "origin", title: "From", cell: (/** @type {any} */ row) => place(row.origin) },
      {
        key: "key",
        title: "Key",
        cell: (/** @type {any} */ row) =>
          html`<span class="mono brief">${shownText(row.key)}</span>`,
        desk: true,
      },
      {
        key: "value",
        title: "Value",
        cell: (/** @type {any} */ row) =>
          html`<span class="mono brief">${shownText(row.value)}</span>`,
        desk: true,
      },
    ];
  }

  redrives() {
    const redrives = this.data.redrives?.redrives ?? [];
    if (!redrives.length) return null;
    return html`<section class="card redrives" aria-labelledby="redrives-title">
      <h2 id="redrives-title">Redrives</h2>
      <ul class="body" aria-live="polite">
        ${each(
          redrives.slice(0, 5),
          (one) => one.id,
          (one) => redriveRow(one),
        )}
      </ul>
    </section>`;
  }
}

/** @param {any} row */
export const keyOf = (row) => `${row.partition}@${row.offset}`;

/** @param {any} value of the API: kind and text */
export const shownText = (value) =>
  value.text === null
    ? html`<span class="muted">null</span>`
    : `${value.text}${value.is_cut ? "…" : ""}`;

/** @param {any} origin */
export const place = (origin) =>
  origin
    ? `${origin.topic}${origin.partition === null ? "" : `-${origin.partition}`}${origin.offset === null ? "" : `@${origin.offset}`}`
    : html`<span class="muted">unknown</span>`;

/** @type {Record<string, string>} */
const STATES = { running: "accent", done: "good", stopped: "warn", failed: "bad" };

/** @param {any} one */
function redriveRow(one) {
  const part = one.total ? one.done / one.total : 1;
  return html`<li>
    <span class="badge ${STATES[one.state]}">${one.state}</span>
    <div>
      <p>${counted(one.sent, "letter")} sent${targets(one.by_target)}</p>
      ${one.in_doubt ? html`<p class="warn-text">${counted(one.in_doubt, "letter")} in doubt: the broker's answer was lost</p>` : null}
      ${reasons(one.refused)} ${one.error ? html`<p class="field-error">${one.error}</p>` : null}
      ${
        one.state === "running"
          ? html`<span
              class="meter"
              role="progressbar"
              aria-label="Progress of the redrive"
              aria-valuenow=${Math.round(part * 100)}
              ><i style=${{ width: `${part * 100}%` }}></i
            ></span>`
          : null
      }
    </div>
    <time class="muted">${time(one.began_ms)}</time>
    ${
      one.state === "running" && !me.read_only
        ? html`<button
            class="small"
            @click=${() => api.post(`/api/dead-letters/redrives/${one.id}/stop`)}
          >
            Stop
          </button>`
        : null
    }
  </li>`;
}

/** @param {Record<string, number>} counts */
const targets = (counts) => {
  const names = Object.keys(counts);
  return names.length
    ? ` to ${names.map((name) => `${name} (${count(counts[name])})`).join(", ")}`
    : "";
};

/** @param {Record<string, number>} refused counts by reason */
export const reasons = (refused) =>
  Object.entries(refused).map(
    ([reason, number]) => html`<p class="muted">${count(number)} not sent: ${reason}</p>`,
  );

DeadLetterView.define("dead-letter-view");

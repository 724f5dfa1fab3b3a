// @ts-check
/** Topics of dead letters: found by name, and on demand by settings and headers. */
import { stream } from "../js/api.js";
import { count, percent, short } from "../js/format.js";
import { me } from "../js/me.js";
import { html } from "../js/render.js";
import { link, refine } from "../js/router.js";
import { View, problem } from "../js/view.js";
import "../elements/data_table.js";
import "../elements/small.js";

const SIZE = 50;
const EVERY_S = 5;

class DeadLettersView extends View {
  /** @type {Record<string, any>} */
  state = { found: null, progress: null, failure: null };

  #stop = () => {};

  changed() {
    const { search, sort, page } = this.query;
    this.watch("/api/dead-letters", { search, sort, page, size: SIZE, every: EVERY_S }, "letters");
  }

  disconnected() {
    super.disconnected();
    this.#stop();
  }

  template() {
    return html`
      <div class="head">
        <h1>Dead letters</h1>
        ${me.shows_records ? this.button() : null}
      </div>
      <div class="tools">
        <search-box
          .value=${this.query.search ?? ""}
          label="Find a topic"
          @find=${(/** @type {CustomEvent} */ e) => refine({ search: e.detail, page: null })}
        ></search-box>
      </div>
      ${this.shown("letters", (data) => this.table(data))} ${this.found()}
    `;
  }

  button() {
    const { progress } = this.state;
    return html`<div class="buttons">
      <button ?disabled=${progress !== null} @click=${() => this.look()}>
        ${progress === null ? "Look into other topics" : `Looking, ${percent(progress)}`}
      </button>
    </div>`;
  }

  /** @param {any} data */
  table({ topics, total, patterns, pending }) {
    return html`<data-table
      label="Topics of dead letters"
      .columns=${COLUMNS}
      .rows=${topics}
      .href=${(/** @type {any} */ row) => link(["dead-letters", row.name])}
      .empty=${html`<p>No topic is named like a topic of dead letters.</p>
        <p class="patterns">
          ${patterns.map((/** @type {string} */ each) => html`<span class="badge">${each}</span> `)}
        </p>`}
      .sort=${this.query.sort ?? "-letters"}
      .page=${Number(this.query.page ?? 1)}
      .size=${SIZE}
      .total=${pending.length && !total ? null : total}
      @query=${(/** @type {CustomEvent} */ e) => refine(e.detail)}
    ></data-table>`;
  }

  found() {
    const { found, failure, progress } = this.state;
    if (failure) return problem(failure);
    if (!found) return null;
    return html`<section class="card found-letters" aria-labelledby="found-title">
      <h2 id="found-title">Found by settings and headers</h2>
      <data-table
        label="Topics found by settings and headers"
        .columns=${FOUND}
        .rows=${found}
        .key=${(/** @type {any} */ row) => row.name}
        .href=${(/** @type {any} */ row) => link(["dead-letters", row.name])}
        .empty=${progress === null ? "No other topic has dead letters" : "Nothing yet"}
      ></data-table>
    </section>`;
  }

  look() {
    /** @type {Map<string, any>} */
    const found = new Map();
    this.update({ found: [], progress: 0, failure: null });
    this.#stop = stream(
      "/api/dead-letters/find",
      {},
      {
        found: (each) => {
          found.set(each.name, each);
          this.update({ found: [...found.values()] });
        },
        progress: ({ done, total }) => this.update({ progress: total ? done / total : 1 }),
        failure: (failure) => this.update({ failure }),
        end: () => this.update({ progress: null }),
      },
    );
  }
}

const COLUMNS = [
  { key: "name", title: "Topic", sort: true, wide: true },
  {
    key: "letters",
    title: "Letters",
    hint: "Between the first and the last offset",
    sort: true,
    descending: true,
    number: true,
    cell: (/** @type {any} */ t) => count(t.letters),
  },
  {
    key: "rate",
    title: "Letters/s",
    sort: true,
    descending: true,
    number: true,
    cell: (/** @type {any} */ t) => short(t.rate),
  },
  {
    key: "size",
    title: "Size",
    sort: true,
    descending: true,
    number: true,
    cell: (/** @type {any} */ t) => html`<byte-size .bytes=${t.size}></byte-size>`,
    desk: true,
  },
  { key: "partitions", title: "Partitions", number: true, desk: true },
];

const FOUND = [
  { key: "name", title: "Topic" },
  { key: "why", title: "Why", wide: true },
];

DeadLettersView.define("dead-letters-view");

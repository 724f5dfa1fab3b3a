// @ts-check
/** Transactions: those that are open, the partitions that they hold back, and how to end them. */
import { confirmChange } from "../elements/confirm_dialog.js";
import { api } from "../js/api.js";
import { choice } from "../js/choice.js";
import { command } from "../js/command.js";
import { count, counted, duration, time } from "../js/format.js";
import { me } from "../js/me.js";
import { notice } from "../js/notice.js";
import { html } from "../js/render.js";
import { link, refine } from "../js/router.js";
import { View } from "../js/view.js";
import "../elements/data_table.js";
import "../elements/small.js";

const SIZE = 50;
const HELD_EVERY_S = 5;
const CHOICES = [
  ["open", "Open"],
  ["late", "Late"],
  ["all", "All ids"],
];

class TransactionsView extends View {
  changed() {
    const { search, state, sort, page } = this.query;
    this.watch("/api/transactions", { search, state, sort, page, size: SIZE }, "ids");
    this.watch("/api/transactions/held", { every: HELD_EVERY_S }, "held");
  }

  template() {
    return html`
      <div class="head"><h1>Transactions</h1></div>
      <div class="stack">
        ${this.shown("held", (data) => this.held(data))}
        <section aria-labelledby="ids-title">
          <div class="tools">
            <h2 id="ids-title">Transactional ids</h2>
            <search-box
              .value=${this.query.search ?? ""}
              label="Find an id"
              @find=${(/** @type {CustomEvent} */ e) => refine({ search: e.detail, page: null })}
            ></search-box>
            ${this.choices()}
          </div>
          ${this.shown("ids", (data) => this.ids(data))}
        </section>
      </div>
    `;
  }

  choices() {
    const states = this.data.ids?.states ?? {};
    const options = CHOICES.map(([value, title]) => [
      value,
      `${title}${states[value] === undefined ? "" : ` (${count(states[value])})`}`,
    ]);
    return choice("Which transactions", "state", this.query.state, options);
  }

  /** @param {any} data */
  ids({ transactions, total, is_cut }) {
    const state = this.query.state ?? "open";
    return html`
      ${is_cut ? html`<p class="notice warn">Very many are open: ages are known of some.</p>` : null}
      <data-table
        label="Transactional ids"
        .columns=${this.columns()}
        .rows=${transactions}
        .key=${(/** @type {any} */ row) => row.id}
        .empty=${this.query.search ? "No id is so" : state === "all" ? "No producer has used transactions yet" : `No transaction is ${state}`}
        .sort=${this.query.sort ?? "-age"}
        .page=${Number(this.query.page ?? 1)}
        .size=${SIZE}
        .total=${total}
        @query=${(/** @type {CustomEvent} */ e) => refine(e.detail)}
      ></data-table>
    `;
  }

  columns() {
    return [
      { key: "id", title: "Transactional id", sort: true, wide: true },
      { key: "state", title: "State", sort: true, cell: (/** @type {any} */ t) => stateOf(t) },
      {
        key: "age",
        title: "Open for",
        sort: true,
        descending: true,
        number: true,
        cell: (/** @type {any} */ t) =>
          html`<span
            title=${t.timeout_ms === null ? null : `its timeout is ${duration(t.timeout_ms)}`}
            >${duration(t.age_ms)}</span
          >`,
      },
      {
        key: "timeout_ms",
        title: "Timeout",
        number: true,
        cell: (/** @type {any} */ t) => duration(t.timeout_ms),
        desk: true,
      },
      {
        key: "producer",
        title: "Producer",
        sort: true,
        hint: "Producer id and epoch",
        cell: (/** @type {any} */ t) =>
          `${t.producer_id}${t.epoch === null ? "" : ` / ${t.epoch}`}`,
        desk: true,
      },
      { key: "partitions", title: "Partitions", cell: partitions, desk: true },
      { key: "coordinator", title: "Coordinator", number: true, desk: true },
      ...(me.read_only
        ? []
        : [
            {
              key: "end",
              title: "End",
              cell: (/** @type {any} */ t) =>
                t.age_ms === null
                  ? ""
                  : html`<button
                      class="small"
                      aria-label=${`Abort ${t.id}`}
                      @click=${() => fence(t)}
                    >
                      Abort
                    </button>`,
            },
          ]),
    ];
  }

  /** @param {any} data */
  held({ partitions, hanging, is_cut }) {
    if (!partitions.length) {
      return html`<div class="card finding-none">
        <p>
          <b>No partition is held back.</b>
          <span class="muted">Readers of committed records see all there is.</span>
        </p>
      </div>`;
    }
    return html`<section class="card" aria-labelledby="held-title">
      <div class="card-head">
        <h2 id="held-title">Partitions that are held back</h2>
        <span class="muted"
          >${counted(partitions.length, "partition")}${is_cut ? ", and more" : ""}${hanging ? html`, <b class="warn-text">${counted(hanging, "hanging transaction")}</b>` : null}</span
        >
      </div>
      <p class="body muted">
        Readers of committed records stop at the last stable offset until the first open transaction
        ends.
      </p>
      <data-table
        label="Partitions that are held back"
        .columns=${HELD}
        .rows=${partitions}
        .key=${(/** @type {any} */ row) => `${row.topic}-${row.partition}`}
        .local=${true}
        .sort=${"-held"}
      ></data-table>
    </section>`;
  }
}

/** @param {any} t */
const stateOf = (t) =>
  html`<status-dot
      .kind=${t.late ? "bad" : t.age_ms === null ? "idle" : "good"}
      .text=${t.state}
    ></status-dot
    >${t.late ? html` <span class="badge bad">late</span>` : null}`;

/** @param {any} t */
function partitions(t) {
  const shown = t.partitions.slice(0, 3);
  const more = t.partition_count - shown.length;
  return html`${shown.map((/** @type {any} */ p) => html`<span class="badge">${p.topic}-${p.partition}</span> `)}${more > 0 ? html`<span class="muted">and ${count(more)} more</span>` : null}`;
}

const HELD = [
  {
    key: "topic",
    title: "Partition",
    sort: true,
    cell: (/** @type {any} */ p) =>
      html`<a href=${link(["topics", p.topic], { tab: "partitions" })}
        >${p.topic}-${p.partition}</a
      >`,
  },
  {
    key: "held",
    title: "Held back",
    hint: "Offsets between the last stable offset and the end",
    sort: true,
    descending: true,
    number: true,
    cell: (/** @type {any} */ p) =>
      html`<span title=${`${p.stable} to ${p.end}`}>${count(p.held)}</span>`,
  },
  {
    key: "transactions",
    title: "By",
    wide: true,
    cell: (/** @type {any} */ p) =>
      html`<ul class="holders">
        ${p.transactions.slice(0, 3).map((/** @type {any} */ t) => html`<li>${holder(p, t)}</li>`)}
        ${p.transactions.length > 3 ? html`<li class="muted">and ${count(p.transactions.length - 3)} more</li>` : null}
      </ul>`,
  },
  {
    key: "groups",
    title: "Groups that wait",
    cell: (/** @type {any} */ p) =>
      p.groups.length
        ? html`${p.groups.slice(0, 3).map((/** @type {string} */ name) => html`<a class="badge" href=${link(["groups", name])}>${name}</a> `)}${
            p.groups.length > 3
              ? html`<span class="muted">and ${count(p.groups.length - 3)} more</span>`
              : null
          }`
        : html`<span class="muted">none</span>`,
  },
];

/** @param {any} p the partition @param {any} t */
function holder(p, t) {
  const text = html`from offset ${count(t.start_offset)}, ${duration(t.age_ms)} old, producer
  ${t.producer_id} / ${t.epoch}`;
  if (t.state === "hanging") {
    return html`<span class="badge bad">hanging</span> ${text}
      ${me.read_only ? null : html`<button class="small" aria-label=${`Abort the hanging transaction of ${p.topic}-${p.partition}`} @click=${() => abort(p, t)}>Abort</button>`}`;
  }
  if (t.state === "unknown") {
    return html`<span class="badge warn" title="A coordinator that may know it does not answer"
        >unknown</span
      >
      ${text}`;
  }
  return html`<b>${t.id}</b>
    <span class="badge ${t.late ? "bad" : ""}">${t.late ? "late" : t.state}</span> ${text}`;
}

/** @param {any} p @param {any} t */
async function abort(p, t) {
  const done = await confirmChange({
    title: `Abort the hanging transaction of ${p.topic}-${p.partition}?`,
    preview: html`
      <p>
        No coordinator knows it: no one else will end it. Producer ${t.producer_id}, epoch
        ${t.epoch}, wrote from offset ${count(t.start_offset)} on, last at
        ${time(t.last_timestamp_ms)}.
      </p>
      <p>
        Its records here are lost to readers of committed records. These then go on from offset
        ${count(p.stable)}; up to ${counted(p.held, "offset")} become readable.
      </p>
    `,
    command: command(
      "transactions",
      "abort",
      "--topic",
      p.topic,
      "--partition",
      p.partition,
      "--start-offset",
      t.start_offset,
    ),
    action: "Abort the transaction",
    danger: true,
    run: () =>
      api.post("/api/transactions/abort", {
        topic: p.topic,
        partition: p.partition,
        start_offset: t.start_offset,
      }),
  });
  if (done) notice(`The transaction of ${p.topic}-${p.partition} is aborted`);
}

/** @param {any} t */
async function fence(t) {
  const done = await confirmChange({
    title: `Abort the transaction of ${t.id}?`,
    preview: html`
      <p>
        ${t.state}, open for ${duration(t.age_ms)}, in ${counted(t.partition_count, "partition")}.
        What it wrote is lost to readers of committed records.
      </p>
      <p>Its producer is shut out: its next request fails, and it has to begin anew.</p>
    `,
    command: command("transactions", "fence", t.id),
    action: "Abort the transaction",
    danger: true,
    run: () => api.post(`/api/transactions/ids/${encodeURIComponent(t.id)}/fence`),
  });
  if (done) notice(`The transaction of ${t.id} is aborted`);
}

TransactionsView.define("transactions-view");

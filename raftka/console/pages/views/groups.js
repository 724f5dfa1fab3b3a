// @ts-check
/** All groups: found, filtered, sorted by lag; how far each is behind in records and in time. */
import { choice } from "../js/choice.js";
import { count, counted, duration } from "../js/format.js";
import { html } from "../js/render.js";
import { link, refine } from "../js/router.js";
import { View } from "../js/view.js";
import "../elements/data_table.js";
import "../elements/small.js";

const SIZE = 50;
const EVERY_S = 5;
const MOST_TOPICS = 3;
const TYPES = [
  ["any", "any type"],
  ...["classic", "consumer", "share", "streams"].map((each) => [each, each]),
];

/** Colours of states. @type {Record<string, string>} */
export const KINDS = {
  Stable: "good",
  Empty: "idle",
  Dead: "bad",
  PreparingRebalance: "warn",
  CompletingRebalance: "warn",
  Assigning: "warn",
  Reconciling: "warn",
  NotReady: "warn",
};

class GroupsView extends View {
  changed() {
    const { search, state, type, sort, page } = this.query;
    this.watch("/api/groups", { search, state, type, sort, page, size: SIZE, every: EVERY_S }, "groups");
  }

  template() {
    const { search = "" } = this.query;
    const states = Object.keys(this.data.groups?.states ?? {}).sort();
    return html`
      <div class="head"><h1>Groups</h1></div>
      <div class="tools">
        <search-box
          .value=${search}
          label="Find a group"
          @find=${(/** @type {CustomEvent} */ e) => refine({ search: e.detail, page: null })}
        ></search-box>
        ${choice("State", "state", this.query.state, [["", "any state"], ...states.map((each) => [each, each])])}
        ${choice("Type", "type", this.query.type, TYPES)}
        ${this.data.groups ? this.summary(this.data.groups) : null}
      </div>
      ${this.shown("groups", (data) => this.table(data))}
    `;
  }

  /** @param {any} data */
  summary({ all, lag, pending }) {
    return html`<span class="muted" aria-live="polite"
      >${counted(all, "group")}${pending.includes("lag") ? ", lags are being read" : `, ${counted(lag, "record")} behind`}</span
    >`;
  }

  /** How far the order by seconds is known.
   * @param {number} notSorted @param {number | null} age in seconds @param {string[]} pending */
  order(notSorted, age, pending) {
    if (pending.includes("seconds"))
      return html`<p class="notice" role="status">The seconds of all groups are being read: until then the order is by name.</p>`;
    if (age === null) return null;
    return html`<p class="muted below" role="status">
      In the order of ${duration(age * 1000)} ago.
      ${notSorted ? `${counted(notSorted, "group")} at the end: not read yet, or their seconds cannot be known.` : null}
    </p>`;
  }

  /** @param {any} data */
  table({ rows, total, not_sorted, sorted_age_s, pending }) {
    return html`${this.order(not_sorted, sorted_age_s, pending)}<data-table
      label="Groups"
      .columns=${COLUMNS}
      .rows=${rows}
      .href=${(/** @type {any} */ row) => link(["groups", row.name])}
      .empty=${total || this.query.search || this.query.state || this.query.type
        ? "No group is so"
        : "No consumer group has been here yet"}
      .sort=${this.query.sort ?? "-lag"}
      .page=${Number(this.query.page ?? 1)}
      .size=${SIZE}
      .total=${total}
      @query=${(/** @type {CustomEvent} */ e) => refine(e.detail)}
    ></data-table>`;
  }
}

/** How long the oldest record waits. @param {{seconds: number | null, seconds_why: string}} row */
export const behind = ({ seconds, seconds_why }) => {
  if (seconds === null)
    return html`<span class="muted" title=${seconds_why || null}>${seconds_why ? "unknown" : "–"}</span>`;
  return seconds === 0 ? "none" : html`<span title=${`${seconds.toFixed(3)} s`}>${duration(seconds * 1000)}</span>`;
};

const COLUMNS = [
  { key: "name", title: "Group", sort: true, wide: true },
  {
    key: "type",
    title: "Type",
    sort: true,
    desk: true,
    cell: (/** @type {any} */ g) => html`<span class="badge">${g.type}</span>`,
  },
  {
    key: "state",
    title: "State",
    sort: true,
    cell: (/** @type {any} */ g) =>
      html`<status-dot .kind=${KINDS[g.state] ?? "idle"} .text=${g.state ?? "unknown"}></status-dot>`,
  },
  {
    key: "lag",
    title: "Lag",
    hint: "Records between the committed offsets and the ends",
    sort: true,
    descending: true,
    number: true,
    cell: (/** @type {any} */ g) => count(g.lag),
  },
  {
    key: "seconds",
    title: "Behind",
    hint: "Age of the oldest record that is not consumed, from the log's own times",
    sort: true,
    descending: true,
    number: true,
    cell: behind,
  },
  {
    key: "topics",
    title: "Topics",
    desk: true,
    cell: (/** @type {any} */ g) => topics(g.topics),
  },
  {
    key: "coordinator",
    title: "Coordinator",
    number: true,
    desk: true,
  },
];

/** @param {string[]} names */
const topics = (names) =>
  html`${names.slice(0, MOST_TOPICS).map((name, at) => html`${at ? ", " : ""}<a href=${link(["topics", name])}>${name}</a>`)}
  ${names.length > MOST_TOPICS ? html`<span class="muted">and ${names.length - MOST_TOPICS} more</span>` : null}`;

GroupsView.define("groups-view");

// @ts-check
/** One topic: records, partitions, the groups that read it, settings. */
import { confirmChange } from "../elements/confirm_dialog.js";
import { api } from "../js/api.js";
import { command } from "../js/command.js";
import { bytes, count, counted, short } from "../js/format.js";
import { me } from "../js/me.js";
import { notice } from "../js/notice.js";
import { html } from "../js/render.js";
import { go, link, refine } from "../js/router.js";
import { View } from "../js/view.js";
import { confirmDeletion } from "./topics.js";
import "../elements/data_table.js";
import "../elements/small.js";
import "./settings.js";

class TopicView extends View {
  get tab() {
    return this.query.tab ?? (me.shows_records ? "records" : "partitions");
  }

  get path() {
    return `/api/topics/${encodeURIComponent(this.params.topic)}`;
  }

  changed() {
    const { sort, page } = this.query;
    this.watch(this.path, {}, "topic");
    for (const tab of ["partitions", "groups"]) {
      if (tab === this.tab) this.watch(`${this.path}/${tab}`, { sort, page }, tab);
      else this.unwatch(tab);
    }
    if (this.tab === "records") import("./records.js");
  }

  template() {
    const name = this.params.topic;
    return html`
      <p class="crumbs">
        <a href="#/topics">Topics</a>${
          this.data.topic?.has_dead_letters
            ? html` · <a href=${link(["dead-letters", name])}>Dead letters of this topic</a>`
            : null
        }
      </p>
      <div class="head">
        <h1 class="name">${name}</h1>
        ${me.read_only ? null : this.buttons(name)}
      </div>
      ${this.shown("topic", (topic) => facts(topic))}
      <tab-bar
        label="Parts of the topic"
        .tabs=${this.tabs()}
        .current=${this.tab}
        @tab=${(/** @type {CustomEvent} */ e) => go(["topics", name], { tab: e.detail })}
      ></tab-bar>
      <section role="tabpanel" aria-labelledby=${`tab-${this.tab}`}>${this.panel(name)}</section>
    `;
  }

  tabs() {
    const topic = this.data.topic;
    // a count that is not known yet keeps its place: tabs do not move under the pointer
    return [
      ...(me.shows_records ? [{ id: "records", title: "Records" }] : []),
      { id: "partitions", title: "Partitions", count: topic?.partitions ?? "–" },
      { id: "groups", title: "Groups", count: topic?.groups ?? "–" },
      { id: "settings", title: "Settings" },
    ];
  }

  /** @param {string} name */
  panel(name) {
    switch (this.tab) {
      case "partitions":
        return this.shown("partitions", (data) => this.partitions(data));
      case "groups":
        return this.shown("groups", (data) => this.groups(data));
      case "settings":
        return html`<settings-panel kind="topic" .name=${name}></settings-panel>`;
      default:
        return html`<records-panel .topic=${name} .query=${this.query}></records-panel>`;
    }
  }

  /** @param {string} name */
  buttons(name) {
    return html`<div class="buttons">
      <button class="quiet" ?disabled=${!this.data.topic} @click=${() => this.grow(name)}>
        Add partitions
      </button>
      <button class="danger" ?disabled=${!this.data.topic} @click=${() => this.deleteTopic(name)}>
        Delete
      </button>
    </div>`;
  }

  /** @param {any} data */
  partitions(data) {
    return html`<data-table
      label="Partitions"
      .columns=${PARTITIONS}
      .rows=${data.partitions}
      .key=${(/** @type {any} */ row) => row.index}
      .sort=${this.query.sort ?? "index"}
      .page=${data.page}
      .size=${data.size}
      .total=${data.total}
      @query=${(/** @type {CustomEvent} */ e) => refine(e.detail)}
    ></data-table>`;
  }

  /** @param {any} data */
  groups(data) {
    return html`<data-table
      label="Groups of the topic"
      .columns=${GROUPS}
      .rows=${data.groups}
      .key=${(/** @type {any} */ row) => row.group}
      .href=${(/** @type {any} */ row) => link(["groups", row.group])}
      .sort=${this.query.sort ?? "-lag"}
      .page=${data.page}
      .size=${data.size}
      .total=${data.total}
      .empty=${"No group has committed an offset of this topic"}
      @query=${(/** @type {CustomEvent} */ e) => refine(e.detail)}
    ></data-table>`;
  }

  /** @param {string} name */
  async deleteTopic(name) {
    const done = await confirmDeletion([name]);
    if (done?.deleted.length) go(["topics"]);
  }

  /** @param {string} name */
  async grow(name) {
    const now = this.data.topic.partitions;
    const given = await askForCount(name, now);
    if (!given) return;
    const body = { count: given };
    const done = await confirmChange({
      title: `Give ${name} ${count(given)} partitions?`,
      preview: () =>
        api.post(`${this.path}/partitions`, { ...body, validate_only: true }).then(
          () => html`
            <p>${count(now)} partitions become ${count(given)}. There is no way back.</p>
            <p>Records of a key may come to another partition than the older ones of that key.</p>
          `,
        ),
      command: command("topics", "alter", name, "--partitions", given),
      action: "Add partitions",
      run: () => api.post(`${this.path}/partitions`, body),
    });
    if (done) notice(`${name} has ${count(given)} partitions`);
  }
}

/**
 * Ask for a number of partitions in a dialog.
 * @param {string} name
 * @param {number} now
 * @returns {Promise<number | null>} null when the user said no
 */
function askForCount(name, now) {
  const dialog = /** @type {CountDialog} */ (document.createElement("count-dialog"));
  document.body.append(dialog);
  return dialog.ask(name, now);
}

class CountDialog extends View {
  /** @type {Record<string, any>} */
  state = { name: "", now: 0, count: 0 };

  /** @param {string} name @param {number} now */
  ask(name, now) {
    Object.assign(this.state, { name, now, count: now + 1 });
    this.renderNow();
    const dialog = /** @type {HTMLDialogElement} */ (this.querySelector("dialog"));
    dialog.showModal();
    return new Promise((resolve) =>
      dialog.addEventListener("close", () => {
        this.remove();
        resolve(dialog.returnValue === "yes" ? this.state.count : null);
      }),
    );
  }

  template() {
    const { name, now, count: wanted } = this.state;
    return html`
      <dialog aria-labelledby="count-title">
        <form method="dialog">
          <h2 id="count-title">Add partitions to ${name}</h2>
          <label
            >Partitions, those that there are included
            <input
              type="number"
              required
              min=${now + 1}
              .value=${String(wanted)}
              @input=${(/** @type {any} */ e) => (this.state.count = Number(e.target.value))}
          /></label>
          <div class="buttons">
            <button
              type="button"
              class="quiet"
              @click=${() => /** @type {any} */ (this.querySelector("dialog")).close("no")}
            >
              Cancel
            </button>
            <button class="primary" value="yes">Preview</button>
          </div>
        </form>
      </dialog>
    `;
  }
}

/** @param {any} topic */
const facts = (topic) => html`
  <dl class="facts">
    ${fact("Records", short(topic.messages), "", "between first and last offset")}
    ${fact("Size", bytes(topic.bytes), "", "largest replicas")}
    ${fact("Records a second", topic.rate === null ? "–" : short(topic.rate), "", "at the ends")}
    ${fact("Lag", topic.groups ? short(topic.lag) : "–", "", topic.groups === null ? "being read" : counted(topic.groups, "group"))}
    ${fact(
      "Partitions",
      count(topic.partitions),
      topic.offline ? "bad" : topic.under_replicated ? "warn" : "",
      topic.offline
        ? `${count(topic.offline)} without leader`
        : topic.under_replicated
          ? `${count(topic.under_replicated)} not in sync`
          : `${counted(topic.replication, "replica")} each`,
    )}
  </dl>
`;

/** @param {string} name @param {unknown} value @param {string} kind @param {unknown} more */
const fact = (name, value, kind, more) =>
  html`<div class=${kind}>
    <dt>${name}</dt>
    <dd>${value}<small>${more}</small></dd>
  </div>`;

const PARTITIONS = [
  { key: "index", title: "Partition", sort: true, number: true },
  {
    key: "leader",
    title: "Leader",
    sort: true,
    number: true,
    cell: (/** @type {any} */ p) =>
      p.leader === null ? html`<span class="badge bad">none</span>` : p.leader,
  },
  { key: "leader_epoch", title: "Epoch", number: true, desk: true },
  {
    key: "replicas",
    title: "Replicas",
    wide: true,
    cell: (/** @type {any} */ p) =>
      html`<span class="replicas"
        >${p.replicas.map((/** @type {any} */ r) => replica(p, r))}</span
      >`,
  },
  {
    key: "start",
    title: "First offset",
    number: true,
    cell: (/** @type {any} */ p) => count(p.start),
    desk: true,
  },
  {
    key: "end",
    title: "End",
    number: true,
    cell: (/** @type {any} */ p) =>
      p.error ? html`<span class="badge bad">${p.error}</span>` : count(p.end),
  },
  {
    key: "messages",
    title: "Records",
    sort: true,
    descending: true,
    number: true,
    cell: (/** @type {any} */ p) => short(p.messages),
  },
  {
    key: "rate",
    title: "Records/s",
    sort: true,
    descending: true,
    number: true,
    cell: (/** @type {any} */ p) => (p.rate === null ? "–" : short(p.rate)),
    desk: true,
  },
  {
    key: "bytes",
    title: "Size",
    sort: true,
    descending: true,
    number: true,
    cell: (/** @type {any} */ p) => html`<byte-size .bytes=${p.bytes}></byte-size>`,
  },
];

/** @param {any} partition @param {any} replica */
function replica(partition, { broker, in_sync, eligible, last_known, offline, lag, path, bytes: size, moves_to }) {
  const kind = offline
    ? "bad"
    : in_sync
      ? broker === partition.leader
        ? "accent"
        : "good"
      : "warn";
  const state = offline
    ? "offline"
    : in_sync
      ? broker === partition.leader
        ? "leader"
        : "in sync"
      : "not in sync";
  const more = [
    `broker ${broker}: ${state}`,
    eligible ? "it has all committed records, and may lead" : "",
    last_known ? "among the last that might lead" : "",
    lag ? `${counted(lag, "record")} behind` : "",
    size === null ? "" : bytes(size),
    path ?? "",
    moves_to ? `moves to ${moves_to}` : "",
  ];
  return html`<span class="badge ${kind}" title=${more.filter(Boolean).join(", ")}
    >${broker}<span class="visually-hidden"> ${state} </span
    >${eligible ? " eligible" : last_known ? " last known" : null}${!in_sync && lag ? html` −${short(lag)}` : null}</span
  > `;
}

const GROUPS = [
  { key: "group", title: "Group", sort: true, wide: true },
  { key: "type", title: "Type", sort: true, desk: true },
  {
    key: "state",
    title: "State",
    sort: true,
    cell: (/** @type {any} */ g) =>
      html`<status-dot
        .kind=${g.state === "Stable" ? "good" : g.state === "Empty" ? "idle" : "warn"}
        .text=${g.state ?? "unknown"}
      ></status-dot>`,
  },
  { key: "coordinator", title: "Coordinator", number: true, desk: true },
  {
    key: "lag",
    title: "Lag here",
    sort: true,
    descending: true,
    number: true,
    cell: (/** @type {any} */ g) => count(g.lag),
  },
];

CountDialog.define("count-dialog");
TopicView.define("topic-view");

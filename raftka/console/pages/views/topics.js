// @ts-check
/** All topics, a page at a time: find, order, create, delete. */
import { confirmChange } from "../elements/confirm_dialog.js";
import { api } from "../js/api.js";
import { choice } from "../js/choice.js";
import { command } from "../js/command.js";
import { count, counted, duration, short } from "../js/format.js";
import { me } from "../js/me.js";
import { notice } from "../js/notice.js";
import { html } from "../js/render.js";
import { go, link, refine } from "../js/router.js";
import { View } from "../js/view.js";
import "../elements/data_table.js";
import "../elements/small.js";

/** @type {Record<string, string>} */
const STATES = { any: "All topics", sick: "Not in sync", offline: "Without leader" };

class TopicsView extends View {
  /** @type {Record<string, any>} */
  state = { selected: new Set(), isCreating: false };

  changed() {
    const { search, sort, page, state, internal } = this.query;
    this.watch("/api/topics", { search, sort, page, state, internal }, "topics");
  }

  template() {
    const { search = "", internal } = this.query;
    return html`
      <div class="head">
        <h1>Topics</h1>
        <div class="buttons">${me.read_only ? null : this.buttons()}</div>
      </div>
      ${this.state.isCreating ? html`<new-topic @done=${(/** @type {CustomEvent} */ e) => this.created(e.detail)}></new-topic>` : null}
      <div class="tools">
        <search-box
          .value=${search}
          label="Find a topic"
          @find=${(/** @type {CustomEvent} */ e) => refine({ search: e.detail, page: null })}
        ></search-box>
        ${choice("State", "state", this.query.state, Object.entries(STATES))}
        <label class="check"
          ><input
            type="checkbox"
            .checked=${internal === "true"}
            @change=${(/** @type {any} */ e) => refine({ internal: e.target.checked ? "true" : null, page: null })}
          />
          Internal topics</label
        >
      </div>
      ${this.shown("topics", (data) => this.table(data))}
    `;
  }

  buttons() {
    const chosen = [...this.state.selected];
    return html`
      ${chosen.length ? html`<button class="danger" @click=${() => this.deleteTopics(chosen)}>Delete ${counted(chosen.length, "topic")}</button>` : null}
      <button
        class="primary"
        aria-expanded=${String(this.state.isCreating)}
        @click=${() => this.update({ isCreating: !this.state.isCreating })}
      >
        Create topic
      </button>
    `;
  }

  /** @param {any} data */
  table(data) {
    const { sort = "name" } = this.query;
    return html`
      ${data.pending.length ? html`<p class="muted" role="status">Being read for the first time: ${data.pending.join(", ")}</p>` : null}
      ${data.old_s ? html`<p class="muted">Sizes, rates and lags are ${duration(1000 * data.old_s)} old: the cluster is large or slow</p>` : null}
      <data-table
        label="Topics"
        .columns=${COLUMNS}
        .rows=${data.topics}
        .key=${(/** @type {any} */ row) => row.name}
        .href=${(/** @type {any} */ row) => link(["topics", row.name])}
        .sort=${sort}
        .page=${data.page}
        .size=${data.size}
        .total=${data.total}
        .selectable=${!me.read_only}
        .selected=${this.state.selected}
        .empty=${data.of_all ? "No topic is called so" : "There is no topic yet"}
        @query=${(/** @type {CustomEvent} */ e) => refine(e.detail)}
        @select=${(/** @type {CustomEvent} */ e) => this.update({ selected: e.detail })}
      ></data-table>
    `;
  }

  /** @param {string | null} name */
  created(name) {
    this.update({ isCreating: false });
    if (name) go(["topics", name], { tab: "partitions" });
  }

  /** @param {string[]} names */
  async deleteTopics(names) {
    const done = await confirmDeletion(names);
    if (done) this.update({ selected: new Set() });
  }
}

const COLUMNS = [
  {
    key: "name",
    title: "Topic",
    sort: true,
    wide: true,
    cell: (/** @type {any} */ t) => html`${t.name}${marks(t)}`,
  },
  number("partitions", "Partitions"),
  { ...number("replication", "Replicas"), desk: true },
  {
    ...number("bytes", "Size"),
    hint: "Bytes of the largest replica of each partition",
    cell: (/** @type {any} */ t) => html`<byte-size .bytes=${t.bytes}></byte-size>`,
  },
  {
    ...number("rate", "Records/s"),
    hint: "Growth of the ends between two readings",
    cell: (/** @type {any} */ t) => (t.rate === null ? "–" : short(t.rate)),
  },
  {
    ...number("messages", "Records"),
    hint: "Offsets between first and last; of a compacted topic fewer records are there",
    cell: (/** @type {any} */ t) => short(t.messages),
  },
  {
    ...number("lag", "Lag"),
    hint: "Records that groups have not committed yet, of all groups",
    cell: (/** @type {any} */ t) => (t.groups ? short(t.lag) : "–"),
  },
  { ...number("groups", "Groups"), desk: true },
];

/** @param {string} key @param {string} title */
function number(key, title) {
  return {
    key,
    title,
    sort: true,
    descending: true,
    number: true,
    cell: (/** @type {any} */ t) => count(t[key]),
  };
}

/** @param {any} topic */
const marks = ({ internal, error, offline, under_replicated }) => html`
  ${internal ? html` <span class="badge">internal</span>` : null}
  ${error ? html` <span class="badge bad">${error}</span>` : null}
  ${offline ? html` <span class="badge bad">${counted(offline, "partition")} without leader</span>` : null}
  ${under_replicated ? html` <span class="badge warn">${counted(under_replicated, "partition")} not in sync</span>` : null}
`;

/**
 * @param {string[]} names
 * @returns {Promise<any>} null when the user said no
 */
export async function confirmDeletion(names) {
  const isOne = names.length === 1;
  const done = await confirmChange({
    title: isOne ? `Delete topic ${names[0]}?` : `Delete ${counted(names.length, "topic")}?`,
    preview: isOne
      ? () => lossOf(names[0])
      : html`<p>All their records will be gone:</p>
          <p class="mono">${names.join(", ")}</p>`,
    command: command("topics", "delete", ...names),
    action: isOne ? "Delete topic" : "Delete topics",
    danger: true,
    typed: isOne ? names[0] : String(names.length),
    run: () => api.post("/api/topics/delete", { names }),
  });
  if (!done) return null;
  if (done.deleted.length) notice(`${counted(done.deleted.length, "topic")} deleted`);
  for (const [name, why] of Object.entries(done.refused)) notice(`${name}: ${why}`, "bad");
  return done;
}

/** @param {string} name */
async function lossOf(name) {
  const topic = await api.get(`/api/topics/${encodeURIComponent(name)}`);
  return html`
    <p>
      ${topic.messages === null ? "All its records" : counted(topic.messages, "record")} in
      ${counted(topic.partitions, "partition")} will be gone, and cannot be brought back.
    </p>
    ${topic.groups ? html`<p>${counted(topic.groups, "group")} ${topic.groups === 1 ? "has" : "have"} offsets of it.</p>` : null}
  `;
}

/** <new-topic @done=${(e) => e.detail}>: a form; the detail is the name, or null when the user gave up. */
class NewTopic extends View {
  /** @type {Record<string, any>} */
  state = { name: "", partitions: "", replication: "", settings: "", failure: "" };

  template() {
    const { failure } = this.state;
    return html`
      <form
        class="card"
        aria-label="New topic"
        @submit=${(/** @type {Event} */ e) => this.preview(e)}
      >
        <div class="body form">
          ${this.field("name", "Name", { required: true, maxlength: "249", pattern: "[a-zA-Z0-9._\\-]+", title: "Letters, digits, dots, _ and -" })}
          ${this.field("partitions", "Partitions", { type: "number", min: "1", placeholder: "default" })}
          ${this.field("replication", "Replicas", { type: "number", min: "1", placeholder: "default" })}
          <label class="whole"
            >Settings, one NAME=VALUE a line
            <textarea
              rows="3"
              spellcheck="false"
              placeholder="cleanup.policy=compact"
              @input=${(/** @type {any} */ e) => (this.state.settings = e.target.value)}
            ></textarea>
          </label>
          <p class="field-error whole" role="alert">${failure}</p>
          <div class="buttons whole">
            <button class="primary">Preview</button>
            <button type="button" class="quiet" @click=${() => this.emit("done", null)}>
              Cancel
            </button>
          </div>
        </div>
      </form>
    `;
  }

  /** @param {string} key @param {string} title @param {Record<string, any>} attributes */
  field(
    key,
    title,
    { type = "text", min, placeholder, required = false, maxlength, pattern, title: hint },
  ) {
    return html`<label
      >${title}
      <input
        type=${type}
        min=${min}
        maxlength=${maxlength}
        pattern=${pattern}
        title=${hint}
        placeholder=${placeholder}
        ?required=${required}
        autocomplete="off"
        spellcheck="false"
        @input=${(/** @type {any} */ e) => (this.state[key] = e.target.value)}
    /></label>`;
  }

  /** @param {Event} event */
  async preview(event) {
    event.preventDefault();
    const { name } = this.state;
    const settings = readSettings(this.state.settings);
    if (typeof settings === "string") {
      this.update({ failure: settings });
      return;
    }
    this.update({ failure: "" });
    const partitions = Number(this.state.partitions) || -1;
    const replication = Number(this.state.replication) || -1;
    const body = { name, partitions, replication, settings };
    const done = await confirmChange({
      title: `Create topic ${name}?`,
      preview: () =>
        api
          .post("/api/topics", { ...body, validate_only: true })
          .then((topic) => outcome(topic, body)),
      command: command(
        "topics",
        "create",
        name,
        ...(partitions > 0 ? ["--partitions", partitions] : []),
        ...(replication > 0 ? ["--replication-factor", replication] : []),
        ...Object.entries(settings).flatMap(([key, value]) => ["--config", `${key}=${value}`]),
      ),
      action: "Create topic",
      run: () => api.post("/api/topics", body),
    });
    if (done) {
      notice(`Topic ${name} was created`);
      this.emit("done", name);
    }
  }
}

/** @param {any} topic @param {any} asked */
const outcome = (topic, asked) => html`
  <p>
    ${topic.partitions > 0 ? counted(topic.partitions, "partition") : "The default number of partitions"},
    each with
    ${topic.replication > 0 ? counted(topic.replication, "replica") : "the default number of replicas"}.
  </p>
  ${Object.entries(asked.settings).map(([key, value]) => html`<p class="mono">${key} = ${value}</p>`)}
`;

/**
 * @param {string} text
 * @returns {Record<string, string> | string} what is wrong
 */
function readSettings(text) {
  /** @type {Record<string, string>} */
  const found = {};
  for (const line of text
    .split("\n")
    .map((each) => each.trim())
    .filter(Boolean)) {
    const at = line.indexOf("=");
    if (at < 1) return `${line} is not NAME=VALUE`;
    found[line.slice(0, at).trim()] = line.slice(at + 1).trim();
  }
  return found;
}

NewTopic.define("new-topic");
TopicsView.define("topics-view");

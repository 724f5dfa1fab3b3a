// @ts-check
/** One group: why it does not move, its lag, its members, what has happened; offsets moved and deleted. */
import { ApiFailure, api } from "../js/api.js";
import { count, counted, duration, time } from "../js/format.js";
import { icon } from "../js/icon.js";
import { me } from "../js/me.js";
import { notice } from "../js/notice.js";
import { each, html } from "../js/render.js";
import { go, link, refine } from "../js/router.js";
import { problem, View } from "../js/view.js";
import { confirmChange } from "../elements/confirm_dialog.js";
import "../elements/data_table.js";
import "../elements/small.js";
import { behind, KINDS } from "./groups.js";

const SIZE = 100;
const MOST_SHOWN = 200; // rows of a preview
const MOST_PLACES = 6; // partitions of a cell

/** Where a reset may go, and the value that each needs. @type {Record<string, {text: string, value?: string, kind?: string}>} */
const PLACES = {
  earliest: { text: "the first record" },
  latest: { text: "the end" },
  offset: { text: "an offset", value: "Offset" },
  back: { text: "so many before the end", value: "Records" },
  shift: { text: "so many on, or back", value: "Records, below 0 is back" },
  time: { text: "a time", value: "Time", kind: "datetime-local" },
  duration: { text: "so long ago", value: "Seconds" },
};

class GroupView extends View {
  /** @type {Record<string, any>} */
  state = { isResetting: false, to: "earliest", value: "", topic: "", failure: null };

  get path() {
    return `/api/groups/${encodeURIComponent(this.params.group)}`;
  }

  changed() {
    const { sort, page } = this.query;
    this.watch(this.path, { sort, page, size: SIZE }, "group");
  }

  template() {
    const { group } = this.params;
    return html`
      <p class="crumbs"><a href="#/groups">Groups</a></p>
      <div class="head">
        <h1>${group}</h1>
        ${this.data.group && !me.read_only ? this.buttons() : null}
      </div>
      ${this.shown(
        "group",
        (data) => html`
          <div class="stack">
            ${facts(data)} ${this.state.isResetting ? this.resetForm(data) : null} ${findings(data)}
            <div class="narrow">
              <tab-bar
                .tabs=${[
                  { id: "lag", title: "Partitions", count: count(data.partition_count) },
                  { id: "members", title: "Members", count: count(data.member_count) },
                  ...(data.topology.length
                    ? [{ id: "topology", title: "Topology", count: count(data.topology.length) }]
                    : []),
                  { id: "topics", title: "Topics", count: count(data.topics.length) },
                  { id: "history", title: "History" },
                ]}
                .current=${this.tab}
                @tab=${(/** @type {CustomEvent} */ e) => refine({ tab: e.detail, sort: null, page: null })}
              ></tab-bar>
              <section role="tabpanel" aria-labelledby=${`tab-${this.tab}`}>
                ${this.panel(data)}
              </section>
            </div>
          </div>
        `,
      )}
    `;
  }

  get tab() {
    const { tab = "lag" } = this.query;
    return ["lag", "members", "topology", "topics", "history"].includes(tab) ? tab : "lag";
  }

  buttons() {
    const { isResetting } = this.state;
    return html`<div class="buttons">
      <button
        aria-expanded=${String(isResetting)}
        @click=${() => this.update({ isResetting: !isResetting, failure: null })}
      >
        Move offsets
      </button>
      <button @click=${() => this.deleteGroup()}>Delete group</button>
    </div>`;
  }

  /** @param {any} data */
  panel(data) {
    switch (this.tab) {
      case "members":
        return members(data);
      case "topology":
        return topology(data);
      case "topics":
        return this.topics(data);
      case "history":
        return history(data);
      default:
        return this.partitions(data);
    }
  }

  /** @param {any} data */
  partitions({ partitions, partition_count, now_ms, type }) {
    return html`<data-table
      label="Partitions of the group"
      .columns=${partitionColumns(now_ms, type === "share")}
      .rows=${partitions}
      .key=${(/** @type {any} */ p) => `${p.topic}-${p.partition}`}
      .href=${(/** @type {any} */ p) => link(["topics", p.topic], { tab: "partitions" })}
      empty="The group has no offsets and no partitions"
      .sort=${this.query.sort ?? "-lag"}
      .page=${Number(this.query.page ?? 1)}
      .size=${SIZE}
      .total=${partition_count}
      @query=${(/** @type {CustomEvent} */ e) => refine(e.detail)}
    ></data-table>`;
  }

  /** @param {any} data */
  topics({ topics }) {
    const columns = [
      { key: "name", title: "Topic", sort: true, wide: true },
      { key: "committed", title: "Offsets", number: true },
      { key: "lag", title: "Lag", sort: true, descending: true, number: true, cell: (/** @type {any} */ t) => count(t.lag) },
      {
        key: "is_read",
        title: "Read now",
        cell: (/** @type {any} */ t) => (t.is_read ? "yes" : html`<span class="badge warn">by no member</span>`),
      },
      ...(me.read_only
        ? []
        : [
            {
              key: "delete",
              title: "",
              cell: (/** @type {any} */ t) =>
                html`<button
                  class="quiet small"
                  ?disabled=${!t.committed}
                  aria-label=${`Delete offsets of ${t.name}`}
                  @click=${() => this.deleteOffsets(t)}
                >
                  Delete offsets
                </button>`,
            },
          ]),
    ];
    return html`<data-table
      label="Topics of the group"
      .columns=${columns}
      .rows=${topics}
      .href=${(/** @type {any} */ t) => link(["topics", t.name])}
      .local=${true}
      .sort=${"name"}
    ></data-table>`;
  }

  // changes

  /** @param {any} data */
  resetForm({ topics }) {
    const { to, value, topic, failure } = this.state;
    const { value: label, kind = "number" } = PLACES[to];
    return html`
      <form class="card" aria-labelledby="reset-title" @submit=${(/** @type {Event} */ e) => this.preview(e)}>
        <h2 id="reset-title">Move the offsets of the group</h2>
        <div class="body stack">
          <div class="tools">
            <label
              >Topic
              <select @change=${(/** @type {any} */ e) => this.update({ topic: e.target.value })}>
                <option value="" .selected=${!topic}>all of the group</option>
                ${topics.map(
                  (/** @type {any} */ t) =>
                    html`<option value=${t.name} .selected=${t.name === topic}>${t.name}</option>`,
                )}
              </select></label
            >
            <label
              >To
              <select @change=${(/** @type {any} */ e) => this.update({ to: e.target.value, value: "", failure: null })}>
                ${Object.entries(PLACES).map(
                  ([id, { text }]) => html`<option value=${id} .selected=${id === to}>${text}</option>`,
                )}
              </select></label
            >
            ${
              label
                ? html`<label
                    >${label}
                    <input
                      type=${kind}
                      step=${kind === "number" ? "1" : "0.001"}
                      required
                      .value=${value}
                      @input=${(/** @type {any} */ e) => this.update({ value: e.target.value })}
                  /></label>`
                : null
            }
          </div>
          ${failure ? problem(failure) : null}
          <div class="buttons">
            <button class="primary">Preview</button>
            <button type="button" class="quiet" @click=${() => this.update({ isResetting: false })}>Cancel</button>
          </div>
        </div>
      </form>
    `;
  }

  /** @param {Event} event */
  async preview(event) {
    event.preventDefault();
    const { to, value, topic } = this.state;
    const number = to === "time" ? new Date(value).getTime() : Number(value);
    const asked = { to, value: PLACES[to].value ? number : null, topics: topic ? [topic] : [] };
    try {
      const found = await api.post(`${this.path}/reset/preview`, asked);
      this.update({ failure: null });
      await this.move(found);
    } catch (failure) {
      this.update({ failure });
    }
  }

  /** @param {any} found */
  async move({ moves, members, command }) {
    const inTheWay = new ApiFailure(
      409,
      "NON_EMPTY_GROUP",
      `${members.slice(0, 5).join(", ")}: stop these consumers first. Brokers move no offsets of a group with members.`,
    );
    const result = await confirmChange({
      title: `Move the offsets of ${this.params.group}?`,
      preview: members.length ? () => Promise.reject(inTheWay) : moved(moves),
      command,
      action: "Move offsets",
      run: () =>
        api.post(`${this.path}/reset`, {
          offsets: moves.map((/** @type {any} */ { topic, partition, after }) => ({
            topic,
            partition,
            offset: after,
          })),
        }),
    });
    if (!result) return;
    this.update({ isResetting: false });
    told(result, "moved");
  }

  /** @param {any} topic */
  async deleteOffsets({ name, committed, is_read }) {
    const { group } = this.params;
    const result = await confirmChange({
      title: `Delete the offsets of ${group} in ${name}?`,
      preview: html`<p>
        ${counted(committed, "committed offset")} of the group ${committed === 1 ? "is" : "are"} deleted. A consumer that
        reads the topic again begins where its auto.offset.reset says.
        ${is_read ? html`<b>Members of the group read this topic: brokers will refuse.</b>` : null}
      </p>`,
      command: `raftka offsets delete ${quoted(group)} ${quoted(name)}`,
      action: "Delete offsets",
      danger: true,
      run: () => api.post(`${this.path}/offsets/delete`, { topics: [name] }),
    });
    if (result) told(result, "deleted");
  }

  async deleteGroup() {
    const { group } = this.params;
    const { member_count, topics } = this.data.group;
    const result = await confirmChange({
      title: `Delete group ${group}?`,
      preview: html`<p>
        Its offsets in ${counted(topics.length, "topic")} are deleted with it, and cannot be brought back.
        ${member_count ? html`<b>It has ${counted(member_count, "member")}: stop them first, brokers will refuse.</b>` : null}
      </p>`,
      command: `raftka groups delete ${quoted(group)}`,
      action: "Delete group",
      danger: true,
      typed: group,
      run: () => api.post(`${this.path}/delete`),
    });
    if (!result) return;
    notice(`Group ${group} was deleted`);
    go(["groups"]);
  }
}

/** @param {any} result @param {string} done */
function told({ changed, refused }, done) {
  if (changed) notice(`${counted(changed, "offset")} ${changed === 1 ? "was" : "were"} ${done}`);
  for (const { topic, partition, why } of refused.slice(0, 3))
    notice(`${topic}-${partition}: ${why}`, "bad");
}

/** @param {any[]} moves */
const moved = (moves) => html`
  <data-table
    label="Offsets before and after"
    .columns=${[
      { key: "place", title: "Partition", cell: (/** @type {any} */ m) => `${m.topic}-${m.partition}` },
      { key: "before", title: "Now", number: true, cell: (/** @type {any} */ m) => (m.before === null ? "none" : count(m.before)) },
      { key: "after", title: "Then", number: true, cell: (/** @type {any} */ m) => count(m.after) },
      { key: "by", title: "Change", number: true, cell: (/** @type {any} */ m) => change(m) },
    ]}
    .rows=${moves.slice(0, MOST_SHOWN)}
    .key=${(/** @type {any} */ m) => `${m.topic}-${m.partition}`}
  ></data-table>
  ${moves.length > MOST_SHOWN ? html`<p class="muted">and ${counted(moves.length - MOST_SHOWN, "more partition")}</p>` : null}
`;

/** @param {{before: number | null, after: number}} move */
const change = ({ before, after }) => {
  if (before === null) return "new";
  const by = after - before;
  return by > 0 ? `+${count(by)}` : count(by);
};

/** A word of a command as a shell takes it. @param {string} word */
const quoted = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`);

// parts

/** @param {any} data */
function facts(data) {
  const { state, state_since, now_ms, member_count, lag, lags, partitions, type, is_described } = data;
  const known = partitions.filter((/** @type {any} */ p) => p.seconds !== null);
  const seconds = known.length ? Math.max(...known.map((/** @type {any} */ p) => p.seconds)) : null;
  return html`
    <dl class="facts">
      <div>
        <dt>State</dt>
        <dd class="word">
          <status-dot .kind=${KINDS[state] ?? "idle"} .text=${state ?? "unknown"}></status-dot
          ><small>${since(state_since, now_ms)}</small>
        </dd>
      </div>
      <div>
        <dt>Members</dt>
        <dd>${is_described ? count(member_count) : "–"}<small>${data.assignor || type}</small></dd>
      </div>
      <div>
        <dt>Lag, records</dt>
        <dd>
          ${count(lag)}<spark-line .values=${lags} label="Lag while this page was watched"></spark-line>
        </dd>
      </div>
      <div>
        <dt>Behind</dt>
        <dd>${behind({ seconds, seconds_why: "" })}<small>oldest record not consumed</small></dd>
      </div>
      <div>
        <dt>Type</dt>
        <dd class="word">
          ${type}<small
            >${data.epoch === null ? "" : `epoch ${count(data.epoch)}, assigned ${count(data.assignment_epoch)}`}</small
          >
        </dd>
      </div>
      <div>
        <dt>Coordinator</dt>
        <dd>${data.coordinator ?? "–"}<small>broker</small></dd>
      </div>
    </dl>
  `;
}

/** @param {{at_ms: number, is_exact: boolean} | null} since @param {number} now */
const since = (since, now) =>
  since && (since.is_exact || now - since.at_ms > 1000) ? `for ${duration(Math.max(0, now - since.at_ms))}${since.is_exact ? "" : " or longer"}` : "";

/** @type {Record<string, string>} */
const LEVELS = { stuck: "bad", slow: "warn", note: "note", fine: "fine" };

/** @type {Record<string, string>} by the worst level */
const TITLES = {
  stuck: "Why it does not move, and the next step",
  slow: "Why it is slow, and the next step",
  note: "Does it move?",
  fine: "Does it move?",
};

/** @param {any} data */
function findings({ findings }) {
  const worst = findings[0].level;
  return html`
    <section class="card findings" aria-labelledby="why-title">
      <div class="card-head">
        <h2 id="why-title">${TITLES[worst]}</h2>
      </div>
      <ul aria-live="polite">
        ${each(
          findings,
          (f, at) => `${f.cause} ${at}`,
          (f) =>
            html`<li class=${LEVELS[f.level]}>
              ${icon(f.level === "fine" ? "good" : f.level === "stuck" ? "bad" : "warn")}
              <div>
                <p><b>${f.text}</b></p>
                <p class="muted">${f.next_step}</p>
                ${f.command ? html`<command-line .command=${f.command}></command-line>` : null}
              </div>
            </li>`,
        )}
      </ul>
    </section>
  `;
}

/** @param {number} now @param {boolean} isShare */
const partitionColumns = (now, isShare) => [
  {
    key: "place",
    title: "Partition",
    sort: true,
    cell: (/** @type {any} */ p) => `${p.topic}-${p.partition}`,
  },
  {
    key: "lag",
    title: "Lag",
    sort: true,
    descending: true,
    number: true,
    cell: (/** @type {any} */ p) => count(p.lag),
  },
  { key: "seconds", title: "Behind", number: true, cell: behind },
  {
    key: "committed",
    title: isShare ? "Start" : "Committed",
    number: true,
    cell: (/** @type {any} */ p) => count(p.committed),
    desk: true,
  },
  ...(isShare
    ? [
        {
          key: "done_ahead",
          title: "Done ahead",
          hint: "Records behind the start offset that are delivered and done",
          number: true,
          desk: true,
          cell: (/** @type {any} */ p) => count(p.done_ahead),
        },
      ]
    : []),
  {
    key: "end",
    title: "End",
    number: true,
    desk: true,
    cell: (/** @type {any} */ p) =>
      html`${p.is_held_back ? html`<span class="badge bad" title=${`Readers of committed records stop at ${count(p.stable)}`}>held back</span> ` : null}${count(p.end)}`,
  },
  {
    key: "still",
    title: isShare ? "Last moved" : "Last commit",
    hint: `Since when the ${isShare ? "start" : "committed"} offset is the same, as far as this console has watched`,
    sort: true,
    descending: true,
    number: true,
    desk: true,
    cell: (/** @type {any} */ p) =>
      p.still && (p.still.is_exact || now - p.still.at_ms > 1000)
        ? `${p.still.is_exact ? "" : "over "}${duration(Math.max(0, now - p.still.at_ms))}`
        : "–",
  },
  {
    key: "owner",
    title: isShare ? "Members" : "Member",
    cell: (/** @type {any} */ p) => p.owner ?? html`<span class="muted">none</span>`,
  },
  {
    key: "leader",
    title: "Leader",
    number: true,
    desk: true,
    cell: (/** @type {any} */ p) => (p.leader === -1 ? html`<span class="badge bad">none</span>` : p.leader),
  },
];

/** @param {any} data */
function members({ members, member_count, is_described, type, epoch }) {
  if (!is_described)
    return html`<p class="card empty">This version does not describe groups of type ${type}.</p>`;
  const isNew = epoch !== null;
  const columns = [
    {
      key: "client_id",
      title: "Member",
      sort: true,
      cell: (/** @type {any} */ m) =>
        html`<b>${m.instance_id ?? m.client_id}</b>${m.instance_id ? html` <span class="badge">static</span>` : null}
          ${m.speaks_classic ? html`<span class="badge">classic protocol</span>` : null}
          <br /><small class="muted mono">${m.id}</small>`,
    },
    { key: "host", title: "Host", sort: true, cell: (/** @type {any} */ m) => html`<span class="mono">${m.host}</span>${m.rack ? html` <span class="badge">${m.rack}</span>` : null}` },
    ...(type === "streams"
      ? TASKS
      : [{ key: "assigned", title: "Has", wide: true, cell: (/** @type {any} */ m) => places(m.assigned) }]),
    ...(isNew && type !== "share"
      ? [
          {
            key: "to_revoke",
            title: "Gives back, waits for",
            wide: true,
            cell: (/** @type {any} */ m) => moving(m),
          },
        ]
      : []),
    ...(isNew
      ? [
          {
            key: "epoch",
            title: "Epoch",
            number: true,
            cell: (/** @type {any} */ m) =>
              m.epoch === -2
                ? html`<span class="badge bad">away</span>`
                : html`${m.epoch < epoch ? html`<span class="badge warn">behind</span> ` : null}${m.epoch}`,
          },
        ]
      : []),
    { key: "subscribed", title: "Subscribed", desk: true, cell: (/** @type {any} */ m) => m.subscribed.join(", ") || "–" },
  ];
  return html`<data-table
      label="Members"
      .columns=${columns}
      .rows=${members}
      .key=${(/** @type {any} */ m) => m.id}
      .local=${true}
      empty="No consumer is a member"
    ></data-table>
    ${member_count > members.length ? html`<p class="muted">and ${counted(member_count - members.length, "more member")}</p>` : null}`;
}

/** Tasks of a member of a streams group, and where it answers interactive queries. */
const TASKS = [
  { key: "active", title: "Active tasks", wide: true, cell: (/** @type {any} */ m) => places(m.tasks.active) },
  {
    key: "standby",
    title: "Standby tasks",
    wide: true,
    cell: (/** @type {any} */ m) =>
      html`${places(m.tasks.standby)}${m.tasks.warmup.length ? html` <span class="badge warn">warming up</span> ${places(m.tasks.warmup)}` : null}`,
  },
  {
    key: "endpoint",
    title: "End point",
    desk: true,
    cell: (/** @type {any} */ m) => html`<span class="mono" title=${`process ${m.process_id}`}>${m.endpoint ?? "–"}</span>`,
  },
];

/** Subtopologies of a streams group. @param {any} data */
function topology({ topology, missing_topics }) {
  const missing = new Set(missing_topics);
  const names = (/** @type {string[]} */ topics) =>
    topics.length
      ? topics.map(
          (name, at) =>
            html`${at ? ", " : ""}${missing.has(name) ? html`${name} <span class="badge bad">missing</span>` : html`<a href=${link(["topics", name])}>${name}</a>`}`,
        )
      : html`<span class="muted">–</span>`;
  const column = (/** @type {string} */ key, /** @type {string} */ title) => ({
    key,
    title,
    wide: true,
    cell: (/** @type {any} */ t) => names(t[key]),
  });
  return html`<data-table
    label="Subtopologies"
    .columns=${[
      { key: "id", title: "Subtopology", number: true },
      column("sources", "Reads"),
      column("repartition_sources", "Reads, repartitioned"),
      column("sinks", "Writes, repartitioned"),
      column("changelogs", "Changelogs"),
      { key: "active_tasks", title: "Active tasks", number: true },
      { key: "copies", title: "Copies", hint: "Standby tasks, and those that warm up", number: true },
    ]}
    .rows=${topology}
    .key=${(/** @type {any} */ t) => t.id}
  ></data-table>`;
}

/** @param {string[]} names */
const places = (names) =>
  names.length
    ? html`${names.slice(0, MOST_PLACES).join(", ")}${names.length > MOST_PLACES ? html` <span class="muted" title=${names.join(", ")}>and ${names.length - MOST_PLACES} more</span>` : null}`
    : html`<span class="muted">nothing</span>`;

/** @param {any} member */
function moving({ to_revoke, waits_for }) {
  /** @type {Record<string, string[]>} partitions by the member that has them */
  const held = {};
  for (const { partition, holder } of waits_for) (held[holder ?? ""] ??= []).push(partition);
  if (!to_revoke.length && !waits_for.length) return html`<span class="muted">–</span>`;
  return html`${to_revoke.length ? html`<span class="badge warn">gives back</span> ${places(to_revoke)} ` : null}${Object.entries(
    held,
  ).map(
    ([holder, partitions]) =>
      html`<span class="badge warn">waits for</span> ${places(partitions)}${holder ? ` of ${holder}` : null} `,
  )}`;
}

/** @param {any} data */
function history({ events, watched_ms }) {
  return html`
    <section class="card">
      <p class="card-head muted">
        Seen while a page of this login watched the group, for ${duration(watched_ms)}. Brokers do not tell what was
        before.
      </p>
      <data-table
        label="Changes of the group"
        .columns=${[
          { key: "at_ms", title: "Time", cell: (/** @type {any} */ e) => time(e.at_ms) },
          { key: "what", title: "What", cell: (/** @type {any} */ e) => WHAT[e.what] ?? e.what },
          { key: "text", title: "", wide: true },
        ]}
        .rows=${events.map((/** @type {any} */ e, /** @type {number} */ at) => ({ ...e, id: events.length - at }))}
        .key=${(/** @type {any} */ e) => e.id}
        empty="Nothing has changed"
      ></data-table>
    </section>
  `;
}

/** @type {Record<string, string>} */
const WHAT = { state: "State", epoch: "Epoch", "member joined": "Member joined", "member left": "Member left" };

GroupView.define("group-view");

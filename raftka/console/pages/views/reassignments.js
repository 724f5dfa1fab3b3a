// @ts-check
/** Reassignments under way, and partitions that another replica leads than the preferred one. */
import { confirmChange } from "../elements/confirm_dialog.js";
import { api } from "../js/api.js";
import { command } from "../js/command.js";
import { bytes, count, counted } from "../js/format.js";
import { me } from "../js/me.js";
import { notice } from "../js/notice.js";
import { html } from "../js/render.js";
import { link, refine } from "../js/router.js";
import { View } from "../js/view.js";
import "../elements/data_table.js";
import "../elements/small.js";

const SIZE = 50;
const LEADERS = 100; // partitions of one list, and of one election

class ReassignmentsView extends View {
  changed() {
    const { search, page } = this.query;
    this.watch("/api/reassignments", { search, page, size: SIZE }, "moving");
    this.watch("/api/leaders", { search, size: LEADERS }, "leaders");
  }

  template() {
    return html`
      <p class="crumbs"><a href="#/">Cluster</a></p>
      <div class="head"><h1>Reassignments</h1></div>
      <div class="tools">
        <search-box
          .value=${this.query.search ?? ""}
          label="Find a topic"
          @find=${(/** @type {CustomEvent} */ e) => refine({ search: e.detail, page: null })}
        ></search-box>
      </div>
      <div class="stack">
        <section aria-labelledby="moving-title">
          <div class="tools"><h2 id="moving-title">Under way</h2></div>
          ${this.shown("moving", (data) => this.moving(data))}
          <p class="muted below">
            <code>${command("reassign", "plan")}</code> and
            <code>${command("reassign", "execute")}</code> begin one.
          </p>
        </section>
        <section aria-labelledby="leaders-title">
          ${this.shown("leaders", (data) => this.leaders(data))}
        </section>
      </div>
    `;
  }

  /** @param {any} data */
  moving({ reassignments, total, is_cut }) {
    return html`
      ${is_cut ? html`<p class="notice">What is left to copy is known of some topics only.</p>` : null}
      <data-table
        label="Reassignments under way"
        .columns=${moving()}
        .rows=${reassignments}
        .empty=${this.query.search ? "No reassignment of such a topic" : "No partition is being reassigned"}
        .page=${Number(this.query.page ?? 1)}
        .size=${SIZE}
        .total=${total}
        @query=${(/** @type {CustomEvent} */ e) => refine(e.detail)}
      ></data-table>
    `;
  }

  /** @param {any} data */
  leaders({ partitions, total, can }) {
    const able = partitions.filter((/** @type {any} */ each) => each.can);
    return html`
      <div class="tools">
        <h2 id="leaders-title">Leaders that are not the preferred ones</h2>
        <span class="muted">${counted(total, "partition")}</span>
        ${
          able.length && !me.read_only
            ? html`<button class="push" @click=${() => elect(able)}>
                Elect ${count(able.length)}${can > able.length ? ` of ${count(can)}` : ""} preferred
              </button>`
            : null
        }
      </div>
      <data-table
        label="Partitions with another leader"
        .columns=${WITH_ANOTHER}
        .rows=${partitions}
        .local=${true}
        .sort=${"topic"}
        .empty=${"The first replica leads each partition"}
      ></data-table>
      ${total > partitions.length ? html`<p class="muted">and ${count(total - partitions.length)} more</p>` : null}
    `;
  }
}

/** @param {any} each */
const place = (each) =>
  html`<a href=${link(["topics", each.topic], { tab: "partitions" })}>${each.topic}-${each.partition}</a>`;

const moving = () => [
  { key: "topic", title: "Partition", wide: true, cell: place },
  {
    key: "replicas",
    title: "Replicas",
    cell: (/** @type {any} */ each) => each.replicas.join(", "),
    desk: true,
  },
  {
    key: "adding",
    title: "Come",
    hint: "Brokers that get a replica, and what they have of it",
    cell: (/** @type {any} */ each) =>
      html`${each.adding.map(
        (/** @type {any} */ one) =>
          html`<div>
            <b>${one.broker}</b> ${bytes(one.bytes)} of ${bytes(each.leader_bytes)},
            ${count(one.behind)} behind
          </div>`,
      )}`,
  },
  {
    key: "removing",
    title: "Go",
    cell: (/** @type {any} */ each) => each.removing.join(", ") || "–",
  },
  ...(me.read_only
    ? []
    : [
        {
          key: "end",
          title: "End",
          cell: (/** @type {any} */ each) =>
            html`<button class="small" aria-label=${`Cancel ${each.id}`} @click=${() => cancel(each)}>
              Cancel
            </button>`,
        },
      ]),
];

const WITH_ANOTHER = [
  { key: "topic", title: "Partition", sort: true, wide: true, cell: place },
  {
    key: "leader",
    title: "Leader",
    sort: true,
    number: true,
    cell: (/** @type {any} */ each) => (each.leader < 0 ? "none" : each.leader),
  },
  { key: "preferred", title: "Preferred", sort: true, number: true },
  {
    key: "can",
    title: "In sync",
    hint: "Whether the preferred leader is in sync, as an election needs",
    cell: (/** @type {any} */ each) =>
      html`<status-dot .kind=${each.can ? "good" : "bad"} .text=${each.can ? "yes" : "no"}></status-dot>`,
  },
];

/** @param {any} answer */
function tell({ done, refused }) {
  const names = Object.keys(refused);
  for (const name of names.slice(0, 3)) notice(`${name}: ${refused[name]}`, "bad");
  return done.length;
}

/** @param {any} each */
async function cancel(each) {
  const coming = each.adding.map((/** @type {any} */ one) => one.broker).join(", ");
  const body = { partitions: [{ topic: each.topic, partition: each.partition }] };
  const done = await confirmChange({
    title: `Cancel the reassignment of ${each.id}?`,
    preview: html`
      <p>The replicas from before stay${coming ? `; those on ${coming} are deleted` : ""}.</p>
      <p>The command cancels all reassignments of ${each.topic}.</p>
    `,
    command: command("reassign", "cancel", each.topic),
    action: "Cancel the reassignment",
    danger: true,
    run: () => api.post("/api/reassignments/cancel", body),
  });
  if (done && tell(done)) notice(`The reassignment of ${each.id} is cancelled`);
}

/** @param {any[]} partitions */
async function elect(partitions) {
  const topics = [...new Set(partitions.map((each) => each.topic))];
  const body = { partitions: partitions.map(({ topic, partition }) => ({ topic, partition })) };
  const done = await confirmChange({
    title: `Elect the preferred leaders of ${counted(partitions.length, "partition")}?`,
    preview: html`
      <ul>
        ${partitions.slice(0, 10).map((each) => html`<li>${each.id}: ${each.leader < 0 ? "none" : each.leader} to ${each.preferred}</li>`)}
      </ul>
      ${partitions.length > 10 ? html`<p class="muted">and ${count(partitions.length - 10)} more</p>` : null}
      <p>Their clients find the new leaders by themselves, after a moment.</p>
    `,
    command: command("partitions", "elect", ...topics),
    action: "Elect leaders",
    run: () => api.post("/api/leaders/elect", body),
  });
  if (done) {
    const number = tell(done);
    if (number) notice(`The preferred leaders of ${counted(number, "partition")} lead`);
  }
}

ReassignmentsView.define("reassignments-view");

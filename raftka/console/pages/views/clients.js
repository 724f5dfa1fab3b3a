// @ts-check
/** Clients: the members of groups by client id and host, and connections by software. */
import { count, counted } from "../js/format.js";
import { html } from "../js/render.js";
import { link, refine } from "../js/router.js";
import { View } from "../js/view.js";
import "../elements/data_table.js";
import "../elements/small.js";

const SIZE = 50;
const EVERY_S = 5;
const MOST_GROUPS = 3;

class ClientsView extends View {
  changed() {
    const { search, sort, page } = this.query;
    this.watch("/api/clients", { search, sort, page, size: SIZE, every: EVERY_S }, "clients");
    this.watch("/api/clients/software", { every: EVERY_S }, "software");
  }

  template() {
    return html`
      <div class="head"><h1>Clients</h1></div>
      <div class="tools">
        <search-box
          .value=${this.query.search ?? ""}
          label="Find a client, a host or a group"
          @find=${(/** @type {CustomEvent} */ e) => refine({ search: e.detail, page: null })}
        ></search-box>
        ${
          this.data.clients
            ? html`<span class="muted" aria-live="polite"
                >${counted(this.data.clients.members, "member")} of groups</span
              >`
            : null
        }
      </div>
      ${this.shown("clients", (data) => this.table(data))}
      <p class="muted below">
        Kafka's protocol lists the members of groups. It lists no producers and no clients without a
        group.
      </p>
      <h2>Software</h2>
      ${this.shown("software", (data) => this.software(data))}
    `;
  }

  /** @param {any} data */
  software({ software, total, without, is_too_large }) {
    if (is_too_large)
      return html`<p class="muted">Not read: the metrics of nodes with so many partitions are too long.</p>`;
    if (software === null) return html`<p class="muted">Being read from the metrics of the nodes.</p>`;
    if (!software.length)
      return html`<p class="muted">
        Not known: no node offers metrics that the console may read. A raftka node does with
        <code>metrics.port</code>.
      </p>`;
    return html`
      ${without.length ? html`<p class="notice">Without ${without.length === 1 ? "node" : "nodes"} ${without.join(", ")}: no metrics that the console may read.</p>` : null}
      ${total > software.length ? html`<p class="notice">The ${count(software.length)} with the most connections, of ${count(total)}.</p>` : null}
      <data-table
        label="Software of clients"
        .columns=${SOFTWARE}
        .rows=${software}
        .key=${(/** @type {any} */ row) => row.id}
        .local=${true}
        sort="-connections"
      ></data-table>
      <p class="muted below">
        All connections to the nodes, as each client named itself (KIP-511): also those of other nodes
        and of this console.
      </p>
    `;
  }

  /** @param {any} data */
  table({ clients, total, is_cut }) {
    return html`
      ${is_cut ? html`<p class="notice warn">Very many groups have members: some are not here.</p>` : null}
      <data-table
        label="Clients"
        .columns=${COLUMNS}
        .rows=${clients}
        .key=${(/** @type {any} */ row) => row.id}
        .empty=${this.query.search ? "No client is so" : "No group has a member now"}
        .sort=${this.query.sort ?? "client"}
        .page=${Number(this.query.page ?? 1)}
        .size=${SIZE}
        .total=${total}
        @query=${(/** @type {CustomEvent} */ e) => refine(e.detail)}
      ></data-table>
    `;
  }
}

const COLUMNS = [
  { key: "client", title: "Client id", sort: true, wide: true },
  { key: "host", title: "Host", sort: true },
  {
    key: "members",
    title: "Members",
    sort: true,
    descending: true,
    number: true,
    cell: (/** @type {any} */ row) => count(row.members),
    desk: true,
  },
  {
    key: "partitions",
    title: "Partitions",
    hint: "Partitions that are assigned to its members",
    sort: true,
    descending: true,
    number: true,
    cell: (/** @type {any} */ row) => count(row.partitions),
  },
  {
    key: "groups",
    title: "Groups",
    cell: (/** @type {any} */ row) =>
      html`${row.groups
        .slice(0, MOST_GROUPS)
        .map((/** @type {string} */ name) => html`<a class="badge" href=${link(["groups", name])}>${name}</a> `)}${
        row.group_count > MOST_GROUPS
          ? html`<span class="muted">and ${count(row.group_count - MOST_GROUPS)} more</span>`
          : null
      }`,
  },
];

const SOFTWARE = [
  { key: "name", title: "Name", sort: true, wide: true },
  { key: "version", title: "Version", sort: true },
  {
    key: "connections",
    title: "Connections",
    sort: true,
    descending: true,
    number: true,
    cell: (/** @type {any} */ row) => count(row.connections),
  },
  {
    key: "nodes",
    title: "Nodes",
    cell: (/** @type {any} */ row) => row.nodes.join(", "),
    desk: true,
  },
];

ClientsView.define("clients-view");

// @ts-check
/** Access: ACLs, what counts for one principal, client quotas, users with SCRAM passwords. */
import { choice } from "../js/choice.js";
import { count, counted } from "../js/format.js";
import { command } from "../js/command.js";
import { html } from "../js/render.js";
import { refine } from "../js/router.js";
import { View } from "../js/view.js";
import "../elements/data_table.js";
import "../elements/small.js";

const SIZE = 50;
const EVERY_S = 10;
const RESOURCES = [
  ["any", "any resource"],
  ...["topic", "group", "cluster", "transactional-id", "delegation-token", "user"].map((each) => [
    each,
    each,
  ]),
];
const TABS = [
  { id: "acls", title: "ACLs" },
  { id: "quotas", title: "Quotas" },
  { id: "users", title: "Users" },
];

class AccessView extends View {
  get tab() {
    return this.query.tab ?? "acls";
  }

  changed() {
    const { search, principal, resource, sort, page } = this.query;
    for (const { id } of TABS) if (id !== this.tab) this.unwatch(id);
    const common = { search, page, size: SIZE, every: EVERY_S };
    const query = this.tab === "acls" ? { ...common, principal, resource, sort } : common;
    this.watch(`/api/access/${this.tab}`, query, this.tab);
  }

  template() {
    const tab = this.tab;
    return html`
      <div class="head"><h1>Access</h1></div>
      <tab-bar
        label="Parts of access"
        .tabs=${TABS}
        .current=${tab}
        @tab=${(/** @type {CustomEvent} */ e) =>
          refine({ tab: e.detail === "acls" ? null : e.detail, page: null, search: null, sort: null, principal: null, resource: null })}
      ></tab-bar>
      <section role="tabpanel" aria-labelledby=${`tab-${tab}`}>
        <div class="tools">
          <search-box
            .value=${this.query.search ?? ""}
            label=${SEARCH[tab]}
            @find=${(/** @type {CustomEvent} */ e) => refine({ search: e.detail, page: null })}
          ></search-box>
          ${tab === "acls" ? this.filters() : null}
        </div>
        ${this.shown(tab, (data) =>
          tab === "acls" ? this.acls(data) : tab === "quotas" ? this.quotas(data) : this.users(data),
        )}
      </section>
    `;
  }

  filters() {
    const principals = (this.data.acls?.principals ?? []).map(
      (/** @type {any} */ { principal }) => [principal, `what counts for ${principal}`],
    );
    return html`
      ${choice("Principal", "principal", this.query.principal, [["", "every principal"], ...principals])}
      ${choice("Kind of resource", "resource", this.query.resource, RESOURCES)}
    `;
  }

  /** @param {any} data */
  acls({ acls, total, has_authorizer }) {
    if (!has_authorizer) {
      return html`<div class="card finding-none">
        <p>
          <b>This cluster has no authorizer.</b>
          <span class="muted">Everybody who reaches a broker may do everything.</span>
        </p>
      </div>`;
    }
    return html`<data-table
      label="ACLs"
      .columns=${ACLS}
      .rows=${acls}
      .key=${(/** @type {any} */ row) => row.id}
      .empty=${total || this.query.search || this.query.resource ? "No ACL is so" : "There is no ACL yet"}
      .sort=${this.query.sort ?? "principal"}
      .page=${Number(this.query.page ?? 1)}
      .size=${SIZE}
      .total=${total}
      @query=${(/** @type {CustomEvent} */ e) => refine(e.detail)}
    ></data-table>
    <p class="muted">An ACL that denies wins. They are changed by <code>${command("acls", "create")}</code>.</p>`;
  }

  /** @param {any} data */
  quotas({ quotas, total }) {
    return html`<data-table
      label="Quotas"
      .columns=${QUOTAS}
      .rows=${quotas}
      .empty=${this.query.search ? "No quota is so" : "There is no quota: clients take what they can"}
      .page=${Number(this.query.page ?? 1)}
      .size=${SIZE}
      .total=${total}
      @query=${(/** @type {CustomEvent} */ e) => refine(e.detail)}
    ></data-table>`;
  }

  /** @param {any} data */
  users({ users, total }) {
    return html`<data-table
      label="Users"
      .columns=${USERS}
      .rows=${users}
      .empty=${this.query.search ? "No user is called so" : "No user has a SCRAM password"}
      .page=${Number(this.query.page ?? 1)}
      .size=${SIZE}
      .total=${total}
      @query=${(/** @type {CustomEvent} */ e) => refine(e.detail)}
    ></data-table>`;
  }
}

/** @type {Record<string, string>} */
const SEARCH = { acls: "Find a resource or principal", quotas: "Find an entity", users: "Find a user" };

const ACLS = [
  { key: "principal", title: "Principal", sort: true },
  {
    key: "permission",
    title: "",
    cell: (/** @type {any} */ a) =>
      html`<status-dot
        .kind=${a.permission === "deny" ? "bad" : "good"}
        .text=${a.permission === "deny" ? "may not" : "may"}
      ></status-dot>`,
  },
  { key: "operation", title: "Operation", sort: true },
  {
    key: "resource",
    title: "Resource",
    sort: true,
    wide: true,
    cell: (/** @type {any} */ a) =>
      html`${a.resource} <b>${a.name}</b>${a.pattern === "prefixed" ? html` <span class="badge">prefix</span>` : null}`,
  },
  { key: "host", title: "From", desk: true, cell: (/** @type {any} */ a) => (a.host === "*" ? "anywhere" : a.host) },
];

const QUOTAS = [
  {
    key: "name",
    title: "Whose",
    wide: true,
    cell: (/** @type {any} */ q) =>
      Object.entries(q.entity).map(
        ([kind, name]) => html`<span class="muted">${kind}</span> <b>${name}</b> `,
      ),
  },
  {
    key: "values",
    title: "Quota",
    cell: (/** @type {any} */ q) =>
      Object.entries(q.values).map(
        ([key, value]) => html`<div>${key} <b>${count(/** @type {number} */ (value))}</b></div>`,
      ),
  },
];

const USERS = [
  { key: "name", title: "User", wide: true },
  {
    key: "credentials",
    title: "Passwords",
    cell: (/** @type {any} */ u) =>
      u.credentials.map(
        (/** @type {any} */ c) =>
          html`<div>${c.mechanism}, ${counted(c.iterations, "iteration")}</div>`,
      ),
  },
];

AccessView.define("access-view");

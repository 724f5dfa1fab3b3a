// @ts-check
/** Subjects of the schema registry; a new one is tried and registered. */
import { html } from "../js/render.js";
import { go, link, refine } from "../js/router.js";
import { View } from "../js/view.js";
import "../elements/data_table.js";
import "../elements/small.js";
import "./schema_form.js";

const SIZE = 50;
const EVERY_S = 10;

class SchemasView extends View {
  /** @type {Record<string, any>} */
  state = { isNew: false };

  changed() {
    const { search, sort, page } = this.query;
    this.watch("/api/schemas", { search, sort, page, size: SIZE, every: EVERY_S }, "schemas");
  }

  template() {
    const data = this.data.schemas;
    return html`
      <div class="head">
        <h1>Schemas</h1>
        ${
          data?.has_registry && !this.state.isNew
            ? html`<div class="buttons">
                <button class="primary" @click=${() => this.update({ isNew: true })}>
                  New subject
                </button>
              </div>`
            : null
        }
      </div>
      ${
        this.state.isNew
          ? html`<schema-form
              .url=${data?.url ?? ""}
              @done=${(/** @type {CustomEvent} */ e) => (e.detail ? go(["schemas", e.detail]) : this.update({ isNew: false }))}
            ></schema-form>`
          : null
      }
      ${this.shown("schemas", (found) => (found.has_registry ? this.subjects(found) : noRegistry(found)))}
    `;
  }

  /** @param {any} data */
  subjects({ subjects, total }) {
    return html`
      <div class="tools">
        <search-box
          .value=${this.query.search ?? ""}
          label="Find a subject"
          @find=${(/** @type {CustomEvent} */ e) => refine({ search: e.detail, page: null })}
        ></search-box>
      </div>
      <data-table
        label="Subjects"
        .columns=${COLUMNS}
        .rows=${subjects}
        .href=${(/** @type {any} */ row) => link(["schemas", row.name])}
        .empty=${this.query.search ? "No subject is so" : "No schema is registered yet"}
        .sort=${this.query.sort ?? "name"}
        .page=${Number(this.query.page ?? 1)}
        .size=${SIZE}
        .total=${total}
        @query=${(/** @type {CustomEvent} */ e) => refine(e.detail)}
      ></data-table>
    `;
  }
}

/** @param {any} data */
const noRegistry = ({ how }) => html`<div class="card finding-none">
  <p>
    <b>There is no schema registry here.</b>
    <span class="muted">${how[0].toUpperCase() + how.slice(1)}.</span>
  </p>
</div>`;

const COLUMNS = [
  { key: "name", title: "Subject", sort: true, wide: true },
  {
    key: "kind",
    title: "Kind",
    cell: (/** @type {any} */ row) => (row.kind ? html`<span class="badge">${row.kind}</span>` : "–"),
  },
  { key: "version", title: "Latest version", number: true },
  { key: "id", title: "Id", hint: "Id of the latest version's schema", number: true, desk: true },
];

SchemasView.define("schemas-view");

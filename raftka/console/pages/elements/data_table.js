// @ts-check
/** <data-table>: rows of data, sorted and paged by the server or, with `local`, here. */
import { count } from "../js/format.js";
import { Element } from "../js/element.js";
import { each, html } from "../js/render.js";

/**
 * @typedef {object} Column
 * @property {string} key of the row, and the name that `sort` has; "-key" is descending
 * @property {string} title
 * @property {(row: any) => unknown} [cell] the row's field without it
 * @property {boolean} [sort] a click on the title sorts
 * @property {boolean} [descending] the first click sorts downwards: for numbers whose largest is
 *   asked for
 * @property {boolean} [number] at the right, figures of one width
 * @property {boolean} [wide] takes the room that is left
 * @property {boolean} [desk] left out on a phone
 * @property {string} [hint] longer text of the title
 */

/**
 * Properties: `columns`, `rows`, `key` (row => unique value), `label` (for screen readers),
 * `empty` (text or template when there are no rows), `href` (row => link: the first column becomes
 * it), `sort`, `page` (from 1), `size`, `total` (rows of all pages), `local` (sort here: all rows
 * are given), `selectable`, `selected` (Set of keys), `detail` (row => template shown below the
 * row, or null).
 *
 * Events: `query` with {sort, page} asks for other rows: `@query=${(e) => refine(e.detail)}`;
 * `select` with the Set.
 * Keys: arrow up and down, Home and End move among the links of the rows.
 */
export class DataTable extends Element {
  static properties = {
    columns: [],
    rows: [],
    key: (/** @type {any} */ row) => row.name ?? row.id,
    label: "",
    empty: "Nothing here",
    href: null,
    sort: "",
    page: 1,
    size: 50,
    total: null,
    local: false,
    selectable: false,
    selected: null,
    detail: null,
  };

  template() {
    const self = this.props;
    /** @type {Column[]} */
    const columns = self.columns;
    const rows = self.local ? this.sorted(self.rows) : self.rows;
    const span = columns.length + (self.selectable ? 1 : 0);
    return html`
      <div class="table-scroll" role="group" aria-label=${self.label} tabindex="0">
        <table @keydown=${(/** @type {KeyboardEvent} */ e) => this.move(e)}>
          <thead>
            <tr>
              ${self.selectable ? html`<th class="pick">${this.pickAll(rows)}</th>` : null}${columns.map((c) => this.heading(c))}
            </tr>
          </thead>
          <tbody>
            ${each(rows, self.key, (row) => {
              const detail = self.detail?.(row);
              return html`<tr class=${detail ? "open" : ""}>
                  ${self.selectable ? html`<td class="pick">${this.pick(row)}</td>` : null}${columns.map((c, at) => this.cell(row, c, at))}
                </tr>
                ${
                  detail
                    ? html`<tr class="detail">
                        <td colspan=${span}>${detail}</td>
                      </tr>`
                    : null
                }`;
            })}
          </tbody>
        </table>
        ${rows.length ? null : html`<div class="empty">${self.empty}</div>`}
      </div>
      ${self.total ? this.pages() : null}
    `;
  }

  /** @param {Column} column */
  heading(column) {
    const sort = this.state.sort ?? this.props.sort;
    const isSorted = sort.replace(/^-/, "") === column.key;
    const kind = classes(column);
    if (!column.title) return html`<td class=${kind}></td>`; // of buttons
    if (!column.sort)
      return html`<th scope="col" class=${kind} title=${column.hint}>${column.title}</th>`;
    const direction = isSorted ? (sort[0] === "-" ? "descending" : "ascending") : null;
    return html`<th scope="col" class=${kind} aria-sort=${direction} title=${column.hint}>
      <button class="sort" @click=${() => this.sortBy(column, sort)}>
        ${column.title}<i aria-hidden="true"></i>
      </button>
    </th>`;
  }

  /** @param {Column} column @param {string} sort */
  sortBy(column, sort) {
    const first = column.descending ? `-${column.key}` : column.key;
    const second = column.descending ? column.key : `-${column.key}`;
    const next = sort === first ? second : first;
    if (this.props.local) this.update({ sort: next });
    else this.emit("query", { sort: next, page: null });
  }

  /** @param {any[]} rows */
  sorted(rows) {
    const sort = this.state.sort ?? this.props.sort;
    if (!sort) return rows;
    const key = sort.replace(/^-/, "");
    const sign = sort[0] === "-" ? -1 : 1;
    return [...rows].sort((a, b) => sign * compare(a[key], b[key]));
  }

  /** @param {any} row @param {Column} column @param {number} at */
  cell(row, column, at) {
    const href = at === 0 && this.props.href?.(row);
    const value = column.cell ? column.cell(row) : row[column.key];
    if (href)
      return html`<td class=${classes(column)}><a class="row-link" href=${href}>${value}</a></td>`;
    return html`<td class=${classes(column)}>${value ?? "–"}</td>`;
  }

  /** @param {any} row */
  pick(row) {
    const self = this.props;
    const key = self.key(row);
    return html`<input
      type="checkbox"
      aria-label=${`Choose ${key}`}
      .checked=${Boolean(self.selected?.has(key))}
      @change=${(/** @type {Event} */ e) => this.choose([key], /** @type {HTMLInputElement} */ (e.target).checked)}
    />`;
  }

  /** @param {any[]} rows */
  pickAll(rows) {
    const self = this.props;
    const keys = rows.map(self.key);
    const all = keys.length > 0 && keys.every((each) => self.selected?.has(each));
    return html`<input
      type="checkbox"
      aria-label="Choose all rows of this page"
      .checked=${all}
      @change=${(/** @type {Event} */ e) => this.choose(keys, /** @type {HTMLInputElement} */ (e.target).checked)}
    />`;
  }

  /** @param {unknown[]} keys @param {boolean} on */
  choose(keys, on) {
    const self = this.props;
    const next = new Set(self.selected ?? []);
    for (const key of keys) on ? next.add(key) : next.delete(key);
    self.selected = next;
    this.update();
    this.emit("select", next);
  }

  pages() {
    const { page, size, total, rows } = this.props;
    const last = Math.max(1, Math.ceil(total / size));
    const from = total ? (page - 1) * size + 1 : 0;
    const go = (/** @type {number} */ to) => () =>
      this.emit("query", { page: to === 1 ? null : to });
    return html`
      <div class="pages">
        <span aria-live="polite"
          >${count(from)}–${count(Math.max(0, from + rows.length - 1))} of ${count(total)}</span
        >
        ${
          last === 1
            ? null
            : html` <span class="buttons">
                <button
                  class="quiet small"
                  ?disabled=${page <= 1}
                  @click=${go(1)}
                  aria-label="First page"
                >
                  «
                </button>
                <button class="quiet small" ?disabled=${page <= 1} @click=${go(page - 1)}>
                  Previous
                </button>
                <span class="muted">page ${count(page)} of ${count(last)}</span>
                <button class="quiet small" ?disabled=${page >= last} @click=${go(page + 1)}>
                  Next
                </button>
                <button
                  class="quiet small"
                  ?disabled=${page >= last}
                  @click=${go(last)}
                  aria-label="Last page"
                >
                  »
                </button>
              </span>`
        }
      </div>
    `;
  }

  /** @param {KeyboardEvent} event */
  move(event) {
    const links = /** @type {HTMLElement[]} */ ([...this.querySelectorAll("tbody .row-link")]);
    const at = links.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    if (at < 0) return;
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: links.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    links[to]?.focus();
  }
}

/** @param {Column} column */
const classes = ({ number, wide, desk }) =>
  [number && "number", wide && "wide", desk && "desk"].filter(Boolean).join(" ") || null;

/** @param {any} a @param {any} b unknown values come last */
const compare = (a, b) => {
  if (a === b) return 0;
  if (a === null || a === undefined) return 1;
  if (b === null || b === undefined) return -1;
  return typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b;
};

DataTable.define("data-table");

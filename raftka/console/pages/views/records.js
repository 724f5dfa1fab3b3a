// @ts-check
/** The records of a topic: look at them from any place, search them, open one; write and import. */
import { ApiFailure, api, stream, watch } from "../js/api.js";
import { Element } from "../js/element.js";
import { bytes, count, counted, short, time } from "../js/format.js";
import { me } from "../js/me.js";
import { html } from "../js/render.js";
import { refine } from "../js/router.js";
import { problem, waiting } from "../js/view.js";
import { exportCommand, importRecords, writeRecord } from "./record_dialogs.js";
import "./record.js";
import "../elements/data_table.js";
import "../elements/small.js";

const STARTS = [
  ["end", "Newest"],
  ["begin", "Oldest"],
  ["offset", "Offset"],
  ["time", "Time"],
];
const PLACES = [
  ["any", "anywhere"],
  ["key", "in keys"],
  ["value", "in values"],
  ["headers", "in headers"],
];
/** What of the address is a search; the rest is a look. */
const FILTERS = ["text", "place", "case", "regex", "header", "path", "from", "to"];
const MOST = 100;
const BEFORE = 24; // characters that are shown in front of a searched text
const KEPT = 2000; // found records that stay in the page

/** <records-panel .topic=${name} .query=${of the address}> */
class RecordsPanel extends Element {
  static properties = { topic: "", query: {} };

  /** @type {Record<string, any>} */
  state = { live: true, more: false, search: null, typed: null, page: null, failure: null };
  #seen = "";
  #watched = "";
  #unwatch = () => {};
  #stop = () => {};

  get path() {
    return `/api/topics/${encodeURIComponent(this.props.topic)}`;
  }

  /** @type {Record<string, string>} */
  get place() {
    return this.props.query;
  }

  get isSearch() {
    return FILTERS.some((name) => name !== "place" && this.place[name]);
  }

  /** Begin or change what is watched or searched, after a change of the address. */
  changed() {
    const { at, back, partition } = this.place;
    const target = JSON.stringify([this.props.topic, this.props.query]);
    if (target === this.#seen) return;
    const before = this.#seen && JSON.parse(this.#seen);
    this.#seen = target;
    if (this.isSearch) {
      this.unwatch();
      // opening a record changes the address too
      if (!before || searchOf(before) !== searchOf(JSON.parse(target))) this.begin();
      return;
    }
    this.#stop();
    this.state.search = null;
    this.look({ ...this.scope(), at, back: back ? "true" : null, partition });
  }

  /** @param {import("../js/api.js").Query} query */
  look(query) {
    const target = JSON.stringify([this.path, query]);
    if (target === this.#watched) return;
    this.unwatch();
    this.#watched = target;
    this.#unwatch = watch(
      `${this.path}/records`,
      query,
      (page) => {
        // a partition that is left out comes when its leader answers again
        if (!this.state.live && !Object.keys(page.left_out).length) this.#unwatch();
        this.update({ page, failure: null });
      },
      (failure) => this.update({ failure }),
    );
  }

  unwatch() {
    this.#unwatch();
    this.#watched = "";
  }

  disconnected() {
    this.unwatch();
    this.#stop();
    this.#seen = "";
  }

  /** How records are read, for both looks and searches. */
  scope() {
    const { key_as, value_as, uncommitted } = this.place;
    return { key_as, value_as, committed: uncommitted ? "false" : null };
  }

  /** @returns {string} the query of a search or an export */
  searchQuery() {
    const place = this.place;
    const pairs = Object.entries({
      ...this.scope(),
      partition: place.partition,
      text: place.text,
      place: place.text ? place.place : null,
      case: place.case ? "true" : null,
      regex: place.regex ? "true" : null,
      from_ms: msOf(place.from),
      to_ms: msOf(place.to),
    });
    const query = new URLSearchParams();
    for (const [name, value] of pairs) if (value) query.append(name, String(value));
    for (const name of ["header", "path"])
      for (const line of (place[name] ?? "").split("\n"))
        if (line.trim()) query.append(name, line.trim());
    return query.toString();
  }

  /** @param {Record<string, number> | null} [positions] of an earlier search that goes on */
  begin(positions = null) {
    this.#stop();
    if (!this.state.partitions) this.askForPartitions();
    const old = positions ? this.state.search : null;
    /** @type {Record<string, any>} */
    const search = {
      rows: old?.rows ?? [],
      progress: null,
      done: null,
      failure: null,
      running: true,
      before: old?.found ?? 0,
      found: 0,
    };
    this.update({ search });
    this.#stop = stream(
      `${this.path}/search?${this.searchQuery()}&most=${MOST}`,
      {},
      {
        found: (/** @type {any[]} */ rows) => {
          search.rows = [...search.rows, ...rows].slice(0, KEPT);
          this.update();
        },
        progress: (progress) => {
          search.progress = progress;
          search.found = search.before + progress.found;
          this.update();
        },
        done: (done) => {
          search.done = done;
          this.update();
        },
        failure: (failure) => {
          search.failure = failure;
          this.update();
        },
        end: () => {
          search.running = false;
          if (!search.done && !search.failure)
            search.failure = new ApiFailure(0, "cut", "The search broke off.");
          this.update();
        },
      },
      { positions },
    );
  }

  /** A search does not say which there are. */
  async askForPartitions() {
    const page = await api.get(`${this.path}/records`, { size: 1 }).catch(() => null);
    if (page) this.update({ partitions: Object.keys(page.ends) });
  }

  stop() {
    this.#stop();
    const { search } = this.state;
    search.running = false;
    search.stopped = true;
    this.update();
  }

  template() {
    this.changed(); // the topic's page sets the address as a property
    return html`
      ${this.tools()} ${this.searchForm()} ${this.isSearch ? this.found() : this.looked()}
    `;
  }

  tools() {
    const { at, partition } = this.place;
    const [start, value] = startOf(at);
    const { page } = this.state;
    const partitions = (this.state.partitions ?? []).concat();
    if (!partitions.length) partitions.push(...Object.keys(page?.ends ?? {}));
    if (partition && !partitions.includes(partition)) partitions.push(partition);
    const isNewest = !at || at === "end";
    return html`
      <div class="tools records-tools">
        ${
          this.isSearch
            ? null
            : html`
                <label class="inline"
                  >From
                  <select @change=${(/** @type {any} */ e) => this.startAt(e.target.value)}>
                    ${STARTS.map(([id, title]) => html`<option value=${id} ?selected=${id === start}>${title}</option>`)}
                  </select></label
                >
                ${start === "offset" ? this.startInput("number", "Offset", value) : null}
                ${start === "time" ? this.startInput("datetime-local", "Time", value ? localTime(Number(value)) : "") : null}
              `
        }
        <label class="inline"
          >Partition
          <select
            @change=${(/** @type {any} */ e) => refine({ partition: e.target.value, at: isNewest ? null : at, back: null, open: null })}
          >
            <option value="" ?selected=${!partition}>All</option>
            ${partitions.map((/** @type {string} */ id) => html`<option value=${id} ?selected=${id === partition}>${id}</option>`)}
          </select></label
        >
        <label class="inline"
          ><input
            type="checkbox"
            .checked=${Boolean(this.place.uncommitted)}
            @change=${(/** @type {any} */ e) => refine({ uncommitted: e.target.checked ? "1" : null, at: null, back: null })}
          />
          Uncommitted too</label
        >
        ${
          isNewest && !this.isSearch
            ? html`<button
                class="quiet small"
                aria-pressed=${String(this.state.live)}
                @click=${() => this.switchLive()}
              >
                <i class="dot ${this.state.live ? "good" : ""}" aria-hidden="true"></i
                >${this.state.live ? "Live" : "Paused"}
              </button>`
            : null
        }
        <div class="buttons push">
          <a
            class="button"
            href=${`${this.path}/export?${this.searchQuery()}`}
            download
            title=${exportCommand(this.props.topic, this.place)}
            >Export</a
          >
          ${
            me.read_only
              ? null
              : html`
                  <button @click=${() => importRecords(this.props.topic)}>Import</button>
                  <button class="primary" @click=${() => writeRecord(this.props.topic)}>
                    New record
                  </button>
                `
          }
        </div>
      </div>
    `;
  }

  /** @param {string} type @param {string} label @param {string} value */
  startInput(type, label, value) {
    return html`<input
      type=${type}
      aria-label=${label}
      min="0"
      step=${type === "number" ? "1" : "0.001"}
      .value=${value}
      @change=${(/** @type {any} */ e) => {
        const given = type === "number" ? e.target.value : msOf(e.target.value);
        if (given !== "" && given !== null)
          refine({
            at: `${type === "number" ? "offset" : "time"}:${given}`,
            back: null,
            open: null,
          });
      }}
    />`;
  }

  /** @param {string} start */
  startAt(start) {
    const at = {
      end: null,
      begin: "begin",
      offset: "offset:0",
      time: `time:${Date.now() - 3600e3}`,
    }[start];
    refine({ at, back: null, open: null });
  }

  switchLive() {
    this.#seen = "";
    this.unwatch();
    this.update({ live: !this.state.live });
  }

  searchForm() {
    const place = this.place;
    const typed = this.state.typed ?? place;
    const more = this.state.more || ["header", "path", "from", "to"].some((name) => place[name]);
    const set = (/** @type {string} */ name) => (/** @type {any} */ e) => {
      const { type, checked, value } = e.target;
      this.state.typed = {
        ...(this.state.typed ?? place),
        [name]: type === "checkbox" ? (checked ? "1" : "") : value,
      };
    };
    return html`
      <form
        class="card record-search"
        role="search"
        @submit=${(/** @type {Event} */ e) => this.search(e)}
      >
        <div class="search-line">
          <input
            type="search"
            aria-label="Find in records"
            placeholder="Find in records"
            autocomplete="off"
            spellcheck="false"
            .value=${typed.text ?? ""}
            @input=${set("text")}
          />
          <select aria-label="Where" @change=${set("place")}>
            ${PLACES.map(([id, title]) => html`<option value=${id} ?selected=${id === (typed.place ?? "any")}>${title}</option>`)}
          </select>
          <label class="inline" title="Upper and lower case differ"
            ><input type="checkbox" .checked=${Boolean(typed.case)} @change=${set("case")} />
            Case</label
          >
          <label class="inline" title="The text is a regular expression"
            ><input type="checkbox" .checked=${Boolean(typed.regex)} @change=${set("regex")} />
            Regex</label
          >
          <button
            type="button"
            class="quiet"
            aria-expanded=${String(more)}
            aria-controls="search-more"
            @click=${() => this.update({ more: !more })}
          >
            More
          </button>
          <button class="primary">Search</button>
        </div>
        <div class="search-more" id="search-more" ?hidden=${!more}>
          <label
            >JSON path
            <textarea
              rows="2"
              spellcheck="false"
              placeholder=${'$.order.total > 100\n$.items[*].name contains "pear"'}
              .value=${typed.path ?? ""}
              @input=${set("path")}
            ></textarea>
          </label>
          <label
            >Headers
            <textarea
              rows="2"
              spellcheck="false"
              placeholder=${"trace=7\nerror"}
              .value=${typed.header ?? ""}
              @input=${set("header")}
            ></textarea>
          </label>
          <label
            >After
            <input
              type="datetime-local"
              step="0.001"
              .value=${typed.from ?? ""}
              @input=${set("from")}
          /></label>
          <label
            >Before
            <input type="datetime-local" step="0.001" .value=${typed.to ?? ""} @input=${set("to")}
          /></label>
        </div>
      </form>
    `;
  }

  /** @param {Event} event */
  search(event) {
    event.preventDefault();
    const typed = this.state.typed ?? this.place;
    this.state.typed = null;
    const patch = Object.fromEntries(FILTERS.map((name) => [name, typed[name] || null]));
    if (patch.place === "any") patch.place = null;
    const isSame =
      searchOf([this.props.topic, { ...this.place, ...patch }]) ===
      searchOf([this.props.topic, this.place]);
    if (isSame && this.isSearch) this.begin();
    else refine({ ...patch, open: null });
  }

  /** What a search has found so far. */
  found() {
    const { search } = this.state;
    if (!search) return null;
    const { progress, done, running, failure, stopped, rows } = search;
    const left = done?.why === "most" ? done.positions : null;
    return html`
      <div class="search-state" role="status" aria-live="polite">
        <div
          class="meter"
          role="progressbar"
          aria-label="Searched"
          aria-valuemin="0"
          aria-valuemax="100"
          aria-valuenow=${String(Math.floor(progress?.percent ?? 0))}
        >
          <i style=${{ width: `${progress?.percent ?? 0}%` }}></i>
        </div>
        <div class="search-line">
          <b>${counted(search.found, "record")} found</b>
          ${
            progress
              ? html`<span class="muted"
                  >${progress.percent} % · ${short(progress.records)} records and
                  ${bytes(progress.bytes)}
                  searched${running ? html`, ${short(progress.records_s)} records/s` : null}</span
                >`
              : null
          }
          <span class="buttons push">
            ${running ? html`<button class="small" @click=${() => this.stop()}>Stop</button>` : null}
            ${left ? html`<button class="small primary" @click=${() => this.begin(left)}>Go on</button>` : null}
            ${stopped ? html`<span class="badge warn">stopped</span>` : null}
            ${done?.why === "end" ? html`<span class="badge good">searched to the end</span>` : null}
            <button class="small quiet" @click=${() => this.clear()}>Clear</button>
          </span>
        </div>
        ${this.doubts(progress)}
      </div>
      ${failure ? problem(failure) : null}
      ${this.table(rows, running ? "Nothing found yet" : "No record matches")}
      ${rows.length >= KEPT ? html`<p class="notice">The first ${count(KEPT)} records are shown. Export has all.</p>` : null}
    `;
  }

  /** @param {any} progress what the search or the page could not look at */
  doubts(progress) {
    if (!progress) return null;
    const { unsearched, lost, unreadable, left_out = {} } = progress;
    const reasons = Object.entries(left_out).map(([id, why]) => `partition ${id} (${why})`);
    return html`
      ${reasons.length ? html`<p class="notice warn" role="status">Not read: ${reasons.join(", ")}</p>` : null}
      ${unsearched ? html`<p class="notice warn">${counted(unsearched, "record")} with long texts not searched by this expression: pip install raftka[regex] searches them.</p>` : null}
      ${lost ? html`<p class="notice warn">${counted(lost, "offset")} deleted before they were read.</p>` : null}
      ${unreadable?.length ? html`<p class="notice bad">Not readable: ${unreadable.join("; ")}</p>` : null}
    `;
  }

  clear() {
    this.#stop();
    this.state.search = null;
    this.state.typed = null;
    refine({ ...Object.fromEntries(FILTERS.map((name) => [name, null])), open: null });
  }

  looked() {
    const { page, failure } = this.state;
    if (!page) return failure ? problem(failure) : waiting();
    return html`${failure ? problem(failure) : null}${this.page(page)}`;
  }

  /** @param {any} page */
  page(page) {
    const isBack = this.place.back || !this.place.at || this.place.at === "end";
    const turn = (/** @type {string} */ at, /** @type {boolean} */ back) =>
      refine({ at, back: back ? "1" : null, open: null });
    const older = html`<button
      class="small"
      ?disabled=${!page.older}
      @click=${() => turn(page.older, true)}
    >
      Older
    </button>`;
    const newer = html`<button
      class="small"
      ?disabled=${!page.newer}
      @click=${() => turn(page.newer, false)}
    >
      Newer
    </button>`;
    const newest = html`<button
      class="small quiet"
      ?disabled=${!page.newer}
      @click=${() => refine({ at: null, back: null, open: null })}
    >
      Newest
    </button>`;
    return html`
      ${this.doubts(page)}${this.table(page.records, emptyText(page))}
      <div class="pages-alone">
        <span class="muted">${isBack ? "Newest first" : "Oldest first"}</span>
        <span class="buttons">${newest} ${newer} ${older}</span>
      </div>
    `;
  }

  /** @param {any[]} rows @param {unknown} empty */
  table(rows, empty) {
    const opened = this.place.open;
    return html`<data-table
      label="Records"
      .columns=${this.columns(opened)}
      .rows=${rows}
      .key=${placeOf}
      .empty=${empty}
      .detail=${(/** @type {any} */ row) =>
        placeOf(row) === opened
          ? html`<record-detail
              .topic=${this.props.topic}
              .record=${row}
              .keyAs=${this.place.key_as ?? "auto"}
              .valueAs=${this.place.value_as ?? "auto"}
            ></record-detail>`
          : null}
    ></data-table>`;
  }

  /** @param {string} opened */
  columns(opened) {
    const { text, regex } = this.place;
    const wanted = regex ? "" : text;
    return [
      {
        key: "timestamp",
        title: "Time",
        cell: (/** @type {any} */ row) =>
          html`<button
            class="row-link open-record"
            aria-expanded=${String(placeOf(row) === opened)}
            aria-label=${`Record ${row.offset} of partition ${row.partition}, ${time(row.timestamp)}`}
            @click=${() => refine({ open: placeOf(row) === opened ? null : placeOf(row) })}
          >
            ${row.timestamp < 0 ? "no time" : time(row.timestamp)}
          </button>`,
      },
      { key: "partition", title: "Part.", number: true, desk: true, hint: "Partition" },
      {
        key: "offset",
        title: "Offset",
        number: true,
        cell: (/** @type {any} */ row) => String(row.offset),
        desk: true,
      },
      { key: "key", title: "Key", cell: (/** @type {any} */ row) => cellOf(row.key, 40, wanted) },
      {
        key: "value",
        title: "Value",
        wide: true,
        cell: (/** @type {any} */ row) => cellOf(row.value, 240, wanted),
      },
    ];
  }
}

/** @param {any} page */
const emptyText = (page) =>
  Object.entries(page.ends).every(([id, end]) => end === page.begins[id])
    ? "This topic has no records"
    : "No records here: look at older or newer ones";

/** @param {any} row */
const placeOf = (row) => `${row.partition}-${row.offset}`;

/**
 * A key or value in one line; where a searched text stands, from a little before it on.
 * @param {any} part
 * @param {number} most characters
 * @param {string} [wanted]
 */
function cellOf(part, most, wanted = "") {
  if (part.kind === "null") return html`<span class="muted">null</span>`;
  if (part.kind === "masked")
    return html`<span class="badge" title=${part.problem ?? ""}>${part.text}</span>`;
  const whole = part.text.replace(/\s+/g, " ");
  const at = wanted ? whole.toLowerCase().indexOf(wanted.toLowerCase()) : -1;
  const start = at > BEFORE ? at - BEFORE : 0;
  const text = whole.slice(start, start + most);
  const end = start + most < whole.length || part.cut ? "…" : "";
  const [before, mark, after] =
    at < 0
      ? [text, "", ""]
      : [
          whole.slice(start, at),
          whole.slice(at, at + wanted.length),
          text.slice(at - start + wanted.length),
        ];
  return html`<span class="mono record-cell" title=${part.kind}
    >${part.kind === "hex" ? html`<span class="muted">0x</span>` : null}${start ? "…" : ""}${before}${mark ? html`<mark>${mark}</mark>` : null}${after}${end}</span
  >`;
}

/** The part of an address that is a search. @param {any[]} target topic and query */
const searchOf = ([topic, query]) =>
  JSON.stringify([
    topic,
    ...[...FILTERS, "partition", "uncommitted", "key_as", "value_as"].map(
      (name) => query[name] ?? "",
    ),
  ]);

/** @param {string | undefined} at @returns {[string, string]} */
function startOf(at) {
  const [kind, value = ""] = (at ?? "end").split(":", 2);
  return [kind === "at" ? "" : kind, value];
}

/** @param {string | null | undefined} text of an input for local times */
const msOf = (text) => {
  const ms = text ? new Date(text).getTime() : NaN;
  return Number.isNaN(ms) || ms < 0 ? null : ms;
};

/** @param {number} ms as an input for local times has it; of the address, so it may be no date */
const localTime = (ms) => {
  const local = new Date(ms - new Date(ms).getTimezoneOffset() * 60000);
  return Number.isNaN(local.getTime()) ? "" : local.toISOString().slice(0, 23);
};

RecordsPanel.define("records-panel");

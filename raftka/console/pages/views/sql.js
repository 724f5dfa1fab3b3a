// @ts-check
/** SQL on streams: statements and their answers, queries that go on, statements that run. */
import { api, stream } from "../js/api.js";
import { command } from "../js/command.js";
import { count, counted, duration, short } from "../js/format.js";
import { me } from "../js/me.js";
import { notice } from "../js/notice.js";
import { each, html } from "../js/render.js";
import { View } from "../js/view.js";
import { confirmChange } from "../elements/confirm_dialog.js";
import "../elements/data_table.js";
import "../elements/small.js";
import "./sql_editor.js";

const LIVE_ROWS = 200; // of an answer whose rows keep coming: the newest are shown
const NUMBERS = /^(tinyint|smallint|int|bigint|float|double|decimal)/i;

/**
 * @typedef {object} Answer
 * @property {string} text of the statement
 * @property {any[]} columns
 * @property {{number: number, values: any[]}[]} rows those that are shown
 * @property {number} total rows that have come
 * @property {boolean} isLive
 * @property {string} progress while it runs
 * @property {string} note
 * @property {import("../js/api.js").ApiFailure | null} failure
 */

class SqlView extends View {
  /** @type {Record<string, any>} */
  state = { answers: [], busy: false, words: [] };

  #stop = () => {};
  #wasReady = false;

  changed() {
    this.watch("/api/sql", {}, "sql", ({ state }) => {
      if ((state === "ready") !== this.#wasReady) this.loadWords();
      this.#wasReady = state === "ready";
    });
  }

  connected() {
    super.connected();
    this.loadWords();
  }

  disconnected() {
    super.disconnected();
    this.#stop();
  }

  loadWords() {
    if (me.read_only || !me.has_sql) return;
    api
      .get("/api/sql/words")
      .then(({ words }) => this.update({ words }))
      .catch(() => {}); // the page itself says why there is no SQL
  }

  template() {
    return html`
      <div class="head">
        <h1>SQL</h1>
        ${this.data.sql ? serverState(this.data.sql) : null}
      </div>
      ${this.shown("sql", (data) => this.page(data))}
    `;
  }

  /** @param {any} data */
  page({ state, message, queries, statements, failure }) {
    const { answers, busy, words } = this.state;
    return html`
      ${state === "failed" ? html`<p class="notice bad" role="alert">Spark did not start: ${message}</p>` : null}
      ${failure ? html`<p class="notice warn" role="status">${failure}</p>` : null}
      <div class="stack">
        ${
          me.read_only
            ? html`<p class="notice">This console is read-only: it runs no statements.</p>`
            : html`<sql-editor
                .words=${words}
                .busy=${busy}
                @run=${(/** @type {CustomEvent} */ e) => this.run(e.detail)}
                @stop=${() => this.end()}
              ></sql-editor>`
        }
        ${each(
          answers,
          (_, at) => at,
          (answer) => shownAnswer(answer),
        )}
        ${queries.length ? this.queries(queries) : null}
        ${statements.length ? this.statements(statements) : null}
      </div>
    `;
  }

  /** @param {string} text */
  run(text) {
    this.#stop();
    /** @type {Answer[]} */
    const answers = [];
    const last = () => answers[answers.length - 1];
    this.update({ answers, busy: true });
    this.#stop = stream(
      "/api/sql/run",
      {},
      {
        statement: ({ text }) => {
          answers.push(begun(text));
          this.update();
        },
        waiting: (told) => {
          last().progress = progress(told);
          this.update();
        },
        columns: ({ columns, is_live }) => {
          Object.assign(last(), { columns, isLive: is_live, progress: is_live ? "Rows come" : "" });
          this.update();
        },
        rows: (rows) => {
          add(last(), rows);
          this.update();
        },
        done: ({ note, rows, seconds }) => {
          const time = duration(seconds * 1000);
          const told = last().columns.length ? `${counted(rows, "row")} (${time})` : "";
          Object.assign(last(), { progress: "", note: joined(told, note) || `Done (${time})` });
          this.update();
        },
        failure: (failure) => {
          if (!answers.length) answers.push(begun(text));
          Object.assign(last(), { failure, progress: "" });
          this.update();
        },
        end: () => {
          this.update({ busy: false });
          this.loadWords();
        },
      },
      { text },
    );
  }

  /** End the statements that this page runs. */
  end() {
    this.#stop();
    const answer = this.state.answers.at(-1);
    if (answer?.progress) Object.assign(answer, { progress: "", note: "Stopped" });
    this.update({ busy: false });
  }

  /** @param {any[]} queries */
  queries(queries) {
    return html`<section class="card" aria-labelledby="sql-queries">
      <h2 id="sql-queries">Queries that go on</h2>
      <data-table
        label="Queries that go on"
        .columns=${me.read_only ? QUERIES : [...QUERIES, BUTTONS]}
        .rows=${queries}
        .detail=${(/** @type {any} */ q) => (q.error ? html`<p class="sql-error">${q.error}</p>` : null)}
      ></data-table>
    </section>`;
  }

  /** @param {any[]} statements */
  statements(statements) {
    return html`<section class="card" aria-labelledby="sql-statements">
      <h2 id="sql-statements">Statements that run</h2>
      <data-table
        label="Statements that run"
        .columns=${me.read_only ? STATEMENTS : [...STATEMENTS, END]}
        .rows=${statements}
        .key=${(/** @type {any} */ row) => row.id}
      ></data-table>
    </section>`;
  }
}

/** @param {string} text @returns {Answer} */
const begun = (text) => ({
  text,
  columns: [],
  rows: [],
  total: 0,
  isLive: false,
  progress: "Is sent",
  note: "",
  failure: null,
});

/** @param {Answer} answer @param {any[][]} rows */
function add(answer, rows) {
  const more = rows.map((values) => ({ number: ++answer.total, values }));
  const all = [...answer.rows, ...more];
  answer.rows = answer.isLive ? all.slice(-LIVE_ROWS) : all;
}

/** @param {string[]} parts */
const joined = (...parts) => parts.filter(Boolean).join("; ");

/** @param {any} told by the event `waiting` */
const progress = ({ state, seconds, message, statement_seconds }) => {
  if (state === "none") return "The SQL server starts";
  if (state === "failed") return `Spark did not start: ${message}`;
  if (state !== "ready") return `Spark starts: ${Math.round(seconds)} s`;
  return `Runs: ${Math.round(statement_seconds)} s`;
};

/** @param {any} data of the page */
const serverState = ({ state, seconds }) => {
  const [kind, text] = /** @type {Record<string, [string, string]>} */ ({
    none: ["idle", "No server yet: the first statement starts one"],
    idle: ["idle", "Spark is not started yet"],
    starting: ["warn", `Spark starts: ${seconds} s`],
    ready: ["good", "Spark runs"],
    failed: ["bad", "Spark did not start"],
    ended: ["idle", "The server ends"],
  })[state] ?? ["idle", state];
  return html`<status-dot kind=${kind} .text=${text}></status-dot>`;
};

/** @param {Answer} answer */
const shownAnswer = ({ text, columns, rows, total, isLive, progress, note, failure }) => html`
  <section class="card sql-answer" aria-label=${`Answer to ${text}`}>
    <pre class="sql-statement" tabindex="0" role="group" aria-label="Statement">${text}</pre>
    ${failure ? shownFailure(failure) : null}
    ${
      columns.length
        ? html`<data-table
            label="Rows of the answer"
            .columns=${columns.map(column)}
            .rows=${rows}
            .key=${(/** @type {any} */ row) => row.number}
            .empty=${progress ? "No row yet" : "No rows"}
          ></data-table>`
        : null
    }
    <p class="muted sql-note" role="status">
      ${progress}${isLive && total > rows.length ? ` (the last ${count(rows.length)} of ${count(total)})` : null}
      ${note}
    </p>
  </section>
`;

/** @param {any} column of an answer @param {number} at */
const column = ({ name, type }, at) => ({
  key: String(at),
  title: name || "(no name)",
  hint: type,
  number: NUMBERS.test(type),
  cell: (/** @type {any} */ { values }) =>
    values[at] === null ? null : html`<span class="sql-cell">${String(values[at])}</span>`,
});

/** @param {import("../js/api.js").ApiFailure} failure whose text may have a line with a caret */
const shownFailure = ({ message }) => {
  const [sentence, ...place] = message.split("\n");
  return html`<div class="problem" role="alert">
    <strong>${sentence}</strong>
    ${
      place.length
        ? html`<pre class="sql-place" tabindex="0" role="group" aria-label="The place">
${place.join("\n")}</pre
          >`
        : null
    }
  </div>`;
};

const KINDS = /** @type {Record<string, string>} */ ({ running: "good", failed: "bad" });
const QUERIES = [
  { key: "name", title: "Query" },
  {
    key: "state",
    title: "State",
    cell: (/** @type {any} */ q) =>
      html`<status-dot kind=${KINDS[q.state] ?? "idle"} .text=${q.state}></status-dot>`,
  },
  { key: "writes", title: "Writes" },
  { key: "rows", title: "Rows", number: true, cell: (/** @type {any} */ q) => count(q.rows) },
  {
    key: "rows_per_second",
    title: "Rows/s",
    number: true,
    cell: (/** @type {any} */ q) => short(q.rows_per_second),
  },
  {
    key: "lag",
    title: "Lag",
    hint: "Records that it has not read",
    number: true,
    cell: (/** @type {any} */ q) => count(q.lag),
  },
  {
    key: "lag_seconds",
    title: "Behind",
    number: true,
    cell: (/** @type {any} */ q) => (q.lag_seconds === null ? "–" : duration(q.lag_seconds * 1000)),
    desk: true,
  },
  { key: "failures", title: "Failures", number: true, desk: true },
  {
    key: "query",
    title: "Statement",
    wide: true,
    cell: (/** @type {any} */ q) => html`<span class="sql-cell mono">${q.query}</span>`,
  },
];

const ACTIONS = {
  PAUSE: "It stops between two batches, and goes on from there when it is resumed.",
  RESUME: "It goes on with the first record that it has not read.",
  TERMINATE: "It ends for good. Its rows stay in the topic.",
};

const BUTTONS = {
  key: "buttons",
  title: "",
  cell: (/** @type {any} */ { name, state }) =>
    state === "elsewhere"
      ? null
      : html`<span class="buttons">
          ${state === "paused" ? button("RESUME", name) : button("PAUSE", name)}
          ${button("TERMINATE", name)}
        </span>`,
};

/** @param {keyof typeof ACTIONS} action @param {string} name */
const button = (action, name) => {
  const word = `${action[0]}${action.slice(1).toLowerCase()}`;
  return html`<button
    class="quiet small"
    aria-label=${`${word} ${name}`}
    @click=${() => change(action, word, name)}
  >
    ${word}
  </button>`;
};

/** @param {keyof typeof ACTIONS} action @param {string} word @param {string} name */
async function change(action, word, name) {
  const answer = await confirmChange({
    title: `${word} ${name}?`,
    preview: html`<p>${ACTIONS[action]}</p>`,
    command: command("sql", "-e", `${action} ${name}`),
    action: `${word} the query`,
    danger: action === "TERMINATE",
    run: () => api.post(`/api/sql/queries/${encodeURIComponent(name)}`, { action }),
  });
  if (answer) notice(answer.note);
}

const STATEMENTS = [
  {
    key: "text",
    title: "Statement",
    wide: true,
    cell: (/** @type {any} */ row) => html`<span class="sql-cell mono">${row.text}</span>`,
  },
  {
    key: "seconds",
    title: "Runs for",
    number: true,
    cell: (/** @type {any} */ row) => duration(row.seconds * 1000),
  },
];

const END = {
  key: "buttons",
  title: "",
  cell: (/** @type {any} */ { id }) => html`<button
    class="quiet small"
    aria-label=${`End statement ${id}`}
    @click=${() =>
      api
        .delete(`/api/sql/statements/${encodeURIComponent(id)}`)
        .catch((failure) => notice(failure.message, "bad"))}
  >
    End
  </button>`,
};

SqlView.define("sql-view");

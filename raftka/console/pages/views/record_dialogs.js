// @ts-check
/** Changes of a topic's records: write one, copy one, import a file. Each has its preview. */
import { confirmChange } from "../elements/confirm_dialog.js";
import { api } from "../js/api.js";
import { command } from "../js/command.js";
import { bytes, count, counted } from "../js/format.js";
import { Element } from "../js/element.js";
import { notice } from "../js/notice.js";
import { html } from "../js/render.js";

/** @param {string} topic */
const pathOf = (topic) => `/api/topics/${encodeURIComponent(topic)}`;

/** The same as an export by the address's filter. @param {string} topic @param {Record<string, string>} place */
export function exportCommand(topic, place) {
  const grep = place.text
    ? ["--grep", place.regex ? place.text : place.text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")]
    : [];
  const partition = place.partition ? ["-p", place.partition] : [];
  return `${command("consume", topic, "--from", "start", "--exit-at-end", ...partition, ...grep, "-o", "json")} > records.jsonl`;
}

/** @param {string} topic */
export async function writeRecord(topic) {
  const record = await ask("record-editor", topic);
  if (!record) return;
  const done = await confirmChange({
    title: `Write a record to ${topic}?`,
    preview: html`
      <dl class="record-headers">
        <dt>Key</dt>
        <dd class="mono">${shown(record.key)}</dd>
        <dt>Value</dt>
        <dd class="mono">${shown(record.value)}</dd>
        <dt>Partition</dt>
        <dd>${record.partition ?? (record.key === null ? "any" : "that of the key")}</dd>
        ${record.headers.map(
          (/** @type {any} */ [name, value]) =>
            html`<dt>${name}</dt>
              <dd class="mono">${value}</dd>`,
        )}
      </dl>
    `,
    command: isFramed(record)
      ? `# with a schema: any producer with a registry`
      : `echo ${quoted(JSON.stringify(record))} | ${command("produce", topic, "-i", "json")}`,
    action: "Write",
    run: () => api.post(`${pathOf(topic)}/records`, record),
  });
  if (done) notice(`Written to partition ${done.partition} at offset ${done.offset}`);
}

/**
 * Copy a record to a topic that the user names, or send it again to its own.
 * @param {string} topic
 * @param {any} record
 * @param {string} to empty: it is asked for
 */
export async function copyRecord(topic, record, to) {
  const target = to || (await ask("topic-chooser", topic));
  if (!target) return;
  const { partition, offset } = record;
  const done = await confirmChange({
    title: to ? `Send the record again to ${topic}?` : `Copy the record to ${target}?`,
    preview: html`<p>
      Key, value and headers of offset ${String(offset)} in partition ${partition} of ${topic} are
      written to ${target}, ${to ? `partition ${partition}` : "the partition of its key"}, with the
      time of now.
    </p>`,
    command:
      command("consume", topic, "-p", partition, "--from", offset, "-n", 1, "-o", "json") +
      ` | ${to ? "" : "sed 's/\"partition\": [0-9]*, //' | "}${command("produce", target, "-i", "json")}`,
    action: to ? "Send again" : "Copy",
    run: () => api.post(`${pathOf(topic)}/copy`, { partition, offset, to: target }),
  });
  if (done) notice(`Written to ${done.topic}, partition ${done.partition}, offset ${done.offset}`);
}

/** @param {string} topic */
export async function importRecords(topic) {
  const lines = await ask("lines-chooser", topic);
  if (!lines) return;
  const done = await confirmChange({
    title: `Import records into ${topic}?`,
    preview: async () =>
      importPreview(await api.post(`${pathOf(topic)}/import`, { lines, preview: true })),
    command: `${command("produce", topic, "-i", "json")} < records.jsonl`,
    action: "Import",
    run: () => api.post(`${pathOf(topic)}/import`, { lines, preview: false }),
  });
  if (done) notice(`${counted(done.sent, "record")} written to ${topic}`);
}

/** @param {any} found */
function importPreview(found) {
  if (found.wrong_lines)
    return html`
      <p class="notice bad">
        ${counted(found.wrong_lines, "line")} can not be read; nothing is written before all can.
      </p>
      <ul>
        ${found.errors.map((/** @type {any} */ each) => html`<li><b>Line ${each.line}</b> ${each.message}</li>`)}
      </ul>
    `;
  return html`
    <p>
      ${counted(found.records, "record")} with ${bytes(found.bytes)} to
      ${counted(Object.keys(found.partitions).length, "partition")}.
    </p>
    <pre class="record-text" tabindex="0">${found.first.join("\n")}</pre>
  `;
}

/** @param {any} part */
const shown = (part) =>
  part === null
    ? html`<span class="muted">null</span>`
    : typeof part === "string"
      ? part.slice(0, 500)
      : JSON.stringify(part).slice(0, 500);

/** @param {any} record */
const isFramed = (record) =>
  [record.key, record.value].some((part) => part !== null && typeof part === "object");

/** @param {string} text */
const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

/**
 * Ask in a dialog of its own.
 * @param {string} tag
 * @param {string} topic
 * @returns {Promise<any>} null when the user said no
 */
function ask(tag, topic) {
  const dialog = /** @type {Asking} */ (document.createElement(tag));
  dialog.state.topic = topic;
  document.body.append(dialog);
  dialog.querySelector("dialog")?.showModal();
  return new Promise((resolve) =>
    dialog.querySelector("dialog")?.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.state.given ?? null);
    }),
  );
}

/** A dialog that gives what `read` returns; what it throws is shown. */
class Asking extends Element {
  /** @type {Record<string, any>} */
  state = { topic: "", given: null, error: "" };
  question = "";
  action = "Preview";

  template() {
    return html`
      <dialog aria-labelledby="asking-title">
        <form @submit=${(/** @type {Event} */ e) => this.give(e)}>
          <h2 id="asking-title">${this.question}</h2>
          ${this.fields()}
          <p class="field-error" role="alert">${this.state.error}</p>
          <div class="buttons">
            <button type="button" class="quiet" @click=${() => this.close()}>Cancel</button>
            <button class="primary">${this.action}</button>
          </div>
        </form>
      </dialog>
    `;
  }

  /** @returns {unknown} */
  fields() {
    return null;
  }

  /** @param {FormData} _form @returns {Promise<any>} */
  async read(_form) {
    return null;
  }

  close() {
    this.querySelector("dialog")?.close();
  }

  /** @param {Event} event */
  async give(event) {
    event.preventDefault();
    try {
      this.state.given = await this.read(
        new FormData(/** @type {HTMLFormElement} */ (event.target)),
      );
      this.close();
    } catch (error) {
      this.update({ error: /** @type {Error} */ (error).message });
    }
  }
}

class RecordEditor extends Asking {
  question = "New record";

  fields() {
    return html`
      <label>Key <textarea name="key" rows="2" spellcheck="false"></textarea></label>
      <label class="inline"
        ><input type="checkbox" name="no-key" checked /> An empty key is no key</label
      >
      <label>Value <textarea name="value" rows="7" spellcheck="false"></textarea></label>
      <label class="inline"
        ><input type="checkbox" name="no-value" /> Null value: a tombstone</label
      >
      <label
        >Headers, a line each: name=value
        <textarea name="headers" rows="2" spellcheck="false"></textarea>
      </label>
      <div class="split">
        <label
          >Partition <input type="number" name="partition" min="0" placeholder="by the key"
        /></label>
        <label
          >Schema of the value
          <input type="number" name="schema" min="0" placeholder="id in the registry"
        /></label>
      </div>
    `;
  }

  /** @param {FormData} form */
  async read(form) {
    const text = (/** @type {string} */ name) => String(form.get(name) ?? "");
    const headers = text("headers")
      .split("\n")
      .filter((line) => line.trim())
      .map((line) => {
        const at = line.indexOf("=");
        if (at < 1) throw new Error(`${line} is not name=value`);
        return [line.slice(0, at).trim(), line.slice(at + 1)];
      });
    const key = form.get("no-key") && !text("key") ? null : text("key");
    return {
      key,
      value: form.get("no-value") ? null : valueOf(text("value"), text("schema")),
      headers,
      partition: text("partition") === "" ? null : Number(text("partition")),
    };
  }
}

/** @param {string} text @param {string} schema */
function valueOf(text, schema) {
  if (schema === "") return text;
  try {
    return { schema_id: Number(schema), json: JSON.parse(text) };
  } catch {
    throw new Error("With a schema the value is JSON");
  }
}

class TopicChooser extends Asking {
  question = "Copy the record";

  fields() {
    return html`<label
      >To the topic <input name="to" required autocomplete="off" spellcheck="false"
    /></label>`;
  }

  /** @param {FormData} form */
  async read(form) {
    return String(form.get("to")).trim();
  }
}

class LinesChooser extends Asking {
  question = "Import records";

  fields() {
    return html`
      <p class="muted">
        Lines of JSON as <code>raftka consume -o json</code> and Export write them.
      </p>
      <label>A file <input type="file" name="file" accept=".jsonl,.json,.ndjson,.txt" /></label>
      <label
        >or lines
        <textarea
          name="lines"
          rows="6"
          spellcheck="false"
          placeholder=${'{"key": "k", "value": "v"}'}
        ></textarea>
      </label>
    `;
  }

  /** @param {FormData} form */
  async read(form) {
    const file = /** @type {File} */ (form.get("file"));
    const lines = file?.size ? await file.text() : String(form.get("lines"));
    if (!lines.trim()) throw new Error("Choose a file, or give lines");
    if (lines.length > MOST_CHARACTERS)
      throw new Error(
        `At most ${count(MOST_CHARACTERS)} characters at once; raftka produce takes more`,
      );
    return lines;
  }
}

const MOST_CHARACTERS = 12e6;

RecordEditor.define("record-editor");
TopicChooser.define("topic-chooser");
LinesChooser.define("lines-chooser");

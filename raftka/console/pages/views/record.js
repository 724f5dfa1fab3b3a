// @ts-check
/** <record-detail>: one record as a whole, in the formats that the user chooses. */
import { api } from "../js/api.js";
import { command } from "../js/command.js";
import { bytes, time } from "../js/format.js";
import { me } from "../js/me.js";
import { html } from "../js/render.js";
import { refine } from "../js/router.js";
import { Element } from "../js/element.js";
import { problem } from "../js/view.js";
import { copyRecord } from "./record_dialogs.js";
import { WrittenNumber } from "../elements/small.js";

const FORMATS = [
  ["auto", "Found by itself"],
  ["json", "JSON"],
  ["text", "Text"],
  ["msgpack", "MessagePack"],
  ["hex", "Hexadecimal"],
];
const NAMES = /** @type {Record<string, string>} */ ({
  json: "JSON",
  text: "text",
  hex: "hexadecimal",
  avro: "Avro",
  protobuf: "Protobuf",
  msgpack: "MessagePack",
  masked: "masked",
  null: "null",
});

class RecordDetail extends Element {
  static properties = { topic: "", record: null, keyAs: "auto", valueAs: "auto" };

  /** @type {Record<string, any>} */
  state = { whole: null, failure: null };
  #asked = "";

  /** Ask for the record as a whole: lists have long texts cut. */
  async load() {
    const { topic, record, keyAs, valueAs } = this.props;
    const path = `/api/topics/${encodeURIComponent(topic)}/records/${record.partition}/${record.offset}`;
    const target = JSON.stringify([path, keyAs, valueAs]);
    if (target === this.#asked) return;
    this.#asked = target;
    try {
      const whole = await api.get(path, { key_as: keyAs, value_as: valueAs });
      if (this.#asked === target) this.update({ whole, failure: null });
    } catch (failure) {
      if (this.#asked === target) this.update({ failure });
    }
  }

  template() {
    this.load();
    const { topic } = this.props;
    const record = this.state.whole ?? this.props.record;
    const where = command(
      "consume",
      topic,
      "-p",
      record.partition,
      "--from",
      record.offset,
      "-n",
      1,
      "-o",
      "json",
    );
    return html`
      <div
        class="record"
        role="group"
        aria-label=${`Record ${record.offset} of partition ${record.partition}`}
      >
        ${this.state.failure ? problem(this.state.failure) : null}
        <div class="search-line">
          <span class="muted"
            >partition ${record.partition}, offset ${String(record.offset)},
            ${record.timestamp < 0 ? "no time" : time(record.timestamp)},
            ${bytes(record.size)}</span
          >
          <span class="buttons push">
            ${
              me.read_only
                ? null
                : html`
                    <button class="small" @click=${() => copyRecord(topic, record, topic)}>
                      Send again
                    </button>
                    <button class="small" @click=${() => copyRecord(topic, record, "")}>
                      Copy to a topic
                    </button>
                  `
            }
          </span>
        </div>
        ${this.section("Key", record.key, "key_as", this.props.keyAs)}
        ${this.section("Value", record.value, "value_as", this.props.valueAs)}
        ${record.headers.length ? headers(record) : null}
        <command-line .command=${where}></command-line>
      </div>
    `;
  }

  /** @param {string} title @param {any} part @param {string} name of the address @param {string} chosen */
  section(title, part, name, chosen) {
    return html`
      <section class="record-part">
        <div class="search-line">
          <h2>${title}</h2>
          <span class="badge accent">${NAMES[part.kind]}</span>
          ${part.schema_id === undefined ? null : html`<span class="badge">schema ${part.schema_id}</span>`}
          ${part.size === null ? null : html`<span class="muted">${bytes(part.size)}</span>`}
          <span class="buttons push">
            <select
              class="small"
              aria-label=${`${title} as`}
              @change=${(/** @type {any} */ e) => refine({ [name]: e.target.value === "auto" ? null : e.target.value })}
            >
              ${FORMATS.map(([id, text]) => html`<option value=${id} ?selected=${id === chosen}>${text}</option>`)}
            </select>
            ${part.kind === "null" ? null : html`<copy-button .text=${part.text}></copy-button>`}
          </span>
        </div>
        ${part.problem ? html`<p class="muted">${part.problem}</p>` : null} ${content(part)}
        ${part.cut ? html`<p class="muted">The rest is left out: consume or export has it.</p>` : null}
      </section>
    `;
  }
}

/** @param {any} part */
function content(part) {
  if (part.kind === "null") return html`<p class="muted">null</p>`;
  const value = part.cut ? undefined : parsed(part);
  if (value !== undefined) return html`<json-tree .value=${value} .depth=${3}></json-tree>`;
  return html`<pre class="record-text" tabindex="0">${part.text}</pre>`;
}

/** The value with structure; its numbers stay as they are written. @param {any} part */
function parsed(part) {
  if (!["json", "avro", "protobuf", "msgpack"].includes(part.kind)) return undefined;
  try {
    return JSON.parse(part.text, keepNumber);
  } catch {
    return undefined; // NaN and the like: JSON of others, not of browsers; or a number is rounded
  }
}

/**
 * @param {string} _
 * @param {unknown} value
 * @param {{source?: string}} [context]
 */
function keepNumber(_, value, context) {
  if (typeof value !== "number" || String(value) === context?.source) return value;
  if (context?.source) return new WrittenNumber(context.source);
  // a browser that does not tell how it is written
  if (!Number.isSafeInteger(value)) throw new RangeError("it may be rounded");
  return value;
}

/** @param {any} record */
const headers = (record) => html`
  <section class="record-part">
    <h2>Headers</h2>
    <dl class="record-headers">
      ${record.headers.map(
        (/** @type {any} */ header) =>
          html`<dt class="mono">${header.name}</dt>
            <dd class="mono">
              ${header.kind === "null" ? html`<span class="muted">null</span>` : header.text}${header.cut ? "…" : ""}
            </dd>`,
      )}
    </dl>
    ${record.more_headers ? html`<p class="muted">and ${record.more_headers} more</p>` : null}
  </section>
`;

RecordDetail.define("record-detail");

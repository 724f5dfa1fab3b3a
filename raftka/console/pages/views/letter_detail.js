// @ts-check
/** <letter-detail .topic=${...} .place=${{partition, offset}}>: one dead letter in full, to be edited and sent again. */
import { api } from "../js/api.js";
import { Element } from "../js/element.js";
import { indented, time } from "../js/format.js";
import { me } from "../js/me.js";
import { html } from "../js/render.js";
import { link } from "../js/router.js";
import { problem, waiting } from "../js/view.js";
import { askForRedrive } from "./redrive_dialog.js";
import "../elements/small.js";

class LetterDetail extends Element {
  static properties = { topic: "", place: null };

  /** @type {Record<string, any>} */
  state = { letter: null, failure: null, edited: null };
  #asked = "";

  async load() {
    const { topic, place } = this.props;
    const path = `/api/dead-letters/topics/${encodeURIComponent(topic)}/letters/${place.partition}/${place.offset}`;
    if (path === this.#asked) return;
    this.#asked = path;
    try {
      const letter = await api.get(path);
      if (path === this.#asked) this.update({ letter, failure: null, edited: null });
    } catch (failure) {
      if (path === this.#asked) this.update({ failure });
    }
  }

  template() {
    this.load();
    const { letter, failure, edited } = this.state;
    if (failure) return problem(failure);
    if (!letter) return waiting();
    return html`<div class="letter">
      <dl class="letter-facts">
        ${fact("Failure", html`<b>${letter.kind}</b>`)} ${fact("Message", letter.message || "–")}
        ${fact("From", from(letter.origin))} ${fact("Written by", letter.convention ?? "unknown")}
        ${Object.entries(letter.details).map(([name, text]) => fact(name, text))}
        ${letter.redriven_times ? fact("Sent again before", `${letter.redriven_times} times`) : null}
      </dl>
      ${
        letter.stack
          ? html`<details>
              <summary>Stack</summary>
              <pre tabindex="0" class="stack-trace">${letter.stack}</pre>
            </details>`
          : null
      }
      ${edited ? this.editor(edited) : this.content(letter)}
      <details>
        <summary>${letter.headers.length} headers</summary>
        <table>
          <tbody>
            ${letter.headers.map(
              (/** @type {any} */ each) =>
                html`<tr>
                  <th scope="row">${each.name}</th>
                  <td class="wide mono">${each.text ?? "null"}</td>
                </tr>`,
            )}
          </tbody>
        </table>
      </details>
      ${me.read_only ? null : this.buttons(letter)}
    </div>`;
  }

  /** @param {any} letter */
  content(letter) {
    if (letter.lacks_content) {
      return html`<p class="notice">
        The letter refers to its record and has no copy of it: the record itself is sent.
      </p>`;
    }
    return html`<dl class="letter-facts">
      ${fact("Key", block(letter.key))} ${fact("Value", block(letter.value))}
    </dl>`;
  }

  /** @param {any} edited */
  editor(edited) {
    return html`<div class="stack">
      ${["key", "value"].map((name) =>
        edited[name] === undefined
          ? html`<p class="muted">The ${name} is no text that could be edited: it stays.</p>`
          : html`<label
              >${name === "key" ? "Key" : "Value"}
              <textarea
                rows=${name === "key" ? "1" : "8"}
                spellcheck="false"
                .value=${edited[name]}
                @input=${(/** @type {any} */ e) => (edited[name] = e.target.value)}
              ></textarea>
            </label>`,
      )}
    </div>`;
  }

  /** @param {any} letter */
  buttons(letter) {
    const { edited } = this.state;
    const { key, value } = letter.edit;
    return html`<div class="buttons">
      <button class="primary" @click=${() => this.send(letter)}>
        ${edited ? "Send the edited record" : "Send again"}
      </button>
      ${
        edited
          ? html`<button class="quiet" @click=${() => this.update({ edited: null })}>
              Leave it as it is
            </button>`
          : html`<button
              ?disabled=${key === null && value === null}
              @click=${() => this.update({ edited: { key: key ?? undefined, value: value ?? undefined } })}
            >
              Edit
            </button>`
      }
    </div>`;
  }

  /** @param {any} letter */
  send(letter) {
    const { edited } = this.state;
    /** @type {Record<string, string>} */
    const changed = {};
    for (const name of ["key", "value"]) {
      if (edited && edited[name] !== undefined && edited[name] !== letter.edit[name])
        changed[name] = edited[name];
    }
    return askForRedrive(this.props.topic, {
      offsets: [[letter.partition, letter.offset]],
      edited: changed,
    });
  }
}

/** @param {string} name @param {unknown} value */
const fact = (name, value) =>
  html`<div>
    <dt>${name}</dt>
    <dd>${value}</dd>
  </div>`;

/** @param {any} value */
const block = (value) =>
  value.text === null
    ? html`<span class="muted">null</span>`
    : html`<pre class="mono" tabindex="0">${pretty(value)}</pre>`;

/** @param {any} value */
function pretty({ kind, text, is_cut }) {
  if (is_cut || kind !== "json") return `${text}${is_cut ? "…" : ""}`;
  return indented(text);
}

/** @param {any} origin */
const from = (origin) => {
  if (!origin) return html`<span class="muted">unknown</span>`;
  const { topic, partition, offset, timestamp_ms } = origin;
  return html`<a href=${link(["topics", topic])}>${topic}</a>${
      partition === null ? "" : `, partition ${partition}`
    }${offset === null ? "" : `, offset ${offset}`}${timestamp_ms === null ? "" : `, ${time(timestamp_ms)}`}`;
};

LetterDetail.define("letter-detail");

// @ts-check
/**
 * <schema-form .subject=${name} .kind=${"AVRO"} .text=${schema} @done=${...}>: a schema is tried
 * against the subject's level, then registered. Without a subject the form asks for its name. The
 * detail of `done` is the subject, or null when the user gave up.
 */
import { confirmChange } from "../elements/confirm_dialog.js";
import { api } from "../js/api.js";
import { shell } from "../js/command.js";
import { Element } from "../js/element.js";
import { me } from "../js/me.js";
import { notice } from "../js/notice.js";
import { html } from "../js/render.js";
import { problem } from "../js/view.js";

const KINDS = ["AVRO", "JSON", "PROTOBUF"];
const MEDIA = "Content-Type: application/vnd.schemaregistry.v1+json";

class SchemaForm extends Element {
  static properties = { subject: "", kind: "AVRO", text: "", url: "", references: [] };

  /** @type {Record<string, any>} */
  state = { name: "", kind: "", schema: null, references: null, tried: null, failure: null, busy: false };

  get asked() {
    const { subject, kind, text, references } = this.props;
    const { state } = this;
    const lines = state.references ?? referencesAsText(references);
    return {
      subject: subject || state.name.trim(),
      body: {
        schema: state.schema ?? text,
        kind: state.kind || kind,
        references: readReferences(lines),
      },
    };
  }

  template() {
    const { subject, text, kind, references } = this.props;
    const { state } = this;
    return html`
      <form
        class="card"
        aria-label=${subject ? "New version" : "New subject"}
        @submit=${(/** @type {Event} */ e) => this.try(e)}
      >
        <div class="body form">
          ${
            subject
              ? null
              : html`<label
                  >Subject
                  <input
                    required
                    autocomplete="off"
                    spellcheck="false"
                    placeholder="orders-value"
                    @input=${(/** @type {any} */ e) => this.change({ name: e.target.value })}
                /></label>`
          }
          <label
            >Kind
            <select @change=${(/** @type {any} */ e) => this.change({ kind: e.target.value })}>
              ${KINDS.map((each) => html`<option value=${each} .selected=${each === (state.kind || kind)}>${each}</option>`)}
            </select>
          </label>
          <label class="whole"
            >Schema
            <textarea
              rows="12"
              required
              spellcheck="false"
              .value=${state.schema ?? text}
              @input=${(/** @type {any} */ e) => this.change({ schema: e.target.value })}
            ></textarea>
          </label>
          <label class="whole"
            >References, one NAME SUBJECT VERSION a line
            <textarea
              rows="2"
              spellcheck="false"
              .value=${state.references ?? referencesAsText(references)}
              @input=${(/** @type {any} */ e) => this.change({ references: e.target.value })}
            ></textarea>
          </label>
          <div class="whole stack" aria-live="polite">
            ${state.failure ? problem(state.failure) : null}
            ${state.tried ? outcome(state.tried) : null}
          </div>
          <div class="buttons whole">
            <button class=${state.tried ? "" : "primary"} ?disabled=${state.busy}>Try it</button>
            ${
              state.tried?.compatible && state.tried.known_version === null && !me.read_only
                ? html`<button type="button" class="primary" @click=${() => this.register()}>
                    Register
                  </button>`
                : null
            }
            <button type="button" class="quiet" @click=${() => this.emit("done", null)}>
              Cancel
            </button>
          </div>
        </div>
      </form>
    `;
  }

  /** What was tried is not what the form has now. @param {Record<string, string>} patch */
  change(patch) {
    this.update({ ...patch, tried: null, failure: null });
  }

  /** @param {Event} event */
  async try(event) {
    event.preventDefault();
    this.update({ busy: true, failure: null, tried: null });
    const { state } = this;
    const before = [state.name, state.kind, state.schema, state.references].join("\n");
    try {
      const { subject, body } = this.asked;
      const tried = await api.post(`${pathOf(subject)}/try`, body);
      // the user may have typed on while the registry judged
      const after = [state.name, state.kind, state.schema, state.references].join("\n");
      this.update({ busy: false, tried: after === before ? tried : null });
    } catch (failure) {
      this.update({ busy: false, failure });
    }
  }

  async register() {
    const { subject, body } = this.asked;
    const { tried } = this.state;
    const done = await confirmChange({
      title: `Register a schema under ${subject}?`,
      preview: outcome(tried),
      command: shell(
        "curl",
        "-X",
        "POST",
        "-H",
        MEDIA,
        `${this.props.url}/subjects/${encodeURIComponent(subject)}/versions`,
        "-d",
        JSON.stringify(tried.document),
      ),
      action: "Register",
      run: () => api.post(`${pathOf(subject)}/versions`, body),
    });
    if (done) {
      notice(`${subject} has version ${done.version}, id ${done.id}`);
      this.emit("done", subject);
    }
  }
}

/** @param {string} subject */
export const pathOf = (subject) => `/api/schemas/${encodeURIComponent(subject)}`;

/** @param {any[]} references */
const referencesAsText = (references) =>
  references.map(({ name, subject, version }) => `${name} ${subject} ${version}`).join("\n");

/**
 * @param {string} text
 * @throws {Error} with what is wrong
 */
function readReferences(text) {
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean)
    .map((line) => {
      const [name, subject, version, ...more] = line.split(/\s+/);
      if (more.length || !/^[1-9]\d*$/.test(version ?? ""))
        throw new Error(`${line} is not NAME SUBJECT VERSION`);
      return { name, subject, version: Number(version) };
    });
}

/** What a try has found. @param {any} tried */
const outcome = (tried) => html`
  ${
    tried.known_version !== null
      ? html`<p class="notice">This schema is version ${tried.known_version} already.</p>`
      : tried.latest_version === null
        ? html`<p class="notice">The subject is new: this is its first version.</p>`
        : tried.compatible
          ? html`<p class="notice">
              It goes with the level ${tried.compatibility}. Compared with version
              ${tried.latest_version}:
            </p>`
          : html`<div class="notice bad">
              <b>It does not go with the level ${tried.compatibility}</b>
              <ul>
                ${tried.reasons.map((/** @type {string} */ why) => html`<li class="name">${why}</li>`)}
              </ul>
            </div>`
  }
  ${tried.known_version === null ? lines(tried.lines, "The schema, with what differs") : null}
`;

const MARKS = { same: " ", old: "-", new: "+" };

/** Lines of schemas. @param {{kind: "same" | "old" | "new", text: string}[]} all @param {string} label */
export const lines = (all, label) => html`<pre
  class="schema"
  role="group"
  aria-label=${label}
  tabindex="0"
>${all.map(({ kind, text }) => {
  const line = `${MARKS[kind]} ${text}\n`;
  if (kind === "same") return html`<span>${line}</span>`;
  return kind === "old" ? html`<del>${line}</del>` : html`<ins>${line}</ins>`;
})}</pre>`;

SchemaForm.define("schema-form");

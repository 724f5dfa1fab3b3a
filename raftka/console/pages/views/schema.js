// @ts-check
/** One subject: its versions, what differs between two, and a new version. */
import { count } from "../js/format.js";
import { html } from "../js/render.js";
import { link, refine } from "../js/router.js";
import { View } from "../js/view.js";
import "../elements/small.js";
import { lines, pathOf } from "./schema_form.js";

const EVERY_S = 10;

class SchemaView extends View {
  /** @type {Record<string, any>} */
  state = { isNew: false };

  get path() {
    return pathOf(this.params.subject);
  }

  get version() {
    return Number(this.query.version) || this.data.subject?.versions.at(-1);
  }

  changed() {
    this.watch(this.path, {}, "subject", () => this.watchVersion());
    this.watchVersion();
  }

  watchVersion() {
    const { version } = this;
    if (!version) return;
    this.watch(`${this.path}/versions/${version}`, { every: EVERY_S }, "version");
    const old = Number(this.query.old);
    if (old)
      this.watch(`${this.path}/difference`, { old, new: version, every: EVERY_S }, "difference");
    else this.unwatch("difference");
  }

  template() {
    const { subject } = this.params;
    return html`
      <p class="crumbs"><a href="#/schemas">Schemas</a></p>
      <div class="head">
        <h1 class="name">${subject}</h1>
        ${
          this.data.version && !this.state.isNew
            ? html`<div class="buttons">
                <button @click=${() => this.update({ isNew: true })}>New version</button>
              </div>`
            : null
        }
      </div>
      <div class="stack">
        ${this.state.isNew ? this.form() : null}
        ${this.shown("subject", (data) => this.subject(data))}
      </div>
    `;
  }

  form() {
    const { kind, text, references } = this.data.version;
    return html`<schema-form
      .subject=${this.params.subject}
      .kind=${kind}
      .text=${text}
      .references=${references}
      .url=${this.data.subject?.url ?? ""}
      @done=${(/** @type {CustomEvent} */ e) => {
        this.update({ isNew: false });
        if (e.detail) refine({ version: null, old: null });
      }}
    ></schema-form>`;
  }

  /** @param {any} data */
  subject({ versions, compatibility, compatibility_is_own }) {
    const shown = this.data.version;
    return html`
      <dl class="facts">
        <div><dt>Versions</dt><dd>${count(versions.length)}</dd></div>
        <div>
          <dt>Compatibility</dt>
          <dd class="word">
            ${compatibility}<small
              >${compatibility_is_own ? "of the subject" : "of the registry"}</small
            >
          </dd>
        </div>
        <div><dt>Kind</dt><dd class="word">${shown?.kind ?? "–"}</dd></div>
        <div><dt>Id of version ${this.version}</dt><dd>${shown?.id ?? "–"}</dd></div>
      </dl>
      <section class="card" aria-labelledby="version-title">
        <div class="card-head">
          <h2 id="version-title">Version ${this.version}</h2>
          <span class="buttons">${this.choices(versions)}</span>
        </div>
        <div class="body stack">${this.text()}</div>
      </section>
    `;
  }

  /** @param {number[]} versions */
  choices(versions) {
    const down = [...versions].reverse();
    const old = Number(this.query.old);
    return html`
      <select
        aria-label="Version"
        @change=${(/** @type {any} */ e) => refine({ version: e.target.value })}
      >
        ${down.map((each) => html`<option value=${each} .selected=${each === this.version}>version ${each}</option>`)}
      </select>
      <select
        aria-label="Compare with"
        @change=${(/** @type {any} */ e) => refine({ old: e.target.value || null })}
      >
        <option value="" .selected=${!old}>compared with none</option>
        ${down
          .filter((each) => each !== this.version)
          .map((each) => html`<option value=${each} .selected=${each === old}>compared with ${each}</option>`)}
      </select>
    `;
  }

  text() {
    if (Number(this.query.old))
      return this.shown("difference", (data) =>
        data.lines.every((/** @type {any} */ each) => each.kind === "same")
          ? html`<p class="muted">The two versions have the same lines.</p>`
          : lines(data.lines, "What differs"),
      );
    return this.shown("version", ({ text, references }) => html`
      ${
        references.length
          ? html`<p>
              Refers to
              ${references.map((/** @type {any} */ each) => html`<a class="badge" href=${link(["schemas", each.subject], { version: each.version })}>${each.subject} ${each.version}</a> `)}
            </p>`
          : null
      }
      <pre class="schema" role="group" aria-label="Schema" tabindex="0">${text}</pre>
    `);
  }
}

SchemaView.define("schema-view");

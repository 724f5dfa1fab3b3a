// @ts-check
/** Settings of a topic or a broker: where each value comes from, and edits with a preview. */
import { confirmChange } from "../elements/confirm_dialog.js";
import { api } from "../js/api.js";
import { command } from "../js/command.js";
import { count } from "../js/format.js";
import { me } from "../js/me.js";
import { notice } from "../js/notice.js";
import { html } from "../js/render.js";
import { View } from "../js/view.js";
import "../elements/data_table.js";
import "../elements/small.js";

/** <settings-panel kind="topic | broker" .name=${"orders"}>; of brokers "all" is what they share. */
class SettingsPanel extends View {
  static properties = { kind: "topic", name: "" };

  /** @type {Record<string, any>} */
  state = { search: "", differs: true, open: null, typed: "" };

  get path() {
    return `/api/${this.props.kind}s/${encodeURIComponent(this.props.name)}/settings`;
  }

  changed() {
    const { search, differs } = this.state;
    this.watch(this.path, { search, differs, every: 10 }, "settings");
  }

  /** @param {Record<string, any>} patch */
  filter(patch) {
    Object.assign(this.state, patch);
    this.changed();
    this.update();
  }

  template() {
    const { differs, search } = this.state;
    return html`
      <div class="tools">
        <search-box
          .value=${search}
          label="Find a setting"
          @find=${(/** @type {CustomEvent} */ e) => this.filter({ search: e.detail })}
        ></search-box>
        <label class="check"
          ><input
            type="checkbox"
            .checked=${differs}
            @change=${(/** @type {any} */ e) => this.filter({ differs: e.target.checked })}
          />
          Only those that differ from the default</label
        >
        ${this.data.settings ? html`<span class="muted" aria-live="polite">${count(this.data.settings.total)} of ${count(this.data.settings.of_all)}</span>` : null}
      </div>
      ${this.shown("settings", (data) => this.table(data))}
    `;
  }

  /** @param {any} data */
  table(data) {
    return html`<data-table
      label="Settings"
      .columns=${this.columns()}
      .rows=${data.settings}
      .key=${(/** @type {any} */ row) => row.name}
      .detail=${(/** @type {any} */ row) => (row.name === this.state.open ? this.detail(row) : null)}
      .empty=${this.state.differs ? "No setting differs from its default" : "No setting is called so"}
    ></data-table>`;
  }

  columns() {
    return [
      {
        key: "name",
        title: "Setting",
        wide: true,
        cell: (/** @type {any} */ s) =>
          html`<button
            class="link mono"
            aria-expanded=${String(s.name === this.state.open)}
            @click=${() => this.update({ open: s.name === this.state.open ? null : s.name, typed: s.value ?? "" })}
          >
            ${s.name}
          </button>`,
      },
      { key: "value", title: "Value", cell: (/** @type {any} */ s) => shownValue(s) },
      {
        key: "source",
        title: "Comes from",
        cell: (/** @type {any} */ s) =>
          html`<span class="badge ${s.own ? "accent" : s.differs ? "warn" : ""}"
            >${s.source}</span
          >`,
      },
    ];
  }

  /** @param {any} setting */
  detail(setting) {
    const mayChange = !me.read_only && !setting.read_only;
    return html`<div class="setting">
      ${setting.documentation ? html`<p>${setting.documentation}</p>` : null}
      <p class="muted">
        ${setting.type}${setting.synonyms.length ? html`; the first of these that is set counts:` : null}
      </p>
      <ol class="synonyms">
        ${setting.synonyms.map((/** @type {any} */ s) => html`<li><span class="mono">${s.name} = ${setting.hidden ? "(hidden)" : (s.value ?? "–")}</span> <span class="badge">${s.source}</span></li>`)}
      </ol>
      ${mayChange ? this.form(setting) : html`<p class="muted">${setting.read_only ? "This setting is read when a node starts: its file has it." : null}</p>`}
    </div>`;
  }

  /** @param {any} setting */
  form(setting) {
    return html`<form class="tools" @submit=${(/** @type {Event} */ e) => this.set(e, setting)}>
      <label
        >New value
        <input
          autocomplete="off"
          spellcheck="false"
          .value=${this.state.typed}
          @input=${(/** @type {any} */ e) => (this.state.typed = e.target.value)}
      /></label>
      <button class="primary">Preview</button>
      ${setting.own ? html`<button type="button" class="quiet" @click=${() => this.change(setting, null)}>Take the own value away</button>` : null}
    </form>`;
  }

  /** @param {Event} event @param {any} setting */
  set(event, setting) {
    event.preventDefault();
    this.change(setting, this.state.typed);
  }

  /** @param {any} setting @param {string | null} value null takes it away */
  async change({ name: setting }, value) {
    const { kind, name } = this.props;
    const changes = { [setting]: value };
    const option =
      value === null ? ["--delete-config", setting] : ["--config", `${setting}=${value}`];
    const done = await confirmChange({
      title:
        value === null
          ? `Take ${setting} of ${kind} ${name} away?`
          : `Change ${setting} of ${kind} ${name}?`,
      preview: () => api.post(this.path, { changes, validate_only: true }).then(difference),
      command: command("configs", "alter", kind, name === "all" ? null : name, ...option),
      action: value === null ? "Take away" : "Change",
      run: () => api.post(this.path, { changes }),
    });
    if (!done) return;
    notice(`${setting} was changed`);
    this.update({ open: null });
    this.unwatch("settings");
    this.changed();
  }
}

/** @param {any} setting */
const shownValue = ({ hidden, value }) =>
  hidden
    ? html`<span class="muted">(hidden)</span>`
    : html`<span class="mono value">${value === "" ? "(empty)" : (value ?? "–")}</span>`;

/** @param {any} answer */
const difference = ({ changed }) =>
  changed.map(
    (/** @type {any} */ { name, before, after }) => html`
      <p class="mono">${name}</p>
      <p>
        <del>${before.value ?? "–"}</del>
        <span class="badge">${before.source ?? "not set"}</span> becomes
        <ins>${after.value ?? "–"}</ins>
        <span class="badge accent">${after.source ?? "default"}</span>
      </p>
    `,
  );

/** The page of a broker's settings, or of those that all share: #/brokers/all/settings. */
class BrokerSettingsView extends View {
  template() {
    const { broker } = this.params;
    return html`
      <p class="crumbs"><a href="#/">Cluster</a></p>
      <div class="head">
        <h1>${broker === "all" ? "Settings of all brokers" : `Settings of broker ${broker}`}</h1>
      </div>
      <settings-panel kind="broker" .name=${broker}></settings-panel>
    `;
  }
}

SettingsPanel.define("settings-panel");
BrokerSettingsView.define("broker-settings-view");

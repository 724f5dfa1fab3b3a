// @ts-check
/** The preview of a redrive: where to, how many, the first records as they would be; then yes or no. */
import { api, stream } from "../js/api.js";
import { command } from "../js/command.js";
import { Element } from "../js/element.js";
import { bytes, count, counted, percent } from "../js/format.js";
import { notice } from "../js/notice.js";
import { html } from "../js/render.js";
import { problem, waiting } from "../js/view.js";
import "../elements/small.js";

/**
 * @param {string} topic of the letters
 * @param {Record<string, any>} order filter or offsets, and edited texts, as the API has them
 */
export function askForRedrive(topic, order) {
  const dialog = /** @type {RedriveDialog} */ (document.createElement("redrive-dialog"));
  document.body.append(dialog);
  return dialog.ask(topic, order);
}

class RedriveDialog extends Element {
  /** @type {Record<string, any>} */
  state = {
    topic: "",
    order: {},
    target: "",
    again: "nothing",
    plan: null,
    failure: null,
    busy: false,
  };

  #stop = () => {};
  #timer = 0;

  get path() {
    return `/api/dead-letters/topics/${encodeURIComponent(this.state.topic)}`;
  }

  get body() {
    const { order, target, again } = this.state;
    const given = Object.entries({ ...order, target, again });
    return Object.fromEntries(
      given.filter(([, value]) => value !== undefined && value !== "" && value !== false),
    );
  }

  /** @param {string} topic @param {Record<string, any>} order */
  ask(topic, order) {
    Object.assign(this.state, { topic, order });
    this.renderNow();
    const dialog = /** @type {HTMLDialogElement} */ (this.querySelector("dialog"));
    dialog.showModal();
    this.plan();
    return new Promise((resolve) => {
      dialog.addEventListener("close", () => {
        this.remove();
        resolve(this.state.result ?? null);
      });
    });
  }

  disconnected() {
    window.clearTimeout(this.#timer);
    this.#stop();
  }

  plan() {
    this.#stop();
    this.update({ plan: null, failure: null });
    this.#stop = stream(
      `${this.path}/plan`,
      {},
      {
        plan: (plan) => this.update({ plan }),
        failure: (failure) => this.update({ failure }),
      },
      this.body,
    );
  }

  /** @param {Record<string, string>} patch */
  change(patch) {
    Object.assign(this.state, patch);
    this.update({ plan: null });
    window.clearTimeout(this.#timer);
    this.#timer = window.setTimeout(() => this.plan(), 250);
  }

  template() {
    const { topic, target, plan, failure, busy } = this.state;
    const number = plan ? sum(plan.by_target) : 0;
    return html`
      <dialog class="redrive" aria-labelledby="redrive-title">
        <form @submit=${(/** @type {Event} */ e) => this.run(e)}>
          <h2 id="redrive-title">Send letters of ${topic} again?</h2>
          <label
            >To topic
            <input
              autocomplete="off"
              spellcheck="false"
              placeholder="the topic that each came from"
              .value=${target}
              @input=${(/** @type {any} */ e) => this.change({ target: e.target.value.trim() })}
          /></label>
          ${this.again()}
          <div class="preview" aria-live="polite">
            ${failure ? problem(failure) : plan ? this.preview(plan) : waiting()}
          </div>
          <div class="same-command">
            <span class="muted"
              >The same on the command line${this.isEdited ? ", without the edit" : ""}</span
            >
            <command-line .command=${this.command}></command-line>
          </div>
          <div class="buttons">
            <button type="button" class="quiet" @click=${() => this.close()}>Cancel</button>
            <button class="primary" ?disabled=${busy || !plan?.is_whole || !number}>
              ${busy ? "Working" : number ? `Send ${counted(number, "letter")}` : "Send"}
            </button>
          </div>
        </form>
      </dialog>
    `;
  }

  get isEdited() {
    return Object.keys(this.state.order.edited ?? {}).length > 0;
  }

  get command() {
    const { topic, order, target, again } = this.state;
    return command(
      "dead-letters",
      "redrive",
      topic,
      ...(order.offsets ?? []).flatMap((/** @type {number[]} */ pair) => [
        "--letter",
        pair.join("@"),
      ]),
      ...option("--kind", order.kind),
      ...option("--origin", order.origin),
      ...(order.unknown_origin ? ["--unknown-origin"] : []),
      ...option("--grep", order.search),
      ...option("--to", target),
    );
  }

  again() {
    const { again, plan } = this.state;
    if (again === "nothing" && !plan?.refused["it was sent before"] && !plan?.refused[IN_DOUBT])
      return null;
    return html`<label
      >Letters that this console has sent before
      <select @change=${(/** @type {any} */ e) => this.change({ again: e.target.value })}>
        ${AGAIN.map(([value, text]) => html`<option value=${value} .selected=${value === again}>${text}</option>`)}
      </select></label
    >`;
  }

  /** @param {any} plan */
  preview(plan) {
    const names = Object.keys(plan.by_target);
    return html`<div class="stack">
      <table>
        <tbody>
          ${names.map(
            (name) =>
              html`<tr>
                <th scope="row">${name}</th>
                <td class="number">${counted(plan.by_target[name], "letter")}</td>
              </tr>`,
          )}
          ${Object.entries(plan.refused).map(
            ([reason, number]) =>
              html`<tr class="muted">
                <th scope="row">not sent: ${reason}</th>
                <td class="number">${count(number)}</td>
              </tr>`,
          )}
        </tbody>
      </table>
      ${
        plan.is_whole
          ? html`<p class="muted">
              ${counted(plan.letters, "letter")} chosen, ${bytes(plan.bytes)} to send. Headers of
              the failure leave; raftka.redriven.from, .at and .times note it.
            </p>`
          : html`<p class="muted">${percent(plan.total ? plan.done / plan.total : 0)} read</p>`
      }
      ${
        plan.first.length
          ? html`<details ?open=${plan.letters === 1}>
              <summary>
                ${plan.first.length === 1 ? "The record as it" : `The first ${plan.first.length} records as they`}
                would be
              </summary>
              ${plan.first.map((/** @type {any} */ each) => record(each))}
            </details>`
          : null
      }
    </div>`;
  }

  close() {
    /** @type {HTMLDialogElement} */ (this.querySelector("dialog")).close();
  }

  /** @param {Event} event */
  async run(event) {
    event.preventDefault();
    const { plan } = this.state;
    this.update({ busy: true, failure: null });
    try {
      this.state.result = await api.post(`${this.path}/redrive`, {
        ...this.body,
        spans: plan.spans,
      });
      notice(`Letters of ${this.state.topic} are being sent`);
      this.close();
    } catch (failure) {
      this.update({ busy: false, failure });
    }
  }
}

const IN_DOUBT = "it may have been sent before: the answer was lost";
const AGAIN = [
  ["nothing", "are not sent again"],
  ["in doubt", "are sent again where the answer was lost"],
  ["all", "are sent again"],
];

/** @param {any} each */
const record = (each) =>
  html`<div class="planned">
    <p>
      <b>${each.target}-${each.target_partition}</b>
      <span class="muted">from letter ${each.partition}@${each.offset}</span>
    </p>
    <pre class="mono" tabindex="0">
${each.key.text ?? "null"}
${each.value.text ?? "null"}${each.value.is_cut ? "…" : ""}</pre>
    <p class="muted brief-list">
      ${each.headers.map((/** @type {any} */ h) => `${h.name}: ${h.text ?? "null"}`).join(" · ")}
    </p>
  </div>`;

/** @param {string} name @param {string | null | undefined} value */
const option = (name, value) => (value ? [name, value] : []);

/** @param {Record<string, number>} counts */
const sum = (counts) => Object.values(counts).reduce((total, each) => total + each, 0);

RedriveDialog.define("redrive-dialog");

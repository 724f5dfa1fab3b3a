// @ts-check
/** A change and its preview: what would happen, the command that does the same, then yes or no. */
import { Element } from "../js/element.js";
import { html } from "../js/render.js";
import { problem, waiting } from "../js/view.js";
import "./small.js";

/**
 * @typedef {object} Change
 * @property {string} title as a question: "Delete topic orders?"
 * @property {unknown | (() => Promise<unknown>)} preview template of what would happen, or a
 *   function that asks for it
 * @property {string} command the `raftka` command that does the same
 * @property {string} action text of the button: "Delete topic"
 * @property {() => Promise<any>} run does it; an ApiFailure is shown and the dialog stays
 * @property {boolean} [danger] it cannot be undone
 * @property {string} [typed] a text that the user must type first: the topic's name
 */

/**
 * Ask the user, and do it.
 * @param {Change} change
 * @returns {Promise<any>} what `run` returned (true when that was nothing), or null when the user
 *   said no
 */
export function confirmChange(change) {
  const dialog = /** @type {ConfirmDialog} */ (document.createElement("confirm-dialog"));
  document.body.append(dialog);
  return dialog.ask(change);
}

class ConfirmDialog extends Element {
  /** @type {Record<string, any>} */
  state = {
    change: null,
    preview: null,
    failure: null,
    busy: false,
    typed: "",
    isUnready: false,
  };

  /** @param {Change} change */
  async ask(change) {
    const { preview } = change;
    const isAsked = typeof preview === "function";
    Object.assign(this.state, {
      change,
      preview: isAsked ? waiting() : preview,
      isUnready: isAsked,
    });
    this.renderNow();
    const dialog = /** @type {HTMLDialogElement} */ (this.querySelector("dialog"));
    dialog.showModal();
    if (isAsked) {
      /** @type {() => Promise<unknown>} */ (preview)()
        .then((template) => this.update({ preview: template, isUnready: false }))
        .catch((failure) => this.update({ preview: problem(failure) }));
    }
    return new Promise((resolve) => {
      dialog.addEventListener("close", () => {
        this.remove();
        resolve(this.state.result ?? null);
      });
    });
  }

  template() {
    const { change, preview, failure, busy, typed, isUnready } = this.state;
    if (!change) return null;
    const mayRun = !busy && !isUnready && (!change.typed || typed === change.typed);
    return html`
      <dialog aria-labelledby="confirm-title">
        <form @submit=${(/** @type {Event} */ e) => this.run(e)}>
          <h2 id="confirm-title">${change.title}</h2>
          <div class="preview">${preview}</div>
          ${
            change.typed
              ? html`<label
                  >Type <b>${change.typed}</b> to go on
                  <input
                    autocomplete="off"
                    spellcheck="false"
                    @input=${(/** @type {any} */ e) => this.update({ typed: e.target.value })}
                /></label>`
              : null
          }
          <div class="same-command">
            <span class="muted">The same on the command line</span>
            <command-line .command=${change.command}></command-line>
          </div>
          ${failure ? problem(failure) : null}
          <div class="buttons">
            <button type="button" class="quiet" @click=${() => this.close()}>Cancel</button>
            <button class=${change.danger ? "danger" : "primary"} ?disabled=${!mayRun}>
              ${busy ? "Working" : change.action}
            </button>
          </div>
        </form>
      </dialog>
    `;
  }

  close() {
    /** @type {HTMLDialogElement} */ (this.querySelector("dialog")).close();
  }

  /** @param {Event} event */
  async run(event) {
    event.preventDefault();
    this.update({ busy: true, failure: null });
    try {
      this.state.result = (await this.state.change.run()) ?? true;
      this.close();
    } catch (failure) {
      this.update({ busy: false, failure });
    }
  }
}

ConfirmDialog.define("confirm-dialog");

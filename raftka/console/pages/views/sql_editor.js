// @ts-check
/** <sql-editor>: statements, with words to complete, and the earlier ones. */
import { Element } from "../js/element.js";
import { each, html } from "../js/render.js";

const WORD = /[\w.$-]+$|`[^`]*$/;
const LEAST = 2; // letters before words are offered
const OFFERED = 8;
const KEPT = 50; // earlier texts
const STORE = "raftka-sql";

/**
 * Properties: `words` to complete, `busy` while statements run. Events: `run` with the text,
 * `stop`. Keys: Ctrl-Enter runs; arrows choose a word, Tab takes it, Escape closes the list.
 */
class SqlEditor extends Element {
  static properties = { words: [], busy: false };

  /** @type {Record<string, any>} */
  state = { offered: [], at: -1, kept: load() };

  template() {
    const { offered, at, kept } = this.state;
    const { busy } = this.props;
    return html`
      <form class="card sql-form" @submit=${(/** @type {Event} */ e) => this.run(e)}>
        <label for="sql-text">Statements</label>
        <textarea
          id="sql-text"
          class="mono"
          rows="4"
          spellcheck="false"
          autocapitalize="off"
          autocomplete="off"
          placeholder="SELECT * FROM \`orders\` LIMIT 10;"
          aria-autocomplete="list"
          aria-describedby="sql-keys"
          aria-controls=${offered.length ? "sql-words" : null}
          aria-activedescendant=${at >= 0 ? `sql-word-${at}` : null}
          @input=${() => this.offer()}
          @click=${() => this.close()}
          @blur=${() => this.close()}
          @keydown=${(/** @type {KeyboardEvent} */ e) => this.onKey(e)}
        ></textarea>
        ${
          offered.length
            ? html`<ul id="sql-words" class="sql-words" role="listbox" aria-label="Words to complete">
                ${offered.map(
                  (/** @type {string} */ word, /** @type {number} */ index) =>
                    html`<li
                      id=${`sql-word-${index}`}
                      role="option"
                      aria-selected=${String(index === at)}
                      @mousedown=${(/** @type {Event} */ e) => this.take(word, e)}
                    >
                      ${word}
                    </li>`,
                )}
              </ul>`
            : null
        }
        <div class="buttons">
          <button class="primary" ?disabled=${busy}>Run</button>
          <button type="button" ?disabled=${!busy} @click=${() => this.emit("stop")}>Stop</button>
          <span class="muted" id="sql-keys">Ctrl-Enter runs, Tab takes a word of the list</span>
        </div>
        ${kept.length ? this.history(kept) : null}
      </form>
    `;
  }

  /** @param {string[]} kept */
  history(kept) {
    return html`<details class="sql-history">
      <summary>Earlier statements</summary>
      <ul>
        ${each(
          kept,
          (text) => text,
          (text) =>
            html`<li>
              <button type="button" class="link mono" @click=${() => this.setText(text)}>
                ${text}
              </button>
            </li>`,
        )}
      </ul>
      <button type="button" class="quiet small" @click=${() => this.keep([])}>Forget them</button>
    </details>`;
  }

  get area() {
    return /** @type {HTMLTextAreaElement} */ (this.querySelector("textarea"));
  }

  /** @param {string} text */
  setText(text) {
    this.area.value = text;
    this.area.focus();
    this.close();
  }

  /** @param {Event} event */
  run(event) {
    event.preventDefault();
    const text = this.area.value.trim();
    this.close();
    if (!text || this.props.busy) return;
    const others = this.state.kept.filter((/** @type {string} */ kept) => kept !== text);
    this.keep([text, ...others].slice(0, KEPT));
    this.emit("run", text);
  }

  /** @param {string[]} kept */
  keep(kept) {
    this.update({ kept });
    try {
      localStorage.setItem(STORE, JSON.stringify(kept));
    } catch {
      // a browser without room for it: the texts go with the page
    }
  }

  /** @returns {string} the word that the cursor stands behind */
  begun() {
    const before = this.area.value.slice(0, this.area.selectionStart);
    return WORD.exec(before)?.[0] ?? "";
  }

  offer() {
    const begun = bare(this.begun());
    const offered = [];
    if (begun.length >= LEAST)
      for (const word of this.props.words) {
        if (bare(word).startsWith(begun) && bare(word) !== begun) offered.push(word);
        if (offered.length === OFFERED) break;
      }
    this.update({ offered, at: -1 });
  }

  close() {
    if (this.state.offered.length) this.update({ offered: [], at: -1 });
  }

  /** @param {string} word @param {Event} event */
  take(word, event) {
    event.preventDefault(); // the focus stays
    const { area } = this;
    const end = area.selectionStart;
    area.setRangeText(word, end - this.begun().length, end, "end");
    this.close();
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    const { offered, at } = this.state;
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.run(event);
    if (!offered.length) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined) {
      event.preventDefault();
      this.update({ at: (at + step + offered.length + (at < 0 && step < 0 ? 1 : 0)) % offered.length });
    } else if (event.key === "Tab" && !event.shiftKey) this.take(offered[Math.max(at, 0)], event);
    else if (event.key === "Enter" && at >= 0) this.take(offered[at], event);
    else if (event.key === "Escape") this.close();
  }
}

/** @param {string} word */
const bare = (word) => word.replace(/^`/, "").toLowerCase();

/** @returns {string[]} */
function load() {
  try {
    const found = JSON.parse(localStorage.getItem(STORE) ?? "[]");
    return Array.isArray(found) ? found.filter((each) => typeof each === "string") : [];
  } catch {
    return [];
  }
}

SqlEditor.define("sql-editor");

// @ts-check
/** Short messages that go by themselves: "Topic orders was deleted". Screen readers read them. */
import { each, html, render } from "./render.js";

const STAY_MS = 6000;
/** @type {{id: number, text: string, kind: string}[]} */
let notices = [];
let last = 0;

/**
 * @param {string} text
 * @param {"good" | "bad" | "info"} [kind]
 */
export function notice(text, kind = "good") {
  const id = ++last;
  notices = [...notices.slice(-3), { id, text, kind }];
  show();
  window.setTimeout(() => {
    notices = notices.filter((each) => each.id !== id);
    show();
  }, STAY_MS);
}

const show = () => {
  const place = document.getElementById("notices");
  if (place)
    render(
      each(
        notices,
        ({ id }) => id,
        ({ text, kind }) => html`<p class="toast ${kind}">${text}</p>`,
      ),
      place,
    );
};

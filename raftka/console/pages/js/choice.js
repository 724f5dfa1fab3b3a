// @ts-check
/** A list to choose from, above a table: it refines the page's address. */
import { html } from "./render.js";
import { refine } from "./router.js";

/**
 * @param {string} label for screen readers
 * @param {string} parameter of the address; the first option is its default, and leaves it out
 * @param {string | undefined} value of the parameter now
 * @param {string[][]} options [value, title] of each
 */
export const choice = (label, parameter, value, options) => html`<select
  aria-label=${label}
  @change=${(/** @type {any} */ e) =>
    refine({ [parameter]: e.target.value === options[0][0] ? null : e.target.value, page: null })}
>
  ${options.map(
    ([each, title]) =>
      html`<option value=${each} .selected=${each === (value ?? options[0][0])}>${title}</option>`,
  )}
</select>`;

// @ts-check
/** Marks of icons.svg, in the colour of the text around them. */
import { html } from "./render.js";

/** @param {string} name id in icons.svg */
export const icon = (name) =>
  html`<svg class="mark" aria-hidden="true"><use href=${`/icons.svg#${name}`}></use></svg>`;

// @ts-check
/** The base of all elements and views: state, and one rendering for all changes of a turn. */
import { render } from "./render.js";

/**
 * An element without a shadow tree, so that style.css and labels reach into it.
 *
 * A subclass has `template()`. `static properties = {rows: []}` names properties with their first
 * values. Setting one from outside, as `.rows=${rows}` or the attribute label="Brokers" does,
 * renders the element anew; inside, `this.props` has them all.
 */
export class Element extends HTMLElement {
  /** @type {Record<string, unknown>} */
  static properties = {};

  /** @type {Record<string, any>} */
  state = {};
  /** @type {Record<string, any>} */
  props = { .../** @type {typeof Element} */ (this.constructor).properties };

  #waits = false;

  /** Call after the class is complete. @param {string} tag */
  static define(tag) {
    for (const name of Object.keys(this.properties)) {
      Object.defineProperty(this.prototype, name, {
        get() {
          return this.props[name];
        },
        set(value) {
          this.props[name] = value;
          this.update();
        },
      });
    }
    customElements.define(tag, this);
  }

  static get observedAttributes() {
    return Object.keys(this.properties);
  }

  /**
   * @param {string} name
   * @param {string | null} _
   * @param {string | null} value
   */
  attributeChangedCallback(name, _, value) {
    const { properties } = /** @type {typeof Element} */ (this.constructor);
    const isSwitch = typeof properties[name] === "boolean";
    this.props[name] = isSwitch ? value !== null : (value ?? properties[name]);
    this.update();
  }

  connectedCallback() {
    const self = /** @type {any} */ (this);
    for (const name of Object.keys(this.props)) {
      if (this.hasAttribute(name)) this.props[name] = this.getAttribute(name); // label="Topics"
      if (!Object.hasOwn(this, name)) continue;
      const value = self[name]; // it was set before the module of the element was loaded
      delete self[name];
      self[name] = value;
    }
    this.connected();
    this.renderNow();
  }

  disconnectedCallback() {
    this.disconnected();
  }

  /** Called when the element comes into the page. */
  connected() {}

  /** Called when the element leaves the page. */
  disconnected() {}

  /**
   * Change the state, and render before the next frame.
   * @param {Record<string, unknown>} [patch]
   */
  update(patch = {}) {
    Object.assign(this.state, patch);
    if (this.#waits || !this.isConnected) return;
    this.#waits = true;
    queueMicrotask(() => {
      this.#waits = false;
      if (this.isConnected) this.renderNow();
    });
  }

  renderNow() {
    render(this.template(), this);
    this.rendered();
  }

  /** Called after each rendering. */
  rendered() {}

  /** @returns {unknown} */
  template() {
    return null;
  }

  /**
   * Send an event that the parents see too.
   * @param {string} type
   * @param {unknown} [detail]
   */
  emit(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail, bubbles: true }));
  }
}

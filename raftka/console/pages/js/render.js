// @ts-check
/**
 * Templates that change a page in place: html`...` describes, render() applies.
 *
 *   render(html`<p class=${kind} ?hidden=${off} .value=${x} @click=${go}>${text}</p>`, node);
 *
 * A value is text, never markup. In the place of a child it may also be another template, a node,
 * an array, or
 * each(items, key, template), which keeps the elements of an item while items move. null, undefined
 * and booleans show
 * nothing; as an attribute null, undefined and false remove it. `style=${{width: "3px"}}` takes an
 * object, because
 * the page's Content-Security-Policy refuses the text form.
 */

const HOLE = /⟦(\d+)⟧/;
const [TEXT, TAG, COMMENT] = [0, 1, 2];

export class Template {
  /**
   * @param {TemplateStringsArray} strings
   * @param {unknown[]} values
   * @param {boolean} isSvg
   */
  constructor(strings, values, isSvg) {
    this.strings = strings;
    this.values = values;
    this.isSvg = isSvg;
  }
}

class List {
  /** @param {[unknown, unknown][]} entries keys and values */
  constructor(entries) {
    this.entries = entries;
  }
}

/**
 * @param {TemplateStringsArray} strings
 * @param {unknown[]} values
 */
export const html = (strings, ...values) => new Template(strings, values, false);

/**
 * A template of elements inside an <svg>.
 * @param {TemplateStringsArray} strings
 * @param {unknown[]} values
 */
export const svg = (strings, ...values) => new Template(strings, values, true);

/**
 * A list whose elements keep their state (focus, scroll position) while the items move.
 * @template T
 * @param {Iterable<T>} items
 * @param {(item: T, index: number) => unknown} key unique in the list
 * @param {(item: T, index: number) => unknown} template
 */
export const each = (items, key, template) =>
  new List([...items].map((item, index) => [key(item, index), template(item, index)]));

/** @type {WeakMap<Node, ChildPart>} */
const roots = new WeakMap();

/**
 * Show a value as the whole content of a node. What is there already and still holds stays.
 * @param {unknown} value
 * @param {Element | DocumentFragment} node
 */
export function render(value, node) {
  let part = roots.get(node);
  if (!part) {
    node.replaceChildren();
    part = new ChildPart(/** @type {Comment} */ (node.appendChild(document.createComment(""))));
    roots.set(node, part);
  }
  part.set(value);
}

/** @typedef {{node: number, hole: number, name: string, statics: string[] | null}} Place */
/** @typedef {{element: HTMLTemplateElement, places: Place[]}} Prepared */

/** @type {WeakMap<TemplateStringsArray, Prepared>} */
const prepared = new WeakMap();

/**
 * @param {Template} template
 * @returns {Prepared}
 */
function prepare({ strings, isSvg }) {
  let markup = "";
  let state = { at: TEXT, quote: "" };
  /** @type {string[]} */
  const names = [];
  strings.forEach((text, index) => {
    const before = state;
    state = scan(text, state);
    markup += text;
    if (index === strings.length - 1) return;
    if (state.at === COMMENT) throw new Error(`a value inside a comment: ${text}`);
    if (state.at === TEXT) {
      names.push("");
      markup += `<!--⟦${index}⟧-->`;
      return;
    }
    const found = /([^\s"'<>=]+)=["']?[^"']*$/.exec(text);
    const goesOn = before.quote && before.quote === state.quote && !text.includes(state.quote);
    if (!found && !goesOn) throw new Error(`a value in the place of an attribute's name: ${text}`);
    const name = goesOn ? "" : /** @type {RegExpExecArray} */ (found)[1];
    if (/^on/i.test(name)) throw new Error(`${name}: handlers are @events`);
    names.push(name);
    markup += state.quote ? `⟦${index}⟧` : `"⟦${index}⟧"`;
  });
  // under its own name the browser would parse the mark as a style, and report a violation of the
  // policy
  markup = markup.replace(/\sstyle=(["']?)⟦/g, " data-style=$1⟦");
  const element = document.createElement("template");
  element.innerHTML = isSvg ? `<svg>${markup}</svg>` : markup;
  if (isSvg)
    element.content.replaceChildren(
      .../** @type {Element} */ (element.content.firstChild).childNodes,
    );
  return { element, places: findPlaces(element.content, names) };
}

/**
 * @param {string} text
 * @param {{at: number, quote: string}} state
 */
function scan(text, { at, quote }) {
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    if (at === COMMENT) {
      if (text.startsWith("-->", i)) at = TEXT;
    } else if (at === TEXT) {
      if (text.startsWith("<!--", i)) at = COMMENT;
      else if (c === "<" && /[a-z/]/i.test(text[i + 1] ?? "")) at = TAG;
    } else if (quote) {
      if (c === quote) quote = "";
    } else if (c === '"' || c === "'") quote = c;
    else if (c === ">") at = TEXT;
  }
  return { at, quote };
}

/**
 * @param {DocumentFragment} content
 * @param {string[]} names of the attributes of all values
 */
function findPlaces(content, names) {
  /** @type {Place[]} */
  const places = [];
  let holes = 0;
  nodesOf(content).forEach((node, index) => {
    if (node instanceof Comment) {
      const found = HOLE.exec(node.data);
      if (!found) return;
      node.data = "";
      places.push({ node: index, hole: Number(found[1]), name: "", statics: null });
      holes += 1;
      return;
    }
    for (const attribute of [.../** @type {Element} */ (node).attributes]) {
      const pieces = attribute.value.split(/⟦(\d+)⟧/);
      if (pieces.length === 1) continue;
      const hole = Number(pieces[1]);
      const statics = pieces.filter((_, at) => at % 2 === 0);
      /** @type {Element} */ (node).removeAttribute(attribute.name);
      places.push({ node: index, hole, name: names[hole], statics });
      holes += statics.length - 1;
    }
  });
  if (holes !== names.length) throw new Error(`a value where none can be: ${content.textContent}`);
  return places;
}

/** @param {Node} content */
function nodesOf(content) {
  const walker = document.createTreeWalker(
    content,
    NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_COMMENT,
  );
  const nodes = [];
  while (walker.nextNode()) nodes.push(walker.currentNode);
  return nodes;
}

class Instance {
  /** @param {Prepared} source */
  constructor(source) {
    this.source = source;
    this.fragment = document.importNode(source.element.content, true);
    const nodes = nodesOf(this.fragment);
    this.parts = source.places.map((place) => makePart(nodes[place.node], place));
  }

  /** @param {unknown[]} values */
  update(values) {
    this.source.places.forEach(({ hole, statics }, index) => {
      const part = this.parts[index];
      if (!statics || (statics.length === 2 && !statics[0] && !statics[1])) part.set(values[hole]);
      else
        part.set(statics.reduce((text, each, at) => text + (values[hole + at - 1] ?? "") + each));
    });
  }
}

/**
 * @param {Node} node
 * @param {Place} place
 * @returns {{set(value: unknown): void}}
 */
function makePart(node, { name, statics }) {
  if (!statics) return new ChildPart(/** @type {Comment} */ (node));
  const element = /** @type {HTMLElement} */ (node);
  if (name[0] === "@") return new EventPart(element, name.slice(1));
  if (name[0] === ".") return new PropertyPart(element, name.slice(1));
  if (name[0] === "?")
    return { set: (value) => void element.toggleAttribute(name.slice(1), Boolean(value)) };
  return new AttributePart(element, name);
}

class AttributePart {
  /**
   * @param {HTMLElement} element
   * @param {string} name
   */
  constructor(element, name) {
    this.element = element;
    this.name = name;
    /** @type {unknown} */
    this.last = null;
  }

  /** @param {unknown} value */
  set(value) {
    if (this.name === "style" && typeof value === "object") {
      return this.setStyle(/** @type {Record<string, unknown>} */ (value ?? {}));
    }
    if (value === this.last) return;
    this.last = value;
    if (value === null || value === undefined || value === false)
      this.element.removeAttribute(this.name);
    else this.element.setAttribute(this.name, safe(this.name, value === true ? "" : String(value)));
  }

  /** @param {Record<string, unknown>} style */
  setStyle(style) {
    for (const name of Object.keys(this.last ?? {}))
      if (!(name in style)) this.element.style.removeProperty(name);
    for (const [name, value] of Object.entries(style))
      this.element.style.setProperty(name, String(value ?? ""));
    this.last = style;
  }
}

/**
 * @param {string} name
 * @param {string} value
 */
function safe(name, value) {
  return /^(xlink:)?href$|^src$|action$/i.test(name) &&
    /^\W*(javascript|data|vbscript)\W*:/i.test(value)
    ? "#"
    : value;
}

class PropertyPart {
  /**
   * @param {any} element
   * @param {string} name
   */
  constructor(element, name) {
    this.element = element;
    this.name = name;
  }

  /** @param {unknown} value */
  set(value) {
    // the element's own value counts: a user may have typed since the last time
    if (this.element[this.name] !== value) this.element[this.name] = value;
  }
}

class EventPart {
  /**
   * @param {Element} element
   * @param {string} type
   */
  constructor(element, type) {
    /** @type {unknown} */
    this.handler = null;
    element.addEventListener(type, this);
  }

  /** @param {unknown} value */
  set(value) {
    this.handler = value;
  }

  /** @param {Event} event */
  handleEvent(event) {
    if (typeof this.handler === "function") this.handler(event);
  }
}

class ChildPart {
  /** @param {Comment} end the content stands before it */
  constructor(end) {
    this.end = end;
    this.start = document.createComment("");
    end.before(this.start);
    /** @type {Instance | null} */
    this.instance = null;
    /** @type {Node | null} */
    this.node = null;
    /** @type {Map<unknown, ChildPart> | null} */
    this.items = null;
  }

  /** @param {unknown} value */
  set(value) {
    if (value instanceof Template) this.setTemplate(value);
    else if (value instanceof List) this.setList(value.entries);
    else if (Array.isArray(value)) this.setList(value.map((item, index) => [index, item]));
    else if (value instanceof Node) this.setNode(value);
    else if (value === null || value === undefined || typeof value === "boolean") this.clear();
    else if (this.node instanceof Text) {
      if (this.node.data !== String(value)) this.node.data = String(value);
    } else this.setNode(document.createTextNode(String(value)));
  }

  /** @param {Template} template */
  setTemplate(template) {
    let source = prepared.get(template.strings);
    if (!source) prepared.set(template.strings, (source = prepare(template)));
    if (this.instance?.source === source) return this.instance.update(template.values);
    this.clear();
    this.instance = new Instance(source);
    this.instance.update(template.values);
    this.end.before(this.instance.fragment);
  }

  /** @param {Node} node */
  setNode(node) {
    if (this.node === node) return;
    this.clear();
    this.node = node;
    this.end.parentNode?.insertBefore(node, this.end);
  }

  /** @param {[unknown, unknown][]} entries */
  setList(entries) {
    if (!this.items) this.clear();
    const before = this.items ?? new Map();
    /** @type {Map<unknown, ChildPart>} */
    const items = new Map();
    const keys = new Set(entries.map(([key]) => key));
    if (keys.size !== entries.length) throw new Error("two items of a list have the same key");
    for (const [key, part] of before) if (!keys.has(key)) part.remove();
    let place = /** @type {ChildNode} */ (this.start.nextSibling);
    for (const [key, value] of entries) {
      let part = before.get(key);
      if (!part) {
        const end = document.createComment("");
        place.before(end);
        part = new ChildPart(end);
      } else if (part.start !== place) part.moveBefore(place);
      place = /** @type {ChildNode} */ (part.end.nextSibling);
      part.set(value);
      items.set(key, part);
    }
    this.items = items;
  }

  /** @param {ChildNode} place */
  moveBefore(place) {
    const parent = /** @type {any} */ (place.parentNode);
    const last = this.end;
    for (let node = /** @type {ChildNode} */ (this.start); ;) {
      const next = /** @type {ChildNode} */ (node.nextSibling);
      // moveBefore keeps focus and scroll positions; it exists since Chromium 133 and Firefox 144
      if (parent.moveBefore && parent.isConnected) parent.moveBefore(node, place);
      else parent.insertBefore(node, place);
      if (node === last) break;
      node = next;
    }
  }

  clear() {
    if (!this.instance && !this.node && !this.items) return;
    // not node.remove(): an element may have a method of that name
    for (let node; (node = this.start.nextSibling) && node !== this.end; )
      node.parentNode?.removeChild(node);
    this.instance = this.node = this.items = null;
  }

  remove() {
    this.clear();
    this.start.remove();
    this.end.remove();
  }
}

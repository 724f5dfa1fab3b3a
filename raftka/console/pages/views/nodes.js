// @ts-check
/** Nodes of a launcher: break them on purpose, set faults, and see in the time line what followed. */
import { confirmChange } from "../elements/confirm_dialog.js";
import { api } from "../js/api.js";
import { count, counted, time } from "../js/format.js";
import { me } from "../js/me.js";
import { notice } from "../js/notice.js";
import { each, html } from "../js/render.js";
import { View, problem } from "../js/view.js";
import "../elements/small.js";

/** @type {Record<string, {text: string, done: string, danger?: boolean, what: (node: any) => string}>} */
const ACTIONS = {
  start: { text: "Start", done: "starts", what: () => "It starts on the same files and ports." },
  resume: { text: "Resume", done: "goes on", what: () => "It goes on where it stood still." },
  join: { text: "Join", done: "is joined again", what: () => "Clients reach it again." },
  pause: {
    text: "Pause",
    done: "stands still",
    what: (node) =>
      `It stands still: its connections stay open, and nothing answers. ${leaves(node)}`,
  },
  cut: {
    text: "Cut",
    done: "is cut off from clients",
    what: () =>
      "Clients lose their connections to it and get no new ones. Other brokers reach it: its leaders stay.",
  },
  hasten: { text: "Speed up", done: "is quick again", what: () => "It answers without delay again." },
  slow: {
    text: "Slow",
    done: "is slow",
    what: () =>
      "Requests of clients wait 200 ms before it looks at them. Brokers reach it as ever.",
  },
  stop: {
    text: "Stop",
    done: "is asked to stop",
    what: (node) => `It is shut down in order: its leaders move first. ${leaves(node)}`,
  },
  kill: {
    text: "Kill",
    done: "is dead",
    danger: true,
    what: (node) =>
      `It ends at once: nothing is written, flushed or said any more. ${leaves(node)}`,
  },
};

/** @type {Record<string, string>} */
const STATES = { running: "good", starting: "warn", paused: "warn", stopped: "bad" };

/** @type {Record<string, string>} what the time line can show */
const KINDS = {
  action: "done here",
  node: "nodes",
  leader: "leaders",
  isr: "in-sync replicas",
  group: "groups",
  error: "errors of clients",
  fault: "faults",
};

const TEXTS = ["topic", "group", "client_id"];
const NUMBERS = ["ms", "partition", "nth", "times"];
const USUAL = { api: "Produce", error: "NOT_LEADER_OR_FOLLOWER" };
const LINE = 200;

class NodesView extends View {
  /** @type {Record<string, any>} */
  state = { faults: null, kind: "fail_next", refusal: null, hidden: new Set() };

  changed() {
    this.watch("/api/nodes", { every: 1 }, "nodes");
    this.watch("/api/timeline", { every: 1 }, "timeline", () => this.readFaults());
  }

  async readFaults() {
    try {
      this.update({ faults: await api.get("/api/faults") });
    } catch {
      // the nodes' own failure is shown
    }
  }

  template() {
    return html`
      <div class="head"><h1>Nodes</h1></div>
      ${this.shown(
        "nodes",
        ({ nodes }) => html`
          <ul class="node-cards">
            ${each(
              nodes,
              (node) => node.node,
              (node) => this.card(node),
            )}
          </ul>
        `,
      )}
      <div class="stack">
        ${this.state.faults?.kinds.length ? this.faults() : null}
        ${this.shown("timeline", (data) => this.timeline(data))}
      </div>
    `;
  }

  /** @param {any} node */
  card(node) {
    const actions = Object.keys(ACTIONS).filter((name) => node.actions[name]);
    return html`
      <li class="card" data-node=${node.node}>
        <div class="card-head">
          <h2>${node.title[0].toUpperCase() + node.title.slice(1)}</h2>
          ${node.is_controller ? html`<span class="badge accent">controller</span>` : null}
        </div>
        <div class="body">
          <p>
            <status-dot .kind=${STATES[node.state] ?? "idle"} .text=${node.state}></status-dot>
            <span class="muted">
              ${node.leads === null ? null : html`leads ${counted(node.leads, "partition")}`}
              ${node.pid ? html`<span class="mono">pid ${node.pid}</span>` : null}
            </span>
          </p>
          ${
            me.read_only
              ? null
              : html`<div class="buttons">
                  ${each(
                    actions,
                    (name) => name,
                    (name) => html`
                      <button
                        class=${ACTIONS[name].danger ? "danger small" : "small"}
                        aria-label=${`${ACTIONS[name].text} ${node.title}`}
                        @click=${() => this.act(node, name)}
                      >
                        ${ACTIONS[name].text}
                      </button>
                    `,
                  )}
                </div>`
          }
        </div>
      </li>
    `;
  }

  /** @param {any} node @param {string} name */
  async act(node, name) {
    const action = ACTIONS[name];
    const done = await confirmChange({
      title: `${action.text} ${node.title}?`,
      preview: html`<p>${action.what(node)}</p>`,
      command: node.actions[name],
      action: `${action.text} ${node.title}`,
      danger: action.danger,
      run: () => api.post(`/api/nodes/${node.node}/${name}`),
    });
    if (done) notice(`${node.title[0].toUpperCase() + node.title.slice(1)} ${action.done}`);
  }

  faults() {
    const { kinds, apis, errors, set } = this.state.faults;
    const kind = kinds.find((/** @type {any} */ one) => one.kind === this.state.kind) ?? kinds[0];
    return html`
      <section class="card" aria-labelledby="faults-title">
        <div class="card-head">
          <h2 id="faults-title">Faults, of requests that clients send</h2>
          ${
            set.length && !me.read_only
              ? html`<button class="quiet small" @click=${() => this.removeAll(set)}>
                  Remove all
                </button>`
              : null
          }
        </div>
        <div class="body stack">
          ${
            set.length
              ? html`<ul class="faults">
                  ${each(
                    set,
                    (fault) => fault.id,
                    (fault) => this.fault(fault),
                  )}
                </ul>`
              : html`<p class="muted">None is set.</p>`
          }
          ${
            me.read_only
              ? null
              : html`<details>
                  <summary>Set a fault</summary>
                  ${this.form(kind, kinds, apis, errors)}
                </details>`
          }
        </div>
      </section>
    `;
  }

  /** @param {any} fault */
  fault(fault) {
    return html`
      <li>
        <span>${fault.text}</span>
        <span class="muted"
          >${counted(fault.hits, "hit")}${fault.left === null ? null : html`, ${count(fault.left)} left`}</span
        >
        ${
          me.read_only
            ? null
            : html`<button
                class="quiet small"
                aria-label=${`Remove the fault ${fault.text}`}
                @click=${() => this.removeFault(fault)}
              >
                Remove
              </button>`
        }
      </li>
    `;
  }

  /** @param {any} kind @param {any[]} kinds @param {string[]} apis @param {string[]} errors */
  form(kind, kinds, apis, errors) {
    const nodes = this.data.nodes?.nodes ?? [];
    return html`
      <form class="fault-form" @submit=${(/** @type {Event} */ e) => this.set(e, kind)}>
        <label
          >What happens
          <select
            name="kind"
            @change=${(/** @type {any} */ e) => this.update({ kind: e.target.value, refusal: null })}
          >
            ${kinds.map((one) => html`<option value=${one.kind}>${one.title}</option>`)}
          </select>
        </label>
        <label
          >Requests
          <select name="api">
            ${kind.needs === "error" ? null : html`<option value="">of all kinds</option>`}
            ${apis.map((name) => html`<option ?selected=${name === USUAL.api}>${name}</option>`)}
          </select>
        </label>
        ${
          kind.needs === "error"
            ? html`<label
                >Error
                <select name="error">
                  ${errors.map((name) => html`<option ?selected=${name === USUAL.error}>${name}</option>`)}
                </select>
              </label>`
            : null
        }
        ${kind.needs === "ms" ? html`<label>Milliseconds<input name="ms" inputmode="numeric" required /></label>` : null}
        <label
          >At node
          <select name="nodes">
            <option value="">any</option>
            ${nodes.map((/** @type {any} */ node) => html`<option>${node.node}</option>`)}
          </select>
        </label>
        <label>Topic<input name="topic" placeholder="any" autocomplete="off" /></label>
        <label>Partition<input name="partition" placeholder="any" inputmode="numeric" /></label>
        <label>Group<input name="group" placeholder="any" autocomplete="off" /></label>
        <label>Client id<input name="client_id" placeholder="any" autocomplete="off" /></label>
        <label>From the n-th on<input name="nth" placeholder="1" inputmode="numeric" /></label>
        <label
          >How often<input
            name="times"
            placeholder=${kind.kind === "delay" ? "always" : "1"}
            inputmode="numeric"
        /></label>
        <button class="primary">Set fault</button>
      </form>
      ${this.state.refusal ? problem(this.state.refusal) : null}
    `;
  }

  /** @param {Event} event @param {any} kind */
  async set(event, kind) {
    event.preventDefault();
    const given = new FormData(/** @type {HTMLFormElement} */ (event.target));
    /** @type {Record<string, any>} */
    const wanted = { kind: kind.kind, api: given.get("api") || null };
    if (kind.needs === "error") wanted.error = given.get("error");
    for (const name of TEXTS) if (given.get(name)) wanted[name] = given.get(name);
    // a text that is no number is refused by name
    for (const name of NUMBERS) {
      const text = String(given.get(name) ?? "").trim();
      if (text) wanted[name] = /^\d+$/.test(text) ? Number(text) : text;
    }
    if (given.get("nodes")) wanted.nodes = [Number(given.get("nodes"))];
    try {
      const tried = await api.post("/api/faults", { ...wanted, try_only: true });
      this.update({ refusal: null });
      await confirmChange({
        title: "Set this fault?",
        preview: html`<p>${tried.text}</p>`,
        command: tried.command,
        action: "Set fault",
        run: () => api.post("/api/faults", wanted),
      });
    } catch (refusal) {
      this.update({ refusal });
    }
    this.readFaults();
  }

  /** @param {any} fault */
  async removeFault(fault) {
    await confirmChange({
      title: "Remove this fault?",
      preview: html`<p>${fault.text}</p>`,
      command: "fault.remove()",
      action: "Remove fault",
      run: () => api.delete(`/api/faults/${fault.id}`),
    });
    this.readFaults();
  }

  /** @param {any[]} set */
  async removeAll(set) {
    await confirmChange({
      title: "Remove all faults?",
      preview: html`<ul>
        ${set.map((fault) => html`<li>${fault.text}</li>`)}
      </ul>`,
      command: "cluster.clear_faults()",
      action: "Remove all",
      run: () => api.delete("/api/faults"),
    });
    this.readFaults();
  }

  /** @param {any} data */
  timeline({ events, failure }) {
    const { hidden } = this.state;
    const shown = events.filter((/** @type {any} */ event) => !hidden.has(event.kind));
    const kinds = Object.keys(KINDS).filter((kind) =>
      events.some((/** @type {any} */ event) => event.kind === kind),
    );
    return html`
      <section class="card" aria-labelledby="timeline-title">
        <div class="card-head">
          <h2 id="timeline-title">Time line</h2>
          <span class="muted">the newest first</span>
        </div>
        <div class="body">
          ${failure ? html`<p class="notice warn" role="status">${failure}</p>` : null}
          <div class="timeline-kinds" role="group" aria-label="Kinds of events">
            ${each(
              kinds,
              (kind) => kind,
              (kind) =>
                html`<button
                  class="quiet small"
                  aria-pressed=${String(!hidden.has(kind))}
                  @click=${() => this.toggle(kind)}
                >
                  <i class=${kind} aria-hidden="true"></i>${KINDS[kind]}
                </button>`,
            )}
          </div>
          ${
            shown.length
              ? html`<ol
                  class="timeline"
                  aria-live="polite"
                  tabindex="0"
                  aria-labelledby="timeline-title"
                >
                  ${each(
                    shown.slice(0, LINE),
                    (event) => `${event.at_ms} ${event.text}`,
                    (event) =>
                      html`<li class=${event.kind}>
                        <time title=${time(event.at_ms)}>${clock(event.at_ms)}</time>
                        <i aria-hidden="true"></i>
                        <span
                          >${event.text}${event.times > 1 ? html` <span class="badge">${count(event.times)} times</span>` : null}</span
                        >
                      </li>`,
                  )}
                </ol>`
              : html`<p class="muted">Nothing has happened since this page was first opened.</p>`
          }
        </div>
      </section>
    `;
  }

  /** @param {string} kind */
  toggle(kind) {
    const hidden = new Set(this.state.hidden);
    if (!hidden.delete(kind)) hidden.add(kind);
    this.update({ hidden });
  }
}

/** @param {any} node */
const leaves = ({ leads, is_controller }) =>
  [
    leads ? `${counted(leads, "partition")} that it leads get another leader.` : "",
    is_controller ? "It is the controller: another node becomes it." : "",
  ].join(" ");

/** @param {number} ms with milliseconds: what follows a kill follows fast */
const clock = (ms) => {
  const at = new Date(ms);
  const two = (/** @type {number} */ n) => String(n).padStart(2, "0");
  const rest = String(at.getMilliseconds()).padStart(3, "0");
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.${rest}`;
};

NodesView.define("nodes-view");

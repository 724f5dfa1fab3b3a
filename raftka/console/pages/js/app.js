// @ts-check
/**
 * The shell: navigation, the page of the address, login. Each page is a row of PAGES and loads with
 * its first visit.
 */
import { api } from "./api.js";
import { Element } from "./element.js";
import { icon } from "./icon.js";
import { loadMe, me } from "./me.js";
import { html } from "./render.js";
import { current, link, onPlace, register } from "./router.js";
import { problem, waiting } from "./view.js";

/** @type {import("./router.js").Route[]} */
const PAGES = [
  { path: "/", title: "Cluster", tag: "cluster-view", load: () => import("../views/cluster.js") },
  {
    path: "/topics",
    title: "Topics",
    tag: "topics-view",
    load: () => import("../views/topics.js"),
  },
  {
    path: "/topics/:topic",
    title: "{topic}",
    tag: "topic-view",
    nav: "/topics",
    load: () => import("../views/topic.js"),
  },
  {
    path: "/brokers/:broker/settings",
    title: "Settings of {broker}",
    tag: "broker-settings-view",
    nav: "/",
    load: () => import("../views/settings.js"),
  },
  {
    path: "/groups",
    title: "Groups",
    tag: "groups-view",
    load: () => import("../views/groups.js"),
  },
  {
    path: "/groups/:group",
    title: "{group}",
    tag: "group-view",
    nav: "/groups",
    load: () => import("../views/group.js"),
  },
  {
    path: "/dead-letters",
    title: "Dead letters",
    tag: "dead-letters-view",
    load: () => import("../views/dead_letters.js"),
  },
  {
    path: "/dead-letters/:topic",
    title: "{topic}",
    tag: "dead-letter-view",
    nav: "/dead-letters",
    load: () => import("../views/dead_letter.js"),
  },
  {
    path: "/transactions",
    title: "Transactions",
    tag: "transactions-view",
    load: () => import("../views/transactions.js"),
  },
  {
    path: "/schemas",
    title: "Schemas",
    tag: "schemas-view",
    load: () => import("../views/schemas.js"),
  },
  {
    path: "/schemas/:subject",
    title: "{subject}",
    tag: "schema-view",
    nav: "/schemas",
    load: () => import("../views/schema.js"),
  },
  {
    path: "/access",
    title: "Access",
    tag: "access-view",
    load: () => import("../views/access.js"),
  },
  {
    path: "/clients",
    title: "Clients",
    tag: "clients-view",
    load: () => import("../views/clients.js"),
  },
  {
    path: "/reassignments",
    title: "Reassignments",
    tag: "reassignments-view",
    nav: "/",
    load: () => import("../views/reassignments.js"),
  },
  { path: "/sql", title: "SQL", tag: "sql-view", load: () => import("../views/sql.js") },
  { path: "/nodes", title: "Nodes", tag: "nodes-view", load: () => import("../views/nodes.js") },
];

/** Paths, titles and marks (of the sprite icons.svg) of the navigation. */
const ENTRIES = [
  { path: "/", title: "Cluster", icon: "cluster" },
  { path: "/topics", title: "Topics", icon: "topics" },
  { path: "/groups", title: "Groups", icon: "groups" },
  { path: "/dead-letters", title: "Dead letters", icon: "letters" },
  { path: "/transactions", title: "Transactions", icon: "transactions" },
  { path: "/schemas", title: "Schemas", icon: "schemas" },
  { path: "/sql", title: "SQL", icon: "sql", needs: "has_sql" },
  { path: "/access", title: "Access", icon: "access" },
  { path: "/clients", title: "Clients", icon: "clients" },
  { path: "/nodes", title: "Nodes", icon: "nodes", needs: "can_control" },
];

register(...PAGES);

class AppShell extends Element {
  /** @type {Record<string, any>} */
  state = { ready: false, failure: null, place: current(), page: null, menu: false };

  connected() {
    onPlace((place) => this.visit(place));
    window.addEventListener("login-needed", () => {
      me.login_needed = true;
      me.user = null;
      this.update();
    });
    this.addEventListener("logged-in", () => this.begin());
    this.begin();
  }

  async begin() {
    try {
      await loadMe();
      this.update({ ready: true, failure: null });
      await this.visit(current());
    } catch (failure) {
      // 401: the login page is shown instead
      this.update({ ready: true, failure: me.login_needed ? null : failure });
    }
  }

  /** @param {import("./router.js").Place} place */
  async visit(place) {
    const { route, params, query } = place;
    const page = this.state.page;
    this.update({ place, menu: false });
    if (me.login_needed && !me.user) return;
    if (page && route?.tag === page.localName && sameParams(page.params, params)) {
      page.query = query;
      page.changed();
      page.update();
      return;
    }
    if (!route) {
      this.update({ page: null, failure: null });
      return;
    }
    try {
      await route.load();
    } catch {
      this.update({
        page: null,
        failure: { status: 0, message: "This page could not be loaded." },
      });
      return;
    }
    if (this.state.place !== place) return; // the user has gone on while it was loaded
    const next = /** @type {any} */ (document.createElement(route.tag));
    Object.assign(next, { params, query });
    document.title = `${titleOf(place)} · raftka`;
    this.update({ page: next, failure: null });
    const main = this.querySelector("main");
    if (page) main?.focus({ preventScroll: true }); // a screen reader begins at the new page
    main?.scrollTo(0, 0);
  }

  template() {
    if (!this.state.ready) return waiting();
    if (me.login_needed && !me.user) {
      import("../views/login.js");
      return html`<main class="entry"><login-view></login-view></main>`;
    }
    const { place, page, failure, menu } = this.state;
    const here = place.route?.nav ?? place.route?.path;
    const entries = ENTRIES.filter(
      ({ needs }) => !needs || me[/** @type {"can_control" | "has_sql"} */ (needs)],
    );
    return html`
      <a class="skip" href="#main" @click=${(/** @type {Event} */ e) => this.skip(e)}
        >Skip to the page</a
      >
      <header class="bar">
        <button
          class="quiet icon menu-button"
          aria-label="Menu"
          aria-expanded=${String(menu)}
          aria-controls="navigation"
          @click=${() => this.update({ menu: !menu })}
        >
          ${icon("menu")}
        </button>
        <a class="brand" href="#/"><img src="/icon.svg" alt="" width="26" height="26" />raftka</a>
      </header>
      <nav
        id="navigation"
        class=${menu ? "open" : ""}
        aria-label="Pages"
        @keydown=${(/** @type {KeyboardEvent} */ e) => e.key === "Escape" && this.update({ menu: false })}
      >
        <a class="brand" href="#/"><img src="/icon.svg" alt="" width="28" height="28" />raftka</a>
        <ul>
          ${entries.map(
            (entry) =>
              html`<li>
                <a
                  href=${link(entry.path.split("/").filter(Boolean))}
                  aria-current=${entry.path === here ? "page" : null}
                >
                  ${icon(entry.icon)}<span>${entry.title}</span></a
                >
              </li>`,
          )}
        </ul>
        <footer>
          ${me.read_only ? html`<span class="badge">read-only</span>` : null}
          ${
            me.user
              ? html`<div class="user">
                  <span>${me.user}</span>
                  <button class="quiet small" @click=${() => this.logOut()}>Log out</button>
                </div>`
              : null
          }
          <div class="foot-line">
            <button class="quiet small" @click=${() => this.switchTheme()}>
              ${icon("theme")}<span>${themeName()}</span>
            </button>
            <span class="version">${me.version}</span>
          </div>
        </footer>
      </nav>
      <main id="main" tabindex="-1">
        ${failure ? problem(failure) : (page ?? (place.route ? waiting() : nowhere(place)))}
      </main>
    `;
  }

  /** @param {Event} event */
  skip(event) {
    event.preventDefault(); // the address is the router's
    this.querySelector("main")?.focus();
  }

  async logOut() {
    await api.post("/api/logout");
    location.reload();
  }

  switchTheme() {
    const next = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    localStorage.setItem("raftka-theme", next);
    this.update();
  }
}

const isDark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};

const themeName = () => (isDark() ? "Light" : "Dark");

/** @param {import("./router.js").Place} place */
const titleOf = ({ route, params }) =>
  (route?.title ?? "raftka").replace(/\{(\w+)\}/g, (_, name) => params[name]);

/** @param {Record<string, string>} a @param {Record<string, string>} b */
const sameParams = (a, b) => JSON.stringify(a) === JSON.stringify(b);

/** @param {import("./router.js").Place} place */
const nowhere = ({ path }) => html`
  <div class="problem">
    <strong>There is no page ${path}</strong>
    <p><a href="#/">Go to the cluster</a></p>
  </div>
`;

AppShell.define("app-shell");

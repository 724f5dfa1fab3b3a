// @ts-check
/** The first page: brokers, quorum, what moves, what is wrong now and the next step. */
import { bytes, count, counted, duration, percent, short } from "../js/format.js";
import { icon } from "../js/icon.js";
import { each, html, svg } from "../js/render.js";
import { View } from "../js/view.js";
import "../elements/data_table.js";
import "../elements/small.js";

const STRIP = { width: 600, height: 44 };

class ClusterView extends View {
  changed() {
    this.watch("/api/cluster", {}, "cluster");
  }

  template() {
    return this.shown(
      "cluster",
      (data) => html`
        <div class="head">
          <h1>Cluster</h1>
          <span class="muted mono">${data.cluster_id}</span>
        </div>
        <div class="stack">
          ${findings(data)} ${facts(data)} ${brokers(data)}
          <div class="split">${moves(data)} ${quorum(data)}</div>
          ${data.directories.length ? directories(data) : null}
        </div>
      `,
    );
  }
}

/** @param {any} data */
function facts({ brokers, partitions, topics, rates, groups, size }) {
  const up = brokers.filter((/** @type {any} */ each) => each.state === "up").length;
  const { offline, under_replicated } = partitions;
  return html`
    <dl class="facts">
      ${fact("Brokers", `${up} of ${brokers.length}`, up < brokers.length ? "bad" : "", "are up")}
      ${fact("Topics", count(topics), "", counted(partitions.total, "partition"))}
      ${fact("Groups", count(groups?.total), "", `${count(groups?.stable)} stable`)}
      ${fact("On disk", bytes(size), "", "all replicas")}
      <div>
        <dt>Records a second</dt>
        <dd>
          ${short(rates.at(-1))}
          <spark-line .values=${rates} label="Records a second, the last readings"></spark-line>
        </dd>
      </div>
      ${fact(
        "Not in sync",
        count(under_replicated),
        offline ? "bad" : under_replicated ? "warn" : "",
        offline ? `${count(offline)} without leader` : "partitions",
      )}
    </dl>
  `;
}

/**
 * @param {string} name
 * @param {unknown} value
 * @param {string} kind
 * @param {unknown} more
 */
const fact = (name, value, kind, more) =>
  html`<div class=${kind}>
    <dt>${name}</dt>
    <dd>${value}<small>${more}</small></dd>
  </div>`;

/** @param {any} data */
function findings({ findings, partitions, brokers }) {
  if (!findings.length) {
    return html`
      <div class="card finding-none">
        ${icon("good")}
        <p>
          <b>Nothing is wrong.</b>
          <span class="muted"
            >${counted(brokers.length, "broker")}, ${counted(partitions.total, "partition")}: each
            has a leader and all its replicas.</span
          >
        </p>
      </div>
    `;
  }
  return html`
    <section class="card findings" aria-labelledby="findings-title">
      <div class="card-head">
        <h2 id="findings-title">Wrong now, and the next step</h2>
        <span class="badge">${findings.length}</span>
      </div>
      <ul aria-live="polite">
        ${each(
          findings,
          (finding) => finding.id,
          (finding) =>
            html` <li class=${finding.level}>
              ${icon(finding.level === "bad" ? "bad" : "warn")}
              <div>
                <p>
                  <b>${finding.title}</b>
                  ${finding.link ? html`<a href=${finding.link}>Show</a>` : null}
                </p>
                <p class="muted">${finding.why}</p>
                ${finding.command ? html`<command-line .command=${finding.command}></command-line>` : null}
              </div>
            </li>`,
        )}
      </ul>
    </section>
  `;
}

/** @param {any} data */
function brokers({ brokers, controller }) {
  const most = Math.max(1, ...brokers.map((/** @type {any} */ each) => each.leaders));
  const has = (/** @type {string} */ key) =>
    brokers.some((/** @type {any} */ each) => each[key] !== null && each[key] !== undefined);
  const columns = [
    {
      key: "id",
      title: "Broker",
      sort: true,
      cell: (/** @type {any} */ b) =>
        html`<b>${b.id}</b
          >${b.id === controller ? html` <span class="badge accent">controller</span>` : null}`,
    },
    {
      key: "state",
      title: "State",
      sort: true,
      cell: (/** @type {any} */ b) =>
        html`<status-dot .kind=${STATES[b.state] ?? "idle"} .text=${b.state}></status-dot>`,
    },
    {
      key: "address",
      title: "Address",
      cell: (/** @type {any} */ b) =>
        html`<span class="mono">${b.host ? `${b.host}:${b.port}` : "–"}</span>`,
      desk: true,
    },
    ...(has("rack") ? [{ key: "rack", title: "Rack", sort: true, desk: true }] : []),
    {
      key: "leaders",
      title: "Leaders",
      sort: true,
      descending: true,
      number: true,
      cell: (/** @type {any} */ b) =>
        html`<span class="share"
          ><span class="meter"
            ><i style=${{ width: percent(b.leaders / most).replace(" ", "") }}></i></span
          >${count(b.leaders)}</span
        >`,
    },
    {
      key: "replicas",
      title: "Replicas",
      sort: true,
      descending: true,
      number: true,
      cell: (/** @type {any} */ b) => count(b.replicas),
      desk: true,
    },
    {
      key: "lagging",
      title: "Not in sync",
      sort: true,
      descending: true,
      number: true,
      cell: (/** @type {any} */ b) =>
        b.lagging ? html`<span class="badge warn">${count(b.lagging)}</span>` : "0",
    },
    {
      key: "size",
      title: "Data",
      sort: true,
      descending: true,
      number: true,
      cell: (/** @type {any} */ b) => html`<byte-size .bytes=${b.size}></byte-size>`,
    },
    ...(has("turn_p99_ms")
      ? [
          {
            key: "turn_p99_ms",
            title: "Turn p99",
            hint: "99 % of the rounds of the broker's loop were shorter",
            sort: true,
            descending: true,
            number: true,
            cell: (/** @type {any} */ b) => duration(b.turn_p99_ms),
          },
        ]
      : []),
  ];
  return html`
    <section class="card" aria-labelledby="brokers-title">
      <h2 id="brokers-title">Brokers</h2>
      <data-table
        label="Brokers"
        .columns=${columns}
        .rows=${brokers}
        .key=${(/** @type {any} */ b) => b.id}
        .local=${true}
        .sort=${"id"}
      ></data-table>
    </section>
  `;
}

/** @type {Record<string, string>} */
const STATES = { up: "good", fenced: "warn", gone: "bad" };

/** @param {any} data */
function moves({ moves }) {
  return html`
    <section class="card" aria-labelledby="moves-title">
      <div class="card-head">
        <h2 id="moves-title">Leaders and in-sync replicas, live</h2>
        <span class="muted"
          >last ${duration(moves.span_ms)} · <a href="#/reassignments">Reassignments</a></span
        >
      </div>
      <div class="body">
        ${strip(moves)}
        <p class="legend muted">
          <span><i class="leader"></i>leader moved</span
          ><span><i class="shrunk"></i>replica fell out</span
          ><span><i class="grown"></i>replica came back</span>
        </p>
        ${
          moves.latest.length
            ? html`<ul class="moves" tabindex="0" aria-label="Latest moves">
                ${each(
                  moves.latest,
                  (m) => m.id,
                  (m) =>
                    html` <li>
                      <i class=${m.kind} aria-hidden="true"></i
                      ><a href=${`#/topics/${encodeURIComponent(m.topic)}?tab=partitions`}
                        >${m.topic}-${m.partition}</a
                      >
                      <span>${m.text}</span><time-ago class="muted" .ms=${m.at_ms}></time-ago>
                    </li>`,
                )}
              </ul>`
            : html`<p class="muted still">
                No leader has moved, and no replica has left or come back.
              </p>`
        }
      </div>
    </section>
  `;
}

/** @param {{kinds: string[], bars: number[][]}} moves bars with a number for each kind, the oldest first */
function strip({ kinds, bars }) {
  const { width, height } = STRIP;
  const step = width / bars.length;
  const top = Math.max(4, ...bars.map((bar) => bar.reduce((a, b) => a + b)));
  const stack = (/** @type {number[]} */ bar, /** @type {number} */ at) => {
    let y = height;
    return bar.map((number, kind) => {
      const high = (number / top) * (height - 4);
      y -= high;
      return svg`<rect class=${kinds[kind]} x=${at * step + 1} y=${y} width=${step - 2} height=${high}></rect>`;
    });
  };
  return html`<svg
    class="strip"
    role="img"
    aria-label="Moves by time"
    viewBox=${`0 0 ${width} ${height}`}
    preserveAspectRatio="none"
  >
    ${bars.map(stack)} ${svg`<path class="ground" d=${`M0 ${height - 0.5}H${width}`}></path>`}
  </svg>`;
}

/** @param {any} data */
function quorum({ quorum }) {
  if (!quorum)
    return html`<section class="card">
      <h2>Quorum</h2>
      <p class="body muted">This cluster does not describe its quorum.</p>
    </section>`;
  const columns = [
    {
      key: "id",
      title: "Node",
      cell: (/** @type {any} */ v) =>
        html`<b>${v.id}</b>
          <span class=${v.role === "leader" ? "badge accent" : "badge"}
            >${v.role === "leader" ? "voter, leader" : v.role}</span
          >`,
    },
    {
      key: "state",
      title: "State",
      cell: (/** @type {any} */ v) =>
        html`<status-dot
          .kind=${v.is_current ? "good" : "bad"}
          .text=${!v.is_current ? "silent" : v.role === "leader" ? "leads" : "follows"}
        ></status-dot>`,
    },
    {
      key: "endpoints",
      title: "Address",
      cell: (/** @type {any} */ v) => html`<span class="mono">${v.endpoints[0] ?? "–"}</span>`,
      desk: true,
    },
    {
      key: "offset",
      title: "Offset",
      number: true,
      cell: (/** @type {any} */ v) => count(v.offset),
      desk: true,
    },
    { key: "lag", title: "Behind", number: true, cell: (/** @type {any} */ v) => count(v.lag) },
    {
      key: "caught_up_ms",
      title: "Caught up",
      number: true,
      cell: (/** @type {any} */ v) =>
        v.caught_up_ms === null
          ? "–"
          : v.caught_up_ms < 2000
            ? "now"
            : `${duration(v.caught_up_ms)} ago`,
    },
  ];
  return html`
    <section class="card" aria-labelledby="quorum-title">
      <div class="card-head">
        <h2 id="quorum-title">Quorum of controllers</h2>
        <span class="muted"
          >${counted(quorum.voters, "voter")}, ${counted(quorum.nodes.length - quorum.voters, "observer")}, epoch
          ${count(quorum.epoch)}</span
        >
      </div>
      <p class="body">
        ${
          quorum.may_fail > 0
            ? html`${counted(quorum.may_fail, "more voter")} may fail: metadata stay writable.`
            : html`<span class="badge warn">no voter may fail</span> One voter less, and there is
                no controller.`
        }
      </p>
      <data-table
        label="Voters and observers"
        .columns=${columns}
        .rows=${quorum.nodes}
        .key=${(/** @type {any} */ v) => v.id}
      ></data-table>
    </section>
  `;
}

/** @param {any} data */
function directories({ directories }) {
  return html`
    <section class="card" aria-labelledby="disks-title">
      <h2 id="disks-title">Disks</h2>
      <ul class="disks body">
        ${each(
          directories,
          (d) => `${d.broker} ${d.path}`,
          (d) => {
            const used = d.total_bytes ? 1 - d.usable_bytes / d.total_bytes : 0;
            return html`<li>
              <p>
                <b>${d.broker}</b>
                <span class="mono">${d.path}</span
                >${d.error ? html` <span class="badge bad">${d.error}</span>` : null}
              </p>
              <span class="meter" role="img" aria-label=${`${percent(used)} used`}
                ><i
                  class=${used > 0.95 ? "bad" : used > 0.85 ? "warn" : ""}
                  style=${{ width: `${used * 100}%` }}
                ></i
              ></span>
              <p class="muted">
                ${bytes(d.size)} of
                logs${d.total_bytes ? html`, ${bytes(d.usable_bytes)} free of ${bytes(d.total_bytes)}` : null}
              </p>
            </li>`;
          },
        )}
      </ul>
    </section>
  `;
}

ClusterView.define("cluster-view");

// The page of a run that goes on: its network, its charts, and what a viewer can change.

/** The height of a chart's axis grows in steps of this factor, so that it does not move with each sample. */
const GROWTH = 1.25;
/** Redrawn at most so often, in milliseconds. */
const REDRAWN_EVERY_MS = 100;
/** More flows share one chart. */
const MOST_STACKS = 6;
const STEP_S = 0.1;
const DIRECTIONS = ["forward", "backward"];

const element = (id) => document.getElementById(id);

function make(parent, name, text = "", properties = {}) {
  const made = parent.appendChild(document.createElement(name));
  if (text !== "") made.textContent = text;
  Object.assign(made, properties);
  return made;
}

/** Names in the order that people expect: n2 before n10. */
const inOrder = (names) => [...names].sort((one, other) => one.localeCompare(other, "en", { numeric: true }));

/** Asks the server for a change. Shows why it refuses. Returns whether it was done. */
async function ask(address, body) {
  const headers = { "content-type": "application/json", [document.body.dataset.changes]: "1" };
  const refusal = element("refusal");
  try {
    const answer = await fetch(address, { method: "POST", headers, body: JSON.stringify(body) });
    refusal.textContent = answer.ok ? "" : ((await answer.json()).why ?? answer.statusText);
    refusal.hidden = answer.ok;
    return answer.ok;
  } catch {
    refusal.textContent = "the server does not answer: the run is over, or mptcplab has ended";
    refusal.hidden = false;
    return false;
  }
}

/** How fast counters grow, from one sample to the next, per second. */
class Rates {
  #before = null;

  /** Returns the rate of a counter of an entity in a sample, 0 for a new one; null before the second sample. */
  of(sample, entity, metric) {
    if (this.#before === null) return null;
    const now = sample.values[entity]?.[metric] ?? 0;
    const before = this.#before.values[entity]?.[metric] ?? 0;
    return Math.max(0, now - before) / (sample.time_s - this.#before.time_s);
  }

  passed(sample) {
    this.#before = sample;
  }
}

/** Curves that grow at their right end. */
class LivePanel extends FigurePanel {
  constructor({ quantity, unit, form, high, isStacked }) {
    const axis = { label: `${quantity} (${unit})`, unit, low: 0, high };
    super({ x: { unit: "s" }, y: axis, marks: [], ceiling: null, curves: [] }, [], "rows", { label: null });
    Object.assign(this, { form, isStacked, label: axis.label });
    this.events = new EventMarks([], EVENT_ROWS);
    this.margin = { left: 46, top: 8 + EVENT_ROW * EVENT_ROWS };
  }

  /** Adds the values of a time, {label: {value, colour}}, in their order from the bottom. */
  add(time, values) {
    let below = 0;
    const isNew = Object.keys(values).some((label) => !this.curves.some((curve) => curve.label === label));
    for (const [label, { value, colour }] of Object.entries(values)) {
      const curve = this.curves.find((each) => each.label === label) ?? this.#begun(label, colour);
      const top = this.isStacked ? below + (value ?? 0) : value;
      curve.x.push(time);
      curve.y.push(top);
      if (this.isStacked) curve.low.push(below);
      below = this.isStacked ? top : 0;
      if (top > this.high) this.high = top * GROWTH;
    }
    return isNew;
  }

  #begun(label, colour) {
    const curve = { label, colour, form: this.form, x: [], y: [], low: this.isStacked ? [] : null, high: null, dashed: false };
    this.curves.push(curve);
    return curve;
  }
}

/** The charts of a run over one axis of time. */
class LiveCharts extends LinkedCharts {
  #panels = new Map();
  #marks = [];
  #waits = false;

  constructor(section, duration_s) {
    super(section, { from: 0, to: duration_s });
  }

  /** Adds values to the chart with a title, which is made when it is first needed. */
  addValues(title, panel, time, values) {
    let found = this.#panels.get(title);
    if (!found) {
      const live = new LivePanel(panel);
      live.events.marks = this.#marks;
      found = { live, legend: this.#placed(title, live) };
      this.#panels.set(title, found);
      if (this.#panels.size === 1) this.start();
    }
    if (found.live.add(time, values)) this.#drawLegend(found);
  }

  mark(label, at_s) {
    this.#marks.push({ label, start_s: at_s, end_s: null });
    this.redraw();
  }

  #placed(title, live) {
    const frame = make(element("charts"), "div", "", { className: "panel" });
    frame.dataset.title = title;
    const axis = make(frame, "p", "", { className: "axis" });
    make(axis, "strong", title);
    axis.append(` ${live.label}`);
    const legend = make(make(frame, "div", "", { className: "live" }), "ul", "", { className: "legend" });
    const chart = make(frame, "div", "", { className: "chart", tabIndex: 0 });
    chart.setAttribute("role", "img");
    this.add(new Chart(frame, live, []));
    return legend;
  }

  #drawLegend({ live, legend }) {
    legend.replaceChildren();
    for (const { label, colour } of live.curves) {
      const item = make(legend, "li");
      const swatch = make(item, "span", "", { className: "swatch" });
      swatch.style.setProperty("--of", `var(--c${(colour % COLOURS) + 1})`);
      swatch.style.opacity = opacityOf(colour);
      item.append(label);
    }
  }

  redraw() {
    if (this.#waits || !this.charts.length) return;
    this.#waits = true;
    setTimeout(() => {
      this.#waits = false;
      this.draw();
    }, REDRAWN_EVERY_MS);
  }
}

/** The picture and the table of the links, and the controls of the one that is chosen. */
class Network {
  #rows = new Map();
  #drawn = new Map();
  #downs = new Map();
  #chosen = null;

  constructor(run) {
    this.run = run;
    element("topology").innerHTML = run.topology;
    // It is more than a picture: its links can be chosen.
    document.querySelector("#topology svg").setAttribute("role", "group");
    const links = new Map(run.links.map((link) => [link.id, link]));
    for (const id of inOrder(links.keys())) this.#addRow(links.get(id));
    for (const path of document.querySelectorAll("path.link")) this.#addPicture(links.get(path.dataset.link), path);
  }

  #addRow(link) {
    const row = make(document.querySelector("#links tbody"), "tr");
    make(row, "th", link.id).scope = "row";
    make(row, "td", link.ends.join(" → "));
    const cells = ["forward", "backward", "queue", "lost"].map((name) => [name, make(row, "td", "–", { className: "n" })]);
    const state = make(row, "td", "up");
    const button = make(make(row, "td"), "button", "Cut", { type: "button" });
    button.addEventListener("click", (event) => {
      event.stopPropagation();
      ask("actions", { [this.#isDown(link) ? "up" : "down"]: link.id });
    });
    row.addEventListener("click", () => this.#choose(link));
    this.#rows.set(link.id, { row, state, button, cells: Object.fromEntries(cells) });
  }

  /** Makes a link of the picture wide enough to hit, and shows its load. */
  #addPicture(link, path) {
    const copy = (name) => {
      const made = path.cloneNode();
      made.setAttribute("class", name);
      path.before(made);
      return made;
    };
    const load = copy("load");
    const hit = copy("hit");
    path.after(hit);
    hit.setAttribute("tabindex", "0");
    hit.setAttribute("role", "button");
    hit.setAttribute("aria-label", `Link ${link.id}`);
    hit.addEventListener("click", () => this.#choose(link));
    hit.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      this.#choose(link);
    });
    for (const text of document.querySelectorAll("text[data-link]")) {
      if (text.dataset.link === link.id) text.addEventListener("click", () => this.#choose(link));
    }
    this.#drawn.set(link.id, { path, load, hit });
  }

  #isDown(link) {
    return (this.#downs.get(link.id)?.size ?? 0) > 0;
  }

  /** Takes note of an action: what is down is the link itself, or one of its interfaces. */
  happened(action) {
    if (!action) return;
    const what = action.link ?? action.interface;
    const link = action.interface ? this.run.interfaces.find(({ id }) => id === action.interface)?.link : action.link;
    if (!link) return;
    const downs = this.#downs.get(link) ?? new Set();
    if (action.kind === "link_down" || action.kind === "interface_down") downs.add(what);
    if (action.kind === "link_up" || action.kind === "interface_up") downs.delete(what);
    this.#downs.set(link, downs);
    this.#showState(this.run.links.find(({ id }) => id === link));
  }

  #showState(link) {
    const { state, button } = this.#rows.get(link.id);
    const downs = [...(this.#downs.get(link.id) ?? [])];
    const isDown = downs.length > 0;
    state.textContent = !isDown ? "up" : downs.includes(link.id) ? "cut" : `${downs.join(", ")} down`;
    state.className = isDown ? "is-down" : "";
    button.textContent = downs.includes(link.id) || !isDown ? (isDown ? "Restore" : "Cut") : "Ends";
    button.disabled = isDown && !downs.includes(link.id);
    this.#drawn.get(link.id)?.path.classList.toggle("is-down", isDown);
  }

  sampled(sample, rates) {
    for (const link of this.run.links) {
      const { cells } = this.#rows.get(link.id);
      const bits = DIRECTIONS.map((side) => 8 * (rates.of(sample, `links.${link.id}.${side}`, "wire_bytes") ?? 0));
      const sum = (metric) => DIRECTIONS.reduce((total, side) => total + (sample.values[`links.${link.id}.${side}`]?.[metric] ?? 0), 0);
      DIRECTIONS.forEach((side, n) => (cells[side].textContent = quantity(bits[n], "bit/s")));
      cells.queue.textContent = quantity(sum("queue_bytes"), "B");
      cells.lost.textContent = String(sum("dropped_queue_full") + sum("dropped_loss"));
      const shares = bits.map((rate, n) => (link.rates_bps[n] ? rate / link.rates_bps[n] : rate > 0 ? 0.1 : 0));
      const load = this.#drawn.get(link.id)?.load;
      if (load) load.setAttribute("stroke-width", String(10 * Math.min(1, Math.max(...shares))));
    }
  }

  #choose(link) {
    this.#chosen = link.id;
    for (const [id, { row }] of this.#rows) row.classList.toggle("is-chosen", id === link.id);
    for (const [id, { hit }] of this.#drawn) hit.classList.toggle("is-chosen", id === link.id);
    const hands = element("hands");
    hands.hidden = false;
    hands.replaceChildren();
    make(hands, "h3", `Link ${link.id}`);
    this.#addCuts(hands, link);
    for (const id of link.ends) this.#addEnd(hands, id);
    this.#addSlider(hands, link, { name: "rate", unit: "kbit", shown: "bit/s", factor: 1e3, now: (link.rates_bps[0] ?? 0) / 1e3 });
    this.#addSlider(hands, link, { name: "delay", unit: "ms", shown: "s", factor: 1e-3, now: link.delays_s[0] * 1e3, high: 500 });
    this.#addSlider(hands, link, { name: "loss", unit: "%", shown: "%", factor: 1, now: 0, high: 30, step: 0.5 });
    hands.scrollIntoView({ block: "nearest" });
  }

  #addCuts(hands, link) {
    const line = make(hands, "p");
    this.#addButton(line, "Cut", { down: link.id });
    this.#addButton(line, "Restore", { up: link.id });
    const outage = make(line, "button", "Outage of", { type: "button" });
    const length = make(make(line, "label"), "input", "", { type: "number", min: 1, max: 60000, value: 500 });
    length.setAttribute("aria-label", "Length of the outage in ms");
    length.parentElement.append("ms");
    outage.addEventListener("click", () => ask("actions", { outage: link.id, for: `${length.value}ms` }));
  }

  #addEnd(hands, id) {
    const line = make(hands, "p", `${id}:`);
    this.#addButton(line, "Down", { down: id });
    this.#addButton(line, "Up", { up: id });
    if (!this.run.hosts.includes(id.split(".")[0])) return;
    this.#addButton(line, "Backup", { backup: id, on: true });
    this.#addButton(line, "Regular", { backup: id, on: false });
  }

  #addButton(line, text, words) {
    const button = make(line, "button", text, { type: "button" });
    button.setAttribute("aria-label", `${text} ${Object.values(words)[0]}`);
    button.addEventListener("click", () => ask("actions", words));
  }

  /** A slider acts when it is let go. A link whose rate another thing gives has none for its rate. */
  #addSlider(hands, link, { name, unit, shown, factor, now, high = 2 * now, step = high / 200 }) {
    if (!high) return;
    const label = make(make(hands, "p"), "label", `${name[0].toUpperCase()}${name.slice(1)}`);
    const input = make(label, "input", "", { type: "range", min: name === "rate" ? step : 0, max: high, step });
    input.value = now;
    const told = make(label, "output");
    const tell = () => (told.textContent = shown === "%" ? `${input.value} %` : quantity(input.value * factor, shown));
    tell();
    input.addEventListener("input", tell);
    input.addEventListener("change", () => ask("actions", { set: link.id, [name]: `${input.value}${unit}` }));
  }
}

/** A run as its messages tell it. */
class LiveRun {
  #rates = new Rates();
  #isPaused = false;

  constructor() {
    this.#follow();
    element("pause").addEventListener("click", () => ask("pace", { is_paused: !this.#isPaused }));
    element("step").addEventListener("click", () => ask("pace", { step_s: STEP_S }));
    for (const button of document.querySelectorAll("button.speed")) {
      button.addEventListener("click", () => ask("pace", { speed: button.dataset.speed ? Number(button.dataset.speed) : null }));
    }
  }

  #follow() {
    const socket = new WebSocket(`ws://${location.host}/messages`);
    socket.addEventListener("message", ({ data }) => {
      for (const message of JSON.parse(data)) this[`on_${message.kind}`](message);
      this.charts?.redraw();
    });
    socket.addEventListener("close", () => this.ended || this.#tellState("mptcplab no longer answers", "is-dead"));
  }

  #tellState(text, className = "") {
    Object.assign(element("state"), { textContent: text, className: `state ${className}` });
  }

  on_run(run) {
    this.run = run;
    element("where").textContent = `${run.name} · ${run.backend} · seed ${run.seed}`;
    element("pace").hidden = !run.has_pace;
    this.charts = new LiveCharts(element("figures"), run.duration_s);
    this.network = new Network(run);
    this.numbers = new Map(inOrder(run.links.map(({ id }) => id)).map((id, number) => [id, number]));
    this.#tellState("running");
  }

  on_pace({ speed, is_paused }) {
    this.#isPaused = is_paused;
    element("pause").textContent = is_paused ? "Go on" : "Pause";
    element("step").disabled = !is_paused;
    for (const button of document.querySelectorAll("button.speed")) {
      button.setAttribute("aria-pressed", String(button.dataset.speed === (speed === null ? "" : String(speed))));
    }
    this.#tellTime();
  }

  #tellTime() {
    const time = `${(this.time_s ?? 0).toFixed(1)} s of ${this.run.duration_s} s`;
    if (!this.ended) this.#tellState(`${this.#isPaused ? "paused at" : "running:"} ${time}`);
  }

  on_sample(sample) {
    this.time_s = sample.time_s;
    this.network.sampled(sample, this.#rates);
    for (const { id } of this.run.flows.slice(0, MOST_STACKS)) this.#drawFlow(sample, id);
    this.#drawLinks(sample);
    this.#rates.passed(sample);
    this.#tellTime();
  }

  #subflows(sample, flow) {
    const start = `flows.${flow}.subflows.`;
    return inOrder(Object.keys(sample.values).filter((entity) => entity.startsWith(start))).map((entity) => [entity, entity.slice(start.length)]);
  }

  #drawFlow(sample, flow) {
    const subflows = this.#subflows(sample, flow);
    const named = subflows.map(([entity, id]) => [entity, `subflow ${id}`, Number(id)]);
    const carried = named.length ? named : [[`flows.${flow}`, flow, 0]];
    const arrived = carried.map(([entity, label, colour]) => [label, { colour, value: this.#mbps(sample, entity, "bytes_received") }]);
    if (arrived.every(([, { value }]) => value === null)) return;
    const title = named.length ? `Arrived on each subflow of ${flow}` : `Arrived of ${flow}`;
    this.#chart(title, { quantity: "Throughput", unit: "Mbit/s", form: "area", high: 0.1, isStacked: true }, sample, arrived);
    if (!named.length) return;
    const gauge = (metric, factor) => named.map(([entity, label, colour]) => [label, { colour, value: factor * (sample.values[entity][metric] ?? NaN) }]);
    this.#chart(`Congestion windows of ${flow}`, { quantity: "Window", unit: "kB", form: "line", high: 10 }, sample, gauge("cwnd_bytes", 1e-3));
    this.#chart(`Smoothed round-trip times of ${flow}`, { quantity: "Time", unit: "ms", form: "line", high: 10 }, sample, gauge("srtt_s", 1e3));
  }

  #drawLinks(sample) {
    const ids = [...this.numbers.keys()];
    const carried = ids.map((id) => {
      const bits = DIRECTIONS.map((side) => this.#mbps(sample, `links.${id}.${side}`, "wire_bytes"));
      return [id, { colour: this.numbers.get(id), value: bits.includes(null) ? null : bits[0] + bits[1] }];
    });
    if (carried.some(([, { value }]) => value === null)) return;
    this.#chart("Carried by each link, both ways", { quantity: "Throughput", unit: "Mbit/s", form: "line", high: 0.1 }, sample, carried);
    const air = ids.filter((id) => sample.values[`links.${id}.forward`]?.air_time_s !== undefined);
    if (!air.length) return;
    const shares = air.map((id) => {
      const used = DIRECTIONS.map((side) => this.#rates.of(sample, `links.${id}.${side}`, "air_time_s") ?? 0);
      return [id, { colour: this.numbers.get(id), value: 100 * (used[0] + used[1]) }];
    });
    this.#chart("Time on the air", { quantity: "Air time", unit: "%", form: "line", high: 100 }, sample, shares);
  }

  #mbps(sample, entity, metric) {
    const rate = this.#rates.of(sample, entity, metric);
    return rate === null ? null : (8 * rate) / 1e6;
  }

  #chart(title, panel, sample, values) {
    this.charts.addValues(title, panel, sample.time_s, Object.fromEntries(values));
  }

  on_event({ number, at_s, text, is_injected, action }) {
    const line = document.createElement("li");
    line.value = number;
    line.className = is_injected ? "by-hand" : "";
    line.textContent = `${at_s.toFixed(2)} s: ${text}${is_injected ? ", by hand" : ""}`;
    element("log").prepend(line);
    this.charts.mark(text, at_s);
    this.network.happened(action);
  }

  on_end({ status, why, bundle }) {
    this.ended = true;
    this.#tellState(status === "done" ? "done" : `${status}: ${why ?? "no reason was recorded"}`, status === "done" ? "" : "is-bad");
    element("pace").hidden = true;
    element("ended").hidden = false;
    element("how-ended").textContent = `Its bundle is ${bundle}.`;
    document.querySelectorAll("#links button, .hands button, .hands input").forEach((each) => (each.disabled = true));
  }
}

new LiveRun();

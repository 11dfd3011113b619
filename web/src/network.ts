// The picture and the table of the links, and the controls of the one that is chosen.

import { quantity } from "./chart";
import { MBIT, type LiveCharts, type Quantity, type Value } from "./live_charts";
import { DIRECTIONS, signalAt, type Action, type Interval, type Link, type RunMessage } from "./messages";
import { ask, element, inOrder, make, makeButton, makeCells } from "./page";
import { Topology } from "./topology";

const CELLS = ["forward", "backward", "queue", "lost"] as const;
const CARRIED: Quantity = { quantity: "Throughput", unit: "Mbit/s", form: "step", least: 0.1 };
const AIR_TIME: Quantity = { quantity: "Air time", unit: "%", form: "step", least: 100, most: 100 };

interface Row {
  row: HTMLTableRowElement;
  state: HTMLElement;
  /** Null for a real link, which cannot be cut here. */
  button: HTMLButtonElement | null;
  cells: Record<(typeof CELLS)[number], HTMLElement>;
}

/** A slider: what `set` changes, in which unit, between which values. */
interface Slider {
  name: string;
  field: "rate" | "delay" | "loss" | "snr";
  unit: string;
  told: (value: number) => string;
  /** Returns the value that the link has at a time of the run. */
  at: (time_s: number) => number;
  ends: [number, number];
  step: number;
}

export class Network {
  readonly #rows = new Map<string, Row>();
  /** The links and interfaces of each link that are down. */
  readonly #downs = new Map<string, Set<string>>();
  readonly #links: Map<string, Link>;
  /** The links of which the run has samples, in their order. */
  readonly #measured: Link[];
  readonly #topology: Topology<Link>;
  #chosen: string | null = null;
  /** Each shows the value that a slider of the chosen link has at a time of the run. */
  #sliders: ((time_s: number) => void)[] = [];
  #time_s = 0;

  constructor(private readonly run: RunMessage) {
    this.#links = new Map(run.links.map((link) => [link.id, link]));
    const links = inOrder(this.#links.keys()).map((id) => this.#links.get(id)!);
    for (const link of links) this.#addRow(link);
    this.#measured = links.filter(({ is_real }) => !is_real);
    const partsOf = ({ has_channel }: Link) => ({ carried: DIRECTIONS.length, state: has_channel ? 2 : 1 });
    this.#topology = new Topology(element("topology"), run, partsOf, (link) => this.#choose(link));
    for (const { id, is_real } of run.links) if (is_real) this.#topology.showUnmeasured(id);
    for (const { id, up } of run.interfaces) if (!up) this.happened({ kind: "interface_down", interface: id });
  }

  #addRow(link: Link): void {
    const row = make(element("links").querySelector("tbody")!, "tr");
    make(row, "th", link.id, { scope: "row" });
    make(row, "td", link.ends.join(" → "));
    const cells = makeCells(row, CELLS, CELLS);
    const state = make(row, "td", "up");
    const hand = make(row, "td");
    const cut = () => ask("actions", { [this.#downsOf(link).length ? "up" : "down"]: link.id });
    const button = link.is_real ? null : makeButton(hand, "Cut", cut);
    if (!button) hand.textContent = "real link";
    row.addEventListener("click", () => this.#choose(link));
    this.#rows.set(link.id, { row, state, button, cells });
  }

  #downsOf(link: Link): string[] {
    return [...(this.#downs.get(link.id) ?? [])];
  }

  /** Takes note of an action: what is down is the link itself, or one of its interfaces. */
  happened(action: Action | null): void {
    const id = action?.interface ? this.run.interfaces.find((one) => one.id === action.interface)?.link : action?.link;
    const link = this.#links.get(id ?? "");
    if (!action || !link) return;
    const downs = this.#downs.get(link.id) ?? new Set<string>();
    const what = action.interface ?? link.id;
    if (action.kind === "link_down" || action.kind === "interface_down") downs.add(what);
    if (action.kind === "link_up" || action.kind === "interface_up") downs.delete(what);
    this.#downs.set(link.id, downs);
    if (action.kind === "set_signal") link.signal = [{ at_s: 0, db: (action.mean_mdb ?? 0) / 1000 }];
    if (action.kind === "set_link" && action.forward && action.backward) {
      const ways = [action.forward, action.backward];
      link.rates_bps = link.rates_bps.map((rate, n) => ways[n]!.rate_bps ?? rate);
      link.delays_s = ways.map(({ delay_ns }) => delay_ns / 1e9);
      const { kind, probability = 0 } = action.forward.loss;
      link.loss_percent = kind === "bernoulli" ? 100 * probability : 0;
    }
    this.#showState(link);
  }

  #showState(link: Link): void {
    const { state, button } = this.#rows.get(link.id)!;
    const downs = this.#downsOf(link);
    const isCut = downs.includes(link.id);
    const why = downs.length === 0 ? null : isCut ? "cut" : `${downs.join(", ")} down`;
    state.textContent = why ?? "up";
    state.className = why === null ? "" : "is-down";
    this.#topology.showState(link.id, why);
    if (!button) return;
    button.textContent = isCut ? "Restore" : "Cut";
    button.disabled = why !== null && !isCut;
  }

  addTo(charts: LiveCharts, interval: Interval): void {
    const values = (of: (link: Link) => number | null): Value[] =>
      this.#measured.map((link) => ({ key: link.id, label: link.id, colour: link.colour, value: of(link) }));
    const carried = values(({ id }) => MBIT * interval.ratesOfLink(id, "wire_bytes").reduce((sum, rate) => sum + rate));
    if (carried.length) charts.addValues("Carried by each link, both ways", CARRIED, interval, carried);
    const wireless = values((link) => interval.airPercent(link)).filter(({ value }) => value !== null);
    if (wireless.length) charts.addValues("Time on the air", AIR_TIME, interval, wireless);
  }

  show(interval: Interval): void {
    this.#time_s = interval.to_s;
    for (const show of this.#sliders) show(this.#time_s);
    for (const link of this.#measured) {
      const { cells } = this.#rows.get(link.id)!;
      const bits = interval.ratesOfLink(link.id, "wire_bytes").map((rate) => 8 * rate) as [number, number];
      const sum = (metric: string) => DIRECTIONS.reduce((total, side) => total + (interval.valueOf(`links.${link.id}.${side}`, metric) ?? 0), 0);
      DIRECTIONS.forEach((side, n) => (cells[side].textContent = quantity(bits[n]!, "bit/s")));
      cells.queue.textContent = quantity(sum("queue_bytes"), "B");
      cells.lost.textContent = String(this.run.drops.reduce((total, reason) => total + sum(reason), 0));
      const share = (n: 0 | 1) => (link.rates_bps[n] ? bits[n] / link.rates_bps[n] : bits[n] > 0 ? 0.1 : 0);
      const air_percent = interval.airPercent(link);
      this.#topology.showLoad(link.id, { bits, shares: [share(0), share(1)], queue_bytes: sum("queue_bytes"), air_percent });
    }
  }

  #choose(link: Link): void {
    this.#chosen = link.id;
    for (const [id, { row }] of this.#rows) row.classList.toggle("is-chosen", id === this.#chosen);
    this.#topology.showChosen(link.id);
    const hands = element("hands");
    hands.hidden = false;
    hands.replaceChildren();
    make(hands, "h3", `Link ${link.id}`, { tabIndex: -1 });
    if (!link.is_real) this.#addCuts(hands, link);
    for (const id of link.ends) this.#addEnd(hands, id);
    this.#sliders = slidersOf(link, this.#time_s).map((slider) => addSlider(hands, link, slider));
    for (const show of this.#sliders) show(this.#time_s);
    hands.scrollIntoView({ block: "nearest" });
  }

  #addCuts(hands: HTMLElement, link: Link): void {
    const line = make(hands, "p");
    addAction(line, "Cut", { down: link.id });
    addAction(line, "Restore", { up: link.id });
    const length = document.createElement("input");
    const by = document.createElement("select");
    makeButton(line, "Outage of", () => ask("actions", { outage: link.id, for: `${length.value}ms`, by: by.value }));
    Object.assign(length, { type: "number", min: "1", max: "60000", value: "500" });
    length.setAttribute("aria-label", "Length of the outage in ms");
    make(line, "label").append(length, "ms");
    by.setAttribute("aria-label", "How the link is interrupted");
    for (const [value, text] of this.#waysToInterrupt(link)) make(by, "option", text, { value });
    if (by.length > 1) line.append(by);
  }

  /** Ports go down where a link does not join two hosts. Rules need controlled switches. */
  #waysToInterrupt(link: Link): [string, string][] {
    const kinds = link.ends.map((end) => this.#kindOf(end));
    const found: [string, string][] = [["cut", "cut"]];
    if (kinds.includes("openflow")) found.push(["drop_rule", "by a rule"]);
    if (kinds.some((kind) => kind !== "host")) found.push(["port_down", "ports go down"]);
    return found;
  }

  #kindOf(interfaceId: string): string | undefined {
    const node = this.run.interfaces.find(({ id }) => id === interfaceId)?.node;
    return this.run.nodes.find(({ id }) => id === node)?.kind;
  }

  #addEnd(hands: HTMLElement, id: string): void {
    const line = make(hands, "p", `${id}:`);
    addAction(line, "Down", { down: id });
    addAction(line, "Up", { up: id });
    if (this.#kindOf(id) !== "host") return;
    addAction(line, "Backup", { backup: id, on: true });
    addAction(line, "Regular", { backup: id, on: false });
  }
}

/** Adds a button for an action, in the words of a description. */
export function addAction(line: HTMLElement, text: string, words: Record<string, unknown>): HTMLButtonElement {
  return makeButton(line, text, () => ask("actions", words), `${text} ${Object.values(words)[0]}`);
}

/** The sliders of a link. A real link has none, and one whose rate a trace or its radio gives has none for its rate. */
function slidersOf(link: Link, time_s: number): Slider[] {
  if (link.is_real) return [];
  const kbit = () => (link.rates_bps[0] ?? 0) / 1e3;
  const delay_ms = () => 1e3 * (link.delays_s[0] ?? 0);
  const signal_db = (at_s: number) => signalAt(link, at_s) ?? NaN;
  const found: Slider[] = [];
  if (kbit() > 0) {
    const told = (value: number) => quantity(value * 1e3, "bit/s");
    found.push({ name: "Rate", field: "rate", unit: "kbit", told, at: kbit, ends: [kbit() / 100, 2 * kbit()], step: kbit() / 100 });
  }
  found.push(
    { name: "Delay", field: "delay", unit: "ms", told: (ms) => quantity(ms / 1e3, "s"), at: delay_ms, ends: [0, Math.max(500, 2 * delay_ms())], step: 1 },
    { name: "Loss", field: "loss", unit: "%", told: (percent) => `${Number(percent.toPrecision(3))} %`, at: () => link.loss_percent, ends: [0, 30], step: 0.5 },
  );
  if (Number.isFinite(signal_db(time_s))) {
    found.push({ name: "Signal", field: "snr", unit: "db", told: (db) => `${Math.round(db)} dB`, at: signal_db, ends: [-5, 50], step: 1 });
  }
  return found;
}

/** Adds a slider, which acts when it is let go. Returns what shows the value that the link has at a time. */
function addSlider(hands: HTMLElement, link: Link, { name, field, unit, told, at, ends, step }: Slider): (time_s: number) => void {
  const label = make(make(hands, "p"), "label", name);
  const input = make(label, "input", "", { type: "range", min: String(ends[0]), max: String(ends[1]), step: String(step) });
  const output = make(label, "output");
  let shown: number | null = null;
  let isMoved = false;
  input.addEventListener("input", () => {
    isMoved = true;
    output.textContent = told(Number(input.value));
  });
  input.addEventListener("change", async () => {
    await ask("actions", { set: link.id, [field]: `${input.value}${unit}` });
    [isMoved, shown] = [false, null];
  });
  return (time_s) => {
    const value = at(time_s);
    // What is being moved stays where it is, and what has not changed is not set again.
    if (isMoved || value === shown) return;
    shown = value;
    input.value = String(value);
    output.textContent = told(value);
  };
}

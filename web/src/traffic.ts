// The flows and subflows of a run: their charts, and the table from which a subflow becomes backup.

import { COLOURS, opacityOf, quantity } from "./chart";
import { MBIT, type LiveCharts, type Quantity, type Value } from "./live_charts";
import type { Flow, Interval, RunMessage, SubflowMessage } from "./messages";
import { element, inOrder, make, makeCells } from "./page";
import { addAction } from "./network";

/** More flows share one chart. */
const MOST_STACKS = 6;
const THROUGHPUT: Quantity = { quantity: "Throughput", unit: "Mbit/s", form: "area", least: 0.1 };
const WINDOW: Quantity = { quantity: "Window", unit: "kB", form: "line", least: 10 };
const ROUND_TRIP: Quantity = { quantity: "Time", unit: "ms", form: "line", least: 10 };
const SHARE: Quantity = { quantity: "Share of new data", unit: "%", form: "area", least: 100, most: 100 };
const REINJECTED: Quantity = { quantity: "Reinjected", unit: "kB/s", form: "step", least: 1 };
const COLUMNS = ["rate", "window", "rtt", "state"] as const;

interface Row {
  row: HTMLTableRowElement;
  name: HTMLElement;
  cells: Record<(typeof COLUMNS)[number], HTMLElement>;
  hands: HTMLElement;
}

export class Traffic {
  /** The subflows of each flow that have been told, in their order. */
  readonly #subflows = new Map<string, SubflowMessage[]>();
  readonly #rows = new Map<string, Row>();

  constructor(private readonly run: RunMessage) {}

  /** Takes note of a subflow, or of the path that it takes. */
  told(message: SubflowMessage): void {
    const told = new Map((this.#subflows.get(message.flow) ?? []).map((one) => [one.entity, one])).set(message.entity, message);
    this.#subflows.set(message.flow, inOrder(told.keys()).map((entity) => told.get(entity)!));
    const { row, name, hands } = this.#rows.get(message.entity) ?? this.#begun(message);
    name.replaceChildren();
    const swatch = make(name, "span", "", { className: "swatch" });
    swatch.style.background = `var(--c${(message.colour % COLOURS) + 1})`;
    swatch.style.opacity = String(opacityOf(message.colour));
    name.append(message.label);
    hands.replaceChildren();
    if (message.interface !== null) {
      addAction(hands, "Backup", { backup: message.interface, on: true });
      addAction(hands, "Regular", { backup: message.interface, on: false });
    }
    row.hidden = false;
  }

  #begun({ entity, flow }: SubflowMessage): Row {
    element("subflow-table").hidden = false;
    const row = make(element("subflows").querySelector("tbody")!, "tr");
    const name = make(row, "th", "", { scope: "row" });
    make(row, "td", flow);
    const cells = makeCells(row, COLUMNS, ["rate", "window", "rtt"]);
    const found = { row, name, cells, hands: make(row, "td") };
    this.#rows.set(entity, found);
    return found;
  }

  addTo(charts: LiveCharts, interval: Interval): void {
    if (this.run.flows.length > 1) {
      const arrived = this.run.flows.map((flow) => valueOf(flow, MBIT * this.#arrivedOf(flow, interval)));
      charts.addValues("Arrived in total", THROUGHPUT, interval, arrived);
    }
    for (const flow of this.run.flows.slice(0, MOST_STACKS)) this.#addFlow(charts, interval, flow);
  }

  show(interval: Interval): void {
    for (const [entity, { cells }] of this.#rows) {
      cells.rate.textContent = quantity(8 * interval.rateOf(entity, "bytes_received"), "bit/s");
      cells.window.textContent = quantity(interval.valueOf(entity, "cwnd_bytes") ?? NaN, "B");
      cells.rtt.textContent = quantity(interval.valueOf(entity, "srtt_s") ?? NaN, "s");
      cells.state.textContent = stateOf(interval.now.values[entity]);
    }
  }

  /** The bytes per second that arrived of a flow. Its own counter jumps when a gap in its data closes, so those of its subflows are added up. */
  #arrivedOf(flow: Flow, interval: Interval): number {
    const entities = this.#subflows.get(flow.id)?.map(({ entity }) => entity) ?? [`flows.${flow.id}`];
    return entities.reduce((sum, entity) => sum + interval.rateOf(entity, "bytes_received"), 0);
  }

  #addFlow(charts: LiveCharts, interval: Interval, flow: Flow): void {
    const { id, transport } = flow;
    const subflows = this.#subflows.get(id);
    if (!subflows) {
      const isKnown = transport === "udp" || (interval.valueOf(`flows.${id}`, "bytes_received") ?? 0) > 0;
      const arrived = MBIT * interval.rateOf(`flows.${id}`, "bytes_received");
      // What has subflows gets charts of them when the first one opens.
      return isKnown ? charts.addValues(`Arrived of ${id}`, THROUGHPUT, interval, [valueOf(flow, arrived)]) : undefined;
    }
    const valuesOf = (of: (entity: string) => number | null): Value[] =>
      subflows.map(({ entity, label, colour }) => ({ key: entity, label, colour, value: of(entity) }));
    const arrived = valuesOf((entity) => MBIT * interval.rateOf(entity, "bytes_received"));
    charts.addValues(`Arrived in order on each subflow of ${id}`, THROUGHPUT, interval, arrived);
    charts.addValues(`What the scheduler chose for ${id}`, SHARE, interval, valuesOf(chosenOf(interval, subflows)));
    const gauge = (metric: string, factor: number) => valuesOf((entity) => gaugeOf(interval, entity, metric, factor));
    charts.addValues(`Congestion windows of ${id}`, WINDOW, interval, gauge("cwnd_bytes", 1e-3));
    charts.addValues(`Smoothed round-trip times of ${id}`, ROUND_TRIP, interval, gauge("srtt_s", 1e3));
    if (interval.valueOf(`flows.${id}`, "reinjected_bytes") === undefined) return;
    const reinjected = interval.rateOf(`flows.${id}`, "reinjected_bytes") / 1e3;
    charts.addValues(`Reinjected by ${id}`, REINJECTED, interval, [valueOf(flow, reinjected)]);
  }
}

const valueOf = ({ id, colour }: Flow, value: number): Value => ({ key: id, label: id, colour, value });

function gaugeOf(interval: Interval, entity: string, metric: string, factor: number): number | null {
  const value = interval.valueOf(entity, metric);
  return value === undefined ? null : factor * value;
}

/** The share in percent that each subflow got of the data that was sent in an interval, without retransmissions. */
function chosenOf(interval: Interval, subflows: SubflowMessage[]): (entity: string) => number {
  const sent = (entity: string) => Math.max(0, interval.rateOf(entity, "bytes_sent") - interval.rateOf(entity, "retransmitted_bytes"));
  const total = subflows.reduce((sum, { entity }) => sum + sent(entity), 0);
  return (entity) => (total > 0 ? (100 * sent(entity)) / total : 0);
}

function stateOf(values: Record<string, number> | undefined): string {
  if (values === undefined || values.alive === 0) return "closed";
  const found = [...(values.backup ? ["backup"] : []), ...(values.stale ? ["stale"] : [])];
  return found.join(", ") || "regular";
}

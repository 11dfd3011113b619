// The flows and subflows of a run: their charts, and the table from which a subflow becomes backup.

import { COLOURS, opacityOf, quantity } from "./chart";
import type { LiveCharts, Quantity, Value } from "./live_charts";
import type { Rates, RunMessage, Sample, SubflowMessage } from "./messages";
import { element, inOrder, make, makeCells } from "./page";
import { addAction } from "./network";

/** More flows share one chart. */
const MOST_STACKS = 6;
const MBIT = 8e-6;
const THROUGHPUT: Quantity = { quantity: "Throughput", unit: "Mbit/s", isStacked: true, least: 0.1 };
const WINDOW: Quantity = { quantity: "Window", unit: "kB", isStacked: false, least: 10 };
const ROUND_TRIP: Quantity = { quantity: "Time", unit: "ms", isStacked: false, least: 10 };
const SHARE: Quantity = { quantity: "Share of new data", unit: "%", isStacked: true, least: 100, most: 100 };
const REINJECTED: Quantity = { quantity: "Reinjected", unit: "kB/s", isStacked: false, least: 1 };
const COLUMNS = ["rate", "window", "rtt", "state"] as const;

interface Row {
  row: HTMLTableRowElement;
  name: HTMLElement;
  cells: Record<(typeof COLUMNS)[number], HTMLElement>;
  hands: HTMLElement;
}

export class Traffic {
  readonly #subflows = new Map<string, SubflowMessage>();
  readonly #rows = new Map<string, Row>();

  constructor(
    private readonly run: RunMessage,
    private readonly charts: LiveCharts,
  ) {}

  /** Takes note of a subflow, or of the path that it takes. */
  told(message: SubflowMessage): void {
    this.#subflows.set(message.entity, message);
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

  sampled(sample: Sample, rates: Rates): void {
    if (rates.of(sample, "", "") === null) return;
    this.#drawTotal(sample, rates);
    for (const { id } of this.run.flows.slice(0, MOST_STACKS)) this.#drawFlow(sample, rates, id);
    for (const [entity, { cells }] of this.#rows) {
      const values = sample.values[entity];
      cells.rate.textContent = quantity(8 * (rates.of(sample, entity, "bytes_received") ?? 0), "bit/s");
      cells.window.textContent = quantity(values?.cwnd_bytes ?? NaN, "B");
      cells.rtt.textContent = quantity(values?.srtt_s ?? NaN, "s");
      cells.state.textContent = stateOf(values);
    }
  }

  #drawTotal(sample: Sample, rates: Rates): void {
    if (this.run.flows.length < 2) return;
    const values = this.run.flows.map(({ id, colour }): Value => {
      return { key: id, label: id, colour, value: MBIT * (rates.of(sample, `flows.${id}`, "bytes_received") ?? 0) };
    });
    this.charts.addValues("Arrived in total", THROUGHPUT, sample.time_s, values);
  }

  #drawFlow(sample: Sample, rates: Rates, flow: string): void {
    const subflows = inOrder([...this.#subflows.values()].filter((one) => one.flow === flow).map(({ entity }) => entity)).map(
      (entity) => this.#subflows.get(entity)!,
    );
    const time = sample.time_s;
    const valuesOf = (of: (entity: string) => number | null): Value[] =>
      subflows.map(({ entity, label, colour }) => ({ key: entity, label, colour, value: of(entity) }));
    if (!subflows.length) {
      const { colour } = this.run.flows.find(({ id }) => id === flow)!;
      const value = MBIT * (rates.of(sample, `flows.${flow}`, "bytes_received") ?? 0);
      this.charts.addValues(`Arrived of ${flow}`, THROUGHPUT, time, [{ key: flow, label: flow, colour, value }]);
      return;
    }
    const arrived = valuesOf((entity) => MBIT * (rates.of(sample, entity, "bytes_received") ?? 0));
    this.charts.addValues(`Arrived on each subflow of ${flow}`, THROUGHPUT, time, arrived);
    this.charts.addValues(`What the scheduler chose for ${flow}`, SHARE, time, valuesOf(chosenOf(sample, rates, subflows)));
    const gauge = (metric: string, factor: number) => valuesOf((entity) => gaugeOf(sample, entity, metric, factor));
    this.charts.addValues(`Congestion windows of ${flow}`, WINDOW, time, gauge("cwnd_bytes", 1e-3));
    this.charts.addValues(`Smoothed round-trip times of ${flow}`, ROUND_TRIP, time, gauge("srtt_s", 1e3));
    if (sample.values[`flows.${flow}`]?.reinjected_bytes === undefined) return;
    const { colour } = this.run.flows.find(({ id }) => id === flow)!;
    const value = (rates.of(sample, `flows.${flow}`, "reinjected_bytes") ?? 0) / 1e3;
    this.charts.addValues(`Reinjected by ${flow}`, REINJECTED, time, [{ key: flow, label: flow, colour, value }]);
  }
}

function gaugeOf(sample: Sample, entity: string, metric: string, factor: number): number | null {
  const value = sample.values[entity]?.[metric];
  return value === undefined ? null : factor * value;
}

/** The share in percent that each subflow got of the data that was sent since the last sample, without retransmissions. */
function chosenOf(sample: Sample, rates: Rates, subflows: SubflowMessage[]): (entity: string) => number | null {
  const sent = (entity: string) => Math.max(0, (rates.of(sample, entity, "bytes_sent") ?? 0) - (rates.of(sample, entity, "retransmitted_bytes") ?? 0));
  const total = subflows.reduce((sum, { entity }) => sum + sent(entity), 0);
  return (entity) => (total > 0 ? (100 * sent(entity)) / total : 0);
}

function stateOf(values: Record<string, number> | undefined): string {
  if (values === undefined || values.alive === 0) return "closed";
  const found = [...(values.backup ? ["backup"] : []), ...(values.stale ? ["stale"] : [])];
  return found.join(", ") || "regular";
}

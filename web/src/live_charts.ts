// Charts that grow while a run goes on.

import { COLOURS, Chart, opacityOf } from "./chart";
import { EVENT_ROWS, FigurePanel, type Curve, type Highlighted, type Mark } from "./figure_kinds";
import { LinkedCharts } from "./linked_charts";
import type { Interval } from "./messages";
import { element, make } from "./page";

/** A byte per second in Mbit/s. */
export const MBIT = 8e-6;

/** The height of a chart's axis grows in steps of this factor, so that it does not move with each sample. */
const GROWTH = 1.25;

/** A value of an interval or of its end, of the curve with this key. */
export interface Value {
  key: string;
  label: string;
  colour: number;
  value: number | null;
}

/**
 * What a chart counts. Areas, which are stacked, and steps are values of intervals; lines are values at an instant. Without
 * `most`, the axis grows with the values.
 */
export interface Quantity {
  quantity: string;
  unit: string;
  form: "area" | "step" | "line";
  least: number;
  most?: number;
}

/** Curves that grow at their right end. */
class LivePanel extends FigurePanel {
  readonly #ofKeys = new Map<string, Curve>();
  readonly #of: Quantity;

  constructor(of: Quantity, marks: Mark[], highlighted: Highlighted) {
    const axis = { quantity: of.quantity, unit: of.unit, label: `${of.quantity} (${of.unit})`, low: 0, high: of.most ?? of.least };
    const time = { quantity: "Time", unit: "s", label: "Time (s)", low: 0, high: 0 };
    const panel = { title: "", x: time, y: axis, marks, ceiling: null, has_others: false, curves: [] };
    // There is room for the names of events, although there are none yet.
    super(panel, [], "rows", highlighted, EVENT_ROWS);
    this.#of = of;
  }

  /** Adds the values of an interval, in their order from the bottom. Returns whether a curve is new. */
  add({ from_s, to_s }: Interval, values: Value[]): boolean {
    const known = this.curves.length;
    let below = 0;
    for (const each of values) {
      const curve = this.#ofKeys.get(each.key) ?? this.#begin(each, from_s);
      curve.low?.push(below);
      const top = this.#of.form === "area" ? (below += each.value ?? 0) : each.value;
      curve.x.push(to_s);
      curve.y.push(top);
      if (top !== null && top > this.high && this.#of.most === undefined) this.high = top * GROWTH;
    }
    return this.curves.length > known;
  }

  /** Begins a curve. The first point of those of intervals is where the first interval begins. */
  #begin({ key, label, colour }: Value, from_s: number): Curve {
    const { form } = this.#of;
    const curve: Curve = { label, colour, form, x: [], y: [], dashed: false };
    if (form !== "line") Object.assign(curve, { x: [from_s], y: [null], isOfIntervals: true });
    if (form === "area") curve.low = [null];
    this.#ofKeys.set(key, curve);
    this.curves.push(curve);
    return curve;
  }

  /** Gives the curve with a key another name and colour. Returns its old name, null if there is no such curve. */
  rename(key: string, label: string, colour: number): string | null {
    const curve = this.#ofKeys.get(key);
    if (curve === undefined) return null;
    const old = curve.label;
    Object.assign(curve, { label, colour });
    return old;
  }
}

interface Placed {
  panel: LivePanel;
  legend: HTMLElement;
}

/** The charts of a run over one axis of time. */
export class LiveCharts extends LinkedCharts {
  readonly #placed = new Map<string, Placed>();
  readonly #marks: Mark[] = [];
  /** Shared, so that an entity stands before the others in all charts. */
  readonly #highlighted: Highlighted = { label: null };
  #kept: string | null = null;

  /** `redraw` draws the page soon. */
  constructor(
    section: HTMLElement,
    duration_s: number,
    private readonly redraw: () => void,
  ) {
    super(section, { from: 0, to: duration_s });
  }

  /** Adds values to the chart with a title, which is made when it is first needed. */
  addValues(title: string, of: Quantity, interval: Interval, values: Value[]): void {
    let found = this.#placed.get(title);
    if (found === undefined) {
      const panel = new LivePanel(of, this.#marks, this.#highlighted);
      found = { panel, legend: this.#place(title, panel, of) };
      this.#placed.set(title, found);
      if (this.#placed.size === 1) this.start();
    }
    if (found.panel.add(interval, values)) this.#drawLegend(found);
  }

  /** Gives the curves with a key another name and colour. */
  rename(key: string, label: string, colour: number): void {
    for (const placed of this.#placed.values()) {
      const old = placed.panel.rename(key, label, colour);
      if (old === null) continue;
      if (this.#kept === old) this.#kept = label;
      if (this.#highlighted.label === old) this.#highlighted.label = label;
      this.#drawLegend(placed);
    }
  }

  mark(label: string, at_s: number): void {
    this.#marks.push({ label, start_s: at_s, end_s: null });
    this.redraw();
  }

  #place(title: string, panel: LivePanel, { quantity, unit }: Quantity): HTMLElement {
    const frame = make(element("charts"), "div", "", { className: "panel" });
    frame.dataset.title = title;
    const axis = make(frame, "p", "", { className: "axis" });
    make(axis, "strong", title);
    axis.append(` ${quantity} (${unit})`);
    const legend = make(make(frame, "div", "", { className: "live" }), "ul", "", { className: "legend" });
    legend.setAttribute("aria-label", "Curves");
    const chart = make(frame, "div", "", { className: "chart", tabIndex: 0 });
    chart.setAttribute("role", "img");
    this.add(new Chart(frame, panel, []));
    return legend;
  }

  #drawLegend({ panel, legend }: Placed): void {
    legend.replaceChildren();
    for (const { label, colour } of panel.curves) {
      const button = make(make(legend, "li"), "button", "", { type: "button" });
      button.setAttribute("aria-pressed", String(this.#kept === label));
      const swatch = make(button, "span", "", { className: "swatch" });
      swatch.style.setProperty("--of", `var(--c${((colour ?? 0) % COLOURS) + 1})`);
      swatch.style.opacity = String(opacityOf(colour));
      button.append(label);
      button.addEventListener("pointerenter", () => this.#highlight(label));
      button.addEventListener("pointerleave", () => this.#highlight(this.#kept));
      button.addEventListener("click", () => this.#keep(this.#kept === label ? null : label));
    }
  }

  #highlight(label: string | null): void {
    this.#highlighted.label = label;
    this.redraw();
  }

  #keep(label: string | null): void {
    this.#kept = label;
    for (const button of this.section.querySelectorAll(".legend button")) {
      button.setAttribute("aria-pressed", String(label !== null && button.textContent === label));
    }
    this.#highlight(label);
  }
}

// Charts that grow while a run goes on.

import { COLOURS, Chart, opacityOf } from "./chart";
import { EVENT_ROWS, FigurePanel, type Curve, type Highlighted, type Mark } from "./figure_kinds";
import { LinkedCharts } from "./linked_charts";
import { element, make } from "./page";

/** The height of a chart's axis grows in steps of this factor, so that it does not move with each sample. */
const GROWTH = 1.25;
/** Charts are redrawn at most so often, in milliseconds, and take at most this part of the time. */
const REDRAWN_EVERY_MS = 100;
const MOST_OF_TIME = 1 / 3;

/** A value of a time, of the curve with this key. */
export interface Value {
  key: string;
  label: string;
  colour: number;
  value: number | null;
}

/** What a chart counts. Without `most`, its axis grows with the values. */
export interface Quantity {
  quantity: string;
  unit: string;
  isStacked: boolean;
  least: number;
  most?: number;
}

/** Curves that grow at their right end. */
class LivePanel extends FigurePanel {
  readonly #keys: string[] = [];
  readonly #of: Quantity;

  constructor(of: Quantity, marks: Mark[], highlighted: Highlighted) {
    const axis = { quantity: of.quantity, unit: of.unit, label: `${of.quantity} (${of.unit})`, low: 0, high: of.most ?? of.least };
    const time = { quantity: "Time", unit: "s", label: "Time (s)", low: 0, high: 0 };
    const panel = { title: "", x: time, y: axis, marks, ceiling: null, has_others: false, curves: [] };
    // There is room for the names of events, although there are none yet.
    super(panel, [], "rows", highlighted, EVENT_ROWS);
    this.#of = of;
  }

  /** Adds the values of a time, in their order from the bottom. Returns whether a curve is new or has another name. */
  add(time: number, values: Value[]): boolean {
    let below = 0;
    let isChanged = false;
    for (const { key, label, colour, value } of values) {
      let curve = this.curves[this.#keys.indexOf(key)];
      if (curve === undefined) {
        curve = this.#begun(label, colour);
        this.#keys.push(key);
        this.curves.push(curve);
        isChanged = true;
      } else if (curve.label !== label) {
        Object.assign(curve, { label, colour });
        isChanged = true;
      }
      const top = this.#of.isStacked ? below + (value ?? 0) : value;
      curve.x.push(time);
      curve.y.push(top);
      curve.low?.push(below);
      if (this.#of.isStacked) below = top ?? below;
      if (top !== null && top > this.high && this.#of.most === undefined) this.high = top * GROWTH;
    }
    return isChanged;
  }

  #begun(label: string, colour: number): Curve {
    const curve: Curve = { label, colour, form: this.#of.isStacked ? "area" : "line", x: [], y: [], dashed: false };
    if (this.#of.isStacked) curve.low = [];
    return curve;
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
  #waits = false;
  #tookMs = 0;

  constructor(section: HTMLElement, duration_s: number) {
    super(section, { from: 0, to: duration_s });
  }

  /** Adds values to the chart with a title, which is made when it is first needed. */
  addValues(title: string, of: Quantity, time: number, values: Value[]): void {
    let found = this.#placed.get(title);
    if (found === undefined) {
      const panel = new LivePanel(of, this.#marks, this.#highlighted);
      found = { panel, legend: this.#place(title, panel, of) };
      this.#placed.set(title, found);
      if (this.#placed.size === 1) this.start();
    }
    if (found.panel.add(time, values)) this.#drawLegend(found);
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

  /** Draws soon, and many changes once. */
  redraw(): void {
    if (this.#waits || !this.charts.length) return;
    this.#waits = true;
    setTimeout(() => {
      this.#waits = false;
      const begun = performance.now();
      this.draw();
      this.#tookMs = performance.now() - begun;
    }, Math.max(REDRAWN_EVERY_MS, this.#tookMs / MOST_OF_TIME));
  }
}

// What a panel of a figure shows: a kind of Chart, from the specification that mptcplab.plots has drawn as SVG too.

import { colourOf, digits, firstFrom, instant, opacityOf } from "./chart";
import type { Colours, Context, Kind, Reading, Scale, View } from "./chart";

export type Values = (number | null)[];

/** A series, as a specification has it: `mptcplab.plots.specification.Curve`. */
export interface Curve {
  label: string;
  form: "step" | "hold" | "line" | "joined" | "dots" | "marks" | "area";
  colour: number | null;
  dashed: boolean;
  x: number[];
  y: Values;
  low?: Values;
  high?: Values;
  /**
   * Whether a step or an area has the value of the time since the point before, as on live pages, and not of the time about
   * its own. The first point then has no value.
   */
  isOfIntervals?: boolean;
}

export interface Axis {
  quantity: string;
  unit: string;
  label: string;
  low: number;
  high: number;
}

export interface Mark {
  label: string;
  start_s: number;
  end_s: number | null;
}

export interface CurvePanel {
  title: string;
  x: Axis;
  y: Axis;
  marks: Mark[];
  ceiling: Curve | null;
  has_others: boolean;
  curves: Curve[];
}

/** The curve that stands before the others, by its label. */
export interface Highlighted {
  label: string | null;
}

/** How near the pointer a point must be to be told, in pixels. */
const NEAR_POINT = 14;
/** The height of a panel that is alone, in a column, and of one of many, in pixels. */
const HEIGHTS = { single: 270, rows: 220, grid: 165 };
/** Room above the axes for the names of events, by rows. */
export const EVENT_ROWS = 2;
export const EVENT_ROW = 14;
const FADED = 0.15;
/** The opacity of curves of other panels, and of the line of an event. */
const [OTHERS, EVENT] = [0.4, 0.55];
const DASHES = [6, 3];

/** Events over a time axis: lines, shades, and names above the axes in so many rows. */
export class EventMarks {
  constructor(
    readonly marks: Mark[],
    readonly rows: number,
  ) {}

  draw(context: Context, scale: Scale, colours: Colours): void {
    for (const { start_s, end_s } of this.marks) {
      const x = scale.x(start_s);
      context.fillStyle = colours.band;
      context.globalAlpha = 0.75;
      if (end_s !== null) context.fillRect(x, scale.top, scale.x(end_s) - x, scale.bottom - scale.top);
      context.globalAlpha = EVENT;
      context.fillStyle = colours.faint;
      context.fillRect(Math.round(x), scale.top, 1, scale.bottom - scale.top);
      context.globalAlpha = 1;
    }
  }

  /** The names of events above the axes, each once, where there is room. */
  drawNames(context: Context, scale: Scale, colours: Colours): void {
    const freeFrom: number[] = Array(this.rows).fill(-Infinity);
    const told = new Set<string>();
    context.fillStyle = colours.faint;
    context.textAlign = "left";
    context.textBaseline = "alphabetic";
    for (const { label, start_s } of this.marks) {
      const x = scale.x(start_s);
      const width = context.measureText(label).width;
      const left = Math.min(x, scale.right - width);
      const row = freeFrom.findIndex((free) => free <= left);
      if (row < 0 || told.has(label) || x < scale.left || x > scale.right) continue;
      told.add(label);
      freeFrom[row] = left + width + 8;
      context.fillText(label, left, scale.top - 5 - EVENT_ROW * row);
    }
  }
}

/** Curves of a panel over time, with its events and the capacity as a step line. */
export class FigurePanel implements Kind {
  readonly isPlain = true;
  readonly height: number;
  readonly unit: string;
  readonly own?: { view: View; unit: string };
  readonly curves: Curve[];
  readonly events: EventMarks;
  readonly margin: { left: number; top: number };
  protected low: number;
  protected high: number;
  private readonly ceiling: Curve | null;

  /** `others` are curves of other panels, which are drawn in grey. `highlighted` is shared by the panels of a figure. */
  constructor(
    panel: CurvePanel,
    private readonly others: Curve[],
    layout: keyof typeof HEIGHTS,
    private readonly highlighted: Highlighted,
    eventRows = layout !== "grid" && panel.marks.length > 0 ? EVENT_ROWS : 0,
  ) {
    const { x, y, marks, ceiling, curves } = panel;
    [this.ceiling, this.curves, this.unit] = [ceiling, curves, y.unit];
    [this.low, this.high] = [y.low, y.high];
    this.height = HEIGHTS[layout];
    if (x.unit !== "s") this.own = { view: { from: x.low, to: x.high }, unit: x.unit };
    this.events = new EventMarks(marks, eventRows);
    this.margin = { left: 46, top: 8 + EVENT_ROW * this.events.rows };
  }

  extent(): [number, number] {
    return [this.low, this.high];
  }

  draw(context: Context, scale: Scale, _view: View, colours: Colours): void {
    this.events.draw(context, scale, colours);
    for (const curve of this.others) this.#stroke(context, scale, { ...curve, dashed: false }, colours.faint, OTHERS, 1);
    for (const curve of this.curves) {
      const strength = this.#isFaded(curve) ? FADED : opacityOf(curve.colour);
      this.#drawCurve(context, scale, curve, colourOf(colours, curve.colour), strength);
    }
    if (this.ceiling) this.#stroke(context, scale, { ...this.ceiling, dashed: true }, colours.ink, 1, 1.1);
    context.globalAlpha = 1;
  }

  #isFaded(curve: Curve): boolean {
    const { label } = this.highlighted;
    return label !== null && curve.label !== label && this.curves.some((each) => each.label === label);
  }

  drawMargin(context: Context, scale: Scale, colours: Colours): void {
    this.events.drawNames(context, scale, colours);
  }

  #drawCurve(context: Context, scale: Scale, curve: Curve, colour: string, strength: number): void {
    context.globalAlpha = strength;
    if (curve.form === "dots" || curve.form === "marks") {
      this.#drawPoints(context, scale, curve, colour);
    } else if (curve.form === "area") {
      this.#fill(context, scale, curve, curve.low ?? [], curve.y, colour);
    } else {
      if (curve.low && curve.high) {
        context.globalAlpha = 0.2 * strength;
        this.#fill(context, scale, curve, curve.low, curve.high, colour);
        context.globalAlpha = strength;
      }
      const isFront = curve.label !== "" && curve.label === this.highlighted.label;
      this.#stroke(context, scale, curve, colour, strength, isFront ? 2.6 : 1.6);
      if (curve.form === "joined") this.#drawPoints(context, scale, curve, colour);
      this.#drawClipped(context, scale, curve, colour);
    }
  }

  #drawPoints(context: Context, scale: Scale, { x, y, form }: Curve, colour: string): void {
    const size = form === "dots" ? 2.4 : 5;
    context.fillStyle = colour;
    x.forEach((time, i) => context.fillRect(scale.x(time) - size / 2, scale.y(y[i] ?? NaN) - size / 2, size, size));
  }

  /** Corners of a curve in pixels: steps about, to or from its points, or straight lines. */
  *#corners(scale: Scale, { x, form, isOfIntervals }: Curve, values: Values): Generator<[number, number]> {
    for (let i = isOfIntervals ? 1 : 0; i < x.length; i++) {
      const y = scale.y(values[i] ?? NaN);
      if (isOfIntervals) {
        yield [scale.x(x[i - 1]!), y];
        yield [scale.x(x[i]!), y];
      } else if (form === "step" || form === "area") {
        yield [scale.x(FigurePanel.#edge(x, i)), y];
        yield [scale.x(FigurePanel.#edge(x, i + 1)), y];
      } else {
        if (form === "hold" && i > 0) yield [scale.x(x[i]!), scale.y(values[i - 1] ?? NaN)];
        yield [scale.x(x[i]!), y];
      }
    }
  }

  /** The edge before bin `i` of bins about the times `x`, half way between two of them. */
  static #edge(x: number[], i: number): number {
    if (i > 0 && i < x.length) return (x[i - 1]! + x[i]!) / 2;
    const [end, next] = i === 0 ? [x[0]!, x[1]] : [x.at(-1)!, x.at(-2)];
    return next === undefined ? end : end + (end - next) / 2;
  }

  #stroke(context: Context, scale: Scale, curve: Curve, colour: string, strength: number, width: number): void {
    context.globalAlpha = strength;
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.lineJoin = "round";
    context.setLineDash(curve.dashed ? DASHES : []);
    context.beginPath();
    let isDrawn = false;
    for (const [x, y] of this.#corners(scale, curve, curve.y)) {
      if (isDrawn) context.lineTo(x, y);
      else context.moveTo(x, y);
      // Where there is no value, the curve is interrupted.
      isDrawn = !Number.isNaN(y);
    }
    context.stroke();
    context.setLineDash([]);
  }

  #fill(context: Context, scale: Scale, curve: Curve, low: Values, high: Values, colour: string): void {
    context.fillStyle = colour;
    context.beginPath();
    for (const [x, y] of this.#corners(scale, curve, high)) context.lineTo(x, y);
    for (const [x, y] of [...this.#corners(scale, curve, low)].reverse()) context.lineTo(x, y);
    context.fill();
  }

  /** A triangle at the top for each point above the axis. */
  #drawClipped(context: Context, scale: Scale, { x, y }: Curve, colour: string): void {
    context.fillStyle = colour;
    x.forEach((time, i) => {
      if (!((y[i] ?? NaN) > this.high * (1 + 1e-9))) return;
      const at = scale.x(time);
      context.beginPath();
      context.moveTo(at, scale.top + 1);
      context.lineTo(at - 4, scale.top + 8);
      context.lineTo(at + 4, scale.top + 8);
      context.fill();
    });
  }

  readings(time: number, y: number, scale: Scale): Reading[] {
    const head = this.own ? `${digits(time)} ${this.own.unit}` : instant(time, scale.length);
    const drawn = [...this.curves, ...(this.ceiling ? [{ ...this.ceiling, label: "capacity" }] : [])];
    const told = drawn.map((curve) => this.#reading(curve, time, y, scale)).filter((reading) => reading !== null);
    return [{ text: head }, ...told];
  }

  #reading(curve: Curve, time: number, y: number, scale: Scale): Reading | null {
    const i = this.#placeAt(curve, time, y, scale);
    const [top, low, high] = i === null ? [] : [curve.y[i], curve.low?.[i], curve.high?.[i]];
    if (top === undefined || top === null) return null;
    const value = curve.form === "area" ? top - (low ?? 0) : top;
    const range = typeof low === "number" && typeof high === "number" ? ` (${digits(low)} to ${digits(high)})` : "";
    const name = curve.label ? `${curve.label}: ` : "";
    return { text: `${name}${digits(Number(value.toPrecision(3)))}${range} ${this.unit}`, subflow: curve.colour };
  }

  /** The place of the value that holds at a time; of points, that of one near the pointer. */
  #placeAt({ x, y: values, form, isOfIntervals }: Curve, time: number, y: number, scale: Scale): number | null {
    const next = firstFrom(x, time);
    if (isOfIntervals) return next < x.length ? next : null;
    if (form === "dots" || form === "marks" || form === "joined") {
      const distance = (i: number) => Math.hypot(scale.x(x[i]!) - scale.x(time), scale.y(values[i] ?? NaN) - y);
      const near = [...Array(24).keys()].map((n) => next - 12 + n).filter((i) => i >= 0 && i < x.length);
      const nearest = near.sort((one, other) => distance(one) - distance(other))[0];
      return nearest !== undefined && distance(nearest) <= NEAR_POINT ? nearest : null;
    }
    if (form === "hold" || form === "line") {
      const last = x[next] === time ? next : next - 1;
      return last < 0 || time > x.at(-1)! ? null : last;
    }
    const half = x.length > 1 ? (x[1]! - x[0]!) / 2 : Infinity;
    const nearest = next > 0 && (next === x.length || time - x[next - 1]! < x[next]! - time) ? next - 1 : next;
    return Math.abs((x[nearest] ?? NaN) - time) <= half * (1 + 1e-9) ? nearest : null;
  }

  words(view: View): string {
    const most = this.curves.map(({ label, x, y }) => {
      const seen = y.filter((value, i) => value !== null && x[i]! >= view.from && x[i]! <= view.to).map(Number);
      return `${label || "values"}: ${seen.length ? `at most ${digits(Math.max(...seen))} ${this.unit}` : "none"}`;
    });
    return most.join(", ");
  }
}

// Panels with a row for each of several things: bars with their intervals, and lifetimes.

import { colourOf, digits, instant, opacityOf } from "./chart";
import type { Colours, Context, Kind, Reading, Scale, View } from "./chart";
import { EVENT_ROW, EVENT_ROWS, EventMarks, type Axis, type Mark } from "./figure_kinds";

interface Span {
  start: number;
  end: number;
  colour: number | null;
  name: string;
  pattern: string | null;
  pale: boolean;
}

interface Row {
  label: string;
  number: string;
  spans: Span[];
  signs: { at: number; kind: string }[];
  value: number | null;
  interval: [number, number] | null;
}

export interface RowPanel {
  title: string;
  x: Axis;
  marks: Mark[];
  rows: Row[];
}

export interface CellPanel {
  title: string;
  cells: { text: string; fill: string | null; ink: string; bold: boolean }[][];
  row_names: string[];
  column_names: string[];
  row_title: string;
  column_title: string;
}

/** Heights of a row, of its name above the bar, and of the bar, in pixels. */
const [ROW, NAME, BAR] = [38, 16, 14];
/** The distance of the strokes of a hatch, and of the dots of another, in pixels. */
const [STROKES, DOTS] = [6, 5];
/** How pale a bar is behind the dot of its value. */
const PALE = 0.25;

/** Rows over an axis, each with its name above it, so that names have room on a telephone. */
export class RowsPanel implements Kind {
  readonly isPlain = true;
  readonly unit: string;
  readonly own?: { view: View; unit: string };
  readonly margin: { left: number; right: number; top: number };
  readonly height: number;
  private readonly rows: Row[];
  private readonly events: EventMarks;

  constructor({ x, marks, rows }: RowPanel) {
    [this.rows, this.unit] = [rows, x.unit];
    if (x.unit !== "s") this.own = { view: { from: x.low, to: x.high }, unit: "" };
    this.events = new EventMarks(marks, marks.length ? EVENT_ROWS : 0);
    this.margin = { left: 16, right: 16, top: 8 + EVENT_ROW * this.events.rows };
    this.height = this.margin.top + ROW * rows.length + 28;
  }

  extent(): null {
    return null;
  }

  draw(context: Context, scale: Scale, _view: View, colours: Colours): void {
    this.events.draw(context, scale, colours);
    this.rows.forEach((row, place) => this.#drawRow(context, scale, colours, row, scale.top + ROW * place));
    context.globalAlpha = 1;
  }

  drawMargin(context: Context, scale: Scale, colours: Colours): void {
    this.events.drawNames(context, scale, colours);
  }

  #drawRow(context: Context, scale: Scale, colours: Colours, row: Row, top: number): void {
    const { label, number, spans, signs, value, interval } = row;
    const [bar, middle] = [top + NAME + 2, top + NAME + 2 + BAR / 2];
    for (const span of spans) {
      const [left, right] = [scale.x(span.start), scale.x(span.end)];
      if (span.pattern) {
        RowsPanel.#hatch(context, colours, span.pattern, left, right, bar);
        continue;
      }
      context.globalAlpha = span.pale ? PALE : opacityOf(span.colour);
      context.fillStyle = colourOf(colours, span.colour);
      context.fillRect(left, bar, right - left, BAR);
    }
    context.globalAlpha = 1;
    context.fillStyle = context.strokeStyle = colours.ink;
    if (interval && value !== null) {
      context.fillRect(scale.x(interval[0]), middle - 1, scale.x(interval[1]) - scale.x(interval[0]), 2);
      context.fillStyle = colourOf(colours, spans[0]?.colour ?? null);
      context.beginPath();
      context.arc(scale.x(value), middle, 4, 0, 2 * Math.PI);
      context.fill();
      context.fillStyle = colours.ink;
    }
    for (const { at, kind } of signs) RowsPanel.#sign(context, kind, scale.x(at), middle);
    context.textBaseline = "alphabetic";
    context.textAlign = "left";
    context.fillText(number ? `${label}: ${number}` : label, scale.left, top + NAME - 3);
  }

  /** Dots, strokes or crosses over a part of a bar. */
  static #hatch(context: Context, colours: Colours, pattern: string, left: number, right: number, bar: number): void {
    context.save();
    context.beginPath();
    context.rect(left, bar, right - left, BAR);
    context.clip();
    context.fillStyle = context.strokeStyle = colours.ink;
    context.lineWidth = 1;
    context.beginPath();
    if (pattern === "dots") {
      for (let x = left + 2; x < right; x += DOTS) for (let y = bar + 2; y < bar + BAR; y += DOTS) context.fillRect(x, y, 1.5, 1.5);
    } else {
      for (let x = left - BAR; x < right; x += STROKES) {
        context.moveTo(x, bar + BAR);
        context.lineTo(x + BAR, bar);
        if (pattern !== "crosses") continue;
        context.moveTo(x, bar);
        context.lineTo(x + BAR, bar + BAR);
      }
    }
    context.stroke();
    context.restore();
  }

  static #sign(context: Context, kind: string, x: number, middle: number): void {
    context.lineWidth = 2;
    context.beginPath();
    if (kind === "re-created") {
      context.moveTo(x - 4, middle - 5);
      context.lineTo(x + 5, middle);
      context.lineTo(x - 4, middle + 5);
      context.fill();
      return;
    }
    if (kind === "handover") {
      context.moveTo(x, middle - 6);
      context.lineTo(x + 6, middle);
      context.lineTo(x, middle + 6);
      context.lineTo(x - 6, middle);
      context.fill();
      return;
    }
    if (kind === "closed") {
      for (const slope of [-1, 1]) {
        context.moveTo(x - 4, middle - 4 * slope);
        context.lineTo(x + 4, middle + 4 * slope);
      }
    } else {
      context.lineWidth = 1;
      context.moveTo(x, middle + BAR / 2);
      context.lineTo(x, middle + BAR / 2 + 5);
    }
    context.stroke();
  }

  readings(time: number, y: number, scale: Scale): Reading[] {
    const row = this.rows[Math.floor((y - scale.top) / ROW)];
    if (!row) return [];
    if (row.interval) {
      const [low, high] = row.interval.map((end) => digits(Number(end.toPrecision(4))));
      return [{ text: row.label }, { text: `${row.number} ${this.unit} (${low} to ${high})`, subflow: row.spans[0]?.colour ?? null }];
    }
    const spans = row.spans.filter(({ start, end }) => start <= time && time <= end);
    const told = spans.map(({ start, end, colour, pattern, name }) => ({
      text: `${name} from ${instant(start, scale.length)} to ${instant(end, scale.length)}`,
      ...(pattern ? {} : { subflow: colour }),
    }));
    return [{ text: `${row.label}, ${instant(time, scale.length)}` }, ...told];
  }

  words(): string {
    return this.rows.map(({ label, number, spans }) => `${label}: ${number || `${spans.length} parts`}`).join(", ");
  }
}

/** A table of coloured cells as an element of the page. */
export function cellTable(panel: CellPanel): HTMLTableElement {
  const { title, cells, row_names, column_names, row_title, column_title } = panel;
  const table = document.createElement("table");
  table.className = "cells";
  const add = <Name extends "th" | "td">(parent: HTMLElement, name: Name, text: string) => {
    const element = parent.appendChild(document.createElement(name));
    element.textContent = text;
    return element;
  };
  const head = table.appendChild(document.createElement("thead")).insertRow();
  add(head, "th", title ? `${title}; ${row_title.toLowerCase()} and ${column_title.toLowerCase()}` : `${row_title} and ${column_title.toLowerCase()}`);
  for (const name of column_names) add(head, "th", name).scope = "col";
  const body = table.appendChild(document.createElement("tbody"));
  row_names.forEach((name, n) => {
    const row = body.insertRow();
    add(row, "th", name).scope = "row";
    for (const { text, fill, ink, bold } of cells[n] ?? []) {
      const cell = add(row, "td", text);
      if (fill) Object.assign(cell.style, { background: fill, color: ink });
      if (bold) cell.style.fontWeight = "bold";
    }
  });
  return table;
}

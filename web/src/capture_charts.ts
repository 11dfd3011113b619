// What the charts of a connection show: kinds of Chart.

import { Envelope, MARGIN, colourOf, firstFrom, instant, opacityOf, placesIn, quantity, roundStep } from "./chart";
import type { Colours, Context, Kind, Reading, Scale, View } from "./chart";
import { dataUnderWay } from "./capture_points";
import type { Acknowledged, DataRoundTrips, InFlight, Points, Segments, Windows } from "./capture_points";

/** A subflow of the connection, with its times in seconds. */
export interface Subflow {
  id: number;
  name: string;
  ends: string;
  backup: boolean;
  start_s: number;
  usable_s: number | null;
  end_s: number;
}

/** What an option or TCP said. */
export interface Happening {
  at_s: number;
  subflow: number;
  packet: number;
  from: string;
  name: string;
  text: string;
  times: number;
  is_trouble: boolean;
}

interface Bins {
  view: View;
  width: number;
  first: number;
  count: number;
  rates: Float64Array;
  totals: Float64Array;
}

const KINDS = ["sent for the first time", "reinjected", "retransmitted", "not placed by any mapping"];
const [NEW, REINJECTED, RETRANSMITTED] = [0, 1, 2];
/** How near the pointer a point must be to be told, in pixels. */
const NEAR = 12;
/** Round trips farther apart are not joined: between them nothing was measured. */
const JOINED_WITHIN_S = 0.5;
/** How far back the last value of each subflow is looked for, in points. */
const FAR_BACK = 20000;
/** How many subflows a reading tells. */
const MOST_TOLD = 12;

const exactly = (bytes: number) => Math.round(bytes).toLocaleString("en").replaceAll(",", "\u202f");

/** Data sequence against time: a stroke for each segment, coloured by subflow. */
export class Sequence implements Kind {
  readonly height = 300;
  readonly unit = "B";
  private readonly segments: Segments;
  private readonly acknowledged: Acknowledged;

  constructor(
    { segments, acknowledged }: Points,
    private readonly subflows: Subflow[],
  ) {
    [this.segments, this.acknowledged] = [segments, acknowledged];
  }

  extent(view: View): [number, number] {
    const { time_s, data, payload_bytes } = this.segments;
    let [from, to] = [firstFrom(time_s, view.from), firstFrom(time_s, view.to)];
    if (from === to) [from, to] = placesIn(time_s, view);
    let [low, high] = [Infinity, -Infinity];
    for (let i = from; i < to; i++) {
      if (data[i] < low) low = data[i];
      if (data[i] + payload_bytes[i] > high) high = data[i] + payload_bytes[i];
    }
    if (!(low < high)) return [0, 1];
    const room = 0.03 * (high - low);
    return [Math.max(0, low - room), high + room];
  }

  draw(context: Context, scale: Scale, view: View, colours: Colours): void {
    this.#drawAcknowledged(context, scale, view, colours);
    const layer = this.#segments(context, scale, view, colours);
    context.drawImage(layer, scale.left, scale.top, scale.right - scale.left, scale.bottom - scale.top);
    this.#drawMarks(context, scale, view, colours);
  }

  #drawAcknowledged(context: Context, scale: Scale, view: View, colours: Colours): void {
    const { time_s, data_ack } = this.acknowledged;
    const line = new Envelope();
    const [from, to] = placesIn(time_s, view);
    for (let i = from; i < to; i++) {
      if (i > from) line.add(time_s[i], scale.x(time_s[i]), scale.y(data_ack[i - 1]));
      line.add(time_s[i], scale.x(time_s[i]), scale.y(data_ack[i]));
    }
    line.stroke(context, colours.faint, 1);
  }

  /** Segments as pixels: as fast for a million as for some. */
  #segments(context: Context, scale: Scale, view: View, colours: Colours): HTMLCanvasElement {
    const { time_s, subflow, data, payload_bytes } = this.segments;
    const ratio = devicePixelRatio;
    const layer = document.createElement("canvas");
    const width = Math.max(1, Math.round((scale.right - scale.left) * ratio));
    const height = Math.max(1, Math.round((scale.bottom - scale.top) * ratio));
    Object.assign(layer, { width, height });
    const image = new ImageData(width, height);
    const pixels = new Uint32Array(image.data.buffer);
    const shades = this.subflows.map((_, n) => shadeOf(context, colourOf(colours, n), opacityOf(n)));
    const size = Math.max(2, Math.round(1.6 * ratio));
    const xOf = (time: number) => (scale.x(time) - scale.left) * ratio;
    const yOf = (value: number) => (scale.y(value) - scale.top) * ratio;
    const [from, to] = placesIn(time_s, view);
    for (let i = from; i < to; i++) {
      const x = Math.round(xOf(time_s[i]) - size / 2);
      const bottom = Math.round(yOf(data[i]));
      const top = Math.min(bottom - size, Math.round(yOf(data[i] + payload_bytes[i])));
      const shade = shades[subflow[i]];
      for (let row = Math.max(0, top); row < Math.min(height, bottom); row++) {
        for (let column = Math.max(0, x); column < Math.min(width, x + size); column++) {
          pixels[row * width + column] = shade;
        }
      }
    }
    layer.getContext("2d")!.putImageData(image, 0, 0);
    return layer;
  }

  /** Diamonds of the subflow's colour for what was reinjected, crosses for what was retransmitted; not two on one place. */
  #drawMarks(context: Context, scale: Scale, view: View, colours: Colours): void {
    const { time_s, subflow, kind, data, payload_bytes } = this.segments;
    const crosses = new Path2D();
    const diamonds = this.subflows.map(() => new Path2D());
    const taken = new Set<string>();
    const [from, to] = placesIn(time_s, view);
    for (let i = from; i < to; i++) {
      if (kind[i] !== REINJECTED && kind[i] !== RETRANSMITTED) continue;
      const [x, y] = [scale.x(time_s[i]), scale.y(data[i] + payload_bytes[i] / 2)];
      const place = `${kind[i]} ${subflow[i]} ${Math.round(x / 3)} ${Math.round(y / 3)}`;
      if (!Number.isFinite(y) || taken.has(place)) continue;
      taken.add(place);
      if (kind[i] === REINJECTED) diamond(diamonds[subflow[i]], x, y, 4.5);
      else cross(crosses, x, y, 3.5);
    }
    context.lineWidth = 1;
    context.strokeStyle = colours.ink;
    diamonds.forEach((path, n) => {
      context.fillStyle = colourOf(colours, n);
      context.fill(path);
      context.stroke(path);
    });
    context.lineWidth = 3.5;
    context.strokeStyle = colours.paper;
    context.stroke(crosses);
    context.lineWidth = 1.6;
    context.strokeStyle = colours.ink;
    context.stroke(crosses);
  }

  readings(time: number, y: number, scale: Scale): Reading[] {
    const { time_s, subflow, kind, packet, data, payload_bytes } = this.segments;
    const reach = NEAR * (scale.time(scale.left + 1) - scale.time(scale.left));
    let [nearest, least] = [-1, NEAR];
    for (let i = firstFrom(time_s, time - reach); i < time_s.length && time_s[i] <= time + reach; i++) {
      const [low, high] = [scale.y(data[i]), scale.y(data[i] + payload_bytes[i])];
      const distance = Math.hypot(scale.x(time_s[i]) - scale.x(time), y - Math.min(low, Math.max(high, y)));
      if (distance < least) [nearest, least] = [i, distance];
    }
    if (nearest < 0) return [{ text: `${instant(time, scale.length)}, data ${quantity(scale.value(y), "B")}` }];
    const first = data[nearest];
    return [
      { text: `packet ${packet[nearest]}, ${time_s[nearest].toFixed(6)} s` },
      { text: `data ${exactly(first)} to ${exactly(first + payload_bytes[nearest])}` },
      { text: `${this.subflows[subflow[nearest]].name}: ${KINDS[kind[nearest]]}`, subflow: subflow[nearest] },
    ];
  }

  words(view: View): string {
    const { time_s, kind } = this.segments;
    const counts = KINDS.map(() => 0);
    const [from, to] = [firstFrom(time_s, view.from), firstFrom(time_s, view.to)];
    for (let i = from; i < to; i++) counts[kind[i]]++;
    return `${to - from} segments: ${counts.map((count, n) => `${count} ${KINDS[n]}`).join(", ")}`;
  }
}

/** A CSS colour as a pixel of ImageData. */
function shadeOf(context: Context, colour: string, opacity: number): number {
  context.fillStyle = colour;
  const hex = String(context.fillStyle);
  const parts = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  const shade = new Uint8Array([...parts, Math.round(255 * opacity)]);
  return new Uint32Array(shade.buffer)[0]!;
}

function cross(path: Path2D, x: number, y: number, reach: number): void {
  path.moveTo(x - reach, y - reach);
  path.lineTo(x + reach, y + reach);
  path.moveTo(x - reach, y + reach);
  path.lineTo(x + reach, y - reach);
}

function diamond(path: Path2D, x: number, y: number, reach: number): void {
  path.moveTo(x, y - reach);
  path.lineTo(x + reach, y);
  path.lineTo(x, y + reach);
  path.lineTo(x - reach, y);
  path.closePath();
}

/** Data sent for the first time over time, stacked by subflow, in bins a few pixels wide. */
export class Goodput implements Kind {
  readonly height = 190;
  readonly unit = "bit/s";
  private readonly segments: Segments;
  private bins: Bins | null = null;

  constructor(
    { segments }: Points,
    private readonly subflows: Subflow[],
  ) {
    this.segments = segments;
  }

  /** Bit/s by bin and subflow: of bin b, in `rates[b * subflows.length ..]`. */
  #binned(view: View): Bins {
    if (this.bins?.view === view) return this.bins;
    const { time_s, subflow, kind, payload_bytes } = this.segments;
    const width = roundStep((view.to - view.from) / 220);
    const first = Math.floor(view.from / width);
    const count = Math.ceil(view.to / width) - first;
    const rates = new Float64Array(count * this.subflows.length);
    const totals = new Float64Array(count);
    const to = firstFrom(time_s, (first + count) * width);
    for (let i = firstFrom(time_s, first * width); i < to; i++) {
      const bin = Math.floor(time_s[i] / width) - first;
      if (kind[i] !== NEW || bin < 0 || bin >= count) continue;
      const rate = (8 * payload_bytes[i]) / width;
      rates[bin * this.subflows.length + subflow[i]] += rate;
      totals[bin] += rate;
    }
    this.bins = { view, width, first, count, rates, totals };
    return this.bins;
  }

  extent(view: View): [number, number] {
    return [0, 1.05 * this.#binned(view).totals.reduce((most, total) => Math.max(most, total), 0) || 1];
  }

  draw(context: Context, scale: Scale, view: View, colours: Colours): void {
    const { width, first, count, rates } = this.#binned(view);
    const floor = new Float64Array(count);
    this.subflows.forEach((_, n) => {
      const path = new Path2D();
      for (let bin = 0; bin < count; bin++) {
        const rate = rates[bin * this.subflows.length + n];
        if (rate === 0) continue;
        const [left, right] = [scale.x((first + bin) * width), scale.x((first + bin + 1) * width)];
        const [bottom, top] = [scale.y(floor[bin]), scale.y(floor[bin] + rate)];
        path.rect(left, top, right - left, bottom - top);
        floor[bin] += rate;
      }
      context.globalAlpha = opacityOf(n);
      context.fillStyle = colourOf(colours, n);
      context.fill(path);
    });
    context.globalAlpha = 1;
  }

  readings(time: number): Reading[] {
    if (this.bins === null) return [];
    const { width, first, rates, totals } = this.bins;
    const bin = Math.floor(time / width) - first;
    const total = totals[bin];
    if (total === undefined) return [];
    const parts = this.subflows.map(({ name }, n) => ({ rate: rates[bin * this.subflows.length + n], name, n }));
    const told = parts.filter(({ rate }) => rate > 0).sort((one, other) => other.rate - one.rate);
    const start = instant((first + bin) * width, 100 * width);
    return [
      { text: `${quantity(total, "bit/s")} in ${quantity(width, "s")} from ${start}` },
      ...told.slice(0, MOST_TOLD).map(({ rate, name, n }) => ({ text: `${name}: ${quantity(rate, "bit/s")}`, subflow: n })),
    ];
  }

  words(view: View): string {
    const { totals } = this.#binned(view);
    const mean = totals.reduce((sum, total) => sum + total, 0) / totals.length;
    return `${quantity(mean, "bit/s")} in the mean, ${quantity(Math.max(...totals), "bit/s")} at most`;
  }
}

/** Values over time, a line for each subflow, broken where points are farther apart. */
class SubflowLines {
  constructor(
    private readonly points: { time_s: Float64Array; subflow: Float64Array },
    private readonly values: Float64Array,
    private readonly subflows: Subflow[],
    private readonly look: { joinedWithin: number; width: number },
  ) {}

  most(view: View): number {
    return mostIn(this.points, this.values, view);
  }

  draw(context: Context, scale: Scale, view: View, colours: Colours): void {
    const { time_s, subflow } = this.points;
    const lines = this.subflows.map(() => new Envelope(this.look.joinedWithin));
    const [from, to] = placesIn(time_s, view);
    for (let i = from; i < to; i++) lines[subflow[i]].add(time_s[i], scale.x(time_s[i]), scale.y(this.values[i]));
    lines.forEach((line, n) => {
      context.globalAlpha = opacityOf(n);
      line.stroke(context, colourOf(colours, n), this.look.width);
    });
    context.globalAlpha = 1;
  }

  /** The last value of each subflow at a time, and how old it is if that matters. */
  readings(time: number, unit: string): Reading[] {
    const { time_s, subflow } = this.points;
    const found = new Map<number, number>();
    const last = firstFrom(time_s, time) - 1;
    for (let i = last; i >= Math.max(0, last - FAR_BACK) && found.size < this.subflows.length; i--) {
      if (!found.has(subflow[i])) found.set(subflow[i], i);
    }
    const told = [...found].sort(([one], [other]) => one - other).slice(0, MOST_TOLD);
    return told.map(([n, i]) => {
      const age = time - time_s[i];
      const ago = age > JOINED_WITHIN_S ? `, ${quantity(age, "s")} ago` : "";
      return { text: `${this.subflows[n].name}: ${quantity(this.values[i], unit)}${ago}`, subflow: n };
    });
  }
}

function mostIn({ time_s }: { time_s: Float64Array }, values: Float64Array, view: View): number {
  const [from, to] = placesIn(time_s, view);
  let most = 0;
  for (let i = from; i < to; i++) if (values[i] > most) most = values[i];
  return most;
}

function strokeValues(
  context: Context,
  scale: Scale,
  view: View,
  points: { time_s: Float64Array },
  values: Float64Array,
  colour: string,
  { joinedWithin, isStepped }: { joinedWithin?: number; isStepped?: boolean },
): void {
  const line = new Envelope(joinedWithin);
  const [from, to] = placesIn(points.time_s, view);
  for (let i = from; i < to; i++) {
    const x = scale.x(points.time_s[i]);
    if (isStepped && i > from) line.add(points.time_s[i], x, scale.y(values[i - 1]));
    line.add(points.time_s[i], x, scale.y(values[i]));
  }
  line.stroke(context, colour, 1.1);
}

/** The last of some values at a time. */
function valueAt({ time_s }: { time_s: Float64Array }, values: Float64Array, time: number): number | undefined {
  return values[firstFrom(time_s, time) - 1];
}

/** Round-trip times that acknowledgments tell, of TCP and of MPTCP. */
export class RoundTrips implements Kind {
  readonly height = 190;
  readonly unit = "s";
  private readonly lines: SubflowLines;
  private readonly data: DataRoundTrips;

  constructor({ round_trips, data_round_trips }: Points, subflows: Subflow[]) {
    this.lines = new SubflowLines(round_trips, round_trips.rtt_s, subflows, { joinedWithin: JOINED_WITHIN_S, width: 1.3 });
    this.data = data_round_trips;
  }

  extent(view: View): [number, number] {
    return [0, 1.05 * Math.max(this.lines.most(view), mostIn(this.data, this.data.data_rtt_s, view)) || 1];
  }

  draw(context: Context, scale: Scale, view: View, colours: Colours): void {
    const joined = { joinedWithin: JOINED_WITHIN_S };
    strokeValues(context, scale, view, this.data, this.data.data_rtt_s, colours.ink, joined);
    this.lines.draw(context, scale, view, colours);
  }

  readings(time: number, _y: number, scale: Scale): Reading[] {
    const data = valueAt(this.data, this.data.data_rtt_s, time);
    return [
      { text: instant(time, scale.length) },
      ...this.lines.readings(time, "s"),
      ...(data === undefined ? [] : [{ text: `DATA_ACK: ${quantity(data, "s")}` }]),
    ];
  }

  words(view: View): string {
    const [tcp, data] = [this.lines.most(view), mostIn(this.data, this.data.data_rtt_s, view)];
    return `At most ${quantity(tcp, "s")} of TCP, ${quantity(data, "s")} of DATA_ACK`;
  }
}

/** Bytes that are not acknowledged, of each subflow and of the connection, and the receive window. */
export class Unacknowledged implements Kind {
  readonly height = 190;
  readonly unit = "B";
  private readonly lines: SubflowLines;
  private readonly data: InFlight;
  private readonly windows: Windows;
  private isWindowAbove = false;

  constructor({ segments, acknowledged, windows }: Points, subflows: Subflow[]) {
    // Points, not lines: between segments acknowledgments take away what is not told.
    this.lines = new SubflowLines(segments, segments.unacknowledged_bytes, subflows, { joinedWithin: 0, width: 2.2 });
    this.data = dataUnderWay(segments, acknowledged);
    this.windows = windows;
  }

  /** A window far above all that is in flight would press that to the floor: it is then only told. */
  extent(view: View): [number, number] {
    const most = Math.max(this.lines.most(view), mostIn(this.data, this.data.bytes, view));
    const window = mostIn(this.windows, this.windows.window_bytes, view);
    this.isWindowAbove = window > 3 * most;
    // Room for the words about the window.
    return [0, (this.isWindowAbove ? 1.25 * most : 1.05 * Math.max(most, window)) || 1];
  }

  draw(context: Context, scale: Scale, view: View, colours: Colours): void {
    const stepped = { isStepped: true };
    strokeValues(context, scale, view, this.windows, this.windows.window_bytes, colours.faint, stepped);
    strokeValues(context, scale, view, this.data, this.data.bytes, colours.ink, stepped);
    this.lines.draw(context, scale, view, colours);
    if (!this.isWindowAbove) return;
    context.fillStyle = colours.faint;
    context.textAlign = "right";
    context.textBaseline = "top";
    const window = mostIn(this.windows, this.windows.window_bytes, view);
    context.fillText(`the window, up to ${quantity(window, "B")}, is above`, scale.right - 6, scale.top + 2);
  }

  readings(time: number, _y: number, scale: Scale): Reading[] {
    const totals: [string, number | undefined][] = [
      ["data in flight", valueAt(this.data, this.data.bytes, time)],
      ["receive window", valueAt(this.windows, this.windows.window_bytes, time)],
    ];
    return [
      { text: instant(time, scale.length) },
      ...this.lines.readings(time, "B"),
      ...totals.flatMap(([name, value]) => (value === undefined ? [] : [{ text: `${name}: ${quantity(value, "B")}` }])),
    ];
  }

  words(view: View): string {
    return `At most ${quantity(mostIn(this.data, this.data.bytes, view), "B")} of data in flight`;
  }
}

/** A lane for each subflow, from its first packet to its last, and on it what options and TCP said. */
export class Timeline implements Kind {
  static readonly LANE = 34;
  readonly unit = "";
  readonly height: number;

  constructor(
    private readonly events: Happening[],
    private readonly subflows: Subflow[],
  ) {
    this.height = MARGIN.top + MARGIN.bottom + Timeline.LANE * subflows.length;
  }

  extent(): null {
    return null;
  }

  #lane(subflow: number): number {
    return MARGIN.top + Timeline.LANE * subflow;
  }

  draw(context: Context, scale: Scale, view: View, colours: Colours): void {
    this.subflows.forEach((subflow, n) => {
      const [from, usable, to] = [scale.x(subflow.start_s), scale.x(subflow.usable_s ?? subflow.end_s), scale.x(subflow.end_s)];
      const y = this.#lane(n) + 21;
      context.fillStyle = colourOf(colours, n);
      context.globalAlpha = 0.45 * opacityOf(n);
      context.fillRect(from, y + 2, Math.max(1, to - from), 4);
      context.globalAlpha = opacityOf(n);
      context.fillRect(usable, y, to - usable, 8);
    });
    context.globalAlpha = 1;
    this.#drawEvents(context, scale, view, colours);
  }

  /** A tick for each event, and its name where there is room. */
  #drawEvents(context: Context, scale: Scale, view: View, colours: Colours): void {
    const freeFrom = this.subflows.map(() => -Infinity);
    context.textAlign = "left";
    context.textBaseline = "alphabetic";
    for (const event of this.events) {
      if (event.at_s < view.from || event.at_s > view.to || event.subflow >= this.subflows.length) continue;
      const [x, y] = [scale.x(event.at_s), this.#lane(event.subflow)];
      context.fillStyle = event.is_trouble ? colours.bad : colours.ink;
      context.fillRect(Math.round(x) - 0.75, y + 6, 1.5, 25);
      const label = `${event.from === "client" ? "→" : "←"} ${event.name}`;
      const width = context.measureText(label).width;
      const left = x + width + 4 > scale.right ? x - width - 4 : x + 4;
      if (left < freeFrom[event.subflow]) continue;
      context.fillText(label, left, y + 15);
      freeFrom[event.subflow] = left + width + 6;
    }
  }

  drawMargin(context: Context, scale: Scale, colours: Colours): void {
    context.fillStyle = colours.ink;
    context.textAlign = "right";
    context.textBaseline = "middle";
    this.subflows.forEach(({ id, backup }, n) => {
      context.fillText(backup ? `${id} backup` : `${id}`, scale.left - 8, this.#lane(n) + 25);
    });
  }

  readings(time: number, y: number, scale: Scale): Reading[] {
    const lane = Math.floor((y - MARGIN.top) / Timeline.LANE);
    const near = (event: Happening) => event.subflow === lane && Math.abs(scale.x(event.at_s) - scale.x(time)) <= NEAR / 2;
    const told = this.events.filter(near).slice(0, 8).map((event) => {
      const again = event.times > 1 ? ` (${event.times} times)` : "";
      return { text: `packet ${event.packet}, ${event.from}: ${event.name}, ${event.text}${again}` };
    });
    const subflow = this.subflows[lane];
    return subflow ? [{ text: `${instant(time, scale.length)}, ${subflow.name}: ${subflow.ends}`, subflow: lane }, ...told] : [];
  }

  words(view: View): string {
    const inView = this.events.filter((event) => event.at_s >= view.from && event.at_s <= view.to);
    return `${inView.length} events`;
  }
}

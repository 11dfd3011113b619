// A chart over time on a canvas: axes and lines, for the pages of captures, runs and comparisons.

export type Context = CanvasRenderingContext2D;

/** A stretch of time in seconds. */
export interface View {
  from: number;
  to: number;
}

/** Where values stand on a canvas. */
export interface Scale {
  left: number;
  right: number;
  top: number;
  bottom: number;
  first: number;
  last: number;
  length: number;
  x(time: number): number;
  y(value: number): number;
  time(x: number): number;
  value(y: number): number;
}

export interface Colours {
  ink: string;
  faint: string;
  grid: string;
  band: string;
  bad: string;
  paper: string;
  palette: string[];
}

/** A line of what stands at a place, with the number of a colour. */
export interface Reading {
  text: string;
  subflow?: number | null;
}

export const MARGIN = { left: 68, right: 12, top: 8, bottom: 24 };
export const COLOURS = 8;
/** Charts narrower and lower than these have ticks closer together, in pixels. */
const [NARROW, LOW] = [300, 150];
/** How opaque a second and third round through the colours is. */
const ROUNDS = [1, 0.6, 0.35];
const PREFIXES: [number, string][] = [[1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]];

/** Three significant digits with a prefix: 7.21 Mbit/s, 30.0 ms. */
export function quantity(value: number, unit: string): string {
  if (!Number.isFinite(value)) return "–";
  if (unit === "s" && Math.abs(value) < 1 && value !== 0) {
    return Math.abs(value) < 1e-3 ? `${digits(value * 1e6)} µs` : `${digits(value * 1e3)} ms`;
  }
  const [size, prefix] = unit === "s" ? [1, ""] : prefixOf(value);
  return `${digits(value / size)} ${prefix}${unit}`;
}

function prefixOf(value: number): [number, string] {
  return PREFIXES.find(([size]) => Math.abs(value) >= size) ?? [1, ""];
}

export function digits(value: number): string {
  if (Number.isInteger(value) && Math.abs(value) < 1000) return String(value);
  return Math.abs(value) >= 1000 ? value.toFixed(0) : value.toPrecision(3);
}

/** Pixels of the page to one of a chart: what is drawn is larger in some styles, its lines and letters included. */
export const chartZoom = Number(getComputedStyle(document.documentElement).getPropertyValue("--chart-zoom")) || 1;

/** A time of the capture, as exact as a view of that length needs it. */
export function instant(time: number, length: number): string {
  const decimals = Math.min(6, Math.max(0, Math.ceil(3 - Math.log10(length))));
  return `${time.toFixed(decimals)} s`;
}

/** 1, 2 or 5 times a power of ten, not below `least`. */
export function roundStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least));
  return power * ([1, 2, 5, 10].find((factor) => factor * power >= least * (1 - 1e-9)) ?? 10);
}

/** Multiples of a round step, of which so many fit. */
function ticks(low: number, high: number, most: number): { step: number; values: number[] } {
  const step = roundStep((high - low) / Math.max(1, most));
  const found: number[] = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9; n++) found.push(n * step);
  return { step, values: found };
}

/** The first place in ascending times that is not before `time`. */
export function firstFrom(times: ArrayLike<number>, time: number): number {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Places from the last point before the view to behind the first one after it, so that lines run through its edges. */
export function placesIn(times: ArrayLike<number>, view: View): [number, number] {
  return [Math.max(0, firstFrom(times, view.from) - 1), Math.min(times.length, firstFrom(times, view.to) + 1)];
}

/** The colours of the page as they are now, light or dark. */
export function pageColours(): Colours {
  const style = getComputedStyle(document.documentElement);
  const named = (name: string) => style.getPropertyValue(`--${name}`).trim();
  const palette = Array.from({ length: COLOURS }, (_, n) => named(`c${n + 1}`));
  const [ink, faint, grid, band] = [named("ink"), named("faint"), named("grid"), named("band")];
  return { ink, faint, grid, band, bad: named("bad"), paper: named("paper"), palette };
}

export const colourOf = (colours: Colours, number: number | null) => (number === null ? colours.ink : colours.palette[number % COLOURS]);
export const opacityOf = (number: number | null) => (number === null ? 1 : ROUNDS[Math.min(ROUNDS.length - 1, Math.floor(number / COLOURS))]);

/**
 * A line through any number of points that looks the same as the line through all of them: of each column of pixels only the
 * first, lowest, highest and last value are drawn.
 */
export class Envelope {
  private path = new Path2D();
  private column: number | null = null;
  private lastTime = -Infinity;
  // Asked once, not for each of a million points.
  private ratio = devicePixelRatio;
  private isJoined = false;
  private x = 0;
  private first = 0;
  private low = 0;
  private high = 0;
  private last = 0;

  constructor(private joinedWithin = Infinity) {}

  add(time: number, x: number, y: number): void {
    const isJoined = time - this.lastTime <= this.joinedWithin;
    this.lastTime = time;
    const column = Math.round(x * this.ratio);
    if (this.column === column && isJoined) {
      this.low = Math.min(this.low, y);
      this.high = Math.max(this.high, y);
      this.last = y;
      return;
    }
    this.#flush();
    Object.assign(this, { column, x, isJoined, first: y, low: y, high: y, last: y });
  }

  #flush(): void {
    if (this.column === null) return;
    if (this.isJoined) this.path.lineTo(this.x, this.first);
    else this.path.moveTo(this.x, this.first);
    for (const y of [this.low, this.high, this.last]) this.path.lineTo(this.x, y);
  }

  stroke(context: Context, colour: string, width: number): void {
    this.#flush();
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.lineCap = context.lineJoin = "round";
    context.stroke(this.path);
  }
}

/** A stretch of time in which data waited. */
export interface Gap {
  at_s: number;
  seconds: number;
}

/** What a chart shows. */
export interface Kind {
  /** Of the canvas in pixels. */
  readonly height: number;
  /** Of the vertical axis. Values in base units have a prefix, unless the axis `isPlain`: then the page has the unit. */
  readonly unit: string;
  readonly isPlain?: boolean;
  /** A horizontal axis that is not the time of the other charts. */
  readonly own?: { view: View; unit: string };
  /** Changes of MARGIN. */
  readonly margin?: Partial<typeof MARGIN>;
  /** Returns the lowest and highest value of the vertical axis, null if there is none. */
  extent(view: View): [number, number] | null;
  /** Draws between the axes. */
  draw(context: Context, scale: Scale, view: View, colours: Colours): void;
  /** Draws at their left, if there is anything to draw. */
  drawMargin?(context: Context, scale: Scale, colours: Colours): void;
  /** Returns lines of what stands at a time and a height; the first is a head. */
  readings(time: number, y: number, scale: Scale): Reading[];
  /** Returns what the view holds, for those who do not see it. */
  words(view: View): string;
}

/** A chart in a figure of the page, at the figure's `.chart`. */
export class Chart {
  readonly frame: HTMLElement;
  scale: Scale | null = null;
  private readonly canvas: HTMLCanvasElement;
  private readonly selection: HTMLElement;
  private readonly cursor: HTMLElement;
  private readonly tip: HTMLElement;

  constructor(
    private readonly figure: HTMLElement,
    readonly kind: Kind,
    private readonly gaps: Gap[],
  ) {
    this.frame = figure.querySelector<HTMLElement>(".chart")!;
    this.canvas = this.frame.appendChild(document.createElement("canvas"));
    this.canvas.style.height = `${kind.height * chartZoom}px`;
    const overlay = (name: string) => {
      const element = this.frame.appendChild(document.createElement("div"));
      element.className = name;
      element.hidden = true;
      return element;
    };
    [this.selection, this.cursor, this.tip] = [overlay("selection"), overlay("cursor"), overlay("tip")];
    this.tip.setAttribute("role", "status");
  }

  /** Draws what was taken or measured in `view`. */
  draw(shared: View, colours: Colours): void {
    const view = this.kind.own?.view ?? shared;
    const context = this.#cleared();
    const extent = this.kind.extent(view);
    const scale = (this.scale = this.#scale(view, extent ?? [0, 1]));
    const { kind } = this;
    context.font = "12px system-ui, 'Liberation Sans', sans-serif";
    this.#drawGaps(context, scale, colours);
    this.#drawTimes(context, scale, view, colours);
    if (extent) this.#drawValues(context, scale, extent, colours);
    context.save();
    context.beginPath();
    context.rect(scale.left, scale.top - 2, scale.right - scale.left, scale.bottom - scale.top + 2);
    context.clip();
    kind.draw(context, scale, view, colours);
    context.restore();
    kind.drawMargin?.(context, scale, colours);
    this.frame.setAttribute("aria-label", `${this.figure.dataset.title}. ${kind.words(view)}`);
  }

  /** The width in pixels of the chart. */
  get width(): number {
    return this.frame.clientWidth / chartZoom;
  }

  #cleared(): Context {
    const [width, height] = [this.width, this.kind.height];
    const ratio = devicePixelRatio * chartZoom;
    const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (this.canvas.width !== wide || this.canvas.height !== high) Object.assign(this.canvas, { width: wide, height: high });
    const context = this.canvas.getContext("2d")!;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    return context;
  }

  #scale(view: View, [low, high]: [number, number]): Scale {
    const margin = { ...MARGIN, ...this.kind.margin };
    const [left, right] = [margin.left, this.width - margin.right];
    const [top, bottom] = [margin.top, this.kind.height - margin.bottom];
    const perSecond = (right - left) / (view.to - view.from);
    const perUnit = (bottom - top) / (high - low);
    return {
      left, right, top, bottom,
      first: view.from, last: view.to,
      length: view.to - view.from,
      x: (time) => left + (time - view.from) * perSecond,
      y: (value) => bottom - (value - low) * perUnit,
      time: (x) => view.from + (Math.min(right, Math.max(left, x)) - left) / perSecond,
      value: (y) => low + (bottom - y) / perUnit,
    };
  }

  #drawGaps(context: Context, { left, right, top, bottom, x }: Scale, colours: Colours): void {
    context.fillStyle = colours.band;
    for (const gap of this.gaps) {
      const [from, to] = [Math.max(left, x(gap.at_s)), Math.min(right, x(gap.at_s + gap.seconds))];
      if (to > from) context.fillRect(from, top, to - from, bottom - top);
    }
  }

  #drawTimes(context: Context, { left, right, top, bottom, x }: Scale, view: View, colours: Colours): void {
    const { step, values } = ticks(view.from, view.to, (right - left) / (right - left < NARROW ? 55 : 90));
    const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    const unit = this.kind.own?.unit ?? "s";
    context.textAlign = "center";
    context.textBaseline = "top";
    for (const time of values) {
      context.fillStyle = colours.grid;
      context.fillRect(Math.round(x(time)), top, 1, bottom - top);
      context.fillStyle = colours.faint;
      context.fillText(`${time.toFixed(decimals)} ${unit}`.trimEnd(), Math.min(x(time), right - 10), bottom + 6);
    }
    context.fillStyle = colours.faint;
    context.fillRect(left, bottom, right - left, 1);
  }

  #drawValues(context: Context, { left, right, top, bottom, y }: Scale, [low, high]: [number, number], colours: Colours): void {
    const { step, values } = ticks(low, high, (bottom - top) / (bottom - top < LOW ? 24 : 36));
    const isTime = this.kind.unit === "s";
    const ofTime: [number, string] = high < 1 ? [1e-3, "m"] : [1, ""];
    const [size, prefix]: [number, string] = this.kind.isPlain ? [1, ""] : isTime ? ofTime : prefixOf(high);
    const decimals = Math.max(0, -Math.floor(Math.log10(step / size) + 1e-9));
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const value of values) {
      context.fillStyle = colours.grid;
      context.fillRect(left, Math.round(y(value)), right - left, 1);
      context.fillStyle = colours.faint;
      // The unit stands once, at the top.
      const unit = value === values.at(-1) && !this.kind.isPlain ? ` ${prefix}${this.kind.unit}` : "";
      context.fillText((value / size).toFixed(decimals) + unit, left - 6, Math.max(7, y(value)));
    }
  }

  /** Shows the line of reading at a time, or none. */
  point(time: number | null): void {
    const { scale } = this;
    const isSeen = time !== null && scale !== null && time <= scale.last && time >= scale.first;
    this.cursor.hidden = !isSeen;
    if (isSeen) this.cursor.style.left = `${scale.x(time) * chartZoom}px`;
  }

  /** Shows what stands at a time and a height, or nothing. */
  tell(time: number | null, y: number, colours: Colours): void {
    const { scale } = this;
    const lines = time === null || scale === null ? [] : this.kind.readings(time, y, scale);
    this.tip.hidden = lines.length === 0;
    this.tip.replaceChildren(...lines.map((line) => Chart.#reading(line, colours)));
    if (this.tip.hidden || time === null || scale === null) return;
    const x = scale.x(time);
    const isLeft = x > (scale.left + scale.right) / 2;
    this.tip.style.left = isLeft ? "" : `${x * chartZoom + 12}px`;
    this.tip.style.right = isLeft ? `${(this.width - x) * chartZoom + 12}px` : "";
  }

  static #reading({ text, subflow }: Reading, colours: Colours): HTMLElement {
    const line = document.createElement("div");
    if (subflow !== undefined) {
      const swatch = line.appendChild(document.createElement("span"));
      swatch.className = "swatch";
      swatch.style.background = colourOf(colours, subflow);
      swatch.style.opacity = String(opacityOf(subflow));
    }
    line.append(text);
    return line;
  }

  /** Shows a stretch of time that is being selected, or none. */
  select(stretch: View | null): void {
    const { scale } = this;
    this.selection.hidden = stretch === null || scale === null || Boolean(this.kind.own);
    if (stretch === null || scale === null || this.kind.own) return;
    const [from, to] = [scale.x(stretch.from), scale.x(stretch.to)];
    this.selection.style.left = `${from * chartZoom}px`;
    this.selection.style.width = `${(to - from) * chartZoom}px`;
  }
}

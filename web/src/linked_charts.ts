// Charts with one view of time, and how it is changed: by dragging, keys and buttons.

import { Chart, chartZoom, instant, pageColours, type Colours, type View } from "./chart";

const COLOUR_SCHEME = matchMedia("(prefers-color-scheme: dark)");
/** A drag over fewer pixels is a click. */
const LEAST_DRAG = 4;
/** The shortest view. */
const LEAST_VIEW_S = 2e-6;
/** Part of the view by which a key moves the reading. */
const KEY_STEP = 0.01;

/**
 * The charts of a section of the page. Its `.bar` has the buttons that change the view.
 * `whole` is all that there is, {from, to} in seconds.
 */
export class LinkedCharts {
  readonly charts: Chart[] = [];
  private readonly bar: HTMLElement;
  private readonly whole: View;
  private view: View;
  private reading: number | null = null;
  private colours: Colours = pageColours();
  private width = 0;

  constructor(
    protected readonly section: HTMLElement,
    whole: View,
  ) {
    this.bar = section.querySelector<HTMLElement>(".bar")!;
    this.whole = { from: whole.from, to: Math.max(whole.to, whole.from + 1e-3) };
    this.view = this.whole;
  }

  /** Draws for the first time, when all charts are added. */
  start(): void {
    if (!this.charts.length) return;
    const does: Record<string, () => void> = {
      earlier: () => this.#shift(-1 / 2),
      later: () => this.#shift(1 / 2),
      closer: () => this.zoom(1 / 2),
      farther: () => this.zoom(2),
      all: () => this.all(),
    };
    for (const button of this.bar.querySelectorAll<HTMLElement>("button[data-does]")) {
      button.addEventListener("click", does[button.dataset.does ?? "all"]!);
    }
    COLOUR_SCHEME.addEventListener("change", () => this.draw());
    this.view = this.#within(askedView(this.section) ?? this.whole);
    this.draw();
    new ResizeObserver(() => this.width === this.#width() || this.draw()).observe(this.charts[0]!.frame);
  }

  #width(): number {
    return this.charts[0]?.frame.clientWidth ?? 0;
  }

  add(chart: Chart): void {
    this.charts.push(chart);
    const { frame } = chart;
    const at = (event: PointerEvent) => (event.clientX - frame.getBoundingClientRect().left) / chartZoom;
    const height = (event: PointerEvent) => (event.clientY - frame.getBoundingClientRect().top) / chartZoom;
    let start: number | null = null;
    const stretch = (event: PointerEvent): View | null => {
      if (start === null || chart.scale === null) return null;
      const [left, right] = [Math.min(start, at(event)), Math.max(start, at(event))];
      return { from: chart.scale.time(left), to: chart.scale.time(right) };
    };
    frame.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || chart.kind.own) return;
      start = at(event);
      frame.setPointerCapture(event.pointerId);
    });
    frame.addEventListener("pointermove", (event) => {
      if (chart.scale === null) return;
      this.read(chart, chart.scale.time(at(event)), height(event));
      if (start !== null) this.charts.forEach((each) => each.select(stretch(event)));
    });
    const end = (event: PointerEvent, isTaken: boolean) => {
      const isDrag = start !== null && Math.abs(at(event) - start) >= LEAST_DRAG;
      const view = isDrag ? stretch(event) : null;
      start = null;
      this.charts.forEach((each) => each.select(null));
      if (isTaken && view !== null) this.show(view);
    };
    frame.addEventListener("pointerup", (event) => end(event, true));
    frame.addEventListener("pointercancel", (event) => end(event, false));
    frame.addEventListener("pointerleave", () => this.read(chart, null));
    frame.addEventListener("dblclick", () => this.all());
    frame.addEventListener("keydown", (event) => this.#key(chart, event));
    frame.addEventListener("blur", () => this.read(chart, null));
  }

  #key(chart: Chart, event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey || chart.kind.own) return;
    const move = (steps: number) => this.#readFrom(steps * (event.shiftKey ? 10 : 1));
    const stay = (change: () => void) => {
      const time = this.reading;
      change();
      return time;
    };
    const keys: Record<string, () => number | null> = {
      ArrowLeft: () => move(-1),
      ArrowRight: () => move(1),
      "+": () => stay(() => this.zoom(1 / 2)),
      "=": () => stay(() => this.zoom(1 / 2)),
      "-": () => stay(() => this.zoom(2)),
      "0": () => stay(() => this.all()),
      Escape: () => null,
    };
    const readingAfter = keys[event.key];
    if (!readingAfter) return;
    event.preventDefault();
    this.read(chart, readingAfter(), chart.kind.height / 2);
  }

  /** The time some hundredths of the view away from the reading; the view follows a reading that leaves it. */
  #readFrom(steps: number): number {
    const length = this.view.to - this.view.from;
    const asked = (this.reading ?? this.view.from + length / 2) + steps * KEY_STEP * length;
    const time = Math.min(this.whole.to, Math.max(this.whole.from, asked));
    const beyond = Math.min(0, time - this.view.from) + Math.max(0, time - this.view.to);
    if (beyond) this.show({ from: this.view.from + beyond, to: this.view.to + beyond });
    return time;
  }

  /** The line of reading on all charts, and what stands there on one of them. */
  read(chart: Chart | null, time: number | null, y = 0): void {
    this.reading = time;
    for (const each of this.charts) {
      const isApart = each !== chart && (each.kind.own || chart?.kind.own);
      each.point(isApart ? null : time);
      each.tell(each === chart ? time : null, y, this.colours);
    }
  }

  /** Shows a stretch of time, as far as the connection has it; the address of the page then leads there. */
  show(view: View): void {
    this.view = this.#within(view);
    this.read(null, null);
    this.draw();
    const { from, to } = this.view;
    const isWhole = from <= this.whole.from && to >= this.whole.to;
    const stretch = [from, to].map((time) => Number(time.toFixed(6))).join("-");
    history.replaceState(null, "", `#${this.section.id}${isWhole ? "" : `@${stretch}`}`);
  }

  #within({ from, to }: View): View {
    const length = Math.min(Math.max(to - from, LEAST_VIEW_S), this.whole.to - this.whole.from);
    const first = Math.min(Math.max(from, this.whole.from), this.whole.to - length);
    return { from: first, to: first + length };
  }

  /** As `show`, a part or a multiple of what is shown, about the line of reading or the middle. */
  zoom(factor: number): void {
    const { from, to } = this.view;
    const about = this.reading ?? (from + to) / 2;
    this.show({ from: about - (about - from) * factor, to: about + (to - about) * factor });
  }

  #shift(part: number): void {
    const { from, to } = this.view;
    this.show({ from: from + part * (to - from), to: to + part * (to - from) });
  }

  all(): void {
    this.show(this.whole);
  }

  draw(): void {
    this.colours = pageColours();
    this.width = this.#width();
    const length = this.view.to - this.view.from;
    this.bar.querySelector("output")!.textContent = `${instant(this.view.from, length)} to ${instant(this.view.to, length)}`;
    this.charts.forEach((chart) => chart.draw(this.view, this.colours));
  }
}

/** The view that the address of the page asks of a section: `#connection-0@4.5-10.5`. */
function askedView(section: HTMLElement): View | null {
  const [, from, to] = location.hash.match(new RegExp(`^#${section.id}@([\\d.]+)-([\\d.]+)$`)) ?? [];
  return Number(from) < Number(to) ? { from: Number(from), to: Number(to) } : null;
}

// Charts with one view of time, and how it is changed: by dragging, keys and buttons.

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
class LinkedCharts {
  constructor(section, whole) {
    this.section = section;
    this.bar = section.querySelector(".bar");
    this.whole = { from: whole.from, to: Math.max(whole.to, whole.from + 1e-3) };
    this.view = this.whole;
    this.reading = null;
    this.charts = [];
  }

  /** Draws for the first time, when all charts are added. */
  start() {
    if (!this.charts.length) return;
    for (const button of this.bar.querySelectorAll("button[data-does]")) {
      button.addEventListener("click", () => this[button.dataset.does]());
    }
    COLOUR_SCHEME.addEventListener("change", () => this.draw());
    this.view = this.#within(askedView(this.section) ?? this.whole);
    this.draw();
    new ResizeObserver(() => this.width === this.#width() || this.draw()).observe(this.charts[0].frame);
  }

  #width() {
    return this.charts[0].frame.clientWidth;
  }

  add(chart) {
    this.charts.push(chart);
    const { frame } = chart;
    const at = (event) => (event.clientX - frame.getBoundingClientRect().left) / chartZoom;
    const height = (event) => (event.clientY - frame.getBoundingClientRect().top) / chartZoom;
    let start = null;
    const stretch = (event) => [start, at(event)].sort((one, other) => one - other).map(chart.scale.time);
    frame.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || chart.kind.own) return;
      start = at(event);
      frame.setPointerCapture(event.pointerId);
    });
    frame.addEventListener("pointermove", (event) => {
      this.read(chart, chart.scale.time(at(event)), height(event));
      if (start !== null) this.charts.forEach((each) => each.select(stretch(event)));
    });
    const end = (event, isTaken) => {
      const isDrag = start !== null && Math.abs(at(event) - start) >= LEAST_DRAG;
      const [from, to] = isDrag ? stretch(event) : [];
      start = null;
      this.charts.forEach((each) => each.select(null));
      if (isTaken && isDrag) this.show({ from, to });
    };
    frame.addEventListener("pointerup", (event) => end(event, true));
    frame.addEventListener("pointercancel", (event) => end(event, false));
    frame.addEventListener("pointerleave", () => this.read(chart, null));
    frame.addEventListener("dblclick", () => this.all());
    frame.addEventListener("keydown", (event) => this.#key(chart, event));
    frame.addEventListener("blur", () => this.read(chart, null));
  }

  #key(chart, event) {
    if (event.ctrlKey || event.metaKey || event.altKey || chart.kind.own) return;
    const move = (steps) => this.#readFrom(steps * (event.shiftKey ? 10 : 1));
    const stay = (change) => {
      const time = this.reading;
      change();
      return time;
    };
    const readingAfter = {
      ArrowLeft: () => move(-1),
      ArrowRight: () => move(1),
      "+": () => stay(() => this.closer()),
      "=": () => stay(() => this.closer()),
      "-": () => stay(() => this.farther()),
      0: () => stay(() => this.all()),
      Escape: () => null,
    }[event.key];
    if (!readingAfter) return;
    event.preventDefault();
    this.read(chart, readingAfter(), chart.kind.height / 2);
  }

  /** The time some hundredths of the view away from the reading; the view follows a reading that leaves it. */
  #readFrom(steps) {
    const length = this.view.to - this.view.from;
    const asked = (this.reading ?? this.view.from + length / 2) + steps * KEY_STEP * length;
    const time = Math.min(this.whole.to, Math.max(this.whole.from, asked));
    const beyond = Math.min(0, time - this.view.from) + Math.max(0, time - this.view.to);
    if (beyond) this.show({ from: this.view.from + beyond, to: this.view.to + beyond });
    return time;
  }

  /** The line of reading on all charts, and what stands there on one of them. */
  read(chart, time, y) {
    this.reading = time;
    for (const each of this.charts) {
      const isApart = each !== chart && (each.kind.own || chart?.kind.own);
      each.point(isApart ? null : time);
      each.tell(each === chart ? time : null, y, this.colours);
    }
  }

  /** Shows a stretch of time, as far as the connection has it; the address of the page then leads there. */
  show(view) {
    this.view = this.#within(view);
    this.read(null, null);
    this.draw();
    const { from, to } = this.view;
    const isWhole = from <= this.whole.from && to >= this.whole.to;
    const stretch = [from, to].map((time) => Number(time.toFixed(6))).join("-");
    history.replaceState(null, "", `#${this.section.id}${isWhole ? "" : `@${stretch}`}`);
  }

  #within({ from, to }) {
    const length = Math.min(Math.max(to - from, LEAST_VIEW_S), this.whole.to - this.whole.from);
    const first = Math.min(Math.max(from, this.whole.from), this.whole.to - length);
    return { from: first, to: first + length };
  }

  /** As `show`, a part or a multiple of what is shown, about the line of reading or the middle. */
  zoom(factor) {
    const { from, to } = this.view;
    const about = this.reading ?? (from + to) / 2;
    this.show({ from: about - (about - from) * factor, to: about + (to - about) * factor });
  }

  closer() {
    this.zoom(1 / 2);
  }

  farther() {
    this.zoom(2);
  }

  earlier() {
    this.#shift(-1 / 2);
  }

  later() {
    this.#shift(1 / 2);
  }

  #shift(part) {
    const { from, to } = this.view;
    this.show({ from: from + part * (to - from), to: to + part * (to - from) });
  }

  all() {
    this.show(this.whole);
  }

  draw() {
    this.colours = pageColours();
    this.width = this.#width();
    const length = this.view.to - this.view.from;
    this.bar.querySelector("output").textContent = `${instant(this.view.from, length)} to ${instant(this.view.to, length)}`;
    this.charts.forEach((chart) => chart.draw(this.view, this.colours));
  }
}

/** The view that the address of the page asks of a section: `#connection-0@4.5-10.5`. */
function askedView(section) {
  const [, from, to] = location.hash.match(new RegExp(`^#${section.id}@([\\d.]+)-([\\d.]+)$`)) ?? [];
  return Number(from) < Number(to) ? { from: Number(from), to: Number(to) } : null;
}

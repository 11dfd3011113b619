// The figures of a section of the page, in place of the SVG, which stays for print.

import { COLOURS, Chart, opacityOf } from "./chart";
import { FigurePanel, type Curve, type CurvePanel, type Highlighted } from "./figure_kinds";
import { LinkedCharts } from "./linked_charts";
import { RowsPanel, cellTable, type CellPanel, type RowPanel } from "./row_kinds";

type Panel = CurvePanel | RowPanel | CellPanel;

/** A figure, as `mptcplab.plots.specification` writes it. */
interface Specification {
  layout: string;
  panels: Panel[];
}

const hasAxis = (panel: Panel): panel is CurvePanel | RowPanel => "x" in panel;
const hasCurves = (panel: Panel): panel is CurvePanel => "curves" in panel;

class SectionFigures extends LinkedCharts {
  constructor(section: HTMLElement) {
    const figures = [...section.querySelectorAll<HTMLElement>("figure.specified")];
    const specified = figures.map((figure): Specification => JSON.parse(figure.querySelector("script.specification")!.textContent ?? ""));
    const timed = specified.flatMap(({ panels }) => panels).filter(hasAxis).filter(({ x }) => x.unit === "s");
    super(section, { from: 0, to: Math.max(0, ...timed.map(({ x }) => x.high)) });
    section.querySelectorAll<HTMLElement>(".bar, .bar-key").forEach((element) => (element.hidden = timed.length === 0));
    figures.forEach((figure, n) => this.#addFigure(figure, specified[n]!));
  }

  #addFigure(figure: HTMLElement, { layout, panels }: Specification): void {
    const live = figure.querySelector<HTMLElement>(".live")!;
    const highlighted: Highlighted = { label: null };
    const isGrid = layout === "grid" && panels.length > 1;
    live.classList.toggle("grid", isGrid);
    live.classList.toggle("columns", layout === "columns");
    const withCurves = panels.filter(hasCurves);
    this.#addLegend(live, withCurves, highlighted, isGrid);
    panels.forEach((panel) => {
      if ("cells" in panel) {
        const scroll = live.appendChild(document.createElement("div"));
        scroll.className = "scroll";
        scroll.tabIndex = 0;
        scroll.setAttribute("role", "region");
        scroll.setAttribute("aria-label", SectionFigures.#titleOf(figure, panel));
        scroll.append(cellTable(panel));
        return;
      }
      if ("rows" in panel) {
        this.add(new Chart(SectionFigures.#frame(live, figure, panel), new RowsPanel(panel), []));
        return;
      }
      const others = panel.has_others ? withCurves.filter((each) => each !== panel).flatMap(({ curves }) => curves) : [];
      const size = isGrid ? "grid" : layout === "rows" ? "rows" : "single";
      const frame = SectionFigures.#frame(live, figure, panel);
      this.add(new Chart(frame, new FigurePanel(panel, others, size, highlighted), []));
    });
  }

  /** The place of a panel, under its title and what its axis counts. */
  static #frame(live: HTMLElement, figure: HTMLElement, panel: CurvePanel | RowPanel): HTMLElement {
    const frame = live.appendChild(document.createElement("div"));
    frame.className = "panel";
    const title = frame.appendChild(document.createElement("p"));
    title.className = "axis";
    if (panel.title) title.appendChild(document.createElement("strong")).textContent = panel.title;
    const { x } = panel;
    const y = "curves" in panel ? panel.y : null;
    if (y) title.append(`${panel.title ? " " : ""}${y.label}${x.unit === "s" ? "" : ` over ${x.quantity.toLowerCase()}`}`);
    else if (x.unit !== "s") title.append(x.label);
    frame.dataset.title = SectionFigures.#titleOf(figure, panel);
    const chart = frame.appendChild(document.createElement("div"));
    chart.className = "chart";
    chart.tabIndex = 0;
    chart.setAttribute("role", "img");
    chart.setAttribute("aria-label", frame.dataset.title);
    return frame;
  }

  static #titleOf(figure: HTMLElement, panel: { title: string }): string {
    return [figure.querySelector("h3")!.textContent, panel.title].filter(Boolean).join(", ");
  }

  /** A button for each curve, which shows it before the others. */
  #addLegend(live: HTMLElement, panels: CurvePanel[], highlighted: Highlighted, isGrid: boolean): void {
    const curves = new Map(panels.flatMap(({ curves }) => curves).map((curve): [string, Curve] => [curve.label, curve]));
    curves.delete("");
    const ceiling = panels.map((panel) => panel.ceiling).find(Boolean);
    if (isGrid ? !ceiling : curves.size < 2 && !ceiling) return;
    const list = live.appendChild(document.createElement("ul"));
    list.className = "legend";
    list.setAttribute("aria-label", "Curves");
    const show = (label: string | null) => {
      highlighted.label = label;
      this.draw();
    };
    let kept: string | null = null;
    for (const [label, { colour, dashed }] of isGrid ? [] : curves) {
      const button = list.appendChild(document.createElement("li")).appendChild(document.createElement("button"));
      button.type = "button";
      button.setAttribute("aria-pressed", "false");
      button.append(SectionFigures.#swatch(colour, dashed), label);
      button.addEventListener("pointerenter", () => show(label));
      button.addEventListener("pointerleave", () => show(kept));
      button.addEventListener("click", () => {
        kept = kept === label ? null : label;
        list.querySelectorAll("button").forEach((each) => each.setAttribute("aria-pressed", String(each === button && kept !== null)));
        show(kept);
      });
    }
    if (ceiling) {
      const item = list.appendChild(document.createElement("li"));
      item.append(SectionFigures.#swatch(null, true), isGrid ? "capacity" : ceiling.label);
    }
  }

  static #swatch(colour: number | null, isDashed: boolean): HTMLElement {
    const swatch = document.createElement("span");
    swatch.className = isDashed ? "swatch dashed" : "swatch";
    swatch.style.setProperty("--of", colour === null ? "var(--ink)" : `var(--c${(colour % COLOURS) + 1})`);
    if (colour !== null) swatch.style.opacity = String(opacityOf(colour));
    return swatch;
  }
}

for (const section of document.querySelectorAll<HTMLElement>("section.charted")) {
  if (!section.querySelector("figure.specified")) continue;
  const hidden = section.querySelectorAll<HTMLElement>(".bar, .bar-key, figure.specified .live");
  try {
    section.querySelectorAll<HTMLElement>("figure.specified .live").forEach((element) => (element.hidden = false));
    section.querySelectorAll("figure.specified").forEach((figure) => figure.classList.add("is-live"));
    new SectionFigures(section).start();
  } catch (error) {
    // The SVG shows the same.
    console.error(error);
    hidden.forEach((element) => (element.hidden = true));
    section.querySelectorAll("figure.specified").forEach((figure) => figure.classList.remove("is-live"));
  }
}

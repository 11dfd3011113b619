// The figures of a section of the page, in place of the SVG, which stays for print.

class SectionFigures extends LinkedCharts {
  constructor(section) {
    const figures = [...section.querySelectorAll("figure.specified")];
    const specified = figures.map((figure) => JSON.parse(figure.querySelector("script.specification").textContent));
    const timed = specified.flatMap(({ panels }) => panels).filter(({ x }) => x?.unit === "s");
    super(section, { from: 0, to: Math.max(0, ...timed.map(({ x }) => x.high)) });
    section.querySelectorAll(".bar, .bar-key").forEach((element) => (element.hidden = timed.length === 0));
    figures.forEach((figure, n) => this.#addFigure(figure, specified[n]));
  }

  #addFigure(figure, { layout, panels }) {
    const live = figure.querySelector(".live");
    const highlighted = { label: null };
    const isGrid = layout === "grid" && panels.length > 1;
    live.classList.toggle("grid", isGrid);
    live.classList.toggle("columns", layout === "columns");
    this.#addLegend(live, panels.filter(({ curves }) => curves), highlighted, isGrid);
    panels.forEach((panel, n) => {
      if (panel.cells) {
        const scroll = live.appendChild(document.createElement("div"));
        scroll.className = "scroll";
        scroll.tabIndex = 0;
        scroll.setAttribute("role", "region");
        scroll.setAttribute("aria-label", SectionFigures.#titleOf(figure, panel));
        scroll.append(cellTable(panel));
        return;
      }
      if (panel.rows) {
        this.add(new Chart(SectionFigures.#frame(live, figure, panel), new RowsPanel(panel), []));
        return;
      }
      const others = panel.has_others ? panels.filter((_, m) => m !== n).flatMap(({ curves }) => curves) : [];
      const size = isGrid ? "grid" : layout === "rows" ? "rows" : "single";
      const frame = SectionFigures.#frame(live, figure, panel);
      this.add(new Chart(frame, new FigurePanel(panel, others, size, highlighted), []));
    });
  }

  /** The place of a panel, under its title and what its axis counts. */
  static #frame(live, figure, panel) {
    const frame = live.appendChild(document.createElement("div"));
    frame.className = "panel";
    const title = frame.appendChild(document.createElement("p"));
    title.className = "axis";
    if (panel.title) title.appendChild(document.createElement("strong")).textContent = panel.title;
    const { x, y } = panel;
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

  static #titleOf(figure, panel) {
    return [figure.querySelector("h3").textContent, panel.title].filter(Boolean).join(", ");
  }

  /** A button for each curve, which shows it before the others. */
  #addLegend(live, panels, highlighted, isGrid) {
    const curves = new Map(panels.flatMap(({ curves }) => curves).map((curve) => [curve.label, curve]));
    curves.delete("");
    const ceiling = panels.map((panel) => panel.ceiling).find(Boolean);
    if (isGrid ? !ceiling : curves.size < 2 && !ceiling) return;
    const list = live.appendChild(document.createElement("ul"));
    list.className = "legend";
    list.setAttribute("aria-label", "Curves");
    const show = (label) => {
      highlighted.label = label;
      this.draw();
    };
    let kept = null;
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

  static #swatch(colour, isDashed) {
    const swatch = document.createElement("span");
    swatch.className = isDashed ? "swatch dashed" : "swatch";
    swatch.style.setProperty("--of", colour === null ? "var(--ink)" : `var(--c${(colour % COLOURS) + 1})`);
    if (colour !== null) swatch.style.opacity = opacityOf(colour);
    return swatch;
  }
}

for (const section of document.querySelectorAll("section.charted")) {
  if (!section.querySelector("figure.specified")) continue;
  const hidden = section.querySelectorAll(".bar, .bar-key, figure.specified .live");
  try {
    section.querySelectorAll("figure.specified .live").forEach((element) => (element.hidden = false));
    section.querySelectorAll("figure.specified").forEach((figure) => figure.classList.add("is-live"));
    new SectionFigures(section).start();
  } catch (error) {
    // The SVG shows the same.
    console.error(error);
    hidden.forEach((element) => (element.hidden = true));
    section.querySelectorAll("figure.specified").forEach((figure) => figure.classList.remove("is-live"));
  }
}

// The charts of the connections of a capture.

class ConnectionCharts extends LinkedCharts {
  constructor(section) {
    const described = JSON.parse(section.querySelector("script.described").textContent);
    super(section, { from: described.start_s, to: described.end_s });
    this.described = described;
  }

  /** Unpacks the points and draws for the first time. */
  async begin() {
    const { series, subflows, events, gaps } = this.described;
    const text = this.section.querySelector("script.points").textContent;
    const points = await unpackPoints(series, text);
    const kinds = { sequence: Sequence, goodput: Goodput, round_trips: RoundTrips, unacknowledged: Unacknowledged };
    for (const figure of this.section.querySelectorAll("figure[data-chart]")) {
      const { chart, sender } = figure.dataset;
      const lanes = () => new Timeline(events, subflows.slice(0, Number(figure.dataset.lanes)));
      const kind = chart === "timeline" ? lanes() : new kinds[chart](points[sender], subflows);
      this.add(new Chart(figure, kind, sender ? gaps[sender] : [...gaps.client, ...gaps.server]));
    }
    this.start();
  }
}

async function begin(section) {
  const area = section.querySelector(".charts");
  try {
    await new ConnectionCharts(section).begin();
  } catch (error) {
    area.textContent = `The charts cannot be drawn: ${error.message}. They need a browser of 2023 or later.`;
  }
}

/** Draws the charts of the first connection and of the one that the address asks for; the others when they are near. */
async function beginAll(sections) {
  sections.forEach((section) => (section.querySelector(".charts").hidden = false));
  const observer = new IntersectionObserver(
    (entries) => {
      for (const { target } of entries.filter(({ isIntersecting }) => isIntersecting)) {
        observer.unobserve(target);
        begin(target);
      }
    },
    { rootMargin: "400px" },
  );
  const asked = sections.find(({ id }) => location.hash.split("@")[0] === `#${id}`);
  const atOnce = new Set([sections[0], asked].filter(Boolean));
  sections.filter((section) => !atOnce.has(section)).forEach((section) => observer.observe(section));
  await Promise.all([...atOnce].map(begin));
  // Charts above it have moved it.
  asked?.scrollIntoView();
}

beginAll([...document.querySelectorAll("section.connection")].filter((section) => section.querySelector(".charts")));

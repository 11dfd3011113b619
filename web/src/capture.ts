// The charts of the connections of a capture.

import { Goodput, RoundTrips, Sequence, Timeline, Unacknowledged, type Happening, type Subflow } from "./capture_charts";
import { unpackPoints, type PackedSeries } from "./capture_points";
import { Chart, type Gap } from "./chart";
import { LinkedCharts } from "./linked_charts";

const KINDS = { sequence: Sequence, goodput: Goodput, round_trips: RoundTrips, unacknowledged: Unacknowledged };

/** A connection, as `mptcplab.report.capture` describes it. */
interface Described {
  start_s: number;
  end_s: number;
  series: PackedSeries;
  subflows: Subflow[];
  events: Happening[];
  gaps: Record<string, Gap[]>;
}

class ConnectionCharts extends LinkedCharts {
  private readonly described: Described;

  constructor(section: HTMLElement) {
    const described: Described = JSON.parse(section.querySelector("script.described")!.textContent ?? "");
    super(section, { from: described.start_s, to: described.end_s });
    this.described = described;
  }

  /** Unpacks the points and draws for the first time. */
  async begin(): Promise<void> {
    const { series, subflows, events, gaps } = this.described;
    const text = this.section.querySelector("script.points")!.textContent ?? "";
    const points = await unpackPoints(series, text);
    for (const figure of this.section.querySelectorAll<HTMLElement>("figure[data-chart]")) {
      const { chart, sender, lanes } = figure.dataset;
      if (sender === undefined) {
        const timeline = new Timeline(events, subflows.slice(0, Number(lanes)));
        this.add(new Chart(figure, timeline, Object.values(gaps).flat()));
      } else {
        const kind = new KINDS[chart as keyof typeof KINDS](points[sender]!, subflows);
        this.add(new Chart(figure, kind, gaps[sender] ?? []));
      }
    }
    this.start();
  }
}

async function begin(section: HTMLElement): Promise<void> {
  const area = section.querySelector(".charts")!;
  try {
    await new ConnectionCharts(section).begin();
  } catch (error) {
    area.textContent = `The charts cannot be drawn: ${error instanceof Error ? error.message : error}. They need a browser of 2023 or later.`;
  }
}

/** Draws the charts of the first connection and of the one that the address asks for; the others when they are near. */
async function beginAll(sections: HTMLElement[]): Promise<void> {
  sections.forEach((section) => (section.querySelector<HTMLElement>(".charts")!.hidden = false));
  const observer = new IntersectionObserver(
    (entries) => {
      for (const { target } of entries.filter(({ isIntersecting }) => isIntersecting)) {
        observer.unobserve(target);
        begin(target as HTMLElement);
      }
    },
    { rootMargin: "400px" },
  );
  const asked = sections.find(({ id }) => location.hash.split("@")[0] === `#${id}`);
  const atOnce = new Set([sections[0], asked].filter((section) => section !== undefined));
  sections.filter((section) => !atOnce.has(section)).forEach((section) => observer.observe(section));
  await Promise.all([...atOnce].map(begin));
  // Charts above it have moved it.
  asked?.scrollIntoView();
}

beginAll([...document.querySelectorAll<HTMLElement>("section.connection")].filter((section) => section.querySelector(".charts")));

// The picture of a network: laid out by dagre, with the load, queue and state of each link.

import { Graph, layout } from "@dagrejs/dagre";
import { COLOURS, opacityOf, quantity } from "./chart";
import type { Node } from "./messages";

/** Sizes in pixels: of nodes, of the texts at a link, of a letter of them, and of a link that carries all that it can. */
const [NODE_WIDTH, NODE_HEIGHT] = [104, 40];
const [LINE_HEIGHT, LETTER] = [14, 6.4];
const WIDEST = 10;
/** Room for the texts of a link, which change with its load. */
const LABEL_LETTERS = 22;
const LABEL_LINES = 3;
/** The picture runs from top to bottom on pages narrower than this, and is larger on wider ones. */
const NARROW_PX = 640;
const LARGER = 1.3;
/** How far the texts of a link are from it. */
const GAP = 8;
type Kind = Node["kind"] | "site" | "exit";
const KINDS: Record<Kind, string> = { site: "site", exit: "exit", host: "", router: "router", switch: "switch", ap: "access point", openflow: "Open vSwitch" };

/** What a link carries: bit/s in both directions, as parts of its rates, bytes that wait, and the time on the air in percent. */
export interface Load {
  bits: [number, number];
  shares: [number, number];
  queue_bytes: number;
  air_percent: number | null;
}

interface Ends {
  id: string;
  ends: [string, string];
  colour: number;
}

/** What a picture is of: nodes, and links between interfaces of them. */
export interface Drawable {
  name: string;
  nodes: { id: string; kind: Kind }[];
  interfaces: { id: string; node: string }[];
  links: Ends[];
}

interface Drawn {
  line: SVGPathElement;
  load: SVGPathElement;
  hit: SVGPathElement;
  texts: SVGTextElement[];
}

interface Point {
  x: number;
  y: number;
}

const SVG = "http://www.w3.org/2000/svg";

function makeSvg<Name extends keyof SVGElementTagNameMap>(
  parent: SVGElement,
  name: Name,
  attributes: Record<string, string | number>,
): SVGElementTagNameMap[Name] {
  const made = parent.appendChild(document.createElementNS(SVG, name));
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  return made;
}

/** A smooth line along points. With three of them, it passes the middle one, where the texts of a link are. */
function pathThrough(points: Point[]): string {
  const [first, ...rest] = points;
  if (first === undefined) return "";
  if (rest.length === 2) {
    const [middle, last] = rest as [Point, Point];
    const [x, y] = [2 * middle.x - (first.x + last.x) / 2, 2 * middle.y - (first.y + last.y) / 2];
    return `M ${first.x} ${first.y} Q ${x} ${y} ${last.x} ${last.y}`;
  }
  const parts = [`M ${first.x} ${first.y}`];
  rest.forEach((point, n) => {
    const next = rest[n + 1];
    parts.push(next ? `Q ${point.x} ${point.y} ${(point.x + next.x) / 2} ${(point.y + next.y) / 2}` : `L ${point.x} ${point.y}`);
  });
  return parts.join(" ");
}

/** The picture of a network in an element of the page. `choose` is called for a link that is chosen. */
export class Topology<Link extends Ends = Ends> {
  readonly #drawn = new Map<string, Drawn>();
  readonly #nodes = new Map<string, SVGRectElement>();

  constructor(place: HTMLElement, run: Drawable & { links: Link[] }, choose: (link: Link) => void) {
    const svg = place.appendChild(document.createElementNS(SVG, "svg"));
    svg.setAttribute("class", "topology");
    svg.setAttribute("role", "group");
    svg.setAttribute("aria-label", `Topology of ${run.name}: ${run.nodes.length} nodes, ${run.links.length} links`);
    const isNarrow = place.clientWidth < NARROW_PX;
    const graph = laidOut(run, isNarrow);
    const { width = 0, height = 0 } = graph.graph();
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("width", String(isNarrow ? width : LARGER * width));
    const nodeOf = new Map(run.interfaces.map(({ id, node }) => [id, node]));
    for (const link of run.links) {
      const [from, to] = link.ends.map((end) => nodeOf.get(end) ?? "");
      const { points, x, y } = graph.edge(from!, to!, link.id) as { points: Point[]; x: number; y: number };
      // Texts are above links from left to right, and to the right of links from top to bottom.
      const corner = isNarrow ? { x: x - (LETTER * LABEL_LETTERS) / 2, y: y - LINE_HEIGHT } : { x, y: y - GAP - LINE_HEIGHT * (LABEL_LINES - 1) };
      const texts = drawTexts(svg, corner, isNarrow ? "start" : "middle");
      this.#drawn.set(link.id, drawLink(svg, link, points, texts, () => choose(link)));
    }
    for (const node of run.nodes) this.#nodes.set(node.id, drawNode(svg, node, graph.node(node.id) as Point));
  }

  /** Shows what a link carries. */
  showLoad(link: string, { bits, shares, queue_bytes, air_percent }: Load): void {
    const drawn = this.#drawn.get(link);
    if (!drawn) return;
    drawn.load.setAttribute("stroke-width", String(WIDEST * Math.min(1, Math.max(...shares))));
    drawn.texts[1]!.textContent = `→ ${quantity(bits[0], "bit/s")} ← ${quantity(bits[1], "bit/s")}`;
    const waiting = queue_bytes > 0 ? [`queue ${quantity(queue_bytes, "B")}`] : [];
    const air = air_percent === null ? [] : [`air ${air_percent.toFixed(0)} %`];
    if (!drawn.line.classList.contains("is-down")) drawn.texts[2]!.textContent = [...waiting, ...air].join(", ");
  }

  /** Shows whether a link is down, and why. */
  showState(link: string, why: string | null): void {
    const drawn = this.#drawn.get(link);
    if (!drawn) return;
    drawn.line.classList.toggle("is-down", why !== null);
    drawn.texts[2]!.classList.toggle("is-down", why !== null);
    drawn.texts[2]!.textContent = why ?? "";
  }

  /** Shows a text at a link. */
  tell(link: string, text: string): void {
    this.#drawn.get(link)!.texts[1]!.textContent = text;
  }

  /** Shows whether a node operates. */
  showNode(node: string, operates: boolean): void {
    this.#nodes.get(node)?.classList.toggle("is-down", !operates);
  }

  showChosen(link: string): void {
    for (const [id, { hit }] of this.#drawn) hit.classList.toggle("is-chosen", id === link);
  }
}

/** Places nodes and links: dagre ranks the nodes by their distance, with room for the texts of each link. */
function laidOut(run: Drawable, isNarrow: boolean): Graph {
  const graph = new Graph({ multigraph: true });
  graph.setGraph({ rankdir: isNarrow ? "TB" : "LR", nodesep: 24, edgesep: 16, ranksep: 28, marginx: 12, marginy: isNarrow ? 12 : 12 + (LINE_HEIGHT * LABEL_LINES) / 2 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const { id } of run.nodes) graph.setNode(id, { width: Math.max(NODE_WIDTH, LETTER * id.length + 16), height: NODE_HEIGHT });
  const nodeOf = new Map(run.interfaces.map(({ id, node }) => [id, node]));
  for (const link of run.links) {
    const [from, to] = link.ends.map((end) => nodeOf.get(end) ?? "");
    // A label is centred on its link, and from left to right its texts are in the upper half.
    const size = { width: LETTER * LABEL_LETTERS, height: LINE_HEIGHT * LABEL_LINES * (isNarrow ? 1 : 1.7) + GAP };
    const label = { ...size, labelpos: isNarrow ? "r" : "c", labeloffset: GAP };
    graph.setEdge(from!, to!, label, link.id);
  }
  layout(graph);
  return graph;
}

/** Three lines of text: the name of a link, what it carries, and its state. */
function drawTexts(svg: SVGSVGElement, { x, y }: Point, anchor: "start" | "middle"): SVGTextElement[] {
  return ["name", "detail", "detail"].map((kind, n) => {
    const text = makeSvg(svg, "text", { class: kind, x, y: y + LINE_HEIGHT * n });
    text.style.textAnchor = anchor;
    return text;
  });
}

function drawLink(svg: SVGSVGElement, link: Ends, points: Point[], texts: SVGTextElement[], choose: () => void): Drawn {
  const d = pathThrough(points);
  const load = makeSvg(svg, "path", { class: "load", d, "stroke-width": 0 });
  load.style.stroke = `var(--c${(link.colour % COLOURS) + 1})`;
  load.style.opacity = String(0.75 * opacityOf(link.colour));
  const line = makeSvg(svg, "path", { class: "link", d });
  const hit = makeSvg(svg, "path", { class: "hit", d, tabindex: 0, role: "button", "aria-label": `Link ${link.id}` });
  texts[0]!.textContent = link.id;
  // Above the lines, which are drawn later.
  svg.append(...texts);
  for (const element of [hit, ...texts]) element.addEventListener("click", choose);
  hit.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    choose();
  });
  return { line, load, hit, texts };
}

function drawNode(svg: SVGSVGElement, { id, kind }: Drawable["nodes"][number], { x, y }: Point): SVGRectElement {
  const width = Math.max(NODE_WIDTH, LETTER * id.length + 16);
  const shape = { x: x - width / 2, y: y - NODE_HEIGHT / 2, width, height: NODE_HEIGHT, rx: kind === "host" ? 6 : 20 };
  const drawn = makeSvg(svg, "rect", { class: kind === "host" ? "node host" : "node", ...shape });
  makeSvg(svg, "text", { class: "name", x, y: y + (KINDS[kind] ? -2 : 5) }).textContent = id;
  if (KINDS[kind]) makeSvg(svg, "text", { class: "kind", x, y: y + 13 }).textContent = KINDS[kind];
  return drawn;
}

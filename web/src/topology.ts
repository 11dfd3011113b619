// The picture of a network: laid out by dagre, with the load, queue and state of each link.

import { Graph, layout as placeBoxes } from "@dagrejs/dagre";
import { COLOURS, opacityOf, quantity } from "./chart";
import { boxAround, boxAt, placesOfTexts, type Box, type Line, type Place, type Point } from "./link_texts";
import type { Node } from "./messages";

/** Sizes in pixels: of nodes, of the texts at a link, of a letter of them, and of a link that carries all that it can. */
const [NODE_WIDTH, NODE_HEIGHT] = [104, 40];
const [LINE_HEIGHT, LETTER] = [14, 6.4];
const WIDEST = 10;
/** How a picture runs, the room for the texts of a link, which change, and in how many lines each of their two parts is. */
const ACROSS = { rankdir: "LR", width: 150, most: 1 } as const;
const DOWN = { rankdir: "TB", width: 88, most: 2 } as const;
/** The least distance between texts and the widest link. */
const GAP = 3;
/** How far the texts of a link from top to bottom are from its middle, about which it may bend. */
const BEND = 16;
/** The picture is at most so much larger than its texts need, and then at most so high in pixels. */
const LARGER = 1.3;
const HIGHEST = 560;
/** The room around a picture. */
export const MARGIN = 12;
/** The distance of the points of a link that its texts avoid. */
const POINT_EVERY = 4;
const KINDS: Record<Node["kind"], string> = { host: "", router: "router", switch: "switch", ap: "access point", openflow: "Open vSwitch" };

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

/** The parts of the texts of a link: how many things are told of what it carries, and how many of its state. */
interface Parts {
  carried: number;
  state: number;
}

/** What a picture is of: nodes, and links between interfaces of them. */
export interface Drawable {
  name: string;
  nodes: { id: string; kind: Node["kind"] }[];
  interfaces: { id: string; node: string }[];
  links: Ends[];
}

interface Drawn {
  line: SVGPathElement;
  load: SVGPathElement;
  hit: SVGPathElement;
  /** What the link carries, and what waits for it or why it is down: a line of text, or one for each direction and thing. */
  carried: SVGTextElement[];
  state: SVGTextElement[];
}

type Layout = typeof ACROSS | typeof DOWN;

const SVG = "http://www.w3.org/2000/svg";

/** Appends an empty picture to an element of the page. */
export function makePicture(place: HTMLElement, role: "group" | "img", label: string): SVGSVGElement {
  const svg = place.appendChild(document.createElementNS(SVG, "svg"));
  for (const [key, value] of Object.entries({ class: "topology", role, "aria-label": label })) svg.setAttribute(key, value);
  return svg;
}

/** Appends an element to a picture. */
export function makeSvg<Name extends keyof SVGElementTagNameMap>(
  parent: SVGElement,
  name: Name,
  attributes: Record<string, string | number>,
): SVGElementTagNameMap[Name] {
  const made = parent.appendChild(document.createElementNS(SVG, name));
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  return made;
}

/** A part of a smooth line: from a point, bent towards another, to a third. */
type Bend = [from: Point, towards: Point, to: Point];

/** Returns a smooth line along points. With three of them, it passes the middle one, beside which the texts of a link are. */
function bendsAlong(points: Point[]): Bend[] {
  const [first, ...rest] = points as [Point, ...Point[]];
  if (rest.length === 2) {
    const [middle, last] = rest as [Point, Point];
    return [[first, { x: 2 * middle.x - (first.x + last.x) / 2, y: 2 * middle.y - (first.y + last.y) / 2 }, last]];
  }
  let from = first;
  return rest.map((point, n) => {
    const next = rest[n + 1];
    const to = next ? { x: (point.x + next.x) / 2, y: (point.y + next.y) / 2 } : point;
    const bend: Bend = [from, point, to];
    from = to;
    return bend;
  });
}

function pathAlong(bends: Bend[]): string {
  const [{ x, y }] = bends[0]!;
  return [`M ${x} ${y}`, ...bends.map(([, towards, to]) => `Q ${towards.x} ${towards.y} ${to.x} ${to.y}`)].join(" ");
}

/** Points along a smooth line, near each other. */
function pointsAlong(bends: Bend[]): Point[] {
  const distance = (one: Point, other: Point) => Math.hypot(one.x - other.x, one.y - other.y);
  const within = bends.flatMap(([from, towards, to]) => {
    const count = Math.max(4, Math.ceil((distance(from, towards) + distance(towards, to)) / POINT_EVERY));
    return Array.from({ length: count }, (_, n): Point => {
      const [part, left] = [n / count, 1 - n / count];
      const at = (axis: keyof Point) => left * left * from[axis] + 2 * left * part * towards[axis] + part * part * to[axis];
      return { x: at("x"), y: at("y") };
    });
  });
  return [...within, bends.at(-1)![2]];
}

/** The picture of a network in an element of the page. `partsOf` tells the texts of a link, and `choose` is called for one that is chosen. */
export class Topology<Link extends Ends = Ends> {
  readonly #drawn = new Map<string, Drawn>();

  constructor(place: HTMLElement, run: Drawable & { links: Link[] }, partsOf: (link: Link) => Parts, choose: (link: Link) => void) {
    const svg = makePicture(place, "group", `Topology of ${run.name}: ${run.nodes.length} nodes, ${run.links.length} links`);
    const links: Link[] = run.links;
    const parts = new Map(links.map((link) => [link.id, partsOf(link)]));
    const [graph, layout] = laidOut(run, parts, place.clientWidth);
    const nodeOf = new Map(run.interfaces.map(({ id, node }) => [id, node]));
    const lines: Line[] = [];
    for (const link of links) {
      const [from, to] = link.ends.map((end) => nodeOf.get(end) ?? "");
      const edge = graph.edge(from!, to!, link.id) as Point & { points: Point[] };
      const bends = bendsAlong(edge.points);
      this.#drawn.set(link.id, drawLink(svg, link, pathAlong(bends), () => choose(link)));
      const size = sizeOfTexts(link.id, parts, layout);
      lines.push({ points: pointsAlong(bends), ...size, room: roomForTexts(edge, size, layout) });
    }
    for (const node of run.nodes) drawNode(svg, node, graph.node(node.id) as Point);
    const nodes = run.nodes.map(({ id }) => boxOf(graph.node(id) as Point & { width: number; height: number }));
    const beside = Math.max(0, (place.clientWidth - (graph.graph().width ?? 0)) / 2);
    const sides = { left: MARGIN - beside, right: (graph.graph().width ?? 0) - MARGIN + beside };
    const places = placesOfTexts(lines, nodes, WIDEST / 2 + GAP, sides);
    // Texts are above all lines.
    const placeOf = new Map([...this.#drawn.keys()].map((id, n) => [id, places[n]!]));
    for (const link of links) {
      const [carried, state] = drawTexts(svg, link.id, placeOf.get(link.id)!, linesOf(parts.get(link.id)!, layout), () => choose(link));
      Object.assign(this.#drawn.get(link.id)!, { carried, state });
    }
    fit(svg, [...nodes, ...places.map(({ box }) => box), ...lines.map(({ points }) => boxAround(points))], place.clientWidth);
  }

  /** Shows what a link carries. */
  showLoad(link: string, { bits, shares, queue_bytes, air_percent }: Load): void {
    const drawn = this.#drawn.get(link);
    if (!drawn) return;
    drawn.load.setAttribute("stroke-width", String(WIDEST * Math.min(1, Math.max(...shares))));
    tellIn(drawn.carried, [`→ ${quantity(bits[0], "bit/s")}`, `← ${quantity(bits[1], "bit/s")}`], " ");
    const waiting = queue_bytes > 0 ? [`queue ${quantity(queue_bytes, "B")}`] : [];
    const air = air_percent === null ? [] : [`air ${air_percent.toFixed(0)} %`];
    if (!drawn.line.classList.contains("is-down")) tellIn(drawn.state, [...waiting, ...air], ", ");
  }

  /** Shows that what a link carries is not known. */
  showUnmeasured(link: string): void {
    tellIn(this.#drawn.get(link)?.carried ?? [], ["real link,", "not measured"], " ");
  }

  /** Shows whether a link is down, and why. */
  showState(link: string, why: string | null): void {
    const drawn = this.#drawn.get(link);
    if (!drawn) return;
    drawn.line.classList.toggle("is-down", why !== null);
    for (const text of drawn.state) text.classList.toggle("is-down", why !== null);
    const [, names, is] = why?.match(/^(.*) (\S+)$/) ?? [];
    tellIn(drawn.state, names && is ? [names, is] : [why ?? ""], " ");
  }

  showChosen(link: string): void {
    for (const [id, { hit }] of this.#drawn) hit.classList.toggle("is-chosen", id === link);
  }
}

/**
 * Places nodes and links from left to right or, where that is too wide, from top to bottom: dagre ranks the nodes by their
 * distance, with room for the texts of each link.
 */
function laidOut(run: Drawable, parts: Map<string, Parts>, room: number): [Graph, Layout] {
  const across = ranked(run, parts, ACROSS);
  const width = (graph: Graph) => graph.graph().width ?? 0;
  if (width(across) <= room) return [across, ACROSS];
  const down = ranked(run, parts, DOWN);
  return width(down) < width(across) ? [down, DOWN] : [across, ACROSS];
}

function ranked(run: Drawable, parts: Map<string, Parts>, layout: Layout): Graph {
  const { rankdir } = layout;
  const isAcross = layout === ACROSS;
  const graph = new Graph({ multigraph: true });
  graph.setGraph({ rankdir, nodesep: 24, edgesep: 16, ranksep: 20, marginx: MARGIN, marginy: MARGIN });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const { id } of run.nodes) graph.setNode(id, { width: Math.max(NODE_WIDTH, LETTER * id.length + 16), height: NODE_HEIGHT });
  const nodeOf = new Map(run.interfaces.map(({ id, node }) => [id, node]));
  for (const link of run.links) {
    const [from, to] = link.ends.map((end) => nodeOf.get(end) ?? "");
    // A label is centred on its link, and from left to right its texts are in the upper half.
    const { width, height } = sizeOfTexts(link.id, parts, layout);
    const label = { width, height: height * (isAcross ? 1.7 : 1) + GAP, labelpos: isAcross ? "c" : "r", labeloffset: BEND };
    graph.setEdge(from!, to!, label, link.id);
  }
  placeBoxes(graph);
  return graph;
}

/** In how many lines of text the parts of a link are. */
const linesOf = ({ carried, state }: Parts, { most }: Layout): Parts => ({ carried: Math.min(most, carried), state: Math.min(most, state) });

function sizeOfTexts(link: string, parts: Map<string, Parts>, layout: Layout): { width: number; height: number } {
  const { carried, state } = linesOf(parts.get(link)!, layout);
  return { width: Math.max(layout.width, LETTER * link.length), height: LINE_HEIGHT * (1 + carried + state) };
}

/** Where the layout has room for the texts of a link. */
function roomForTexts({ x, y }: Point, { width, height }: { width: number; height: number }, layout: Layout): Place {
  const isAcross = layout === ACROSS;
  const top = isAcross ? y - WIDEST / 2 - GAP - height : y - height / 2;
  return { box: boxAt(x - width / 2, top, width, height), anchor: isAcross ? "middle" : "start" };
}

/** The box of a node, which is placed by its middle. */
export function boxOf({ x, y, width, height }: Point & { width: number; height: number }): Box {
  return { left: x - width / 2, top: y - height / 2, right: x + width / 2, bottom: y + height / 2 };
}

/** Gives a picture a size at which all boxes are in it and texts can be read: what is wider than its place scrolls. It grows if it is narrower than `room`. */
export function fit(svg: SVGSVGElement, boxes: Box[], room = 0): void {
  const around = boxAround(boxes.flatMap(({ left, top, right, bottom }) => [{ x: left, y: top }, { x: right, y: bottom }]));
  const [width, height] = [around.right - around.left + 2 * MARGIN, around.bottom - around.top + 2 * MARGIN];
  svg.setAttribute("viewBox", `${around.left - MARGIN} ${around.top - MARGIN} ${width} ${height}`);
  svg.setAttribute("width", String(width * Math.max(1, Math.min(LARGER, room / width, HIGHEST / height))));
  svg.style.setProperty("--least", `${width}px`);
}

/** Draws the name of a link, and returns the lines of text for what it carries and for its state. */
function drawTexts(
  svg: SVGSVGElement,
  link: string,
  { box, anchor }: Place,
  { carried, state }: Parts,
  choose: () => void,
): [SVGTextElement[], SVGTextElement[]] {
  const x = { start: box.left, middle: (box.left + box.right) / 2, end: box.right }[anchor];
  const texts = Array.from({ length: 1 + carried + state }, (_, n) => {
    // The baseline of a line is a little above its lower edge.
    const text = makeSvg(svg, "text", { class: n === 0 ? "name" : "detail", x, y: box.top + LINE_HEIGHT * (n + 1) - 3 });
    text.style.textAnchor = anchor;
    text.addEventListener("click", choose);
    return text;
  });
  texts[0]!.textContent = link;
  return [texts.slice(1, 1 + carried), texts.slice(1 + carried)];
}

/** Shows parts in lines of text, each in its own or all in one. */
function tellIn(lines: SVGTextElement[], parts: string[], separator: string): void {
  const texts = lines.length === 1 ? [parts.join(separator)] : parts;
  lines.forEach((line, n) => (line.textContent = texts[n] ?? ""));
}

function drawLink(svg: SVGSVGElement, link: Ends, d: string, choose: () => void): Drawn {
  const load = makeSvg(svg, "path", { class: "load", d, "stroke-width": 0 });
  load.style.stroke = `var(--c${(link.colour % COLOURS) + 1})`;
  load.style.opacity = String(0.75 * opacityOf(link.colour));
  const line = makeSvg(svg, "path", { class: "link", d });
  const hit = makeSvg(svg, "path", { class: "hit", d, tabindex: 0, role: "button", "aria-label": `Link ${link.id}` });
  hit.addEventListener("click", choose);
  hit.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    choose();
  });
  return { line, load, hit, carried: [], state: [] };
}

function drawNode(svg: SVGSVGElement, { id, kind }: Drawable["nodes"][number], { x, y }: Point): void {
  const width = Math.max(NODE_WIDTH, LETTER * id.length + 16);
  const shape = { x: x - width / 2, y: y - NODE_HEIGHT / 2, width, height: NODE_HEIGHT, rx: kind === "host" ? 6 : 20 };
  makeSvg(svg, "rect", { class: kind === "host" ? "node host" : "node", ...shape });
  makeSvg(svg, "text", { class: "name", x, y: y + (KINDS[kind] ? -2 : 5) }).textContent = id;
  if (KINDS[kind]) makeSvg(svg, "text", { class: "kind", x, y: y + 13 }).textContent = KINDS[kind];
}

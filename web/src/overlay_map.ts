// The map of an overlay: sites with a short round trip between them are near each other.

import { forceCollide, forceLink, forceManyBody, forceSimulation, forceX, forceY, type SimulationNodeDatum } from "d3-force";
import { boxOf, fit, makePicture, makeSvg, MARGIN } from "./topology";

/** The sizes of a node and of a letter of its name, and the room around a node, in pixels. */
const [NODE_HEIGHT, LETTER, AROUND] = [24, 7.2, 7];
/** More nodes than these are dots, of which a pointer shows the names. More lines than these show their texts only at a node that is pointed at. */
const [MOST_NAMES, MOST_TEXTS] = [60, 12];
const DOT = { width: 10, height: 10 } as const;
/** The longest round trip in pixels while nodes find their places, the pull towards the middle, and the push between nodes. */
const [LONGEST, PULL, PUSH] = [390, 0.06, -160];
const TICKS = 400;
/** The places then fill the room to this height, if that makes the map at most so much smaller or larger. A map that is still wider scrolls. */
const HIGHEST = 480;
const [SMALLER, LARGER] = [0.8, 3];

export interface MapNode {
  id: string;
  kind: "site" | "exit" | "host";
}

/** A tunnel: its round trip in seconds, if it is known, gives the distance of its ends. */
export interface MapLine {
  id: string;
  ends: [string, string];
  rtt_s: number | null;
}

interface Placed extends MapNode, SimulationNodeDatum {
  x: number;
  y: number;
  width: number;
  height: number;
}

interface Drawn {
  line: SVGLineElement;
  text: SVGTextElement;
  title: SVGTitleElement;
}

/** Returns where nodes are: springs as long as the round trips pull at nodes that push each other away. Nothing in it is random. */
function placed(nodes: MapNode[], lines: MapLine[], room: number): Map<string, Placed> {
  const hasNames = nodes.length <= MOST_NAMES;
  const sizeOf = ({ id }: MapNode) => (hasNames ? { width: Math.max(36, LETTER * id.length + 14), height: NODE_HEIGHT } : DOT);
  const put: Placed[] = nodes.map((node) => ({ ...node, x: NaN, y: NaN, ...sizeOf(node) }));
  const longest = Math.max(...lines.map(({ rtt_s }) => rtt_s ?? 0)) || 1;
  const springs = lines.map(({ ends: [source, target], rtt_s }) => ({ source, target, length: LONGEST * ((rtt_s ?? longest / 2) / longest) }));
  forceSimulation(put)
    .force("springs", forceLink<Placed, (typeof springs)[number]>(springs).id(({ id }) => id).distance(({ length }) => length))
    .force("push", forceManyBody().strength(hasNames ? PUSH : PUSH / 8))
    .force("across", forceX().strength(PULL))
    .force("down", forceY().strength(2 * PULL))
    .force("apart", forceCollide<Placed>(({ width: own }) => own / 2 + AROUND))
    .stop()
    .tick(TICKS);
  spread(put, room);
  return new Map(put.map((one) => [one.id, one]));
}

/** Moves nodes apart or together, all by the same factor, so that they fill the room. */
function spread(nodes: Placed[], room: number): void {
  const span = (places: number[]) => Math.max(...places) - Math.min(...places) || 1;
  const widest = Math.max(...nodes.map(({ width }) => width)) + 2 * MARGIN;
  const fits = Math.min((room - widest) / span(nodes.map(({ x }) => x)), HIGHEST / span(nodes.map(({ y }) => y)));
  const factor = Math.min(LARGER, Math.max(SMALLER, fits));
  for (const node of nodes) Object.assign(node, { x: factor * node.x, y: factor * node.y });
}

/** The map in an element of the page. `choose` is called for a line that is clicked. */
export class OverlayMap {
  readonly #lines = new Map<string, Drawn>();
  readonly #nodes = new Map<string, SVGRectElement>();

  constructor(place: HTMLElement, nodes: MapNode[], lines: MapLine[], choose: (line: string) => void) {
    const svg = makePicture(place, "img", `Map of ${nodes.length} sites and hosts and their ${lines.length} tunnels, which the tables list`);
    svg.classList.toggle("is-dense", lines.length > MOST_TEXTS);
    const where = placed(nodes, lines, place.clientWidth);
    for (const line of lines) this.#lines.set(line.id, drawLine(svg, where, line, choose));
    for (const node of where.values()) this.#nodes.set(node.id, this.#drawNode(svg, node, lines));
    // Texts are above all lines and nodes.
    for (const { text } of this.#lines.values()) svg.append(text);
    fit(svg, [...where.values()].map(boxOf));
  }

  /** Shows the text of a line, and whether it operates. */
  showLine(id: string, text: string, operates: boolean): void {
    const drawn = this.#lines.get(id);
    if (!drawn) return;
    drawn.text.textContent = text;
    drawn.title.textContent = `${id}: ${text}`;
    for (const part of [drawn.line, drawn.text]) part.classList.toggle("is-down", !operates);
  }

  /** Shows whether a node operates. */
  showNode(id: string, operates: boolean): void {
    this.#nodes.get(id)?.classList.toggle("is-down", !operates);
  }

  #drawNode(svg: SVGSVGElement, { id, kind, x, y, width, height }: Placed, lines: MapLine[]): SVGRectElement {
    const group = makeSvg(svg, "g", { class: "place" });
    const shape = { x: x - width / 2, y: y - height / 2, width, height, rx: kind === "host" ? 3 : height / 2 };
    const drawn = makeSvg(group, "rect", { class: kind === "site" ? "node" : `node ${kind}`, ...shape });
    if (height > DOT.height) makeSvg(group, "text", { class: "name", x, y: y + 4 }).textContent = id;
    makeSvg(group, "title", {}).textContent = kind === "site" ? id : `${id}, ${kind}`;
    const own = lines.filter(({ ends }) => ends.includes(id)).map((line) => this.#lines.get(line.id)!);
    const near = (isNear: boolean) => own.forEach(({ line, text }) => [line, text].forEach((part) => part.classList.toggle("is-near", isNear)));
    group.addEventListener("pointerenter", () => near(true));
    group.addEventListener("pointerleave", () => near(false));
    return drawn;
  }
}

function drawLine(svg: SVGSVGElement, where: Map<string, Placed>, { id, ends }: MapLine, choose: (line: string) => void): Drawn {
  const [from, to] = ends.map((end) => where.get(end)!) as [Placed, Placed];
  const along = { x1: from.x, y1: from.y, x2: to.x, y2: to.y };
  const line = makeSvg(svg, "line", { class: "link", ...along });
  const hit = makeSvg(svg, "line", { class: "hit", ...along });
  const title = makeSvg(hit, "title", {});
  hit.addEventListener("click", () => choose(id));
  const text = makeSvg(svg, "text", { class: "detail", "pointer-events": "none", x: (from.x + to.x) / 2, y: (from.y + to.y) / 2 + 4 });
  return { line, text, title };
}

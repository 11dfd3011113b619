// Places for the texts of links in a picture of a network: beside their link, and clear of everything else.

export interface Point {
  x: number;
  y: number;
}

export interface Box {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

/** Where texts are: the box that they take, and the side of it at which their lines are aligned. */
export interface Place {
  box: Box;
  anchor: "start" | "middle" | "end";
}

/** A line as points near each other, the size of its texts, and where the layout of the picture has room for them. */
export interface Line {
  points: Point[];
  width: number;
  height: number;
  room: Place;
}

/** Parts of a line beside which its texts may be. */
const PARTS = [0.5, 0.42, 0.58, 0.34, 0.66, 0.26, 0.74, 0.18, 0.82];
/** How much farther away texts may be, in pixels. */
const FARTHER = [0, 6, 12, 20, 32, 48, 64];
/** What a place costs: for each other text or node, and each line, that it covers, for each pixel beyond the picture, and aside. */
const [COVERS, CROSSES, BEYOND, ASIDE] = [1e6, 1e4, 2, 40];
/** Texts are placed up to so often, each time in another order. */
const PASSES = 4;

/** The texts of more links are where the layout has room for them, because a search would take too long. */
const MOST_SOUGHT = 150;
/** The width of a cell of the grid in which points near a box are found, in pixels. */
const CELL = 32;

/**
 * Returns a place for the texts of each line. They are at least `clear` away from the middle of lines, outside `nodes` and,
 * where there is room, between the sides of the picture.
 */
export function placesOfTexts(lines: Line[], nodes: Box[], clear: number, sides: { left: number; right: number }): Place[] {
  if (lines.length > MOST_SOUGHT) return lines.map(({ room }) => room);
  const grid = new Grid(lines);
  const costOf = ({ box }: Place, aside: number, others: Box[]) => {
    const reach = { left: box.left - clear, top: box.top - clear, right: box.right + clear, bottom: box.bottom + clear };
    const covered = others.filter((other) => overlap(other, box));
    const beyond = Math.max(0, sides.left - box.left) + Math.max(0, box.right - sides.right);
    return COVERS * covered.length + CROSSES * grid.linesIn(reach) + BEYOND * beyond + aside;
  };
  const bestOf = (line: Line, others: Box[]) => {
    let best = { place: line.room, cost: costOf(line.room, 0, others) };
    for (const [place, aside] of candidates(line, clear)) {
      // What is farther aside than the best costs is worse.
      const cost = aside < best.cost ? costOf(place, aside, others) : Infinity;
      if (cost < best.cost) best = { place, cost };
    }
    return best;
  };
  const inOrder = (order: number[]) => {
    const found = new Map<number, ReturnType<typeof bestOf>>();
    for (const n of order) found.set(n, bestOf(lines[n]!, [...nodes, ...[...found.values()].map(({ place }) => place.box)]));
    return found;
  };
  const total = (found: ReturnType<typeof inOrder>) => [...found.values()].reduce((sum, { cost }) => sum + cost, 0);
  let order = [...lines.keys()];
  let best = inOrder(order);
  for (let pass = 1; pass < PASSES; pass++) {
    // What found no room chooses first.
    const hasNone = order.filter((n) => best.get(n)!.cost >= CROSSES);
    if (!hasNone.length) break;
    order = [...hasNone, ...order.filter((n) => !hasNone.includes(n))];
    const found = inOrder(order);
    if (total(found) < total(best)) best = found;
  }
  return lines.map((_, n) => best.get(n)!.place);
}

/** The points of lines by the cells in which they are. */
class Grid {
  readonly #cells = new Map<string, { line: number; x: number; y: number }[]>();

  constructor(lines: Line[]) {
    lines.forEach(({ points }, line) => {
      for (const { x, y } of points) {
        const key = `${Math.floor(x / CELL)} ${Math.floor(y / CELL)}`;
        const cell = this.#cells.get(key);
        if (cell) cell.push({ line, x, y });
        else this.#cells.set(key, [{ line, x, y }]);
      }
    });
  }

  /** Returns how many lines have a point in a box. */
  linesIn(box: Box): number {
    const found = new Set<number>();
    for (let column = Math.floor(box.left / CELL); column * CELL < box.right; column++) {
      for (let row = Math.floor(box.top / CELL); row * CELL < box.bottom; row++) {
        for (const point of this.#cells.get(`${column} ${row}`) ?? []) if (contains(box, point)) found.add(point.line);
      }
    }
    return found.size;
  }
}

/** Yields places, and how far aside they are: above and below what is flat rather than beside it, and the reverse. */
function* candidates({ points, width, height }: Line, clear: number): Generator<[Place, number]> {
  for (const farther of FARTHER) {
    for (const part of PARTS) {
      const at = Math.round(part * (points.length - 1));
      const [{ x, y }, before, after] = [points[at]!, points[Math.max(0, at - 1)]!, points[Math.min(points.length - 1, at + 1)]!];
      const away = clear + farther + 0.5;
      const beside: Place[] = [
        { box: boxAt(x + away, y - height / 2, width, height), anchor: "start" },
        { box: boxAt(x - away - width, y - height / 2, width, height), anchor: "end" },
      ];
      const over = [y - away - height, y + away].flatMap((top): Place[] => [
        { box: boxAt(x - width / 2, top, width, height), anchor: "middle" },
        { box: boxAt(x, top, width, height), anchor: "start" },
        { box: boxAt(x - width, top, width, height), anchor: "end" },
      ]);
      const isFlat = Math.abs(after.x - before.x) >= Math.abs(after.y - before.y);
      const aside = farther + ASIDE * Math.abs(part - 0.5) + 1;
      for (const place of over) yield [place, isFlat ? aside : aside + ASIDE / 2];
      for (const place of beside) yield [place, isFlat ? aside + ASIDE / 2 : aside];
    }
  }
}

export const boxAt = (left: number, top: number, width: number, height: number): Box => ({ left, top, right: left + width, bottom: top + height });

const overlap = (one: Box, other: Box) => one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom;

const contains = (box: Box, { x, y }: Point) => x > box.left && x < box.right && y > box.top && y < box.bottom;

/** Returns the box about points. */
export function boxAround(points: Point[]): Box {
  const box = { left: Infinity, top: Infinity, right: -Infinity, bottom: -Infinity };
  for (const { x, y } of points) {
    [box.left, box.right] = [Math.min(box.left, x), Math.max(box.right, x)];
    [box.top, box.bottom] = [Math.min(box.top, y), Math.max(box.bottom, y)];
  }
  return box;
}

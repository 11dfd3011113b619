// The page of an overlay: its sites, tunnels and hosts, as its host controller tells them again and again.

import { quantity } from "./chart";
import { OverlayMap, type MapLine, type MapNode } from "./overlay_map";
import { ask, element, inOrder, make, makeButton, makeCells } from "./page";

const EVERY_MS = 500;
/** Larger overlays have tables and no map. */
const MOST_DRAWN = 400;
/** Rows of a table. What does not operate comes first, and the search finds the rest. */
const MOST_ROWS = 100;

interface Site {
  node: string;
  operates: boolean;
  exit: boolean;
  cut: boolean;
  heard_s: number | null;
}

interface Tunnel {
  ends: [string, string];
  operates: boolean;
  cut: boolean;
  rtt_s: number | null;
  sent: number;
  answered: number;
}

interface Host {
  connection: string;
  client: string;
  tunnels: { node: string; address: string; route: string[]; heard_s: number }[];
}

interface Status {
  policy: string;
  sites: Site[];
  tunnels: Tunnel[];
  hosts: Host[];
}

/** What a row of a table shows, and what its button cuts. */
interface Row {
  id: string;
  /** The texts after the first cell, with the state first. */
  texts: string[];
  operates: boolean;
  cut: boolean;
  asked: Record<string, string>;
}

/** A table whose rows stay the same elements, so that the focus stays on a button. */
class Table {
  readonly #rows = new Map<string, { row: HTMLTableRowElement; cells: HTMLElement[]; button: HTMLButtonElement; shown: Row }>();

  constructor(
    private readonly id: string,
    private readonly columns: readonly string[],
    private readonly numeric: readonly string[],
  ) {}

  show(rows: Row[]): void {
    const searched = element<HTMLInputElement>("search").value.toLowerCase();
    const found = rows.filter(({ id }) => id.toLowerCase().includes(searched));
    const shown = [...found.filter(({ operates }) => !operates), ...found.filter(({ operates }) => operates)].slice(0, MOST_ROWS);
    const wanted = new Set(shown.map(({ id }) => id));
    for (const [id, { row }] of this.#rows) {
      if (wanted.has(id)) continue;
      row.remove();
      this.#rows.delete(id);
    }
    for (const row of shown) this.#fill(row);
    const more = element(`more-${this.id}`);
    more.hidden = found.length <= shown.length;
    more.textContent = `and ${found.length - shown.length} more, which the search finds`;
  }

  #fill(row: Row): void {
    const made = this.#rows.get(row.id) ?? this.#made(row);
    made.shown = row;
    row.texts.forEach((text, n) => (made.cells[n]!.textContent = text));
    made.cells[0]!.className = row.operates && !row.cut ? "" : "is-down";
    made.button.textContent = row.cut ? "Restore" : "Cut";
    made.button.setAttribute("aria-label", `${row.cut ? "Restore" : "Cut"} ${row.id}`);
  }

  #made(shown: Row) {
    const row = make(element(this.id).querySelector("tbody")!, "tr");
    make(row, "th", shown.id, { scope: "row" });
    const button = makeButton(make(row, "td"), "Cut", () => ask(made.shown.cut ? "restore" : "cut", made.shown.asked));
    const cells = Object.values(makeCells(row, this.columns, this.numeric));
    const made = { row, cells, button, shown };
    this.#rows.set(shown.id, made);
    return made;
  }
}

class OverlayPage {
  readonly #sites = new Table("sites", ["state", "exit", "heard"], ["heard"]);
  readonly #tunnels = new Table("tunnels", ["state", "rtt", "sent", "answered"], ["rtt", "sent", "answered"]);
  #before: Status | null = null;
  #map: OverlayMap | null = null;
  /** The names of what is on the map, and of the tunnels whose round trips it knew. */
  #drawn = "";

  constructor() {
    element("search").addEventListener("input", () => this.#before && this.#show(this.#before));
    void this.#follow();
  }

  async #follow(): Promise<void> {
    try {
      const answer = await fetch("status");
      const told = (await answer.json()) as Status & { why?: string };
      if (answer.ok) this.#take(told);
      else this.#tellState(told.why ?? answer.statusText, "is-dead");
    } catch {
      this.#tellState("mptcplab no longer answers", "is-dead");
    }
    setTimeout(() => void this.#follow(), EVERY_MS);
  }

  #tellState(text: string, className = ""): void {
    const state = element("state");
    // A screen reader reads it again whenever it is set.
    if (state.textContent !== text) Object.assign(state, { textContent: text, className: `state ${className}` });
  }

  #take(status: Status): void {
    if (this.#before) for (const text of changes(this.#before, status)) this.#log(text);
    this.#before = status;
    this.#show(status);
  }

  #show(status: Status): void {
    const operating = status.sites.filter(({ operates }) => operates).length;
    element("where").textContent = `overlay · policy ${status.policy}`;
    this.#tellState(`${operating} of ${status.sites.length} sites operate`, operating < status.sites.length ? "is-bad" : "");
    const order = new Map(inOrder(status.sites.map(({ node }) => node)).map((node, n) => [node, n]));
    const sites = [...status.sites].sort((one, other) => order.get(one.node)! - order.get(other.node)!);
    this.#sites.show(sites.map(rowOfSite));
    this.#tunnels.show(status.tunnels.map(rowOfTunnel));
    showHosts(status.hosts);
    this.#draw(status);
  }

  #draw(status: Status): void {
    const mapped = element("mapped");
    mapped.hidden = status.sites.length > MOST_DRAWN;
    if (mapped.hidden) return;
    const [nodes, lines] = mapOf(status);
    const drawn = JSON.stringify([nodes, lines.map(({ id, rtt_s }) => [id, rtt_s !== null])]);
    if (drawn !== this.#drawn) {
      const place = element("map");
      place.replaceChildren();
      this.#map = new OverlayMap(place, nodes, lines, focusRow);
      this.#drawn = drawn;
    }
    for (const { node, operates, cut } of status.sites) this.#map?.showNode(node, operates && !cut);
    for (const tunnel of status.tunnels) {
      const operates = tunnel.operates && !tunnel.cut;
      const rtt = tunnel.rtt_s === null ? "" : quantity(tunnel.rtt_s, "s");
      this.#map?.showLine(nameOf(tunnel), operates ? rtt : stateOf(tunnel), operates);
    }
    for (const { client, tunnels } of status.hosts) {
      for (const { node, route } of tunnels) this.#map?.showLine(`${client} – ${node}`, route.length ? `to ${route.at(-1)}` : "no route", true);
    }
  }

  #log(text: string): void {
    const line = document.createElement("li");
    line.className = "event";
    line.textContent = `${new Date().toLocaleTimeString("en-GB")}: ${text}`;
    element("log").prepend(line);
  }
}

const nameOf = ({ ends }: Tunnel) => ends.join(" – ");

function stateOf({ operates, cut }: { operates: boolean; cut: boolean }): string {
  if (cut) return operates ? "cut" : "cut, silent";
  return operates ? "operates" : "silent";
}

function rowOfSite(site: Site): Row {
  const texts = [stateOf(site), site.exit ? "yes" : "", quantity(site.heard_s ?? NaN, "s")];
  return { id: site.node, texts, operates: site.operates, cut: site.cut, asked: { node: site.node } };
}

function rowOfTunnel(tunnel: Tunnel): Row {
  const [node, other] = tunnel.ends;
  const texts = [stateOf(tunnel), quantity(tunnel.rtt_s ?? NaN, "s"), String(tunnel.sent), String(tunnel.answered)];
  return { id: nameOf(tunnel), texts, operates: tunnel.operates, cut: tunnel.cut, asked: { node, other } };
}

function showHosts(hosts: Host[]): void {
  element("no-hosts").hidden = hosts.length > 0;
  element("host-table").hidden = hosts.length === 0;
  const body = element("hosts").querySelector("tbody")!;
  body.replaceChildren();
  for (const { client, tunnels } of hosts) {
    for (const { node, address, route, heard_s } of tunnels) {
      const row = make(body, "tr");
      make(row, "th", client, { scope: "row" });
      for (const text of [node, address, route.join(" – ") || "none"]) make(row, "td", text);
      make(row, "td", quantity(heard_s, "s"), { className: "n" });
    }
  }
}

/** The sites and the hosts, and their tunnels. */
function mapOf({ sites, tunnels, hosts }: Status): [MapNode[], MapLine[]] {
  const nodes: MapNode[] = [
    ...sites.map(({ node, exit }) => ({ id: node, kind: exit ? ("exit" as const) : ("site" as const) })),
    ...[...new Set(hosts.map(({ client }) => client))].map((id) => ({ id, kind: "host" as const })),
  ];
  const lines: MapLine[] = [
    ...tunnels.map((tunnel) => ({ id: nameOf(tunnel), ends: tunnel.ends, rtt_s: tunnel.rtt_s })),
    ...hosts.flatMap(({ client, tunnels: own }) => own.map(({ node }): MapLine => ({ id: `${client} – ${node}`, ends: [client, node], rtt_s: null }))),
  ];
  return [nodes, lines];
}

function focusRow(id: string): void {
  const buttons = [...document.querySelectorAll<HTMLButtonElement>("#tunnels button")];
  buttons.find((button) => button.getAttribute("aria-label")?.endsWith(` ${id}`))?.focus();
}

/** What has changed between two answers, in sentences. */
function changes(before: Status, now: Status): string[] {
  const found: string[] = [];
  const states = ({ sites, tunnels }: Status) => {
    const named: [string, Site | Tunnel][] = [...sites.map((site): [string, Site] => [`site ${site.node}`, site]), ...tunnels.map((tunnel): [string, Tunnel] => [`tunnel ${nameOf(tunnel)}`, tunnel])];
    return new Map(named);
  };
  const old = states(before);
  for (const [name, { operates, cut }] of states(now)) {
    const was = old.get(name);
    if (was && was.cut !== cut) found.push(`${name} is ${cut ? "cut" : "restored"}`);
    if (was && was.operates !== operates) found.push(`${name} ${operates ? "operates again" : "is silent"}`);
  }
  const hosts = (status: Status) => new Map(status.hosts.map((host) => [host.connection, host]));
  const [left, joined] = [hosts(before), hosts(now)];
  for (const [id, { client, tunnels }] of joined) {
    const routes = ({ tunnels: own }: Host) => own.map(({ route }) => route.join(" – ") || "no route").join(" and ");
    const was = left.get(id);
    if (!was) found.push(`host ${client} has joined with ${tunnels.length} ${tunnels.length === 1 ? "tunnel" : "tunnels"}`);
    else if (routes(was) !== routes(joined.get(id)!)) found.push(`host ${client} goes over ${routes(joined.get(id)!)} now`);
  }
  for (const [id, { client }] of left) if (!joined.has(id)) found.push(`host ${client} has left`);
  return found;
}

new OverlayPage();

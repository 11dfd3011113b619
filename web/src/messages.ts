// What the server tells of a run, as mptcplab.web.telling and mptcplab.web.subflows write it.

export interface Node {
  id: string;
  kind: "host" | "router" | "switch" | "ap" | "openflow";
}

export interface Interface {
  id: string;
  node: string;
  link: string;
  up: boolean;
}

export interface Link {
  id: string;
  ends: [string, string];
  medium: string | null;
  rates_bps: (number | null)[];
  delays_s: number[];
  loss_percent: number;
  signal_db: number | null;
  colour: number;
}

export interface Flow {
  id: string;
  transport: string;
  from: string;
  to: string;
  colour: number;
}

/** A way over which a path can be sent instead. */
export interface Reroute {
  flow: string;
  path: number;
  over: string[];
}

export interface RunMessage {
  kind: "run";
  name: string;
  title: string;
  backend: string;
  seed: number;
  duration_s: number;
  has_pace: boolean;
  nodes: Node[];
  interfaces: Interface[];
  links: Link[];
  flows: Flow[];
  reroutes: Reroute[];
  /** How the network recovers from failures, null without switches under control. */
  recovery: Recovery | null;
}

/** How a network recovers: the strategy at first, and those that a viewer can choose. */
export interface Recovery {
  strategy: string;
  /** Time after which a failure is known, null if switches report their ports. */
  detect_s: number | null;
  strategies: { name: string; does: string }[];
  can_change: boolean;
}

export interface PaceMessage {
  kind: "pace";
  speed: number | null;
  is_paused: boolean;
}

export interface Sample {
  kind: "sample";
  time_s: number;
  values: Record<string, Record<string, number>>;
}

/** A subflow that is new, or whose path is known now. */
export interface SubflowMessage {
  kind: "subflow";
  entity: string;
  flow: string;
  label: string;
  link: string | null;
  colour: number;
  interface: string | null;
}

export interface Action {
  kind: string;
  link?: string;
  interface?: string;
  forward?: { rate_bps: number | null; delay_ns: number; loss: { kind: string; probability?: number } };
  mean_mdb?: number;
}

export interface EventMessage {
  kind: "event";
  number: number;
  id: string;
  at_s: number;
  is_by_hand: boolean;
  action: Action | null;
  text: string;
}

/** A sentence for the log about something that is no event of the description. */
export interface NoteMessage {
  kind: "note";
  at_s: number;
  text: string;
}

/** The strategy that recovers the network from now on. */
export interface StrategyMessage {
  kind: "strategy";
  name: string;
  at_s: number;
  is_by_hand: boolean;
}

export interface EndMessage {
  kind: "end";
  status: string;
  why: string | null;
  bundle: string;
}

export type Message = RunMessage | PaceMessage | Sample | SubflowMessage | EventMessage | NoteMessage | StrategyMessage | EndMessage;

export const DIRECTIONS = ["forward", "backward"] as const;

/** How fast counters grow, from one sample to the next, per second. */
export class Rates {
  #before: Sample | null = null;

  /** Returns the rate of a counter of an entity in a sample, 0 for a new one; null before the second sample. */
  of(sample: Sample, entity: string, metric: string): number | null {
    if (this.#before === null) return null;
    const now = sample.values[entity]?.[metric] ?? 0;
    const before = this.#before.values[entity]?.[metric] ?? 0;
    return Math.max(0, now - before) / (sample.time_s - this.#before.time_s);
  }

  /** As `of`, of both directions of a link. */
  ofLink(sample: Sample, link: string, metric: string): [number | null, number | null] {
    const [forward, backward] = DIRECTIONS;
    return [this.of(sample, `links.${link}.${forward}`, metric), this.of(sample, `links.${link}.${backward}`, metric)];
  }

  /**
   * The part of the time in percent that a wireless link is on the air; null for others. Directions share the channel of a
   * medium, and have channels of their own otherwise.
   */
  airPercent(sample: Sample, link: Link): number | null {
    if (sample.values[`links.${link.id}.forward`]?.air_time_s === undefined) return null;
    const [forward, backward] = this.ofLink(sample, link.id, "air_time_s").map((part) => 100 * (part ?? 0)) as [number, number];
    return link.medium === null ? Math.max(forward, backward) : forward + backward;
  }

  passed(sample: Sample): void {
    this.#before = sample;
  }
}

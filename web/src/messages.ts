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
  /** The mean signal of a Wi-Fi station at some times, between which it changes linearly; none of other links. */
  signal: { at_s: number; db: number }[];
  /** Whether it belongs to an access network, so that it occupies a channel for some time. */
  has_channel: boolean;
  /** Whether it is a network between machines, which is neither measured nor changed. */
  is_real: boolean;
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
  /** The counters of packets that a link did not deliver. */
  drops: string[];
  flows: Flow[];
  reroutes: Reroute[];
  /** How the network recovers from failures, null without controlled switches. */
  recovery: Recovery | null;
}

/** How a network recovers: the strategy at first, and those that a viewer can choose. */
export interface Recovery {
  strategy: string;
  /** Time after which a failure is known, null if switches report their ports. */
  detect_s: number | null;
  strategies: { name: string; does: string }[];
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
  forward?: DirectionSettings;
  backward?: DirectionSettings;
  mean_mdb?: number;
  strategy?: string;
}

export interface DirectionSettings {
  rate_bps: number | null;
  delay_ns: number;
  loss: { kind: string; probability?: number };
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

export interface EndMessage {
  kind: "end";
  status: string;
  why: string | null;
  bundle: string;
}

export type Message = RunMessage | PaceMessage | Sample | SubflowMessage | EventMessage | NoteMessage | EndMessage;

/** Returns the mean signal of a link at a time in dB, null if it has none. */
export function signalAt({ signal }: Link, time_s: number): number | null {
  const next = signal.findIndex(({ at_s }) => at_s > time_s);
  const [from, to] = [signal.at(next < 0 ? -1 : Math.max(0, next - 1)), signal[next]];
  if (from === undefined) return null;
  if (to === undefined || from === to) return from.db;
  return from.db + ((to.db - from.db) * (time_s - from.at_s)) / (to.at_s - from.at_s);
}

export const DIRECTIONS = ["forward", "backward"] as const;

/** The values before the first sample: counters start at 0. */
export const START: Sample = { kind: "sample", time_s: 0, values: {} };

/** The time from one sample to the next, in which counters grow. */
export class Interval {
  constructor(
    readonly before: Sample,
    readonly now: Sample,
  ) {}

  get from_s(): number {
    return this.before.time_s;
  }

  get to_s(): number {
    return this.now.time_s;
  }

  /** Returns the value of a metric at the end. */
  valueOf(entity: string, metric: string): number | undefined {
    return this.now.values[entity]?.[metric];
  }

  /** Returns by how much a counter grows per second. */
  rateOf(entity: string, metric: string): number {
    const growth = (this.valueOf(entity, metric) ?? 0) - (this.before.values[entity]?.[metric] ?? 0);
    return Math.max(0, growth) / (this.to_s - this.from_s);
  }

  /** As `rateOf`, of both directions of a link. */
  ratesOfLink(link: string, metric: string): [number, number] {
    const [forward, backward] = DIRECTIONS;
    return [this.rateOf(`links.${link}.${forward}`, metric), this.rateOf(`links.${link}.${backward}`, metric)];
  }

  /**
   * Returns the part of the time in percent that a wireless link is on the air; null for others. Directions share the channel
   * of a medium, and have channels of their own otherwise.
   */
  airPercent(link: Link): number | null {
    if (this.valueOf(`links.${link.id}.forward`, "air_time_s") === undefined) return null;
    const [forward, backward] = this.ratesOfLink(link.id, "air_time_s");
    return 100 * (link.medium === null ? Math.max(forward, backward) : forward + backward);
  }
}

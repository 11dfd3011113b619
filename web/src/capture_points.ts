// The points of a connection, as mptcplab.report.capture_points packs them.

interface Column {
  start: number;
  width: number;
  unit: number;
}

export type PackedSeries = Record<string, Record<string, { points: number; columns: Record<string, Column> }>>;

interface Timed {
  points: number;
  time_s: Float64Array;
}

export interface Segments extends Timed {
  subflow: Float64Array;
  kind: Float64Array;
  packet: Float64Array;
  data: Float64Array;
  payload_bytes: Float64Array;
  unacknowledged_bytes: Float64Array;
}

export interface Acknowledged extends Timed {
  data_ack: Float64Array;
}

export interface RoundTripPoints extends Timed {
  subflow: Float64Array;
  rtt_s: Float64Array;
}

export interface DataRoundTrips extends Timed {
  data_rtt_s: Float64Array;
}

export interface Windows extends Timed {
  window_bytes: Float64Array;
}

export interface InFlight extends Timed {
  bytes: Float64Array;
}

/** What a capture tells of one sender. */
export interface Points {
  segments: Segments;
  acknowledged: Acknowledged;
  round_trips: RoundTripPoints;
  data_round_trips: DataRoundTrips;
  windows: Windows;
}

/** By sender and name of the series: its columns, typed arrays of one length. Unknown values are NaN. */
export async function unpackPoints(series: PackedSeries, text: string): Promise<Record<string, Points>> {
  const packed = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new DecompressionStream("deflate");
  const writer = stream.writable.getWriter();
  const unpacked = new Response(stream.readable).arrayBuffer();
  const [buffer] = await Promise.all([unpacked, writer.write(packed), writer.close()]);
  const bytes = new Uint8Array(buffer);
  return mapValues(series, (ofSender) =>
    mapValues(ofSender, ({ points, columns }) => {
      return { points, ...mapValues(columns, (column) => unpackColumn(bytes, points, column)) };
    }),
  ) as unknown as Record<string, Points>;
}

/** Sums differences that are stored by bytes, the lowest of all of them first. */
function mapValues<From, To>(object: Record<string, From>, of: (value: From) => To): Record<string, To> {
  return Object.fromEntries(Object.entries(object).map(([key, value]) => [key, of(value)]));
}

function unpackColumn(bytes: Uint8Array, points: number, { start, width, unit }: Column): Float64Array {
  const values = new Float64Array(points);
  const unknown = 2 ** (8 * width) - 1;
  let sum = 0;
  for (let i = 0; i < points; i++) {
    let difference = 0;
    for (let byte = 0; byte < width; byte++) difference |= bytes[start + byte * points + i]! << (8 * byte);
    sum = ((sum + difference) & unknown) >>> 0;
    values[i] = sum === unknown ? NaN : sum * unit;
  }
  return values;
}

/** Data in flight: what was sent at most, less what is acknowledged, after each segment and each acknowledgment. */
export function dataUnderWay(segments: Segments, acknowledged: Acknowledged): InFlight {
  const time_s = new Float64Array(segments.points + acknowledged.points);
  const bytes = new Float64Array(time_s.length);
  let [sent, known] = [0, 0];
  let [segment, answer] = [0, 0];
  for (let i = 0; i < time_s.length; i++) {
    const sends = answer === acknowledged.points || segments.time_s[segment]! <= acknowledged.time_s[answer]!;
    if (sends) {
      const end = segments.data[segment]! + segments.payload_bytes[segment]!;
      if (end > sent) sent = end;
      time_s[i] = segments.time_s[segment++]!;
    } else {
      known = Math.max(known, acknowledged.data_ack[answer]!);
      time_s[i] = acknowledged.time_s[answer++]!;
    }
    bytes[i] = Math.max(0, sent - known);
  }
  return { points: time_s.length, time_s, bytes };
}

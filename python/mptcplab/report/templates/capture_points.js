// The points of a connection, as mptcplab.report.capture_points packs them.

/** By sender and name of the series: its columns, typed arrays of one length. Unknown values are NaN. */
async function unpackPoints(series, text) {
  const packed = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new DecompressionStream("deflate");
  const writer = stream.writable.getWriter();
  const unpacked = new Response(stream.readable).arrayBuffer();
  const [buffer] = await Promise.all([unpacked, writer.write(packed), writer.close()]);
  const bytes = new Uint8Array(buffer);
  const mapValues = (object, of) => Object.fromEntries(Object.entries(object).map(([key, value]) => [key, of(value)]));
  return mapValues(series, (ofSender) =>
    mapValues(ofSender, ({ points, columns }) => {
      return { points, ...mapValues(columns, (column) => unpackColumn(bytes, points, column)) };
    }),
  );
}

/** Sums differences that are stored by bytes, the lowest of all of them first. */
function unpackColumn(bytes, points, { start, width, unit }) {
  const values = new Float64Array(points);
  const unknown = 2 ** (8 * width) - 1;
  let sum = 0;
  for (let i = 0; i < points; i++) {
    let difference = 0;
    for (let byte = 0; byte < width; byte++) difference |= bytes[start + byte * points + i] << (8 * byte);
    sum = ((sum + difference) & unknown) >>> 0;
    values[i] = sum === unknown ? NaN : sum * unit;
  }
  return values;
}

/** Data in flight: what was sent at most, less what is acknowledged, after each segment and each acknowledgment. */
function dataUnderWay(segments, acknowledged) {
  const time_s = new Float64Array(segments.points + acknowledged.points);
  const bytes = new Float64Array(time_s.length);
  let [sent, known] = [0, 0];
  let [segment, answer] = [0, 0];
  for (let i = 0; i < time_s.length; i++) {
    const sends = answer === acknowledged.points || segments.time_s[segment] <= acknowledged.time_s[answer];
    if (sends) {
      const end = segments.data[segment] + segments.payload_bytes[segment];
      if (end > sent) sent = end;
      time_s[i] = segments.time_s[segment++];
    } else {
      known = Math.max(known, acknowledged.data_ack[answer]);
      time_s[i] = acknowledged.time_s[answer++];
    }
    bytes[i] = Math.max(0, sent - known);
  }
  return { points: time_s.length, time_s, bytes };
}

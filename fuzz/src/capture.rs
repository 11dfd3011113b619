//! Fuzz target: any bytes as a capture file. The file is read to the end, and its counts must
//! agree.

use std::io::Cursor;
use std::path::Path;

use capture::CaptureReader;
use capture::analysis::{Analysis, ConnectionSummary, Side};

/// Reads `bytes` as a capture file.
pub fn capture(bytes: &[u8]) {
    let Ok(mut reader) = CaptureReader::of(Path::new("input"), Cursor::new(bytes.to_vec())) else {
        return;
    };
    let mut analysis = Analysis::new();
    loop {
        let read = reader.read(|frame| {
            analysis.frame(frame.number, &frame);
        });
        if !matches!(read, Ok(Some(()))) {
            break;
        }
    }
    let summary = analysis.summary();
    let subflows = summary.connections.iter().map(|one| one.subflows.len());
    assert!(subflows.sum::<usize>() as u64 <= summary.frames.tcp);
    summary.connections.iter().for_each(agrees);
}

fn agrees(connection: &ConnectionSummary) {
    for side in [Side::Client, Side::Server] {
        let data = match side {
            Side::Client => &connection.data.client,
            Side::Server => &connection.data.server,
        };
        let counts = connection.subflows.iter().map(|subflow| match side {
            Side::Client => subflow.directions.client.counts,
            Side::Server => subflow.directions.server.counts,
        });
        let (mut payload, mut unmapped) = (0, 0);
        for counts in counts {
            assert!(counts.retransmitted_bytes <= counts.bytes);
            payload += counts.bytes;
            unmapped += counts.unmapped_bytes;
        }
        let reinjected = data.reinjected;
        assert!(reinjected.useful_bytes + reinjected.redundant_bytes <= reinjected.bytes);
        // Data first counted as plain TCP is counted anew once the connection has data sequence
        // signals.
        assert!(data.bytes + unmapped <= payload);
    }
}

//! The application on the kernel's side: a Python program.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{ChildStdout, Stdio};
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;

use mptcp::payload::Payload;
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use crate::namespace::{Namespace, Program};

/// The orders for the program. Addresses are in the form of Python's `socket`.
#[derive(Serialize)]
struct Order<'a> {
    local: (String, u16),
    /// The address to connect to; without it, the program listens.
    remote: Option<(String, u16)>,
    sends: &'a Path,
    expects: &'a Path,
    sends_last: bool,
    rests: bool,
    aborts_after: Option<u64>,
    takes_changed: bool,
}

/// The behaviour of the program besides sending and receiving.
#[derive(Clone, Copy, Default)]
pub struct Manner {
    /// It sends only after the other byte stream has ended.
    pub sends_last: bool,
    /// It pauses after its first bytes, because the kernel neither opens nor accepts subflows after
    /// its byte stream has ended, which is soon.
    pub rests: bool,
    /// It resets the connection when it has received this many bytes.
    pub aborts_after: Option<u64>,
    /// It does not compare the bytes that it receives.
    pub takes_changed: bool,
}

/// The reports of the program.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Report {
    /// It accepts connections.
    Listening,
    /// It has a connection.
    Connected,
    /// Its connection has ended.
    Ended {
        sent: u64,
        received: u64,
        /// The kernel's error, or what was wrong with the bytes.
        error: Option<String>,
    },
}

/// A running peer.
pub struct Peer {
    _program: Program,
    reports: Receiver<Report>,
    /// Its reports, in order.
    pub said: Vec<Report>,
    _files: [NamedTempFile; 2],
}

impl Peer {
    /// Starts the program, to send and to expect these byte streams.
    pub fn start(
        namespace: &Namespace,
        local: SocketAddr,
        remote: Option<SocketAddr>,
        manner: Manner,
        streams: [&Payload; 2],
    ) -> Self {
        let files = streams.map(in_file);
        let order = Order {
            local: of_python(local),
            remote: remote.map(of_python),
            sends: files[0].path(),
            expects: files[1].path(),
            sends_last: manner.sends_last,
            rests: manner.rests,
            aborts_after: manner.aborts_after,
            takes_changed: manner.takes_changed,
        };
        let mut child = namespace
            .command("python3")
            .args(["-c", include_str!("peer.py")])
            .arg(serde_json::to_string(&order).unwrap())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let reports = reports_of(child.stdout.take().unwrap());
        Self {
            _program: Program(child),
            reports,
            said: Vec::new(),
            _files: files,
        }
    }

    /// Reads the new reports. A peer that died without its last report fails the test.
    pub fn listen(&mut self) {
        loop {
            match self.reports.try_recv() {
                Ok(report) => self.said.push(report),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => {
                    let last = self.said.last();
                    let has_ended = matches!(last, Some(Report::Ended { .. }));
                    assert!(has_ended, "the peer died; its last word was {last:?}");
                    return;
                }
            }
        }
    }
}

fn of_python(address: SocketAddr) -> (String, u16) {
    (address.ip().to_string(), address.port())
}

fn in_file(stream: &Payload) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    stream.for_each_chunk(|chunk| file.write_all(chunk).unwrap());
    file
}

fn reports_of(stdout: ChildStdout) -> Receiver<Report> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let report = serde_json::from_str(&line).expect("a report");
            if sender.send(report).is_err() {
                return;
            }
        }
    });
    receiver
}

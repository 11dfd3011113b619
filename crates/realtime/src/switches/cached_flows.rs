//! The flows that Open vSwitch has cached. It forwards by them, and compares them with the tables
//! after a table has changed, but not within 5 ms of the comparison before (`udpif_revalidator` in
//! `ofproto-dpif-upcall.c`). An outage changes the tables of two switches one after the other, so
//! the second change would wait for these 5 ms.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::LiveError;

/// Removes all cached flows and counts their packets (ovs-vswitchd(8)); the parameters of a request
/// follow JSON-RPC 1.0.
const PURGE: &[u8] = br#"{"id":0,"method":"revalidator/purge","params":[]}"#;
/// The longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// A connection to the switch daemon.
#[derive(Debug)]
pub(super) struct CachedFlows {
    stream: UnixStream,
}

impl CachedFlows {
    /// Connects to the socket for commands of the switch daemon.
    ///
    /// # Errors
    /// The daemon does not listen.
    pub(super) fn open(socket: &Path) -> Result<Self, LiveError> {
        let open = || {
            let stream = UnixStream::connect(socket)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            Ok(Self { stream })
        };
        let doing = format!("connecting to {}", socket.display());
        open().map_err(LiveError::while_::<io::Error>(doing))
    }

    /// Removes all, so that the next packets are looked up in the tables. Waits until it is done.
    ///
    /// # Errors
    /// The daemon refuses, or does not answer.
    pub(super) fn remove(&mut self) -> Result<(), LiveError> {
        let doing = "removing the cached flows of Open vSwitch";
        let answer = self.ask().map_err(LiveError::while_::<io::Error>(doing))?;
        match &answer["error"] {
            serde_json::Value::Null => Ok(()),
            error => Err(LiveError::Failed(format!("{doing}: {error}"))),
        }
    }

    fn ask(&mut self) -> io::Result<serde_json::Value> {
        self.stream.write_all(PURGE)?;
        let (mut answer, mut piece) = (Vec::new(), [0; 512]);
        loop {
            let length = self.stream.read(&mut piece)?;
            if length == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            answer.extend(&piece[..length]);
            // An answer ends with its last bracket.
            match serde_json::from_slice(&answer) {
                Err(error) if error.is_eof() => {}
                whole => return whole.map_err(io::Error::from),
            }
        }
    }
}

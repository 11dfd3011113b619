//! `passive`: opens nothing, announces nothing, and takes what the peer opens.

use super::subflows::Subflows;
use super::{Command, Connection, Event, Nanos, PathManager};

/// The out-of-tree kernel's default.
#[derive(Clone, Debug)]
pub struct Passive {
    subflows: Subflows,
}

impl Passive {
    /// For a new connection.
    pub fn new(connection: &Connection) -> Self {
        let subflows = Subflows::new(connection);
        Self { subflows }
    }
}

impl PathManager for Passive {
    fn handle(&mut self, _now: Nanos, event: &Event, commands: &mut Vec<Command>) {
        self.subflows.handle(event, commands);
    }
}

//! `passive`: opens and announces nothing, and accepts subflows that the peer opens.

use super::Entry;
use super::subflows::Subflows;
use super::{Command, Connection, Event, Nanos, PathManager};
use crate::algorithm::Description;

/// Its name, parameters and constructor.
pub(super) const ROW: Entry = Entry {
    description: Description {
        name: "passive",
        aliases: &["default"],
        summary: "Opens no subflows, and accepts those that the peer opens",
        source: "mptcplab",
        parameters: &[],
    },
    make: |connection, _| Box::new(Passive::new(connection)),
};

/// The path manager `passive`: neither opens subflows nor announces addresses, like the default
/// path manager of the out-of-tree kernel.
#[derive(Clone, Debug)]
pub struct Passive {
    subflows: Subflows,
}

impl Passive {
    /// Creates the policy for the new connection `connection`.
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

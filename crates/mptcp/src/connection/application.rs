//! What an application may change while its connection runs (RFC 6897, section 5, and the options of TCP sockets).

use std::sync::Arc;

use super::{Buffer, Connection, Event};
use crate::sched::Scheduler;

impl Connection {
    /// Another scheduler decides from now on. What was assigned to subflows stays there.
    pub fn set_scheduler(&mut self, scheduler: Box<dyn Scheduler>) {
        self.scheduler = scheduler;
        self.is_schedulable = true;
    }

    /// Asks the peer not to send on a subflow while others work (MP_PRIO; RFC 8684, section 3.3.8), and does not do so itself;
    /// or takes that back. Whether there is such a subflow, by its [number](super::SubflowState::id).
    pub fn set_backup(&mut self, subflow: u32, backup: bool) -> bool {
        let path = self.paths.iter().find(|path| path.id == subflow);
        let Some(four) = path.map(|path| path.four) else {
            return false;
        };
        self.say_backup(four, backup);
        self.is_schedulable = true;
        true
    }

    /// The send buffer has this size from now on; a smaller one takes nothing until it has been emptied so far.
    pub fn set_send_buffer(&mut self, bytes: u64) {
        let was_full = self.send.free_bytes() == 0;
        self.send.resize(Buffer::Fixed(bytes));
        if was_full && self.send.free_bytes() > 0 {
            self.events.push_back(Event::Writable);
        }
    }

    /// Whether short segments wait for more data, on all subflows ([`subflow::Config::nagle`](crate::subflow::Config::nagle)).
    pub fn set_nagle(&mut self, on: bool) {
        let config = Arc::make_mut(&mut self.config);
        Arc::make_mut(&mut config.subflow).nagle = on;
        for (path, _) in self.paths.iter_mut() {
            path.subflow.set_nagle(on);
        }
    }
}

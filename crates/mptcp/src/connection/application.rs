//! Settings that an application may change while the connection runs (RFC 6897, section 5, and the
//! options of TCP sockets).

use std::sync::Arc;

use super::{Buffer, Connection, Event};
use crate::sched::Scheduler;

impl Connection {
    /// Replaces the scheduler by `scheduler`. Data already assigned to subflows stays there.
    pub fn set_scheduler(&mut self, scheduler: Box<dyn Scheduler>) {
        self.scheduler = scheduler;
        self.is_schedulable = true;
    }

    /// Sets (`backup` is true) or clears the backup priority of the subflow with the
    /// [number](super::SubflowState::id) `subflow`, and reports the change to the peer with MP_PRIO
    /// (RFC 8684, section 3.3.8). While other subflows work, neither host sends data on a backup
    /// subflow. Returns false if the connection has no such subflow.
    pub fn set_backup(&mut self, subflow: u32, backup: bool) -> bool {
        let context = self.subflows.iter().find(|context| context.id == subflow);
        let Some(four) = context.map(|context| context.four) else {
            return false;
        };
        self.queue_priority(four, backup);
        self.is_schedulable = true;
        true
    }

    /// Sets the size of the send buffer to `bytes`, and stops its automatic growth. If the buffer
    /// holds more data than that, it accepts no data until the surplus is acknowledged.
    pub fn set_send_buffer(&mut self, bytes: u64) {
        let was_full = self.send.free_bytes() == 0;
        self.send.resize(Buffer::Fixed(bytes));
        if was_full && self.send.free_bytes() > 0 {
            self.events.push_back(Event::Writable);
        }
    }

    /// Sets whether short segments wait for more data (the Nagle algorithm), on all present and
    /// future subflows ([`subflow::Config::nagle`](crate::subflow::Config::nagle)).
    pub fn set_nagle(&mut self, on: bool) {
        let config = Arc::make_mut(&mut self.config);
        Arc::make_mut(&mut config.subflow).nagle = on;
        for (context, _) in self.subflows.iter_mut() {
            context.tcp.set_nagle(on);
        }
    }
}

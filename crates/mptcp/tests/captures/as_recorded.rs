//! A path manager, a scheduler and a generator that repeat what one host did in a capture.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};

use mptcp::pm::{AddressPair, Command, Event, FourTuple, PathManager};
use mptcp::sched::{Decision, Reason, Scheduler, View};
use mptcp::time::Nanos;
use mptcp::wire::{AddressId, Join, MptcpOption};
use rand_core::TryRng;

use crate::recording::{Recorded, Recording, Side};

/// An act of a path manager. A subflow is identified by its addresses, because its port may differ
/// now.
#[derive(Clone, Debug)]
enum Deed {
    Open {
        local: IpAddr,
        local_id: AddressId,
        remote: SocketAddr,
        backup: bool,
    },
    Announce {
        id: AddressId,
        address: IpAddr,
        port: Option<u16>,
    },
    SetBackup(AddressPair, bool),
}

/// The path manager: carries out each act at its time.
#[derive(Debug)]
pub struct Paths {
    deeds: VecDeque<(Nanos, Deed)>,
    subflows: Vec<FourTuple>,
}

impl Paths {
    pub fn new(recording: &Recording, side: Side) -> Self {
        let deeds = recording.options(side).filter_map(|(recorded, option)| {
            Some((recorded.at, deed(recording, recorded, option)?))
        });
        Self {
            deeds: deeds.collect(),
            subflows: Vec::new(),
        }
    }

    fn subflow(&self, pair: AddressPair) -> FourTuple {
        let found = self.subflows.iter().find(|four| four.pair() == pair);
        *found.expect("the subflow has been established")
    }

    fn command(&self, deed: Deed) -> Command {
        match deed {
            Deed::Open {
                local,
                local_id,
                remote,
                backup,
            } => Command::OpenSubflow {
                local,
                local_id,
                remote,
                backup,
                via: Vec::new(),
            },
            Deed::Announce { id, address, port } => Command::Announce { id, address, port },
            Deed::SetBackup(pair, backup) => Command::SetBackup {
                subflow: self.subflow(pair),
                backup,
            },
        }
    }
}

/// Returns the act that made the host send this option.
fn deed(recording: &Recording, recorded: &Recorded, option: &MptcpOption) -> Option<Deed> {
    let ends = recording.subflows[recorded.subflow].ends;
    let side = recorded.sender;
    match option {
        MptcpOption::Join(Join::Syn {
            backup, address_id, ..
        }) => Some(Deed::Open {
            local: ends[side as usize].ip(),
            local_id: *address_id,
            remote: ends[side.other() as usize],
            backup: *backup,
        }),
        MptcpOption::AddAddress(announced) if announced.truncated_hmac.is_some() => {
            Some(Deed::Announce {
                id: announced.id,
                address: announced.address,
                port: announced.port,
            })
        }
        MptcpOption::Priority { backup } => {
            let pair = recording.subflows[recorded.subflow].pair(side);
            Some(Deed::SetBackup(pair, *backup))
        }
        _ => None,
    }
}

impl PathManager for Paths {
    fn handle(&mut self, _now: Nanos, event: &Event, _commands: &mut Vec<Command>) {
        if let Event::SubflowEstablished { subflow, .. } = event {
            self.subflows.push(*subflow);
        }
    }

    fn poll_timeout(&self) -> Option<Nanos> {
        self.deeds.front().map(|(at, _)| *at)
    }

    fn handle_timeout(&mut self, now: Nanos, commands: &mut Vec<Command>) {
        while self.deeds.front().is_some_and(|(at, _)| *at <= now) {
            let (_, deed) = self.deeds.pop_front().expect("there is one");
            commands.push(self.command(deed));
        }
    }
}

/// The scheduler: assigns each byte to the subflow that carried it first.
#[derive(Debug)]
pub struct Schedule {
    /// Start, end, subflow.
    ranges: Vec<(u64, u64, usize)>,
}

impl Schedule {
    pub fn new(recording: &Recording, side: Side) -> Self {
        Self {
            ranges: recording.ranges(side),
        }
    }
}

impl Scheduler for Schedule {
    fn next(&mut self, view: &View<'_>) -> Decision {
        if view.reason != Reason::NewData {
            return Decision::Wait;
        }
        let next = view.head.start;
        let mut ranges = self.ranges.iter();
        let (_, end, subflow) = *ranges
            .find(|(start, end, _)| (*start..*end).contains(&next))
            .expect("no more is written than was sent");
        Decision::Assign {
            subflow,
            bytes: (end - next) as u32,
        }
    }
}

/// The generator: draws the key, then for each subflow its initial sequence number and, for joins,
/// the nonce.
pub struct Draws {
    key: u64,
    numbers: VecDeque<u32>,
}

impl Draws {
    pub fn new(recording: &Recording, side: Side) -> Self {
        let of_each = recording
            .subflows
            .iter()
            .enumerate()
            .flat_map(|(number, subflow)| {
                let nonce = (number > 0).then_some(subflow.nonces[side as usize]);
                [Some(subflow.isn[side as usize].0), nonce]
            });
        Self {
            key: recording.keys(side).local,
            numbers: of_each.flatten().collect(),
        }
    }
}

impl TryRng for Draws {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(self
            .numbers
            .pop_front()
            .expect("no more is drawn than was recorded"))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.key)
    }

    fn try_fill_bytes(&mut self, _to: &mut [u8]) -> Result<(), Infallible> {
        unreachable!("the engine draws numbers")
    }
}

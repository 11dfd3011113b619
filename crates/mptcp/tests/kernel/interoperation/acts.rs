//! What happens in a cell of the matrix, and what the kernel counts.

use mptcp::connection::{Buffer, Connection, Event};
use mptcp::payload::Payload;
use mptcp::subflow::CloseReason;
use mptcp::wire::{Flags, MptcpOptions};

use super::{Setting, endpoint_id};
use crate::interference::lose_numbered;
use crate::joins::joined;
use crate::judge::{Judge, Opener, Trial};
use crate::middleboxes::{Middlebox, rewrite};
use crate::path::End;
use crate::peer::Report;

/// Something that happens while both byte streams pass.
pub struct Act {
    pub name: &'static str,
    /// Returns whether it can happen in a setting.
    pub fits: fn(&Setting) -> bool,
    /// Prepares the trial before the start.
    pub prepare: fn(&mut Trial),
    /// Adds middleboxes from the start.
    pub interfere: fn(&mut Judge),
    /// Subflows besides the initial one at the start, if not one for each other path.
    pub joins: Option<usize>,
    /// Acts once the subflows are established.
    pub happen: fn(&mut Judge),
    /// Ends the connection.
    pub end: fn(&mut Judge),
    /// Counters that the kernel must have increased.
    pub counted: &'static [&'static str],
    /// Counters of trouble that the kernel may increase here.
    pub allowed: &'static [&'static str],
}

/// Both byte streams and nothing else.
const NOTHING: Act = Act {
    name: "both streams",
    fits: |_| true,
    prepare: |_| (),
    interfere: |_| (),
    joins: None,
    happen: |_| (),
    end: Judge::run_to_the_end,
    counted: &[],
    allowed: &[],
};

/// Counters of a reset subflow. It is opened again, but the kernel may be too near its end for
/// that.
const RESETS: &[&str] = &["MPRstTx", "MPRstRx", "MPJoinRejected"];

/// Packets with data that pass before a subflow is reset.
const HEALTHY_PACKETS: usize = 5;

/// The most bytes in flight where the kernel would otherwise have a full window out of order, with
/// which it stalls.
const SMALL_BUFFER: Buffer = Buffer::Fixed(1 << 19);

const CUT: u64 = 300_000_000;

pub const ACTS: [Act; 27] = [
    NOTHING,
    Act {
        name: "the kernel announces an address",
        fits: |it| it.we_open() && it.subflows > 1,
        prepare: |trial| signal(trial, ""),
        counted: &["AddAddrTx", "EchoAdd"],
        ..NOTHING
    },
    Act {
        name: "the kernel announces an address with a port",
        // With IPv6 the kernel has no room for the port beside timestamps.
        fits: |it| it.we_open() && it.subflows == 2 && it.is_ipv4_only(),
        prepare: |trial| {
            trial.stack.path_manager = "kernel_endpoints";
            signal(trial, "port 5002");
        },
        counted: &["AddAddrTx", "EchoAdd", "MPJoinPortAckRx"],
        ..NOTHING
    },
    Act {
        name: "we announce an address",
        fits: |it| !it.we_open() && it.subflows == 2,
        prepare: |trial| trial.kernel_endpoints.clear(),
        interfere: |judge| judge.set_address(2, false),
        joins: Some(0),
        happen: |judge| {
            judge.set_address(2, true);
            judge.run_until(|judge| joined(judge) == 1);
        },
        counted: &["AddAddr", "EchoAddTx", "MPJoinSynTx", "MPJoinSynAckRx"],
        ..NOTHING
    },
    Act {
        name: "the kernel removes an address",
        fits: |it| it.subflows > 1,
        prepare: |trial| {
            if trial.opener == Opener::Engine {
                signal(trial, "");
            }
        },
        happen: |judge| {
            let id = endpoint_id(2);
            judge
                .namespace
                .ip(&format!("mptcp endpoint delete id {id}"));
            loses_a_subflow(judge);
        },
        counted: &["RmAddrTx"],
        allowed: RESETS,
        ..NOTHING
    },
    Act {
        name: "we remove an address",
        fits: |it| it.we_open() && it.subflows > 1,
        happen: |judge| {
            judge.set_address(2, false);
            loses_a_subflow(judge);
        },
        counted: &["RmAddr"],
        allowed: RESETS,
        ..NOTHING
    },
    Act {
        name: "the kernel makes a subflow backup",
        fits: |it| !it.we_open() && it.subflows > 1,
        happen: |judge| {
            let id = endpoint_id(2);
            judge
                .namespace
                .ip(&format!("mptcp endpoint change id {id} backup"));
            judge.run_until(has_backup);
        },
        counted: &["MPPrioTx"],
        ..NOTHING
    },
    Act {
        name: "we make a subflow backup",
        fits: |it| it.we_open() && it.subflows > 1,
        happen: |judge| {
            judge.set_backup(2, true);
            judge.run_until(|judge| judge.counter("MPPrioRx") > 0);
        },
        counted: &["MPPrioRx"],
        ..NOTHING
    },
    Act {
        name: "our stream ends before the other begins",
        prepare: |trial| trial.manner.sends_last = true,
        ..NOTHING
    },
    Act {
        name: "the kernel's stream ends before ours begins",
        interfere: |judge| judge.trial.upload = 0,
        happen: |judge| {
            judge.run_until(|judge| judge.events.contains(&Event::Finished));
            judge.trial.upload = judge.trial.download;
        },
        ..NOTHING
    },
    Act {
        name: "we open, write nothing and end our stream",
        // No subflow joins before there is a DSS.
        fits: |it| it.we_open() && it.subflows == 1,
        prepare: |trial| {
            trial.upload = 0;
            trial.manner.sends_last = true;
        },
        ..NOTHING
    },
    Act {
        name: "the kernel opens, writes nothing and ends its stream",
        fits: |it| !it.we_open() && it.subflows == 1,
        prepare: |trial| trial.download = 0,
        happen: |judge| judge.run_until(|judge| judge.events.contains(&Event::Finished)),
        ..NOTHING
    },
    Act {
        name: "we abort",
        happen: |judge| {
            judge.run_until(|judge| judge.peer.said.contains(&Report::Connected));
            judge.command(Connection::abort);
        },
        end: |judge| {
            judge.run_until(|judge| judge.peer_end().is_some());
            let Some(Report::Ended { error, .. }) = judge.peer_end() else {
                unreachable!("it has ended")
            };
            // A sender and a receiver get different errors for the same RST.
            assert!(matches!(error.as_deref(), Some("ECONNRESET" | "EPIPE")));
            assert_eq!(judge.closed(), Some(CloseReason::Aborted));
        },
        counted: &["MPFastcloseRx"],
        allowed: &["MPFastcloseRx", "MPRstTx", "MPRstRx"],
        ..NOTHING
    },
    Act {
        name: "the kernel aborts",
        prepare: |trial| trial.manner.aborts_after = Some(u64::from(trial.upload / 2)),
        end: |judge| {
            judge.run_until(|judge| judge.closed().is_some());
            assert_eq!(judge.closed(), Some(CloseReason::Reset));
        },
        counted: &["MPFastcloseTx"],
        allowed: &["MPFastcloseTx", "MPRstTx", "MPRstRx"],
        ..NOTHING
    },
    Act {
        name: "a reset comes from our side of a path",
        fits: |it| it.subflows > 1,
        interfere: |judge| judge.middleboxes.push(reset_from(End::Engine)),
        allowed: RESETS,
        ..NOTHING
    },
    Act {
        name: "a reset comes from the kernel's side of a path",
        fits: |it| it.subflows > 1,
        interfere: |judge| judge.middleboxes.push(reset_from(End::Kernel)),
        end: |judge| {
            judge.run_to_the_end();
            assert!(judge.events.iter().any(is_reset));
        },
        allowed: RESETS,
        ..NOTHING
    },
    Act {
        name: "the SYN is lost",
        interfere: |judge| loses_first_packet(judge, Opener::Engine),
        ..NOTHING
    },
    Act {
        name: "the SYN/ACK is lost",
        interfere: |judge| loses_first_packet(judge, Opener::Kernel),
        ..NOTHING
    },
    Act {
        name: "the third packet and the first data are lost",
        fits: Setting::we_open,
        interfere: |judge| judge.middleboxes.push(lose_numbered(0, End::Engine, 1..=2)),
        ..NOTHING
    },
    Act {
        name: "the SYN of a join is lost",
        fits: |it| it.subflows > 1,
        // The kernel accepts no joins after the end of its own byte stream.
        prepare: |trial| trial.manner.sends_last = true,
        interfere: |judge| {
            let from = opening_end(judge.trial.opener);
            judge.middleboxes.push(lose_numbered(1, from, 0..=0));
        },
        ..NOTHING
    },
    Act {
        name: "5 % of all packets are lost",
        prepare: |trial| trial.stack.config.send_buffer = SMALL_BUFFER,
        happen: |judge| judge.paths.iter_mut().for_each(|path| path.loss = 0.05),
        ..NOTHING
    },
    Act {
        name: "a path is cut for a while",
        prepare: |trial| trial.stack.config.send_buffer = SMALL_BUFFER,
        happen: |judge| {
            judge.paths[0].is_up = false;
            let until = judge.now() + CUT;
            judge.run_until(|judge| judge.now() > until);
            judge.paths[0].is_up = true;
        },
        ..NOTHING
    },
    Act {
        name: "the kernel sends by bbr",
        interfere: |judge| {
            judge
                .namespace
                .set("net.ipv4.tcp_congestion_control", "bbr")
        },
        ..NOTHING
    },
    Act {
        name: "the kernel sends by reno",
        interfere: |judge| {
            judge
                .namespace
                .set("net.ipv4.tcp_congestion_control", "reno")
        },
        ..NOTHING
    },
    Act {
        name: "the kernel answers with SYN cookies",
        fits: Setting::we_open,
        prepare: |trial| trial.kernel_uses_syn_cookies = true,
        end: |judge| {
            judge.run_to_the_end();
            assert!(judge.namespace.counters_of("TcpExt")["SyncookiesRecv"] > 0);
        },
        ..NOTHING
    },
    Act {
        name: "the kernel sets flag C",
        fits: |it| it.we_open() && it.subflows == 2,
        prepare: |trial| signal(trial, ""),
        interfere: |judge| {
            judge
                .namespace
                .set("net.mptcp.allow_join_initial_addr_port", 0);
        },
        end: |judge| {
            assert!(nobody_joined_the_first_address(judge));
            judge.run_to_the_end();
        },
        counted: &["AddAddrTx"],
        ..NOTHING
    },
    Act {
        name: "we set flag C",
        fits: |it| !it.we_open() && it.subflows == 2,
        prepare: |trial| trial.stack.config.allows_joins_to_initial = false,
        interfere: |judge| judge.set_address(2, false),
        joins: Some(0),
        happen: |judge| {
            judge.set_address(2, true);
            judge.run_until(|judge| joined(judge) > 0);
        },
        end: |judge| {
            assert!(nobody_joined_the_first_address(judge));
            judge.run_to_the_end();
        },
        counted: &["AddAddr"],
        ..NOTHING
    },
];

/// Makes the kernel announce its second address.
fn signal(trial: &mut Trial, words: &str) {
    let local = trial.address(2, End::Kernel);
    let id = endpoint_id(2);
    trial
        .kernel_endpoints
        .push(format!("{local} id {id} {words} signal"));
}

fn opening_end(opener: Opener) -> End {
    match opener {
        Opener::Engine => End::Engine,
        Opener::Kernel => End::Kernel,
    }
}

/// Loses the first packet of one end: the opener's is the SYN, the acceptor's the SYN/ACK.
fn loses_first_packet(judge: &mut Judge, of_opener: Opener) {
    let is_opener = judge.trial.opener == of_opener;
    let from = if is_opener { End::Engine } else { End::Kernel };
    judge.middleboxes.push(lose_numbered(0, from, 0..=0));
}

fn subflows(judge: &Judge) -> usize {
    judge.state().map_or(0, |state| state.subflows().count())
}

fn loses_a_subflow(judge: &mut Judge) {
    let before = judge.trial.paths;
    judge.run_until(|judge| subflows(judge) < before);
}

fn has_backup(judge: &Judge) -> bool {
    let mut subflows = judge.state().into_iter().flat_map(Connection::subflows);
    subflows.any(|subflow| subflow.is_backup)
}

/// Replaces a packet with data on the second path by an RST.
fn reset_from(from: End) -> Middlebox {
    let mut passed = 0;
    rewrite(move |place, packet| {
        let is_here = place.path == 1 && place.from == from as usize;
        passed += usize::from(is_here && !packet.segment.payload.is_empty());
        if is_here && passed == HEALTHY_PACKETS {
            passed += 1;
            packet.segment.flags = Flags::RST | Flags::ACK;
            packet.segment.payload = Payload::EMPTY;
            packet.segment.options.mptcp = MptcpOptions::default();
        }
    })
}

fn is_reset(event: &Event) -> bool {
    matches!(
        event,
        Event::SubflowClosed {
            reason: CloseReason::Reset,
            ..
        }
    )
}

fn nobody_joined_the_first_address(judge: &Judge) -> bool {
    let acceptor = match judge.trial.opener {
        Opener::Engine => End::Kernel,
        Opener::Kernel => End::Engine,
    };
    let first = judge.trial.address(1, acceptor);
    judge.events.iter().all(|event| match event {
        Event::SubflowEstablished { four, .. } => {
            four.local.ip() != first && four.remote.ip() != first
        }
        _ => true,
    })
}

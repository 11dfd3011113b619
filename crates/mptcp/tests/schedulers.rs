//! Invariants of every scheduler on any subflows, and the purpose of each.

mod views;

use std::collections::BTreeMap;

use mptcp::sched::{
    Decision, Entry, Parameters, Range, Reason, SCHEDULERS, Scheduler, SubflowView, View, by_name,
    names, penalized,
};
use mptcp::time::{MILLISECOND, SECOND};
use proptest::prelude::*;
use views::{MSS_BYTES, new_data, subflow};

/// More decisions than any of these connections has data for.
const ENDLESS: usize = 20_000;

/// A connection that carries out a scheduler's decisions.
#[derive(Clone, Debug)]
struct Connection {
    now: u64,
    subflows: Vec<SubflowView>,
    acked: u64,
    assigned: u64,
    written: u64,
    window: u64,
    /// The data that the scheduler is asked about, unless it is new.
    old: Option<(Reason, Range)>,
    /// Pieces of the byte stream, by subflow.
    carried: BTreeMap<u32, Vec<Range>>,
}

impl Connection {
    /// Creates a connection with `written` bytes to send, and a peer's window that takes all of
    /// them.
    fn new(subflows: Vec<SubflowView>, written: u64) -> Self {
        Self {
            now: SECOND,
            subflows,
            acked: 0,
            assigned: 0,
            written,
            window: 1 << 30,
            old: None,
            carried: BTreeMap::new(),
        }
    }

    fn view(&self) -> View<'_> {
        let (start, len) = (self.assigned, self.written - self.assigned);
        let outstanding = Range {
            start: self.acked,
            len: self.assigned - self.acked,
        };
        let (reason, head) = match self.old {
            Some(old) => old,
            None if len > 0 => (Reason::NewData, Range { start, len }),
            None => (Reason::NothingNew, outstanding),
        };
        View {
            now: self.now,
            reason,
            head,
            acked_bytes: self.acked,
            written_bytes: self.written,
            assigned_bytes: self.assigned,
            window_bytes: self.window,
            ..new_data(&self.subflows, 1)
        }
    }

    /// Returns whether there is data to schedule.
    fn asks(&self) -> bool {
        self.view().head.len > 0
    }

    /// Asks the scheduler until it waits. Returns the number of its decisions.
    fn run(&mut self, scheduler: &mut dyn Scheduler) -> usize {
        let mut decisions = 0;
        while self.asks() {
            let decision = scheduler.next(&self.view());
            if decision == Decision::Wait {
                break;
            }
            self.carry_out(decision);
            decisions += 1;
            assert!(decisions < ENDLESS, "it never waits");
        }
        decisions
    }

    fn carry_out(&mut self, decision: Decision) {
        match decision {
            Decision::Assign { subflow, bytes } => self.assign(subflow, u64::from(bytes)),
            Decision::AssignRange { subflow, range } => {
                assert!(range.start >= self.acked, "all of it is acknowledged");
                assert!(
                    range.start + range.len <= self.assigned,
                    "nobody has sent it"
                );
                self.put(subflow, range);
            }
            Decision::Penalize { subflow } => {
                let subflow = &mut self.subflows[subflow];
                let mss = subflow.mss_bytes;
                let before = (subflow.cwnd_bytes / mss, subflow.ssthresh_bytes / mss);
                subflow.cwnd_bytes = penalized(before.0, before.1).0 * mss;
            }
            Decision::Wait => {}
        }
    }

    fn assign(&mut self, subflow: usize, bytes: u64) {
        let View { reason, head, .. } = self.view();
        assert!(bytes <= head.len, "{bytes} of {}", head.len);
        let (start, len) = (head.start, bytes);
        self.put(subflow, Range { start, len });
        match reason {
            Reason::NewData => {
                self.assigned += bytes;
                assert!(
                    self.assigned <= self.acked + self.window,
                    "beyond the peer's window"
                );
            }
            Reason::Reinject | Reason::MetaTimeout => {
                let (start, len) = (head.start + bytes, head.len - bytes);
                self.old = Some((reason, Range { start, len }));
            }
            _ => self.subflows[subflow].has_carried_head = true,
        }
    }

    fn put(&mut self, index: usize, range: Range) {
        let subflow = &mut self.subflows[index];
        assert!(subflow.is_usable, "it is not usable");
        assert!(range.len > 0, "nothing is put on a subflow");
        subflow.queued_bytes += range.len as u32;
        subflow.unacked_bytes += range.len as u32;
        assert!(
            subflow.unacked_bytes <= subflow.buffer_bytes,
            "more than the buffer takes"
        );
        self.carried.entry(subflow.id).or_default().push(range);
    }

    /// Delivers everything on the subflows, without an acknowledgment of the connection.
    fn deliver(&mut self) {
        self.now += SECOND;
        for subflow in &mut self.subflows {
            subflow.sent_bytes += u64::from(subflow.unacked_bytes);
            (subflow.queued_bytes, subflow.unacked_bytes) = (0, 0);
            subflow.in_flight_bytes = 0;
        }
    }

    fn bytes_on(&self, id: u32) -> u64 {
        self.carried
            .get(&id)
            .map_or(0, |ranges| ranges.iter().map(|range| range.len).sum())
    }

    fn ids(&self) -> Vec<u32> {
        self.carried.keys().copied().collect()
    }
}

fn scheduler(name: &str) -> Box<dyn Scheduler> {
    by_name(name).expect("it is registered")(&Parameters::default())
}

fn with_window(id: u32, segments: u32) -> SubflowView {
    SubflowView {
        cwnd_bytes: segments * MSS_BYTES,
        ..subflow(id)
    }
}

prop_compose! {
    fn any_subflow()(
        is_usable in prop::bool::weighted(0.8),
        [is_backup, is_open, has_carried_head] in any::<[bool; 3]>(),
        [is_stale, in_loss] in [prop::bool::weighted(0.2), prop::bool::weighted(0.2)],
        srtt in prop_oneof![Just(0), 1..300 * MILLISECOND],
        rttvar in 0..50 * MILLISECOND,
        mss in 500..1500_u32,
        windows in (0..40_u32, 0..40_u32, 0..5_000_u32, 0..100_000_u32),
        pacing_rate in prop_oneof![Just(0.0), 1e3..1e8],
        (sent, resent) in (0..1_000_000_u64, 0..100_000_u64),
        missed_intervals in 0..4_u32,
    ) -> SubflowView {
        let (cwnd, in_flight, queued, buffer) = windows;
        SubflowView {
            is_usable,
            is_backup,
            is_stale,
            in_loss,
            is_open,
            srtt,
            rttvar,
            mss_bytes: mss,
            cwnd_bytes: (cwnd + 1) * mss,
            in_flight_bytes: in_flight * mss,
            queued_bytes: queued,
            unacked_bytes: in_flight * mss + queued,
            buffer_bytes: in_flight * mss + queued + buffer,
            pacing_rate,
            sent_bytes: sent + resent,
            resent_bytes: resent,
            missed_intervals,
            has_carried_head,
            ..subflow(0)
        }
    }
}

const OLD: [Reason; 4] = [
    Reason::Reinject,
    Reason::MetaTimeout,
    Reason::WindowBlocked,
    Reason::BufferBlocked,
];

prop_compose! {
    fn any_connection()(
        mut subflows in prop::collection::vec(any_subflow(), 0..6),
        (acked, outstanding, left, window) in (0..100_000_u64, 0..50_000_u64, 0..80_000_u64, 0..80_000_u64),
        reason in prop::option::of(prop::sample::select(&OLD)),
    ) -> Connection {
        (0..).zip(&mut subflows).for_each(|(id, subflow)| subflow.id = id);
        let assigned = acked + outstanding;
        let head = Range { start: acked, len: outstanding };
        Connection {
            acked,
            assigned,
            window: outstanding + window,
            old: reason.map(|reason| (reason, head)),
            ..Connection::new(subflows, assigned + left)
        }
    }
}

proptest! {
    #[test]
    fn nobody_gives_what_is_not_there_or_cannot_be_carried_and_all_wait_in_the_end(
        connection in any_connection(),
    ) {
        for Entry { description, make, .. } in SCHEDULERS {
            let name = description.name;
            let mut connection = connection.clone();
            let mut scheduler = make(&Parameters::default());
            for _ in 0..3 {
                connection.run(&mut *scheduler);
                connection.deliver();
            }
            for subflow in connection.subflows.iter().filter(|subflow| subflow.is_stale) {
                // Mainline reinjects on any idle subflow.
                let may = name == "kernel_default";
                prop_assert!(may || !connection.carried.contains_key(&subflow.id), "{name}");
            }
        }
    }

    #[test]
    fn only_the_kernels_own_puts_more_on_a_subflow_than_its_window_takes(
        connection in any_connection(),
    ) {
        for Entry { description, make, .. } in SCHEDULERS {
            let name = description.name;
            if name == "kernel_default" {
                continue;
            }
            let mut connection = connection.clone();
            let room = |subflow: &SubflowView| (subflow.id, u64::from(subflow.room_bytes()));
            let rooms: Vec<_> = connection.subflows.iter().map(room).collect();
            connection.run(&mut *make(&Parameters::default()));
            for (id, room) in rooms {
                prop_assert!(connection.bytes_on(id) <= room, "{name}");
            }
        }
    }

    #[test]
    fn a_lone_subflow_that_can_carry_something_does(
        mut subflow in any_subflow(),
        written in 1..100_000_u64,
    ) {
        (subflow.is_usable, subflow.is_stale, subflow.in_loss) = (true, false, false);
        subflow.pacing_rate += 1.0;
        prop_assume!(subflow.has_window());
        for Entry { description, make, .. } in SCHEDULERS {
            let name = description.name;
            let mut connection = Connection::new(vec![subflow.clone()], written);
            let decisions = connection.run(&mut *make(&Parameters::default()));
            prop_assert!(decisions > 0, "{name}");
        }
    }

    #[test]
    fn turns_are_fair(count in 1..6_u32, num_segments in 1..5_u32, segments in 1..200_u64) {
        let subflows = (0..count).map(|id| with_window(id, 1000)).collect();
        let mut connection = Connection::new(subflows, segments * u64::from(MSS_BYTES));
        let parameters = Parameters { num_segments, ..Parameters::default() };
        connection.run(&mut *by_name("round_robin").unwrap()(&parameters));
        let carried: Vec<_> = (0..count).map(|id| connection.bytes_on(id)).collect();
        let difference = carried.iter().max().unwrap() - carried.iter().min().unwrap();
        prop_assert!(difference <= u64::from(num_segments * MSS_BYTES), "{carried:?}");
        prop_assert_eq!(carried.iter().sum::<u64>(), connection.written);
    }

    #[test]
    fn weights_are_kept(weights in prop::collection::vec(1..9_u32, 1..5), segments in 1..200_u32) {
        let subflows = (0..).zip(&weights).map(|(id, _)| with_window(id, 1000)).collect();
        let mut connection = Connection::new(subflows, u64::from(segments * MSS_BYTES));
        let parameters = Parameters { weights: Some(weights.clone()), ..Parameters::default() };
        connection.run(&mut *by_name("weighted_round_robin").unwrap()(&parameters));
        let sum: u32 = weights.iter().sum();
        for (id, weight) in (0..).zip(&weights) {
            let due = f64::from(segments * weight) / f64::from(sum);
            let found = (connection.bytes_on(id) / u64::from(MSS_BYTES)) as f64;
            prop_assert!((found - due).abs() <= weights.len() as f64, "{found} of {due}");
        }
    }

    #[test]
    fn redundant_puts_everything_on_every_regular_subflow(
        windows in prop::collection::vec(1..20_u32, 1..5),
        written in 1..100_000_u64,
    ) {
        let mut subflows: Vec<_> = (0..).zip(&windows).map(|(id, &n)| with_window(id, n)).collect();
        subflows.push(SubflowView { is_backup: true, ..subflow(9) });
        let mut connection = Connection::new(subflows, written);
        let mut scheduler = scheduler("redundant");
        while connection.run(&mut *scheduler) > 0 {
            connection.deliver();
        }
        for (id, _) in (0..).zip(&windows) {
            let mut next = 0;
            for range in &connection.carried[&id] {
                prop_assert_eq!(range.start, next, "in order, and once");
                next += range.len;
            }
            prop_assert_eq!(next, written);
        }
        prop_assert!(!connection.carried.contains_key(&9));
    }
}

/// Returns the subflows that carry new data when it fills all of them. Subflow 1 is a backup.
fn used_beside_backup(name: &str, regular: SubflowView) -> Vec<u32> {
    let backup = SubflowView {
        is_backup: true,
        ..subflow(1)
    };
    let mut connection = Connection::new(vec![regular, backup], 1_000_000);
    connection.run(&mut *scheduler(name));
    connection.ids()
}

#[test]
fn backup_subflows_are_used_when_no_regular_one_may_be() {
    for name in names() {
        let stale = SubflowView {
            is_stale: true,
            ..subflow(0)
        };
        assert_eq!(used_beside_backup(name, stale), [1], "{name}");
    }
}

#[test]
fn busy_regular_subflows_are_waited_for_except_in_turns_that_ignore_backup() {
    let busy = SubflowView {
        in_flight_bytes: 10 * MSS_BYTES,
        unacked_bytes: 10 * MSS_BYTES,
        buffer_bytes: 10 * MSS_BYTES,
        ..subflow(0)
    };
    for name in names() {
        let expected: &[u32] = if name == "round_robin" { &[1] } else { &[] };
        assert_eq!(used_beside_backup(name, busy.clone()), expected, "{name}");
    }
}

#[test]
fn of_equal_subflows_the_order_decides() {
    use mptcp::sched::SubflowOrder::{NewestFirst, OldestFirst};
    for (order, expected) in [(OldestFirst, 0), (NewestFirst, 1)] {
        let parameters = Parameters {
            order,
            ..Parameters::default()
        };
        let mut connection = Connection::new(vec![subflow(0), subflow(1)], 100);
        connection.run(&mut *by_name("min_rtt").unwrap()(&parameters));
        assert_eq!(connection.ids(), [expected]);
    }
}

#[test]
fn a_window_below_a_segment_is_used_only_when_nothing_is_on_its_way() {
    for (acked, expected) in [(0, 0), (10_000, 500)] {
        let mut connection = Connection::new(vec![subflow(0)], 20_000);
        (connection.acked, connection.assigned) = (acked, 10_000);
        connection.window = 10_500 - acked;
        connection.run(&mut *scheduler("min_rtt"));
        assert_eq!(connection.assigned - 10_000, expected);
    }
}

/// Returns a fast free subflow 0 and a slow full subflow 1, which has the head of the byte stream.
fn blocked(reason: Reason) -> Connection {
    let slow = SubflowView {
        srtt: 100 * MILLISECOND,
        has_carried_head: true,
        in_flight_bytes: 10 * MSS_BYTES,
        unacked_bytes: 10 * MSS_BYTES,
        ..subflow(1)
    };
    let mut connection = Connection::new(vec![subflow(0), slow], 1_000_000);
    connection.assigned = u64::from(10 * MSS_BYTES);
    let head = Range {
        start: 0,
        len: connection.assigned,
    };
    connection.old = Some((reason, head));
    connection
}

#[test]
fn what_blocks_a_window_goes_over_the_fast_subflow_once_and_the_slow_one_is_halved() {
    for reason in [Reason::WindowBlocked, Reason::BufferBlocked] {
        for name in ["min_rtt", "blest", "ecf", "blest-oot", "ecf-oot"] {
            let mut connection = blocked(reason);
            connection.run(&mut *scheduler(name));
            assert_eq!(connection.subflows[1].cwnd_bytes, 5 * MSS_BYTES, "{name}");
            assert_eq!(connection.bytes_on(0), u64::from(MSS_BYTES), "{name}");
        }
    }
}

#[test]
fn a_second_penalty_takes_a_round_trip_of_the_fast_subflow() {
    let mut connection = blocked(Reason::WindowBlocked);
    let mut scheduler = scheduler("min_rtt");
    for (wait, expected) in [(0, 5), (19 * MILLISECOND, 5), (MILLISECOND, 2)] {
        connection.now += wait;
        connection.run(&mut *scheduler);
        assert_eq!(connection.subflows[1].cwnd_bytes, expected * MSS_BYTES);
    }
}

#[test]
fn what_all_have_carried_is_carried_again() {
    for name in names() {
        let carriers = [0, 1].map(|id| SubflowView {
            has_carried_head: true,
            ..subflow(id)
        });
        let mut connection = Connection::new(carriers.to_vec(), 1_000);
        connection.assigned = 1_000;
        let head = Range {
            start: 0,
            len: 1_000,
        };
        connection.old = Some((Reason::Reinject, head));
        connection.run(&mut *scheduler(name));
        assert_eq!(connection.ids().len(), 1, "{name}");
    }
}

#[test]
fn copies_go_out_while_there_is_little_to_send_or_a_path_fails() {
    let copies = |written: u64, change: fn(&mut SubflowView)| {
        let mut subflows = vec![subflow(0), subflow(1), subflow(2)];
        change(&mut subflows[2]);
        let mut connection = Connection::new(subflows, written);
        connection.run(&mut *scheduler("x-adaptive_redundant"));
        let on_wire: u64 = (0..3).map(|id| connection.bytes_on(id)).sum();
        on_wire / connection.assigned
    };
    let lossy = |subflow: &mut SubflowView| {
        (subflow.sent_bytes, subflow.resent_bytes) = (1_000_000, 600_000);
    };
    assert_eq!(copies(1_000, |_| {}), 3);
    assert_eq!(copies(1_000_000, |_| {}), 1);
    assert_eq!(copies(1_000_000, |subflow| subflow.is_stale = true), 2);
    assert_eq!(copies(1_000_000, |subflow| subflow.in_loss = true), 2);
    assert_eq!(copies(1_000_000, lossy), 3);
}

#[test]
fn what_goes_over_a_lossy_subflow_goes_over_a_second_one_too() {
    let lossy = |id: u32, resent_bytes: u64| SubflowView {
        srtt: if id == 0 {
            10 * MILLISECOND
        } else {
            200 * MILLISECOND
        },
        sent_bytes: 1_000_000,
        resent_bytes,
        ..subflow(id)
    };
    for (resent_bytes, on_second) in [(800_000, 1_000), (0, 0)] {
        let subflows = vec![lossy(0, resent_bytes), lossy(1, 0)];
        let mut connection = Connection::new(subflows, 1_000);
        let mut scheduler = scheduler("x-lamps");
        let first = scheduler.next(&connection.view());
        connection.carry_out(first);
        connection.run(&mut *scheduler);
        assert_eq!(connection.bytes_on(1), on_second);
    }
}

#[test]
fn blest_and_ecf_leave_a_slow_subflow_alone_that_would_hold_up_the_fast_one() {
    let fast = SubflowView {
        in_flight_bytes: 10 * MSS_BYTES,
        unacked_bytes: 10 * MSS_BYTES,
        ..subflow(0)
    };
    let slow = SubflowView {
        srtt: 200 * MILLISECOND,
        ..subflow(1)
    };
    let small_window = |name: &str| {
        let mut connection = Connection::new(vec![fast.clone(), slow.clone()], 100_000);
        connection.window = 60_000;
        connection.run(&mut *scheduler(name));
        connection.bytes_on(1)
    };
    assert_eq!([small_window("blest"), small_window("blest-oot")], [0, 0]);
    assert_eq!(small_window("min_rtt"), u64::from(10 * MSS_BYTES));
    let little_left = |name: &str| {
        let written = u64::from(8 * MSS_BYTES);
        let mut connection = Connection::new(vec![fast.clone(), slow.clone()], written);
        connection.run(&mut *scheduler(name));
        connection.bytes_on(1)
    };
    assert_eq!([little_left("ecf"), little_left("ecf-oot")], [0, 0]);
}

#[test]
fn the_kernels_own_fills_queues_beyond_the_window_by_what_they_take_to_drain() {
    let paced = |id: u32, pacing_rate: f64| SubflowView {
        buffer_bytes: 4_000_000,
        pacing_rate,
        ..subflow(id)
    };
    let mut connection = Connection::new(vec![paced(0, 1e6), paced(1, 4e6)], 2_000_000);
    connection.run(&mut *scheduler("kernel_default"));
    let share = connection.bytes_on(1) as f64 / connection.written as f64;
    assert!((0.75..0.85).contains(&share), "found {share}");
}

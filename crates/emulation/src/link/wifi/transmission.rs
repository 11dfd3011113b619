//! A transmission: what it carries, how long it takes and what becomes of it.

use experiment::time::Nanos;

use super::aggregate::Terms;
use super::phy::Protection;
use super::rates::Choice;
use super::{OnAir, Sender, WifiAir};
use crate::link::{DropReason, Packet, StationId};

/// A transmission that is about to start.
struct Prepared {
    contender: usize,
    /// The direction and the rate. `None` for neighbours.
    lane: Option<(usize, Choice)>,
    mpdus: u32,
    /// Whether it would carry another packet if there were one.
    has_room: bool,
    /// The frames before it, with the gaps after them.
    protection: Nanos,
    /// What is lost in a collision.
    first_frame: Nanos,
    ppdu: Nanos,
    /// The acknowledgment with the gap before it.
    answer: Nanos,
}

impl Prepared {
    fn duration(&self) -> Nanos {
        self.protection + self.ppdu + self.answer
    }
}

impl<P: Packet> WifiAir<P> {
    /// Starts what those send whose backoff ends at `start`.
    pub(super) fn begin(&mut self, start: Nanos) {
        let mut winners = std::mem::take(&mut self.winners);
        let mut left = Nanos::MAX;
        match self.txop {
            Some((owner, until)) => {
                winners.push(owner);
                left = until.saturating_sub(start);
            }
            None => self.contention.winners(start, &mut winners),
        }
        self.transmit(start, &winners, left);
        winners.clear();
        self.winners = winners;
    }

    fn transmit(&mut self, start: Nanos, winners: &[usize], left: Nanos) {
        match *winners {
            [only] => match self.prepare(start, only) {
                Some(one) if one.duration() <= left => self.exchange(start, &one),
                Some(one) => self.end_txop(&one),
                None => {
                    self.txop = None;
                    self.update_ready(start, only);
                }
            },
            _ => self.contend(start, winners),
        }
    }

    /// Ends a TXOP in which the next exchange does not fit.
    fn end_txop(&mut self, one: &Prepared) {
        self.txop = None;
        if let Some((lane, _)) = one.lane {
            self.lanes[lane].window.take_back();
        }
    }

    fn contend(&mut self, start: Nanos, winners: &[usize]) {
        let mut prepared = Vec::with_capacity(winners.len());
        for contender in winners {
            match self.prepare(start, *contender) {
                Some(one) => prepared.push(one),
                None => {
                    self.update_ready(start, *contender);
                }
            }
        }
        match prepared.as_slice() {
            [] => {}
            [only] => self.exchange(start, only),
            several => self.collide(start, several),
        }
    }

    /// Chooses what a contender sends at `start`. `None` if it has nothing after all.
    fn prepare(&mut self, start: Nanos, contender: usize) -> Option<Prepared> {
        match self.senders[contender] {
            Sender::Client(client) => {
                let lane = self.lane_of(client, true);
                let is_present = self.clients[client].presence.next(start, true) == start;
                is_present.then(|| self.prepare_packets(start, contender, lane))?
            }
            Sender::AccessPoint(category) => {
                self.refill(start);
                self.next_receiver(start, category);
                let client = self.turn(start, category)?;
                let lane = self.lane_of(client, false);
                self.prepare_packets(start, contender, lane)
            }
            Sender::Neighbour(one) => {
                let neighbour = &self.neighbours[one];
                Some(Prepared {
                    contender,
                    lane: None,
                    mpdus: 1,
                    has_room: false,
                    protection: 0,
                    first_frame: neighbour.ppdu,
                    ppdu: neighbour.ppdu,
                    answer: self.phy.sifs + neighbour.ack,
                })
            }
        }
    }

    /// Returns the station to which the access point sends next.
    fn turn(&mut self, start: Nanos, category: usize) -> Option<usize> {
        let (lanes, clients) = (&self.lanes, &self.clients);
        self.access_point.turn(category, |access_point, client| {
            let lane = 2 * client + usize::from(lanes[2 * client].is_uplink);
            let waits = access_point.packets(client) > 0 || lanes[lane].window.has_unsent();
            waits && clients[client].receives_from <= start
        })
    }

    fn prepare_packets(&mut self, start: Nanos, contender: usize, lane: usize) -> Option<Prepared> {
        let txop_limit = self.txop_limit(self.senders[contender]);
        let of = &mut self.lanes[lane];
        let client = &mut self.clients[of.client];
        client.signal.at(start);
        let control = &mut of.rate_control;
        let choice = control.choose(start, &client.rates, &client.signal, &self.errors);
        let rate = &client.rates[choice.rate];
        let terms = Terms {
            phy: &client.phy,
            rate,
            longest_ppdu: if txop_limit > 0 {
                txop_limit
            } else {
                Nanos::MAX
            },
            max_mpdus: if choice.is_probe { 1 } else { u32::MAX },
        };
        let (stations, access_point) = (&mut self.stations, &mut self.access_point);
        let carried = if of.is_uplink {
            let station = StationId(lane as u32);
            of.window
                .fill(&terms, || stations.serve_next(start, station))
        } else {
            of.window.fill(&terms, || access_point.pop(of.client))
        };
        if carried.mpdus == 0 {
            return None;
        }
        let ppdu = rate.ppdu(carried.bytes);
        let protection = rate.protection(carried.bytes, self.wifi.rts_bytes);
        let first_frame = match protection {
            Protection::RtsAndCts { rts, .. } => rts,
            // Nothing answers a CTS to self, so that its sender goes on.
            Protection::Nothing | Protection::CtsToSelf { .. } => protection.duration() + ppdu,
        };
        let answer = if carried.mpdus > 1 {
            rate.block_ack
        } else {
            rate.ack
        };
        Some(Prepared {
            contender,
            lane: Some((lane, choice)),
            mpdus: carried.mpdus,
            // The driver of the access point leaves packets in the queue that it does not take yet.
            has_room: carried.has_room && !self.stations.as_slice()[lane].is_backlogged(),
            protection: protection.duration(),
            first_frame,
            ppdu,
            answer: self.phy.sifs + answer,
        })
    }

    /// Lets one sender have the channel.
    fn exchange(&mut self, start: Nanos, one: &Prepared) {
        self.contention
            .occupy(start, start + one.duration(), &[one.contender]);
        let Some((lane, choice)) = one.lane else {
            self.contention.succeed(one.contender);
            self.pop_neighbour(start, one.contender);
            return;
        };
        let signal = self.clients[self.lanes[lane].client].signal.at(start);
        let of = &mut self.lanes[lane];
        of.last_with_room = one.has_room.then_some(start);
        let rate = &self.clients[of.client].rates[choice.rate];
        let failure = self.errors.failure(rate, signal);
        let failures = &mut of.failures;
        let fails = || failure > 0 && failures.bits() < failure;
        let outcome = of.window.conclude(self.wifi.retry_limit, fails);
        of.rate_control
            .report(choice, outcome.received, outcome.failed);
        of.counters.retried_packets += u64::from(outcome.failed - outcome.given_up);
        if outcome.received > 0 {
            of.counters.exchanges += 1;
            of.counters.aggregated_packets += u64::from(outcome.received);
        }
        self.clients[self.lanes[lane].client]
            .presence
            .record_exchange(start);
        self.charge(lane, one.duration());
        if outcome.received > 0 || outcome.given_up > 0 {
            self.contention.succeed(one.contender);
        } else {
            self.contention.fail(one.contender);
        }
        let finish = start + one.protection + one.ppdu;
        let on_air = self.hand_up(finish, lane);
        self.on_air = Some(on_air);
        self.continue_or_rest(start, one.contender, outcome.received > 0);
    }

    /// Decides whether a sender goes on in its TXOP, and whether it still has packets.
    fn continue_or_rest(&mut self, start: Nanos, contender: usize, succeeded: bool) {
        let sender = self.senders[contender];
        // By air time the driver waits until this transmission is over.
        if let Sender::AccessPoint(_) = sender
            && !self.access_point.is_by_air_time()
        {
            self.refill(start);
        }
        self.update_ready(start, contender);
        let limit = self.txop_limit(sender);
        self.txop = match self.txop {
            _ if !succeeded || limit == 0 => None,
            None => Some((contender, start + limit)),
            txop => txop,
        };
    }

    /// Puts the packets that the receiver has in order on the wire at `finish`.
    fn hand_up(&mut self, finish: Nanos, lane: usize) -> OnAir<P> {
        let mut on_air = OnAir {
            finish,
            lane,
            drops: Vec::new(),
        };
        let station = StationId(lane as u32);
        let (window, from) = (&mut self.lanes[lane].window, self.stations.get_mut(station));
        while let Some((wire_bytes, is_received)) = window.pop() {
            let (dropped, reason) = if is_received {
                from.counters.count_sent(wire_bytes);
                (from.send(finish), DropReason::Loss)
            } else {
                (from.pipe.take_served(), DropReason::Retries)
            };
            if let Some(packet) = dropped {
                on_air.drops.push((lane, packet, reason));
            }
        }
        self.stations.record_sent(station);
        on_air
    }

    /// Lets several senders destroy each other's frames.
    fn collide(&mut self, start: Nanos, several: &[Prepared]) {
        let end = |one: &Prepared| start + one.first_frame + one.answer;
        let last = several.iter().map(end).max().unwrap_or(start);
        let winners: Vec<_> = several.iter().map(|one| one.contender).collect();
        self.contention.occupy(start, last, &winners);
        self.txop = None;
        let mut merged: Option<OnAir<P>> = None;
        for one in several {
            let Some((lane, choice)) = one.lane else {
                self.contention.fail(one.contender);
                continue;
            };
            let given_up = self.fail(one, lane, choice);
            if given_up > 0 {
                self.contention.succeed(one.contender);
            } else {
                self.contention.fail(one.contender);
            }
            let on_air = self.hand_up(last, lane);
            match &mut merged {
                Some(first) => first.drops.extend(on_air.drops),
                None => merged = Some(on_air),
            }
            self.update_ready(start, one.contender);
        }
        self.on_air = merged;
    }

    fn fail(&mut self, one: &Prepared, lane: usize, choice: Choice) -> u32 {
        let of = &mut self.lanes[lane];
        let outcome = of.window.conclude(self.wifi.retry_limit, || true);
        of.rate_control.report(choice, 0, one.mpdus);
        of.counters.retried_packets += u64::from(outcome.failed - outcome.given_up);
        self.charge(lane, one.first_frame + one.answer);
        outcome.given_up
    }

    fn charge(&mut self, lane: usize, air_time: Nanos) {
        self.lanes[lane].charge(air_time);
        self.access_point.charge(self.lanes[lane].client, air_time);
    }

    fn pop_neighbour(&mut self, now: Nanos, contender: usize) {
        if let Sender::Neighbour(index) = self.senders[contender] {
            self.neighbours[index].pop(now);
            self.contention
                .set_ready(contender, self.neighbours[index].next());
        }
    }
}

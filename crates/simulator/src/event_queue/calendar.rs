//! A wheel of days, and a heap for all later entries (R. Brown, "Calendar queues", 1988). For most
//! entries, the cost does not depend on their number.

use experiment::time::Nanos;

use super::{Entry, EventQueue, HeapQueue};

/// The length of a day: 2^10 ns is less than a packet takes on a gigabit link, so that few entries
/// share a day even with a thousand links. With more links, days are shorter.
const LONGEST_DAY_SHIFT: u32 = 10;
const SHORTEST_DAY_SHIFT: u32 = 6;
const ENTITIES_OF_LONGEST_DAY: usize = 2048;
/// Days in the wheel. They reach 17 ms ahead, beyond most propagation delays, or with the shortest
/// days 1 ms, beyond most packets.
const DAYS: u64 = 1 << 14;
const DAYS_PER_WORD: u64 = u64::BITS as u64;

/// A calendar queue. Entries wait unsorted in their day; only those of the current day are sorted.
pub struct CalendarQueue {
    /// Entries of the current day or earlier, the least one last.
    due: Vec<Entry>,
    /// The current day, counted from time 0.
    today: u64,
    day_shift: u32,
    /// Index of the newest entry of each day of the wheel, or `NOWHERE`.
    wheel: Vec<u32>,
    /// The entries in the wheel. Few indices are in use, always the same ones, so that they stay in
    /// the cache.
    places: Vec<Place>,
    /// Index of a free place. Each free place links to the next.
    free: u32,
    /// One bit per day of the wheel, set if the day has entries.
    occupied: Vec<u64>,
    beyond: HeapQueue,
}

struct Place {
    entry: Entry,
    /// Index of another entry of the same day or of another free place, or `NOWHERE`.
    next: u32,
}

const NOWHERE: u32 = u32::MAX;

impl CalendarQueue {
    /// Returns an empty queue at time 0, for about `entities` entities.
    pub fn new(entities: usize) -> Self {
        let crowd = (entities / ENTITIES_OF_LONGEST_DAY).max(1).ilog2();
        let shift = LONGEST_DAY_SHIFT.saturating_sub(crowd);
        Self {
            due: Vec::new(),
            today: 0,
            day_shift: shift.max(SHORTEST_DAY_SHIFT),
            wheel: vec![NOWHERE; DAYS as usize],
            places: Vec::new(),
            free: NOWHERE,
            occupied: vec![0; (DAYS / DAYS_PER_WORD) as usize],
            beyond: HeapQueue::default(),
        }
    }

    fn day_of(&self, at: Nanos) -> u64 {
        at >> self.day_shift
    }

    fn fill_due(&mut self) {
        let beyond = self.beyond.first().map(|first| self.day_of(first.at));
        let Some(day) = self.next_in_wheel().into_iter().chain(beyond).min() else {
            return;
        };
        self.today = day;
        self.take_today_from_wheel();
        self.take_today_from_beyond();
        self.due.sort_unstable_by(|one, other| other.cmp(one));
    }

    /// Returns the first day in the wheel after today that has entries.
    fn next_in_wheel(&self) -> Option<u64> {
        let start = (self.today + 1) % DAYS;
        let words = self.occupied.len() as u64;
        let first_word = start / DAYS_PER_WORD;
        let from_start = u64::MAX << (start % DAYS_PER_WORD);
        // The first word is examined again at the end, for the days before `start`.
        (0..=words).find_map(|step| {
            let word = (first_word + step) % words;
            let mask = match step {
                0 => from_start,
                _ if step == words => !from_start,
                _ => u64::MAX,
            };
            let bits = self.occupied[word as usize] & mask;
            let place = word * DAYS_PER_WORD + u64::from(bits.trailing_zeros());
            (bits != 0).then(|| self.today + 1 + (place + DAYS - start) % DAYS)
        })
    }

    fn take_today_from_wheel(&mut self) {
        let place = self.today % DAYS;
        let bit = 1 << (place % DAYS_PER_WORD);
        let word = &mut self.occupied[(place / DAYS_PER_WORD) as usize];
        if *word & bit == 0 {
            return;
        }
        *word &= !bit;
        let mut next = std::mem::replace(&mut self.wheel[place as usize], NOWHERE);
        while let Some(place) = self.places.get_mut(next as usize) {
            self.due.push(place.entry);
            let freed = std::mem::replace(&mut next, place.next);
            place.next = std::mem::replace(&mut self.free, freed);
        }
    }

    fn take_today_from_beyond(&mut self) {
        let tomorrow = (self.today + 1).saturating_mul(1 << self.day_shift);
        let beyond = std::iter::from_fn(|| self.beyond.pop_before(tomorrow));
        self.due.extend(beyond);
    }

    fn put_into_wheel(&mut self, day: u64, entry: Entry) {
        let day = day % DAYS;
        self.occupied[(day / DAYS_PER_WORD) as usize] |= 1 << (day % DAYS_PER_WORD);
        let newest = &mut self.wheel[day as usize];
        let place = Place {
            entry,
            next: *newest,
        };
        match self.places.get_mut(self.free as usize) {
            Some(free) => {
                *newest = std::mem::replace(&mut self.free, free.next);
                *free = place;
            }
            None => {
                *newest = self.places.len() as u32;
                self.places.push(place);
            }
        }
    }
}

impl EventQueue for CalendarQueue {
    fn push(&mut self, entry: Entry) {
        let day = self.day_of(entry.at);
        if day <= self.today {
            let place = self.due.partition_point(|other| *other > entry);
            self.due.insert(place, entry);
        } else if day - self.today < DAYS {
            self.put_into_wheel(day, entry);
        } else {
            self.beyond.push(entry);
        }
    }

    fn pop_before(&mut self, limit: Nanos) -> Option<Entry> {
        if self.due.is_empty() {
            self.fill_due();
        }
        self.due.pop_if(|entry| entry.at < limit)
    }
}

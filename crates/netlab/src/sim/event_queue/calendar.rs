//! A wheel of days, and a heap for what lies beyond it (R. Brown, "Calendar queues", 1988): what most entries cost does not
//! depend on how many there are.

use super::{Entry, EventQueue, HeapQueue};

/// A day is 2^10 ns: less than a packet takes on a gigabit link, so that few entries share one even among thousands of links.
const DAY_SHIFT: u32 = 10;
/// Days in the wheel: 2^14 of them reach 17 ms ahead, beyond most propagation delays.
const DAYS: u64 = 1 << 14;
const DAYS_PER_WORD: u64 = u64::BITS as u64;

/// A calendar queue: entries wait unsorted in the day they fall on, and only those of the current day are ordered.
pub struct CalendarQueue {
    /// Entries of the current day or before it, the least one last.
    due: Vec<Entry>,
    /// The current day, counted from time 0.
    today: u64,
    wheel: Vec<Vec<Entry>>,
    /// One bit per day of the wheel: whether it has entries.
    occupied: Vec<u64>,
    beyond: HeapQueue,
}

impl CalendarQueue {
    /// An empty queue at time 0.
    pub fn new() -> Self {
        Self {
            due: Vec::new(),
            today: 0,
            wheel: vec![Vec::new(); DAYS as usize],
            occupied: vec![0; (DAYS / DAYS_PER_WORD) as usize],
            beyond: HeapQueue::default(),
        }
    }

    fn fill_due(&mut self) {
        while self.due.is_empty() {
            let beyond = self.beyond.peek().map(day_of);
            let Some(day) = self.next_in_wheel().into_iter().chain(beyond).min() else {
                return;
            };
            self.today = day;
            self.take_today_from_wheel();
            self.take_today_from_beyond();
            self.due.sort_unstable_by(|one, other| other.cmp(one));
        }
    }

    /// The first day after today, within the wheel, that has entries.
    fn next_in_wheel(&self) -> Option<u64> {
        let start = (self.today + 1) % DAYS;
        let words = self.occupied.len() as u64;
        let first_word = start / DAYS_PER_WORD;
        let from_start = u64::MAX << (start % DAYS_PER_WORD);
        // The first word comes round again at the end, for the days before the start.
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
        self.due.append(&mut self.wheel[place as usize]);
    }

    fn take_today_from_beyond(&mut self) {
        while self
            .beyond
            .peek()
            .map(day_of)
            .is_some_and(|day| day <= self.today)
        {
            if let Some(entry) = self.beyond.pop() {
                self.due.push(entry);
            }
        }
    }
}

impl Default for CalendarQueue {
    fn default() -> Self {
        Self::new()
    }
}

impl EventQueue for CalendarQueue {
    fn push(&mut self, entry: Entry) {
        let day = day_of(entry);
        if day <= self.today {
            let place = self.due.partition_point(|other| *other > entry);
            self.due.insert(place, entry);
        } else if day - self.today < DAYS {
            let place = day % DAYS;
            self.occupied[(place / DAYS_PER_WORD) as usize] |= 1 << (place % DAYS_PER_WORD);
            self.wheel[place as usize].push(entry);
        } else {
            self.beyond.push(entry);
        }
    }

    fn peek(&mut self) -> Option<Entry> {
        self.fill_due();
        self.due.last().copied()
    }

    fn pop(&mut self) -> Option<Entry> {
        self.fill_due();
        self.due.pop()
    }
}

fn day_of(entry: Entry) -> u64 {
    entry.at >> DAY_SHIFT
}

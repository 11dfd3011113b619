//! A number space in which a sender has sent pieces, with the state of each until it is
//! acknowledged.

use std::collections::VecDeque;

/// The most pieces kept. Beyond that the oldest are forgotten, because the capture may lack their
/// acknowledgments.
const MOST_PIECES: usize = 1 << 14;

/// The state of a piece, which can be divided.
pub(super) trait Divisible: Copy {
    /// Returns the state of the part that begins `bytes` into the piece.
    fn tail(self, bytes: u64) -> Self;
}

/// A part of a range that was sent.
pub(super) enum Part<'a, T> {
    /// Acknowledged before, or forgotten.
    Below { start: u64, end: u64 },
    /// Sent before and not yet acknowledged.
    Again {
        start: u64,
        end: u64,
        value: &'a mut T,
    },
    /// Not seen before.
    New { start: u64, end: u64 },
}

#[derive(Clone, Copy, Debug)]
struct Piece<T> {
    start: u64,
    end: u64,
    value: T,
}

/// Pieces above a floor, in order and without overlaps.
#[derive(Debug)]
pub(super) struct Pieces<T> {
    floor: u64,
    pieces: VecDeque<Piece<T>>,
}

impl<T: Divisible> Pieces<T> {
    /// Returns an empty set. Everything below `floor` counts as acknowledged.
    pub(super) fn above(floor: u64) -> Self {
        Self {
            floor,
            pieces: VecDeque::new(),
        }
    }

    /// Returns the position below which everything is acknowledged or forgotten.
    pub(super) fn floor(&self) -> u64 {
        self.floor
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Calls `tell` for every part of `start..end`, and adds the new parts with `value_at(start)`.
    pub(super) fn send(
        &mut self,
        start: u64,
        end: u64,
        value_at: impl Fn(u64) -> T,
        mut tell: impl FnMut(Part<'_, T>),
    ) {
        let mut at = start;
        if at < self.floor {
            let below = end.min(self.floor);
            tell(Part::Below {
                start: at,
                end: below,
            });
            at = below;
        }
        let mut index = match self.pieces.back() {
            Some(last) if last.end > at => self.divide_at(at),
            _ => self.pieces.len(),
        };
        while at < end {
            let next = self.pieces.get(index).map_or(end, |piece| piece.start);
            if at < next {
                let until = next.min(end);
                tell(Part::New {
                    start: at,
                    end: until,
                });
                let value = value_at(at);
                self.pieces.insert(
                    index,
                    Piece {
                        start: at,
                        end: until,
                        value,
                    },
                );
                at = until;
            } else {
                self.divide_piece(index, end);
                let piece = &mut self.pieces[index];
                tell(Part::Again {
                    start: piece.start,
                    end: piece.end,
                    value: &mut piece.value,
                });
                at = piece.end;
            }
            index += 1;
        }
        if self.pieces.len() > MOST_PIECES {
            self.forget_oldest();
        }
    }

    /// Visits the pieces within `start..end`, which are divided at its ends.
    pub(super) fn within(&mut self, start: u64, end: u64, mut visit: impl FnMut(u64, u64, &mut T)) {
        let mut index = self.divide_at(start);
        while index < self.pieces.len() && self.pieces[index].start < end {
            self.divide_piece(index, end);
            let piece = &mut self.pieces[index];
            visit(piece.start, piece.end, &mut piece.value);
            index += 1;
        }
    }

    /// Visits all pieces.
    pub(super) fn for_each(&mut self, mut visit: impl FnMut(&mut T)) {
        self.pieces
            .iter_mut()
            .for_each(|piece| visit(&mut piece.value));
    }

    /// Visits the pieces that follow `start` without a gap, and returns the end of the last one.
    pub(super) fn contiguous_from(&self, start: u64, mut visit: impl FnMut(&T)) -> u64 {
        let first = self.pieces.partition_point(|piece| piece.end <= start);
        let mut end = start;
        for piece in self.pieces.range(first..) {
            if piece.start > end {
                break;
            }
            visit(&piece.value);
            end = piece.end;
        }
        end
    }

    /// Raises the floor to `to`, because everything below is acknowledged. Calls `tell` for each
    /// piece with its bounds. Returns the number of bytes acknowledged but never seen.
    pub(super) fn acknowledge(&mut self, to: u64, mut tell: impl FnMut(u64, u64, T)) -> u64 {
        let mut unseen = 0;
        while self.floor < to {
            let Some(piece) = self
                .pieces
                .front()
                .copied()
                .filter(|piece| piece.start < to)
            else {
                unseen += to - self.floor;
                self.floor = to;
                break;
            };
            unseen += piece.start - self.floor;
            let end = piece.end.min(to);
            tell(piece.start, end, piece.value);
            self.floor = end;
            if end == piece.end {
                self.pieces.pop_front();
            } else {
                self.pieces[0] = piece.after(end);
            }
        }
        unseen
    }

    /// Returns the index of the first piece that ends after `at`, after dividing a piece that spans
    /// `at`.
    fn divide_at(&mut self, at: u64) -> usize {
        let index = self.pieces.partition_point(|piece| piece.end <= at);
        if self.pieces.get(index).is_some_and(|piece| piece.start < at) {
            self.divide_piece(index, at);
            return index + 1;
        }
        index
    }

    /// Divides a piece at `at` if that lies within it.
    fn divide_piece(&mut self, index: usize, at: u64) {
        let piece = self.pieces[index];
        if piece.start < at && at < piece.end {
            self.pieces[index].end = at;
            self.pieces.insert(index + 1, piece.after(at));
        }
    }

    fn forget_oldest(&mut self) {
        if let Some(oldest) = self.pieces.pop_front() {
            self.floor = oldest.end;
        }
    }
}

impl<T: Divisible> Piece<T> {
    fn after(self, at: u64) -> Self {
        Self {
            start: at,
            end: self.end,
            value: self.value.tail(at - self.start),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Place(u64);

    impl Divisible for Place {
        fn tail(self, bytes: u64) -> Self {
            Self(self.0 + bytes)
        }
    }

    fn send(pieces: &mut Pieces<Place>, start: u64, end: u64) -> Vec<(&'static str, u64, u64)> {
        let mut parts = Vec::new();
        pieces.send(start, end, Place, |part| {
            parts.push(match part {
                Part::Below { start, end } => ("below", start, end),
                Part::New { start, end } => ("new", start, end),
                Part::Again { start, end, value } => {
                    assert_eq!(*value, Place(start), "what is known moves with the bytes");
                    ("again", start, end)
                }
            });
        });
        parts
    }

    #[test]
    fn every_byte_is_below_or_again_or_new() {
        let mut pieces = Pieces::above(10);
        assert_eq!(
            send(&mut pieces, 5, 20),
            [("below", 5, 10), ("new", 10, 20)]
        );
        assert_eq!(send(&mut pieces, 30, 40), [("new", 30, 40)]);
        let expected = [("again", 15, 20), ("new", 20, 30), ("again", 30, 35)];
        assert_eq!(send(&mut pieces, 15, 35), expected);
    }

    #[test]
    fn what_was_acknowledged_unseen_is_counted() {
        let mut pieces = Pieces::above(0);
        send(&mut pieces, 10, 20);
        let mut told = Vec::new();
        let unseen = pieces.acknowledge(15, |start, end, value| told.push((start, end, value)));
        assert_eq!((unseen, told), (10, vec![(10, 15, Place(10))]));
        assert_eq!(send(&mut pieces, 15, 20), [("again", 15, 20)]);
        assert_eq!(pieces.acknowledge(30, |_, _, _| {}), 10);
        assert_eq!(pieces.floor(), 30);
    }

    #[test]
    fn without_acknowledgments_the_oldest_are_forgotten() {
        let mut pieces = Pieces::above(0);
        for start in 0..MOST_PIECES as u64 + 5 {
            send(&mut pieces, 2 * start, 2 * start + 1);
        }
        assert_eq!(pieces.pieces.len(), MOST_PIECES);
        assert_eq!(send(&mut pieces, 0, 1), [("below", 0, 1)]);
    }
}

//! Loss models: none, Bernoulli, Gilbert-Elliott, an explicit list.

use experiment::resolved::{self, GilbertElliott};
use experiment::rng::Generator;

/// A loss model and its state.
#[derive(Debug)]
pub(super) enum LossProcess {
    Never,
    Bernoulli(f64),
    GilbertElliott {
        chain: GilbertElliott,
        in_bad_state: bool,
    },
    /// Indices of the packets still to lose, in descending order so that the next is last, and the
    /// index of the next packet.
    List {
        remaining: Vec<u64>,
        next_index: u64,
    },
}

impl LossProcess {
    pub(super) fn new(loss: &resolved::Loss) -> Self {
        match loss {
            resolved::Loss::None {} => Self::Never,
            resolved::Loss::Bernoulli { probability } => Self::Bernoulli(*probability),
            resolved::Loss::GilbertElliott(chain) => Self::GilbertElliott {
                chain: *chain,
                in_bad_state: false,
            },
            resolved::Loss::List { packets } => Self::List {
                remaining: descending_without_repeats(packets),
                next_index: 0,
            },
        }
    }

    /// Returns whether the next packet is lost.
    pub(super) fn loses_next(&mut self, generator: &mut Generator) -> bool {
        match self {
            Self::Never => false,
            Self::Bernoulli(probability) => generator.chance(*probability),
            Self::GilbertElliott {
                chain,
                in_bad_state,
            } => {
                let (loss, change) = if *in_bad_state {
                    (chain.loss_bad, chain.bad_to_good)
                } else {
                    (chain.loss_good, chain.good_to_bad)
                };
                let lost = generator.chance(loss);
                *in_bad_state ^= generator.chance(change);
                lost
            }
            Self::List {
                remaining,
                next_index,
            } => {
                let lost = remaining.pop_if(|index| *index == *next_index).is_some();
                *next_index += 1;
                lost
            }
        }
    }
}

fn descending_without_repeats(packets: &[u64]) -> Vec<u64> {
    let mut indices = packets.to_vec();
    indices.sort_unstable_by(|a, b| b.cmp(a));
    indices.dedup();
    indices
}

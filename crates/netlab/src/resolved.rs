//! The resolved experiment, exactly as its JSON: integers in named units, no defaults, no unknown keys.

mod direction;

pub use direction::{
    Codel, Direction, DropTail, FqCodel, GilbertElliott, InvalidDirection, Loss, LossPlace, Pie,
    Queue, Red, Trace,
};
pub(crate) use direction::{validate_overhead, validate_rate};

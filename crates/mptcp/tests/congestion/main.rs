//! Congestion controls as the engine drives them: invariants, where they settle, and how they get
//! there.

mod connection;
mod dynamics;
mod equilibria;
#[path = "../world/promises.rs"]
mod promises;
mod properties;

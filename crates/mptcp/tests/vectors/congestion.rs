//! Congestion controls.

use crate::family::Family;

pub const FAMILIES: &[Family] = &[];

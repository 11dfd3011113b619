//! The subflow as plain TCP (RFC 9293 and its kin): two of them and a wire, in virtual time.

#[path = "../pair/mod.rs"]
mod pair;

mod transfer;

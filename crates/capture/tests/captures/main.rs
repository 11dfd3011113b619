//! Tests that captures are read from files of every form, and explained.

mod conversation;
mod explained;
mod hostile;
mod read;

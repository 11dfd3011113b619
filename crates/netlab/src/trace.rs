//! Capture files.

mod capture_file;

pub use capture_file::{CaptureError, CaptureFile};

//! Capture files: written, read, and what Multipath TCP did in them.

pub mod analysis;
mod capture_file;
mod explained;
mod link_layer;
mod merged;
mod reader;
mod series;
mod tcp_packet;

pub use capture_file::{CaptureError, CaptureFile};
pub use explained::{Document, ExplainError, Explained, FileSummary};
pub use merged::MergedCaptures;
pub use reader::{CaptureReader, End, Frame, ReadError};
pub use series::SeriesFile;
pub use tcp_packet::{NoTcp, TcpPacket};

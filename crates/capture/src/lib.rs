//! Capture files: writing them, reading them, and analyzing the MPTCP connections in them.

pub mod analysis;
mod capture_file;
mod decode;
mod distribution;
mod explained;
mod link_layer;
mod merged;
mod one_way;
mod reader;
mod series;
mod tcp_packet;

pub use capture_file::{CaptureError, CaptureFile};
pub use decode::{DecodedOption, DecodedPacket, Field};
pub use distribution::Durations;
pub use explained::{Document, ExplainError, Explained, FileSummary};
pub use merged::MergedCaptures;
pub use one_way::{OneWayError, OneWaySummary, Way, one_way};
pub use reader::{CaptureReader, End, Frame, ReadError};
pub use series::SeriesFile;
pub use tcp_packet::{NoTcp, TcpPacket};

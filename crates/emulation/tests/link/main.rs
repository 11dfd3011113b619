//! The link model through its public interface: known answers and conservation laws.

mod driver;

mod aqm;
mod conservation;
mod framing;
mod loss;
mod medium;
mod schema;
mod serializer;
mod trace;
mod wire;

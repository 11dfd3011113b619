//! Whether the network that was built is the one that was described.

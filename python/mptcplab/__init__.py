"""mptcplab: the laboratory for Multipath TCP."""

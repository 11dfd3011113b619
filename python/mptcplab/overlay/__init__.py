"""An overlay of sites: a second path for hosts that have one."""

// SPDX-License-Identifier: GPL-2.0-only
/* semicoupled: windows in inverse proportion to loss, with probes on every path (Wischik et al., NSDI 2011). */
#include "windows.h"

struct state {
	struct growth growth;
	u64 total_packets;
};

INLINE s64 gain_of(struct sock *sk, struct state *state)
{
	struct path this = path_of(sk);

	state->total_packets = 0;
	for_each_subflow(sk, other)
		state->total_packets += path_of(other).window_packets;
	return semicoupled_gain(at_least(state->total_packets, this.window_packets), &this);
}

GROWS_BY_GAIN

HALVES_AFTER_LOSS
RENO_UNDO_CWND
CONTROL("semicoupled");

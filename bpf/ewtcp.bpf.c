// SPDX-License-Identifier: GPL-2.0-only
/* ewtcp: each of n subflows is a TCP of weight 1/n^2, so that all are one TCP at a shared bottleneck (Honda et al.). */
#include "windows.h"

struct state {
	struct growth growth;
	u64 paths;
};

INLINE s64 gain_of(struct sock *sk, struct state *state)
{
	state->paths = 0;
	for_each_subflow(sk, other)
		state->paths++;
	return ewtcp_gain(at_least(state->paths, 1));
}

GROWS_BY_GAIN

HALVES_AFTER_LOSS
RENO_UNDO_CWND
CONTROL("ewtcp");

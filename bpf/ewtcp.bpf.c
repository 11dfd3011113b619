// SPDX-License-Identifier: GPL-2.0-only
/* ewtcp: each of n subflows is a TCP of weight 1/n^2, so that all are one TCP at a shared bottleneck (Honda et al.). */
#include "windows.h"

struct state {
	struct credit credit;
	u64 paths;
};

SEC("struct_ops")
void BPF_PROG(cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct state *state = STATE(state, sk);

	if (!is_subflow(sk)) {
		tcp_reno_cong_avoid(sk, ack, acked);
		return;
	}
	acked = after_slow_start(sk, acked);
	if (!acked)
		return;
	state->paths = 0;
	for_each_subflow(sk, other)
		state->paths++;
	grow(sk, &state->credit, acked, ewtcp_gain(at_least(state->paths, 1)));
}

RENO_SSTHRESH
RENO_UNDO_CWND
CONTROL("ewtcp");

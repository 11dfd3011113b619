// SPDX-License-Identifier: GPL-2.0-only
/*
 * A user-defined congestion control for the kernel: each of n subflows grows 1/n as fast as Reno and keeps three
 * quarters of its window after a loss. `make bpf` compiles it. docs/internals/kernel-congestion-control.md explains it.
 */
#include "windows.h"

struct state {
	struct growth growth;
	u64 subflows;
};

INLINE s64 gain_of(struct sock *sk, struct state *state)
{
	state->subflows = 0;
	for_each_subflow(sk, other)
		state->subflows++;
	return ONE / at_least(state->subflows, 1);
}

GROWS_BY_GAIN

SEC("struct_ops")
u32 BPF_PROG(ssthresh, struct sock *sk)
{
	struct state *state = STATE(state, sk);

	return threshold_of(&state->growth, window_of(sk, &state->growth) * 3 / 4, LEAST_SSTHRESH);
}

RENO_UNDO_CWND
CONTROL("gentle");

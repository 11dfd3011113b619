// SPDX-License-Identifier: GPL-2.0-only
/* balia: Balanced Linked Adaptation (draft-walid-mptcp-congestion-control-04), between LIA and OLIA. */
#include "windows.h"

struct state {
	struct growth growth;
	struct balia sums;
};

INLINE void add_up(struct state *state, struct sock *sk, const struct path *this)
{
	state->sums = (struct balia){};
	for_each_subflow(sk, other) {
		struct path path = path_of(other);

		balia_add(&state->sums, this, &path);
	}
}

INLINE s64 gain_of(struct sock *sk, struct state *state)
{
	struct path this = path_of(sk);

	add_up(state, sk, &this);
	return state->sums.total ? balia_gain(&state->sums, &this) : ONE;
}

GROWS_BY_GAIN

SEC("struct_ops")
u32 BPF_PROG(ssthresh, struct sock *sk)
{
	struct state *state = STATE(state, sk);
	struct path this;
	u64 left;

	if (!is_subflow(sk))
		return tcp_reno_ssthresh(sk);
	this = path_of(sk);
	add_up(state, sk, &this);
	left = balia_left(&state->sums, &this, window_of(sk, &state->growth));
	return threshold_of(&state->growth, left, least_ssthresh(state->sums.paths));
}

RENO_UNDO_CWND
CONTROL("balia");

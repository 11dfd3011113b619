// SPDX-License-Identifier: GPL-2.0-only
/* olia: Opportunistic Linked Increases (draft-khalili-mptcp-congestion-control-05). Only the best paths carry. */
#include "windows.h"

struct state {
	struct growth growth;
	u64 bytes_until_loss;
	u64 bytes_between_losses;
	struct olia sums;
};

INLINE struct path path_with_losses(struct sock *sk)
{
	struct state *state = STATE_OF_OTHER(state, sk);
	struct path path = path_of(sk);

	path.loss_interval_bytes = at_least(READABLE(tcp_sock, sk)->bytes_acked - state->bytes_until_loss,
					    state->bytes_between_losses);
	return path;
}

SEC("struct_ops")
void BPF_PROG(init, struct sock *sk)
{
	struct state *state = STATE(state, sk);

	/* A connection may come to this control late. */
	state->bytes_until_loss = tcp_sk(sk)->bytes_acked;
}

INLINE s64 gain_of(struct sock *sk, struct state *state)
{
	struct path this = path_with_losses(sk);

	state->sums = (struct olia){};
	for_each_subflow(sk, other) {
		struct path path = path_with_losses(other);

		olia_add(&state->sums, &this, &path);
	}
	return state->sums.total ? olia_gain(&state->sums, &this) : (s64)ONE;
}

GROWS_BY_GAIN

SEC("struct_ops")
u32 BPF_PROG(ssthresh, struct sock *sk)
{
	struct state *state = STATE(state, sk);
	u64 acked = tcp_sk(sk)->bytes_acked;

	state->bytes_between_losses = acked - state->bytes_until_loss;
	state->bytes_until_loss = acked;
	return halved(sk, &state->growth, least_ssthresh(state->sums.paths));
}

RENO_UNDO_CWND
CONTROL("olia", .init = (void *)init);

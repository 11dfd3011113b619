// SPDX-License-Identifier: GPL-2.0-only
/* lia: Linked Increases (RFC 6356). All subflows together get what TCP would get on the best path. */
#include "windows.h"

struct state {
	struct credit credit;
	struct lia sums;
};

SEC("struct_ops")
void BPF_PROG(cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct state *state = STATE(state, sk);
	struct path this;

	if (!is_subflow(sk)) {
		tcp_reno_cong_avoid(sk, ack, acked);
		return;
	}
	acked = after_slow_start(sk, acked);
	if (!acked)
		return;
	this = path_of(sk);
	state->sums = (struct lia){};
	for_each_subflow(sk, other) {
		struct path path = path_of(other);

		lia_add(&state->sums, &this, &path);
	}
	grow(sk, &state->credit, acked, state->sums.total ? lia_gain(&state->sums, &this) : ONE);
}

RENO_SSTHRESH
RENO_UNDO_CWND
CONTROL("lia");

// SPDX-License-Identifier: GPL-2.0-only
/* lia: Linked Increases (RFC 6356). All subflows together get what TCP would get on the best path. */
#include "windows.h"

struct state {
	struct growth growth;
	struct lia sums;
};

INLINE s64 gain_of(struct sock *sk, struct state *state)
{
	struct path this = path_of(sk);

	state->sums = (struct lia){};
	for_each_subflow(sk, other) {
		struct path path = path_of(other);

		lia_add(&state->sums, &this, &path);
	}
	return state->sums.total ? lia_gain(&state->sums, &this) : ONE;
}

GROWS_BY_GAIN

HALVES_AFTER_LOSS
RENO_UNDO_CWND
CONTROL("lia");

// SPDX-License-Identifier: GPL-2.0-only
/* Answers as the kernel takes them when it passes over a hook: with what lay on the stack, here now and then. */
#include "windows.h"

#define STRAY 0x81104110

struct state {
	struct growth growth;
	u32 answers;
};

INLINE s64 gain_of(struct sock *sk, struct state *state)
{
	return ONE;
}

GROWS_BY_GAIN

SEC("struct_ops")
u32 BPF_PROG(ssthresh, struct sock *sk)
{
	return STATE(state, sk)->answers++ % 4 ? tcp_reno_ssthresh(sk) : STRAY;
}

SEC("struct_ops")
u32 BPF_PROG(undo_cwnd, struct sock *sk)
{
	return STATE(state, sk)->answers++ % 2 ? tcp_reno_undo_cwnd(sk) : STRAY;
}

CONTROL("stray");

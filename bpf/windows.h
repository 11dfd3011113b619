/* SPDX-License-Identifier: GPL-2.0-only */
/* What happens to a window, the same for all controls: slow start, growth by a gain, loss. */
#ifndef WINDOWS_H
#define WINDOWS_H

#include "subflows.h"

/* How a window grows. */
struct growth {
	s64 gain;       /* in comparison to Reno, when it was last worked out */
	s64 credit;     /* of a packet that the window is to grow or shrink by */
	u32 good_for;   /* acknowledged packets until the gain is to be worked out again */
};

/* As the kernel's: a window that is not in use must not grow. */
INLINE int is_window_limited(struct tcp_sock *tp)
{
	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		return 1;
	return tp->snd_cwnd < tp->snd_ssthresh && tp->snd_cwnd < 2 * tp->max_packets_out;
}

/* What slow start leaves of the acknowledged packets to congestion avoidance; 0 too if the window is not in use. */
INLINE u32 after_slow_start(struct sock *sk, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!is_window_limited(tp))
		return 0;
	if (tp->snd_cwnd < tp->snd_ssthresh)
		acked = tcp_slow_start(tp, acked);
	return acked;
}

/* A gain is good for a quarter of a round trip: formulas change slowly, and siblings are far away in memory. */
INLINE int needs_gain(struct sock *sk, struct growth *growth, u32 acked)
{
	if (growth->good_for > acked) {
		growth->good_for -= acked;
		return 0;
	}
	growth->good_for = tcp_sk(sk)->snd_cwnd / 4;
	return 1;
}

/* Adds gain/w packets for each acknowledged one: never more than Reno would, and at most one packet at a time. */
INLINE void grow(struct sock *sk, struct growth *growth, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 window = tp->snd_cwnd;
	s64 packet = (s64)at_most(window, LARGEST_WINDOW_PACKETS) << ONE_BITS;
	s64 gain = growth->gain;
	s64 credit = growth->credit;

	if (gain > (s64)ONE)
		gain = ONE;
	if (acked > window)
		acked = window;
	/* It was saved up for a larger window, which the kernel has cut. */
	if (credit > packet || credit < -packet)
		credit = 0;
	credit += gain * acked;
	if (credit >= packet) {
		credit -= packet;
		if (window < tp->snd_cwnd_clamp)
			tp->snd_cwnd = window + 1;
	} else if (credit <= -packet) {
		credit += packet;
		if (window > 1)
			tp->snd_cwnd = window - 1;
	}
	growth->credit = credit;
}

/* TCP's least slow start threshold in packets. */
#define LEAST_SSTHRESH 2

/* That of OLIA and BALIA: below that of TCP when other subflows carry the connection. */
INLINE u32 least_ssthresh(u64 paths)
{
	return paths > 1 ? 1 : LEAST_SSTHRESH;
}

/* The window with the part of a packet that it is to grow or shrink by, with FRACTION_BITS. */
INLINE u64 window_of(struct sock *sk, const struct growth *growth)
{
	return exact_window(path_of(sk).window_packets, growth->credit);
}

/* The threshold after a loss that leaves so much of the window. Parts of a packet stay what they are. */
INLINE u32 threshold_of(struct growth *growth, u64 left, u32 least)
{
	u64 packets = at_least(left >> FRACTION_BITS, least);

	growth->credit = credit_beyond(packets, left);
	return packets;
}

/* The threshold of controls that halve the window, as Reno does. */
INLINE u32 halved(struct sock *sk, struct growth *growth, u32 least)
{
	return threshold_of(growth, window_of(sk, growth) / 2, least);
}

/* The kernel's own value before the first loss; no control answers more. */
#define INFINITE_SSTHRESH 0x7fffffff

/*
 * A kernel that skips a hook takes stale stack memory as the answer of `ssthresh` or `undo_cwnd` (see
 * docs/internals/kernel-congestion-control.md). Each acknowledgment corrects an impossible window or threshold.
 */
INLINE void correct_stray_answers(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 before = at_least(tp->prior_cwnd, 2);

	if (tp->snd_cwnd > LARGEST_WINDOW_PACKETS)
		tp->snd_cwnd = before;
	if (tp->snd_ssthresh <= before)
		return;
	if (BPF_CORE_READ_BITFIELD(inet_csk(sk), icsk_ca_state) >= TCP_CA_CWR || tp->snd_ssthresh > INFINITE_SSTHRESH)
		tp->snd_ssthresh = at_least(before / 2, 2);
}

/*
 * Growth by what `gain_of` says, with the file's `struct state`, in which `growth` is: slow start is the kernel's, and
 * plain TCP is Reno.
 */
#define GROWS_BY_GAIN                                                                                                \
	SEC("struct_ops")                                                                                            \
	void BPF_PROG(cong_avoid, struct sock *sk, u32 ack, u32 acked)                                               \
	{                                                                                                            \
		struct state *state = STATE(state, sk);                                                              \
                                                                                                                     \
		if (!is_subflow(sk)) {                                                                               \
			tcp_reno_cong_avoid(sk, ack, acked);                                                         \
			return;                                                                                      \
		}                                                                                                    \
		acked = after_slow_start(sk, acked);                                                                 \
		if (!acked)                                                                                          \
			return;                                                                                      \
		if (needs_gain(sk, &state->growth, acked))                                                           \
			state->growth.gain = gain_of(sk, state);                                                     \
		grow(sk, &state->growth, acked);                                                                     \
	}                                                                                                            \
                                                                                                                     \
	SEC("struct_ops")                                                                                            \
	void BPF_PROG(pkts_acked, struct sock *sk, const struct ack_sample *sample)                                  \
	{                                                                                                            \
		correct_stray_answers(sk);                                                                           \
	}

/* A loss takes half of the window, for files with `struct state`. */
#define HALVES_AFTER_LOSS                                                                                            \
	SEC("struct_ops")                                                                                            \
	u32 BPF_PROG(ssthresh, struct sock *sk)                                                                      \
	{                                                                                                            \
		struct state *state = STATE(state, sk);                                                              \
                                                                                                                     \
		return halved(sk, &state->growth, LEAST_SSTHRESH);                                                   \
	}

/* The two hooks that a control must have and may leave to Reno. */
#define RENO_SSTHRESH                                                                                                \
	SEC("struct_ops")                                                                                            \
	u32 BPF_PROG(ssthresh, struct sock *sk)                                                                      \
	{                                                                                                            \
		return tcp_reno_ssthresh(sk);                                                                        \
	}

#define RENO_UNDO_CWND                                                                                               \
	SEC("struct_ops")                                                                                            \
	u32 BPF_PROG(undo_cwnd, struct sock *sk)                                                                     \
	{                                                                                                            \
		return tcp_reno_undo_cwnd(sk);                                                                       \
	}

/* The control itself: its name, and hooks beside those that every control has. */
#define CONTROL(its_name, ...)                                                                                       \
	char its_license[] SEC("license") = "GPL";                                                                      \
	SEC(".struct_ops.link")                                                                                      \
	struct tcp_congestion_ops control = {                                                                        \
		.ssthresh = (void *)ssthresh,                                                                        \
		.cong_avoid = (void *)cong_avoid,                                                                    \
		.undo_cwnd = (void *)undo_cwnd,                                                                      \
		.pkts_acked = (void *)pkts_acked,                                                                    \
		.flags = TCP_CONG_NON_RESTRICTED,                                                                    \
		.name = its_name,                                                                                    \
		##__VA_ARGS__                                                                                        \
	}

#endif

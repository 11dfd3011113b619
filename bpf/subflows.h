/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The subflows of the connection that a subflow belongs to.
 *
 * A hook holds the lock of one subflow only: others change while they are looked at, and come and go. All that is read
 * of them may be old by some packets; a list that breaks off reads as zeros, which ends the walk.
 */
#ifndef SUBFLOWS_H
#define SUBFLOWS_H

#include "kernel.h"

/* More than any path manager opens; those beyond are not counted. */
#define MOST_SUBFLOWS 64

/* A place in the list of a connection's subflows. */
struct walk {
	struct list_head *place;
	struct list_head *end;
};

INLINE int is_subflow(const struct sock *sk)
{
	return tcp_sk(sk)->is_mptcp && inet_csk(sk)->icsk_ulp_data;
}

INLINE struct walk walk_from(struct sock *sk)
{
	struct mptcp_subflow_context *own = READABLE(mptcp_subflow_context, inet_csk(sk)->icsk_ulp_data);
	struct mptcp_sock *connection = READABLE(mptcp_sock, own->conn);
	struct walk walk = {connection->conn_list.next, &connection->conn_list};

	return walk;
}

INLINE struct mptcp_subflow_context *walk_on(struct walk *walk)
{
	struct list_head *here = walk->place;

	if (!here || here == walk->end)
		return 0;
	walk->place = READABLE(list_head, here)->next;
	return READABLE(mptcp_subflow_context, (void *)here - bpf_core_field_offset(struct mptcp_subflow_context, node));
}

/* The subflow's socket if it counts in the formulas of `sk`: it can send, has an RTT, and has the same control. */
INLINE struct sock *counted(struct mptcp_subflow_context *subflow, struct sock *sk)
{
	struct sock *other = READABLE(sock, subflow->tcp_sock);

	if (other->__sk_common.skc_state != TCP_ESTABLISHED || BPF_CORE_READ_BITFIELD(subflow, stale))
		return 0;
	if (READABLE(inet_connection_sock, other)->icsk_ca_ops != inet_csk(sk)->icsk_ca_ops)
		return 0;
	return READABLE(tcp_sock, other)->srtt_us >> 3 ? other : 0;
}

/* Clang describes no extern that only the attribute names. */
INLINE void end_steps(struct bpf_iter_num *steps)
{
	bpf_iter_num_destroy(steps);
}

/* Runs what follows for each subflow of the connection of `sk` that counts, `sk` itself among them, as `other`. */
#define for_each_subflow(sk, other)                                                                                  \
	struct bpf_iter_num steps __attribute__((cleanup(end_steps)));                                    \
	struct mptcp_subflow_context *subflow;                                                                       \
	struct walk walk = walk_from(sk);                                                                            \
	struct sock *other;                                                                                          \
	bpf_iter_num_new(&steps, 0, MOST_SUBFLOWS);                                                                  \
	while (bpf_iter_num_next(&steps) && (subflow = walk_on(&walk)))                                              \
		if ((other = counted(subflow, sk)))

/* A subflow as the formulas see it. In recovery its window is on its way to ssthresh, and counts as what it will be. */
INLINE struct path path_of(struct sock *sk)
{
	struct inet_connection_sock *icsk = READABLE(inet_connection_sock, sk);
	struct tcp_sock *tp = READABLE(tcp_sock, sk);
	u64 window = tp->snd_cwnd, rtt_us = tp->srtt_us >> 3;
	struct path path = {};

	if (BPF_CORE_READ_BITFIELD(icsk, icsk_ca_state) >= TCP_CA_CWR)
		window = at_most(window, tp->snd_ssthresh);
	path.window_packets = at_most(window ? window : 1, LARGEST_WINDOW_PACKETS);
	path.rtt_us = at_most(rtt_us ? rtt_us : 1, LONGEST_RTT_US);
	return path;
}

/* What a control remembers of a subflow, at the beginning of the 104 bytes that the kernel gives it. */
#define STATE(type, sk) ((struct type *)inet_csk(sk)->icsk_ca_priv)
#define STATE_OF_OTHER(type, sk) ((struct type *)READABLE(inet_connection_sock, sk)->icsk_ca_priv)

#endif

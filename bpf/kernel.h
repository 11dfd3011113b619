/* SPDX-License-Identifier: GPL-2.0-only */
/* The parts of the kernel's structures that are used here; their places are looked up in the running kernel (CO-RE). */
#ifndef KERNEL_H
#define KERNEL_H

#include "formulas.h"

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

enum bpf_map_type { BPF_MAP_TYPE_UNSPEC };

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct list_head {
	struct list_head *next;
};

struct sock_common {
	volatile unsigned char skc_state;
};

struct sock {
	struct sock_common __sk_common;
};

struct inet_connection_sock {
	const struct tcp_congestion_ops *icsk_ca_ops;
	void *icsk_ulp_data;
	__u8 icsk_ca_state : 5;
	__u64 icsk_ca_priv[13];
};

struct tcp_sock {
	__u8 is_cwnd_limited : 1;
	_Bool is_mptcp;
	__u32 max_packets_out;
	__u32 prior_cwnd; /* before the last loss */
	__u32 snd_cwnd;
	__u32 snd_cwnd_clamp;
	__u32 snd_nxt;
	__u32 snd_ssthresh;
	__u32 srtt_us; /* 8 times the smoothed round-trip time */
	__u64 bytes_acked;
};

struct mptcp_subflow_context {
	struct list_head node;
	__u32 stale : 1;
	struct sock *tcp_sock;
	struct sock *conn;
};

struct mptcp_sock {
	struct list_head conn_list;
};

struct ack_sample {
	__s32 rtt_us;
};

enum tcp_ca_event { CA_EVENT_CWND_RESTART = 1 };

struct tcp_congestion_ops {
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	void (*set_state)(struct sock *sk, __u8 new_state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	__u32 (*undo_cwnd)(struct sock *sk);
	void (*init)(struct sock *sk);
	__u32 flags;
	char name[16];
};

#pragma clang attribute pop

enum { TCP_ESTABLISHED = 1 };
enum { TCP_CA_Open, TCP_CA_Disorder, TCP_CA_CWR, TCP_CA_Recovery, TCP_CA_Loss };

/* Any user may select the control, in any namespace, once it is registered. */
enum { TCP_CONG_NON_RESTRICTED = 1 };

extern __u32 tcp_reno_ssthresh(struct sock *sk) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;
extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;
extern __u32 tcp_slow_start(struct tcp_sock *tp, __u32 acked) __ksym;
extern void *bpf_rdonly_cast(const void *object, __u32 type_id) __ksym;

struct bpf_iter_num {
	__u64 opaque;
} __attribute__((aligned(8)));
extern int bpf_iter_num_new(struct bpf_iter_num *it, int start, int end) __ksym;
extern int *bpf_iter_num_next(struct bpf_iter_num *it) __ksym;
extern void bpf_iter_num_destroy(struct bpf_iter_num *it) __ksym;

INLINE struct tcp_sock *tcp_sk(const struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

INLINE struct inet_connection_sock *inet_csk(const struct sock *sk)
{
	return (struct inet_connection_sock *)sk;
}

/* A pointer of that type to something of the kernel's, for reading only; a pointer that is wrong reads as zeros. */
#define READABLE(type, pointer) ((struct type *)bpf_rdonly_cast(pointer, bpf_core_type_id_kernel(struct type)))

#endif

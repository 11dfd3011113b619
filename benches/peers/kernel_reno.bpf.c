// SPDX-License-Identifier: GPL-2.0-only
/* The kernel's own Reno, called through the hooks of an eBPF control, and beside it a hook that does nothing. */
#include "windows.h"

SEC("struct_ops")
void BPF_PROG(cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

SEC("struct_ops")
void BPF_PROG(pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
}

RENO_SSTHRESH
RENO_UNDO_CWND

char its_license[] SEC("license") = "GPL";
SEC(".struct_ops.link")
struct tcp_congestion_ops control = {
	.ssthresh = (void *)ssthresh,
	.cong_avoid = (void *)cong_avoid,
	.undo_cwnd = (void *)undo_cwnd,
	.pkts_acked = (void *)pkts_acked,
	.name = "kernel_reno",
};

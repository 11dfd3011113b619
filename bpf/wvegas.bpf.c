// SPDX-License-Identifier: GPL-2.0-only
/* wvegas: Weighted Vegas (draft-xu-mptcp-congestion-control). All subflows together keep ten packets in queues. */
#include "windows.h"

/* With fewer samples in a round the delay is not known, and the round is Reno's. */
#define LEAST_SAMPLES 3
#define LEAST_WINDOW 2
/* With more packets in queues slow start ends. */
#define GAMMA 1

struct state {
	u64 rate;      /* when it last had enough packets queued; 0 before, and after a timeout. Others read it. */
	u64 alpha;     /* packets to be kept queued */
	u64 rtt_sum_us;
	u64 total_rate;
	u32 rtt_samples;
	u32 base_rtt_us; /* 0: not known */
	u32 least_queueing_us;
	u32 round_end; /* the sequence number whose acknowledgment ends the round */
	u32 is_paused; /* from a congestion to the end of its repair */
};

INLINE void begin(struct sock *sk, struct state *state)
{
	/* Sequence numbers begin anywhere: from 0 half of them would seem to lie before the end of the round. */
	state->round_end = tcp_sk(sk)->snd_nxt;
	state->rate = 0;
	state->alpha = in_packets(2);
	state->rtt_sum_us = 0;
	state->rtt_samples = 0;
	state->least_queueing_us = 0;
	state->is_paused = 0;
}

SEC("struct_ops")
void BPF_PROG(init, struct sock *sk)
{
	begin(sk, STATE(state, sk));
}

SEC("struct_ops")
void BPF_PROG(pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct state *state = STATE(state, sk);
	u32 rtt_us = sample->rtt_us;

	correct_stray_answers(sk);
	/* Without a sample it is -1. */
	if (!rtt_us || rtt_us > LONGEST_RTT_US)
		return;
	if (!state->base_rtt_us || rtt_us < state->base_rtt_us)
		state->base_rtt_us = rtt_us;
	state->rtt_sum_us += rtt_us;
	state->rtt_samples++;
}

SEC("struct_ops")
void BPF_PROG(set_state, struct sock *sk, u8 new_state)
{
	struct state *state = STATE(state, sk);

	if (new_state >= TCP_CA_CWR)
		state->is_paused = 1;
	else if (new_state == TCP_CA_Open && state->is_paused)
		begin(sk, state);
	if (new_state == TCP_CA_Loss)
		state->rate = 0;
}

SEC("struct_ops")
void BPF_PROG(cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct state *state = STATE(state, sk);

	if (event != bpf_core_enum_value(enum tcp_ca_event, CA_EVENT_CWND_RESTART))
		return;
	begin(sk, state);
	state->base_rtt_us = 0;
}

INLINE void set_window(struct tcp_sock *tp, u64 packets)
{
	tp->snd_cwnd = at_most(at_least(packets, LEAST_WINDOW), tp->snd_cwnd_clamp);
}

/* Keeps the window out of slow start. */
INLINE void lower_ssthresh(struct tcp_sock *tp)
{
	tp->snd_ssthresh = at_most(tp->snd_ssthresh, tp->snd_cwnd - 1);
}

/* Takes the rate of a subflow, and by its part of all rates what it is to keep queued. */
INLINE void weigh(struct sock *sk, struct state *state, const struct path *this)
{
	u64 rate = wvegas_rate(this);

	state->rate = rate;
	state->total_rate = 0;
	if (is_subflow(sk)) {
		for_each_subflow(sk, other)
			state->total_rate += STATE_OF_OTHER(state, other)->rate;
	}
	state->alpha = wvegas_alpha(rate, at_least(state->total_rate, rate));
}

INLINE void drain_queue(struct tcp_sock *tp, struct state *state, const struct path *this, u32 base_rtt_us)
{
	u32 queueing_us = this->rtt_us - base_rtt_us;

	if (!state->least_queueing_us || queueing_us < state->least_queueing_us)
		state->least_queueing_us = queueing_us;
	if (queueing_us && queueing_us >= 2 * state->least_queueing_us) {
		struct path now = {.window_packets = tp->snd_cwnd, .rtt_us = this->rtt_us};

		set_window(tp, wvegas_drained(&now, base_rtt_us));
		state->least_queueing_us = 0;
	}
}

INLINE void avoid_congestion(struct sock *sk, struct state *state, const struct path *this, u32 base_rtt_us)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u64 queued = wvegas_queued(this, base_rtt_us);

	if (queued >= state->alpha)
		weigh(sk, state, this);
	if (queued > state->alpha) {
		set_window(tp, tp->snd_cwnd - 1);
		lower_ssthresh(tp);
	} else if (queued < state->alpha && is_window_limited(tp)) {
		set_window(tp, tp->snd_cwnd + 1);
	}
	drain_queue(tp, state, this, base_rtt_us);
}

INLINE void end_round(struct sock *sk, struct state *state, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 base_rtt_us = state->base_rtt_us;
	struct path this = {.window_packets = at_most(tp->snd_cwnd, LARGEST_WINDOW_PACKETS)};

	this.rtt_us = at_least(state->rtt_sum_us / state->rtt_samples, base_rtt_us);
	if (tp->snd_cwnd >= tp->snd_ssthresh) {
		avoid_congestion(sk, state, &this, base_rtt_us);
	} else if (wvegas_queued(&this, base_rtt_us) > in_packets(GAMMA)) {
		set_window(tp, at_most(tp->snd_cwnd, this.window_packets * base_rtt_us / this.rtt_us + 1));
		lower_ssthresh(tp);
	} else if (is_window_limited(tp)) {
		tcp_slow_start(tp, acked);
	}
}

SEC("struct_ops")
void BPF_PROG(cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct state *state = STATE(state, sk);
	struct tcp_sock *tp = tcp_sk(sk);

	if (state->is_paused || !is_subflow(sk)) {
		tcp_reno_cong_avoid(sk, ack, acked);
		return;
	}
	if ((s32)(ack - state->round_end) <= 0) {
		if (tp->snd_cwnd < tp->snd_ssthresh && is_window_limited(tp))
			tcp_slow_start(tp, acked);
		return;
	}
	state->round_end = tp->snd_nxt;
	if (state->rtt_samples >= LEAST_SAMPLES)
		end_round(sk, state, acked);
	else
		tcp_reno_cong_avoid(sk, ack, acked);
	state->rtt_sum_us = 0;
	state->rtt_samples = 0;
}

RENO_SSTHRESH
RENO_UNDO_CWND
CONTROL("wvegas", .init = (void *)init, .set_state = (void *)set_state, .cwnd_event = (void *)cwnd_event);

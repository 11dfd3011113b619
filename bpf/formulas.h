/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The formulas of the coupled congestion controls in 64-bit fixed point, without anything of the kernel: they compile
 * for a host too, where tests hold them against tests/vectors.json.
 *
 * A formula looks at the paths of a connection one by one, from the point of view of one of them (`this`): what others
 * send is counted in packets per round-trip time of this path. It answers with a gain: how fast the window of this
 * path grows in comparison to Reno, whose increase per acknowledged packet is 1/w.
 */
#ifndef FORMULAS_H
#define FORMULAS_H

#define INLINE static inline __attribute__((always_inline))

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;

/* A gain or a share of 1. */
#define ONE_BITS 28
#define ONE (1ULL << ONE_BITS)

/* Numbers of packets, and ratios of rates, have this many fractional bits. */
#define FRACTION_BITS 16

/* Beyond these bounds values are cut off, so that nothing overflows with 64 paths. */
#define LARGEST_WINDOW_PACKETS ((1ULL << 20) - 1)
#define LONGEST_RTT_US ((1ULL << 23) - 1)
#define LARGEST_SUM (1ULL << 39)

/* A subflow in a formula. */
struct path {
	u64 window_packets;      /* 1 .. LARGEST_WINDOW_PACKETS */
	u64 rtt_us;              /* 1 .. LONGEST_RTT_US */
	u64 loss_interval_bytes; /* OLIA's l: acknowledged since the last loss or between the last two, whichever is more */
};

INLINE u64 at_most(u64 value, u64 bound)
{
	return value < bound ? value : bound;
}

INLINE u64 at_least(u64 value, u64 bound)
{
	return value > bound ? value : bound;
}

INLINE u64 in_packets(u64 packets)
{
	return packets << FRACTION_BITS;
}

/* part / whole, for part <= whole and whole > 0. */
INLINE u64 share(u64 part, u64 whole)
{
	if (whole >> 52) {
		part >>= 16;
		whole >>= 16;
	}
	if (whole >> 44) {
		part >>= 8;
		whole >>= 8;
	}
	if (whole >> 40) {
		part >>= 4;
		whole >>= 4;
	}
	if (whole >> 36) {
		part >>= 4;
		whole >>= 4;
	}
	return (part << ONE_BITS) / whole;
}

/* value * rtt of this / rtt of other, for a value of at most 40 bits. */
INLINE u64 in_rtts_of(const struct path *this, const struct path *other, u64 value)
{
	return at_most(value * this->rtt_us / other->rtt_us, LARGEST_SUM);
}

/* What a path sends in a round-trip time of `this`, in packets. */
INLINE u64 sent_in_rtt_of(const struct path *this, const struct path *other)
{
	return in_rtts_of(this, other, in_packets(other->window_packets));
}

/*
 * The kernel's windows are whole packets. What a window is to grow or shrink by beside them is kept as a sum of gains,
 * the credit, of which `packets` times ONE make a packet.
 */
INLINE u64 exact_window(u64 packets, s64 credit)
{
	u64 size = credit < 0 ? -credit : credit;
	u64 part = at_most((size >> (ONE_BITS - FRACTION_BITS)) / packets, in_packets(1));

	return credit < 0 ? in_packets(packets) - part : in_packets(packets) + part;
}

/* What of an exact window is more than so many packets. */
INLINE s64 credit_beyond(u64 packets, u64 window)
{
	return window > in_packets(packets) ? ((window - in_packets(packets)) * packets) << (ONE_BITS - FRACTION_BITS) : 0;
}

/* LIA (RFC 6356, section 3): min(max(w_i/rtt_i^2) / (sum of w_i/rtt_i)^2, 1/w). */
struct lia {
	u64 total;
	u64 best;
};

INLINE void lia_add(struct lia *sums, const struct path *this, const struct path *other)
{
	u64 sent = sent_in_rtt_of(this, other);
	u64 best = in_rtts_of(this, other, sent);

	sums->total += sent;
	if (best > sums->best)
		sums->best = best;
}

INLINE u64 lia_gain(const struct lia *sums, const struct path *this)
{
	const u64 best_bits = 24;
	u64 best = at_most((sums->best << best_bits) / sums->total, 1ULL << 35);
	u64 own = share(in_packets(this->window_packets), sums->total);

	return at_most((best * own) >> best_bits, ONE);
}

/*
 * OLIA (draft-khalili-mptcp-congestion-control-05): (w/rtt^2) / (sum of w_i/rtt_i)^2 + alpha/w. Paths that are best
 * (largest l/rtt^2) and do not have the largest window are collected. Their alpha is 1/(n collected), that of the
 * paths with the largest window -1/(n largest), if any is collected.
 */
struct olia {
	u64 total;
	u64 best_quality;
	u64 largest_window;
	u32 paths;
	u32 best;
	u32 largest;
	u32 best_and_largest;
};

INLINE u64 olia_quality(const struct path *this, const struct path *other)
{
	u64 interval = at_most(other->loss_interval_bytes, LARGEST_SUM);

	return in_rtts_of(this, other, in_rtts_of(this, other, interval));
}

INLINE void olia_add(struct olia *sums, const struct path *this, const struct path *other)
{
	u64 quality = olia_quality(this, other);
	u64 window = other->window_packets;
	u32 is_best, is_largest;

	sums->total += sent_in_rtt_of(this, other);
	sums->paths++;
	if (quality > sums->best_quality) {
		sums->best_quality = quality;
		sums->best = sums->best_and_largest = 0;
	}
	if (window > sums->largest_window) {
		sums->largest_window = window;
		sums->largest = sums->best_and_largest = 0;
	}
	is_best = quality == sums->best_quality;
	is_largest = window == sums->largest_window;
	sums->best += is_best;
	sums->largest += is_largest;
	sums->best_and_largest += is_best & is_largest;
}

INLINE s64 olia_alpha(const struct olia *sums, const struct path *this)
{
	u64 collected = sums->best - sums->best_and_largest;

	if (!collected || !sums->largest)
		return 0;
	if (this->window_packets >= sums->largest_window)
		return -(s64)(ONE / ((u64)sums->paths * sums->largest));
	if (olia_quality(this, this) >= sums->best_quality)
		return ONE / (sums->paths * collected);
	return 0;
}

INLINE s64 olia_gain(const struct olia *sums, const struct path *this)
{
	u64 own = share(in_packets(this->window_packets), sums->total);

	return (s64)((own * own) >> ONE_BITS) + olia_alpha(sums, this);
}

/*
 * BALIA (draft-walid-mptcp-congestion-control-04), with alpha = the rate of the fastest path / that of this one:
 * (w/rtt^2) / (sum of w_i/rtt_i)^2 (1 + alpha)/2 (4 + alpha)/5, and after a loss w/2 min(alpha, 1.5) less.
 */
struct balia {
	u64 total;
	u64 paths;
	u64 fastest;
};

INLINE void balia_add(struct balia *sums, const struct path *this, const struct path *other)
{
	u64 sent = sent_in_rtt_of(this, other);

	sums->total += sent;
	sums->paths++;
	if (sent > sums->fastest)
		sums->fastest = sent;
}

INLINE u64 balia_alpha(const struct balia *sums, const struct path *this)
{
	return at_most(sums->fastest / this->window_packets, in_packets(1ULL << 16));
}

INLINE u64 balia_gain(const struct balia *sums, const struct path *this)
{
	u64 own = share(in_packets(this->window_packets), sums->total);
	u64 alpha = balia_alpha(sums, this);
	u64 first = (own * (in_packets(1) + alpha)) >> FRACTION_BITS;
	u64 second = (own * (in_packets(4) + alpha)) >> FRACTION_BITS;

	return at_most(((first * second) >> ONE_BITS) / 10, ONE);
}

/* What a loss leaves of a window, both with FRACTION_BITS. */
INLINE u64 balia_left(const struct balia *sums, const struct path *this, u64 window)
{
	u64 alpha = at_least(at_most(balia_alpha(sums, this), in_packets(3) / 2), in_packets(1));

	return window - ((window * alpha / 2) >> FRACTION_BITS);
}

/* EWTCP (Honda et al., PFLDNeT 2009): a/w with a = 1/n^2, so that n paths have the window of one TCP. */
INLINE u64 ewtcp_gain(u64 paths)
{
	return ONE / (paths * paths);
}

/* Semicoupled (Wischik et al., NSDI 2011): 1 / (sum of w_i). */
INLINE u64 semicoupled_gain(u64 total_packets, const struct path *this)
{
	return share(this->window_packets, total_packets);
}

/* wVegas (draft-xu-mptcp-congestion-control): what waits of a window in queues, w (rtt - base) / rtt, in packets. */
INLINE u64 wvegas_queued(const struct path *this, u64 base_rtt_us)
{
	return in_packets(this->window_packets) * (this->rtt_us - base_rtt_us) / this->rtt_us;
}

/* Its rate, in units of which only ratios matter. */
INLINE u64 wvegas_rate(const struct path *this)
{
	return (this->window_packets << 36) / this->rtt_us;
}

/* What it is to keep queued, in packets: at least 2 of a total of 10 that is shared by rates. */
INLINE u64 wvegas_alpha(u64 rate, u64 total_rate)
{
	u64 alpha = 10 * share(rate, total_rate) >> (ONE_BITS - FRACTION_BITS);

	return at_least(alpha, in_packets(2));
}

/* What is left of a window when queues are drained: half of what the path holds without one. */
INLINE u64 wvegas_drained(const struct path *this, u64 base_rtt_us)
{
	return this->window_packets * base_rtt_us / (2 * this->rtt_us);
}

#endif

// SPDX-License-Identifier: GPL-2.0-only
/* The formulas of the eBPF controls over arrays of paths, for tests that call them. */
#include "../bpf/formulas.h"

s64 lia(const struct path *paths, u64 count, u64 this)
{
	struct lia sums = {0};

	for (u64 i = 0; i < count; i++)
		lia_add(&sums, &paths[this], &paths[i]);
	return lia_gain(&sums, &paths[this]);
}

s64 olia(const struct path *paths, u64 count, u64 this)
{
	struct olia sums = {0};

	for (u64 i = 0; i < count; i++)
		olia_add(&sums, &paths[this], &paths[i]);
	return olia_gain(&sums, &paths[this]);
}

static struct balia balia_sums(const struct path *paths, u64 count, u64 this)
{
	struct balia sums = {0};

	for (u64 i = 0; i < count; i++)
		balia_add(&sums, &paths[this], &paths[i]);
	return sums;
}

s64 balia(const struct path *paths, u64 count, u64 this)
{
	struct balia sums = balia_sums(paths, count, this);

	return balia_gain(&sums, &paths[this]);
}

s64 balia_loss(const struct path *paths, u64 count, u64 this)
{
	struct balia sums = balia_sums(paths, count, this);
	u64 window = in_packets(paths[this].window_packets);

	return window - balia_left(&sums, &paths[this], window);
}

u64 exact_window_of(u64 packets, s64 credit)
{
	return exact_window(packets, credit);
}

s64 credit_beyond_of(u64 packets, u64 window)
{
	return credit_beyond(packets, window);
}

s64 ewtcp(const struct path *paths, u64 count, u64 this)
{
	(void)paths, (void)this;
	return ewtcp_gain(count);
}

s64 semicoupled(const struct path *paths, u64 count, u64 this)
{
	u64 total = 0;

	for (u64 i = 0; i < count; i++)
		total += paths[i].window_packets;
	return semicoupled_gain(total, &paths[this]);
}

u64 wvegas_queued_of(const struct path *path, u64 base_rtt_us)
{
	return wvegas_queued(path, base_rtt_us);
}

u64 wvegas_alpha_of(const struct path *path, const struct path *others, u64 count)
{
	u64 total = 0;

	for (u64 i = 0; i < count; i++)
		total += wvegas_rate(&others[i]);
	return wvegas_alpha(wvegas_rate(path), total);
}

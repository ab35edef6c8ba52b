/* What highspeed and ghstcp share: the response function of RFC 3649 (a(w) and b(w) by section 5,
 * as a table: the kernel has no floating point), slow start, and growth. */
#ifndef TABANE_HIGHSPEED_H
#define TABANE_HIGHSPEED_H

#include <linux/types.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "kernel.h"
#include "hstcp_table.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define RENO_B 128 /* half, in 1/256 */

/* The last row whose window is not above w. The mask tells the verifier that it ends. */
static __always_inline __u32 row(__u32 w)
{
	__u32 low = 0;
	for (__u32 step = 64; step; step >>= 1)
		if (low + step < ROWS && TABLE[(low + step) & 127].w <= w)
			low += step;
	return low & 127;
}

/* Segments a round. */
static __always_inline __u32 a(__u32 w)
{
	return row(w) + 1;
}

/* Share of the window that a loss costs, in 1/256. */
static __always_inline __u32 b(__u32 w)
{
	return TABLE[row(w)].b;
}

static __always_inline bool in_slow_start(const struct tcp_sock *tp)
{
	return tp->snd_cwnd < tp->snd_ssthresh;
}

/* As tcp_is_cwnd_limited() of the kernel: a window that is not used does not grow. */
static __always_inline bool cwnd_limited(const struct tcp_sock *tp)
{
	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		return true;
	return in_slow_start(tp) && tp->snd_cwnd < 2 * tp->max_packets_out;
}

static __always_inline void set_cwnd(struct tcp_sock *tp, __u32 cwnd)
{
	tp->snd_cwnd = cwnd < tp->snd_cwnd_clamp ? cwnd : tp->snd_cwnd_clamp;
}

/* Slow start as the kernel's; how many segments are left for congestion avoidance. */
static __always_inline __u32 slow_start(struct tcp_sock *tp, __u32 acked)
{
	__u32 cwnd = tp->snd_cwnd + acked;
	if (cwnd > tp->snd_ssthresh)
		cwnd = tp->snd_ssthresh;
	acked -= cwnd - tp->snd_cwnd;
	set_cwnd(tp, cwnd);
	return acked;
}

/* Of the segments that an ACK acknowledges, those for congestion avoidance. */
static __always_inline __u32 avoidance(struct tcp_sock *tp, __u32 acked)
{
	if (!cwnd_limited(tp))
		return 0;
	return in_slow_start(tp) ? slow_start(tp, acked) : acked;
}

/* An ACK of `acked` segments: w += a / w for each of them. One ACK stands for many where the
 * receiver coalesces, so that counting ACKs would be slower than Reno there. */
static __always_inline void grow(struct tcp_sock *tp, __u32 acked, __u32 a)
{
	__u32 w = tp->snd_cwnd;
	__u32 count = tp->snd_cwnd_cnt + acked * a;
	if (w && count >= w) {
		__u32 whole = count / w;
		count -= whole * w;
		set_cwnd(tp, w + whole);
	}
	tp->snd_cwnd_cnt = count;
}

static __always_inline __u32 reduced(__u32 w, __u32 b)
{
	__u32 left = w - (__u32)((__u64)w * b >> 8);
	return left > 2 ? left : 2;
}

/* As tcp_reno_undo_cwnd(). */
static __always_inline __u32 undone(const struct tcp_sock *tp)
{
	return tp->snd_cwnd > tp->prior_cwnd ? tp->snd_cwnd : tp->prior_cwnd;
}

/* A function is named as the member of tcp_congestion_ops that it fills. Its section is called
 * fentry since aya-obj, which reads this file, knows no struct_ops; the loader sets the type. */
#define OP(name) SEC("fentry/" #name)

#endif

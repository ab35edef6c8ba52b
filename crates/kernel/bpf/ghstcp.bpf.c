/* gHSTCP (Zhang, Hasegawa, Murata), the original variant: HighSpeed growth, but Reno's while
 * round-trip times rise, since then a queue builds. Thresholds as in the engine's `ghstcp`
 * (crates/engine/src/congestion/ghstcp.rs), and the same open choice: a loss in Reno mode halves.
 *
 * Once a window of data: r, the correlation of RTT with time over this window and the one before.
 * Reno's growth from r > 0.5 on if RTTs also rose by 0.1 ms at least over the two windows,
 * HighSpeed's from r < 0.2 on, between them as before.
 *
 * What differs from the engine: sums are kept, not points. Every so many samples count, as the
 * window says when it begins, so that there are about 32, and 64 at most. All is integers. */
#include "highspeed.h"

#define LEAST 8                    /* points below which a correlation says nothing */
#define WANTED 32                  /* points of a window, about */
#define MOST 64                    /* points of a window, at most */
#define RISE_US 100                /* least rise over the two windows */
#define FAR_US (1 << 24)           /* samples further from the first than this are not taken */

/* Sums over the samples of a window: x is time since the first, y is RTT above the first's, us.
 * At most 64 samples below 2^24: x and y fit in 32 bits, the squares in 64. */
struct points {
	__u64 xx;
	__s64 xy;
	__u64 yy;
	__u32 x;
	__s32 y;
	__u32 origin; /* when the first was taken, us */
	__u32 base;   /* its RTT, us */
	__u16 count;
	__u16 stride;
	__u16 skipped;
	__u16 unused;
};

struct gentle {
	struct points this, last;
	__u32 mark; /* the window of data ends when this is acknowledged */
	__u32 congested;
};

_Static_assert(sizeof(struct gentle) <= 104, "icsk_ca_priv has 104 bytes");

static __always_inline struct gentle *gentle(struct tcp_sock *tp)
{
	return (struct gentle *)tp->inet_conn.icsk_ca_priv;
}

static __always_inline void clear(struct points *p)
{
	p->xx = 0;
	p->xy = 0;
	p->yy = 0;
	p->x = 0;
	p->y = 0;
	p->origin = 0;
	p->base = 0;
	p->count = 0;
	p->stride = 0;
	p->skipped = 0;
	p->unused = 0;
}

static __always_inline void add(struct points *p, __u32 now, __u32 rtt, __u32 cwnd)
{
	if (!p->count) {
		__u32 stride = cwnd / WANTED;
		p->stride = stride > 0xffff ? 0xffff : stride;
		p->origin = now;
		p->base = rtt;
	} else if (++p->skipped < p->stride || p->count >= MOST) {
		return;
	}
	p->skipped = 0;
	__u32 x = now - p->origin;
	__s32 y = (__s32)(rtt - p->base);
	if (x >= FAR_US || y >= FAR_US || y <= -FAR_US)
		return;
	p->count++;
	p->x += x;
	p->y += y;
	p->xx += (__u64)x * x;
	p->xy += (__s64)x * y;
	p->yy += (__u64)((__s64)y * y);
}

static __always_inline __u32 bits(__u64 v)
{
	__u32 n = 0;
	for (__u32 step = 32; step; step >>= 1)
		if (v >> step) {
			v >>= step;
			n += step;
		}
	return n + (v > 0);
}

/* By how much to shift so that 30 bits are left; even, if it is to be halved. */
static __always_inline __u32 excess(__u64 v)
{
	__u32 n = bits(v);
	return n > 30 ? (n - 30 + 1) & ~1u : 0;
}

/* The trend over both windows: 1 RTTs rise, -1 they do not, 0 neither can be said. */
static __always_inline int trend(const struct gentle *g, __u32 now)
{
	const struct points *l = &g->last, *t = &g->this;
	__s64 n = t->count, x = t->x, y = t->y, xy = t->xy;
	__s64 xx = t->xx, yy = t->yy;
	__u32 span = now - t->origin;
	if (l->count) {
		/* This window's sums as seen from where the last began. */
		__s64 dx = t->origin - l->origin, dy = (__s32)(t->base - l->base);
		span = now - l->origin;
		if (dx >= FAR_US || dy >= FAR_US || dy <= -FAR_US)
			return 0;
		xx += 2 * dx * x + n * dx * dx + l->xx;
		yy += 2 * dy * y + n * dy * dy + l->yy;
		xy += dx * y + dy * x + n * dx * dy + l->xy;
		x += n * dx + l->x;
		y += n * dy + l->y;
		n += l->count;
	}
	if (n < LEAST || span >= 2 * FAR_US)
		return 0;
	/* Means are taken off in an order that keeps the products below 2^63. */
	__u64 count = n, mean_x = (__u64)x / count;
	bool falls = y < 0;
	__u64 mean = (__u64)(falls ? -y : y) / count;
	__s64 mean_y = falls ? -(__s64)mean : (__s64)mean;
	__s64 vx = xx - (__s64)mean_x * x, vy = yy - mean_y * y, cov = xy - (__s64)mean_x * y;
	if (vx <= 0 || vy <= 0 || cov <= 0)
		return -1;
	/* r^2 = cov^2 / (vx vy), each in 30 bits. */
	__u32 sx = excess(vx), sy = excess(vy);
	__u64 vx30 = (__u64)vx >> sx, vy30 = (__u64)vy >> sy;
	__u64 c30 = (__u64)cov >> (sx / 2 + sy / 2);
	__u64 square = c30 * c30, whole = vx30 * vy30;
	if (square <= whole / 25) /* r < 0.2 */
		return -1;
	if (square < whole / 4) /* r < 0.5 */
		return 0;
	/* The slope, cov / vx, over the span. */
	__u32 shift = excess(vx > cov ? vx : cov);
	return ((__u64)cov >> shift) * span >= ((__u64)vx >> shift) * RISE_US ? 1 : 0;
}

OP(init)
void BPF_PROG(init, struct tcp_sock *tp)
{
	struct gentle *g = gentle(tp);
	clear(&g->this);
	clear(&g->last);
	g->mark = tp->snd_nxt;
	g->congested = 0;
}

OP(pkts_acked)
void BPF_PROG(pkts_acked, struct tcp_sock *tp, const struct ack_sample *sample)
{
	struct gentle *g = gentle(tp);
	__u32 now = tp->tcp_mstamp;
	if (sample->rtt_us > 0)
		add(&g->this, now, sample->rtt_us, tp->snd_cwnd);
	if ((__s32)(tp->snd_una - g->mark) <= 0)
		return;
	g->mark = tp->snd_nxt;
	int said = trend(g, now);
	if (said)
		g->congested = said > 0;
	g->last = g->this;
	clear(&g->this);
}

OP(cong_avoid)
void BPF_PROG(cong_avoid, struct tcp_sock *tp, __u32 ack, __u32 acked)
{
	acked = avoidance(tp, acked);
	if (acked)
		grow(tp, acked, gentle(tp)->congested ? 1 : a(tp->snd_cwnd));
}

/* Called once when a loss, a timeout or a mark reduces the window: the queue drains then. */
OP(ssthresh)
__u32 BPF_PROG(ssthresh, struct tcp_sock *tp)
{
	struct gentle *g = gentle(tp);
	__u32 share = g->congested ? RENO_B : b(tp->snd_cwnd);
	clear(&g->this);
	clear(&g->last);
	g->congested = 0;
	return reduced(tp->snd_cwnd, share);
}

OP(undo_cwnd)
__u32 BPF_PROG(undo_cwnd, struct tcp_sock *tp)
{
	return undone(tp);
}

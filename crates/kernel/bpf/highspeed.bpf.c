/* HighSpeed TCP (RFC 3649) as a congestion control of a stock kernel. Slow start and timeouts are
 * the kernel's; limited slow start (RFC 3742) is not in. */
#include "highspeed.h"

OP(cong_avoid)
void BPF_PROG(cong_avoid, struct tcp_sock *tp, __u32 ack, __u32 acked)
{
	acked = avoidance(tp, acked);
	if (acked)
		grow(tp, acked, a(tp->snd_cwnd));
}

OP(ssthresh)
__u32 BPF_PROG(ssthresh, struct tcp_sock *tp)
{
	return reduced(tp->snd_cwnd, b(tp->snd_cwnd));
}

OP(undo_cwnd)
__u32 BPF_PROG(undo_cwnd, struct tcp_sock *tp)
{
	return undone(tp);
}

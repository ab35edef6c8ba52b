/* HayACK (docs/papers.md, S2): pure ACKs leave by the interface with the smallest round-trip time,
 * addresses kept. Attached to clsact egress of every interface.
 *
 * The RTT of an interface is the smallest of what the kernel holds of the sockets that send by it,
 * over the current second and the one before; an interface by which nothing was sent for that long
 * has none, and ACKs do not go there. A socket that receives has no fresh RTT of its own: then it
 * is the receiver's estimate, from the time stamps that data brings back.
 *
 * The rest as the engine's `hayack` (crates/engine/src/egress/hayack.rs): the way changes only to
 * an interface that is faster by a fifth in three decisions, here one in 100 ms; and one ACK of
 * `every`, or one in 100 ms, goes by its own interface too. ACKs that open a connection or a
 * subflow (MP_CAPABLE, MP_JOIN) keep their way.
 *
 * PURE is the paper's form: each ACK by the interface that has the smallest RTT just then, and by
 * no other. */
#include "steer.h"
#include <bpf/bpf_core_read.h>
#include "kernel.h"

#define SLOT_NS 1000000000ull
#define DECIDE_NS 100000000ull
#define OWN_NS 100000000ull
#define DECISIONS 3

/* Of an interface. Several processors may write at once: a decision or a sample may be lost. */
struct state {
	__u64 second;     /* that `current` is of */
	__u64 decided_at; /* ns */
	__u64 own_at;     /* ns */
	__u32 current;    /* smallest RTT of this second, us; 0: none */
	__u32 before;     /* of the second before */
	__u32 way;        /* 1 + slot; 0: none chosen yet */
	__u32 better;     /* decisions in a row in which another was better */
	__u32 since_own;  /* ACKs since the last by its own interface */
	__u32 least;      /* scratch of a decision: the smallest RTT so far, us; 0: none, */
	__u32 best;       /* and the slot that has it */
	__u32 present;    /* scratch: the RTT of the present way, us; 0: unknown */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, IFACES);
	__type(key, __u32);
	__type(value, struct state);
} tabane_state SEC(".maps");

static __always_inline struct state *state(__u32 slot)
{
	return bpf_map_lookup_elem(&tabane_state, &slot);
}

/* RTT in us, 0 if unknown. */
static __always_inline __u32 rtt(const struct state *s, __u64 now)
{
	__u64 second = now / SLOT_NS;
	if (s->second == second)
		return s->current && (!s->before || s->current < s->before) ? s->current
									    : s->before;
	return s->second + 1 == second ? s->current : 0;
}

/* Notes what the socket knows; `false` if it is not one of those that are meant. */
static __always_inline bool measure(struct __sk_buff *skb, struct state *s, __u32 only, __u64 now)
{
	struct bpf_sock *sk = skb->sk;
	if (!sk)
		return false;
	sk = bpf_sk_fullsock(sk);
	if (!sk)
		return false;
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return false;
	if (only & ONLY_MPTCP && !(bpf_core_field_exists(tp->is_mptcp) && tp->is_mptcp))
		return false;
	__u32 sample = tp->srtt_us >> 3;
	__u32 received = tp->rcv_rtt_est.rtt_us >> 3;
	/* Data came later than any went. */
	if (received && (__s32)(tp->inet_conn.icsk_ack.lrcvtime - tp->lsndtime) > 0)
		sample = received;
	if (!sample)
		return true;
	__u64 second = now / SLOT_NS;
	if (s->second != second) {
		s->before = s->second + 1 == second ? s->current : 0;
		s->current = 0;
		s->second = second;
	}
	if (!s->current || sample < s->current)
		s->current = sample;
	return true;
}

/* The slot by which the ACKs of `own` leave. */
static __always_inline __u32 choose(struct state *s, __u32 own, const struct config *c, __u64 now)
{
	bool pure = c->only & PURE;
	if (c->target)
		return c->target - 1;
	__u32 way = s->way && s->way <= IFACES ? s->way - 1 : own;
	if (!pure && now - s->decided_at < DECIDE_NS)
		return way;
	s->decided_at = now;
	/* In memory, of which the verifier remembers nothing: in registers it would follow every
	 * order that eight RTTs can have. */
	volatile struct state *scratch = s;
	scratch->least = 0;
	scratch->best = own;
	scratch->present = 0;
	for (__u32 slot = 0; slot < IFACES; slot++) {
		struct state *other = state(slot);
		__u32 us = other ? rtt(other, now) : 0;
		if (!us)
			continue;
		if (slot == way)
			scratch->present = us;
		if (!scratch->least || us < scratch->least) {
			scratch->least = us;
			scratch->best = slot;
		}
	}
	if (pure) {
		s->way = scratch->best + 1;
		return scratch->best;
	}
	__u32 present = scratch->present;
	if (!present) { /* gone silent: its own, of which more is known soon */
		s->way = own + 1;
		s->better = 0;
		return own;
	}
	if ((__u64)scratch->least * 5 >= (__u64)present * 4) {
		s->better = 0;
		return way;
	}
	if (++s->better < DECISIONS)
		return way;
	s->better = 0;
	s->way = scratch->best + 1;
	return scratch->best;
}

SEC("classifier")
int tabane_hayack(struct __sk_buff *skb)
{
	__u32 own = slot_of(skb->ifindex);
	int said = first(skb, own);
	if (said != GO_ON)
		return said;
	struct config *c = config();
	struct state *s = state(own);
	struct packet packet = {};
	if (!c || !s || !parse(skb, c->only, &packet) || !packet.tcp)
		return TC_ACT_UNSPEC;
	__u64 now = bpf_ktime_get_ns();
	if (!measure(skb, s, c->only, now) || !packet.pure_ack || packet.opening)
		return TC_ACT_UNSPEC;
	COUNT(own, meant);
	__u32 way = choose(s, own, c, now);
	if (way == own) {
		COUNT(own, own);
		return TC_ACT_UNSPEC;
	}
	if (c->only & PURE || (++s->since_own < c->every && now - s->own_at < OWN_NS))
		return leave_by(skb, way);
	s->since_own = 0;
	s->own_at = now;
	COUNT(own, own);
	if (!copy_to(skb, way))
		COUNT(own, failed);
	return TC_ACT_UNSPEC;
}

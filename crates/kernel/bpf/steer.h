/* What bicast and hayack share: the interfaces and which packets are meant, as user space set
 * them, and how a packet leaves by another interface than the one it was routed to.
 *
 * A packet keeps its IP addresses; its frame gets the addresses of the other link. It goes there
 * by bpf_redirect_neigh(), so that the kernel's neighbour table gives the next hop's address, asks
 * for it if need be, and keeps it up to date. A clone cannot be sent that way: it is handed to the
 * other interface as it is, with the mark COPY, and the program there sends it once more. What has
 * its right frame bears the mark DONE, which ends the loop.
 *
 * The structures are those of src/steer/layout.rs. */
#ifndef TABANE_STEER_H
#define TABANE_STEER_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/pkt_cls.h>
#include <stdbool.h>
#include <stddef.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define COPY 0x7ab00c09
#define DONE 0x7ab0d09e

#define FAMILY_INET 2
#define FAMILY_INET6 10

#define IFACES 8    /* at most */
#define PREFIXES 64 /* at most, of each family */

/* Which packets; flags of struct config. */
#define ONLY_ACKS 1
#define ONLY_MPTCP 2
#define ONLY_TO 4
/* hayack: no hysteresis, no copies by the own interface. */
#define PURE 8

struct config {
	__u32 only;
	/* hayack: one ACK of so many goes by its own path too. */
	__u32 every;
	/* hayack: 1 + the slot of the interface that all ACKs take; 0: the fastest. */
	__u32 target;
};

/* A slot: an interface and its next hops; where there is none (0), destinations are neighbours. */
struct iface {
	__u32 ifindex; /* 0: the slot is free */
	__u32 clsact;  /* 1: user space made the qdisc, and is to remove it */
	__be32 gateway4;
	__be32 gateway6[4];
};

struct counters {
	__u64 meant;  /* packets of this interface that were meant to go elsewhere as well, or only */
	__u64 sent;   /* of other interfaces, sent by this one */
	__u64 failed; /* could not be handed to another interface */
	__u64 own;    /* hayack: ACKs by their own interface, of those meant */
};

struct prefix4 {
	__u32 len;
	__be32 address;
};

struct prefix6 {
	__u32 len;
	__be32 address[4];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct config);
} tabane_config SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, IFACES);
	__type(key, __u32);
	__type(value, struct iface);
} tabane_ifaces SEC(".maps");

/* The slot of an interface, by its index. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, IFACES);
	__type(key, __u32);
	__type(value, __u32);
} tabane_slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, IFACES);
	__type(key, __u32);
	__type(value, struct counters);
} tabane_counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, PREFIXES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct prefix4);
	__type(value, __u8);
} tabane_to4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, PREFIXES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct prefix6);
	__type(value, __u8);
} tabane_to6 SEC(".maps");

/* The compiler would take the address of the member first, which the verifier does not allow. */
static __always_inline void set_mark(struct __sk_buff *skb, __u32 mark)
{
	asm volatile("*(u32 *)(%0 + %2) = %1"
		     :
		     : "r"(skb), "r"(mark), "i"(offsetof(struct __sk_buff, mark))
		     : "memory");
}

/* What is to be known of a packet. */
struct packet {
	bool tcp;
	bool pure_ack; /* ACK, no SYN, FIN or RST, no payload */
	bool mptcp;    /* bears an MPTCP option */
	bool opening;  /* that option is MP_CAPABLE or MP_JOIN */
};

/* RFC 8684 section 3. */
#define KIND_MPTCP 30
#define MP_CAPABLE 0
#define MP_JOIN 1

static __always_inline struct config *config(void)
{
	__u32 key = 0;
	return bpf_map_lookup_elem(&tabane_config, &key);
}

static __always_inline struct iface *iface(__u32 slot)
{
	return bpf_map_lookup_elem(&tabane_ifaces, &slot);
}

/* IFACES if the interface is not among them. */
static __always_inline __u32 slot_of(__u32 ifindex)
{
	__u32 *slot = bpf_map_lookup_elem(&tabane_slots, &ifindex);
	return slot ? *slot : IFACES;
}

#define COUNT(slot, member)                                                          \
	do {                                                                         \
		__u32 key_ = slot;                                                   \
		struct counters *c_ = bpf_map_lookup_elem(&tabane_counters, &key_); \
		if (c_)                                                              \
			__sync_fetch_and_add(&c_->member, 1);                        \
	} while (0)

/* The MPTCP option among `len` bytes of options, 40 at most. */
static __always_inline void find_mptcp(const __u8 options[64], __u32 len, struct packet *packet)
{
	__u32 at = 0;
	for (int n = 0; n < 40; n++) {
		if (at > 37 || at + 2 >= len)
			return;
		__u8 kind = options[at & 63];
		if (kind == 0) /* end of the list */
			return;
		if (kind == 1) { /* no operation */
			at++;
			continue;
		}
		if (kind == KIND_MPTCP) {
			packet->mptcp = true;
			/* The subtype is the upper half of what follows the length. */
			packet->opening = options[(at + 2) & 63] >> 4 <= MP_JOIN;
			return;
		}
		__u8 length = options[(at + 1) & 63];
		if (length < 2)
			return;
		at += length;
	}
}

struct tcp_start {
	__u8 ports[4];
	__u8 seq[4];
	__u8 ack[4];
	__u8 offset; /* upper half: length of the header in words */
	__u8 flags;
	__u8 window[2];
	__u8 rest[4];
};

#define FIN 1
#define SYN 2
#define RST 4
#define ACK 16

/* `at` is where TCP begins, `end` where the packet ends. */
static __always_inline void parse_tcp(struct __sk_buff *skb, __u32 at, __u32 end,
				      struct packet *packet)
{
	struct tcp_start tcp;
	__u8 options[64] = {};
	if (bpf_skb_load_bytes(skb, at, &tcp, sizeof tcp))
		return;
	__u32 len = (tcp.offset >> 4) * 4;
	if (len < sizeof tcp)
		return;
	packet->tcp = true;
	packet->pure_ack = (tcp.flags & (FIN | SYN | RST | ACK)) == ACK && at + len == end;
	len -= sizeof tcp;
	if (len < 4 || len > 40 || bpf_skb_load_bytes(skb, at + sizeof tcp, options, len))
		return;
	find_mptcp(options, len, packet);
}

struct ipv4 {
	__u8 version_length;
	__u8 tos;
	__be16 length;
	__be16 id;
	__be16 fragment;
	__u8 ttl;
	__u8 protocol;
	__be16 check;
	__be32 from, to;
};

struct ipv6 {
	__u8 start[4];
	__be16 length;
	__u8 next;
	__u8 hops;
	__be32 from[4], to[4];
};

/* Whether the packet may leave its link at all and goes where it is meant to; fills `packet`.
 * TCP behind extension headers of IPv6, and in later fragments, is not seen. */
static __always_inline bool parse(struct __sk_buff *skb, __u32 only, struct packet *packet)
{
	__u8 mac[1];
	if (bpf_skb_load_bytes(skb, 0, mac, 1) || mac[0] & 1)
		return false;
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		struct ipv4 ip;
		if (bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof ip))
			return false;
		__u32 to = bpf_ntohl(ip.to);
		if (to >> 28 >= 14 || to >> 16 == 0xa9fe) /* multicast and above, link-local */
			return false;
		struct prefix4 key = { 32, ip.to };
		if (only & ONLY_TO && !bpf_map_lookup_elem(&tabane_to4, &key))
			return false;
		__u32 at = ETH_HLEN + (ip.version_length & 15) * 4;
		if (ip.protocol == IPPROTO_TCP && !(ip.fragment & bpf_htons(0x1fff)))
			parse_tcp(skb, at, ETH_HLEN + bpf_ntohs(ip.length), packet);
		return true;
	}
	if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		struct ipv6 ip;
		if (bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof ip))
			return false;
		__u32 to = bpf_ntohl(ip.to[0]);
		if (to >> 24 == 0xff || to >> 22 == 0xfe80 >> 6) /* multicast, link-local */
			return false;
		struct prefix6 key = { 128, { ip.to[0], ip.to[1], ip.to[2], ip.to[3] } };
		if (only & ONLY_TO && !bpf_map_lookup_elem(&tabane_to6, &key))
			return false;
		__u32 at = ETH_HLEN + sizeof ip;
		if (ip.next == IPPROTO_TCP)
			parse_tcp(skb, at, at + bpf_ntohs(ip.length), packet);
		return true;
	}
	return false;
}

/* Sends the packet by the interface of `slot`, for good. */
static __always_inline int leave_by(struct __sk_buff *skb, __u32 slot)
{
	struct iface *i = iface(slot);
	struct bpf_redir_neigh hop = {};
	if (!i || !i->ifindex)
		return TC_ACT_SHOT;
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		hop.nh_family = FAMILY_INET;
		hop.ipv4_nh = i->gateway4;
		if (!hop.ipv4_nh &&
		    bpf_skb_load_bytes(skb, ETH_HLEN + offsetof(struct ipv4, to), &hop.ipv4_nh, 4))
			return TC_ACT_SHOT;
	} else {
		hop.nh_family = FAMILY_INET6;
		__builtin_memcpy(hop.ipv6_nh, i->gateway6, 16);
		if (!(hop.ipv6_nh[0] | hop.ipv6_nh[1] | hop.ipv6_nh[2] | hop.ipv6_nh[3]) &&
		    bpf_skb_load_bytes(skb, ETH_HLEN + offsetof(struct ipv6, to), hop.ipv6_nh, 16))
			return TC_ACT_SHOT;
	}
	set_mark(skb, DONE);
	COUNT(slot, sent);
	return bpf_redirect_neigh(i->ifindex, &hop, sizeof hop, 0);
}

/* Hands a clone to the interface of `slot`, whose program sends it on. */
static __always_inline bool copy_to(struct __sk_buff *skb, __u32 slot)
{
	struct iface *i = iface(slot);
	if (!i || !i->ifindex)
		return false;
	__u32 mark = skb->mark;
	set_mark(skb, COPY);
	long failed = bpf_clone_redirect(skb, i->ifindex, 0);
	set_mark(skb, mark);
	return !failed;
}

/* What both do first; GO_ON: the packet is this host's own and not yet seen. */
#define GO_ON (TC_ACT_VALUE_MAX + 1)

static __always_inline int first(struct __sk_buff *skb, __u32 slot)
{
	if (skb->mark == DONE) {
		set_mark(skb, 0);
		return TC_ACT_UNSPEC;
	}
	if (slot >= IFACES)
		return TC_ACT_UNSPEC;
	return skb->mark == COPY ? leave_by(skb, slot) : GO_ON;
}

#endif

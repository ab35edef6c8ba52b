/* The few members of the kernel's structures that the programs read or write. Their offsets are
 * those of the running kernel: the loader relocates every access by its BTF (CO-RE). */
#ifndef TABANE_KERNEL_H
#define TABANE_KERNEL_H

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct inet_connection_sock {
	struct {
		__u32 lrcvtime;
	} icsk_ack;
	__u64 icsk_ca_priv[13];
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u8 is_cwnd_limited : 1;
	__u32 lsndtime;
	__u64 tcp_mstamp;
	__u32 srtt_us;
	__u32 max_packets_out;
	struct {
		__u32 rtt_us;
	} rcv_rtt_est;
	__u32 snd_cwnd;
	__u32 snd_cwnd_cnt;
	__u32 snd_cwnd_clamp;
	__u32 snd_ssthresh;
	__u32 prior_cwnd;
	__u32 snd_una;
	__u32 snd_nxt;
	_Bool is_mptcp;
};

struct ack_sample {
	__u32 pkts_acked;
	__s32 rtt_us;
	__u32 in_flight;
};

#pragma clang attribute pop

#endif

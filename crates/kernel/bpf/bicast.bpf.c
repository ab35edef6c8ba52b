/* Constant bicast (docs/papers.md, S1): what this host sends by one of its interfaces leaves by
 * all the others as well, addresses and all. Attached to clsact egress of each of them. */
#include "steer.h"

SEC("classifier")
int tabane_bicast(struct __sk_buff *skb)
{
	__u32 own = slot_of(skb->ifindex);
	int said = first(skb, own);
	if (said != GO_ON)
		return said;
	struct config *c = config();
	if (!c)
		return TC_ACT_UNSPEC;
	struct packet packet = {};
	if (!parse(skb, c->only, &packet) || (c->only & ONLY_ACKS && !packet.pure_ack) ||
	    (c->only & ONLY_MPTCP && !packet.mptcp))
		return TC_ACT_UNSPEC;
	COUNT(own, meant);
	for (__u32 slot = 0; slot < IFACES; slot++) {
		struct iface *i = iface(slot);
		if (i && i->ifindex && slot != own && !copy_to(skb, slot))
			COUNT(own, failed);
	}
	return TC_ACT_UNSPEC;
}

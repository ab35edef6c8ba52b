//! Rules of the routing policy (`ip-rule(8)`) that others have put before the client's: what they
//! match never comes to the client's.

use super::routes::of_both_families;
use crate::tun::host::PRIORITY_LEAST;
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::rule::{RuleAttribute, RuleMessage};
use std::collections::BTreeSet;

/// `RT_TABLE_LOCAL`
const LOCAL: u32 = 255;

/// The priorities of such rules, of both families; none where the kernel does not tell.
pub(super) fn before_ours() -> BTreeSet<u32> {
    let all = of_both_families(|family| {
        let mut message = RuleMessage::default();
        message.header.family = family;
        RouteNetlinkMessage::GetRule(message)
    });
    let rules = all.iter().filter_map(|answer| match answer {
        RouteNetlinkMessage::NewRule(rule) => Some(rule),
        _ => None,
    });
    rules.filter_map(priority_before_ours).collect()
}

/// The priority of a rule before ours, unless it is one that every host has.
fn priority_before_ours(rule: &RuleMessage) -> Option<u32> {
    let (mut priority, mut table, mut vrf) = (0, u32::from(rule.header.table), false);
    for attribute in &rule.attributes {
        match attribute {
            RuleAttribute::Priority(number) => priority = *number,
            RuleAttribute::Table(number) => table = *number,
            RuleAttribute::L3MDev(of_vrf) => vrf = *of_vrf,
            _ => {}
        }
    }
    let usual = table == LOCAL || vrf;
    (priority < PRIORITY_LEAST && !usual).then_some(priority)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_host_has_and_what_is_ours_is_left_out() {
        let rule = |attributes: &[RuleAttribute]| {
            let mut message = RuleMessage::default();
            message.attributes = attributes.to_vec();
            priority_before_ours(&message)
        };
        let (priority, table) = (RuleAttribute::Priority, RuleAttribute::Table);
        assert_eq!(rule(&[table(LOCAL)]), None);
        assert_eq!(rule(&[priority(1000), RuleAttribute::L3MDev(true)]), None);
        assert_eq!(rule(&[priority(PRIORITY_LEAST), table(7)]), None);
        assert_eq!(rule(&[priority(32_766), table(254)]), None);
        assert_eq!(rule(&[priority(5270), table(52)]), Some(5270));
        assert_eq!(rule(&[table(254)]), Some(0));
    }
}

//! The route table: for a path of a host and an address of another, where a packet goes.
//!
//! A route is a list of link directions and an arrival; a *cursor* is a place in it. Each path of
//! a host has a row with the hosts that it has routes to: an array over a range of host numbers
//! where most of these have one, else sorted pairs to be searched. So memory grows with the pairs
//! that talk to each other, and a look-up reads three or four cache lines.

use super::{Hop, NO_ROUTE};
use crate::packet::Packet;

/// A route from a path of a host to (a path of) another.
#[derive(Clone, Debug)]
pub(super) struct Route {
    /// Host, and the path of it by which packets arrive.
    pub(super) to: (usize, usize),
    /// Link directions.
    pub(super) links: Vec<u32>,
    /// Addresses of `to` that it leads to: 0 is the shared one, `p + 1` that of path `p`.
    pub(super) slots: Vec<usize>,
}

/// Routes from paths of hosts to addresses of hosts.
#[derive(Clone, Debug, Default)]
pub(super) struct Routes {
    /// Routes end to end: link directions, then an arrival.
    hops: Vec<Hop>,
    /// For a row and a host: how many addresses that has, then the cursor for each of them, or
    /// [`NO_ROUTE`].
    cursors: Vec<u32>,
    /// Places in `cursors`, [`NO_ROUTE`] if there is none: of a dense row one for each host
    /// number, of another pairs of host number and place.
    places: Vec<u32>,
    rows: Vec<Row>,
    /// The first row of each host, and the number of rows.
    first: Vec<u32>,
}

/// The routes from a path of a host.
#[derive(Clone, Copy, Debug)]
struct Row {
    /// Where it begins in `places`.
    start: u32,
    /// Hosts, or numbers of hosts, in it.
    len: u32,
    /// The lowest number of a host, or [`SPARSE`].
    lowest: u32,
}

/// A row of pairs.
const SPARSE: u32 = u32::MAX;
/// A range of host numbers may be so many times as long as there are hosts in it.
const LOOSE: usize = 4;

impl Routes {
    /// The rows that follow are of the next host.
    pub(super) fn begin_host(&mut self) {
        self.first.push(self.rows.len() as u32);
    }

    /// The routes from the next path of the host; of several to one address the last one counts.
    /// `slots` are how many addresses each host has.
    pub(super) fn add_row(&mut self, mut routes: Vec<Route>, slots: &[u32]) {
        routes.sort_by_key(|route| route.to.0);
        let mut row: Vec<(u32, u32)> = Vec::new();
        for route in routes {
            let (host, path) = route.to;
            if row.last().is_none_or(|(last, _)| *last != host as u32) {
                row.push((host as u32, self.cursors.len() as u32));
                self.cursors.push(slots[host]);
                self.cursors.extend((0..slots[host]).map(|_| NO_ROUTE));
            }
            let cursor = self.hops.len() as u32;
            self.hops.extend(route.links.iter().map(|link| Hop::Link(*link)));
            self.hops.push(Hop::Arrive(host as u32, path as u8));
            let place = row.last().map_or(0, |(_, place)| *place as usize);
            for slot in route.slots {
                self.cursors[place + 1 + slot] = cursor;
            }
        }
        let start = self.places.len() as u32;
        let (lowest, highest) = match (row.first(), row.last()) {
            (Some((lowest, _)), Some((highest, _))) => (*lowest, *highest),
            _ => return self.rows.push(Row { start, len: 0, lowest: 0 }),
        };
        let range = (highest - lowest) as usize + 1;
        if range <= LOOSE * row.len() {
            self.places.resize(start as usize + range, NO_ROUTE);
            for (host, place) in row {
                self.places[(start + host - lowest) as usize] = place;
            }
            self.rows.push(Row { start, len: range as u32, lowest });
        } else {
            self.rows.push(Row { start, len: row.len() as u32, lowest: SPARSE });
            self.places.extend(row.into_iter().flat_map(|(host, place)| [host, place]));
        }
    }

    /// Whether packets can name every hop, and rows every cursor.
    pub(super) fn fits(&self) -> bool {
        let most = Packet::MAX_CURSOR as usize;
        self.hops.len() <= most && self.cursors.len() <= most && self.places.len() <= most
    }

    /// There are no more hosts.
    pub(super) fn end(&mut self) {
        self.begin_host();
        self.hops.shrink_to_fit();
        self.cursors.shrink_to_fit();
        self.places.shrink_to_fit();
        self.rows.shrink_to_fit();
    }

    /// The hop at a cursor.
    #[inline]
    pub(super) fn hop(&self, cursor: u32) -> Hop {
        self.hops[cursor as usize]
    }

    /// Cursor to the first hop from a path of a host to an address of another.
    #[inline]
    pub(super) fn cursor(&self, host: usize, path: usize, to: usize, slot: usize) -> u32 {
        let Some(&[first, end]) = self.first.get(host..host + 2) else { return NO_ROUTE };
        let number = first as usize + path;
        if number >= end as usize {
            return NO_ROUTE;
        }
        let place = self.place(self.rows[number], to as u32) as usize;
        match self.cursors.get(place) {
            Some(&slots) if slot < slots as usize => self.cursors[place + 1 + slot],
            _ => NO_ROUTE,
        }
    }

    #[inline]
    fn place(&self, row: Row, to: u32) -> u32 {
        if row.lowest == SPARSE {
            return self.search(row, to);
        }
        let at = to.wrapping_sub(row.lowest);
        if at < row.len { self.places[(row.start + at) as usize] } else { NO_ROUTE }
    }

    fn search(&self, row: Row, to: u32) -> u32 {
        let start = row.start as usize;
        let pairs = self.places[start..start + 2 * row.len as usize].as_chunks::<2>().0;
        match pairs.binary_search_by_key(&to, |[host, _]| *host) {
            Ok(n) => pairs[n][1],
            Err(_) => NO_ROUTE,
        }
    }

    /// The hosts that a host has routes to, in order.
    pub(super) fn peers(&self, host: usize) -> Vec<usize> {
        let rows = &self.rows[self.first[host] as usize..self.first[host + 1] as usize];
        let mut peers: Vec<usize> = Vec::new();
        for row in rows {
            let places = &self.places[row.start as usize..];
            if row.lowest == SPARSE {
                let pairs = places.as_chunks::<2>().0.iter().take(row.len as usize);
                peers.extend(pairs.map(|[host, _]| *host as usize));
            } else {
                let places = places.iter().zip(row.lowest as usize..).take(row.len as usize);
                peers.extend(places.filter(|(p, _)| **p != NO_ROUTE).map(|(_, host)| host));
            }
        }
        peers.sort_unstable();
        peers.dedup();
        peers
    }
}

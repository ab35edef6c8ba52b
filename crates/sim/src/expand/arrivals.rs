//! Flows that arrive.

use super::Builder;
use super::table::{Table, TableError};
use crate::scenario::validate::MAX_FLOWS;
use crate::scenario::{Amount, Arrivals, Drawable as _, Fault, Flow};
use crate::seed::Rng;
use std::fmt::Display;
use tabane_config::quantity::{Size, Time};
use tabane_engine::Duration;

/// Where flows begin or end: a host, or one of a group at random.
struct Place {
    name: String,
    /// Hosts of the group.
    hosts: Option<u32>,
    rng: Rng,
}

impl Place {
    fn next(&mut self) -> String {
        match self.hosts {
            Some(hosts) => format!("{}-{}", self.name, self.rng.between(1, u64::from(hosts))),
            None => self.name.clone(),
        }
    }
}

impl Builder<'_> {
    pub(super) fn add_arrivals(&mut self, n: usize) -> Result<(), Fault> {
        let arrivals = &self.source.arrivals[n];
        let start = self.made.flow.len();
        let name = &arrivals.name;
        if name.is_empty() {
            let fault = Fault::new(&[&"arrivals", &n], "arrivals have a name");
            return Err(fault.help("add name = \"web\""));
        }
        let given = [arrivals.rate.is_some(), arrivals.size.is_some()];
        match (&arrivals.trace, given) {
            (Some(file), [false, false]) => self.trace(n, arrivals, file)?,
            (None, [true, true]) => self.poisson(n, arrivals)?,
            (Some(_), _) => {
                let message = "'trace' says when flows come and how large they are";
                let fault = Fault::new(&[&"arrivals", &n, &"trace"], message);
                return Err(fault.help("drop rate and size, or trace"));
            }
            (None, _) => {
                let fault = Fault::new(&[&"arrivals", &n], "how many flows, how large?");
                let help = "give rate = \"100/s\" and size = \"lognormal 20kB 3\", or a trace";
                return Err(fault.help(help));
            }
        }
        self.note_flows(start, &[&"arrivals", &n]);
        Ok(())
    }

    fn place(&self, n: usize, key: &'static str, name: &str) -> Place {
        let arrivals = &self.source.arrivals[n].name;
        let rng = self.seed().stream(&format!("arrivals/{arrivals}/{key}"));
        Place { name: name.to_owned(), hosts: self.groups.get(name).copied(), rng }
    }

    /// The two ends of flows.
    fn places(&self, n: usize, arrivals: &Arrivals) -> Result<[Place; 2], Fault> {
        if arrivals.from == arrivals.to && self.groups.get(&arrivals.from).is_none_or(|c| *c < 2) {
            let message = "flows from a host to itself";
            return Err(Fault::new(&[&"arrivals", &n, &"to"], message));
        }
        let [from, to] = [("from", &arrivals.from), ("to", &arrivals.to)];
        Ok([from, to].map(|(key, name)| self.place(n, key, name)))
    }

    /// Another flow, from and to where its turn is.
    fn arrive(
        &mut self,
        n: usize,
        (number, at, size): (u32, Duration, Size),
        [from, to]: [String; 2],
    ) -> Result<(), Fault> {
        let arrivals = &self.source.arrivals[n];
        if self.made.flow.len() as u64 >= MAX_FLOWS {
            return Err(Fault::new(&[&"arrivals", &n], format!("more than {MAX_FLOWS} flows")));
        }
        self.made.flow.push(Flow {
            name: Some(format!("{}.{number}", arrivals.name)),
            from,
            to,
            direction: arrivals.direction,
            start: Time(at),
            bulk: Some(Amount::Bytes(size)),
            ..Flow::default()
        });
        Ok(())
    }

    fn poisson(&mut self, n: usize, arrivals: &Arrivals) -> Result<(), Fault> {
        let (Some(rate), Some(size)) = (arrivals.rate, &arrivals.size) else { return Ok(()) };
        let most = arrivals.count.unwrap_or(u32::MAX);
        let end = arrivals.stop.unwrap_or(self.source.duration).min(self.source.duration).0;
        let window = end.saturating_sub(arrivals.start.0);
        let expected = (rate.0 * window.as_secs_f64()).min(f64::from(most));
        if expected > MAX_FLOWS as f64 {
            let message = format!("some {expected:.0} flows, the most is {MAX_FLOWS}");
            return Err(Fault::new(&[&"arrivals", &n, &"rate"], message));
        }
        let stream = |key: &str| format!("arrivals/{}/{key}", arrivals.name);
        let mut sizes = self.draw(&[&"arrivals", &n, &"size"], &stream("size"), size)?;
        let mut times = self.seed().stream(&stream("time"));
        let [mut from, mut to] = self.places(n, arrivals)?;
        let mut at = arrivals.start.0;
        for number in 1..=most {
            at = at + Duration((times.exponential() * 1e9 / rate.0) as u64);
            if at >= end {
                break;
            }
            let ends = both(&mut from, &mut to);
            self.arrive(n, (number, at, sizes.next()), ends)?;
        }
        Ok(())
    }

    fn trace(&mut self, n: usize, arrivals: &Arrivals, file: &str) -> Result<(), Fault> {
        let at: &[&dyn Display] = &[&"arrivals", &n, &"trace"];
        let table = self.files.table(file).map_err(|text| Fault::new(at, text))?;
        let wrong = |e: TableError| Fault::new(at, format!("'{file}': {e}"));
        let columns = Columns::of(&table).map_err(wrong)?;
        let [mut from, mut to] = self.places(n, arrivals)?;
        let most = arrivals.count.unwrap_or(u32::MAX) as usize;
        let stop = arrivals.stop.map_or(Duration::MAX, |stop| stop.0);
        for (row, number) in table.rows().iter().take(most).zip(1..) {
            let time = table.needed(row, columns.time).map_err(wrong)?;
            let size = table.needed(row, columns.size).map_err(wrong)?;
            if size < 1.0 {
                return Err(wrong(TableError::new(row.line, "a flow of 0 bytes")));
            }
            let begins = arrivals.start.0 + Duration(time as u64);
            let own = both(&mut from, &mut to);
            let ends = [columns.from, columns.to].map(|column| {
                column.map(|column| table.text(row, column)).filter(|name| !name.is_empty())
            });
            let [a, b] = own;
            let ends = [ends[0].map_or(a, str::to_owned), ends[1].map_or(b, str::to_owned)];
            if begins < stop && begins < self.source.duration.0 {
                self.arrive(n, (number, begins, Size::from_units(size)), ends)?;
            }
        }
        Ok(())
    }
}

/// One end and another.
fn both(from: &mut Place, to: &mut Place) -> [String; 2] {
    let (mut a, mut b) = (from.next(), to.next());
    let is_group = |place: &Place| place.hosts.is_some_and(|hosts| hosts > 1);
    while a == b {
        match (is_group(from), is_group(to)) {
            (_, true) => b = to.next(),
            (true, false) => a = from.next(),
            (false, false) => break,
        }
    }
    [a, b]
}

/// Where a file of flows has what.
struct Columns {
    time: (usize, f64),
    size: (usize, f64),
    from: Option<usize>,
    to: Option<usize>,
}

/// Nanoseconds.
const TIMES: &[(&str, f64)] = &[("time_s", 1e9), ("time_ms", 1e6)];

impl Columns {
    fn of(table: &Table) -> Result<Self, TableError> {
        let units = TIMES.iter().chain(Size::COLUMNS).map(|(name, _)| *name);
        table.only(&units.chain(["from", "to"]).collect::<Vec<_>>())?;
        let missing = |what: &str| TableError::new(1, format!("no column of {what}"));
        let time = table.one_of(TIMES)?.ok_or_else(|| missing("times; write time_s"))?;
        let size =
            table.one_of(Size::COLUMNS)?.ok_or_else(|| missing("sizes; write size_bytes"))?;
        Ok(Self { time, size, from: table.column("from"), to: table.column("to") })
    }
}

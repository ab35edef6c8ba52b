//! Routers and links of backbones.

use super::Builder;
use super::draw::Draw;
use super::table::{Table, TableError};
use crate::scenario::{Backbone, Drawable as _, Fault, Link, Shape};
use std::collections::BTreeMap;
use tabane_config::quantity::{Rate, Time};

/// A backbone before it has names of its own.
#[derive(Default)]
struct Plan {
    /// Routers at the edge, then the others.
    routers: Vec<String>,
    edges: usize,
    links: Vec<Span>,
}

/// A link between two routers.
struct Span {
    ends: [usize; 2],
    /// What a file says of it.
    rate: Option<Rate>,
    delay: Option<Time>,
}

impl Builder<'_> {
    pub(super) fn add_backbone(&mut self, name: &str, backbone: &Backbone) -> Result<(), Fault> {
        let plan = match &backbone.shape {
            Shape::Star(edges) => Plan::star(*edges as usize),
            Shape::Dumbbell => Plan::dumbbell(),
            Shape::FatTree(k) => Plan::fat_tree(*k as usize),
            Shape::File(file) => {
                let at: &[&dyn std::fmt::Display] = &[&"backbone", &name, &"shape"];
                let table = self.files.table(file).map_err(|text| Fault::new(at, text))?;
                let wrong = |e: TableError| Fault::new(at, format!("'{file}': {e}"));
                Plan::read(&table).map_err(wrong)?
            }
        };
        let stream = |key: &str| format!("backbone/{name}/{key}");
        let rate = backbone.rate.as_ref();
        let mut rates: Option<Draw<Rate>> = rate
            .map(|rate| self.draw(&[&"backbone", &name, &"rate"], &stream("rate"), rate))
            .transpose()?;
        let delay = backbone.delay.as_ref();
        let mut delays: Option<Draw<Time>> = delay
            .map(|delay| self.draw(&[&"backbone", &name, &"delay"], &stream("delay"), delay))
            .transpose()?;
        let start = self.made.link.0.len();
        let routers: Vec<String> = plan.routers.iter().map(|r| format!("{name}-{r}")).collect();
        for span in &plan.links {
            let [a, b] = span.ends.map(|end| routers[end].clone());
            // Drawn for every link, so that what a file says of one leaves the others alone.
            let (rate, delay) = (rates.as_mut().map(Draw::next), delays.as_mut().map(Draw::next));
            let link = Link {
                between: Some([a.clone(), b.clone()]),
                rate: span.rate.or(rate),
                delay: span.delay.or(delay),
                queue: backbone.queue.clone(),
                ..Link::default()
            };
            self.add_link(&[&"backbone", &name], format!("{a}--{b}"), link)?;
        }
        let range = start..self.made.link.0.len();
        self.origins.links.push((range, vec!["backbone".into(), name.into()]));
        self.edges.insert(name.to_owned(), routers[..plan.edges].to_vec());
        self.made.routers.extend(routers);
        Ok(())
    }
}

impl Plan {
    fn join(&mut self, a: usize, b: usize) {
        self.links.push(Span { ends: [a, b], rate: None, delay: None });
    }

    fn star(edges: usize) -> Self {
        let mut plan = Self { edges, ..Self::default() };
        plan.routers = (1..=edges).map(|n| n.to_string()).collect();
        plan.routers.push("hub".into());
        (0..edges).for_each(|edge| plan.join(edge, edges));
        plan
    }

    fn dumbbell() -> Self {
        let mut plan = Self { edges: 2, ..Self::default() };
        plan.routers = vec!["1".into(), "2".into()];
        plan.join(0, 1);
        plan
    }

    fn fat_tree(k: usize) -> Self {
        let half = k / 2;
        let edges = k * half;
        let mut plan = Self { edges, ..Self::default() };
        plan.routers = (1..=edges).map(|n| n.to_string()).collect();
        let pods = (1..=k).flat_map(|pod| (1..=half).map(move |a| format!("agg-{pod}-{a}")));
        plan.routers.extend(pods);
        plan.routers.extend((1..=half * half).map(|core| format!("core-{core}")));
        for pod in 0..k {
            for a in 0..half {
                let above = edges + pod * half + a;
                (0..half).for_each(|edge| plan.join(pod * half + edge, above));
                (0..half).for_each(|core| plan.join(above, 2 * edges + a * half + core));
            }
        }
        plan
    }

    /// A file of links: `from`, `to`, and, if wanted, rates and delays.
    fn read(table: &Table) -> Result<Self, TableError> {
        let units = Rate::COLUMNS.iter().chain(Time::COLUMNS).map(|(name, _)| *name);
        table.only(&["from", "to"].into_iter().chain(units).collect::<Vec<_>>())?;
        let missing = |name: &str| TableError::new(1, format!("no column '{name}'; write from,to"));
        let ends = ["from", "to"].map(|name| table.column(name).ok_or_else(|| missing(name)));
        let [from, to] = ends;
        let columns = [from?, to?];
        let (rate, delay) = (table.one_of(Rate::COLUMNS)?, table.one_of(Time::COLUMNS)?);
        let mut plan = Self::default();
        let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
        for row in table.rows() {
            let mut ends = [0; 2];
            for (end, column) in ends.iter_mut().zip(columns) {
                let name = table.text(row, column);
                if name.is_empty() {
                    return Err(TableError::new(row.line, "a node without a name"));
                }
                let new = plan.routers.len();
                *end = *numbers.entry(name).or_insert(new);
                if *end == new {
                    plan.routers.push(name.to_owned());
                }
            }
            if ends[0] == ends[1] {
                return Err(TableError::new(row.line, "a link from a node to itself"));
            }
            let number = |column: Option<(usize, f64)>| {
                column.map_or(Ok(None), |column| table.number(row, column))
            };
            let (rate, delay) = (number(rate)?, number(delay)?);
            if rate.is_some_and(|bps| bps < Rate::LEAST) {
                return Err(TableError::new(row.line, "a rate of less than 1 kbit/s"));
            }
            let (rate, delay) = (rate.map(Rate::from_units), delay.map(Time::from_units));
            plan.links.push(Span { ends, rate, delay });
        }
        plan.edges = plan.routers.len();
        plan.connected()?;
        Ok(plan)
    }

    /// Refuses a graph of several parts.
    fn connected(&self) -> Result<(), TableError> {
        let mut neighbours = vec![Vec::new(); self.routers.len()];
        for Span { ends: [a, b], .. } in &self.links {
            neighbours[*a].push(*b);
            neighbours[*b].push(*a);
        }
        let mut reached = vec![false; self.routers.len()];
        let mut stack = vec![0];
        while let Some(node) = stack.pop() {
            if !std::mem::replace(&mut reached[node], true) {
                stack.extend(neighbours[node].iter().filter(|next| !reached[**next]));
            }
        }
        match reached.iter().position(|reached| !reached) {
            None => Ok(()),
            Some(node) => {
                let (node, first) = (&self.routers[node], &self.routers[0]);
                let message = format!("not connected: no links lead from '{first}' to '{node}'");
                Err(TableError::new(1, message))
            }
        }
    }
}

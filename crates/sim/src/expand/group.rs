//! Hosts of groups, and their access links.

use super::draw::Draw;
use super::{Builder, keys};
use crate::scenario::{
    Access, AccessDirection, Drawable, Fault, Group, Link, LinkParams, Loss, Placement, Spread,
};
use crate::seed::Rng;
use crate::topology::MAX_HOSTS;
use std::collections::BTreeSet;
use std::fmt::Display;
use tabane_config::quantity::{Rate, Ratio, Time};

/// What is drawn for each access link: of both directions, up and down.
struct Draws {
    ways: [Way; 3],
    places: Option<Rng>,
}

#[derive(Default)]
struct Way {
    rate: Option<Draw<Rate>>,
    delay: Option<Draw<Time>>,
    loss: Option<Draw<Ratio>>,
}

impl Builder<'_> {
    pub(super) fn add_group(&mut self, n: usize) -> Result<(), Fault> {
        let group = &self.source.group[n];
        self.check_group(n, group)?;
        self.groups.insert(group.name.clone(), group.count);
        let start = self.made.host.0.len();
        let own: BTreeSet<&str> = self.source.host.names().collect();
        let names: Vec<String> = (1..=group.count).map(|k| group.host_name(k)).collect();
        for name in names.iter().filter(|name| !own.contains(name.as_str())) {
            self.made.host.0.push((name.clone(), group.host.clone()));
        }
        let range = start..self.made.host.0.len();
        self.origins.hosts.push((range, keys(&[&"group", &n, &"host"])));
        let mut access = Vec::new();
        for (k, one) in group.access.iter().enumerate() {
            access.push((self.routers(n, k, one)?, self.draws(n, k, group, one)?));
        }
        // Host by host, so that its paths stand side by side.
        let starts = self.made.link.0.len();
        for (number, host) in names.iter().enumerate() {
            for (k, one) in group.access.iter().enumerate() {
                let (routers, draws) = &mut access[k];
                let place = match &mut draws.places {
                    Some(rng) => rng.between(0, routers.len() as u64 - 1) as usize,
                    None => number % routers.len(),
                };
                let mut link = draws.link(one);
                link.between = Some([host.clone(), routers[place].clone()]);
                let name = format!("{host}-{}", one.name);
                self.add_link(&[&"group", &n, &"access", &k], name, link)?;
            }
        }
        for (place, at) in (starts..self.made.link.0.len()).zip((0..group.access.len()).cycle()) {
            self.origins.links.push((place..place + 1, keys(&[&"group", &n, &"access", &at])));
        }
        Ok(())
    }

    fn check_group(&self, n: usize, group: &Group) -> Result<(), Fault> {
        let fault = |key: &str, message: String| Fault::new(&[&"group", &n, &key], message);
        if group.name.is_empty() {
            return Err(fault("name", "a group has a name".into()).help("add name = \"home\""));
        }
        let name = &group.name;
        if self.groups.contains_key(name) {
            return Err(fault("name", format!("there are two groups '{name}'")));
        }
        if self.edges.contains_key(name) {
            return Err(fault("name", format!("'{name}' is a group and a backbone")));
        }
        let before = self.made.host.0.len();
        if group.count == 0 {
            return Err(fault("count", format!("the group '{name}' has no host")));
        }
        if before + group.count as usize > MAX_HOSTS {
            let message = format!("{} hosts, the most is {MAX_HOSTS}", group.count);
            return Err(fault("count", message));
        }
        if group.access.is_empty() {
            let fault = fault("access", format!("the hosts of '{name}' have no access link"));
            return Err(fault.help("add [[group.access]] with name, to and rate"));
        }
        for (k, one) in group.access.iter().enumerate() {
            let at: &[&dyn Display] = &[&"group", &n, &"access", &k];
            if one.name.is_empty() {
                let fault = Fault::new(at, "an access link has a name");
                return Err(fault.help("add name = \"dsl\""));
            }
            if group.access[..k].iter().any(|other| other.name == one.name) {
                let message = format!("there are two access links '{}'", one.name);
                return Err(Fault::new(at, message));
            }
            let misplaced =
                [("rate", one.link.rate.is_some()), ("delay", one.link.delay.is_some())];
            let mut misplaced = misplaced.into_iter().chain([
                ("loss", one.link.loss.is_some() && one.loss.is_some()),
                ("between", one.link.between.is_some()),
            ]);
            if let Some((key, _)) = misplaced.find(|(_, given)| *given) {
                let at: &[&dyn Display] = &[&"group", &n, &"access", &k, &"link", &key];
                let message = format!("'{key}' of an access link stands beside 'link', not in it");
                return Err(Fault::new(at, message));
            }
        }
        Ok(())
    }

    /// The routers over which access links are spread.
    fn routers(&self, n: usize, k: usize, access: &Access) -> Result<Vec<String>, Fault> {
        if let Some(edges) = self.edges.get(&access.to) {
            return Ok(edges.clone());
        }
        if self.made.routers.contains(&access.to) {
            return Ok(vec![access.to.clone()]);
        }
        let at: &[&dyn Display] = &[&"group", &n, &"access", &k, &"to"];
        let backbones = self.edges.keys().map(String::as_str);
        let known = backbones.chain(self.source.routers.iter().map(String::as_str));
        Err(Fault::unknown(at, "backbone or router", &access.to, known))
    }

    fn draws(
        &mut self,
        n: usize,
        k: usize,
        group: &Group,
        access: &Access,
    ) -> Result<Draws, Fault> {
        let stream = format!("group/{}/{}", group.name, access.name);
        let both = AccessDirection {
            rate: access.rate.clone(),
            delay: access.delay.clone(),
            loss: access.loss.clone(),
        };
        let mut ways: [Way; 3] = Default::default();
        let given = [(Some(&both), ""), (access.up.as_ref(), "up"), (access.down.as_ref(), "down")];
        for (way, (given, key)) in ways.iter_mut().zip(given) {
            let Some(given) = given else { continue };
            let mut at: Vec<&dyn Display> = vec![&"group", &n, &"access", &k];
            let mut stream = stream.clone();
            if !key.is_empty() {
                at.push(&key);
                stream = format!("{stream}/{key}");
            }
            way.rate = self.draw_some(&at, "rate", &stream, given.rate.as_ref())?;
            way.delay = self.draw_some(&at, "delay", &stream, given.delay.as_ref())?;
            way.loss = self.draw_some(&at, "loss", &stream, given.loss.as_ref())?;
        }
        let is_random = access.place == Placement::Random;
        let places = is_random.then(|| self.seed().stream(&format!("{stream}/place")));
        Ok(Draws { ways, places })
    }

    fn draw_some<T: Drawable>(
        &mut self,
        at: &[&dyn Display],
        key: &str,
        stream: &str,
        spread: Option<&Spread<T>>,
    ) -> Result<Option<Draw<T>>, Fault> {
        let at = [at, &[&key]].concat();
        spread.map(|spread| self.draw(&at, &format!("{stream}/{key}"), spread)).transpose()
    }
}

impl Draws {
    /// The next link.
    fn link(&mut self, access: &Access) -> Link {
        let [both, up, down] = &mut self.ways;
        let mut link = access.link.clone();
        let (rate, delay, loss) = both.next();
        link.rate = rate;
        link.delay = delay;
        link.loss = loss.or(link.loss.take());
        for (place, way) in [(&mut link.up, up), (&mut link.down, down)] {
            let (rate, delay, loss) = way.next();
            let sampled = LinkParams { rate, delay, loss, ..LinkParams::default() };
            if sampled != LinkParams::default() {
                place.get_or_insert_default().lay(&sampled);
            }
        }
        link
    }
}

impl Way {
    fn next(&mut self) -> (Option<Rate>, Option<Time>, Option<Loss>) {
        let loss = self.loss.as_mut().map(|loss| Loss::independent(loss.next()));
        (self.rate.as_mut().map(Draw::next), self.delay.as_mut().map(Draw::next), loss)
    }
}

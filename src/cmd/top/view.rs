//! What is on the screen, and what keys do to it.

use super::ask::Update;
use crate::cmd::status::title;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::collections::{BTreeMap, VecDeque};
use tabane_gateway::model::{AgentEvent, ConnStatus, PathStatus, Role, Status};

/// The state of the screen.
#[derive(Default)]
pub(super) struct View {
    /// Nothing before the first answer.
    pub(super) status: Option<Status>,
    /// In the order of the screen.
    pub(super) connections: Vec<ConnStatus>,
    /// The newest last; at [`EVENTS`] the oldest goes.
    pub(super) events: VecDeque<AgentEvent>,
    /// Why the snapshot is old.
    pub(super) trouble: Option<String>,
    /// What became of the last order.
    pub(super) message: Option<Result<String, String>>,
    /// Index of the chosen path.
    pub(super) chosen: usize,
    /// A role is being chosen.
    pub(super) choosing: bool,
    pub(super) sort: Sort,
    /// Rates by path, the newest last: received and sent.
    rates: BTreeMap<String, VecDeque<[f64; 2]>>,
}

/// Order of connections.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Sort {
    #[default]
    Traffic,
    Age,
    Target,
}

/// What a key asks for beyond the screen.
#[derive(PartialEq, Debug)]
pub(super) enum Action {
    None,
    Leave,
    Set { path: String, role: Role },
}

/// Rates kept of a path.
const SAMPLES: usize = 240;
/// Events kept.
const EVENTS: usize = 50;

impl Sort {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Traffic => "traffic",
            Self::Age => "age",
            Self::Target => "target",
        }
    }

    fn next(self) -> Self {
        match self {
            Self::Traffic => Self::Age,
            Self::Age => Self::Target,
            Self::Target => Self::Traffic,
        }
    }
}

impl View {
    /// Takes what came from the agent.
    pub(super) fn take(&mut self, updates: Update) {
        match updates {
            Update::Trouble(text) => self.trouble = Some(text),
            Update::Order(outcome) => self.message = Some(outcome),
            Update::Look(look) => {
                self.trouble = None;
                for path in &look.status.paths {
                    let rates = self.rates.entry(title(path)).or_default();
                    rates.push_back([path.rx_bps, path.tx_bps]);
                    if rates.len() > SAMPLES {
                        rates.pop_front();
                    }
                }
                let paths = &look.status.paths;
                self.rates.retain(|name, _| paths.iter().any(|path| title(path) == *name));
                self.chosen = self.chosen.min(paths.len().saturating_sub(1));
                self.events.extend(look.events);
                self.events.drain(..self.events.len().saturating_sub(EVENTS));
                self.connections = look.connections;
                self.status = Some(look.status);
                self.order();
            }
        }
    }

    /// Does what a key asks for.
    pub(super) fn handle_key(&mut self, key: KeyEvent) -> Action {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return if key.code == KeyCode::Char('c') { Action::Leave } else { Action::None };
        }
        if std::mem::take(&mut self.choosing) {
            return self.role(key.code).unwrap_or(Action::None);
        }
        self.message = None;
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Action::Leave,
            KeyCode::Up | KeyCode::Char('k') => self.chosen = self.chosen.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => {
                let paths = self.status.as_ref().map_or(0, |status| status.paths.len());
                self.chosen = (self.chosen + 1).min(paths.saturating_sub(1));
            }
            KeyCode::Char('p') => self.choosing = self.chosen_path().is_some(),
            KeyCode::Char('s') => {
                self.sort = self.sort.next();
                self.order();
            }
            _ => {}
        }
        Action::None
    }

    /// The chosen path.
    pub(super) fn chosen_path(&self) -> Option<&PathStatus> {
        self.status.as_ref()?.paths.get(self.chosen)
    }

    /// The rates of a path, the newest last: received (0) or sent (1).
    pub(super) fn rates(&self, path: &PathStatus, which: usize) -> Vec<f64> {
        let rates = self.rates.get(&title(path));
        rates.map(|all| all.iter().map(|rate| rate[which]).collect()).unwrap_or_default()
    }

    /// The largest rate of any path that is on record.
    pub(super) fn peak(&self) -> f64 {
        let all = self.rates.values().flatten().flatten();
        all.fold(0.0, |peak: f64, rate| peak.max(*rate))
    }

    fn role(&self, code: KeyCode) -> Option<Action> {
        let KeyCode::Char(c) = code else { return None };
        let by_number = c.to_digit(10).and_then(|n| Role::ALL.get((n as usize).checked_sub(1)?));
        let role = by_number.or_else(|| Role::ALL.iter().find(|r| r.to_string().starts_with(c)))?;
        let path = self.chosen_path()?;
        Some(Action::Set { path: path.name.clone(), role: *role })
    }

    fn order(&mut self) {
        match self.sort {
            Sort::Traffic => {
                let carried = |conn: &ConnStatus| conn.rx_bytes + conn.tx_bytes;
                self.connections.sort_by_key(|conn| (std::cmp::Reverse(carried(conn)), conn.id));
            }
            Sort::Age => {
                self.connections.sort_by(|a, b| b.age_s.total_cmp(&a.age_s).then(a.id.cmp(&b.id)));
            }
            Sort::Target => {
                self.connections.sort_by(|a, b| a.target.cmp(&b.target).then(a.id.cmp(&b.id)));
            }
        }
    }
}

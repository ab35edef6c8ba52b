//! Request and response over one connection: the sink asks, the source answers.

use super::Latencies;
use crate::scenario;
use tabane_engine::{Duration, Instant};

/// State of both ends.
#[derive(Debug)]
pub(super) struct Request {
    answer: u64,
    question: u64,
    think: Duration,
    count: u64,
    /// Questions asked.
    asked: u64,
    /// When the last one was.
    asked_at: Instant,
    /// Answers complete.
    answered: u64,
    /// When thinking ends; a tick is on its way.
    thinking: Option<Instant>,
}

impl Request {
    pub(super) fn new(spec: &scenario::Request) -> Self {
        Self {
            answer: spec.size.0,
            question: spec.request.0,
            think: spec.think.0,
            count: spec.count.map_or(u64::MAX, u64::from),
            asked: 0,
            asked_at: Instant::ZERO,
            answered: 0,
            thinking: None,
        }
    }

    /// Bytes of answers due, given the bytes of questions read.
    pub(super) fn goal(&self, questions_read: u64) -> u64 {
        questions_read / self.question * self.answer
    }

    /// Bytes of questions due.
    pub(super) fn asked(&self) -> u64 {
        self.asked * self.question
    }

    /// Takes note of complete answers and asks again when it is time to.
    pub(super) fn ask(
        &mut self,
        now: Instant,
        read: u64,
        stopping: bool,
        latencies: &mut Latencies,
    ) -> Option<Instant> {
        if self.answered < self.asked {
            if read < self.asked * self.answer {
                return None;
            }
            self.answered = self.asked;
            latencies.add((now - self.asked_at).0);
            if self.answered < self.count && !self.think.is_zero() {
                self.thinking = Some(now + self.think);
                return self.thinking;
            }
        }
        if self.thinking.is_none() && self.asked < self.count && !stopping {
            self.asked += 1;
            self.asked_at = now;
        }
        None
    }

    /// Thinking is over.
    pub(super) fn wake(&mut self) {
        self.thinking = None;
    }

    /// Whether the last answer has come.
    pub(super) fn is_over(&self, read: u64, stopping: bool) -> bool {
        let last = self.asked == self.count || (stopping && self.answered == self.asked);
        last && read >= self.asked * self.answer
    }
}

//! Which life the agent at the other end is in: each start of it draws a number, which its probes
//! or its answers to them say. What was connected to it before it was started again is over, which
//! it cannot say, since it does not know.

/// The lives of one agent, as heard.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Lives {
    now: Option<u32>,
    /// The one before: what it said may still be on its way by a slow path.
    ended: Option<u32>,
}

impl Lives {
    /// A life has been heard of. Whether by that one that was known has ended.
    pub(crate) fn meet(&mut self, life: u32) -> bool {
        if [self.now, self.ended].contains(&Some(life)) {
            return false;
        }
        let known = self.now.replace(life);
        self.ended = known.or(self.ended);
        known.is_some()
    }

    /// Another agent takes its place: the first that is heard of it ends nothing.
    pub(crate) fn leave(&mut self) {
        self.ended = self.now.take().or(self.ended);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_ends_once() {
        let mut lives = Lives::default();
        assert!(!lives.meet(1), "the first is no other");
        assert!(!lives.meet(1));
        assert!(lives.meet(2));
        assert!(!lives.meet(1) && !lives.meet(2), "late, by a slow path");
        assert!(lives.meet(3));
        lives.leave();
        assert!(!lives.meet(3), "of the agent that was left");
        assert!(!lives.meet(4), "the first of another agent");
        assert!(lives.meet(5));
    }
}

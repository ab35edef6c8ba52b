//! The inside of a link: what happens to packets between `push` and `pop`.
//!
//! What every packet passes is inlined whatever its length: registers that calls save and
//! arguments that they pass in memory were four per cent of a packet-hop's instructions.

use super::{
    Arrival, Backlog, Cause, Delay, Duration, Fate, Faults, Head, Instant, Link, LinkChange,
    LinkError, Lost, MAX_REPORTS, OwnLoss, Packet, Queue, Rate, Service, Verdict, Waiting, Work,
    loss,
};
use tabane_engine::policy::Spec;

impl<P: Packet> Link<P> {
    /// Does everything that happens up to `now`. Answers `now`, or the latest time known if that
    /// is later.
    #[inline(always)]
    pub(super) fn advance(&mut self, now: Instant) -> Instant {
        let now = now.max(self.clock);
        if self.turn <= now {
            self.turn(now);
        }
        self.clock = now;
        if self.is_due(now) {
            self.serve(now);
        }
        now
    }

    /// Whether a packet has left by then, or one that waits begins to be sent.
    #[inline(always)]
    fn is_due(&self, now: Instant) -> bool {
        match &self.service {
            Some(service) => service.departure <= now,
            None => !self.waiting.is_empty() && self.begins <= now,
        }
    }

    /// Does all that [`Self::is_due`].
    fn serve(&mut self, now: Instant) {
        while self.is_due(now) {
            match self.service {
                Some(_) => self.depart(),
                None => self.begin(self.begins),
            }
        }
    }

    /// Conditions change, each time at the moment at which they do.
    #[cold]
    #[inline(never)]
    fn turn(&mut self, now: Instant) {
        if self.aside.station.is_some() {
            return self.listen(now);
        }
        while self.turn <= now {
            let at = std::mem::replace(&mut self.turn, Instant::FAR_FUTURE);
            let Some(_) = self.course else { return };
            self.advance(at);
            let Some(course) = &mut self.course else { return };
            let change = course.step();
            self.turn = course.next();
            let changed = self.apply(at, &change);
            debug_assert!(changed.is_ok(), "conditions are within their ranges: {changed:?}");
            if self.turn == Instant::FAR_FUTURE {
                return;
            }
        }
    }

    /// The packet that is being sent has left: lost or on its way.
    fn depart(&mut self) {
        let Some(service) = self.service.take() else { return };
        let Service { began, departure, arrival, fate, mut packet, .. } = service;
        let took = departure - began;
        if !took.is_zero() {
            self.last_service = took;
        }
        self.stats.busy = self.stats.busy + took;
        if self.waiting.is_empty() {
            self.queue.on_empty(departure);
        } else {
            self.begins = self.rate.ready(departure);
        }
        if fate.is_gone() {
            return self.lose(departure, Cause::Loss, packet);
        }
        if let Some(bits) = fate.corrupt {
            packet.corrupt(bits);
            self.stats.corrupted += 1;
        }
        if fate.late.is_none() {
            self.arrival_max = self.arrival_max.max(arrival);
        }
        let copy = fate.duplicate.then(|| packet.duplicate());
        self.flight.push(arrival, packet);
        if let Some(copy) = copy {
            self.stats.duplicated.add(copy.wire_len());
            self.flight.push(arrival, copy);
        }
    }

    /// The head of the queue begins to be sent, unless the queue drops it and those behind it.
    #[inline(always)]
    fn begin(&mut self, now: Instant) {
        if self.waiting.subqueues().is_some() {
            return self.begin_one(now);
        }
        while let Some(Waiting { since, len, packet }) = self.waiting.pop() {
            let head = self.head(now, now - since, (len, packet.ect()));
            if self.send(&head, packet) {
                return;
            }
        }
        self.queue.on_empty(now);
    }

    /// The same where flows are kept apart, or a medium is shared.
    #[cold]
    fn begin_one(&mut self, now: Instant) {
        while let Some(waiting) = self.waiting.subqueues()
            && let Some(subqueue) = self.queue.next_subqueue(now, waiting)
            && let Some(Waiting { since, len, packet }) = self.waiting.pop_from(subqueue)
        {
            let behind = self.waiting.subqueues().map_or(0, |all| all.of(subqueue).bytes);
            let head =
                Head { behind, subqueue, ..self.head(now, now - since, (len, packet.ect())) };
            if self.send(&head, packet) {
                return self.contend();
            }
        }
        self.queue.on_empty(now);
    }

    #[inline(always)]
    fn head(&self, now: Instant, waited: Duration, (len, ect): (u32, bool)) -> Head {
        let behind = self.waiting.bytes();
        Head { now, waited, ect, len, behind, subqueue: 0 }
    }

    /// A packet comes to the queue, having waited since `since` (in another queue).
    pub(super) fn enqueue(&mut self, now: Instant, packet: P, since: Instant) {
        let len = packet.wire_len();
        let empty = self.service.is_none() && self.waiting.is_empty();
        if empty {
            self.begins = self.rate.ready(now);
        }
        let at_once = empty && self.begins <= now;
        let arrival = Arrival {
            now,
            len,
            ect: packet.ect(),
            packets: self.waiting.len(),
            bytes: self.waiting.bytes(),
            at_once,
            service: self.last_service,
            subqueue: 0,
        };
        if self.waiting.subqueues().is_some() {
            return self.enqueue_apart(arrival, packet, since);
        }
        let Some(packet) = self.admit(&arrival, packet) else { return };
        if !at_once {
            self.waiting.push(Waiting { since, len, packet });
            return;
        }
        let head = self.head(now, now - since, (len, packet.ect()));
        if !self.send(&head, packet) {
            self.queue.on_empty(now);
        }
    }

    /// The same where flows are kept apart, or a medium is shared: every packet waits, if only for
    /// a moment.
    #[cold]
    fn enqueue_apart(&mut self, arrival: Arrival, packet: P, since: Instant) {
        let subqueue = self.queue.subqueue(packet.flow());
        let come = Arrival { subqueue, ..arrival };
        let Some(packet) = self.admit(&come, packet) else { return };
        self.waiting.push_into(subqueue, Waiting { since, len: arrival.len, packet });
        while let Some(waiting) = self.waiting.subqueues()
            && let Some(subqueue) = self.queue.evict(waiting)
            && let Some(Waiting { packet, .. }) = self.waiting.pop_from(subqueue)
        {
            self.lose(arrival.now, Cause::Queue, packet);
        }
        if arrival.at_once {
            self.begin(arrival.now);
        }
    }

    /// The packet, if the queue takes it.
    #[inline(always)]
    fn admit(&mut self, arrival: &Arrival, packet: P) -> Option<P> {
        let mut packet = packet;
        match self.queue.admit(arrival, &mut self.aside.queue) {
            Verdict::Drop => {
                self.lose(arrival.now, Cause::Queue, packet);
                return None;
            }
            Verdict::Mark => self.mark(&mut packet),
            Verdict::Pass => {}
        }
        self.stats.enqueued.add(arrival.len);
        Some(packet)
    }

    /// Sends `packet` if the queue lets it go.
    #[inline(always)]
    fn send(&mut self, head: &Head, packet: P) -> bool {
        let mut packet = packet;
        let now = head.now;
        match self.queue.leave(head) {
            Verdict::Drop => {
                self.lose(now, Cause::Queue, packet);
                return false;
            }
            Verdict::Mark => self.mark(&mut packet),
            Verdict::Pass => {}
        }
        self.numbered += 1;
        let fate = self.sample_fate();
        let work = Work::bytes(head.len);
        let departure = self.rate.sent(now, work);
        let arrival = self.arrival(departure, &fate);
        self.service =
            Some(Service { began: now, start: now, work, departure, arrival, fate, packet });
        true
    }

    fn mark(&mut self, packet: &mut P) {
        packet.mark_ce();
        self.stats.marked += 1;
    }

    /// What becomes of the packet with number `numbered` once it has been sent. Inlined, so that
    /// the fate stays in registers: what has just been written bit by bit is slow to be copied.
    #[inline(always)]
    fn sample_fate(&mut self) -> Fate {
        let lost = self.draw_loss();
        let delay = self.delay.sample(&mut self.aside.delay);
        let mut fate = Fate { lost, delay, ..Fate::default() };
        if self.faulty {
            self.faults.apply(self.numbered, &mut self.aside.fault, &mut fate);
        }
        fate
    }

    #[inline(always)]
    fn draw_loss(&mut self) -> bool {
        self.loss.as_mut().is_some_and(|loss| loss.lost(&mut self.aside.loss))
    }

    #[inline(always)]
    pub(super) fn arrival(&self, departure: Instant, fate: &Fate) -> Instant {
        let arrival = departure + fate.delay;
        match fate.late {
            Some(late) => arrival + late,
            None if self.delay.reorders() => arrival,
            None => arrival.max(self.arrival_max),
        }
    }

    /// The loss model that `spec` names. While conditions say a loss, the link's own is kept aside
    /// as it is, and is what it was when they no longer do. Answers what that one has said already
    /// about the packet that is being sent.
    pub(super) fn set_loss(&mut self, spec: &Spec) -> Result<Option<bool>, LinkError> {
        let given = self.course.as_ref().is_some_and(|course| course.has_loss());
        if !given && let Some(own) = self.aside.own_loss.take() {
            self.loss = own.model;
            return Ok(own.said.filter(|said| said.0 == self.numbered).map(|said| said.1));
        }
        let model = std::mem::replace(&mut self.loss, loss::build(spec)?);
        if given && self.aside.own_loss.is_none() {
            let said = self.service.as_ref().map(|service| (self.numbered, service.fate.lost));
            self.aside.own_loss = Some(OwnLoss { model, said });
        }
        Ok(None)
    }

    /// The packet being sent meets the models after the rate that have changed. The others have
    /// said what becomes of it, and are not asked again: a loss model may count packets. `said` is
    /// what the present one has said before.
    pub(super) fn redraw(&mut self, change: &LinkChange, said: Option<bool>) {
        let Some(mut service) = self.service.take() else { return };
        if change.loss.is_some() {
            service.fate.lost = said.unwrap_or_else(|| self.draw_loss());
        }
        if change.delay.is_some() {
            service.fate.delay = self.delay.sample(&mut self.aside.delay);
        }
        if change.faults.is_some() {
            self.faults.apply(self.numbered, &mut self.aside.fault, &mut service.fate);
        }
        service.arrival = self.arrival(service.departure, &service.fate);
        self.service = Some(service);
    }

    pub(super) fn set_faults(&mut self, faults: Faults) {
        self.faulty = faults.any();
        // Stays on for those that are still on their way late.
        self.reorders |= self.delay.reorders() || faults.reorder > 0.0;
        self.faults = faults;
    }

    /// The packet that is being sent goes on at the new rate with what is left of it.
    pub(super) fn replace_rate(&mut self, now: Instant, rate: Box<dyn Rate>) {
        self.rate = rate;
        let Some(mut service) = self.service.take() else {
            if !self.waiting.is_empty() {
                self.begins = self.rate.ready(now);
            }
            return;
        };
        service.work = service.work.left(service.start, now, service.departure);
        service.start = self.rate.ready(now);
        service.departure = self.rate.sent(service.start, service.work);
        service.arrival = self.arrival(service.departure, &service.fate);
        self.service = Some(service);
    }

    /// Packets that wait come to the new queue in their order, at once.
    pub(super) fn replace_queue(&mut self, now: Instant, queue: Box<dyn Queue>) {
        let waiting = self.waiting.take();
        self.waiting = match &self.aside.station {
            Some(_) => Backlog::apart(queue.subqueues()),
            None => Backlog::new(queue.subqueues()),
        };
        self.queue = queue;
        for Waiting { since, packet, .. } in waiting {
            let enqueued = self.stats.enqueued;
            self.enqueue(now, packet, since);
            self.stats.enqueued = enqueued;
        }
    }

    pub(super) fn set_up(&mut self, now: Instant, up: bool) {
        self.up = up;
        if up {
            return;
        }
        self.withdraw(now);
        if let Some(service) = self.service.take() {
            self.stats.busy = self.stats.busy + (now - service.began);
            self.lose(now, Cause::Down, service.packet);
        }
        for Waiting { packet, .. } in self.waiting.take() {
            self.lose(now, Cause::Down, packet);
        }
        let flying: Vec<P> = self.flight.drain().collect();
        for packet in flying {
            self.lose(now, Cause::Down, packet);
        }
        // What comes next has nobody before it to wait for.
        self.arrival_max = Instant::ZERO;
        self.queue.on_empty(now);
    }

    pub(super) fn lose(&mut self, at: Instant, cause: Cause, packet: P) {
        let len = packet.wire_len();
        match cause {
            Cause::Queue => self.stats.dropped.add(len),
            Cause::Loss => self.stats.lost.add(len),
            Cause::Down => self.stats.cut.add(len),
        }
        if !self.report {
            return;
        }
        if self.losses.len() == MAX_REPORTS {
            self.losses.pop_front();
        }
        self.losses.push_back(Lost { at, cause, packet });
    }
}

//! What policies see, as Python has it: the engine's views with times in seconds.

use pyo3::prelude::*;
use pyo3::types::PyList;
use tabane_engine::view::{self, Id, RecoveryPhase, SubflowSet};
use tabane_engine::{Duration, Instant, congestion, scheduler};

/// Makes a class whose attributes are the fields.
macro_rules! view {
    ($(#[$doc:meta])* $name:ident { $($(#[$about:meta])* $field:ident: $kind:ty),* $(,)? }) => {
        $(#[$doc])*
        #[pyclass(frozen, get_all, module = "tabane")]
        pub(crate) struct $name { $($(#[$about])* pub(crate) $field: $kind),* }

        #[pymethods]
        impl $name {
            fn __repr__(&self) -> String {
                let fields = [$(format!("{}={:?}", stringify!($field), self.$field)),*];
                format!("{}({})", stringify!($name), fields.join(", "))
            }
        }
    };
}

view! {
    /// A subflow. Bytes are payload, times seconds, rates bytes per second.
    SubflowView {
        /// Its number within the connection; answers name it.
        id: u8,
        /// Number of the path that has its local address.
        path: u8,
        /// Established and not closing: may carry data at all.
        usable: bool,
        /// Low priority, asked for by either side.
        backup: bool,
        /// Timeouts have gone unanswered, or its path is down.
        potentially_failed: bool,
        /// Loss recovery: `open`, `recovery` or `loss`.
        phase: &'static str,
        /// Bytes that may leave now; 0 if not usable.
        sendable: u64,
        /// Congestion window, bytes.
        cwnd: u64,
        /// Slow start threshold, bytes; `None` before the first loss.
        ssthresh: Option<u64>,
        /// Bytes in flight (pipe of RFC 6675).
        in_flight: u64,
        /// Bytes bound and not yet acknowledged cumulatively.
        unacked: u64,
        /// When the oldest of them was last sent, seconds; infinite if there is none.
        oldest_sent: f64,
        /// Payload of a full segment, bytes.
        mss: u64,
        /// Smoothed RTT, seconds; 0 before the first sample.
        srtt: f64,
        /// RTT variation (RFC 6298), seconds.
        rttvar: f64,
        /// Latest RTT sample, seconds.
        latest_rtt: f64,
        /// Smallest sample of the last ten seconds or so, seconds.
        min_rtt: f64,
        /// Largest sample of the last ten seconds or so, seconds.
        max_rtt: f64,
        /// Pacing rate or an estimate of it, bytes per second.
        pacing_rate: u64,
        /// Delivery rate estimate, bytes per second; 0 when unknown.
        delivery_rate: u64,
        /// What the bottleneck forwards, as far as segments that waited there have shown, bytes per
        /// second; 0 when unknown.
        capacity: u64,
        /// Whether segments wait there behind what others send.
        cross_traffic: bool,
        /// Share of bytes lost, of the last half thousand segments or so.
        loss_rate: f32,
        /// Bytes acknowledged since the last loss, or between the last two.
        loss_interval: u64,
    }
}

view! {
    /// Data to be placed.
    Work {
        /// When it is asked, seconds.
        now: f64,
        /// Data position of the first byte.
        dsn: u64,
        /// Bytes: at most a segment.
        len: u64,
        /// Bytes written and not yet bound to a subflow, this included.
        unsent: u64,
        /// Subflows that have carried it already, if it is a reinjection.
        carried: Vec<u8>,
        /// Whether it is a reinjection.
        reinjection: bool,
        /// Bytes that the peer's window allows beyond what has been sent.
        window_space: u64,
        /// The peer's window beyond its acknowledgement, bytes.
        window: u64,
    }
}

view! {
    /// The oldest data not acknowledged at data level, when it blocks the connection.
    Blocked {
        /// When it is asked, seconds.
        now: f64,
        /// Data position of the first byte.
        dsn: u64,
        /// Subflows that have carried it.
        carried: Vec<u8>,
        /// The subflow that has space but may carry no new data.
        fast: u8,
        /// Blocked by the peer's window rather than by the own send buffer.
        window_full: bool,
    }
}

view! {
    /// An acknowledgement that delivers data.
    Ack {
        /// When it arrived, seconds.
        now: f64,
        /// Number of the subflow.
        subflow: u8,
        /// Bytes newly acknowledged cumulatively.
        acked: u64,
        /// Bytes newly delivered, cumulatively or by SACK.
        delivered: u64,
        /// RTT sample, seconds, if there is one.
        rtt: Option<f64>,
        /// Smoothed RTT after it, seconds.
        srtt: f64,
        /// Smallest RTT seen (windowed), seconds.
        min_rtt: f64,
        /// By how much longer it was under way than the least seen, at least, seconds: zero unless
        /// the peer's timestamps tell, in milliseconds.
        reverse_delay: f64,
        /// Bytes in flight before it.
        prior_in_flight: u64,
        /// Bytes in flight after it.
        in_flight: u64,
        /// Payload of a full segment, bytes.
        mss: u64,
        /// The window was what limited sending since the last one.
        cwnd_limited: bool,
        /// Loss recovery: `open`, `recovery` or `loss`.
        phase: &'static str,
        /// First byte not acknowledged, a position.
        snd_una: u64,
        /// Next byte to send, a position.
        snd_nxt: u64,
        /// Delivery rate sample, bytes per second, if there is one.
        delivery_rate: Option<u64>,
        /// The sample was limited by the application.
        app_limited: bool,
        /// The bottleneck's rate by trains of segments, bytes per second; 0 if not known.
        capacity: u64,
        /// Bytes newly marked lost since the last one.
        lost: u64,
    }
}

view! {
    /// A congestion signal.
    Congestion {
        /// When it was seen, seconds.
        now: f64,
        /// Number of the subflow.
        subflow: u8,
        /// `loss`, `rto` or `ecn`.
        kind: &'static str,
        /// Bytes in flight when it happened.
        in_flight: u64,
        /// Payload of a full segment, bytes.
        mss: u64,
        /// Next byte to send, a position.
        snd_nxt: u64,
    }
}

fn seconds(span: Duration) -> f64 {
    span.as_secs_f64()
}

/// Seconds; what never comes is at infinity.
fn moment(at: Instant) -> f64 {
    if at == Instant::FAR_FUTURE { f64::INFINITY } else { at.as_secs_f64() }
}

fn phase(phase: RecoveryPhase) -> &'static str {
    phase.name()
}

fn ids(set: SubflowSet) -> Vec<u8> {
    set.iter().map(Id::index).collect()
}

impl SubflowView {
    fn of(view: &view::SubflowView) -> Self {
        Self {
            id: view.id.0,
            path: view.path.0,
            usable: view.usable,
            backup: view.backup,
            potentially_failed: view.potentially_failed,
            phase: phase(view.phase),
            sendable: view.sendable,
            cwnd: view.cwnd,
            ssthresh: (view.ssthresh != u64::MAX).then_some(view.ssthresh),
            in_flight: view.in_flight,
            unacked: view.unacked,
            oldest_sent: moment(view.oldest_sent),
            mss: view.mss,
            srtt: seconds(view.srtt),
            rttvar: seconds(view.rttvar),
            latest_rtt: seconds(view.latest_rtt),
            min_rtt: seconds(view.min_rtt),
            max_rtt: seconds(view.max_rtt),
            pacing_rate: view.pacing_rate,
            delivery_rate: view.delivery_rate,
            capacity: view.capacity,
            cross_traffic: view.cross_traffic,
            loss_rate: view.loss_rate,
            loss_interval: view.loss_interval,
        }
    }
}

/// Subflows as a list.
pub(super) fn subflows<'py>(
    py: Python<'py>,
    views: &[view::SubflowView],
) -> PyResult<Bound<'py, PyList>> {
    let views: Vec<Py<SubflowView>> =
        views.iter().map(|view| Py::new(py, SubflowView::of(view))).collect::<PyResult<_>>()?;
    PyList::new(py, views)
}

impl From<&scheduler::Work> for Work {
    fn from(work: &scheduler::Work) -> Self {
        Self {
            now: moment(work.now),
            dsn: work.dsn.0,
            len: work.len,
            unsent: work.unsent,
            carried: ids(work.carried),
            reinjection: work.reinjection,
            window_space: work.window_space,
            window: work.window,
        }
    }
}

impl From<&scheduler::Blocked> for Blocked {
    fn from(blocked: &scheduler::Blocked) -> Self {
        Self {
            now: moment(blocked.now),
            dsn: blocked.dsn.0,
            carried: ids(blocked.carried),
            fast: blocked.fast.0,
            window_full: blocked.window_full,
        }
    }
}

impl From<&congestion::Ack> for Ack {
    fn from(ack: &congestion::Ack) -> Self {
        Self {
            now: moment(ack.now),
            subflow: ack.subflow.0,
            acked: ack.acked,
            delivered: ack.delivered,
            rtt: ack.rtt.map(seconds),
            srtt: seconds(ack.srtt),
            min_rtt: seconds(ack.min_rtt),
            reverse_delay: seconds(ack.reverse_delay),
            prior_in_flight: ack.prior_in_flight,
            in_flight: ack.in_flight,
            mss: ack.mss,
            cwnd_limited: ack.cwnd_limited,
            phase: phase(ack.phase),
            snd_una: ack.snd_una,
            snd_nxt: ack.snd_nxt,
            delivery_rate: ack.delivery_rate.map(|rate| rate.0),
            app_limited: ack.delivery_rate.is_some_and(|rate| rate.1),
            capacity: ack.capacity,
            lost: ack.lost,
        }
    }
}

impl From<&congestion::Congestion> for Congestion {
    fn from(event: &congestion::Congestion) -> Self {
        Self {
            now: moment(event.now),
            subflow: event.subflow.0,
            kind: event.kind.name(),
            in_flight: event.in_flight,
            mss: event.mss,
            snd_nxt: event.snd_nxt,
        }
    }
}

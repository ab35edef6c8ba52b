//! What policies see, as Python has it: the engine's views with times in seconds.

use pyo3::prelude::*;
use pyo3::types::PyList;
use tabane_engine::view::{self, Id, RecoveryPhase, SubflowSet};
use tabane_engine::{Duration, Instant, congestion, scheduler};

/// Makes a class whose attributes are the fields.
macro_rules! view {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $kind:ty),* $(,)? }) => {
        $(#[$doc])*
        #[pyclass(frozen, get_all, module = "tabane")]
        pub(crate) struct $name { $(pub(crate) $field: $kind),* }

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
        id: u8,
        path: u8,
        usable: bool,
        backup: bool,
        potentially_failed: bool,
        phase: &'static str,
        sendable: u64,
        cwnd: u64,
        ssthresh: Option<u64>,
        in_flight: u64,
        unacked: u64,
        oldest_sent: f64,
        mss: u64,
        srtt: f64,
        rttvar: f64,
        latest_rtt: f64,
        min_rtt: f64,
        max_rtt: f64,
        pacing_rate: u64,
        delivery_rate: u64,
        loss_interval: u64,
    }
}

view! {
    /// Data to be placed.
    Work {
        now: f64,
        dsn: u64,
        len: u64,
        unsent: u64,
        carried: Vec<u8>,
        reinjection: bool,
        window_space: u64,
        window: u64,
    }
}

view! {
    /// The oldest data not acknowledged at data level, when it blocks the connection.
    Blocked {
        now: f64,
        dsn: u64,
        carried: Vec<u8>,
        fast: u8,
        window_full: bool,
    }
}

view! {
    /// An acknowledgement that delivers data.
    Ack {
        now: f64,
        subflow: u8,
        acked: u64,
        delivered: u64,
        rtt: Option<f64>,
        srtt: f64,
        min_rtt: f64,
        prior_in_flight: u64,
        in_flight: u64,
        mss: u64,
        cwnd_limited: bool,
        phase: &'static str,
        snd_una: u64,
        snd_nxt: u64,
        delivery_rate: Option<u64>,
        app_limited: bool,
        lost: u64,
    }
}

view! {
    /// A congestion signal.
    Congestion {
        now: f64,
        subflow: u8,
        kind: &'static str,
        in_flight: u64,
        mss: u64,
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
            prior_in_flight: ack.prior_in_flight,
            in_flight: ack.in_flight,
            mss: ack.mss,
            cwnd_limited: ack.cwnd_limited,
            phase: phase(ack.phase),
            snd_una: ack.snd_una,
            snd_nxt: ack.snd_nxt,
            delivery_rate: ack.delivery_rate.map(|rate| rate.0),
            app_limited: ack.delivery_rate.is_some_and(|rate| rate.1),
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

//! What the page asks for: JSON of the agent's state, and a change of a path.

use super::guard::guard;
use super::history::{History, Samples};
use super::listener::{Bounded, Bounds};
use super::metrics;
use super::token::Token;
use crate::model::{AgentEvent, ConnStatus, Role, Status};
use crate::request_channel::{Answer, Request, RequestSender};
use axum::extract::{DefaultBodyLimit, Query, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router, middleware};
use serde::{Deserialize, Serialize};
use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::MissedTickBehavior;

/// What the handlers share.
pub(super) struct App {
    request_channel: RequestSender,
    token: Option<Token>,
    /// Reading needs the token too.
    token_reads: bool,
    seen: Mutex<Seen>,
}

/// The last look at the agent.
#[derive(Default)]
struct Seen {
    status: Status,
    history: History,
    /// Why there is nothing newer.
    error: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Since {
    /// Samples that the page has.
    #[serde(default)]
    samples: u64,
    /// The last event that it has.
    #[serde(default, alias = "happening")]
    event: u64,
}

#[derive(Serialize)]
struct Snapshot {
    status: Status,
    samples: Samples,
    events: Vec<AgentEvent>,
    /// Whether the agent answers; if not, why.
    error: Option<String>,
    /// Whether there is a token that allows changes.
    changes: bool,
}

#[derive(Serialize)]
struct Connections {
    /// All of them, also those that are not in the list.
    open: usize,
    /// Those that carried most.
    connections: Vec<ConnStatus>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PathChange {
    path: String,
    #[serde(default)]
    role: Option<Role>,
    #[serde(default)]
    cap_bps: Option<u64>,
}

#[derive(Serialize)]
struct Problem {
    error: String,
}

/// Between two looks at the agent.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long who has the wrong token waits for the answer.
const WRONG_TOKEN_WAIT: Duration = Duration::from_millis(500);
/// Connections of browsers at a time; who comes then takes the place of one that is idle.
const BROWSERS: Bounds = Bounds { all: 64, each: 32 };
/// Largest body of a change, bytes.
const BODY_MAX: usize = 4096;
/// Connections shown.
const CONNECTIONS_MAX: usize = 100;
/// Events sent at once, the newest.
const EVENTS_MAX: usize = 200;

const HTML: &str = include_str!("page/index.html");
const CSS: &str = include_str!("page/style.css");
const JS: &[&str] = &[include_str!("page/draw.js"), include_str!("page/app.js")];

impl App {
    pub(super) fn new(
        request_channel: RequestSender,
        token: Option<Token>,
        token_reads: bool,
    ) -> Arc<Self> {
        Arc::new(Self { request_channel, token, token_reads, seen: Mutex::default() })
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask(self: &Arc<Self>, request: Request) -> Result<Answer, String> {
        let app = Arc::clone(self);
        // The agent may take its time; the page's thread must not wait for it.
        let asked = tokio::task::spawn_blocking(move || app.request_channel.ask(request)).await;
        match asked {
            Ok(Ok(Answer::Error(text))) => Err(text),
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("the question was lost".into()),
        }
    }

    /// Looks at the agent; a sample for the graphs if `sample`.
    async fn look(self: &Arc<Self>, sample: bool) {
        let answer = self.ask(Request::Status).await;
        let mut seen = self.seen();
        match answer {
            Ok(Answer::Status(status)) => {
                if sample {
                    seen.history.take(&status);
                }
                seen.status = *status;
                seen.error = None;
            }
            Ok(_) => seen.error = Some("the agent gave another answer than asked for".into()),
            Err(error) => seen.error = Some(error),
        }
    }

    /// Whether the request may do what it wants; an error answer if not.
    async fn check(&self, headers: &HeaderMap, change: bool) -> Result<(), Response> {
        if !change && !self.token_reads {
            return Ok(());
        }
        let Some(token) = &self.token else {
            let text = "changes are off: set `web_token_file` in the agent's configuration";
            return Err(problem(StatusCode::FORBIDDEN, text));
        };
        let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        match given.and_then(|value| value.strip_prefix("Bearer ")) {
            Some(given) if token.is(given) => Ok(()),
            Some(_) => {
                tokio::time::sleep(WRONG_TOKEN_WAIT).await;
                Err(problem(StatusCode::UNAUTHORIZED, "that is not the token"))
            }
            None => Err(problem(StatusCode::UNAUTHORIZED, "this needs the token")),
        }
    }
}

/// Serves until it is dropped.
pub(super) async fn run(app: Arc<App>, page: Option<TcpListener>, metrics: Option<TcpListener>) {
    let looking = page.is_some();
    let looks = async {
        if !looking {
            return;
        }
        let mut every = tokio::time::interval(LOOK_EVERY);
        every.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            every.tick().await;
            app.look(true).await;
        }
    };
    let page = serve(page, page_router(Arc::clone(&app)));
    let metrics_app = Arc::clone(&app);
    let metrics_router = Router::new()
        .route("/metrics", get(scrape))
        .layer(middleware::from_fn(guard))
        .with_state(metrics_app);
    let metrics = serve(metrics, metrics_router);
    tokio::join!(looks, page, metrics);
}

async fn serve(listener: Option<TcpListener>, router: Router) {
    let Some(listener) = listener else { return };
    // A listener that is bound and set up cannot fail to be registered, short of descriptors.
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let _ = axum::serve(Bounded::new(listener, BROWSERS), router).await;
}

fn page_router(app: Arc<App>) -> Router {
    Router::new()
        .route("/", get(|| text("text/html; charset=utf-8", HTML.into())))
        .route("/style.css", get(|| text("text/css; charset=utf-8", CSS.into())))
        .route("/app.js", get(|| text("text/javascript; charset=utf-8", JS.concat())))
        .route("/api/state", get(state))
        .route("/api/connections", get(connections))
        .route("/api/path", post(change))
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .layer(middleware::from_fn(guard))
        .with_state(app)
}

async fn text(kind: &'static str, text: String) -> Response {
    ([(CONTENT_TYPE, kind)], text).into_response()
}

async fn scrape(State(app): State<Arc<App>>) -> Response {
    match app.ask(Request::Status).await {
        Ok(Answer::Status(status)) => {
            text("text/plain; version=0.0.4; charset=utf-8", metrics::text(&status)).await
        }
        Ok(_) => problem(StatusCode::INTERNAL_SERVER_ERROR, "not a status"),
        Err(error) => problem(StatusCode::SERVICE_UNAVAILABLE, &error),
    }
}

async fn state(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Query(since): Query<Since>,
) -> Response {
    if let Err(refused) = app.check(&headers, false).await {
        return refused;
    }
    let asked = app.ask(Request::Events { since: since.event }).await;
    let mut events = match asked {
        Ok(Answer::Events(all)) => all,
        _ => Vec::new(),
    };
    events.drain(..events.len().saturating_sub(EVENTS_MAX));
    let seen = app.seen();
    let snapshot = Snapshot {
        status: seen.status.clone(),
        samples: seen.history.since(since.samples),
        events,
        error: seen.error.clone(),
        changes: app.token.is_some(),
    };
    drop(seen);
    Json(snapshot).into_response()
}

async fn connections(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    if let Err(refused) = app.check(&headers, false).await {
        return refused;
    }
    match app.ask(Request::Connections).await {
        Ok(Answer::Connections(mut all)) => {
            let open = all.len();
            all.sort_by_key(|conn| std::cmp::Reverse(conn.rx_bytes + conn.tx_bytes));
            all.truncate(CONNECTIONS_MAX);
            Json(Connections { open, connections: all }).into_response()
        }
        Ok(_) => problem(StatusCode::INTERNAL_SERVER_ERROR, "not connections"),
        Err(error) => problem(StatusCode::SERVICE_UNAVAILABLE, &error),
    }
}

async fn change(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Json(change): Json<PathChange>,
) -> Response {
    if let Err(refused) = app.check(&headers, true).await {
        return refused;
    }
    let PathChange { path, role, cap_bps } = change;
    match app.ask(Request::SetPath { path, role, cap_bps }).await {
        Ok(_) => {
            // So that whoever looks next sees it.
            app.look(false).await;
            StatusCode::NO_CONTENT.into_response()
        }
        Err(error) => problem(StatusCode::CONFLICT, &error),
    }
}

fn problem(status: StatusCode, error: &str) -> Response {
    (status, Json(Problem { error: error.into() })).into_response()
}

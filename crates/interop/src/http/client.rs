//! The client: one GET or PUT on one connection, its body to a sink, counted and hashed.
//!
//! Asks the server to close afterwards. Redirects are not followed but named.

use super::body::{BodyError, BodyReader, Framing};
use super::head::{HeadError, HeadReader, Response};
use super::{BLOCK, hex};
use bytes::{Bytes, BytesMut};
use sha2::{Digest, Sha256};
use std::io::{self, Read, Write};
use tabane_engine::mptcp::Connection;
use tabane_engine::record::CloseReason;
use tabane_engine::{ConnId, Duration, Endpoint, Event, Instant};
use tabane_net::driver::App;
use thiserror::Error;

/// A request on its way.
pub struct Fetch {
    conn: ConnId,
    request: FetchRequest,
    phase: Phase,
    output: Bytes,
    upload_left: u64,
    input: Bytes,
    head: HeadReader,
    response: Option<Response>,
    body: BodyReader,
    excerpt: Vec<u8>,
    hasher: Sha256,
    upload_hasher: Sha256,
    received: u64,
    expected: Option<u64>,
    reading: bool,
    moved: Option<Instant>,
    outcome: Option<Result<FetchReport, FetchError>>,
    finished: Option<Instant>,
    gone: bool,
}

/// What to ask for, and where the answer goes.
pub struct FetchRequest {
    /// For the Host field: host and port as in the URL.
    pub host: String,
    /// Path and query.
    pub target: String,
    /// Ask for what comes after so many bytes that are here already; `hashed` has seen them.
    pub resume: u64,
    /// See `resume`.
    pub hashed: Sha256,
    /// PUT this instead of GET: what to read, and how many bytes of it.
    pub upload: Option<(Box<dyn Read + Send>, u64)>,
    /// Where the body of the response goes.
    pub sink: Box<dyn Write + Send>,
    /// How long nothing may happen.
    pub idle_timeout: Duration,
}

/// How far it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FetchState {
    /// Bytes of the body received, or, for an upload, handed to the connection.
    pub done: u64,
    /// Bytes that there will be, if that is known.
    pub total: Option<u64>,
    /// Whether the answer is complete.
    pub finished: bool,
}

/// What came of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FetchReport {
    /// Status of the response: 200, 201 or 206.
    pub status: u16,
    /// Bytes of the body received, without those there were before.
    pub received: u64,
    /// SHA-256 of the whole body, those there were before included.
    pub sha256: String,
    /// Bytes uploaded.
    pub uploaded: u64,
    /// SHA-256 of the upload.
    pub upload_sha256: String,
    /// Whether the connection spoke MPTCP to the end.
    pub mptcp: bool,
}

/// Why there is no answer.
#[derive(Error, Debug)]
pub enum FetchError {
    /// There was no connection.
    #[error("cannot connect: {}", close_reason(*.0))]
    Connect(CloseReason),
    /// The connection ended before the answer did.
    #[error("the connection ended too early: {}", close_reason(*.0))]
    Closed(CloseReason),
    /// Nothing moved for so long.
    #[error("nothing came for {0} s")]
    Idle(u64),
    /// The server does not speak HTTP as we do.
    #[error("bad response: {0}")]
    Head(#[from] HeadError),
    /// See [`BodyError`].
    #[error("bad response: {0}")]
    Body(#[from] BodyError),
    /// The server says no.
    #[error("the server answered {status} {reason}: {excerpt}")]
    Status {
        /// Its status code.
        status: u16,
        /// Its words.
        reason: String,
        /// The begin of the body.
        excerpt: String,
    },
    /// It is somewhere else, and redirects are not followed.
    #[error("it is at {0} (redirects are not followed)")]
    Redirect(String),
    /// A resumed download that does not begin where we are.
    #[error("the server cannot go on from byte {0}: download the whole again")]
    Range(u64),
    /// The sink does not take the body.
    #[error("cannot write: {0}")]
    Sink(#[source] io::Error),
    /// The upload cannot be read.
    #[error("cannot read what is to be sent: {0}")]
    Source(#[source] io::Error),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Connecting,
    /// Request and upload are being written, the response is awaited.
    Head,
    Body,
}

/// How much of an error page is kept, bytes.
const EXCERPT_MAX: usize = 300;
/// How long the connection may take to end properly after the answer.
const LINGER: Duration = Duration::from_secs(2);

impl Fetch {
    /// A request on a connection that was opened just now, at `now`.
    #[must_use]
    pub fn new(now: Instant, conn: ConnId, request: FetchRequest) -> Self {
        let hasher = request.hashed.clone();
        let upload_left = request.upload.as_ref().map_or(0, |(_, length)| *length);
        Self {
            conn,
            output: Bytes::from(request.head()),
            request,
            phase: Phase::Connecting,
            upload_left,
            input: Bytes::new(),
            head: HeadReader::default(),
            response: None,
            body: BodyReader::new(Framing::Length(0)),
            excerpt: Vec::new(),
            hasher,
            upload_hasher: Sha256::new(),
            received: 0,
            expected: None,
            reading: true,
            moved: Some(now),
            outcome: None,
            finished: None,
            gone: false,
        }
    }

    /// The connection it is on.
    #[must_use]
    pub fn conn(&self) -> ConnId {
        self.conn
    }

    /// How far it is.
    #[must_use]
    pub fn state(&self) -> FetchState {
        let finished = self.outcome.is_some();
        match &self.request.upload {
            Some((_, length)) => {
                FetchState { done: length - self.upload_left, total: Some(*length), finished }
            }
            None => FetchState { done: self.received, total: self.expected, finished },
        }
    }

    /// When the answer was complete, or the failure certain.
    #[must_use]
    pub fn finished_at(&self) -> Option<Instant> {
        self.finished
    }

    /// What came of it, once it is finished; an error if it was stopped before.
    ///
    /// # Errors
    /// [`FetchError`].
    pub fn into_outcome(self) -> Result<FetchReport, FetchError> {
        self.outcome.unwrap_or(Err(FetchError::Closed(CloseReason::Aborted)))
    }

    fn pump(&mut self, endpoint: &mut Endpoint, now: Instant) {
        let Some(conn) = endpoint.connection(self.conn) else { return };
        if self.phase == Phase::Connecting {
            return;
        }
        if self.outcome.is_some() {
            while conn.read(BLOCK).is_some() {}
            return;
        }
        let result = self.write(conn, now).and_then(|()| self.read(conn, now));
        match result {
            Ok(false) => {}
            Ok(true) => {
                let mptcp = conn.info(now).mptcp;
                self.finish(now, Ok(self.report(mptcp)));
                conn.close(now);
            }
            Err(error) => {
                self.finish(now, Err(error));
                conn.abort(now);
            }
        }
    }

    fn finish(&mut self, now: Instant, outcome: Result<FetchReport, FetchError>) {
        if self.outcome.is_none() {
            self.outcome = Some(outcome);
            self.finished = Some(now);
        }
    }

    fn report(&self, mptcp: bool) -> FetchReport {
        let length = self.request.upload.as_ref().map_or(0, |(_, length)| *length);
        FetchReport {
            status: self.response.as_ref().map_or(0, |response| response.status),
            received: self.received,
            sha256: hex::digest(&self.hasher),
            uploaded: length - self.upload_left,
            upload_sha256: hex::digest(&self.upload_hasher),
            mptcp,
        }
    }

    fn write(&mut self, conn: &mut Connection, now: Instant) -> Result<(), FetchError> {
        loop {
            if self.output.is_empty() {
                let Some((source, _)) = self.request.upload.as_mut() else { return Ok(()) };
                // A server that has answered already does not want the rest.
                if self.upload_left == 0 || self.response.is_some() {
                    return Ok(());
                }
                let size = self.upload_left.min(BLOCK as u64);
                let mut block = BytesMut::zeroed(size as usize);
                source.read_exact(&mut block).map_err(FetchError::Source)?;
                self.upload_left -= size;
                self.upload_hasher.update(&block);
                self.output = block.freeze();
            }
            if conn.write(&mut self.output) > 0 {
                self.moved = Some(now);
            }
            if !self.output.is_empty() {
                return Ok(());
            }
        }
    }

    /// Takes what has come; whether the answer is complete.
    fn read(&mut self, conn: &mut Connection, now: Instant) -> Result<bool, FetchError> {
        loop {
            if self.phase == Phase::Body && self.body.is_done() {
                return self.end_of_body().map(|()| true);
            }
            if !self.reading {
                return Ok(false);
            }
            let Some(data) = conn.read(BLOCK) else {
                if !conn.is_finished() {
                    return Ok(false);
                }
                if self.phase != Phase::Body {
                    return Err(FetchError::Closed(CloseReason::Finished));
                }
                self.body.finish()?;
                continue;
            };
            self.moved = Some(now);
            self.input = data;
            self.take()?;
        }
    }

    /// Takes the input.
    fn take(&mut self) -> Result<(), FetchError> {
        while self.phase == Phase::Head && !self.input.is_empty() {
            let Some((response, rest)) = self.head.response(std::mem::take(&mut self.input))?
            else {
                return Ok(());
            };
            self.input = rest;
            // Interim responses (RFC 9110 section 15.2) come before the one that counts.
            if response.status >= 200 {
                self.start_body(response)?;
            }
        }
        while let Some(piece) = self.body.next(&mut self.input)? {
            if self.response.as_ref().is_some_and(|response| response.status >= 300) {
                let room = EXCERPT_MAX - self.excerpt.len();
                self.excerpt.extend_from_slice(&piece[..piece.len().min(room)]);
                if self.excerpt.len() == EXCERPT_MAX {
                    return self.end_of_body();
                }
                continue;
            }
            self.received += piece.len() as u64;
            self.hasher.update(&piece);
            self.request.sink.write_all(&piece).map_err(FetchError::Sink)?;
        }
        Ok(())
    }

    fn start_body(&mut self, response: Response) -> Result<(), FetchError> {
        let resume = self.request.resume;
        if (200..300).contains(&response.status) && resume > 0 {
            let first = response.content_range.map(|(first, _)| first);
            if response.status != 206 || first != Some(resume) {
                return Err(FetchError::Range(resume));
            }
        }
        let framing = match response.status {
            204 | 304 => Framing::Length(0),
            _ => response.framing,
        };
        if let Framing::Length(length) = framing {
            self.expected = Some(length);
        }
        self.body = BodyReader::new(framing);
        self.response = Some(response);
        self.phase = Phase::Body;
        Ok(())
    }

    fn end_of_body(&mut self) -> Result<(), FetchError> {
        let Some(response) = &self.response else { return Ok(()) };
        match (response.status, &response.location) {
            (200..=299, _) => self.request.sink.flush().map_err(FetchError::Sink),
            (301 | 302 | 303 | 307 | 308, Some(location)) => {
                Err(FetchError::Redirect(location.clone()))
            }
            (status, _) => {
                let reason = response.reason.clone();
                let text = String::from_utf8_lossy(&self.excerpt);
                let excerpt = text.split_whitespace().collect::<Vec<_>>().join(" ");
                Err(FetchError::Status { status, reason, excerpt })
            }
        }
    }
}

impl App for Fetch {
    fn on_event(&mut self, endpoint: &mut Endpoint, now: Instant, conn: ConnId, event: Event) {
        if conn != self.conn {
            return;
        }
        match event {
            Event::Connected => {
                self.phase = Phase::Head;
                self.moved = Some(now);
            }
            Event::Closed(reason) => {
                let error = match self.phase {
                    Phase::Connecting => FetchError::Connect(reason),
                    Phase::Head | Phase::Body => FetchError::Closed(reason),
                };
                self.finish(now, Err(error));
                self.gone = true;
                return;
            }
            Event::Flushed if self.outcome.is_some() => self.gone = true,
            _ => {}
        }
        self.pump(endpoint, now);
    }

    fn on_wakeup(&mut self, endpoint: &mut Endpoint, now: Instant) {
        if let Some(finished) = self.finished {
            self.gone |= now >= finished + LINGER;
            return;
        }
        let limit = self.request.idle_timeout;
        let idle = self.moved.is_some_and(|moved| now.saturating_since(moved) >= limit);
        if idle && self.reading {
            self.finish(now, Err(FetchError::Idle(limit.as_millis() / 1000)));
            if let Some(conn) = endpoint.connection(self.conn) {
                conn.abort(now);
            }
        }
    }

    fn next_wakeup(&self) -> Option<Instant> {
        if let Some(finished) = self.finished {
            return Some(finished + LINGER);
        }
        self.moved.filter(|_| self.reading).map(|moved| moved + self.request.idle_timeout)
    }

    fn set_reading(&mut self, endpoint: &mut Endpoint, now: Instant, _: ConnId, on: bool) {
        self.reading = on;
        self.moved = Some(now);
        self.pump(endpoint, now);
    }

    fn on_stop(&mut self, endpoint: &mut Endpoint, now: Instant) {
        if let Some(conn) = endpoint.connection(self.conn) {
            conn.abort(now);
        }
    }

    fn is_done(&self) -> bool {
        self.gone
    }
}

impl FetchRequest {
    fn head(&self) -> String {
        let method = if self.upload.is_some() { "PUT" } else { "GET" };
        let mut head = format!(
            "{method} {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: tabane/{}\r\nAccept: */*\r\n\
             Connection: close\r\n",
            self.target,
            self.host,
            env!("CARGO_PKG_VERSION")
        );
        if let Some((_, length)) = &self.upload {
            head.push_str(&format!("Content-Length: {length}\r\n"));
        }
        if self.resume > 0 {
            head.push_str(&format!("Range: bytes={}-\r\n", self.resume));
        }
        head.push_str("\r\n");
        head
    }
}

/// In words.
#[must_use]
pub fn close_reason(reason: CloseReason) -> String {
    match reason {
        CloseReason::Finished => "the peer closed it".into(),
        CloseReason::Reset(None) => "reset by the peer".into(),
        CloseReason::Reset(Some(code)) => format!("reset by the peer (MP_TCPRST reason {code})"),
        CloseReason::Aborted => "we gave it up".into(),
        CloseReason::FastClose => "reset by the peer (MP_FASTCLOSE)".into(),
        CloseReason::TimedOut => "the peer does not answer".into(),
        CloseReason::Refused => "refused: nobody listens there".into(),
        CloseReason::Mptcp(code) => format!("MPTCP error (MP_TCPRST reason {code})"),
        _ => reason.name().into(),
    }
}

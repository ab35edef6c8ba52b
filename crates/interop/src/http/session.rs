//! One connection of the file server: request after request, each answered before the next is
//! looked at.

use super::answer::{Answer, File};
use super::body::Framing;
use super::head::{HeadError, HeadReader, Request};
use super::server::{Access, ServerConfig};
use super::upload::Upload;
use super::{BLOCK, answer};
use bytes::Bytes;
use std::net::{IpAddr, SocketAddr};
use tabane_engine::mptcp::Connection;
use tabane_engine::{ConnId, Instant};

/// One connection.
pub(super) struct Session {
    id: ConnId,
    local: SocketAddr,
    remote: SocketAddr,
    head: HeadReader,
    /// Received and not yet looked at.
    input: Bytes,
    /// To be written: an answer, or the rest of a block.
    output: Bytes,
    pub(super) phase: Phase,
    /// Nothing is read while this is off.
    pub(super) reading: bool,
    /// Addresses are still to be announced.
    pub(super) announce: bool,
    /// When a byte was taken or given last.
    pub(super) moved: Instant,
}

/// What a connection is doing.
pub(super) enum Phase {
    /// Waiting for a request, or for the rest of one.
    Head,
    /// Taking a body.
    Upload(Box<Upload>),
    /// Sending what is in the output, and then of this file.
    Reply { file: Option<File>, keep_alive: bool },
    /// Closed by us; what still comes is thrown away.
    Closing,
}

/// What came of a step.
pub(super) enum Step {
    /// Nothing more can be done now.
    Wait,
    /// There may be more to do.
    Again,
    /// A request has its answer, which is still to be sent.
    Answered(Access),
    /// Everything is sent.
    Close,
    /// Beyond repair.
    Abort,
}

impl Session {
    pub(super) fn new(
        now: Instant,
        id: ConnId,
        (local, remote): (SocketAddr, SocketAddr),
        announce: bool,
    ) -> Self {
        Self {
            id,
            local,
            remote,
            head: HeadReader::default(),
            input: Bytes::new(),
            output: Bytes::new(),
            phase: Phase::Head,
            reading: true,
            announce,
            moved: now,
        }
    }

    /// Announces the other addresses as soon as the connection takes it.
    pub(super) fn announce(&mut self, conn: &mut Connection, now: Instant, all: &[IpAddr]) {
        if !self.announce {
            return;
        }
        for &address in all.iter().filter(|&&address| address != self.local.ip()) {
            if conn.announce(now, SocketAddr::new(address, self.local.port())).is_err() {
                return;
            }
        }
        self.announce = false;
    }

    /// Does the next thing.
    pub(super) fn step(
        &mut self,
        conn: &mut Connection,
        now: Instant,
        config: &ServerConfig,
    ) -> Step {
        match &mut self.phase {
            Phase::Head => self.read_head(conn, now, config),
            Phase::Upload(_) => self.read_body(conn, now, config),
            Phase::Reply { .. } => self.write(conn, now),
            Phase::Closing => {
                self.input = Bytes::new();
                while conn.read(BLOCK).is_some() {}
                Step::Wait
            }
        }
    }

    /// Makes sure that there is input, or says what to do without.
    fn fill(&mut self, conn: &mut Connection, now: Instant) -> Result<(), Step> {
        if !self.input.is_empty() {
            return Ok(());
        }
        if !self.reading {
            return Err(Step::Wait);
        }
        match conn.read(BLOCK) {
            Some(data) => {
                self.moved = now;
                self.input = data;
                Ok(())
            }
            None if conn.is_finished() => Err(Step::Close),
            None => Err(Step::Wait),
        }
    }

    fn read_head(&mut self, conn: &mut Connection, now: Instant, config: &ServerConfig) -> Step {
        match self.fill(conn, now) {
            Ok(()) => {}
            Err(Step::Close) if !self.head.is_empty() => return Step::Abort,
            Err(step) => return step,
        }
        match self.head.request(std::mem::take(&mut self.input)) {
            Ok(None) => Step::Again,
            Ok(Some((request, rest))) => {
                self.input = rest;
                self.start(request, now, config)
            }
            Err(error) => {
                let status = match error {
                    HeadError::TooLong => 431,
                    HeadError::Coding(_) => 501,
                    HeadError::Expectation(_) => 417,
                    HeadError::Syntax(_) | HeadError::Host | HeadError::Length(_) => 400,
                };
                self.refuse("-", status, &error.to_string(), now, config)
            }
        }
    }

    /// Begins to answer a request, or to take its body.
    fn start(&mut self, request: Request, now: Instant, config: &ServerConfig) -> Step {
        let line = format!("{} {}", request.method, request.target);
        match request.method.as_str() {
            "GET" | "HEAD" => {
                let mut answer = answer::file(&request, &config.root);
                // A body that nobody wants would be taken for the next request.
                answer.keep_alive = request.keep_alive && request.framing == Framing::Length(0);
                answer.head_only = request.method == "HEAD";
                self.reply(&line, answer, now, config)
            }
            "PUT" | "POST" => match Upload::new(request, config.uploads.as_deref(), self.id.0) {
                Ok(upload) => {
                    if upload.expect_continue() {
                        self.output = Bytes::from_static(b"HTTP/1.1 100 Continue\r\n\r\n");
                    }
                    self.phase = Phase::Upload(Box::new(upload));
                    Step::Again
                }
                Err((status, why)) => self.refuse(&line, status, &why, now, config),
            },
            "DELETE" | "OPTIONS" | "PATCH" | "TRACE" | "CONNECT" => {
                self.refuse(&line, 405, "only GET, HEAD, PUT and POST are allowed", now, config)
            }
            _ => self.refuse(&line, 501, "only GET, HEAD, PUT and POST are known", now, config),
        }
    }

    fn read_body(&mut self, conn: &mut Connection, now: Instant, config: &ServerConfig) -> Step {
        // The interim answer that the client waits for.
        conn.write(&mut self.output);
        let Phase::Upload(upload) = &mut self.phase else { return Step::Again };
        if upload.is_done() {
            let line = upload.line();
            let mut answer = upload.answer();
            answer.keep_alive = upload.keep_alive();
            return self.reply(&line, answer, now, config);
        }
        match self.fill(conn, now) {
            Ok(()) => {}
            Err(Step::Close) => return Step::Abort,
            Err(step) => return step,
        }
        let Phase::Upload(upload) = &mut self.phase else { return Step::Again };
        match upload.take(&mut self.input) {
            Ok(()) => Step::Again,
            Err((status, why)) => {
                let line = upload.line();
                self.refuse(&line, status, &why, now, config)
            }
        }
    }

    fn write(&mut self, conn: &mut Connection, now: Instant) -> Step {
        let Phase::Reply { file, keep_alive } = &mut self.phase else { return Step::Again };
        loop {
            if self.output.is_empty() {
                match file.as_mut().map_or(Ok(None), File::next_block) {
                    Ok(Some(block)) => self.output = block,
                    Ok(None) => break,
                    // The file is shorter than it was: there is no other way to say so.
                    Err(_) => return Step::Abort,
                }
            }
            if conn.write(&mut self.output) > 0 {
                self.moved = now;
            }
            if !self.output.is_empty() {
                return Step::Wait;
            }
        }
        if !*keep_alive {
            return Step::Close;
        }
        self.phase = Phase::Head;
        Step::Again
    }

    /// An error answer, after which the connection closes: what follows may not be a request.
    fn refuse(
        &mut self,
        line: &str,
        status: u16,
        why: &str,
        now: Instant,
        config: &ServerConfig,
    ) -> Step {
        self.reply(line, Answer::text(status, why), now, config)
    }

    fn reply(&mut self, line: &str, answer: Answer, now: Instant, config: &ServerConfig) -> Step {
        let access = Access {
            remote: self.remote,
            request: line.to_owned(),
            status: answer.status,
            bytes: answer.counted.unwrap_or(answer.length),
        };
        let keep_alive = answer.keep_alive;
        let (output, file) = answer.into_parts(config.wall(now));
        self.output = output;
        self.phase = Phase::Reply { file, keep_alive };
        Step::Answered(access)
    }
}

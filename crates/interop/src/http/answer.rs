//! Answers of the file server: status, fields, and a body that is text or part of a file.

use super::BLOCK;
use super::files::{self, Found, TargetError};
use super::head::Request;
use bytes::{Bytes, BytesMut};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::time::SystemTime;

/// An answer.
pub(super) struct Answer {
    /// Status code.
    pub(super) status: u16,
    /// Fields beyond those that every answer has, each with its line end.
    fields: String,
    media_type: &'static str,
    /// Body, unless it is a file.
    text: Bytes,
    file: Option<File>,
    /// Length of the body, bytes.
    pub(super) length: u64,
    /// Bytes for the log, if not `length`.
    pub(super) counted: Option<u64>,
    /// Whether the connection goes on.
    pub(super) keep_alive: bool,
    /// Without the body (HEAD).
    pub(super) head_only: bool,
}

/// Part of a file that is still to be sent.
pub(super) struct File {
    file: std::fs::File,
    left: u64,
}

impl File {
    /// The next block; `None` at the end.
    pub(super) fn next_block(&mut self) -> io::Result<Option<Bytes>> {
        if self.left == 0 {
            return Ok(None);
        }
        let mut block = BytesMut::zeroed(self.left.min(BLOCK as u64) as usize);
        self.file.read_exact(&mut block)?;
        self.left -= block.len() as u64;
        Ok(Some(block.freeze()))
    }
}

impl Answer {
    /// A short text, closing the connection unless the caller says otherwise.
    pub(super) fn text(status: u16, text: &str) -> Self {
        Self::page(status, "text/plain; charset=utf-8", format!("{text}\n"))
    }

    /// A page of that media type.
    pub(super) fn page(status: u16, media_type: &'static str, text: String) -> Self {
        let allow = if status == 405 { "Allow: GET, HEAD, PUT, POST\r\n" } else { "" };
        Self {
            status,
            fields: allow.to_owned(),
            media_type,
            length: text.len() as u64,
            text: Bytes::from(text),
            file: None,
            counted: None,
            keep_alive: false,
            head_only: false,
        }
    }

    /// The head, with the body if that is text, and the file that follows.
    pub(super) fn into_parts(self, date: SystemTime) -> (Bytes, Option<File>) {
        let (status, reason) = (self.status, reason(self.status));
        let connection = if self.keep_alive { "keep-alive" } else { "close" };
        let mut head = format!(
            "HTTP/1.1 {status} {reason}\r\nDate: {}\r\nServer: tabane\r\n\
             Connection: {connection}\r\n{}",
            httpdate::fmt_http_date(date),
            self.fields
        );
        // RFC 9110 section 15.4.5: a 304 has no body and needs no length.
        if status != 304 {
            let (media_type, length) = (self.media_type, self.length);
            head.push_str(&format!("Content-Type: {media_type}\r\nContent-Length: {length}\r\n"));
        }
        head.push_str("\r\n");
        if self.head_only || status == 304 {
            return (Bytes::from(head), None);
        }
        let mut output = head.into_bytes();
        output.extend_from_slice(&self.text);
        (Bytes::from(output), self.file)
    }
}

/// The answer to GET or HEAD.
pub(super) fn file(request: &Request, root: &Path) -> Answer {
    match files::find(root, &request.target) {
        Ok(Found::Listing(page)) => Answer::page(200, "text/html; charset=utf-8", page),
        Ok(Found::AddSlash(location)) => {
            let mut answer = Answer::text(301, "a directory");
            answer.fields = format!("Location: {location}\r\n");
            answer
        }
        Ok(Found::File { file, size, modified, media_type }) => {
            of_file(request, file, size, modified, media_type)
        }
        Err(error) => {
            let status = match error {
                TargetError::BadPath => 400,
                TargetError::NotFound => 404,
                TargetError::Forbidden => 403,
                TargetError::Io(_) => 500,
            };
            Answer::text(status, &error.to_string())
        }
    }
}

fn of_file(
    request: &Request,
    mut file: std::fs::File,
    size: u64,
    modified: Option<SystemTime>,
    media_type: &'static str,
) -> Answer {
    let date = modified.map(httpdate::fmt_http_date);
    let mut answer = Answer::page(200, media_type, String::new());
    answer.fields = String::from("Accept-Ranges: bytes\r\n");
    if let Some(date) = &date {
        answer.fields.push_str(&format!("Last-Modified: {date}\r\n"));
    }
    // Compared as sent: what is finer than a second is not in the header.
    let whole = modified.and_then(|m| httpdate::parse_http_date(&httpdate::fmt_http_date(m)).ok());
    if let (Some(since), Some(modified)) = (request.if_modified_since, whole)
        && modified <= since
    {
        answer.status = 304;
        answer.length = 0;
        return answer;
    }
    let same = request.if_range.is_none() || request.if_range == date;
    let (mut first, mut length) = (0, size);
    if let Some(range) = request.range.filter(|_| same && request.method == "GET") {
        let Some((from, count)) = range.within(size) else {
            let mut answer = Answer::text(416, "the range is outside the file");
            answer.fields = format!("Content-Range: bytes */{size}\r\n");
            return answer;
        };
        (first, length) = (from, count);
        let last = first + length - 1;
        answer.status = 206;
        answer.fields.push_str(&format!("Content-Range: bytes {first}-{last}/{size}\r\n"));
    }
    if let Err(error) = file.seek(SeekFrom::Start(first)) {
        return Answer::text(500, &error.to_string());
    }
    answer.length = length;
    answer.file = Some(File { file, left: length });
    answer
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        206 => "Partial Content",
        301 => "Moved Permanently",
        304 => "Not Modified",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
        507 => "Insufficient Storage",
        _ => "Internal Server Error",
    }
}

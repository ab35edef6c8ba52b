//! An upload on its way in: counted, hashed and, if wanted, kept as a file.

use super::answer::Answer;
use super::body::BodyReader;
use super::files;
use super::head::Request;
use super::hex;
use bytes::Bytes;
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Why an upload cannot go on: a status and words.
pub(super) type Refusal = (u16, String);

/// A body on its way in.
pub(super) struct Upload {
    request: Request,
    body: BodyReader,
    hasher: Sha256,
    bytes: u64,
    sink: Option<Sink>,
}

/// A file that gets its name when it is complete, and goes if it never is.
struct Sink {
    file: File,
    part: PathBuf,
    target: PathBuf,
}

impl Upload {
    /// Begins to take the body of `request`; keeps it below `directory` if there is one.
    /// `number` tells apart uploads to one name at one time.
    pub(super) fn new(
        request: Request,
        directory: Option<&Path>,
        number: u64,
    ) -> Result<Self, Refusal> {
        let sink = match directory {
            None => None,
            Some(directory) => Some(Sink::create(directory, &request.target, number)?),
        };
        let body = BodyReader::new(request.framing);
        Ok(Self { request, body, hasher: Sha256::new(), bytes: 0, sink })
    }

    /// Whether the client waits for a word before it sends the body.
    pub(super) fn expect_continue(&self) -> bool {
        self.request.expect_continue && !self.body.is_done()
    }

    /// Whether the connection goes on afterwards.
    pub(super) fn keep_alive(&self) -> bool {
        self.request.keep_alive
    }

    /// For the log.
    pub(super) fn line(&self) -> String {
        format!("{} {}", self.request.method, self.request.target)
    }

    /// Whether all of it is here.
    pub(super) fn is_done(&self) -> bool {
        self.body.is_done()
    }

    /// Takes what belongs to the body off the front of `input`.
    pub(super) fn take(&mut self, input: &mut Bytes) -> Result<(), Refusal> {
        while let Some(piece) = self.body.next(input).map_err(|e| (400, e.to_string()))? {
            self.bytes += piece.len() as u64;
            self.hasher.update(&piece);
            if let Some(sink) = &mut self.sink {
                sink.file.write_all(&piece).map_err(|e| cannot_keep(&e))?;
            }
        }
        Ok(())
    }

    /// The answer: how much came, and its hash.
    pub(super) fn answer(&mut self) -> Answer {
        let saved = match self.sink.take().map(Sink::keep) {
            None => None,
            Some(Ok(name)) => Some(name),
            Some(Err((status, why))) => return Answer::text(status, &why),
        };
        let status = if saved.is_some() { 201 } else { 200 };
        let json = serde_json::json!({
            "bytes": self.bytes,
            "sha256": hex::digest(&self.hasher),
            "saved": saved,
        });
        let mut answer = Answer::page(status, "application/json", format!("{json}\n"));
        answer.counted = Some(self.bytes);
        answer
    }
}

impl Sink {
    fn create(directory: &Path, target: &str, number: u64) -> Result<Self, Refusal> {
        let name = files::upload_name(target).map_err(|e| (400, e.to_string()))?;
        let part = directory.join(format!(".{name}.{number}.part"));
        let file = File::create(&part).map_err(|e| cannot_keep(&e))?;
        Ok(Self { file, part, target: directory.join(name) })
    }

    /// Gives the file its name, which it returns.
    fn keep(self) -> Result<String, Refusal> {
        fs::rename(&self.part, &self.target).map_err(|e| cannot_keep(&e))?;
        Ok(self.target.file_name().unwrap_or_default().to_string_lossy().into_owned())
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        // Gone already if it was kept.
        let _ = fs::remove_file(&self.part);
    }
}

fn cannot_keep(error: &std::io::Error) -> Refusal {
    (507, format!("the upload cannot be kept: {error}"))
}

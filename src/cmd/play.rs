//! `tabane play`: serves the simulator as a web page on this machine. The page computes by itself,
//! in the browser; the server only gives out files.

use crate::exit::Failure;
use crate::say;
use anyhow::{Context, anyhow};
use std::borrow::Cow;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use tabane_config::bounded;

/// Serve the simulator as a web page: links to change while traffic runs over them.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8017")]
    listen: SocketAddr,
    /// Serve this folder instead of the files in this binary.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Write the page's files into this folder, for any web server, and end.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["listen", "dir"])]
    write: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  tabane play                          then open http://127.0.0.1:8017/
  tabane play --write site/play        files for a web server of yours
  tabane play --dir site/play          serves such files

The page is in binaries that were built with it:
  rustup target add wasm32-unknown-unknown
  cargo build --release --features play";

/// Serves until it is ended, or writes the files.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let site = match &args.dir {
        Some(dir) if dir.is_dir() => Site::Folder(dir.clone()),
        Some(dir) => return Err(Failure::usage(format!("{} is not a folder", dir.display()))),
        None => Site::built_in()?,
    };
    if let Some(dir) = &args.write {
        return site.write(dir);
    }
    let listener = TcpListener::bind(args.listen);
    let listener = listener.with_context(|| format!("cannot listen on {}", args.listen))?;
    let address = listener.local_addr()?;
    say::print(&format!("http://{address}/"))?;
    say::note("the playground is there; Ctrl-C ends it");
    serve(&listener, Arc::new(site))
}

/// Where files come from.
enum Site {
    Folder(PathBuf),
    #[cfg(feature = "play")]
    BuiltIn,
}

impl Site {
    #[cfg(feature = "play")]
    #[expect(clippy::unnecessary_wraps, reason = "there may be none without the feature")]
    fn built_in() -> Result<Self, Failure> {
        Ok(Self::BuiltIn)
    }

    #[cfg(not(feature = "play"))]
    fn built_in() -> Result<Self, Failure> {
        Err(Failure::usage(
            "this binary was built without the playground\n      \
             = `rustup target add wasm32-unknown-unknown` and `cargo build --release --features \
             play` build one with it\n      \
             = or give a folder that such a binary has written: --dir DIR",
        ))
    }

    /// A file by its name below the address, with its type.
    fn find(&self, name: &str) -> Option<(&'static str, Cow<'static, [u8]>)> {
        let index = format!("{name}index.html");
        let name = if name.is_empty() || name.ends_with('/') { &index } else { name };
        match self {
            Self::Folder(dir) => {
                // Asked before anything is opened: what is outside may be a device without an end.
                let mut parts = Path::new(name).components();
                if !parts.all(|part| matches!(part, Component::Normal(_))) {
                    return None;
                }
                let bytes = bounded::bytes(&dir.join(name), bounded::DATA).ok()?;
                Some((media_type(name), bytes.into()))
            }
            #[cfg(feature = "play")]
            Self::BuiltIn => {
                let file = tabane_play::page::files().find(|file| file.name == name)?;
                Some((media_type(name), file.bytes.into()))
            }
        }
    }

    fn write(&self, dir: &Path) -> Result<(), Failure> {
        let mut written = (0, 0);
        for (name, bytes) in self.all() {
            let path = dir.join(name);
            let folder = path.parent().unwrap_or(dir);
            let done = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, bytes));
            done.with_context(|| path.display().to_string())?;
            written = (written.0 + 1, written.1 + bytes.len());
        }
        let (files, bytes) = written;
        say::note(&format!("{files} files, {bytes} bytes, in {}", dir.display()));
        Ok(())
    }

    fn all(&self) -> Vec<(&'static str, &'static [u8])> {
        match self {
            Self::Folder(_) => Vec::new(),
            #[cfg(feature = "play")]
            Self::BuiltIn => {
                tabane_play::page::files().map(|file| (file.name, file.bytes)).collect()
            }
        }
    }
}

/// Longest head of a request.
const HEAD_MAX: usize = 16 << 10;
/// A client that neither sends nor takes anything for so long is gone.
const PATIENCE: Duration = Duration::from_secs(30);
/// Connections at a time; more are closed at once.
const CONNECTIONS: usize = 64;

fn serve(listener: &TcpListener, site: Arc<Site>) -> Result<(), Failure> {
    let open = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        let Ok(stream) = stream else { continue };
        if open.load(Ordering::Relaxed) >= CONNECTIONS {
            continue;
        }
        let (site, open) = (site.clone(), open.clone());
        open.fetch_add(1, Ordering::Relaxed);
        let begun = thread::Builder::new().name("play".into()).spawn(move || {
            // Who is not answered sees the end of the connection.
            let _ = answer_all(&stream, &site);
            open.fetch_sub(1, Ordering::Relaxed);
        });
        begun.context("no thread to answer with")?;
    }
    Err(anyhow!("nobody can connect any more").into())
}

/// One request after the other, as long as the client likes.
fn answer_all(mut stream: &TcpStream, site: &Site) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut buffer = Vec::new();
    loop {
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut request = httparse::Request::new(&mut headers);
        let status = request.parse(&buffer).map_err(io::Error::other)?;
        if let httparse::Status::Complete(len) = status {
            let method = request.method.unwrap_or_default();
            let path = request.path.unwrap_or_default();
            answer(stream, site, method, path)?;
            buffer.drain(..len);
            continue;
        }
        let mut more = [0; 4096];
        match stream.read(&mut more)? {
            0 => return Ok(()),
            n => buffer.extend_from_slice(&more[..n]),
        }
        if buffer.len() > HEAD_MAX {
            return Ok(());
        }
    }
}

fn answer(mut stream: &TcpStream, site: &Site, method: &str, path: &str) -> io::Result<()> {
    let name = path.split(['?', '#']).next().unwrap_or_default().trim_start_matches('/');
    let found = site.find(name).filter(|_| matches!(method, "GET" | "HEAD"));
    let (status, kind, bytes) = match found {
        Some((kind, bytes)) => ("200 OK", kind, bytes),
        None if !matches!(method, "GET" | "HEAD") => {
            ("405 Method Not Allowed", "text/plain", b"only GET\n".as_slice().into())
        }
        None => ("404 Not Found", "text/plain", b"no such file\n".as_slice().into()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
         Cache-Control: no-cache\r\nX-Content-Type-Options: nosniff\r\n\r\n",
        bytes.len()
    );
    stream.write_all(head.as_bytes())?;
    if method != "HEAD" {
        stream.write_all(&bytes)?;
    }
    stream.flush()
}

/// The media type of a file, by the ending of its name.
fn media_type(name: &str) -> &'static str {
    match name.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "wasm" => "application/wasm",
        "json" => "application/json",
        "png" => "image/png",
        "svg" => "image/svg+xml",
        "woff2" => "font/woff2",
        _ => "text/plain; charset=utf-8",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Not even read: it could be a device.
    #[test]
    fn what_is_outside_the_folder_is_not_there() {
        let outer = tempfile::tempdir().expect("a folder");
        let dir = outer.path().join("site");
        std::fs::create_dir(&dir).expect("made");
        std::fs::write(dir.join("index.html"), "page").expect("written");
        std::fs::write(outer.path().join("other"), "no").expect("written");
        let site = Site::Folder(dir);
        assert!(site.find("").is_some_and(|(kind, _)| kind.starts_with("text/html")));
        for name in ["../other", "./../other", "x/../../other", "/dev/zero", "none", "."] {
            assert!(site.find(name).is_none(), "{name}");
        }
        let deep = format!("{}dev/zero", "../".repeat(20));
        assert!(site.find(&deep).is_none());
    }
}

//! A web server on loopback that has one file: what the demo downloads from.

use anyhow::Context;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Ends when it is dropped.
pub(crate) struct WebServer {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
}

/// Longest head of a request.
const HEAD_MAX: usize = 16 << 10;
/// A client that takes nothing for so long is gone.
const PATIENCE: Duration = Duration::from_secs(30);

impl WebServer {
    /// Serves that file, whatever is asked for.
    ///
    /// # Errors
    /// It cannot listen.
    pub(crate) fn start(file: &Path) -> anyhow::Result<Self> {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot listen on loopback")?;
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let (file, stopped) = (file.to_owned(), stop.clone());
        thread::Builder::new().name("web".into()).spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let (Ok(stream), file) = (stream, file.clone()) else { continue };
                thread::spawn(move || serve(&stream, file));
            }
        })?;
        Ok(Self { address, stop })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for WebServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes it up.
        let _ = TcpStream::connect(self.address);
    }
}

/// One request; who is not served sees the end of the connection.
fn serve(mut stream: &TcpStream, file: PathBuf) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut lines = BufReader::new(stream);
    let (mut line, mut seen) = (String::new(), 0);
    while lines.read_line(&mut line)? > 2 {
        seen += line.len();
        if seen > HEAD_MAX {
            return Ok(());
        }
        line.clear();
    }
    let mut file = File::open(file)?;
    let length = file.metadata()?.len();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    io::copy(&mut file, &mut stream)?;
    Ok(())
}

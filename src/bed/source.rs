//! A server, mostly on loopback, that sends as many bytes as it is asked for: what downloads are
//! measured with. The program's first line is the number; with `-` before it the program sends, and
//! is answered by one byte at the end.

use anyhow::Context;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Ends when it is dropped.
pub(crate) struct Source {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
}

/// Sent at a time.
const BLOCK: usize = 256 << 10;

impl Source {
    /// Begins to listen.
    ///
    /// # Errors
    /// It cannot.
    pub(crate) fn start() -> anyhow::Result<Self> {
        Self::start_at(Ipv4Addr::LOCALHOST)
    }

    /// Begins to listen at another address of the network namespace of this thread.
    ///
    /// # Errors
    /// It cannot.
    pub(crate) fn start_at(address: Ipv4Addr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((address, 0));
        let listener = listener.with_context(|| format!("cannot listen on {address}"))?;
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        thread::Builder::new().name("source".into()).spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                thread::spawn(move || serve(&stream));
            }
        })?;
        Ok(Self { address, stop })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes it up.
        let _ = TcpStream::connect(self.address);
    }
}

fn serve(mut stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    while reader.read_line(&mut line)? > 0 {
        let wanted: i64 = line.trim().parse().map_err(io::Error::other)?;
        line.clear();
        if wanted < 0 {
            io::copy(&mut (&mut reader).take(wanted.unsigned_abs()), &mut io::sink())?;
            stream.write_all(b"!")?;
        } else {
            let (block, mut left) = (vec![0x5a; BLOCK], wanted as usize);
            while left > 0 {
                let len = left.min(BLOCK);
                stream.write_all(&block[..len])?;
                left -= len;
            }
        }
    }
    Ok(())
}

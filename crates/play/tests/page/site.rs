//! The page as it is in `web/`, on a port of this machine. What its worker calls is answered by
//! [`Play`] in this process, so that neither WebAssembly nor a second build is needed.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use tabane_play::{Play, PlayError};

/// Ends with the process.
pub(crate) struct Site(SocketAddr);

/// A call, and where its answer goes.
type Call = (Value, Sender<Value>);

impl Site {
    pub(crate) fn serve() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (calls, called) = channel::<Call>();
        // Worlds stay with one thread.
        std::thread::spawn(move || {
            let mut worlds = Worlds::default();
            for (call, answer) in called {
                let _ = answer.send(worlds.answer(&call));
            }
        });
        std::thread::spawn(move || {
            // A browser may open connections ahead, on which nothing comes: none waits for another.
            for stream in listener.incoming().flatten() {
                let calls = calls.clone();
                std::thread::spawn(move || serve(&stream, &calls));
            }
        });
        Self(address)
    }

    /// The address of a state.
    pub(crate) fn at(&self, query: &str, state: &str) -> String {
        format!("http://{}/?{query}#{state}", self.0)
    }
}

/// One request; `None` if the browser goes away meanwhile.
fn serve(mut stream: &TcpStream, calls: &Sender<Call>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first).ok()?;
    let target = first.split(' ').nth(1)?.split('?').next()?.trim_start_matches('/').to_owned();
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let line = line.trim().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let body = if target == "call" {
        let (sender, answer) = channel();
        calls.send((serde_json::from_slice(&body).ok()?, sender)).ok()?;
        Some(answer.recv().ok()?.to_string().into_bytes())
    } else {
        file(&target)
    };
    let status = if body.is_some() { "200 OK" } else { "404 Not Found" };
    let body = body.unwrap_or_default();
    let media = media(&target);
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {media}\r\nContent-Length: {length}\r\n\
         Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(&body).ok()
}

fn media(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("js") => "text/javascript",
        Some("css") => "text/css",
        Some("json") => "application/json",
        Some("toml") => "text/plain",
        _ => "text/html",
    }
}

fn file(name: &str) -> Option<Vec<u8>> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = own.join("../..");
    match name {
        "" => std::fs::read(own.join("web/index.html")).ok(),
        "tabane.js" => std::fs::read(own.join("tests/page/tabane.js")).ok(),
        "papers.json" => {
            let report = |paper: &str| {
                let text = std::fs::read(root.join(format!("papers/{paper}/report.json"))).unwrap();
                (paper.to_owned(), serde_json::from_slice::<Value>(&text).unwrap())
            };
            let papers = ["bicast", "hayack", "ecf3", "two_wans", "proxies"];
            let all: serde_json::Map<String, Value> = papers.map(report).into_iter().collect();
            Some(Value::Object(all).to_string().into_bytes())
        }
        _ if name.starts_with("papers/") => std::fs::read(root.join(name)).ok(),
        _ => std::fs::read(own.join("web").join(name)).ok(),
    }
}

/// Worlds by number.
#[derive(Default)]
struct Worlds {
    all: BTreeMap<u64, Play>,
    last: u64,
}

impl Worlds {
    fn answer(&mut self, call: &Value) -> Value {
        let done = if call[1] == "new" { self.make(&call[2]) } else { self.ask(call) };
        match done {
            Ok(value) => json!({ "value": value }),
            Err(error) => json!({ "error": error.to_string() }),
        }
    }

    fn make(&mut self, args: &Value) -> Result<Value, PlayError> {
        let sets: Vec<String> = serde_json::from_value(args[2].clone())?;
        let play = Play::new(args[0].as_str().unwrap(), args[1].as_str().unwrap(), &sets)?;
        self.last += 1;
        self.all.insert(self.last, play);
        Ok(json!(self.last))
    }

    /// As `src/js.rs` has it.
    fn ask(&mut self, call: &Value) -> Result<Value, PlayError> {
        let (number, args) = (call[0].as_u64().unwrap(), &call[2]);
        let play = self.all.get_mut(&number).expect("no call comes after `free`");
        let word = |n: usize| args[n].as_str().unwrap();
        Ok(match call[1].as_str().unwrap() {
            "advance" => json!(play.advance((args[0].as_f64().unwrap() * 1e9) as u64)?),
            "now" => json!(play.now() as f64 / 1e9),
            "is_over" => json!(play.is_over()),
            "packet_hops" => json!(play.packet_hops()),
            "change" => json!(play.change(word(0))?),
            "set_policy" => json!(play.set_policy(word(0), word(1))?),
            "toml" => json!(play.toml()),
            "about" => json!(serde_json::to_string(&play.about())?),
            "status" => json!(serde_json::to_string(&play.status(args[0] == true))?),
            "sample" => json!(play.sample()),
            "dots" => json!(play.dots(args[0].as_u64().unwrap() as usize)),
            "finish" => json!(play.finish()?),
            "free" => {
                self.all.remove(&number);
                Value::Null
            }
            other => panic!("the page calls {other}"),
        })
    }
}

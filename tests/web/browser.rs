//! A headless Chromium on two pipes (`--remote-debugging-pipe`: JSON messages, each ended by a
//! zero byte), so that neither a port nor a WebSocket is needed.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// A browser with one page.
pub(crate) struct Browser {
    child: Child,
    stdin: ChildStdin,
    messages: Receiver<Value>,
    session: Option<String>,
    target: Value,
    last: u64,
    errors: Vec<String>,
    _profile: tempfile::TempDir,
}

/// Longest wait for an answer or for something to show.
const PATIENCE: Duration = Duration::from_secs(60);

impl Browser {
    /// Starts it; `None`, with the reason said, where there is none (which fails under CI).
    pub(crate) fn start() -> Option<Self> {
        let names = ["chromium", "chromium-browser", "google-chrome"];
        let Some(program) = names.into_iter().find(|name| is_there(name)) else {
            assert!(std::env::var_os("CI").is_none(), "chromium is not installed");
            println!("SKIPPED: chromium is not installed");
            return None;
        };
        let profile = tempfile::tempdir().unwrap();
        // The browser reads commands from descriptor 3 and writes answers to 4.
        let line = format!(
            "exec {program} --headless --no-sandbox --disable-gpu --disable-dev-shm-usage \
             --no-first-run --remote-debugging-pipe --user-data-dir={} 3<&0 4>&1 </dev/null >&2",
            profile.path().display()
        );
        let mut child = Command::new("sh")
            .args(["-c", &line])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let stdout = child.stdout.take().unwrap();
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(stdout).split(0) {
                let Ok(message) = message else { return };
                let Ok(message) = serde_json::from_slice(&message) else { continue };
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let (session, target, errors) = (None, Value::Null, Vec::new());
        let last = 0;
        Some(Self { child, stdin, messages, session, target, last, errors, _profile: profile })
    }

    /// Opens an address in a window of that size. What was open before is closed.
    pub(crate) fn open(&mut self, url: &str, width: u32, height: u32) {
        self.session = None;
        if let Some(before) = self.target.as_str() {
            self.call("Target.closeTarget", json!({ "targetId": before }));
        }
        let target = self.call("Target.createTarget", json!({ "url": "about:blank" }));
        self.target = target["targetId"].clone();
        let attach = json!({ "targetId": self.target, "flatten": true });
        let session = self.call("Target.attachToTarget", attach);
        self.session = session["sessionId"].as_str().map(ToOwned::to_owned);
        self.call("Runtime.enable", json!({}));
        self.call("Log.enable", json!({}));
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size);
        self.call("Page.navigate", json!({ "url": url }));
    }

    /// Waits until an expression is true; `what` is for who reads that it never was.
    pub(crate) fn until(&mut self, expression: &str, what: &str) {
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            if self.evaluate(&format!("Boolean({expression})")) == json!(true) {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let page = self.text("document.body.innerText");
        panic!("the page never shows {what}; it shows:\n{page}\n{:?}", self.errors);
    }

    /// The value of an expression that is a text.
    pub(crate) fn text(&mut self, expression: &str) -> String {
        self.evaluate(expression).as_str().unwrap_or_default().to_owned()
    }

    /// What the page threw or the browser complained of.
    pub(crate) fn errors(&self) -> &[String] {
        &self.errors
    }

    fn evaluate(&mut self, expression: &str) -> Value {
        let what = json!({ "expression": expression, "returnByValue": true });
        let mut result = self.call("Runtime.evaluate", what);
        // A page that is about to be replaced throws; `until` asks again.
        result["result"]["value"].take()
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.stdin.write_all(&bytes).unwrap();
        loop {
            let mut message = self.messages.recv_timeout(PATIENCE).unwrap();
            if message["id"] == json!(self.last) {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].take();
            }
            self.note(&message);
        }
    }

    fn note(&mut self, message: &Value) {
        match message["method"].as_str() {
            Some("Runtime.exceptionThrown") => self.errors.push(message["params"].to_string()),
            Some("Log.entryAdded") if message["params"]["entry"]["level"] == "error" => {
                self.errors.push(message["params"]["entry"].to_string());
            }
            _ => {}
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_there(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).exists())
}

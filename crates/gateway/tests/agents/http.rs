//! The HTTP front with real agents: each origin gets its own request and nothing else.

use super::bed::{Agent, LONG, pair, serve};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// An origin that keeps every connection open, whatever it is told, and notes all that it hears.
fn keeps_open(body: &'static str) -> (SocketAddr, Arc<Mutex<String>>) {
    let heard = Arc::new(Mutex::new(String::new()));
    let notes = heard.clone();
    let at = serve(move |mut stream| {
        let mut block = [0; 4096];
        let mut unanswered = String::new();
        while let Ok(len @ 1..) = stream.read(&mut block) {
            let text = String::from_utf8_lossy(&block[..len]).into_owned();
            notes.lock().unwrap().push_str(&text);
            unanswered += &text;
            while let Some(end) = unanswered.find("\r\n\r\n") {
                unanswered.drain(..end + 4);
                let length = body.len();
                let answer = format!(
                    "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nKeep-Alive: timeout=60\r\n\
                     Content-Length: {length}\r\n\r\n{body}"
                );
                if stream.write_all(answer.as_bytes()).is_err() {
                    return;
                }
            }
        }
        // It does not end either when it is told that no more comes.
        thread::sleep(LONG);
    });
    (at, heard)
}

fn text(heard: &Mutex<String>) -> String {
    heard.lock().unwrap().clone()
}

/// What a program gets that says this to the front, until the front ends.
fn say(client: &Agent, said: &str) -> String {
    let mut stream = TcpStream::connect(client.at).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.write_all(said.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn an_origin_that_keeps_open_gets_no_request_of_others() {
    let (client, server, _) = pair();
    let (one, heard) = keeps_open("one");
    let (two, elsewhere) = keeps_open("two");
    let start = Instant::now();
    // Pipelined, as by a program that takes the connection for its own.
    let answer = say(
        &client,
        &format!(
            "POST http://{one}/ HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody\
             GET http://{two}/ HTTP/1.1\r\nProxy-Authorization: Basic eA==\r\n\
             Cookie: secret\r\n\r\n"
        ),
    );
    assert_eq!(
        answer, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\none",
        "one response, and that it is the last"
    );
    let took = start.elapsed();
    assert!(took < Duration::from_secs(4), "the program waits for the origin's end: {took:?}");
    assert!(text(&heard).ends_with("\r\n\r\nbody"), "{}", text(&heard));
    assert!(text(&elsewhere).is_empty(), "{}", text(&elsewhere));
    // Nothing is left of it, though the origin never ends.
    client.until("over", |status| status.connections == 0);
    server.until("over", |status| status.connections == 0);
}

#[test]
fn curl_goes_to_two_hosts_and_each_hears_its_own() {
    let (client, _server, _) = pair();
    let (one, heard_one) = keeps_open("one");
    let (two, heard_two) = keeps_open("two");
    let urls = [format!("http://{one}/1"), format!("http://{two}/2"), format!("http://{one}/3")];
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--max-time", "20", "--noproxy", ""]);
    curl.args(["--proxy", &format!("http://ann:s3cret@{}", client.at), "--cookie", "a=secret"]);
    let Ok(output) = curl.args(&urls).output() else {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "curl is not installed");
        println!("SKIPPED: curl is not installed");
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "onetwoone", "{said}");
    for (heard, own, requests) in [(text(&heard_one), one, 2), (text(&heard_two), two, 1)] {
        assert_eq!(heard.matches("HTTP/1.1\r\n").count(), requests, "{heard}");
        assert_eq!(heard.matches(&format!("Host: {own}\r\n")).count(), requests, "{heard}");
        assert!(!heard.contains("Proxy-") && !heard.contains("http://"), "{heard}");
    }
}

#[test]
fn an_upload_may_wait_for_its_100_and_may_be_long() {
    let (client, _server, _) = pair();
    let far = serve(|mut stream| {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut one = [0];
            stream.read_exact(&mut one).unwrap();
            head.push(one[0]);
        }
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
        let mut body = vec![0; 3_000_000];
        stream.read_exact(&mut body).unwrap();
        let good = body.iter().all(|byte| *byte == b'x');
        stream.write_all(format!("HTTP/1.1 200 OK\r\n\r\n{good}").as_bytes()).unwrap();
    });
    let mut stream = TcpStream::connect(client.at).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let head = format!(
        "PUT http://{far}/ HTTP/1.1\r\nContent-Length: 3000000\r\nExpect: 100-continue\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut interim = [0; 25];
    stream.read_exact(&mut interim).unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(&vec![b'x'; 3_000_000]).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\ntrue");
}

/// An answer that comes before the upload is over is not lost with the rest of the upload, which
/// nobody reads.
#[test]
fn an_early_answer_reaches_a_program_that_still_sends() {
    let (client, _server, _) = pair();
    let far = serve(|mut stream| {
        stream.read_exact(&mut [0; 100]).unwrap();
        let answer = "HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno";
        stream.write_all(answer.as_bytes()).unwrap();
        thread::sleep(Duration::from_secs(3));
    });
    let mut stream = TcpStream::connect(client.at).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let head = format!("PUT http://{far}/ HTTP/1.1\r\nContent-Length: 300000000\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut writer = stream.try_clone().unwrap();
    let upload = thread::spawn(move || {
        let block = vec![0; 1 << 16];
        for _ in 0..200 {
            if writer.write_all(&block).is_err() {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
    });
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 413 ") && answer.ends_with("\r\n\r\nno"), "{answer}");
    upload.join().unwrap();
}

/// A program that goes away while it waits ends its connection: nothing of it is left.
#[test]
fn a_program_that_goes_is_missed() {
    let (client, server, _) = pair();
    let far = serve(|mut stream| {
        let mut heard = Vec::new();
        // Until the program has gone; it never answers.
        let _ = stream.read_to_end(&mut heard);
    });
    let mut stream = TcpStream::connect(client.at).unwrap();
    write!(stream, "GET http://{far}/ HTTP/1.1\r\n\r\n").unwrap();
    server.until("there", |status| status.connections == 1);
    stream.shutdown(Shutdown::Write).unwrap();
    client.until("over", |status| status.connections == 0);
    server.until("over", |status| status.connections == 0);
}

#[test]
fn a_far_end_that_is_no_origin_is_a_bad_gateway() {
    let (client, _server, _) = pair();
    for said in ["", "SSH-2.0-OpenSSH\r\n\r\n"] {
        let far = serve(move |mut stream| {
            let (mut head, mut one) = (Vec::new(), [0]);
            while !head.ends_with(b"\r\n\r\n") {
                stream.read_exact(&mut one).unwrap();
                head.push(one[0]);
            }
            stream.write_all(said.as_bytes()).unwrap();
        });
        let answer = say(&client, &format!("GET http://{far}/ HTTP/1.1\r\n\r\n"));
        assert!(answer.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{answer}");
    }
}

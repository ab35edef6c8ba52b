//! A client that is removed or disabled is out at once, whatever else stands in the file.

use super::bed::{Agent, Keys, connect, echo, pattern};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tabane_gateway::config::ServerConfig;
use tabane_gateway::model::{AgentEvent, PathState};
use tabane_gateway::request_channel::{Answer, Request};

/// A server whose file can be changed, its client, and a program's connection that works.
fn bed() -> (Arc<Mutex<ServerConfig>>, Agent, Agent, TcpStream) {
    let keys = Keys::new();
    let config = keys.server_config("127.0.0.1:0".parse().unwrap());
    let file = Arc::new(Mutex::new(config));
    let server = Agent::server_of(&file);
    let client = Agent::client(keys.client_config(&[server.at]));
    client.until_paths_work();
    let mut stream = connect(client.at, echo()).unwrap();
    let data = pattern(10_000, 1);
    stream.write_all(&data).unwrap();
    let mut back = vec![0; data.len()];
    stream.read_exact(&mut back).unwrap();
    assert!(back == data);
    (file, server, client, stream)
}

fn events(agent: &Agent) -> Vec<AgentEvent> {
    match agent.request_channel.ask(Request::Events { since: 0 }).unwrap() {
        Answer::Events(all) => all,
        other => panic!("{other:?}"),
    }
}

/// The program hears that its connection has ended, long before any timeout.
fn ends(mut stream: TcpStream) {
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let begin = Instant::now();
    let read = stream.read(&mut [0]);
    let over = match &read {
        Ok(count) => *count == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    };
    assert!(over, "after {:?}: {read:?}", begin.elapsed());
}

fn is_out(client: &Agent) {
    client.until("out", |status| status.paths.iter().all(|path| path.state != PathState::Up));
}

#[test]
fn a_client_is_out_though_the_file_has_a_change_that_needs_a_restart() {
    let (file, server, client, stream) = bed();
    {
        let mut file = file.lock().unwrap();
        file.client.clear();
        file.listen = vec!["127.0.0.9:1".parse().unwrap()];
    }
    assert_eq!(server.request_channel.ask(Request::Reload).unwrap(), Answer::Done);
    ends(stream);
    is_out(&client);
    assert_eq!(server.status().clients, 0);
    let events = events(&server);
    let said = |kind: &str| {
        let texts = events.iter().filter(|event| event.kind.name() == kind);
        texts.map(|event| event.text.as_str()).collect::<Vec<_>>().join("\n")
    };
    assert!(said("client-connected").contains("is connected"), "{events:#?}");
    assert!(said("client-removed").contains("1 connection ended"), "{events:#?}");
    let reload = said("reload");
    assert!(reload.contains("clients; cannot change without a restart: listening"), "{reload}");
    // It knocks on, and is refused; whoever looks learns why.
    server.until("refused", |_| {
        let refused =
            self::events(&server).into_iter().find(|e| e.kind.name() == "handshake-refused");
        refused.is_some_and(|event| event.text.contains("no client has such a key"))
    });
}

#[test]
fn a_client_that_is_disabled_is_out_until_it_is_enabled() {
    let (file, server, client, stream) = bed();
    let set = |disabled| {
        file.lock().unwrap().client[0].disabled = disabled;
        assert_eq!(server.request_channel.ask(Request::Reload).unwrap(), Answer::Done);
    };
    set(true);
    ends(stream);
    is_out(&client);
    assert!(events(&server).iter().any(|event| event.kind.name() == "client-disabled"));
    set(false);
    client.until_paths_work();
    let mut stream = connect(client.at, echo()).unwrap();
    stream.write_all(b"again").unwrap();
    stream.read_exact(&mut [0; 5]).unwrap();
}

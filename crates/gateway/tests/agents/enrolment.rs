//! Clients that make their own keys: invitations that are used once, keys that are changed, clocks
//! that are behind. Agents on loopback, a server that is started anew with what it remembers.

use super::bed::{Agent, LONG, connect, echo};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tabane_gateway::address::ClientNumber;
use tabane_gateway::config::load::parse;
use tabane_gateway::config::{AccessConfig, ClientConfig, ClientEntry, ServerConfig};
use tabane_gateway::enrol::exchange::{self, Link};
use tabane_gateway::enrol::{Ask, Credentials, ExchangeError};
use tabane_gateway::invite::{Grant, Invitation, Own};
use tabane_gateway::keys::{Key, encode};
use tabane_gateway::model::{AgentEvent, PathState};
use tabane_gateway::request_channel::{Answer, Request};
use tabane_gateway::server::Server;

/// A server with one client that is invited, and what it reads again.
struct Place {
    folder: tempfile::TempDir,
    key: Key,
    file: Arc<Mutex<ServerConfig>>,
    server: Agent,
    invitation: Invitation,
}

const ANSWER: tabane_engine::Duration = tabane_engine::Duration::from_secs(5);
const SHORT: tabane_engine::Duration = tabane_engine::Duration::from_secs(2);

fn unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn start(file: &Arc<Mutex<ServerConfig>>) -> Agent {
    let mut server = Server::new(file.lock().unwrap().clone(), None).unwrap();
    let again = Arc::clone(file);
    server.set_source(Box::new(move || Ok(again.lock().unwrap().clone())));
    Agent::of_server(server)
}

impl Place {
    /// The invitation is good for so long, or has been over for so long.
    fn new(expires_in: i64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = Key::random_private().unwrap();
        let config = ServerConfig {
            listen: vec!["127.0.0.1:0".parse().unwrap()],
            private_key: Some(key.to_string().into()),
            state: Some(folder.path().join("clients.json")),
            access: AccessConfig { allow: vec!["127.0.0.1".into()], ..AccessConfig::default() },
            ..ServerConfig::default()
        };
        let expires = unix_s().checked_add_signed(expires_in).unwrap();
        let made = Invitation::new(&config, &key, ("home", 7), expires);
        let (mut invitation, entry) = made.unwrap();
        let file = Arc::new(Mutex::new(ServerConfig { client: vec![entry], ..config }));
        let server = start(&file);
        invitation.addresses = vec![server.at.to_string()];
        file.lock().unwrap().listen = vec![server.at];
        Self { folder, key, file, server, invitation }
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("clients.json")
    }

    fn far(&self) -> exchange::Server {
        exchange::Server {
            addresses: vec![self.server.at],
            public_key: self.key.public(),
            network: self.invitation.network,
            number: ClientNumber(self.invitation.number),
        }
    }

    /// Asks with the key of the invitation.
    fn join(&self, own: &Own, patience: tabane_engine::Duration) -> Result<u64, ExchangeError> {
        let Grant::Enrolment { secret, .. } = &self.invitation.grant else { panic!("old") };
        let (key, preshared) = secret.enrolment(&self.key.public());
        let ask = Ask::Join(self.credentials(own));
        exchange::ask(&self.far(), (&key, &preshared), &ask, &[Link::default()], patience)
    }

    /// Asks with a client's control key.
    fn control(&self, own: &Own, ask: &Ask) -> Result<u64, ExchangeError> {
        let control = own.secret.control(&self.key.public());
        let preshared = own.preshared_key.as_ref().unwrap();
        exchange::ask(&self.far(), (&control, preshared), ask, &[Link::default()], SHORT)
    }

    fn credentials(&self, own: &Own) -> Credentials {
        let preshared = own.preshared_key.as_ref().unwrap();
        Credentials::of(&own.secret, &self.key.public(), preshared)
    }

    /// The client's configuration, one path on loopback.
    fn client(&self, own: &Own, pending: bool) -> ClientConfig {
        let text = self.invitation.client_file(own, &[], pending);
        let mut config = parse::<ClientConfig>("c.toml", &text, &[]).unwrap().config;
        config.path[0].source = Some("127.0.0.1".parse().unwrap());
        config.front.socks5 = vec!["127.0.0.1:0".parse().unwrap()];
        config
    }

    fn events(&self) -> Vec<AgentEvent> {
        events(&self.server)
    }

    fn reload(&self, change: impl FnOnce(&mut Vec<ClientEntry>)) {
        change(&mut self.file.lock().unwrap().client);
        assert_eq!(self.server.request_channel.ask(Request::Reload).unwrap(), Answer::Done);
    }

    /// Ends the server, and starts another one at the same address.
    fn restart(&mut self) {
        self.server.stop();
        self.server = start(&self.file);
    }
}

fn events(agent: &Agent) -> Vec<AgentEvent> {
    match agent.request_channel.ask(Request::Events { since: 0 }).unwrap() {
        Answer::Events(all) => all,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn refused(done: Result<u64, ExchangeError>, word: &str) {
    match done {
        Err(ExchangeError::Refused(why)) if why.contains(word) => {}
        other => panic!("{other:?} instead of '{word}'"),
    }
}

#[track_caller]
fn silent(done: Result<u64, ExchangeError>) {
    assert!(matches!(done, Err(ExchangeError::Silent(_))), "{done:?}");
}

fn roundtrip(listener: SocketAddr, far: SocketAddr) -> Result<(), u8> {
    let mut stream = connect(listener, far)?;
    stream.write_all(b"ping").unwrap();
    let mut back = [0; 4];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"ping");
    Ok(())
}

fn is_up(agent: &Agent) -> bool {
    agent.status().paths.iter().all(|path| path.state == PathState::Up)
}

#[test]
fn an_invitation_makes_one_client_and_no_second_one() {
    let mut place = Place::new(3600);
    let own = place.invitation.own().unwrap();
    let theirs = place.join(&own, ANSWER).unwrap();
    assert!(theirs.abs_diff(unix_s() * 1000) < 60_000);
    let client = Agent::client(place.client(&own, false));
    client.until_paths_work();
    roundtrip(client.at, echo()).unwrap();

    // Whoever did not hear the answer asks again; somebody else is refused, which is noted.
    place.join(&own, ANSWER).unwrap();
    let other = place.invitation.own().unwrap();
    refused(place.join(&other, ANSWER), "has been used");
    let told = place.events();
    let told = told.iter().find(|h| h.kind.name() == "enrolment-refused").expect("it is noted");
    assert_eq!(told.client.as_deref(), Some("home"));
    assert!(told.text.contains("127.0.0.1"), "{}", told.text);

    // Nothing of that is forgotten with the process.
    place.restart();
    refused(place.join(&other, ANSWER), "has been used");
    client.until("up again", |s| s.paths.iter().all(|path| path.state == PathState::Up));
    roundtrip(client.at, echo()).unwrap();
    assert!(is_up(&client));
}

/// Of many who use one invitation at the same moment exactly one becomes the client.
#[test]
fn of_two_at_once_one_is_first() {
    let place = Place::new(3600);
    let tries: Vec<Own> = (0..4).map(|_| place.invitation.own().unwrap()).collect();
    let done: Vec<bool> = thread::scope(|scope| {
        let place = &place;
        let all = tries.iter().map(|own| scope.spawn(move || place.join(own, ANSWER).is_ok()));
        let all: Vec<_> = all.collect();
        all.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    // The others' sessions may have been displaced by each other: whoever was silent asks again.
    let again: Vec<bool> = tries.iter().map(|own| place.join(own, ANSWER).is_ok()).collect();
    assert_eq!(again.iter().filter(|done| **done).count(), 1, "{done:?} {again:?}");
    assert!(done.iter().zip(&again).all(|(first, second)| !first || *second));
}

#[test]
fn an_invitation_that_has_expired_is_worth_nothing() {
    let place = Place::new(-1);
    let own = place.invitation.own().unwrap();
    refused(place.join(&own, ANSWER), "expired");
    assert!(!place.state().exists());
    // After a week not even that is said.
    let place = Place::new(-8 * 86_400);
    silent(place.join(&own, SHORT));
}

#[test]
fn without_the_preshared_key_nobody_answers() {
    let place = Place::new(3600);
    let own = place.invitation.own().unwrap();
    let Grant::Enrolment { secret, .. } = &place.invitation.grant else { panic!("old") };
    let (key, _) = secret.enrolment(&place.key.public());
    let wrong = Key::random().unwrap();
    let ask = Ask::Join(place.credentials(&own));
    let links = [Link::default()];
    silent(exchange::ask(&place.far(), (&key, &wrong), &ask, &links, SHORT));
    place.join(&own, ANSWER).unwrap();
    let client = Agent::client({
        let mut config = place.client(&own, false);
        config.server[0].preshared_key = Some(wrong.to_string().into());
        config
    });
    thread::sleep(Duration::from_secs(2));
    assert!(!is_up(&client));
}

/// The server did not run when the client joined: the client makes itself known when both do.
#[test]
fn a_client_joins_when_it_starts_if_it_could_not_before() {
    let mut place = Place::new(3600);
    place.server.stop();
    let own = place.invitation.own().unwrap();
    let client = Agent::client(place.client(&own, true));
    thread::sleep(Duration::from_secs(1));
    place.server = start(&place.file);
    client.until_paths_work();
    roundtrip(client.at, echo()).unwrap();
    // The invitation in its file does no harm later.
    drop(client);
    let client = Agent::client(place.client(&own, true));
    client.until_paths_work();
    assert!(events(&client).iter().all(|h| h.kind.name() != "enrolment-refused"));
}

/// What the file says counts: without the entry there is no client, however it had joined.
#[test]
fn who_is_removed_is_forgotten_and_who_is_renamed_is_not() {
    let place = Place::new(3600);
    let own = place.invitation.own().unwrap();
    place.join(&own, ANSWER).unwrap();
    let client = Agent::client(place.client(&own, false));
    client.until_paths_work();
    place.reload(|clients| clients[0].name = "boat".into());
    roundtrip(client.at, echo()).unwrap();
    assert!(place.server.status().paths.iter().all(|path| path.client.as_deref() == Some("boat")));

    let mut kept = Vec::new();
    place.reload(|clients| kept = std::mem::take(clients));
    assert_eq!(place.server.status().clients, 0);
    assert!(!std::fs::read_to_string(place.state()).unwrap().contains("control"));
    silent(place.join(&own, SHORT));
    silent(place.control(&own, &Ask::Resume));
    client.until("down", |s| s.paths.iter().all(|path| path.state != PathState::Up));
}

#[test]
fn a_state_that_cannot_be_written_makes_no_client() {
    let place = Place::new(3600);
    std::fs::create_dir(place.state()).unwrap();
    let own = place.invitation.own().unwrap();
    refused(place.join(&own, ANSWER), "cannot remember");
    std::fs::remove_dir(place.state()).unwrap();
    place.join(&own, ANSWER).unwrap();
    let broken = ServerConfig {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        ..{ place.file.lock().unwrap().clone() }
    };
    std::fs::write(place.state(), "{").unwrap();
    let error = Server::new(broken, None).err().expect("it does not start").to_string();
    assert!(error.contains("clients.json") && error.contains("invite anew"), "{error}");
}

/// Asked again, by the new keys, a server ends those before sooner; never later, and not because
/// somebody asks who has them still.
#[test]
fn keys_before_end_sooner_and_never_later() {
    let place = Place::new(3600);
    let (own, new) = (place.invitation.own().unwrap(), place.invitation.own().unwrap());
    place.join(&own, ANSWER).unwrap();
    let rotate = |keep_s| Ask::Rotate { new: place.credentials(&new), keep_s };
    let until = || {
        let state: serde_json::Value =
            serde_json::from_slice(&std::fs::read(place.state()).unwrap()).unwrap();
        let former = state.as_object().unwrap().values().next().unwrap()["former"].clone();
        former["until"].as_u64()
    };
    place.control(&own, &rotate(1000)).unwrap();
    let first = until().unwrap();
    place.control(&own, &rotate(1)).unwrap();
    place.control(&new, &rotate(2000)).unwrap();
    assert_eq!(until(), Some(first));
    place.control(&new, &rotate(500)).unwrap();
    assert!(until().unwrap() <= first - 490);
    // Each change is a file that is written.
    refused(place.control(&new, &rotate(0)), "less than 10 s ago");
    thread::sleep(Duration::from_secs(10));
    place.control(&new, &rotate(0)).unwrap();
    assert_eq!(until(), None);
    assert!(matches!(place.control(&own, &Ask::Resume), Err(ExchangeError::Silent(_))));
}

/// Two generations, then one; what was replaced cannot replace.
#[test]
fn keys_are_changed_while_connections_go_on() {
    let place = Place::new(3600);
    let (own, new) = (place.invitation.own().unwrap(), place.invitation.own().unwrap());
    place.join(&own, ANSWER).unwrap();
    let before = Agent::client(place.client(&own, false));
    before.until_paths_work();
    let mut stream = connect(before.at, echo()).unwrap();
    let rotate = |to: &Own| Ask::Rotate { new: place.credentials(to), keep_s: 8 };
    place.control(&own, &rotate(&new)).unwrap();
    // Repeated by either key.
    place.control(&own, &rotate(&new)).unwrap();
    place.control(&new, &rotate(&new)).unwrap();
    stream.write_all(b"ping").unwrap();
    let mut back = [0; 4];
    stream.read_exact(&mut back).unwrap();

    let third = place.invitation.own().unwrap();
    refused(place.control(&own, &rotate(&third)), "replaced");
    refused(place.control(&new, &rotate(&own)), "replaced");
    refused(place.join(&third, ANSWER), "has been used");
    drop(before);
    let client = Agent::client(place.client(&new, false));
    client.until_paths_work();
    roundtrip(client.at, echo()).unwrap();
    drop(client);

    let start = std::time::Instant::now();
    let gone =
        |own: &Own| matches!(place.control(own, &Ask::Resume), Err(ExchangeError::Silent(_)));
    while !gone(&own) {
        assert!(start.elapsed() < LONG, "the old key stays");
    }
    let old = Agent::client(place.client(&own, false));
    thread::sleep(Duration::from_secs(2));
    assert!(!is_up(&old), "the old keys stay");
    assert!(!std::fs::read_to_string(place.state()).unwrap().contains("former"));
    let client = Agent::client(place.client(&new, false));
    client.until_paths_work();
}

/// Nobody asks what is not its to ask.
#[test]
fn an_invitation_cannot_change_keys_and_a_client_cannot_join_again() {
    let place = Place::new(3600);
    let own = place.invitation.own().unwrap();
    let Grant::Enrolment { secret, .. } = &place.invitation.grant else { panic!("old") };
    let (key, preshared) = secret.enrolment(&place.key.public());
    let new = place.credentials(&own);
    let links = [Link::default()];
    for ask in [Ask::Rotate { new: new.clone(), keep_s: 0 }, Ask::Resume] {
        refused(
            exchange::ask(&place.far(), (&key, &preshared), &ask, &links, ANSWER),
            "not asked with this key",
        );
    }
    place.join(&own, ANSWER).unwrap();
    refused(place.control(&own, &Ask::Join(new)), "not asked with this key");
    let mut taken = place.credentials(&place.invitation.own().unwrap());
    taken.control = encode(&place.key.public());
    refused(place.control(&own, &Ask::Rotate { new: taken, keep_s: 0 }), "server's own");
}

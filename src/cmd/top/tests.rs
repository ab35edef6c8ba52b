//! The screen at all sizes, and its keys.

use super::super::ask::{Look, Update};
use super::super::view::Action;
use super::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use tabane_gateway::model::{AgentEvent, Role, SubflowStatus};

fn view() -> View {
    let path = |name: &str, state, reason: &str, rx_bps: f64| PathStatus {
        name: name.into(),
        state,
        reason: reason.into(),
        rx_bps,
        rtt_ms: Some(12.4),
        loss: Some(0.005),
        ..PathStatus::default()
    };
    let conn = |id, target: &str, rx_bytes, age_s| ConnStatus {
        id,
        target: target.into(),
        rx_bytes,
        age_s,
        subflows: vec![SubflowStatus { path: "fibre".into(), ..SubflowStatus::default() }],
        ..ConnStatus::default()
    };
    let mut view = View::default();
    for n in 0u32..300 {
        let status = Status {
            agent: "client".into(),
            name: "home".into(),
            paths: vec![
                path("fibre", PathState::Up, "carries 2 subflows", f64::from(n) * 1e5),
                path("lte", PathState::Up, "idle: backup, and fibre works", 0.0),
                path("train", PathState::Absent, "interface wlan0 is not there", 0.0),
            ],
            connections: 2,
            ..Status::default()
        };
        let connections =
            vec![conn(1, "b.example:443", 500, 9.0), conn(2, "a.example:22", 9000, 1.0)];
        let events = vec![AgentEvent {
            seq: n.into(),
            unix_ms: 1_790_000_000_000,
            kind: "path-up".into(),
            path: None,
            client: None,
            text: "lte is up".into(),
        }];
        view.take(Update::Look(Box::new(Look { status, connections, events })));
    }
    view
}

fn screen(view: &View, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, view)).unwrap();
    let buffer = terminal.backend().buffer();
    let rows = buffer.content.chunks(usize::from(width.max(1)));
    let text = |row: &[ratatui::buffer::Cell]| row.iter().map(|cell| cell.symbol()).collect();
    rows.map(text).collect::<Vec<String>>().join("\n")
}

fn press(view: &mut View, code: KeyCode) -> Action {
    view.handle_key(KeyEvent::new(code, KeyModifiers::NONE))
}

#[test]
fn a_usual_and_a_narrow_screen_show_what_each_link_does() {
    let view = view();
    for (width, height) in [(80, 24), (40, 24)] {
        let text = screen(&view, width, height);
        for part in [
            "client home",
            "fibre",
            "29.9M",
            "█",
            "12.4 ms",
            "train",
            "absent",
            "idle: backup, and fibre works",
            "interface wlan0 is not there",
            "a.example:22",
            "lte is up",
            "q leave",
        ] {
            assert!(text.contains(part), "{width}: no '{part}' in\n{text}");
        }
    }
    assert!(screen(&view, 80, 24).contains("0.5 %"));
}

#[test]
fn no_size_is_too_small_or_too_large() {
    let mut view = view();
    for choosing in [false, true] {
        view.choosing = choosing;
        for width in (0..90).chain([500]) {
            for height in (0..30).chain([200]) {
                screen(&view, width, height);
            }
        }
    }
    view.take(Update::Trouble("the agent has ended".into()));
    assert!(screen(&view, 80, 24).contains("the agent has ended"));
    for size in 0..30 {
        screen(&View::default(), size, size);
        screen(&view, size, size);
    }
}

#[test]
fn the_chosen_link_stays_in_sight() {
    let mut view = view();
    for _ in 0..9 {
        press(&mut view, KeyCode::Down);
    }
    assert!(screen(&view, 80, 9).contains("▶ train"), "{}", screen(&view, 80, 9));
}

#[test]
fn keys() {
    let mut view = view();
    assert_eq!(press(&mut view, KeyCode::Char('x')), Action::None);
    assert_eq!(view.connections[0].id, 2, "by traffic");
    press(&mut view, KeyCode::Char('s'));
    assert_eq!((view.sort.name(), view.connections[0].id), ("age", 1));
    press(&mut view, KeyCode::Char('s'));
    assert_eq!((view.sort.name(), view.connections[0].id), ("target", 2));

    press(&mut view, KeyCode::Down);
    press(&mut view, KeyCode::Char('p'));
    assert!(screen(&view, 80, 24).contains("lte: 1 primary"));
    let set = Action::Set { path: "lte".into(), role: Role::Secondary };
    assert_eq!(press(&mut view, KeyCode::Char('2')), set);
    press(&mut view, KeyCode::Char('p'));
    let never = Action::Set { path: "lte".into(), role: Role::Never };
    assert_eq!(press(&mut view, KeyCode::Char('n')), never);
    for other in [KeyCode::Esc, KeyCode::Char('0'), KeyCode::Char('7')] {
        press(&mut view, KeyCode::Char('p'));
        assert_eq!(press(&mut view, other), Action::None, "{other:?} changes nothing");
    }
    assert_eq!(press(&mut view, KeyCode::Char('q')), Action::Leave);
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(view.handle_key(interrupt), Action::Leave);
    assert_eq!(View::default().handle_key(KeyEvent::from(KeyCode::Char('p'))), Action::None);
}

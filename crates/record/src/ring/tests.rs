//! Files: an hour each, the oldest deleted, torn and damaged ones.

use super::super::codec::Encoder;
use super::super::{DirectionRow, PathRow, Using};
use super::*;
use std::os::unix::fs::PermissionsExt;

const START: u64 = 1_800_000_000_000;

fn row(unix_ms: u64) -> Row {
    let directions = [DirectionRow::default(); 2];
    Row::Path(PathRow {
        unix_ms,
        lasts_ms: 100,
        path: "wifi".into(),
        up: true,
        waits: true,
        using: Using::Backup,
        rtt_us: None,
        directions,
    })
}

fn block(unix_ms: u64) -> Vec<u8> {
    let mut encoder = Encoder::default();
    encoder.add(&row(unix_ms));
    encoder.finish()
}

fn settings(folder: &Path, hours: u64) -> RecordSettings {
    let keep = Duration::from_secs(hours * 3600);
    RecordSettings { keep, folder: folder.to_owned(), names: false }
}

fn times(contents: &Contents) -> Vec<u64> {
    let time = |row: &Row| match row {
        Row::Path(row) => row.unix_ms - START,
        _ => panic!("{row:?}"),
    };
    contents.rows.iter().map(time).collect()
}

#[test]
fn a_file_an_hour_and_the_oldest_are_deleted() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("deep/record");
    let mut writer = Writer::start(settings(&folder, 3), Role::Server).unwrap();
    fs::write(folder.join("notes.rec"), "somebody else's").unwrap();
    for half_hours in 0..16 {
        let start = START + half_hours * SEGMENT_MS / 2;
        assert!(writer.write(start, block(start)));
    }
    drop(writer);
    let recording = Recording::open(&folder).unwrap();
    let starts: Vec<u64> =
        recording.files.iter().map(|file| (file.start_ms - START) / SEGMENT_MS).collect();
    assert_eq!(starts, [3, 4, 5, 6, 7]);
    assert!(folder.join("notes.rec").exists());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&folder), mode(&recording.files[0].path)), (0o700, 0o600));
    let hour = SEGMENT_MS;
    let found = recording.read(START + 4 * hour, START + 5 * hour + 1).unwrap();
    assert_eq!(times(&found), [4 * hour, 4 * hour + hour / 2, 5 * hour]);
    assert_eq!(found.roles, [Role::Server]);
    assert!(found.torn.is_empty() && found.damaged.is_empty());
}

#[test]
fn a_torn_end_is_reported_and_not_continued() {
    let place = tempfile::tempdir().unwrap();
    for start in [START, START + 1000] {
        let mut writer = Writer::start(settings(place.path(), 3), Role::Client).unwrap();
        writer.write(start, block(start));
        writer.write(start + 10, block(start + 10));
        drop(writer);
    }
    let recording = Recording::open(place.path()).unwrap();
    let [first, second] = &recording.files[..] else { panic!("{recording:?}") };
    let bytes = fs::read(&first.path).unwrap();
    fs::write(&first.path, &bytes[..bytes.len() - 3]).unwrap();
    let mut bytes = fs::read(&second.path).unwrap();
    bytes[HEAD + 9] ^= 4;
    fs::write(&second.path, &bytes).unwrap();
    let found = Recording::open(place.path()).unwrap().read(0, u64::MAX).unwrap();
    assert_eq!(times(&found), [0, 1010]);
    assert_eq!(found.torn, std::slice::from_ref(&first.path));
    assert_eq!(found.damaged, [(second.path.clone(), 1)]);
    // Deleted by the agent since it was listed.
    let listed = Recording::open(place.path()).unwrap();
    fs::remove_file(&second.path).unwrap();
    assert_eq!(times(&listed.read(0, u64::MAX).unwrap()), [0]);
    fs::write(&first.path, b"tabane-record\n\x63\x00").unwrap();
    let error = Recording::open(place.path()).unwrap().read(0, u64::MAX).unwrap_err();
    assert!(matches!(error, ReadError::Version(_, 0x63)), "{error}");
}

#[test]
fn what_was_skipped_is_as_old_as_the_row_before_it() {
    let place = tempfile::tempdir().unwrap();
    let mut writer = Writer::start(settings(place.path(), 3), Role::Client).unwrap();
    for second in 0..3 {
        let (start, mut encoder) = (START + second * 1000, Encoder::default());
        encoder.add(&row(start));
        encoder.add(&Row::Skipped(second + 5));
        writer.write(start, encoder.finish());
    }
    drop(writer);
    let found = Recording::open(place.path()).unwrap().read(START + 900, START + 1100).unwrap();
    assert_eq!(found.rows, [row(START + 1000), Row::Skipped(6)]);
}

#[test]
fn what_cannot_be_written_ends_the_recording_and_is_said_once() {
    let place = tempfile::tempdir().unwrap();
    let mut writer = Writer::start(settings(place.path(), 3), Role::Client).unwrap();
    // As with a disk that is full or gone: no file can be made there.
    fs::remove_dir(place.path()).unwrap();
    writer.write(START, block(START));
    let mut said = None;
    for _ in 0..500 {
        said = writer.poll_failure();
        if said.is_some() {
            break;
        }
        thread::sleep(std::time::Duration::from_millis(10));
    }
    let said = said.expect("it says so");
    assert!(said.starts_with("nothing is recorded any more: "), "{said}");
    assert_eq!(writer.poll_failure(), None);
    assert!(!writer.write(START, block(START)), "nothing waits for ever");
}

#[test]
fn there_is_never_more_than_was_allowed() {
    let place = tempfile::tempdir().unwrap();
    let mut writer = Writer::start(settings(place.path(), 24), Role::Client).unwrap();
    for hour in 0..20 {
        // Far more than an hour's part.
        let start = START + hour * SEGMENT_MS;
        assert!(writer.write(start, vec![0; 8_000_000]));
        while Recording::open(place.path()).unwrap().files.last().map(|f| f.start_ms) != Some(start)
        {
            thread::yield_now();
        }
    }
    drop(writer);
    let total: u64 =
        Recording::open(place.path()).unwrap().files.iter().map(|file| file.size).sum();
    assert!(total <= DAY_MAX + 8_000_000, "{total}");
    assert!(total >= 40_000_000, "{total}");
}

//! Runs tshark on packets, and the analyzer on the same file; the labels must be the same.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::process::Command;
use tabane_trace::analysis::{Analyzer, Label, Labels, Settings};
use tabane_trace::pcap::{Buffered, Segments};
use tabane_wire::{Headers, PcapngWriter, Segment};

/// What one of the two says about a frame.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Line {
    number: u64,
    stream: u32,
    labels: Labels,
    duplicate_ack: u32,
}

/// Whether there is a tshark whose labels are those of the classifier.
pub(crate) fn has_tshark() -> bool {
    let said = Command::new("tshark").arg("--version").output();
    let text = said.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
    let first = text.lines().next().unwrap_or("no tshark").to_owned();
    if first.contains(" 4.0.") {
        return true;
    }
    println!("SKIPPED: the labels are those of tshark 4.0, here is: {first}");
    assert!(std::env::var("CI").as_deref() != Ok("true"), "must not be skipped in CI: {first}");
    false
}

/// Writes the packets to a file and compares; headers only, tshark shall not guess at payloads.
#[allow(dead_code)] // Not every test generates its packets.
pub(crate) fn compare(what: &str, packets: &[(u64, Segment)]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("generated.pcapng");
    let file = BufWriter::new(File::create(&path).unwrap());
    let mut writer = PcapngWriter::new(file, "tabane").unwrap();
    let interface = writer.interface("generated", 120).unwrap();
    let mut buffer = vec![0; 65_536];
    for (time, segment) in packets {
        let len = segment.emit(&mut buffer).unwrap();
        writer.packet(interface, *time, &buffer[..len], "").unwrap();
    }
    writer.flush().unwrap();
    compare_file(what, &path);
}

/// Compares on a file that is there; how many labels were given.
pub(crate) fn compare_file(what: &str, path: &Path) -> usize {
    let (theirs, ours) = (tshark(path), analyzer(path));
    assert_eq!(theirs.len(), ours.len(), "{what}: TCP packets");
    let mut given = 0;
    for (i, (their, our)) in theirs.iter().zip(&ours).enumerate() {
        given += their.labels.iter().count();
        if their == our {
            continue;
        }
        let kept = std::env::temp_dir().join("tabane-tshark-differs.pcapng");
        std::fs::copy(path, &kept).unwrap();
        let before: Vec<String> = ours[..i]
            .iter()
            .filter(|o| o.stream == our.stream)
            .rev()
            .take(5)
            .map(|o| format!("{o:?}"))
            .collect();
        panic!(
            "{what}: frame {}\ntshark {their:?}\nours   {our:?}\nbefore it in the stream:\n{}\n\
             kept as {}",
            our.number,
            before.join("\n"),
            kept.display()
        );
    }
    println!("{what}: {} packets, {given} labels, all the same", ours.len());
    given
}

fn analyzer(path: &Path) -> Vec<Line> {
    let mut segments = Segments::open(Buffered::new(File::open(path).unwrap())).unwrap();
    let mut analyzer = Analyzer::new(Settings::default());
    let mut headers = Headers::default();
    let mut lines = Vec::new();
    while let Some(seen) = segments.next_segment(&mut headers).unwrap() {
        let outcome = analyzer.packet(seen.time, &headers).unwrap();
        lines.push(Line {
            number: seen.number,
            stream: outcome.stream,
            labels: outcome.verdict.labels,
            duplicate_ack: outcome.verdict.duplicate_ack,
        });
    }
    lines
}

fn tshark(path: &Path) -> Vec<Line> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-r"]).arg(path).args(["-Y", "tcp.stream", "-T", "fields"]);
    command.args(["-E", "occurrence=f", "-E", "separator=,"]);
    command.args(["-e", "frame.number", "-e", "tcp.stream"]);
    command.args(["-e", "tcp.analysis.duplicate_ack_num"]);
    for label in Label::ALL {
        command.args(["-e", &format!("tcp.analysis.{}", label.name())]);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(line).collect()
}

fn line(text: &str) -> Line {
    let fields: Vec<&str> = text.split(',').collect();
    let number = |i: usize| fields[i].parse().unwrap_or(0);
    let mut labels = Labels::NONE;
    for (label, field) in Label::ALL.into_iter().zip(&fields[3..]) {
        if !field.is_empty() {
            labels |= label;
        }
    }
    // Wireshark gives this one along with its two special cases.
    let special = [Label::FastRetransmission, Label::SpuriousRetransmission];
    if special.into_iter().any(|label| labels.contains(label)) {
        let kept = labels.iter().filter(|l| *l != Label::Retransmission);
        labels = kept.fold(Labels::NONE, |all, label| all | label);
    }
    let duplicate_ack = number(2) as u32;
    Line { number: number(0), stream: number(1) as u32, labels, duplicate_ack }
}

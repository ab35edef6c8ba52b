//! The compiled objects are those of the sources beside them, and the table in the sources is that
//! of RFC 3649's formulas. What only a kernel can say is in `tests/kernel.rs` of the workspace.

use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf")
}

/// `build.sh` notes the digests of what it read and made.
#[test]
fn objects_match_their_sources() {
    let sums = fs::read_to_string(folder().join("SHA256SUMS")).unwrap();
    let mut noted = BTreeSet::new();
    for line in sums.lines() {
        let (sum, name) = line.split_once("  ").expect("digest and name");
        let bytes = fs::read(folder().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        let digest = Sha256::digest(&bytes);
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digest, sum, "{name} has changed since; run crates/kernel/bpf/build.sh");
        noted.insert(name.to_owned());
    }
    let mut there = BTreeSet::new();
    for place in ["", "objects/"] {
        for entry in fs::read_dir(folder().join(place)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let ends = [".c", ".h", ".py", ".o"];
            if ends.iter().any(|end| name.ends_with(end)) {
                there.insert(format!("{place}{name}"));
            }
        }
    }
    assert_eq!(there, noted, "sources and objects, and what SHA256SUMS names");
}

/// Section 5: b falls with log w from 0.5 at 38 to 0.1 at 83000;
/// a(w) = w^2 p(w) 2 b(w) / (2 - b(w)) with p(w) = 0.078 / w^1.2.
#[test]
fn the_table_is_that_of_the_formulas() {
    let text = fs::read_to_string(folder().join("hstcp_table.h")).unwrap();
    let row = |line: &str| -> Option<(u32, u32)> {
        let inner = line.trim().strip_prefix("{ ")?.strip_suffix(" },")?;
        let (w, b) = inner.split_once(", ")?;
        Some((w.parse().ok()?, b.parse().ok()?))
    };
    let rows: Vec<(u32, u32)> = text.lines().filter_map(row).collect();
    assert!(text.contains(&format!("#define ROWS {}\n", rows.len())));
    assert_eq!(rows[0], (0, 128), "Reno up to 38 segments, and as long as a(w) is below 2");
    let b = |w: f64| 0.5 - 0.4 * (w / 38.0).ln() / (83_000.0f64 / 38.0).ln();
    let a = |w: f64| 0.078 * w.powf(0.8) * 2.0 * b(w) / (2.0 - b(w));
    for (n, &(w, share)) in rows.iter().enumerate().skip(1) {
        let (w, n) = (f64::from(w), (n + 1) as f64);
        assert!(a(w) >= n - 1e-9 && a(w - 1.0) < n, "a({w}) = {}, {n} in the table", a(w));
        assert!((f64::from(share) / 256.0 - b(w)).abs() <= 0.5 / 256.0, "b({w}) = {}", b(w));
    }
    assert!(a(83_000.0) < (rows.len() + 1) as f64, "the table goes as far as the RFC");
}

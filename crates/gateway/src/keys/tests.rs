//! Vectors of `keys`, made with Python's hmac and a Montgomery ladder written out there.

use super::*;

/// Index of the path, private key, public key, of the secret 00 01 .. 1f.
const PATHS: [(usize, &str, &str); 3] = [
    (
        0,
        "CFu+Eeas+UACtBUlvLw6uFpDKdQVccOWjnA6rC59nUU=",
        "uRHCGeFjN+8uoyl4sLbve9ZB2C1z4GgBscZP+y2rknk=",
    ),
    (
        1,
        "SAfkKhoA/x4JHeArsR0TNA6RV8DTWgBZo+BfQha8okI=",
        "F3RP4ZK7qx54m0kpIv32IRdM3qmd1VouKjztAHyoKhk=",
    ),
    (
        7,
        "GGzzb8C0QJGcr76QOB5+jvLh9lDeJk3xnC5DPn3+kWM=",
        "Iz5N7WWIgd3KJjbdWqn+tuUv0AN8gscUjyvL+decPBU=",
    ),
];

#[test]
fn keys_of_paths_are_those_of_an_independent_implementation() {
    let secret: Key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=".parse().unwrap();
    for (path, private, shared) in PATHS {
        let key = secret.of_path(path);
        assert_eq!(key.to_string(), private);
        assert_eq!(encode(&key.public()), shared);
        assert_eq!(encode(&public(shared).unwrap()), shared);
    }
}

/// Of the secret 00 01 .. 1f and the server whose private key is clamp(20 21 .. 3f); each private
/// and public.
const SERVER: &str = "NYBy1jZYgNGu6jKa35EhODhR7SGijjt16WXQ0s0WYlQ=";
const PATHS_2: [(usize, &str, &str); 2] = [
    (
        0,
        "wIVvLRTlWvR2qppKPCKfoQNBeVSeL61tPBIrktqY+FI=",
        "Bbm3DTwFU14PRCxry0yGkRzWbksam+04V+MbazfOqlc=",
    ),
    (
        7,
        "SG0j9//6UwFO9ikONYQkrlQP5EbTcLSK7gOpyLdN2E0=",
        "BPef3Num1XfU5cEtAi83YOs2O34z/Kci4+KDUUYgSWE=",
    ),
];

#[test]
fn keys_of_version_2_are_those_of_an_independent_implementation() {
    let secret: Key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=".parse().unwrap();
    let server = public(SERVER).unwrap();
    for (path, private, shared) in PATHS_2 {
        let key = secret.of_path_to(&server, path);
        assert_eq!((key.to_string().as_str(), encode(&key.public()).as_str()), (private, shared));
    }
    let control = secret.control(&server);
    assert_eq!(control.to_string(), "MMJ4S+QTBMrIvhrK6hJB3F8PVABhKJyAzhL/6QKj3Ws=");
    let (key, preshared) = secret.enrolment(&server);
    assert_eq!(key.to_string(), "eLyeU5jrAarilxjCFd+VlT0x4wUnhHvw5PV5ikvNBH4=");
    assert_eq!(preshared.to_string(), "zXM7BvTeXUzfL7cEQMHKxUDGOByALlmj6n4GWGX6aQU=");
}

/// What two servers know of a client with one secret has nothing in common.
#[test]
fn two_servers_have_no_key_of_a_client_in_common() {
    let secret = Key::random().unwrap();
    let servers = [0; 2].map(|_| Key::random_private().unwrap().public());
    let known = servers.map(|server| {
        let paths = (0..8).map(|path| secret.of_path_to(&server, path));
        let keys = paths.chain([secret.control(&server)]);
        keys.map(|key| encode(&key.public())).collect::<std::collections::BTreeSet<_>>()
    });
    assert_eq!((known[0].len(), known[1].len()), (9, 9));
    assert!(known[0].is_disjoint(&known[1]));
}

#[test]
fn private_keys_are_clamped_as_wg_does() {
    for _ in 0..50 {
        let key = Key::random_private().unwrap();
        let bytes = key.bytes();
        assert_eq!((bytes[0] & 7, bytes[31] & 0xc0), (0, 0x40));
        assert_eq!(key.to_string().parse::<Key>().unwrap(), key);
    }
    assert_ne!(Key::random().unwrap(), Key::random().unwrap());
}

#[test]
fn what_is_no_key_is_refused_and_not_shown() {
    for text in ["", "AAAA", "not base64!", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"] {
        let said = text.parse::<Key>().unwrap_err().to_string();
        assert!(said.contains("44 characters"), "{said}");
        assert!(text.is_empty() || !said.contains(text), "{said}");
    }
    let key = Key::random().unwrap();
    assert_eq!(format!("{key:?}"), "Key(..)");
}

#[test]
fn a_key_file_is_private_whole_and_not_replaced_unasked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("k");
    let key = Key::random().unwrap();
    write_private(&path, &format!("{key}\n"), false).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(Key::read(&path).unwrap(), key);
    let again = write_private(&path, "x", false).unwrap_err();
    assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(Key::read(&path).unwrap(), key);
    write_private(&path, "x", true).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "x");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn a_file_is_exposed_by_its_mode_and_that_of_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("k");
    fs::write(&path, "x").unwrap();
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    for (of_folder, of_file, exposed) in
        [(0o755, 0o644, true), (0o755, 0o640, false), (0o700, 0o644, false), (0o711, 0o604, true)]
    {
        mode(folder.path(), of_folder).unwrap();
        mode(&path, of_file).unwrap();
        assert_eq!(is_exposed(&path), exposed, "{of_folder:o} {of_file:o}");
    }
}

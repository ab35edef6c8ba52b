//! From a request target to a file below a root, and what a directory looks like.
//!
//! Nothing outside the root is ever opened: `..` is refused, and symbolic links that lead out of
//! it too. Hidden files are served: the user chose the directory.

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::SystemTime;
use thiserror::Error;

/// What a target names.
#[derive(Debug)]
pub enum Found {
    /// A file, open.
    File {
        /// The file.
        file: File,
        /// Its size, bytes.
        size: u64,
        /// When it was changed last, to the second as HTTP has it.
        modified: Option<SystemTime>,
        /// Its media type.
        media_type: &'static str,
    },
    /// A directory, as a page.
    Listing(String),
    /// A directory named without the slash at the end, which relative links need.
    AddSlash(String),
}

/// Why a target names nothing.
#[derive(Error, Debug)]
pub enum TargetError {
    /// Not a path, or one that could leave the root.
    #[error("the path is not allowed")]
    BadPath,
    /// Nothing there.
    #[error("there is no such file")]
    NotFound,
    /// Something is there, not for us.
    #[error("the file cannot be read")]
    Forbidden,
    /// The file system failed.
    #[error("the file cannot be read: {0}")]
    Io(#[source] io::Error),
}

/// Most entries shown of a directory.
const LISTING_MAX: usize = 10_000;

/// What must be escaped in a path segment of a link.
const SEGMENT: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'%').add(b'<').add(b'>').add(b'?').add(b'/');

/// Looks up a target below `root`, which must be canonical.
///
/// # Errors
/// [`TargetError`].
pub fn find(root: &Path, target: &str) -> Result<Found, TargetError> {
    let (path, segments) = segments(target)?;
    let wanted = segments.iter().fold(root.to_owned(), |path, segment| path.join(segment));
    let real = fs::canonicalize(&wanted).map_err(target_error)?;
    if !real.starts_with(root) {
        return Err(TargetError::Forbidden);
    }
    let metadata = fs::metadata(&real).map_err(target_error)?;
    if metadata.is_dir() {
        if !path.ends_with('/') {
            return Ok(Found::AddSlash(format!("{path}/")));
        }
        return Ok(Found::Listing(listing(&real, &segments).map_err(target_error)?));
    }
    // A FIFO would block the whole server.
    if !metadata.is_file() || path.ends_with('/') {
        return Err(TargetError::NotFound);
    }
    let file = File::open(&real).map_err(target_error)?;
    let modified = metadata.modified().ok();
    Ok(Found::File { file, size: metadata.len(), modified, media_type: media_type(&real) })
}

/// The name under which an upload to `target` is kept: its last segment.
///
/// # Errors
/// [`TargetError::BadPath`] if there is none.
pub fn upload_name(target: &str) -> Result<String, TargetError> {
    let (path, segments) = segments(target)?;
    match segments.last() {
        Some(name) if !path.ends_with('/') => Ok(name.clone()),
        _ => Err(TargetError::BadPath),
    }
}

/// The path of a target as sent, and its segments decoded.
fn segments(target: &str) -> Result<(&str, Vec<String>), TargetError> {
    let path = target.split(['?', '#']).next().unwrap_or_default();
    if !path.starts_with('/') {
        return Err(TargetError::BadPath);
    }
    let mut segments = Vec::new();
    for raw in path.split('/').filter(|raw| !raw.is_empty() && *raw != ".") {
        let segment = percent_decode_str(raw).decode_utf8().map_err(|_| TargetError::BadPath)?;
        // Decoded once and then looked at: an encoded slash or dot gets no second chance.
        if segment == ".." || segment == "." || segment.contains(['/', '\\', '\0']) {
            return Err(TargetError::BadPath);
        }
        segments.push(segment.into_owned());
    }
    Ok((path, segments))
}

fn listing(directory: &Path, segments: &[String]) -> io::Result<String> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(directory)?.take(LISTING_MAX) {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let metadata = fs::metadata(entry.path()).ok();
        let is_dir = metadata.as_ref().is_some_and(fs::Metadata::is_dir);
        entries.push((!is_dir, name, metadata.map_or(0, |m| m.len())));
    }
    entries.sort();
    let title = escape(&format!("/{}", segments.join("/")));
    let mut page = format!(
        "<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"><title>{title}</title></head>\n\
         <body><h1>{title}</h1>\n<table>\n"
    );
    if !segments.is_empty() {
        page.push_str("<tr><td><a href=\"../\">../</a></td><td></td></tr>\n");
    }
    for (is_file, name, size) in entries {
        let slash = if is_file { "" } else { "/" };
        // Behind "./", a colon in a name does not make it a scheme.
        let link = utf8_percent_encode(&name, SEGMENT);
        let size = if is_file { size.to_string() } else { String::new() };
        let name = escape(&name);
        page.push_str(&format!(
            "<tr><td><a href=\"./{link}{slash}\">{name}{slash}</a></td>\
             <td align=\"right\">{size}</td></tr>\n"
        ));
    }
    page.push_str("</table></body></html>\n");
    Ok(page)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn target_error(error: io::Error) -> TargetError {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => TargetError::NotFound,
        io::ErrorKind::PermissionDenied => TargetError::Forbidden,
        _ => TargetError::Io(error),
    }
}

fn media_type(path: &Path) -> &'static str {
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
    match extension.to_ascii_lowercase().as_str() {
        "html" | "htm" => "text/html; charset=utf-8",
        "txt" | "md" | "log" | "toml" | "rs" => "text/plain; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "csv" => "text/csv; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "json" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "pdf" => "application/pdf",
        "mp4" => "video/mp4",
        "zip" => "application/zip",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn root() -> (tempfile::TempDir, PathBuf) {
        let outer = tempfile::tempdir().unwrap();
        let root = outer.path().canonicalize().unwrap().join("root");
        fs::create_dir_all(root.join("sub dir")).unwrap();
        fs::write(root.join("sub dir/ä&b.txt"), "x").unwrap();
        fs::write(root.join("a.html"), "hello").unwrap();
        fs::write(outer.path().join("secret"), "s").unwrap();
        std::os::unix::fs::symlink("../secret", root.join("leak")).unwrap();
        std::os::unix::fs::symlink("a.html", root.join("inside")).unwrap();
        (outer, root)
    }

    #[test]
    fn files_below_the_root_are_found() {
        let (_outer, root) = root();
        for target in ["/a.html", "/a.html?x=y", "//./a%2Ehtml", "/inside"] {
            let found = find(&root, target).unwrap();
            assert!(matches!(found, Found::File { size: 5, .. }), "{target}: {found:?}");
        }
        assert!(matches!(find(&root, "/sub%20dir/%C3%A4&b.txt"), Ok(Found::File { .. })));
        assert!(
            matches!(find(&root, "/sub%20dir"), Ok(Found::AddSlash(to)) if to == "/sub%20dir/")
        );
    }

    #[test]
    fn nothing_else_is() {
        let (_outer, root) = root();
        for target in ["/../secret", "/%2e%2e/secret", "/sub%20dir/../../secret", "/..%2fsecret"] {
            assert!(matches!(find(&root, target), Err(TargetError::BadPath)), "{target}");
        }
        for target in ["a.html", "*", "", "/%00", "/%ff", "/a\\b"] {
            assert!(matches!(find(&root, target), Err(TargetError::BadPath)), "{target}");
        }
        assert!(matches!(find(&root, "/leak"), Err(TargetError::Forbidden)));
        for target in ["/none", "/a.html/", "/a.html/x"] {
            assert!(matches!(find(&root, target), Err(TargetError::NotFound)), "{target}");
        }
    }

    #[test]
    fn a_listing_links_and_escapes() {
        let (_outer, root) = root();
        let Found::Listing(page) = find(&root, "/").unwrap() else { panic!("no listing") };
        let directory = page.find("href=\"./sub%20dir/\"").unwrap();
        assert!(directory < page.find("href=\"./a.html\"").unwrap(), "directories come first");
        let Found::Listing(page) = find(&root, "/sub%20dir/").unwrap() else { panic!() };
        assert!(page.contains("href=\"./%C3%A4&b.txt\">ä&amp;b.txt"), "{page}");
        assert!(page.contains("href=\"../\""));
    }

    #[test]
    fn uploads_are_named_by_the_last_segment() {
        assert_eq!(upload_name("/a/b%20c").unwrap(), "b c");
        for target in ["/", "/a/", "/..", "/a/%2e%2e"] {
            assert!(upload_name(target).is_err(), "{target}");
        }
    }
}

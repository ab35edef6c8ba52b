//! Documents as roff: as much of Markdown as `docs/` uses (headings, paragraphs, lists, tables,
//! code, links), so that a manual page says what the document says, and cannot say anything else.

use std::fmt::Write as _;

/// A document without its title, which is the page's.
pub(super) fn roff(markdown: &str) -> String {
    let mut out = String::from(".SH DESCRIPTION\n");
    let mut paragraph: Vec<&str> = Vec::new();
    let mut lines = markdown.lines().peekable();
    while let Some(line) = lines.next() {
        let begins = line.trim_start();
        let is_plain = !line.is_empty()
            && !begins.starts_with(['#', '|'])
            && !begins.starts_with("```")
            && !begins.starts_with("- ")
            && !begins.starts_with("![");
        if is_plain && !(paragraph.is_empty() && line.starts_with("    ")) {
            paragraph.push(begins);
            continue;
        }
        end(&mut paragraph, &mut out);
        if let Some(title) = begins.strip_prefix("## ") {
            let _ = writeln!(out, ".SH \"{}\"", inline(title).replace('"', "").to_uppercase());
        } else if let Some(title) = begins.strip_prefix("### ") {
            let _ = writeln!(out, ".SS \"{}\"", inline(title).replace('"', ""));
        } else if begins.starts_with("```") {
            let code: Vec<&str> =
                lines.by_ref().take_while(|line| !line.trim_start().starts_with("```")).collect();
            out += &verbatim(&code.join("\n"));
        } else if line.starts_with("    ") {
            let mut code = vec![line];
            while let Some(next) = lines.next_if(|next| next.starts_with("    ")) {
                code.push(next);
            }
            out += &verbatim(&code.join("\n"));
        } else if let Some(item) = begins.strip_prefix("- ") {
            out += ".IP \\(bu 3\n";
            paragraph.push(item);
            while let Some(next) = lines.next_if(|next| next.starts_with("  ")) {
                paragraph.push(next.trim_start());
            }
            let item = std::mem::take(&mut paragraph).join(" ");
            let _ = writeln!(out, "{}", guarded(&inline(&item)));
        } else if begins.starts_with('|') {
            let mut table = vec![begins];
            while let Some(next) = lines.next_if(|next| next.starts_with('|')) {
                table.push(next);
            }
            rows(&table, &mut out);
        }
    }
    end(&mut paragraph, &mut out);
    out
}

/// Plain text, line by line as it is.
pub(super) fn text(plain: &str) -> String {
    let paragraphs = plain.split("\n\n").filter(|part| !part.trim().is_empty());
    paragraphs.map(|part| format!(".PP\n{}\n", guarded(&escape(part.trim())))).collect()
}

/// Text whose blanks and line ends count.
pub(super) fn verbatim(code: &str) -> String {
    let lines = code.lines().map(|line| guarded(&escape(line)));
    format!(".PP\n.nf\n{}\n.fi\n", lines.collect::<Vec<_>>().join("\n"))
}

/// What roff would take for its own.
pub(super) fn escape(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}

fn end(paragraph: &mut Vec<&str>, out: &mut String) {
    if !paragraph.is_empty() {
        let _ = writeln!(out, ".PP\n{}", guarded(&inline(&paragraph.join(" "))));
        paragraph.clear();
    }
}

/// A table as a list: the first column is what is explained, the others explain it, each after the
/// name of its column.
fn rows(table: &[&str], out: &mut String) {
    let cells = |row: &str| -> Vec<String> {
        // A bar in a cell is escaped.
        let row = row.trim().trim_matches('|').replace("\\|", "\u{1}");
        row.split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect()
    };
    let head = cells(table[0]);
    for row in table.iter().skip(2) {
        let row = cells(row);
        let words: Vec<String> = row
            .iter()
            .zip(&head)
            .enumerate()
            .skip(1)
            .filter(|(_, (cell, _))| !cell.is_empty())
            .map(|(n, (cell, name))| match n {
                1 => inline(cell),
                _ => format!("({}: {})", escape(name), inline(cell)),
            })
            .collect();
        let _ = writeln!(out, ".TP\n{}\n{}", guarded(&inline(&row[0])), guarded(&words.join(" ")));
    }
}

/// Code and bold text in bold; links as their words.
fn inline(text: &str) -> String {
    let (mut out, mut code) = (String::new(), false);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let link = (!code && c == '[').then(|| link(rest)).flatten();
        if c == '`' || (!code && rest.starts_with("**")) {
            let is_open = out.matches("\\fB").count() > out.matches("\\fR").count();
            out += if is_open { "\\fR" } else { "\\fB" };
            code = c == '`' && !is_open;
            rest = rest.strip_prefix("**").unwrap_or(&rest[c.len_utf8()..]);
        } else if let Some((words, after)) = link {
            out += &inline(words);
            rest = after;
        } else {
            out += &escape(&c.to_string());
            rest = &rest[c.len_utf8()..];
        }
    }
    out
}

/// `[words](target)`: its words, and what follows it.
fn link(text: &str) -> Option<(&str, &str)> {
    let (words, after) = text.strip_prefix('[')?.split_once("](")?;
    let (_, after) = after.split_once(')')?;
    (!words.contains(']')).then_some((words, after))
}

/// Lines that begin with a dot or a quote would be requests.
fn guarded(text: &str) -> String {
    let guard = |line: &str| match line.starts_with(['.', '\'']) {
        true => format!("\\&{line}"),
        false => line.to_owned(),
    };
    text.lines().map(guard).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_becomes_roff() {
        let page = "# Title\n\nSome `code-x` and **bold**, see\n[this](that.md).\n\n## Part\n\n\
                    | key | what | default |\n|---|---|---|\n| `rate` | how fast | `1` |\n\n\
                    - one\n  more\n- two\n\n```toml\n[link.a]   # x\n.b = '\\'\n```\n\n\
                    \x20   cmd -x\n";
        let text = roff(page);
        for part in [
            ".PP\nSome \\fBcode\\-x\\fR and \\fBbold\\fR, see this.\n",
            ".SH \"PART\"\n",
            ".TP\n\\fBrate\\fR\nhow fast (default: \\fB1\\fR)\n",
            ".IP \\(bu 3\none more\n.IP \\(bu 3\ntwo\n",
            ".nf\n[link.a]   # x\n\\&.b = '\\e'\n.fi\n",
            ".nf\n    cmd \\-x\n.fi\n",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(!text.contains("Title") && !text.contains("that.md"), "{text}");
    }
}

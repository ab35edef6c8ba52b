//! A Rust file as the rules see it: its lines, and the same lines with comments, strings and
//! character literals blanked out, so that braces and words mean what they look like.
//!
//! Knows line and nested block comments, plain, byte, C and raw strings, characters as opposed
//! to lifetimes. Does not expand macros and does not parse.

/// A file in two views of equal shape.
pub(crate) struct Source {
    /// As written.
    pub(crate) text: String,
    /// As written, but outside code every character except the line break is a space.
    pub(crate) code: String,
}

/// A function, with its first and last line (from 1).
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) first: usize,
    pub(crate) last: usize,
}

impl Source {
    pub(crate) fn new(text: &str) -> Self {
        Self { text: text.to_owned(), code: blank(text) }
    }

    /// Line (from 1) of a byte position of `code`.
    pub(crate) fn line_of(&self, position: usize) -> usize {
        self.code[..position].matches('\n').count() + 1
    }

    /// Byte positions where `word` stands alone in the code.
    pub(crate) fn words(&self, word: &str) -> Vec<usize> {
        let bytes = self.code.as_bytes();
        let apart = |at: usize| bytes.get(at).is_none_or(|b| !is_word(*b));
        let whole = |at: &usize| (*at == 0 || apart(at - 1)) && apart(at + word.len());
        self.code.match_indices(word).map(|(at, _)| at).filter(whole).collect()
    }

    /// Every function that has a body. Inner functions are found as well as the outer ones.
    pub(crate) fn functions(&self) -> Vec<Function> {
        self.words("fn").into_iter().filter_map(|at| self.function(at)).collect()
    }

    fn function(&self, at: usize) -> Option<Function> {
        let rest = &self.code[at + 2..];
        let name: String =
            rest.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        if name.is_empty() {
            return None; // a function pointer type
        }
        let open = at + 2 + body(rest)?;
        let first = self.line_of(at);
        Some(Function { name, first, last: self.line_of(self.closing(open)) })
    }

    /// Position of the brace that closes the one at `open`; the end if there is none.
    fn closing(&self, open: usize) -> usize {
        let mut depth = 0usize;
        for (at, byte) in self.code.bytes().enumerate().skip(open) {
            match byte {
                b'{' => depth += 1,
                b'}' if depth == 1 => return at,
                b'}' => depth -= 1,
                _ => {}
            }
        }
        self.code.len()
    }

    /// First and last lines (from 1) of inline modules that exist only for tests.
    pub(crate) fn test_modules(&self) -> Vec<(usize, usize)> {
        let mut modules = Vec::new();
        for (at, attribute) in self.code.match_indices("#[cfg(test)]") {
            let item = after_attributes(&self.code[at + attribute.len()..]);
            let Some(open) = item.find('{').filter(|_| item.starts_with("mod ")) else { continue };
            if item.find(';').is_some_and(|end| end < open) {
                continue; // in a file of its own
            }
            let open = self.code.len() - item.len() + open;
            modules.push((self.line_of(at), self.line_of(self.closing(open))));
        }
        modules
    }

    /// Lines of `cfg(test)` and the like that are not on a module.
    pub(crate) fn test_only_items(&self) -> Vec<usize> {
        let attributes =
            self.code.match_indices("cfg(test)").chain(self.code.match_indices("cfg!(test"));
        let on_module = |at: usize| {
            let end = self.code[at..].find(']').map_or(self.code.len(), |end| at + end + 1);
            let item = after_attributes(&self.code[end..]);
            ["mod ", "pub(crate) mod ", "pub mod "].iter().any(|head| item.starts_with(head))
        };
        attributes
            .map(|(at, _)| at)
            .filter(|at| !on_module(*at))
            .map(|at| self.line_of(at))
            .collect()
    }

    /// `use` declarations: the position, and the tree without line breaks and spaces.
    pub(crate) fn uses(&self) -> Vec<(usize, String)> {
        let declaration = |at: usize| {
            let tail = &self.code[at + 3..];
            let tree = &tail[..tail.find(';')?];
            let spaced: Vec<&str> = tree.split_whitespace().collect();
            (!spaced.is_empty()).then(|| (at, spaced.join(" ")))
        };
        let starts = |at: &usize| {
            let before = self.code[..*at].trim_end();
            before.is_empty()
                || before.ends_with([';', '}', '{', ']', ')'])
                || before.ends_with("pub")
        };
        self.words("use").into_iter().filter(starts).filter_map(declaration).collect()
    }
}

/// Where the body of a function opens, in what follows `fn`; `None` without a body.
fn body(rest: &str) -> Option<usize> {
    let mut depth = 0i32;
    for (at, byte) in rest.bytes().enumerate() {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b'{' if depth == 0 => return Some(at),
            b';' if depth == 0 => return None,
            _ if depth < 0 => return None,
            _ => {}
        }
    }
    None
}

/// What is left after white space and further attributes.
fn after_attributes(mut code: &str) -> &str {
    loop {
        code = code.trim_start();
        let Some(rest) = code.strip_prefix("#[") else { return code };
        let mut depth = 1usize;
        let end = rest.bytes().position(|byte| {
            depth += usize::from(byte == b'[');
            depth -= usize::from(byte == b']');
            depth == 0
        });
        code = &rest[end.map_or(rest.len(), |end| end + 1)..];
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// `text` with everything that is not code replaced by spaces, byte for byte.
fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let in_word = at > 0 && is_word(bytes[at - 1]);
        let length = not_code(&bytes[at..], in_word);
        if length == 0 {
            code.push(bytes[at]);
            at += 1;
            continue;
        }
        let end = (at + length).min(bytes.len());
        code.extend(bytes[at..end].iter().map(|b| if *b == b'\n' { b'\n' } else { b' ' }));
        at = end;
    }
    String::from_utf8(code).expect("invariant: literals and comments end between characters")
}

/// Bytes of the comment or literal that begins here; 0 if code does.
fn not_code(rest: &[u8], in_word: bool) -> usize {
    match rest {
        [b'/', b'/', ..] => rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len()),
        [b'/', b'*', ..] => block_comment(rest),
        [b'"', ..] => string(rest),
        [b'b' | b'c', b'"', ..] if !in_word => 1 + string(&rest[1..]),
        [b'b', b'\'', ..] if !in_word => 1 + character(&rest[1..]),
        [b'r', b'"' | b'#', ..] if !in_word => raw_string(rest, 1),
        [b'b' | b'c', b'r', b'"' | b'#', ..] if !in_word => raw_string(rest, 2),
        [b'\'', ..] => character(rest),
        _ => 0,
    }
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0usize, 0);
    while at < rest.len() {
        match rest[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] if depth == 1 => return at + 2,
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    rest.len()
}

fn string(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// `r"…"`, `r#"…"#`; 0 for a raw identifier. `prefix` is the length of `r` or `br`.
fn raw_string(rest: &[u8], prefix: usize) -> usize {
    let hashes = rest[prefix..].iter().take_while(|b| **b == b'#').count();
    if rest.get(prefix + hashes) != Some(&b'"') {
        return 0;
    }
    let closing: Vec<u8> = std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
    let start = prefix + hashes + 1;
    let end = rest[start..].windows(closing.len()).position(|window| window == closing);
    end.map_or(rest.len(), |end| start + end + closing.len())
}

/// A character literal; 0 for a lifetime or a label.
fn character(rest: &[u8]) -> usize {
    if rest.get(1) == Some(&b'\\') {
        let end = rest.iter().skip(3).position(|b| *b == b'\'');
        return end.map_or(rest.len(), |end| end + 4);
    }
    let width = match rest.get(1) {
        Some(0xf0..) => 4,
        Some(0xe0..) => 3,
        Some(0xc0..) => 2,
        Some(_) => 1,
        None => return 0,
    };
    if rest.get(1 + width) == Some(&b'\'') { width + 2 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(text: &str) -> Vec<(String, usize, usize)> {
        let functions = Source::new(text).functions();
        functions.into_iter().map(|f| (f.name, f.first, f.last)).collect()
    }

    #[test]
    fn comments_and_literals_are_not_code() {
        let text = r####"a /* x /* y */ z */ b // c "d
let s = "e\"f // g"; let r = r#"h " i"#; let b = br"j\"; 'k'; '\''; '\\'; 'é'; &'l m; b'"'; n"####;
        let code = blank(text);
        assert_eq!(code.len(), text.len());
        let words: Vec<&str> = code.split_whitespace().collect();
        let expected = "a b let s = ; let r = ; let b = ; ; ; ; ; &'l m; ; n";
        assert_eq!(words, expected.split(' ').collect::<Vec<_>>());
    }

    #[test]
    fn raw_identifiers_and_words_that_end_in_r_are_code() {
        assert_eq!(blank("r#fn(for\"x\")"), "r#fn(for   )");
        assert_eq!(blank("'a: loop { break 'a }"), "'a: loop { break 'a }");
    }

    #[test]
    fn functions_end_at_their_own_brace() {
        let text = "fn one() {\n  let a = \"}\";\n  // }\n  if x { '}' }\n}
fn two(\n  a: [u8; { 4 }],\n) -> u8\nwhere\n  T: X,\n{\n  fn inner() {\n  }\n}
trait T { fn no_body(&self); fn x() {} }\ntype F = fn(u8) -> u8;";
        let expected = [("one", 1, 5), ("two", 6, 14), ("inner", 12, 13), ("x", 15, 15)];
        assert_eq!(named(text), expected.map(|(n, a, b)| (n.to_owned(), a, b)));
    }

    #[test]
    fn test_modules_are_found_and_other_test_items_too() {
        let text = "a\n#[cfg(test)]\n#[allow(x[1])]\nmod tests {\n  fn a() {}\n}\nb
#[cfg(test)]\nmod far;\n#[cfg(test)]\nfn only() {}\n";
        let source = Source::new(text);
        assert_eq!(source.test_modules(), [(2, 6)]);
        assert_eq!(source.test_only_items(), [10]);
    }

    #[test]
    fn uses_are_joined_and_words_stand_alone() {
        let source =
            Source::new("use a::{\n  b,\n  c,\n};\npub(crate) use d;\n// use e;\nreuse();");
        let trees: Vec<String> = source.uses().into_iter().map(|u| u.1).collect();
        assert_eq!(trees, ["a::{ b, c, }", "d"]);
        assert_eq!(Source::new("unsafe_code unsafe xunsafe").words("unsafe"), [12]);
    }
}

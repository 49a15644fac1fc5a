//! The paths that a Rust file mentions, with `use` groups written out. Not a parser: comments and strings are blanked,
//! the rest is words, `::` and brackets, which is enough to see `a::b::c` and `use a::{b, c::{d}}`.

use std::fmt;

/// A path, as it is used somewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Used {
    /// Line of its last segment, from 1.
    pub line: usize,
    /// Its segments; a glob is `*`.
    pub path: Vec<String>,
    /// Modules written out in the file around it, such as `mod tests { … }`.
    pub inner_modules: usize,
}

impl Used {
    /// Whether it begins with these segments.
    pub fn starts_with(&self, path: &str) -> bool {
        let mut segments = self.path.iter();
        path.split("::").all(|wanted| segments.next().is_some_and(|segment| segment == wanted))
    }
}

impl fmt::Display for Used {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path.join("::"))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Colons,
    Other(char),
}

/// Every path of the file with at least two segments, and every `use`d name.
pub fn used_paths(text: &str) -> Vec<Used> {
    let tokens = tokens(&blank(text));
    let mut found = Vec::new();
    let mut at = 0;
    // For each open brace: whether it is a module's.
    let mut braces: Vec<bool> = Vec::new();
    while at < tokens.len() {
        let inner_modules = braces.iter().filter(|module| **module).count();
        match &tokens[at].0 {
            Token::Word(word) if word == "use" => {
                at = group(&tokens, at + 1, &[], inner_modules, &mut found);
            }
            Token::Word(word) if word == "mod" && is_other(&tokens, at + 2, '{') => {
                braces.push(true);
                at += 3;
            }
            Token::Word(_) => {
                let begins = at == 0 || !matches!(tokens[at - 1].0, Token::Other('.'));
                let (next, path, line) = path(&tokens, at);
                if path.len() > 1 && begins {
                    found.push(Used { line, path, inner_modules });
                }
                at = next;
            }
            Token::Other('{') => {
                braces.push(false);
                at += 1;
            }
            Token::Other('}') => {
                braces.pop();
                at += 1;
            }
            _ => at += 1,
        }
    }
    found
}

fn is_other(tokens: &[(Token, usize)], at: usize, wanted: char) -> bool {
    matches!(tokens.get(at), Some((Token::Other(found), _)) if *found == wanted)
}

/// A plain path from `at`: where it ends, its segments, the line of the last.
fn path(tokens: &[(Token, usize)], mut at: usize) -> (usize, Vec<String>, usize) {
    let mut segments = Vec::new();
    let mut last = 0;
    while let Some((Token::Word(word), line)) = tokens.get(at) {
        segments.push(word.clone());
        last = *line;
        at += 1;
        if tokens.get(at).map(|(token, _)| token) == Some(&Token::Colons)
            && matches!(tokens.get(at + 1), Some((Token::Word(_), _)))
        {
            at += 1;
        } else {
            break;
        }
    }
    (at, segments, last)
}

/// One tree of a `use`, from `at`; gives where it ends.
fn group(tokens: &[(Token, usize)], mut at: usize, prefix: &[String], inner: usize, found: &mut Vec<Used>) -> usize {
    let mut path = prefix.to_vec();
    let mut line = tokens.get(at).map_or(0, |(_, line)| *line);
    loop {
        match tokens.get(at) {
            Some((Token::Colons, _)) => at += 1,
            // `use a::b as c`: the new name is no segment.
            Some((Token::Word(word), _)) if word == "as" => at += 2,
            Some((Token::Word(word), here)) => {
                path.push(word.clone());
                line = *here;
                at += 1;
            }
            Some((Token::Other('*'), here)) => {
                path.push("*".to_owned());
                line = *here;
                at += 1;
            }
            Some((Token::Other('{'), _)) => {
                at += 1;
                while at < tokens.len() && !is_other(tokens, at, '}') {
                    if is_other(tokens, at, ',') {
                        at += 1;
                    } else {
                        let next = group(tokens, at, &path, inner, found);
                        at = next.max(at + 1);
                    }
                }
                return at + 1;
            }
            _ => {
                found.push(Used { line, path, inner_modules: inner });
                return at;
            }
        }
    }
}

fn tokens(text: &str) -> Vec<(Token, usize)> {
    let mut tokens = Vec::new();
    let mut line = 1;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\n' => line += 1,
            ':' if chars.peek() == Some(&':') => {
                chars.next();
                tokens.push((Token::Colons, line));
            }
            c if c.is_alphanumeric() || c == '_' => {
                let mut word = String::from(c);
                while let Some(&next) = chars.peek().filter(|next| next.is_alphanumeric() || **next == '_') {
                    word.push(next);
                    chars.next();
                }
                tokens.push((Token::Word(word), line));
            }
            c if c.is_whitespace() => {}
            c => tokens.push((Token::Other(c), line)),
        }
    }
    tokens
}

/// The text with comments, strings and characters blanked, line breaks kept.
fn blank(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = match chars[at] {
            '/' if chars.get(at + 1) == Some(&'/') => find(&chars, at, |c| c == '\n'),
            '/' if chars.get(at + 1) == Some(&'*') => comment_end(&chars, at),
            '"' => string_end(&chars, at + 1),
            'r' if at == 0 || !(chars[at - 1].is_alphanumeric() && chars[at - 1] != 'b') => {
                raw_string_end(&chars, at).unwrap_or(at)
            }
            '\'' if chars.get(at + 1) == Some(&'\\') => find(&chars, at + 3, |c| c == '\'') + 1,
            '\'' if chars.get(at + 2) == Some(&'\'') => at + 3,
            _ => at,
        };
        if end == at {
            out.push(chars[at]);
            at += 1;
        } else {
            let end = end.min(chars.len());
            out.extend(chars[at..end].iter().map(|&c| if c == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    out
}

fn find(chars: &[char], from: usize, wanted: impl Fn(char) -> bool) -> usize {
    (from..chars.len()).find(|&at| wanted(chars[at])).unwrap_or(chars.len())
}

fn comment_end(chars: &[char], from: usize) -> usize {
    let mut depth = 0;
    let mut at = from;
    while at + 1 < chars.len() {
        match (chars[at], chars[at + 1]) {
            ('/', '*') => depth += 1,
            ('*', '/') => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    chars.len()
}

fn string_end(chars: &[char], from: usize) -> usize {
    let mut at = from;
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

fn raw_string_end(chars: &[char], from: usize) -> Option<usize> {
    let hashes = chars[from + 1..].iter().take_while(|c| **c == '#').count();
    let open = from + 1 + hashes;
    (chars.get(open) == Some(&'"')).then(|| {
        (open + 1..chars.len())
            .find(|&at| {
                chars[at] == '"' && chars[at + 1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes
            })
            .map_or(chars.len(), |at| at + 1 + hashes)
    })
}

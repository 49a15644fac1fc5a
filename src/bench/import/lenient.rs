//! JSON as Python writes it: `NaN` and `Infinity` as bare words, several documents one after the other.

use serde_json::Value;

/// Every document of a text: one, or one a line. An error comes with its line, from 1.
pub fn values(text: &str) -> Result<Vec<Value>, (usize, String)> {
    let text = text.trim_start_matches('\u{feff}');
    let plain = without_bare_words(text);
    let mut values = Vec::new();
    for value in serde_json::Deserializer::from_str(&plain).into_iter::<Value>() {
        values.push(value.map_err(|error| (error.line(), error.to_string()))?);
    }
    Ok(values)
}

/// `NaN`, `Infinity` and `-Infinity` outside strings become `null`: no number is known. Lines stay where they are.
fn without_bare_words(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut in_string, mut escaped) = (false, false);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if in_string {
            in_string = escaped || c != '"';
            escaped = !escaped && c == '\\';
        } else if let Some(after) = ["-Infinity", "Infinity", "NaN"].iter().find_map(|word| rest.strip_prefix(word)) {
            out.push_str("null");
            rest = after;
            continue;
        } else {
            in_string = c == '"';
        }
        out.push(c);
        rest = &rest[c.len_utf8()..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pythons_words_for_no_number_become_null() {
        let text = r#"{"a": NaN, "b": [-Infinity, Infinity], "c": "NaN \" Infinity \\"}"#;
        let expected = serde_json::json!({ "a": null, "b": [null, null], "c": "NaN \" Infinity \\" });
        assert_eq!(values(text), Ok(vec![expected]));
    }

    #[test]
    fn documents_may_follow_each_other() {
        assert_eq!(values("\u{feff}{}\n[1]\n\n2").map(|values| values.len()), Ok(3));
        assert_eq!(values("").map(|values| values.len()), Ok(0));
        assert_eq!(values("{}\n{]").map_err(|(line, _)| line), Err(2));
    }
}

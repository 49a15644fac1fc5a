//! One line of a suite file, in the field names that the usual files have.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{Prompt, SuiteError};

/// Reads JSON lines; `file` is for messages, `suite` the name of lines that name none.
pub(super) fn read_all(bytes: &[u8], file: &str, suite: &str, limit: usize) -> Result<Vec<Prompt>, SuiteError> {
    let mut prompts: Vec<Prompt> = Vec::new();
    let mut seen = HashSet::new();
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    for (at, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        if prompts.len() >= limit {
            break;
        }
        let wrong = |problem: String| SuiteError::Line { file: file.to_owned(), line: at + 1, problem };
        let text = std::str::from_utf8(line).map_err(|_| wrong("this is no UTF-8 text".into()))?.trim();
        if text.is_empty() {
            continue;
        }
        if prompts.is_empty() && text.starts_with('[') {
            let advice = "a JSON array, not JSON lines; convert it with `jq -c '.[]' FILE`";
            return Err(wrong(advice.into()));
        }
        let value: Value = serde_json::from_str(text).map_err(|error| wrong(format!("no JSON: {error}")))?;
        let Value::Object(object) = value else { return Err(wrong("not a JSON object".into())) };
        let prompt = read(&object, suite, at + 1).map_err(wrong)?;
        if !seen.insert((prompt.suite.clone(), prompt.id.clone())) {
            return Err(wrong(format!("the id \"{}\" is there already", prompt.id)));
        }
        prompts.push(prompt);
    }
    Ok(prompts)
}

/// Reads one object.
pub(super) fn read(object: &Map<String, Value>, suite: &str, number: usize) -> Result<Prompt, String> {
    let fields = Fields(object);
    let (system, turns) = fields.conversation()?;
    if turns.is_empty() || turns.iter().any(|turn| turn.trim().is_empty()) {
        return Err("a turn is empty".into());
    }
    let max_tokens = match object.get("max_tokens") {
        None | Some(Value::Null) => None,
        Some(value) => match value.as_u64().and_then(|n| usize::try_from(n).ok()) {
            Some(n) if n > 0 => Some(n),
            _ => return Err("max_tokens must be a whole number of at least 1".into()),
        },
    };
    let suite = match object.get("suite") {
        None | Some(Value::Null) => suite.to_owned(),
        Some(Value::String(name)) if !name.trim().is_empty() && name != "all" => name.trim().to_owned(),
        Some(_) => return Err("suite must be a name (and not \"all\")".into()),
    };
    Ok(Prompt { id: fields.id().unwrap_or_else(|| format!("line {number}")), suite, system, turns, max_tokens })
}

struct Fields<'a>(&'a Map<String, Value>);

impl Fields<'_> {
    /// Under the names of HumanEval and MBPP (`task_id`), MT-bench (`question_id`), MATH-500 (`unique_id`).
    fn id(&self) -> Option<String> {
        ["id", "task_id", "question_id", "unique_id", "prompt_id"].iter().find_map(|name| match self.0.get(*name) {
            Some(Value::String(id)) if !id.trim().is_empty() => Some(id.trim().to_owned()),
            Some(Value::Number(id)) => Some(id.to_string()),
            _ => None,
        })
    }

    fn text(&self, name: &str) -> Result<Option<&str>, String> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(format!("{name} must be a text")),
        }
    }

    /// System text and user turns.
    fn conversation(&self) -> Result<(Option<String>, Vec<String>), String> {
        let system = self.text("system")?.map(str::to_owned);
        if let Some(turns) = self.0.get("turns").filter(|turns| !turns.is_null()) {
            return Ok((system, texts("turns", turns)?));
        }
        if let Some(messages) = self.0.get("messages").filter(|messages| !messages.is_null()) {
            return read_messages(messages);
        }
        match self.0.get("prompt").filter(|prompt| !prompt.is_null()) {
            // MT-bench as it lies on the hub.
            Some(prompt @ Value::Array(_)) => return Ok((system, texts("prompt", prompt)?)),
            Some(Value::String(prompt)) => return Ok((system, vec![self.task(prompt)])),
            Some(_) => return Err("prompt must be a text or a list of texts".into()),
            None => {}
        }
        if let Some(instruction) = self.text("instruction")? {
            let input = self.text("input")?.map(str::trim).filter(|input| !input.is_empty());
            let turn = input.map_or_else(|| instruction.to_owned(), |input| format!("{instruction}\n\n{input}"));
            return Ok((system, vec![turn]));
        }
        for name in ["question", "problem", "question_content", "text"] {
            if let Some(text) = self.text(name)? {
                return Ok((system, vec![self.task(text)]));
            }
        }
        Err("no prompt: give turns, messages, prompt, question, problem or instruction".into())
    }

    /// A bare prompt with what a model must be told about it: HumanEval's is code to go on with, MBPP's wants its tests.
    fn task(&self, text: &str) -> String {
        if self.0.contains_key("entry_point") {
            return format!("Complete this function and answer with all of it.\n\n```\n{}\n```", text.trim_end());
        }
        let tests: Vec<&str> =
            self.0.get("test_list").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        if tests.is_empty() {
            text.to_owned()
        } else {
            format!("{text}\n\nThese tests must pass:\n{}", tests.join("\n"))
        }
    }
}

fn texts(name: &str, value: &Value) -> Result<Vec<String>, String> {
    let items = value.as_array().ok_or_else(|| format!("{name} must be a list of texts"))?;
    let texts: Option<Vec<String>> = items.iter().map(|item| item.as_str().map(str::to_owned)).collect();
    texts.filter(|texts| !texts.is_empty()).ok_or_else(|| format!("{name} must be a list of texts, at least one"))
}

/// What the user says is sent turn by turn. Answers in the file are left out: the model under test gives its own.
fn read_messages(value: &Value) -> Result<(Option<String>, Vec<String>), String> {
    let items = value.as_array().ok_or("messages must be a list")?;
    let (mut system, mut turns) = (None, Vec::new());
    for item in items {
        let content = item["content"].as_str().ok_or("a message's content must be a text")?;
        match item["role"].as_str() {
            Some("system" | "developer") if turns.is_empty() => system = Some(content.to_owned()),
            Some("user") => turns.push(content.to_owned()),
            Some("assistant") => {}
            _ => return Err("a message's role must be system (first), user or assistant".into()),
        }
    }
    if turns.is_empty() { Err("no message is the user's".into()) } else { Ok((system, turns)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(line: &str) -> Result<Prompt, SuiteError> {
        read_all(line.as_bytes(), "f.jsonl", "f", 10).map(|mut prompts| prompts.remove(0))
    }

    #[test]
    fn the_usual_files_are_understood() {
        for (line, id, turns) in [
            (r#"{"turns":["a","b"],"id":"x"}"#, "x", vec!["a", "b"]),
            (r#"{"question":"q","answer":"42"}"#, "line 1", vec!["q"]),
            (
                r#"{"task_id":7,"text":"add","test_list":["assert 1"]}"#,
                "7",
                vec!["add\n\nThese tests must pass:\nassert 1"],
            ),
            (
                r#"{"task_id":"HumanEval/0","prompt":"def f():\n","entry_point":"f"}"#,
                "HumanEval/0",
                vec!["Complete this function and answer with all of it.\n\n```\ndef f():\n```"],
            ),
            (r#"{"instruction":"do","input":"this","output":"-"}"#, "line 1", vec!["do\n\nthis"]),
            (r#"{"instruction":"do","input":""}"#, "line 1", vec!["do"]),
            (r#"{"prompt":["a","b"],"prompt_id":3}"#, "3", vec!["a", "b"]),
            (r#"{"problem":"p","unique_id":"u/1"}"#, "u/1", vec!["p"]),
            (
                r#"{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"-"},{"role":"user","content":"b"}]}"#,
                "line 1",
                vec!["a", "b"],
            ),
        ] {
            let prompt = one(line).unwrap();
            assert_eq!(
                (prompt.id.as_str(), prompt.turns),
                (id, turns.into_iter().map(str::to_owned).collect()),
                "{line}"
            );
        }
        let prompt = one(
            r#"{"messages":[{"role":"system","content":"s"},{"role":"user","content":"a"}],"suite":"z","max_tokens":9}"#,
        );
        let prompt = prompt.unwrap();
        assert_eq!((prompt.system.as_deref(), prompt.suite.as_str(), prompt.max_tokens), (Some("s"), "z", Some(9)));
    }

    #[test]
    fn bad_lines_are_named() {
        for (text, line, part) in [
            ("{\"prompt\":\"a\"}\n{broken\n", 2, "no JSON"),
            ("\n\n[1]\n", 3, "jq"),
            ("{\"prompt\":\"a\"}\n\n7\n", 3, "not a JSON object"),
            ("{}\n", 1, "no prompt"),
            ("{\"turns\":[]}\n", 1, "at least one"),
            ("{\"turns\":[\" \"]}\n", 1, "empty"),
            ("{\"turns\":[1]}\n", 1, "list of texts"),
            ("{\"prompt\":5}\n", 1, "prompt must be"),
            ("{\"prompt\":\"a\",\"max_tokens\":0}\n", 1, "max_tokens"),
            ("{\"prompt\":\"a\",\"suite\":\"all\"}\n", 1, "suite"),
            ("{\"prompt\":\"a\",\"id\":\"1\"}\r\n{\"prompt\":\"b\",\"id\":1}\n", 2, "already"),
            ("{\"messages\":[{\"role\":\"tool\",\"content\":\"x\"}]}", 1, "role"),
        ] {
            match read_all(text.as_bytes(), "dir/f.jsonl", "f", 10) {
                Err(error @ SuiteError::Line { line: at, .. }) => {
                    assert_eq!(at, line, "{text}");
                    assert!(error.to_string().starts_with(&format!("dir/f.jsonl:{line}: ")), "{error}");
                    assert!(error.to_string().contains(part), "{error}");
                }
                other => panic!("{text}: {other:?}"),
            }
        }
        let error = read_all(b"{\"prompt\":\"\xff\"}", "f", "f", 1).unwrap_err();
        assert!(error.to_string().contains("UTF-8"));
        assert_eq!(
            read_all(b"{\"prompt\":\"a\"}\n{broken", "f", "f", 1).unwrap().len(),
            1,
            "what is not wanted is not read"
        );
    }
}

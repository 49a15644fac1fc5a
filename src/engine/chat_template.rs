//! Chat templates as published: Jinja, with what Transformers adds to it.

mod functions;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, Value, context};

use crate::engine::weights::gguf::Metadata;
use crate::engine::weights::{Checkpoint, WeightsError};

/// Steps that rendering may take: a template comes with a model, and a loop in it must not stop the engine.
const FUEL: u64 = 5_000_000;
const NAME: &str = "chat_template";
/// Names that every template gets, and that no switch can have.
pub const GIVEN: [&str; 4] = ["messages", "add_generation_prompt", "bos_token", "eos_token"];

/// A compiled template.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    bos: String,
    eos: String,
}

impl ChatTemplate {
    /// From GGUF metadata, `tokenizer_config.json` or `chat_template.jinja`; `Ok(None)` where the model has none: the
    /// prompt is then the last user message as it is.
    pub fn read(checkpoint: &Checkpoint) -> Result<Option<Self>, WeightsError> {
        let found = match checkpoint.metadata() {
            Some(metadata) => from_gguf(metadata),
            None => from_folder(checkpoint)?,
        };
        let Some(Source { template, bos, eos }) = found else { return Ok(None) };
        Self::compile(template, bos, eos).map(Some).map_err(|problem| {
            WeightsError::config(
                checkpoint.location(),
                format!("its chat template cannot be used: {problem}; give prompts without a template instead"),
            )
        })
    }

    fn compile(template: String, bos: String, eos: String) -> Result<Self, String> {
        let mut environment = Environment::new();
        let mut syntax = SyntaxConfig::builder();
        syntax.trim_blocks(true).lstrip_blocks(true);
        environment.set_syntax(syntax.build().map_err(|e| e.to_string())?);
        environment.set_fuel(Some(FUEL));
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        functions::add(&mut environment);
        environment.add_template_owned(NAME, template).map_err(|e| described(&e))?;
        Ok(Self { environment, bos, eos })
    }

    /// The prompt text for an OpenAI `messages` array, with the generation prompt added.
    pub fn render(&self, messages: &[serde_json::Value]) -> Result<String, String> {
        self.render_with(messages, &serde_json::Map::new())
    }

    /// The same, with switches that the template knows beside the conversation (`enable_thinking` in Qwen's). What the
    /// template does not know is not used; what a template always gets ([`GIVEN`]) stays.
    pub fn render_with(
        &self,
        messages: &[serde_json::Value],
        switches: &serde_json::Map<String, serde_json::Value>,
    ) -> Result<String, String> {
        let messages = messages.iter().enumerate().map(|(i, m)| plain_message(i, m)).collect::<Result<Vec<_>, _>>()?;
        let context = context! {
            messages => Value::from(Serde(&messages)),
            add_generation_prompt => true,
            bos_token => self.bos.as_str(),
            eos_token => self.eos.as_str(),
            ..Value::from(Serde(switches))
        };
        let template = self.environment.get_template(NAME).map_err(|e| described(&e))?;
        template.render(context).map_err(|e| described(&e))
    }
}

/// The text of a message's `content`: a string, or the text parts of a list of content parts joined.
pub fn message_text(content: &serde_json::Value) -> Result<String, String> {
    match content {
        serde_json::Value::String(text) => Ok(text.clone()),
        serde_json::Value::Null => Ok(String::new()),
        serde_json::Value::Array(parts) => parts
            .iter()
            .map(|part| match part {
                serde_json::Value::String(text) => Ok(text.as_str()),
                _ => match part.get("text").and_then(serde_json::Value::as_str) {
                    Some(text) => Ok(text),
                    None => Err(format!(
                        "a content part of type {} cannot be read; only text can",
                        part.get("type").unwrap_or(&serde_json::Value::Null)
                    )),
                },
            })
            .collect(),
        _ => Err("content must be a text or a list of text parts".into()),
    }
}

/// A message as templates expect it: its content is a plain text.
fn plain_message(index: usize, message: &serde_json::Value) -> Result<serde_json::Value, String> {
    let wrong = |problem: &str| format!("messages[{index}]: {problem}");
    let object = message.as_object().ok_or_else(|| wrong("must be an object with role and content"))?;
    if object.get("role").and_then(serde_json::Value::as_str).is_none() {
        return Err(wrong("role is missing"));
    }
    let content = object.get("content").unwrap_or(&serde_json::Value::Null);
    let mut object = object.clone();
    object.insert("content".into(), message_text(content).map_err(|p| wrong(&p))?.into());
    Ok(serde_json::Value::Object(object))
}

struct Source {
    template: String,
    bos: String,
    eos: String,
}

fn from_gguf(metadata: &Metadata) -> Option<Source> {
    let token = |key: &str| {
        let id = usize::try_from(metadata.unsigned(&format!("tokenizer.ggml.{key}"))?).ok()?;
        metadata.texts("tokenizer.ggml.tokens")?.get(id).cloned()
    };
    Some(Source {
        template: metadata.text("tokenizer.chat_template")?.to_owned(),
        bos: token("bos_token_id").unwrap_or_default(),
        eos: token("eos_token_id").unwrap_or_default(),
    })
}

fn from_folder(checkpoint: &Checkpoint) -> Result<Option<Source>, WeightsError> {
    let config = checkpoint.json("tokenizer_config.json")?.unwrap_or_default();
    let file = checkpoint.file("chat_template.jinja").map(|b| String::from_utf8_lossy(&b).into_owned());
    let configured = || match config.get("chat_template")? {
        serde_json::Value::String(template) => Some(template.clone()),
        // Several templates for several purposes: `default` is for conversations.
        serde_json::Value::Array(list) => {
            let default = list.iter().find(|t| t.get("name").and_then(|n| n.as_str()) == Some("default"));
            Some(default.or(list.first())?.get("template")?.as_str()?.to_owned())
        }
        _ => None,
    };
    let Some(template) = file.or_else(configured) else { return Ok(None) };
    let token = |key: &str| {
        let token = config.get(key);
        let text = token.and_then(|t| t.as_str().or_else(|| t.get("content")?.as_str()));
        text.unwrap_or_default().to_owned()
    };
    Ok(Some(Source { template, bos: token("bos_token"), eos: token("eos_token") }))
}

/// The message that a template raises is for the user; everything else needs its place in the template.
fn described(error: &minijinja::Error) -> String {
    match (error.detail(), error.line()) {
        (Some(detail), _) if error.kind() == minijinja::ErrorKind::InvalidOperation => detail.to_owned(),
        (Some(detail), Some(line)) => format!("{} (line {line})", detail.trim_end_matches('.')),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn render(template: &str, messages: &[serde_json::Value]) -> Result<String, String> {
        ChatTemplate::compile(template.into(), "<s>".into(), "</s>".into())?.render(messages)
    }

    #[test]
    fn blocks_are_trimmed_as_transformers_does() {
        let template = "{{ bos_token }}\n{% for m in messages %}\n  {% if m.role == 'user' %}\n[{{ m['content'].strip() }}]\n  {% endif %}\n{% endfor %}\n{% if add_generation_prompt %}go{{ eos_token }}{% endif %}";
        let messages = [json!({"role": "user", "content": " hi "}), json!({"role": "assistant", "content": "x"})];
        assert_eq!(render(template, &messages).expect("renders"), "<s>\n[hi]\ngo</s>");
    }

    #[test]
    fn content_parts_are_joined_and_others_refused() {
        let parts =
            json!({"role": "user", "content": [{"type": "text", "text": "a<b"}, {"type": "text", "text": "c"}]});
        assert_eq!(render("{{ messages[0].content }}", &[parts]).expect("renders"), "a<bc");
        let image = json!({"role": "user", "content": [{"type": "image_url", "image_url": {}}]});
        let error = render("", &[image]).expect_err("no pictures");
        assert!(error.contains("messages[0]") && error.contains("image_url"), "{error}");
        assert!(render("", &[json!({"content": "x"})]).expect_err("no role").contains("role"));
        assert!(render("", &[json!("x")]).is_err());
    }

    #[test]
    fn a_template_can_refuse_a_conversation() {
        let template = "{% if messages[0].role != 'user' %}{{ raise_exception('must begin with a user') }}{% endif %}";
        let error = render(template, &[json!({"role": "system", "content": ""})]).expect_err("refused");
        assert_eq!(error, "must begin with a user");
    }

    #[test]
    fn loop_controls_and_json_work() {
        let template = "{% for x in [1, 2, 3] %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% endfor %}{{ {'a': [1, '<é>']} | tojson }}";
        assert_eq!(render(template, &[]).expect("renders"), r#"1{"a": [1, "<é>"]}"#);
    }

    /// The constructs of Qwen's templates: what was thought before the last question is left out, and thinking can be
    /// switched off by an empty thought that the model finds already there.
    #[test]
    fn thinking_can_be_switched_off() {
        let template = r"{%- set last = namespace(at=-1) %}
{%- for m in messages[::-1] %}
{%- if m.role == 'user' and last.at < 0 and m.content is string and not m.content.startswith('<tool') %}
{%- set last.at = (messages | length - 1) - loop.index0 %}
{%- endif %}
{%- endfor %}
{%- for m in messages %}
{%- set text = m.content if m.content is string else '' %}
{%- if '</think>' in text %}
{%- set thought = text.split('</think>')[0].rstrip('
').split('<think>')[-1].lstrip('
') %}
{%- set text = text.split('</think>')[-1].lstrip('
') %}
{%- if loop.index0 > last.at %}{%- set text = '<think>
' + thought.strip('
') + '
</think>

' + text %}{%- endif %}
{%- endif %}
{{- '<|im_start|>' + m.role + '
' + text + '<|im_end|>
' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant
' }}
{%- if enable_thinking is defined and enable_thinking is false %}
{{- '<think>

</think>

' }}
{%- endif %}
{%- endif %}";
        let template = ChatTemplate::compile(template.into(), String::new(), String::new()).expect("compiles");
        let messages = [
            json!({"role": "user", "content": "a"}),
            json!({"role": "assistant", "content": "<think>
hm
</think>

b"}),
            json!({"role": "user", "content": "c"}),
        ];
        let start = "<|im_start|>user
a<|im_end|>
<|im_start|>assistant
b<|im_end|>
<|im_start|>user
c<|im_end|>
<|im_start|>assistant
";
        let with = |switches: serde_json::Value| {
            template.render_with(&messages, switches.as_object().expect("an object")).expect("renders")
        };
        assert_eq!(with(json!({})), start);
        assert_eq!(with(json!({"enable_thinking": true})), start);
        assert_eq!(
            with(json!({"enable_thinking": false})),
            format!(
                "{start}<think>

</think>

"
            )
        );
        assert_eq!(with(json!({"messages": [], "add_generation_prompt": false})), start, "what is given stays");
    }

    #[test]
    fn endless_templates_end() {
        let template = "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}{% endfor %}{% endfor %}{% endfor %}";
        assert!(render(template, &[]).is_err());
        assert!(render("{% for x in %}", &[]).is_err());
    }
}

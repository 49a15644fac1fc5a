//! A validator for the JSON Schema keywords that `schema/run.v1.json` uses. It refuses keywords that it does not know, and
//! (stricter than the schema, which leaves room for later fields) members that the schema does not describe.

use serde_json::{Map, Value};

/// Everything that is wrong with `value`, with its place.
pub fn complaints(root: &Value, value: &Value) -> Vec<String> {
    let mut out = Vec::new();
    check(root, root, value, "", &mut out);
    out
}

fn check(root: &Value, schema: &Value, value: &Value, at: &str, out: &mut Vec<String>) {
    let Some(schema) = schema.as_object() else {
        if schema == &Value::Bool(false) {
            out.push(format!("{at}: must not be there"));
        }
        return;
    };
    for (keyword, rule) in schema {
        match keyword.as_str() {
            "$schema" | "$id" | "$defs" | "title" | "description" => {}
            "$ref" => {
                let target = rule.as_str().and_then(|path| root.pointer(path.strip_prefix('#')?));
                check(root, target.unwrap_or_else(|| panic!("{rule} leads nowhere")), value, at, out);
            }
            "type" => {
                let names = rule.as_array().cloned().unwrap_or_else(|| vec![rule.clone()]);
                if !names.iter().any(|name| is(value, name.as_str().unwrap())) {
                    out.push(format!("{at}: {value} is no {rule}"));
                }
            }
            "const" if value != rule => out.push(format!("{at}: {value} is not {rule}")),
            "enum" if !rule.as_array().unwrap().contains(value) => out.push(format!("{at}: {value} is none of {rule}")),
            "minimum" if value.as_f64().is_some_and(|v| v < rule.as_f64().unwrap()) => {
                out.push(format!("{at}: {value} is below {rule}"));
            }
            "anyOf" => {
                let fits = |schema| {
                    let mut inner = Vec::new();
                    check(root, schema, value, at, &mut inner);
                    inner.is_empty()
                };
                if !rule.as_array().unwrap().iter().any(fits) {
                    out.push(format!("{at}: fits no alternative"));
                }
            }
            "required" => {
                for name in rule.as_array().unwrap() {
                    if value.as_object().is_some_and(|object| !object.contains_key(name.as_str().unwrap())) {
                        out.push(format!("{at}: {name} is missing"));
                    }
                }
            }
            "properties" => members(root, rule.as_object().unwrap(), value, at, out),
            "prefixItems" | "items" => {
                let fixed = schema.get("prefixItems").and_then(Value::as_array);
                let skipped = fixed.map_or(0, Vec::len);
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    let rule = match fixed {
                        Some(fixed) if index < skipped && keyword == "prefixItems" => &fixed[index],
                        _ if index >= skipped && keyword == "items" => rule,
                        _ => continue,
                    };
                    check(root, rule, item, &format!("{at}/{index}"), out);
                }
            }
            "minItems" | "maxItems" => {
                let (len, limit) = (value.as_array().map(Vec::len), rule.as_u64().unwrap() as usize);
                if len.is_some_and(|len| if keyword == "minItems" { len < limit } else { len > limit }) {
                    out.push(format!("{at}: {keyword} {limit}"));
                }
            }
            "const" | "enum" | "minimum" => {}
            other => panic!("the test's validator does not know \"{other}\""),
        }
    }
}

fn members(root: &Value, rules: &Map<String, Value>, value: &Value, at: &str, out: &mut Vec<String>) {
    for (name, member) in value.as_object().into_iter().flatten() {
        match rules.get(name) {
            Some(rule) => check(root, rule, member, &format!("{at}/{name}"), out),
            None => out.push(format!("{at}/{name}: the schema does not describe it")),
        }
    }
}

fn is(value: &Value, name: &str) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        other => panic!("no type {other}"),
    }
}

//! Reading mode settings from JSON: `PUT /spec/mode` and the request object `spectop`. Whatever is wrong with them is
//! a 422 that says what is allowed.

use serde_json::{Map, Value};

use super::error::{ApiError, MODE_FIELDS};
use crate::protocol::mode::{Limits, Mode, ModeRequest};

fn bad(param: &str, message: impl Into<String>) -> ApiError {
    ApiError::Mode { param: param.to_owned(), message: message.into() }
}

/// Reads the fields. `more` names further ones that the caller reads itself; any other is refused, since a misspelt
/// setting that is silently ignored makes every measurement after it wrong. `null` counts as absent.
pub(super) fn parse(object: &Map<String, Value>, more: &[&str]) -> Result<ModeRequest, ApiError> {
    if let Some(unknown) = object.keys().find(|k| !MODE_FIELDS.contains(&k.as_str()) && !more.contains(&k.as_str())) {
        let allowed: Vec<_> = MODE_FIELDS.iter().chain(more).copied().collect();
        let shown: String = unknown.chars().take(40).collect();
        return Err(bad(&shown, format!("unknown setting \"{shown}\"; allowed are {}", allowed.join(", "))));
    }
    let given = |name: &str| object.get(name).filter(|v| !v.is_null());
    let mode = match given("mode") {
        None => None,
        Some(Value::String(name)) => {
            let shown: String = name.chars().take(40).collect();
            Some(shown.parse::<Mode>().map_err(|problem| bad("mode", problem))?)
        }
        Some(_) => {
            return Err(bad("mode", "mode must be one of \"off\", \"dflash\", \"ddtree\", \"shadow\", \"auto\""));
        }
    };
    let count = |name: &'static str| match given(name) {
        None => Ok(None),
        Some(value) => match value.as_u64().and_then(|n| usize::try_from(n).ok()) {
            Some(n) => Ok(Some(n)),
            None => Err(bad(name, format!("{name} must be a whole number, not {}", brief(value)))),
        },
    };
    let chain_seed = match given("chain_seed") {
        None => None,
        Some(Value::Bool(on)) => Some(*on),
        Some(value) => {
            return Err(bad("chain_seed", format!("chain_seed must be true or false, not {}", brief(value))));
        }
    };
    Ok(ModeRequest { mode, block_size: count("block_size")?, tree_budget: count("tree_budget")?, chain_seed })
}

/// Compares with what the server offers.
pub(super) fn check(change: &ModeRequest, limits: &Limits) -> Result<(), ApiError> {
    if let Some(mode) = change.mode
        && !limits.modes.contains(&mode)
    {
        let offered: Vec<_> = limits.modes.iter().map(|m| m.name()).collect();
        return Err(bad(
            "mode",
            format!(
                "mode \"{mode}\" is not on offer: this server has no drafter for it; use one of {}",
                offered.join(", ")
            ),
        ));
    }
    for (name, value, [least, greatest]) in
        [("block_size", change.block_size, limits.block_size), ("tree_budget", change.tree_budget, limits.tree_budget)]
    {
        if let Some(value) = value
            && !(least..=greatest).contains(&value)
        {
            return Err(bad(name, format!("{name} must be from {least} to {greatest}, not {value}")));
        }
    }
    Ok(())
}

/// A value as it may stand in a message.
fn brief(value: &Value) -> String {
    match value {
        Value::Array(_) => "an array".into(),
        Value::Object(_) => "an object".into(),
        Value::String(_) => "a string".into(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn limits() -> Limits {
        Limits {
            modes: vec![Mode::Off, Mode::Dflash],
            block_size: [2, 16],
            tree_budget: [1, 64],
            context: 128,
            max_running: 1,
            max_waiting: 1,
        }
    }

    fn read(value: Value) -> Result<ModeRequest, ApiError> {
        let Value::Object(object) = value else { return Err(ApiError::NotJson) };
        let change = parse(&object, &["trace"])?;
        check(&change, &limits()).map(|()| change)
    }

    #[test]
    fn good_settings_are_read() {
        let all = json!({"mode": "dflash", "block_size": 16, "tree_budget": 1, "chain_seed": false, "trace": 3});
        let want = ModeRequest {
            mode: Some(Mode::Dflash),
            block_size: Some(16),
            tree_budget: Some(1),
            chain_seed: Some(false),
        };
        assert_eq!(read(all), Ok(want));
        assert_eq!(read(json!({"mode": null, "block_size": null})), Ok(ModeRequest::default()));
    }

    #[test]
    fn bad_ones_say_what_is_allowed() {
        for (value, param, part) in [
            (json!({"mode": "beam"}), "mode", "off, dflash, ddtree, shadow, auto"),
            (json!({"mode": 3}), "mode", "\"ddtree\""),
            (json!({"mode": "ddtree"}), "mode", "off, dflash"),
            (json!({"block_size": 17}), "block_size", "from 2 to 16, not 17"),
            (json!({"block_size": -1}), "block_size", "whole number"),
            (json!({"block_size": 2.5}), "block_size", "whole number"),
            (json!({"tree_budget": 0}), "tree_budget", "from 1 to 64"),
            (json!({"chain_seed": "yes"}), "chain_seed", "true or false"),
            (json!({"blocksize": 4}), "blocksize", "block_size"),
        ] {
            match read(value.clone()) {
                Err(ApiError::Mode { param: p, message }) => {
                    assert_eq!(p, param, "{value}");
                    assert!(message.contains(part), "{message}");
                }
                other => panic!("{value}: {other:?}"),
            }
        }
    }
}

//! `PUT /spec/mode`.

use serde_json::{Value, json};
use spectop::protocol::mode::{Mode, ModeChange, ModeRequest};

use crate::scripted::Running;

#[tokio::test]
async fn a_switch_is_passed_on_and_answered() {
    let server = Running::start().await;
    let response = server.put("/spec/mode", &json!({"mode": "ddtree", "tree_budget": 48, "block_size": null})).await;
    assert_eq!(response.status(), 200);
    let change: ModeChange = response.json().await.expect("a mode change");
    assert_eq!((change.settings.mode, change.settings.tree_budget, change.settings.block_size), (Mode::Ddtree, 48, 8));
    assert_eq!(change.effective_round, 7);
    let asked = server.backend.modes.lock().map(|m| m.clone()).unwrap_or_default();
    assert_eq!(asked, [ModeRequest { mode: Some(Mode::Ddtree), tree_budget: Some(48), ..ModeRequest::default() }]);
}

#[tokio::test]
async fn bad_values_are_told_with_what_is_allowed() {
    let server = Running::start().await;
    for (body, part) in [
        (json!({"mode": "beam"}), "off, dflash, ddtree, shadow, auto"),
        (json!({"mode": ["off"]}), "\"dflash\""),
        (json!({"block_size": 1}), "from 2 to 16"),
        (json!({"block_size": "8"}), "whole number"),
        (json!({"tree_budget": 1000}), "from 1 to 64"),
        (json!({"tree_budget": 13}), "bad luck"),
        (json!({"chain_seed": 1}), "true or false"),
        (json!({"budget": 3}), "tree_budget"),
    ] {
        let response = server.put("/spec/mode", &body).await;
        assert_eq!(response.status(), 422, "{body}");
        let error: Value = response.json().await.expect("JSON");
        let message = error["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains(part), "{body}: {message}");
    }
    if let Ok(mut state) = server.backend.state.lock() {
        state.limits.modes = vec![Mode::Off];
    }
    let response = server.put("/spec/mode", &json!({"mode": "ddtree"})).await;
    assert_eq!(response.status(), 422);
    assert!(response.text().await.expect("a body").contains("not on offer"));
}

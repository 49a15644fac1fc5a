//! Decoding modes and their settings, as set by `PUT /spec/mode` and per request.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A way to decode. In every mode the text at temperature 0 is the same; only the speed differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Plain decoding: one token per target forward.
    Off,
    /// DFlash: one linear block is drafted and verified per round.
    Dflash,
    /// DDTree: the drafter's slots are combined into a best-first tree, verified in one forward.
    Ddtree,
    /// The tree is built and logged, only its chain is verified; reports what a sibling would have given.
    Shadow,
    /// The engine picks plain, chain or tree every round by what pays on this machine, and plain where nothing does.
    Auto,
}

impl Mode {
    /// Every mode, in the order in which keys and menus walk them.
    pub const ALL: [Mode; 5] = [Mode::Off, Mode::Dflash, Mode::Ddtree, Mode::Shadow, Mode::Auto];

    /// The name on the wire and on screen.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Off => "off",
            Mode::Dflash => "dflash",
            Mode::Ddtree => "ddtree",
            Mode::Shadow => "shadow",
            Mode::Auto => "auto",
        }
    }

    /// Whether the mode needs a drafter.
    pub fn drafts(self) -> bool {
        self != Mode::Off
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Mode {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        Mode::ALL
            .into_iter()
            .find(|m| m.name() == s)
            .ok_or_else(|| format!("unknown mode \"{s}\"; use one of off, dflash, ddtree, shadow, auto"))
    }
}

/// A mode with all its knobs, as it is in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModeSettings {
    /// The mode.
    pub mode: Mode,
    /// Slots in one draft pass, seed included (`B`).
    pub block_size: usize,
    /// DDTree node budget, root excluded (`R`).
    pub tree_budget: usize,
    /// Whether the tree starts from the whole top-1 chain (never worse than the chain) or is purely best-first.
    pub chain_seed: bool,
}

impl ModeSettings {
    /// These settings with the given changes applied.
    #[must_use]
    pub fn with(self, change: ModeRequest) -> Self {
        Self {
            mode: change.mode.unwrap_or(self.mode),
            block_size: change.block_size.unwrap_or(self.block_size),
            tree_budget: change.tree_budget.unwrap_or(self.tree_budget),
            chain_seed: change.chain_seed.unwrap_or(self.chain_seed),
        }
    }

    /// Short form for headers and logs: `off`, `dflash b8`, `ddtree r32`.
    pub fn label(&self) -> String {
        match self.mode {
            Mode::Off => "off".into(),
            Mode::Dflash => format!("dflash b{}", self.block_size),
            Mode::Ddtree => format!("ddtree r{}", self.tree_budget),
            Mode::Shadow => format!("shadow r{}", self.tree_budget),
            Mode::Auto => "auto".into(),
        }
    }

    /// What changes on the way to `after`, for logs: `off → dflash b8`, or `ddtree r16: chain seed on → off` where the
    /// short forms are the same.
    pub fn change_label(&self, after: &Self) -> String {
        let (from, to) = (self.label(), after.label());
        if from != to {
            return format!("{from} → {to}");
        }
        let word = |on: bool| if on { "on" } else { "off" }.to_owned();
        let knobs = [
            ("block size", self.block_size.to_string(), after.block_size.to_string()),
            ("tree budget", self.tree_budget.to_string(), after.tree_budget.to_string()),
            ("chain seed", word(self.chain_seed), word(after.chain_seed)),
        ];
        let changed: Vec<_> =
            knobs.iter().filter(|(_, a, b)| a != b).map(|(knob, a, b)| format!("{knob} {a} → {b}")).collect();
        if changed.is_empty() { to } else { format!("{to}: {}", changed.join(", ")) }
    }
}

/// A wish: absent fields stay as they are. Body of `PUT /spec/mode`, and part of the request object `spectop`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModeRequest {
    /// New mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// New block size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_size: Option<usize>,
    /// New tree budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree_budget: Option<usize>,
    /// New chain-seed switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain_seed: Option<bool>,
}

impl ModeRequest {
    /// Only the mode changes.
    pub fn mode(mode: Mode) -> Self {
        Self { mode: Some(mode), ..Self::default() }
    }

    /// True when nothing is asked for.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Answer to a mode switch, and payload of the `mode` event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModeChange {
    /// The settings now in force.
    #[serde(flatten)]
    pub settings: ModeSettings,
    /// First engine round that runs under them.
    pub effective_round: u64,
    /// Milliseconds since the Unix epoch.
    pub at_ms: u64,
}

/// What the server accepts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Modes on offer (only `off` without a drafter).
    pub modes: Vec<Mode>,
    /// Least and greatest block size.
    pub block_size: [usize; 2],
    /// Least and greatest tree budget.
    pub tree_budget: [usize; 2],
    /// Tokens a sequence may have, prompt and answer together.
    pub context: usize,
    /// Requests decoded at once.
    pub max_running: usize,
    /// Requests that may wait; one more is refused with 429.
    pub max_waiting: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_names_what_changes() {
        let before = ModeSettings { mode: Mode::Ddtree, block_size: 8, tree_budget: 16, chain_seed: true };
        let to = |request| before.change_label(&before.with(request));
        let nothing = ModeRequest::default();
        assert_eq!(to(ModeRequest { mode: Some(Mode::Dflash), ..nothing }), "ddtree r16 → dflash b8");
        assert_eq!(to(ModeRequest { tree_budget: Some(32), ..nothing }), "ddtree r16 → ddtree r32");
        assert_eq!(to(ModeRequest { chain_seed: Some(false), ..nothing }), "ddtree r16: chain seed on → off");
        assert_eq!(to(ModeRequest { block_size: Some(4), ..nothing }), "ddtree r16: block size 8 → 4");
        assert_eq!(to(nothing), "ddtree r16");
    }
}

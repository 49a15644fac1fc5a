//! What happened in one round of one session: proposal, tree, acceptance, times.

use serde::{Deserialize, Serialize};

use super::mode::Mode;
use super::state::StageTimes;

/// A token. `text` is present when its bytes are whole UTF-8; otherwise `bytes` has them, and the reader joins
/// neighbours before it shows them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Token {
    /// Token id of the target's vocabulary.
    pub id: u32,
    /// Text, when whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Raw bytes, when `text` is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Vec<u8>>,
}

impl Token {
    /// From a token's bytes.
    pub fn new(id: u32, bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self { id, text: Some(text.to_owned()), bytes: None },
            Err(_) => Self { id, text: None, bytes: Some(bytes.to_vec()) },
        }
    }

    /// The bytes, wherever they are.
    pub fn as_bytes(&self) -> &[u8] {
        match (&self.text, &self.bytes) {
            (Some(text), _) => text.as_bytes(),
            (None, Some(bytes)) => bytes,
            (None, None) => &[],
        }
    }
}

/// A proposed token: node `i + 1` of the round's tree is `proposed[i]` (node 0 is the seed).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Proposed {
    /// The token.
    #[serde(flatten)]
    pub token: Token,
    /// Draft log-probability of this token at its slot (temperature 1).
    pub logprob: f32,
    /// Index of the parent node; 0 is the seed.
    pub parent: usize,
    /// Depth; children of the seed have 1.
    pub depth: usize,
}

/// Why a round committed no more tokens than it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RoundEnd {
    /// The target chose a token that was not proposed there.
    Mismatch,
    /// Every proposed token on the path was accepted.
    FullBlock,
    /// A stop token or stop string came.
    Stop,
    /// The length limit was reached.
    Length,
    /// Nothing had been proposed.
    Plain,
}

/// One round of one session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Request id.
    pub request: String,
    /// Engine round, counted over all sessions since start.
    pub round: u64,
    /// Round of this request, from 0.
    pub step: u64,
    /// Mode of the round.
    pub mode: Mode,
    /// Proposed tokens in node order; empty in `off`.
    pub proposed: Vec<Proposed>,
    /// Candidates that the tree's budget left out, the heaviest first and only a few of them: what a bigger budget would
    /// have verified too. `parent` is a node of `proposed`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<Proposed>,
    /// Node indices of the accepted path, seed (0) first.
    pub accepted: Vec<usize>,
    /// The target's own token that ends the round.
    pub bonus: Token,
    /// Tokens appended to the sequence: accepted drafts, then the bonus. Shorter at a stop or length limit.
    pub committed: Vec<Token>,
    /// How many of `committed` are accepted drafts (the rest, 0 or 1, is the bonus).
    pub accepted_drafts: usize,
    /// Why it ended.
    pub end: RoundEnd,
    /// In `shadow`: whether the token that ended the chain was in the tree as a sibling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadow_hit: Option<bool>,
    /// Milliseconds by stage (shared by all sessions of the forward).
    pub stages: StageTimes,
    /// Rows of this session in the target forward.
    pub rows: usize,
    /// Tokens in the sequence after the round.
    pub context: usize,
    /// Milliseconds since the Unix epoch.
    pub at_ms: u64,
}

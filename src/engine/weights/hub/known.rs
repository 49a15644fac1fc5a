//! Which published drafter belongs to which published target.

/// A target on the hub and the drafter that was trained for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownPair {
    /// Target repository.
    pub target: &'static str,
    /// Drafter repository.
    pub drafter: &'static str,
    /// Something to know about it.
    pub note: &'static str,
}

const fn pair(target: &'static str, drafter: &'static str, note: &'static str) -> KnownPair {
    KnownPair { target, drafter, note }
}

/// The table. docs/models.md shows it; a test keeps the two equal.
pub const KNOWN: [KnownPair; 12] = [
    pair("Qwen/Qwen3-4B", "z-lab/Qwen3-4B-DFlash-b16", "trained without thinking"),
    pair("Qwen/Qwen3-8B", "z-lab/Qwen3-8B-DFlash-b16", "trained without thinking"),
    pair("meta-llama/Llama-3.1-8B-Instruct", "z-lab/LLaMA3.1-8B-Instruct-DFlash-UltraChat", "the target is gated"),
    pair("Qwen/Qwen3.5-4B", "z-lab/Qwen3.5-4B-DFlash", ""),
    pair("Qwen/Qwen3.5-9B", "z-lab/Qwen3.5-9B-DFlash", ""),
    pair("Qwen/Qwen3.5-27B", "z-lab/Qwen3.5-27B-DFlash", ""),
    pair("Qwen/Qwen3.6-27B", "z-lab/Qwen3.6-27B-DFlash", ""),
    pair("Qwen/Qwen3.8-27B", "z-lab/Qwen3.8-27B-DFlash2", "DFlash 2"),
    pair("Qwen/Qwen3.5-35B-A3B", "z-lab/Qwen3.5-35B-A3B-DFlash", "mixture of experts"),
    pair("Qwen/Qwen3.6-35B-A3B", "z-lab/Qwen3.6-35B-A3B-DFlash", "mixture of experts"),
    pair("Qwen/Qwen3-Coder-30B-A3B-Instruct", "z-lab/Qwen3-Coder-30B-A3B-DFlash", "mixture of experts"),
    pair("openai/gpt-oss-20b", "z-lab/gpt-oss-20b-DFlash", "mixture of experts"),
];

/// The pair of a target, by the name of its repository, folder or file. Conversions and copies of a model keep its
/// name, so the owner does not matter, nor does what says how it is stored (`-GGUF`, `.Q4_K_M`).
pub fn pair_of(target: &str) -> Option<&'static KnownPair> {
    let name = target.trim_end_matches('/').rsplit('/').next()?.to_ascii_lowercase();
    let name = name.trim_end_matches(".gguf");
    KNOWN.iter().find(|pair| {
        let known = pair.target.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
        name.strip_prefix(&known).is_some_and(is_storage)
    })
}

/// The pair that a drafter is part of.
pub fn pair_with(drafter: &str) -> Option<&'static KnownPair> {
    KNOWN.iter().find(|pair| pair.drafter.eq_ignore_ascii_case(drafter))
}

/// Whether what follows a model's name only says how it is stored.
fn is_storage(rest: &str) -> bool {
    rest.split(['-', '.', '_']).all(|piece| {
        let digits = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
        matches!(piece, "" | "gguf" | "bf16" | "f16" | "f32" | "ud" | "k" | "s" | "m" | "l" | "xl" | "0" | "1")
            || piece.strip_prefix('q').is_some_and(digits)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_known_by_its_name_however_it_is_stored() {
        for (target, drafter) in [
            ("Qwen/Qwen3-8B", Some("z-lab/Qwen3-8B-DFlash-b16")),
            ("qwen/qwen3-8b", Some("z-lab/Qwen3-8B-DFlash-b16")),
            ("someone/Qwen3-8B-GGUF", Some("z-lab/Qwen3-8B-DFlash-b16")),
            ("/models/Qwen3-4B-Q4_K_M.gguf", Some("z-lab/Qwen3-4B-DFlash-b16")),
            ("models/Qwen3-4B/", Some("z-lab/Qwen3-4B-DFlash-b16")),
            ("Qwen3.6-27B-UD-Q4_K_XL.gguf", Some("z-lab/Qwen3.6-27B-DFlash")),
            ("Qwen/Qwen3-8B-Base", None),
            ("Qwen/Qwen3-80B", None),
            ("Qwen/Qwen3-VL-8B", None),
            ("z-lab/Qwen3-8B-DFlash-b16", None),
        ] {
            assert_eq!(pair_of(target).map(|p| p.drafter), drafter, "{target}");
        }
        assert_eq!(pair_with("z-lab/Qwen3.6-27B-DFlash").map(|p| p.target), Some("Qwen/Qwen3.6-27B"));
    }

    #[test]
    fn the_documentation_has_the_same_table() {
        let page = include_str!("../../../../docs/models.md");
        for pair in KNOWN {
            let line = format!("| `{}` | `{}` | {} |", pair.target, pair.drafter, pair.note);
            assert!(page.contains(&line), "docs/models.md lacks: {line}");
        }
        let lines = page.lines().filter(|l| l.starts_with("| `") && l.contains("DFlash")).count();
        assert_eq!(lines, KNOWN.len(), "docs/models.md names others");
    }
}

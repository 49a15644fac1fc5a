//! Modes in words, as a plan names them: `off`, `dflash:8`, `ddtree:32:noseed`.

use crate::protocol::mode::{Limits, Mode, ModeSettings};

/// Tree budgets that are offered, as far as the server takes them.
const BUDGETS: [usize; 6] = [8, 16, 32, 64, 128, 256];
/// Tree budgets that are chosen at first.
const CHOSEN_BUDGETS: [usize; 1] = [16];

/// The modes to offer on a server, and which of them are chosen at first. The first is the baseline.
pub fn offered(limits: &Limits, now: ModeSettings) -> Vec<(String, bool)> {
    let mut words = Vec::new();
    let has = |mode| limits.modes.contains(&mode);
    if has(Mode::Off) {
        words.push(("off".to_owned(), true));
    }
    let [least, most] = limits.block_size;
    if has(Mode::Dflash) && least <= most {
        let full = now.block_size.clamp(least, most);
        words.push((format!("dflash:{full}"), true));
        let half = full / 2;
        if half >= least.max(2) && half < full {
            words.push((format!("dflash:{half}"), false));
        }
    }
    let [least, most] = limits.tree_budget;
    if has(Mode::Ddtree) && least <= most {
        for budget in BUDGETS.into_iter().filter(|b| (least..=most).contains(b)) {
            words.push((format!("ddtree:{budget}"), CHOSEN_BUDGETS.contains(&budget)));
        }
    }
    words
}

/// Checks a mode that somebody typed; the error says what would do.
pub fn check(word: &str, limits: Option<&Limits>) -> Result<String, String> {
    let word = word.trim().to_lowercase().replace(' ', ":");
    let mut parts = word.split(':');
    let mode: Mode = parts.next().unwrap_or_default().parse()?;
    let number = parts.next();
    let seed = parts.next();
    if parts.next().is_some() {
        return Err(format!("\"{word}\" has too many parts; try ddtree:32 or ddtree:32:noseed"));
    }
    if let Some(limits) = limits
        && !limits.modes.contains(&mode)
    {
        return Err(format!("{mode} is not on offer on this server"));
    }
    let range = match mode {
        Mode::Off | Mode::Auto if number.is_some() => return Err(format!("{mode} has no settings")),
        Mode::Off | Mode::Auto => None,
        Mode::Dflash => limits.map(|l| ("block size", l.block_size)),
        Mode::Ddtree | Mode::Shadow => limits.map(|l| ("tree budget", l.tree_budget)),
    };
    if let Some(number) = number {
        let value: usize = number.parse().map_err(|_| format!("\"{number}\" is no number; try {mode}:8"))?;
        if let Some((what, [least, most])) = range
            && !(least..=most).contains(&value)
        {
            return Err(format!("{what} {value} is out of range {least} to {most}"));
        }
    }
    match seed {
        None => {}
        Some("seed" | "noseed") if matches!(mode, Mode::Ddtree | Mode::Shadow) => {}
        Some(other) => return Err(format!("\"{other}\" is unknown; a tree takes seed or noseed")),
    }
    Ok(word)
}

/// The mode that a word or a label (`ddtree:32`, `ddtree r32`) begins with.
pub fn mode_of(label: &str) -> Option<Mode> {
    label.split([' ', ':']).next().and_then(|name| name.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits {
            modes: Mode::ALL.to_vec(),
            block_size: [2, 8],
            tree_budget: [1, 40],
            context: 100,
            max_running: 1,
            max_waiting: 1,
        }
    }

    fn now() -> ModeSettings {
        ModeSettings { mode: Mode::Off, block_size: 8, tree_budget: 16, chain_seed: true }
    }

    #[test]
    fn what_is_offered_follows_the_limits() {
        let words: Vec<_> = offered(&limits(), now()).into_iter().map(|(w, on)| format!("{w} {on}")).collect();
        assert_eq!(
            words,
            ["off true", "dflash:8 true", "dflash:4 false", "ddtree:8 false", "ddtree:16 true", "ddtree:32 false"]
        );
        let bare = Limits { modes: vec![Mode::Off], ..limits() };
        assert_eq!(offered(&bare, now()), [("off".to_owned(), true)]);
        for word in offered(&limits(), now()) {
            assert_eq!(check(&word.0, Some(&limits())).as_ref(), Ok(&word.0));
        }
    }

    #[test]
    fn what_is_typed_is_checked() {
        let l = limits();
        assert_eq!(check(" DDTree 12 noseed ", Some(&l)).as_deref(), Ok("ddtree:12:noseed"));
        for (word, part) in [
            ("warp", "unknown mode"),
            ("off:3", "no settings"),
            ("dflash:x", "no number"),
            ("dflash:99", "2 to 8"),
            ("dflash:4:seed", "unknown"),
            ("ddtree:4:seed:x", "too many"),
            ("", "unknown mode"),
        ] {
            assert!(check(word, Some(&l)).expect_err(word).contains(part), "{word}");
        }
        assert_eq!(check("ddtree:9999", None).as_deref(), Ok("ddtree:9999"));
        assert_eq!(
            (mode_of("ddtree r16"), mode_of("dflash:8"), mode_of("vllm")),
            (Some(Mode::Ddtree), Some(Mode::Dflash), None)
        );
    }
}

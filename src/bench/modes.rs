//! Modes under test, from words to settings: `off`, `dflash`, `dflash:8`, `ddtree:32`, `ddtree:32:noseed`,
//! `as-is`, `LABEL=URL`.

use std::collections::HashSet;
use std::fmt::Write as _;

use crate::protocol::mode::{Limits, Mode, ModeRequest, ModeSettings};
use crate::protocol::run::ModeSpec;

/// The word for a server as it stands.
pub const AS_IS: &str = "as-is";

/// What is known of the server before anything is sent.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Offer {
    /// What our server allows, and the settings in force; absent for servers that cannot switch.
    pub switch: Option<(Limits, ModeSettings)>,
}

/// Why a word is no mode of this server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModeError {
    /// It cannot be read.
    #[error(
        "\"{word}\" is no mode: {problem}; use off, dflash[:BLOCK], ddtree[:BUDGET][:seed|:noseed], shadow[:BUDGET], auto, as-is, or LABEL=URL"
    )]
    Word {
        /// As given.
        word: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The server cannot switch.
    #[error(
        "this server cannot switch to \"{word}\" while it runs: start one server for each mode and give them as --modes off=URL1,{label}=URL2, or measure it as it stands with --modes as-is"
    )]
    NoSwitch {
        /// As given.
        word: String,
        /// A label that fits.
        label: String,
    },
    /// Our server, without what the mode needs.
    #[error("this server does not offer \"{word}\": {problem}")]
    NotOffered {
        /// As given.
        word: String,
        /// Why, and what it does offer.
        problem: String,
    },
    /// The same mode twice.
    #[error("the mode \"{0}\" is given twice")]
    Twice(String),
}

/// The modes that are tried when none are named: all that pay to look at, the baseline first.
pub fn default_words(offer: &Offer) -> Vec<String> {
    match &offer.switch {
        Some((limits, _)) => [Mode::Off, Mode::Dflash, Mode::Ddtree]
            .into_iter()
            .filter(|mode| limits.modes.contains(mode))
            .map(|mode| mode.name().to_owned())
            .collect(),
        None => vec![AS_IS.to_owned()],
    }
}

/// Refuses what no server could offer, before one is asked or started.
pub fn check(words: &[String]) -> Result<(), ModeError> {
    let words = words.iter().map(|word| word.trim());
    words.filter(|word| !word.contains('=') && *word != AS_IS).try_for_each(|word| wish(word).map(|_| ()))
}

/// Reads the words; the first is the baseline.
pub fn read(words: &[String], offer: &Offer) -> Result<Vec<ModeSpec>, ModeError> {
    let mut labels = HashSet::new();
    let mut specs = Vec::new();
    for word in words {
        let spec = read_one(word.trim(), offer)?;
        if !labels.insert(spec.label.clone()) {
            return Err(ModeError::Twice(spec.label));
        }
        specs.push(spec);
    }
    if specs.is_empty() {
        return Err(ModeError::Word { word: String::new(), problem: "no mode is named".into() });
    }
    Ok(specs)
}

fn read_one(word: &str, offer: &Offer) -> Result<ModeSpec, ModeError> {
    if let Some((label, url)) = word.split_once('=') {
        let bad = |problem: &str| ModeError::Word { word: word.to_owned(), problem: problem.to_owned() };
        let (label, url) = (label.trim(), url.trim());
        if label.is_empty() || label.chars().count() > 40 || label.chars().any(char::is_control) {
            return Err(bad("the label before = must have 1 to 40 characters"));
        }
        if url.is_empty() {
            return Err(bad("the address after = is missing"));
        }
        return Ok(ModeSpec { label: label.to_owned(), request: ModeRequest::default(), url: Some(url.to_owned()) });
    }
    if word == AS_IS {
        return Ok(ModeSpec { label: AS_IS.to_owned(), request: ModeRequest::default(), url: None });
    }
    let wish = wish(word)?;
    let mode = wish.mode.unwrap_or(Mode::Off);
    let Some((limits, defaults)) = &offer.switch else {
        return Err(ModeError::NoSwitch { word: word.to_owned(), label: mode.name().to_owned() });
    };
    let refuse = |problem: String| Err(ModeError::NotOffered { word: word.to_owned(), problem });
    if !limits.modes.contains(&mode) {
        let offered: Vec<_> = limits.modes.iter().map(|mode| mode.name()).collect();
        return refuse(format!("it has no drafter for it; it offers {}", offered.join(", ")));
    }
    // Everything is asked for by number, so that a switch on the server in the middle changes nothing here.
    let settings = defaults.with(wish);
    for (name, value, [least, greatest], used) in [
        ("block size", settings.block_size, limits.block_size, mode.drafts()),
        ("tree budget", settings.tree_budget, limits.tree_budget, matches!(mode, Mode::Ddtree | Mode::Shadow)),
    ] {
        if used && !(least..=greatest).contains(&value) {
            return refuse(format!("the {name} must be from {least} to {greatest}, not {value}"));
        }
    }
    Ok(ModeSpec { label: label(settings, *defaults), request: request(settings), url: None })
}

/// Only what the mode uses: a budget outside of the server's range must not make plain decoding fail.
fn request(settings: ModeSettings) -> ModeRequest {
    let tree = matches!(settings.mode, Mode::Ddtree | Mode::Shadow);
    ModeRequest {
        mode: Some(settings.mode),
        block_size: settings.mode.drafts().then_some(settings.block_size),
        tree_budget: tree.then_some(settings.tree_budget),
        chain_seed: tree.then_some(settings.chain_seed),
    }
}

fn label(settings: ModeSettings, defaults: ModeSettings) -> String {
    let mut label = settings.label();
    if matches!(settings.mode, Mode::Ddtree | Mode::Shadow) {
        if settings.block_size != defaults.block_size {
            let _ = write!(label, " b{}", settings.block_size);
        }
        if settings.chain_seed != defaults.chain_seed {
            label.push_str(if settings.chain_seed { " seed" } else { " noseed" });
        }
    }
    label
}

/// A word as a wish; knobs that it does not name are absent.
pub fn wish(word: &str) -> Result<ModeRequest, ModeError> {
    let bad = |problem: String| ModeError::Word { word: word.to_owned(), problem };
    let mut parts = word.split(':');
    let mode: Mode = parts.next().unwrap_or_default().parse().map_err(|_| bad("the name is unknown".into()))?;
    let mut wish = ModeRequest::mode(mode);
    for part in parts {
        let twice = match part {
            "seed" | "noseed" => wish.chain_seed.replace(part == "seed").is_some(),
            _ => {
                let (block, digits) = match (part.strip_prefix('b'), part.strip_prefix('r')) {
                    (Some(digits), _) => (true, digits),
                    (_, Some(digits)) => (false, digits),
                    _ => (mode == Mode::Dflash, part),
                };
                let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
                let number: usize = plain
                    .then(|| digits.parse().ok())
                    .flatten()
                    .ok_or_else(|| bad(format!("\"{part}\" is neither a number nor seed nor noseed")))?;
                let knob = if block { &mut wish.block_size } else { &mut wish.tree_budget };
                knob.replace(number).is_some()
            }
        };
        if twice {
            return Err(bad(format!("\"{part}\" sets something twice")));
        }
    }
    let tree = matches!(mode, Mode::Ddtree | Mode::Shadow);
    if (!mode.drafts() && wish != ModeRequest::mode(mode))
        || (!tree && (wish.tree_budget.is_some() || wish.chain_seed.is_some()))
    {
        return Err(bad(format!("{mode} has no such setting")));
    }
    Ok(wish)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_no_server_knows_need_none_to_be_refused() {
        let words = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(check(&words("off, ddtree:9000,as-is,mine=http://a:1")), Ok(()));
        assert!(matches!(check(&words("off,foo")), Err(ModeError::Word { word, .. }) if word == "foo"));
    }

    fn offer() -> Offer {
        let limits = Limits {
            modes: Mode::ALL.to_vec(),
            block_size: [2, 16],
            tree_budget: [1, 64],
            context: 100,
            max_running: 1,
            max_waiting: 1,
        };
        let defaults = ModeSettings { mode: Mode::Off, block_size: 8, tree_budget: 16, chain_seed: true };
        Offer { switch: Some((limits, defaults)) }
    }

    fn labels(words: &[&str]) -> Result<Vec<String>, ModeError> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        read(&words, &offer()).map(|specs| specs.into_iter().map(|spec| spec.label).collect())
    }

    #[test]
    fn words_become_labels() {
        assert_eq!(
            labels(&[
                "off",
                "dflash",
                "dflash:4",
                "ddtree:32",
                "ddtree",
                "ddtree:32:noseed",
                "ddtree:r32:b4",
                "shadow:8"
            ]),
            Ok([
                "off",
                "dflash b8",
                "dflash b4",
                "ddtree r32",
                "ddtree r16",
                "ddtree r32 noseed",
                "ddtree r32 b4",
                "shadow r8"
            ]
            .map(str::to_owned)
            .to_vec())
        );
        let specs = read(&["ddtree:32".into(), "off".into()], &offer()).unwrap();
        let want = ModeRequest {
            mode: Some(Mode::Ddtree),
            block_size: Some(8),
            tree_budget: Some(32),
            chain_seed: Some(true),
        };
        assert_eq!((specs[0].request, specs[1].request), (want, ModeRequest::mode(Mode::Off)));
        assert_eq!(labels(&["dflash", "dflash:8"]), Err(ModeError::Twice("dflash b8".into())));
        assert_eq!(labels(&["ddtree", "ddtree:seed"]), Err(ModeError::Twice("ddtree r16".into())));
    }

    #[test]
    fn nonsense_is_refused() {
        for word in [
            "",
            "fast",
            "off:1",
            "dflash:x",
            "dflash:",
            "dflash:8:9",
            "dflash:seed",
            "dflash:r8",
            "ddtree:1:2",
            "ddtree:seed:noseed",
            "ddtree:+3",
            "ddtree:99999999999999999999999",
            "=http://x",
            "a=",
        ] {
            let error = labels(&[word]).unwrap_err();
            assert!(matches!(error, ModeError::Word { .. }), "{word}: {error}");
        }
        for word in ["dflash:17", "ddtree:65", "ddtree:0"] {
            let error = labels(&[word]).unwrap_err().to_string();
            assert!(error.contains("must be from"), "{error}");
        }
    }

    #[test]
    fn servers_that_cannot_switch_say_what_to_do() {
        let foreign = Offer::default();
        let error = read(&["dflash:8".into()], &foreign).unwrap_err().to_string();
        assert!(error.contains("--modes off=URL1,dflash=URL2") && error.contains("as-is"), "{error}");
        let words = ["off=host:1".to_owned(), "mtp=http://host:2".to_owned()];
        let specs = read(&words, &foreign).unwrap();
        assert_eq!((specs[1].label.as_str(), specs[1].url.as_deref()), ("mtp", Some("http://host:2")));
        assert!(specs[1].request.is_empty());
        assert_eq!(default_words(&foreign), ["as-is"]);
        assert_eq!(default_words(&offer()), ["off", "dflash", "ddtree"]);
        let (mut limits, defaults) = offer().switch.unwrap();
        limits.modes = vec![Mode::Off];
        let error = read(&["ddtree".into()], &Offer { switch: Some((limits, defaults)) }).unwrap_err().to_string();
        assert!(error.contains("no drafter") && error.contains("offers off"), "{error}");
    }
}

//! Screens: each arranges widgets in an area.

pub mod bench;
pub mod compact;
pub mod compare;
pub mod dashboard;
pub mod gpu;
pub mod log;
pub mod playground;
pub mod race;
pub mod tree;

/// The screens there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Screen {
    /// What happens now.
    #[default]
    Dashboard,
    /// One prompt, walked through round by round.
    Playground,
    /// The tree of a round.
    Tree,
    /// Measuring modes against each other.
    Bench,
    /// Runs that were kept.
    Compare,
    /// GPUs, or the host.
    Gpu,
    /// The log.
    Log,
    /// Two modes against each other.
    Race,
}

impl Screen {
    /// Every screen, in the order of the tabs.
    pub const ALL: [Screen; 8] = [
        Screen::Dashboard,
        Screen::Playground,
        Screen::Tree,
        Screen::Bench,
        Screen::Compare,
        Screen::Gpu,
        Screen::Log,
        Screen::Race,
    ];

    /// The key and the name on its tab.
    pub fn tab(self) -> (char, &'static str) {
        match self {
            Screen::Dashboard => ('1', "dashboard"),
            Screen::Playground => ('2', "play"),
            Screen::Tree => ('3', "tree"),
            Screen::Bench => ('4', "bench"),
            Screen::Compare => ('5', "compare"),
            Screen::Gpu => ('6', "gpu"),
            Screen::Log => ('7', "log"),
            Screen::Race => ('8', "race"),
        }
    }

    /// The screen after this one, or before it; they go round.
    #[must_use]
    pub fn beside(self, forward: bool) -> Self {
        let at = Self::ALL.iter().position(|s| *s == self).unwrap_or(0);
        Self::ALL[(at + if forward { 1 } else { Self::ALL.len() - 1 }) % Self::ALL.len()]
    }
}

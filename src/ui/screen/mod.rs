//! Screens: each arranges widgets in an area.

pub mod bench;
pub mod compact;
pub mod compare;
pub mod dashboard;
pub mod log;

/// The screens there are. Their digits leave room for those that are planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Screen {
    /// What happens now.
    #[default]
    Dashboard,
    /// Measuring modes against each other.
    Bench,
    /// Runs that were kept.
    Compare,
    /// The log.
    Log,
}

impl Screen {
    /// Every screen, in the order of the tabs.
    pub const ALL: [Screen; 4] = [Screen::Dashboard, Screen::Bench, Screen::Compare, Screen::Log];

    /// The key and the name on its tab.
    pub fn tab(self) -> (char, &'static str) {
        match self {
            Screen::Dashboard => ('1', "dashboard"),
            Screen::Bench => ('4', "bench"),
            Screen::Compare => ('5', "compare"),
            Screen::Log => ('7', "log"),
        }
    }
}

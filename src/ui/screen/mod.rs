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

use super::action::Action;

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

    /// The name on its tab.
    pub fn name(self) -> &'static str {
        match self {
            Screen::Dashboard => "dashboard",
            Screen::Playground => "play",
            Screen::Tree => "tree",
            Screen::Bench => "bench",
            Screen::Compare => "compare",
            Screen::Gpu => "gpu",
            Screen::Log => "log",
            Screen::Race => "race",
        }
    }

    /// What goes there.
    pub fn action(self) -> Action {
        match self {
            Screen::Dashboard => Action::ShowDashboard,
            Screen::Playground => Action::ShowPlayground,
            Screen::Tree => Action::ShowTree,
            Screen::Bench => Action::ShowBench,
            Screen::Compare => Action::ShowCompare,
            Screen::Gpu => Action::ShowGpu,
            Screen::Log => Action::ShowLog,
            Screen::Race => Action::ShowRace,
        }
    }

    /// The screen that an action goes to.
    pub fn of(action: Action) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.action() == action)
    }

    /// The screen after this one, or before it; they go round.
    #[must_use]
    pub fn beside(self, forward: bool) -> Self {
        let at = Self::ALL.iter().position(|s| *s == self).unwrap_or(0);
        Self::ALL[(at + if forward { 1 } else { Self::ALL.len() - 1 }) % Self::ALL.len()]
    }
}

//! Screens: each arranges widgets in an area.

pub mod bench;
pub mod compact;
pub mod compare;
pub mod dashboard;
pub mod log;

use super::action::Action;

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

    /// The name on its tab.
    pub fn name(self) -> &'static str {
        match self {
            Screen::Dashboard => "dashboard",
            Screen::Bench => "bench",
            Screen::Compare => "compare",
            Screen::Log => "log",
        }
    }

    /// What goes there.
    pub fn action(self) -> Action {
        match self {
            Screen::Dashboard => Action::ShowDashboard,
            Screen::Bench => Action::ShowBench,
            Screen::Compare => Action::ShowCompare,
            Screen::Log => Action::ShowLog,
        }
    }

    /// The screen that an action goes to.
    pub fn of(action: Action) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.action() == action)
    }
}

//! Places where keys are read.

/// Where keys are being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Context {
    /// Everywhere, text fields included.
    Global,
    /// On every screen, beside the screen's own keys; not in menus and text fields.
    Screens,
    /// The dashboard.
    Dashboard,
    /// The playground: walking through an answer.
    Playground,
    /// The playground's prompt editor. Characters without a binding are typed.
    PlaygroundEdit,
    /// The tree of a round.
    Tree,
    /// The bench screen while nothing runs.
    BenchPlan,
    /// The bench screen during a run.
    BenchRun,
    /// The compare screen.
    Compare,
    /// The GPU screen.
    Gpu,
    /// The log screen.
    Log,
    /// The race.
    Race,
    /// The mode menu.
    ModeMenu,
    /// The prompt editor. Characters without a binding are typed.
    Prompt,
    /// A field of one line. Characters without a binding are typed.
    Field,
    /// The command palette. Characters without a binding are typed.
    Palette,
    /// The list of themes.
    Themes,
    /// The list of formats to export a run in.
    Export,
    /// Two outputs side by side.
    Difference,
    /// The help overlay.
    Help,
}

impl Context {
    /// Every context, in the order of the help.
    pub const ALL: [Context; 20] = [
        Context::Screens,
        Context::Dashboard,
        Context::Playground,
        Context::PlaygroundEdit,
        Context::Tree,
        Context::BenchPlan,
        Context::BenchRun,
        Context::Compare,
        Context::Gpu,
        Context::Log,
        Context::Race,
        Context::ModeMenu,
        Context::Prompt,
        Context::Field,
        Context::Palette,
        Context::Themes,
        Context::Export,
        Context::Difference,
        Context::Help,
        Context::Global,
    ];

    /// Its name in the configuration: `bench-plan`.
    pub fn name(self) -> String {
        super::key::kebab(&format!("{self:?}"))
    }

    /// Heading in the help.
    pub fn title(self) -> &'static str {
        match self {
            Context::Global => "Everywhere",
            Context::Screens => "Every screen",
            Context::Dashboard => "Dashboard",
            Context::Playground => "Playground",
            Context::PlaygroundEdit => "Playground: writing the prompt",
            Context::Tree => "Tree",
            Context::Gpu => "GPU",
            Context::Race => "Race",
            Context::BenchPlan => "Bench: plan and results",
            Context::BenchRun => "Bench: while it runs",
            Context::Compare => "Compare",
            Context::Log => "Log",
            Context::ModeMenu => "Mode menu",
            Context::Prompt => "Prompt editor",
            Context::Field => "Text field",
            Context::Palette => "Command palette",
            Context::Themes => "Themes",
            Context::Export => "Export",
            Context::Difference => "Difference of two outputs",
            Context::Help => "Help",
        }
    }

    /// True for the screens themselves, where [`Context::Screens`] holds too.
    pub fn is_screen(self) -> bool {
        matches!(
            self,
            Context::Dashboard
                | Context::Playground
                | Context::Tree
                | Context::BenchPlan
                | Context::BenchRun
                | Context::Compare
                | Context::Gpu
                | Context::Log
                | Context::Race
        )
    }

    /// True where plain characters are text.
    pub fn is_text(self) -> bool {
        matches!(self, Context::Prompt | Context::PlaygroundEdit | Context::Field | Context::Palette)
    }
}

//! Runs that were kept: the list, the filter, and the run that is looked at.

use serde::{Deserialize, Serialize};

use crate::protocol::run::{Comparison, Divergence, ModeSummary, Run, RunStatus};
use crate::ui::editor::Editor;

/// A run in the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunListItem {
    /// Its id.
    pub id: String,
    /// Short description.
    pub title: String,
    /// Milliseconds since the Unix epoch.
    pub started_ms: u64,
    /// How it ended.
    pub status: RunStatus,
    /// Labels of the modes, the baseline first.
    pub modes: Vec<String>,
    /// Names of the suites.
    pub suites: Vec<String>,
    /// Model that answered.
    pub model: Option<String>,
}

impl RunListItem {
    /// The entry of a run.
    pub fn of(run: &Run) -> Self {
        Self {
            id: run.meta.id.clone(),
            title: run.meta.title.clone(),
            started_ms: run.meta.started_ms,
            status: run.meta.status,
            modes: run.plan.modes.iter().map(|m| m.label.clone()).collect(),
            suites: run.plan.suites.iter().map(|s| s.name.clone()).collect(),
            model: run.env.target.as_ref().map(|t| t.name.clone()).or_else(|| run.env.model.clone()),
        }
    }

    fn holds(&self, needle: &str) -> bool {
        let all = [&self.id, &self.title];
        let all = all.into_iter().chain(&self.modes).chain(&self.suites).chain(&self.model);
        all.into_iter().any(|text| text.to_lowercase().contains(needle))
    }
}

/// A format to export a run in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// Markdown table.
    Markdown,
    /// The run itself, `run.v1`.
    Json,
    /// A page with its plots.
    Html,
    /// One line a request.
    Csv,
}

impl ExportFormat {
    /// Every format, in the order of the menu.
    pub const ALL: [ExportFormat; 4] =
        [ExportFormat::Markdown, ExportFormat::Json, ExportFormat::Html, ExportFormat::Csv];

    /// Ending of the file's name.
    pub fn ending(self) -> &'static str {
        match self {
            ExportFormat::Markdown => "md",
            ExportFormat::Json => "json",
            ExportFormat::Html => "html",
            ExportFormat::Csv => "csv",
        }
    }

    /// What one gets.
    pub fn explain(self) -> &'static str {
        match self {
            ExportFormat::Markdown => "result tables, for chats and pull requests",
            ExportFormat::Json => "everything, format run.v1",
            ExportFormat::Html => "one page with tables and plots",
            ExportFormat::Csv => "one line a request",
        }
    }
}

/// The plots, in the order in which Tab walks them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Plot {
    /// Bars of speed-up by suite.
    #[default]
    Suites,
    /// Speed-up and τ against the tree budget.
    Budgets,
    /// Rounds by accepted drafts.
    Acceptance,
}

impl Plot {
    /// Every plot.
    pub const ALL: [Plot; 3] = [Plot::Suites, Plot::Budgets, Plot::Acceptance];

    /// Heading.
    pub fn title(self) -> &'static str {
        match self {
            Plot::Suites => "speed-up by suite",
            Plot::Budgets => "by tree budget",
            Plot::Acceptance => "accepted drafts a round",
        }
    }

    /// The next one, or the one before.
    #[must_use]
    pub fn walk(self, forward: bool) -> Self {
        let at = Self::ALL.iter().position(|p| *p == self).unwrap_or(0);
        Self::ALL[(at + if forward { 1 } else { Self::ALL.len() - 1 }) % Self::ALL.len()]
    }
}

/// The compare screen.
#[derive(Debug, Clone, Default)]
pub struct Compare {
    /// Every run, newest first; `None` until they were listed.
    pub runs: Option<Vec<RunListItem>>,
    /// Why they could not be listed or read.
    pub error: Option<String>,
    /// Entry with the cursor, among those that the filter leaves.
    pub selected: usize,
    /// The filter's text.
    pub filter: Editor,
    /// True while the filter is being typed.
    pub filtering: bool,
    /// The run that is looked at.
    pub run: Option<Box<Run>>,
    /// Id of the run that is being read.
    pub loading: Option<String>,
    /// Place among suites and concurrencies.
    pub scope: usize,
    /// First mode shown beside the baseline.
    pub column: usize,
    /// Plot that is shown where there is room for one.
    pub plot: Plot,
}

impl Compare {
    /// The entries that the filter leaves.
    pub fn visible(&self) -> Vec<&RunListItem> {
        let needle = self.filter.text().trim().to_lowercase();
        self.runs.iter().flatten().filter(|r| needle.is_empty() || r.holds(&needle)).collect()
    }

    /// The entry with the cursor.
    pub fn current(&self) -> Option<&RunListItem> {
        let visible = self.visible();
        visible.get(self.selected.min(visible.len().saturating_sub(1))).copied()
    }

    /// Takes the list in; the cursor stays on its run.
    pub fn listed(&mut self, mut runs: Vec<RunListItem>) {
        let on = self.current().map(|r| r.id.clone());
        runs.sort_by(|a, b| b.started_ms.cmp(&a.started_ms).then_with(|| b.id.cmp(&a.id)));
        self.runs = Some(runs);
        self.error = None;
        self.select(on.as_deref());
    }

    /// Puts the cursor on a run, or on the first.
    pub fn select(&mut self, id: Option<&str>) {
        self.selected = self.visible().iter().position(|r| Some(r.id.as_str()) == id).unwrap_or(0);
    }

    /// Adds a run that has just ended, and looks at it.
    pub fn add(&mut self, run: Box<Run>) {
        let item = RunListItem::of(&run);
        let mut runs = self.runs.take().unwrap_or_default();
        runs.retain(|r| r.id != item.id);
        let id = item.id.clone();
        runs.push(item);
        self.listed(runs);
        self.select(Some(&id));
        self.loading = None;
        self.show(run);
    }

    /// The run to read next: the one with the cursor, unless it is there already or another is on its way.
    pub fn wanted(&mut self) -> Option<String> {
        if self.loading.is_some() {
            return None;
        }
        let id = self.current()?.id.clone();
        if self.run.as_ref().is_some_and(|r| r.meta.id == id) {
            return None;
        }
        self.loading = Some(id.clone());
        Some(id)
    }

    /// A run was read, or could not be.
    pub fn loaded(&mut self, run: Result<Box<Run>, String>) {
        self.loading = None;
        match run {
            Ok(run) => self.show(run),
            Err(why) => self.error = Some(why),
        }
    }

    fn show(&mut self, run: Box<Run>) {
        self.error = None;
        self.column = 0;
        self.scope = 0;
        self.run = Some(run);
    }

    /// Suites and concurrencies that have results, `all` first.
    pub fn scopes(&self) -> Vec<(String, usize)> {
        let mut scopes: Vec<(String, usize)> = Vec::new();
        for s in self.run.iter().flat_map(|r| &r.summary) {
            let scope = (s.suite.clone(), s.concurrency);
            if !scopes.contains(&scope) {
                scopes.push(scope);
            }
        }
        scopes.sort_by_key(|(suite, concurrency)| (suite != "all", *concurrency));
        scopes
    }

    /// The scope that is shown.
    pub fn scope(&self) -> Option<(String, usize)> {
        let scopes = self.scopes();
        scopes.get(self.scope % scopes.len().max(1)).cloned()
    }

    /// First differences of all modes, with the mode.
    pub fn differences(&self) -> Vec<(&str, &Divergence)> {
        let all = self.run.iter().flat_map(|r| &r.compare).filter(|c| c.metric == "decode_tok_s");
        let mut found: Vec<(&str, &Divergence)> = Vec::new();
        for comparison in all {
            for d in &comparison.lossless.divergences {
                let same = |(mode, x): &(&str, &Divergence)| {
                    *mode == comparison.mode
                        && (&x.suite, &x.prompt_id, x.turn, x.repeat) == (&d.suite, &d.prompt_id, d.turn, d.repeat)
                };
                if !found.iter().any(same) {
                    found.push((&comparison.mode, d));
                }
            }
        }
        found
    }
}

/// The summary of a mode in a scope.
pub fn summary<'a>(all: &'a [ModeSummary], suite: &str, concurrency: usize, mode: &str) -> Option<&'a ModeSummary> {
    all.iter().find(|s| s.suite == suite && s.concurrency == concurrency && s.mode == mode)
}

/// The comparison of a mode in a scope, by decoding speed.
pub fn comparison<'a>(all: &'a [Comparison], suite: &str, concurrency: usize, mode: &str) -> Option<&'a Comparison> {
    let here = |c: &&Comparison| c.suite == suite && c.concurrency == concurrency && c.mode == mode;
    all.iter().filter(here).find(|c| c.metric == "decode_tok_s").or_else(|| all.iter().find(here))
}

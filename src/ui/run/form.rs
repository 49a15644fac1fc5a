//! The plan of a run as a form.

use crate::protocol::mode::{Limits, ModeSettings};
use crate::protocol::run::RunOptions;
use crate::ui::editor::Editor;

use super::modes;

/// Greatest values that can be typed; more is a slip of the finger.
const MOST: usize = 1_000_000;

/// One entry of a checklist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Suite, path or mode.
    pub word: String,
    /// Whether it takes part.
    pub on: bool,
    /// Typed by the user, who may remove it again.
    pub own: bool,
}

/// A row that the cursor can stand on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// A suite.
    Suite(usize),
    /// Takes the path of a suite.
    AddSuite,
    /// A mode.
    Mode(usize),
    /// Takes a mode in words.
    AddMode,
    /// Repeats.
    Repeats,
    /// Prompts a suite.
    Prompts,
    /// Limit on the answer.
    MaxTokens,
    /// Temperature.
    Temperature,
    /// Seed.
    Seed,
    /// Requests in flight.
    Concurrency,
    /// Seconds until a request counts as timed out.
    Timeout,
    /// Button.
    Start,
    /// Button.
    DryRun,
}

/// What a press of Enter on a row wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// Nothing more.
    None,
    /// Start the run.
    Start,
    /// Plan it only.
    DryRun,
}

/// The form.
#[derive(Debug, Clone)]
pub struct Form {
    /// Suites.
    pub suites: Vec<Check>,
    /// Modes; the first chosen one is the baseline.
    pub modes: Vec<Check>,
    /// Repeats of every prompt in every mode.
    pub repeats: usize,
    /// Prompts taken from each suite; `None`: all.
    pub prompts: Option<usize>,
    /// Limit on the answer.
    pub max_tokens: usize,
    /// Temperature.
    pub temperature: f32,
    /// Seed.
    pub seed: u64,
    /// Requests in flight, one experiment each.
    pub concurrency: Vec<usize>,
    /// Seconds.
    pub timeout_s: f64,
    /// Row with the cursor.
    pub cursor: usize,
    /// Text being typed into that row.
    pub edit: Option<Editor>,
    limits: Option<Limits>,
}

impl Default for Form {
    fn default() -> Self {
        let suite = |word: &str, on| Check { word: word.into(), on, own: false };
        Self {
            suites: vec![suite("story", true), suite("builtin", false)],
            modes: Vec::new(),
            repeats: 3,
            prompts: None,
            max_tokens: 128,
            temperature: 0.0,
            seed: 7,
            concurrency: vec![1],
            timeout_s: 120.0,
            cursor: 0,
            edit: None,
            limits: None,
        }
    }
}

impl Form {
    /// Offers what the server takes. Choices that were made for the same limits stay.
    pub fn offer(&mut self, limits: &Limits, now: ModeSettings) {
        if self.limits.as_ref() == Some(limits) {
            return;
        }
        let before = std::mem::take(&mut self.modes);
        let was = |word: &str| before.iter().find(|c| c.word == word).map(|c| c.on);
        self.modes = modes::offered(limits, now)
            .into_iter()
            .map(|(word, on)| Check { on: was(&word).unwrap_or(on), word, own: false })
            .collect();
        for own in before.into_iter().filter(|c| c.own) {
            if modes::check(&own.word, Some(limits)).is_ok() && !self.modes.iter().any(|m| m.word == own.word) {
                self.modes.push(own);
            }
        }
        self.limits = Some(limits.clone());
        self.cursor = self.cursor.min(self.fields().len() - 1);
    }

    /// All rows from top to bottom.
    pub fn fields(&self) -> Vec<Field> {
        let mut fields: Vec<Field> = (0..self.suites.len()).map(Field::Suite).collect();
        fields.push(Field::AddSuite);
        fields.extend((0..self.modes.len()).map(Field::Mode));
        fields.extend([
            Field::AddMode,
            Field::Repeats,
            Field::Prompts,
            Field::MaxTokens,
            Field::Temperature,
            Field::Seed,
            Field::Concurrency,
            Field::Timeout,
            Field::Start,
            Field::DryRun,
        ]);
        fields
    }

    /// The row with the cursor.
    pub fn field(&self) -> Field {
        let fields = self.fields();
        fields[self.cursor.min(fields.len() - 1)]
    }

    /// Moves the cursor; at the ends it stays.
    pub fn go(&mut self, by: isize) {
        self.cursor = self.cursor.saturating_add_signed(by).min(self.fields().len() - 1);
    }

    /// Takes the entry under the cursor in or out.
    pub fn toggle(&mut self) {
        match self.field() {
            Field::Suite(i) => self.suites[i].on ^= true,
            Field::Mode(i) => self.modes[i].on ^= true,
            _ => self.turn(true),
        }
    }

    /// Removes the entry under the cursor, if it is the user's own.
    pub fn remove(&mut self) -> bool {
        let (list, i) = match self.field() {
            Field::Suite(i) => (&mut self.suites, i),
            Field::Mode(i) => (&mut self.modes, i),
            _ => return false,
        };
        if list[i].own {
            list.remove(i);
            return true;
        }
        false
    }

    /// The next or previous choice of the row under the cursor.
    pub fn turn(&mut self, more: bool) {
        match self.field() {
            Field::Suite(i) => self.suites[i].on = more,
            Field::Mode(i) => self.modes[i].on = more,
            Field::Repeats => self.repeats = near(&[1, 2, 3, 5, 8, 10, 20], self.repeats, more),
            Field::Prompts => {
                // "All" stands above the greatest number.
                let now = self.prompts.unwrap_or(usize::MAX);
                let next = near(&[1, 2, 4, 8, 16, 32, 64, usize::MAX], now, more);
                self.prompts = (next != usize::MAX).then_some(next);
            }
            Field::MaxTokens => {
                self.max_tokens = near(&[16, 32, 64, 128, 256, 512, 1024, 2048], self.max_tokens, more);
            }
            Field::Temperature => {
                let tenths = (self.temperature * 10.0).round() as usize;
                self.temperature = near(&[0, 3, 7, 10], tenths, more) as f32 / 10.0;
            }
            Field::Seed => self.seed = if more { self.seed.saturating_add(1) } else { self.seed.saturating_sub(1) },
            Field::Concurrency => {
                let most = near(&[1, 2, 4, 8, 16], self.concurrency.last().copied().unwrap_or(1), more);
                self.concurrency = [1, 2, 4, 8, 16].into_iter().filter(|c| *c <= most).collect();
            }
            Field::Timeout => {
                self.timeout_s = near(&[10, 30, 60, 120, 300, 600], self.timeout_s.round() as usize, more) as f64;
            }
            Field::AddSuite | Field::AddMode | Field::Start | Field::DryRun => {}
        }
    }

    /// Enter on the row under the cursor: a checkbox turns, a value opens for typing, a button is pressed.
    pub fn enter(&mut self) -> Wish {
        match self.field() {
            Field::Suite(_) | Field::Mode(_) => self.toggle(),
            Field::Start => return Wish::Start,
            Field::DryRun => return Wish::DryRun,
            _ => {
                let mut editor = Editor::default();
                editor.insert(&self.value(self.field()));
                self.edit = Some(editor);
            }
        }
        Wish::None
    }

    /// The value of a row as it is typed.
    pub fn value(&self, field: Field) -> String {
        match field {
            Field::Repeats => self.repeats.to_string(),
            Field::Prompts => self.prompts.map_or_else(|| "all".into(), |n| n.to_string()),
            Field::MaxTokens => self.max_tokens.to_string(),
            Field::Temperature => format!("{:.1}", self.temperature),
            Field::Seed => self.seed.to_string(),
            Field::Concurrency => self.concurrency.iter().map(usize::to_string).collect::<Vec<_>>().join(" "),
            Field::Timeout => format!("{:.0}", self.timeout_s),
            _ => String::new(),
        }
    }

    /// Accepts what was typed. The error says what is wrong; the field stays open then.
    pub fn accept(&mut self) -> Result<(), String> {
        let Some(editor) = &self.edit else { return Ok(()) };
        let text = editor.text().trim().to_owned();
        self.take(&text)?;
        self.edit = None;
        Ok(())
    }

    fn take(&mut self, text: &str) -> Result<(), String> {
        let number = |least: usize| -> Result<usize, String> {
            let value: usize = text.parse().map_err(|_| format!("\"{text}\" is no whole number"))?;
            if (least..=MOST).contains(&value) {
                Ok(value)
            } else {
                Err(format!("{value} is out of range {least} to {MOST}"))
            }
        };
        match self.field() {
            Field::AddSuite if !text.is_empty() => {
                add(&mut self.suites, text.to_owned());
                self.go(1);
            }
            Field::AddMode if !text.is_empty() => {
                let word = modes::check(text, self.limits.as_ref())?;
                add(&mut self.modes, word);
                self.go(1);
            }
            Field::Repeats => self.repeats = number(1)?,
            Field::Prompts => self.prompts = if text == "all" || text.is_empty() { None } else { Some(number(1)?) },
            Field::MaxTokens => self.max_tokens = number(2)?,
            Field::Temperature => {
                let value: f32 = text.parse().map_err(|_| format!("\"{text}\" is no number"))?;
                if !(0.0..=2.0).contains(&value) {
                    return Err("the temperature goes from 0 to 2".into());
                }
                self.temperature = value;
            }
            Field::Seed => self.seed = text.parse().map_err(|_| format!("\"{text}\" is no whole number"))?,
            Field::Concurrency => {
                let words = text.split([' ', ',']).filter(|w| !w.is_empty());
                let ladder: Result<Vec<usize>, String> = words
                    .map(|w| w.parse().ok().filter(|n| (1..=256).contains(n)))
                    .map(|n| n.ok_or_else(|| "numbers from 1 to 256, for example: 1 2 4".to_owned()))
                    .collect();
                let mut ladder = ladder?;
                ladder.dedup();
                if ladder.is_empty() || ladder.len() > 16 {
                    return Err("between one and 16 steps, for example: 1 2 4".into());
                }
                self.concurrency = ladder;
            }
            Field::Timeout => self.timeout_s = number(1)? as f64,
            _ => {}
        }
        Ok(())
    }

    /// What to run; the error says what is missing.
    pub fn options(&self) -> Result<RunOptions, String> {
        let chosen = |list: &[Check]| list.iter().filter(|c| c.on).map(|c| c.word.clone()).collect::<Vec<_>>();
        let (suites, modes) = (chosen(&self.suites), chosen(&self.modes));
        if suites.is_empty() {
            return Err("choose a suite".into());
        }
        if modes.is_empty() {
            return Err("choose a mode".into());
        }
        Ok(RunOptions {
            suites,
            prompts: self.prompts,
            modes,
            repeats: self.repeats,
            concurrency: self.concurrency.clone(),
            temperature: self.temperature,
            max_tokens: self.max_tokens,
            seed: self.seed,
            timeout_s: self.timeout_s,
        })
    }
}

fn add(list: &mut Vec<Check>, word: String) {
    match list.iter_mut().find(|c| c.word == word) {
        Some(known) => known.on = true,
        None => list.push(Check { word, on: true, own: true }),
    }
}

/// The next choice above or below a value, which need not be one of them.
fn near(choices: &[usize], now: usize, more: bool) -> usize {
    let next = if more { choices.iter().find(|c| **c > now) } else { choices.iter().rev().find(|c| **c < now) };
    next.copied().unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::mode::Mode;

    fn at(field: Field) -> Form {
        let mut form = Form::default();
        form.cursor = form.fields().iter().position(|f| *f == field).expect("a row");
        form
    }

    fn typed(form: &mut Form, text: &str) -> Result<(), String> {
        form.enter();
        let mut editor = Editor::default();
        editor.insert(text);
        form.edit = Some(editor);
        form.accept()
    }

    #[test]
    fn values_are_typed_and_checked() {
        let mut form = at(Field::Concurrency);
        assert_eq!(typed(&mut form, "1, 2 4"), Ok(()));
        assert_eq!(form.concurrency, [1, 2, 4]);
        assert!(typed(&mut form, "0").is_err() && form.edit.is_some(), "stays open");
        let mut form = at(Field::Prompts);
        assert_eq!(typed(&mut form, "12"), Ok(()));
        assert_eq!(form.prompts, Some(12));
        assert_eq!(typed(&mut form, "all"), Ok(()));
        assert_eq!(form.prompts, None);
        let mut form = at(Field::Temperature);
        assert!(typed(&mut form, "NaN").is_err() && typed(&mut form, "3").is_err());
        assert_eq!(typed(&mut form, "0.7"), Ok(()));
        let mut form = at(Field::MaxTokens);
        assert!(typed(&mut form, "99999999999999999999").is_err() && typed(&mut form, "1").is_err());
    }

    #[test]
    fn suites_and_modes_of_ones_own() {
        let mut form = at(Field::AddSuite);
        assert_eq!(typed(&mut form, "/data/my.jsonl"), Ok(()));
        assert_eq!(form.suites[2], Check { word: "/data/my.jsonl".into(), on: true, own: true });
        assert_eq!(form.field(), Field::AddSuite, "ready for the next");
        form.go(-1);
        assert!(form.remove() && form.suites.len() == 2 && !form.remove());
        let mut form = at(Field::AddMode);
        assert!(typed(&mut form, "warp").is_err());
        assert_eq!(typed(&mut form, "off"), Ok(()));
        assert_eq!(form.options().map(|o| (o.suites, o.modes)), Ok((vec!["story".into()], vec!["off".into()])));
    }

    #[test]
    fn choices_survive_a_reconnect() {
        let mut limits = Limits {
            modes: Mode::ALL.to_vec(),
            block_size: [2, 8],
            tree_budget: [1, 64],
            context: 1,
            max_running: 1,
            max_waiting: 1,
        };
        let now = ModeSettings { mode: Mode::Off, block_size: 8, tree_budget: 16, chain_seed: true };
        let mut form = Form::default();
        form.offer(&limits, now);
        form.modes[1].on = false;
        add(&mut form.modes, "ddtree:24".into());
        add(&mut form.modes, "ddtree:60".into());
        form.offer(&limits, now);
        assert!(!form.modes[1].on);
        limits.tree_budget = [1, 32];
        form.offer(&limits, now);
        let words: Vec<_> = form.modes.iter().map(|c| c.word.as_str()).collect();
        assert_eq!(words, ["off", "dflash:8", "dflash:4", "ddtree:8", "ddtree:16", "ddtree:32", "ddtree:24"]);
        assert!(!form.modes[1].on);
    }

    #[test]
    fn turning_walks_choices_and_stops_at_the_ends() {
        let mut form = at(Field::Prompts);
        form.turn(true);
        assert_eq!(form.prompts, None);
        form.turn(false);
        assert_eq!(form.prompts, Some(64));
        let mut form = at(Field::Repeats);
        form.repeats = 4;
        form.turn(true);
        assert_eq!(form.repeats, 5);
        for _ in 0..20 {
            form.turn(false);
        }
        assert_eq!(form.repeats, 1);
        let mut form = at(Field::Concurrency);
        form.turn(true);
        form.turn(true);
        assert_eq!(form.concurrency, [1, 2, 4]);
    }
}

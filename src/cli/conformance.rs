//! `spectop conformance DIR`: replays a fixture folder and compares with what the reference did (docs/conformance.md).

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::engine::api::{ModelSource, Precision, Sampling};
use crate::engine::backend::Backend;
use crate::engine::chat_template::ChatTemplate;
use crate::engine::device::{self, OnDevice, Place};
use crate::engine::rounds::{Core, Outcome, Task, Work};
use crate::engine::sequence::Sequence;
use crate::engine::tokenizer::Tokenizer;
use crate::engine::weights::{Checkpoint, WeightsError, hub};
use crate::protocol::mode::{Mode, ModeSettings};

use super::out::{self, Reader};
use super::{EngineArgs, Exit, Failure};

/// Greatest absolute difference of a logit.
const LOGIT_TOLERANCE: f64 = 2e-3;
/// A different token is excused only where the reference's two best logits are closer than this.
const EXCUSE_MARGIN: f64 = 1e-3;
/// Prompt rows in one forward.
const CHUNK: usize = 128;

#[derive(Debug, Deserialize)]
struct Expected {
    #[serde(default)]
    block_size: Option<usize>,
    #[serde(default)]
    eos_token_id: Option<u32>,
    cases: Vec<Case>,
}

#[derive(Debug, Deserialize)]
struct Case {
    #[serde(default)]
    prompt: Option<String>,
    prompt_ids: Vec<u32>,
    #[serde(default)]
    prompt_logits_last: Option<Vec<f64>>,
    #[serde(default)]
    first_draft_logits: Option<Vec<Vec<f64>>>,
    #[serde(default)]
    max_new_tokens: Option<usize>,
    greedy_ids: Vec<u32>,
    #[serde(default)]
    greedy_top2_margin: Option<Vec<f64>>,
    #[serde(default)]
    dflash: Option<Recorded>,
    #[serde(default)]
    ddtree: std::collections::BTreeMap<String, Recorded>,
}

#[derive(Debug, Deserialize)]
struct Recorded {
    output_ids: Vec<u32>,
    acceptance_lengths: Vec<usize>,
    #[serde(default)]
    first_rounds: Vec<RecordedRound>,
}

#[derive(Debug, Deserialize)]
struct RecordedRound {
    tokens: Vec<u32>,
    depths: Vec<usize>,
    parents: Vec<i64>,
    accepted: Vec<usize>,
}

/// One comparison.
#[derive(Debug, Clone, Serialize)]
pub struct Check {
    /// `case 0: ddtree 16 trees`.
    pub name: String,
    /// Whether it holds.
    pub passed: bool,
    /// Largest deviation: of a logit, or the margin at an excused difference.
    pub deviation: Option<f64>,
    /// What differs, or what was excused.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// All comparisons of a folder.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Folder.
    pub fixture: String,
    /// Target.
    pub target: String,
    /// Drafter.
    pub draft: String,
    /// Kernels and weight formats.
    pub kernels: String,
    /// Checks in order.
    pub checks: Vec<Check>,
    /// Checks that hold.
    pub passed: usize,
    /// Checks that do not.
    pub failed: usize,
}

/// Runs the subcommand.
pub fn run(args: &EngineArgs, dir: &Path, json: bool) -> Result<(), Failure> {
    // The checks go on when nobody reads any more: the exit code says how they ended.
    let mut written = Ok(Reader::There);
    let report = check_folder(args, dir, |check| {
        if !json && matches!(written, Ok(Reader::There)) {
            written = out::print_line(&line_of(check));
        }
    })?;
    let last = if json {
        serde_json::to_string_pretty(&report).map_err(|e| Failure::new(Exit::Failed, e.to_string()))?
    } else {
        let all = report.passed + report.failed;
        format!("{} of {all} checks hold ({}, {})", report.passed, report.target, report.kernels)
    };
    if written? == Reader::There {
        out::print_line(&last)?;
    }
    if report.failed > 0 {
        return Err(Failure::new(Exit::Gate, format!("{} conformance checks failed", report.failed)));
    }
    Ok(())
}

fn line_of(check: &Check) -> String {
    let deviation = check.deviation.map_or(String::new(), |d| format!("  max deviation {d:.2e}"));
    let note = if check.note.is_empty() { String::new() } else { format!("  {}", check.note) };
    format!("{}  {}{deviation}{note}", if check.passed { "pass" } else { "FAIL" }, check.name)
}

/// Runs every check of a folder.
pub fn check_folder(args: &EngineArgs, dir: &Path, seen: impl FnMut(&Check)) -> Result<Report, Failure> {
    let file = dir.join("expected.json");
    let usage = |message: String| Failure::new(Exit::Usage, message);
    let text = std::fs::read_to_string(&file).map_err(|e| {
        usage(format!("cannot read {}: {e}; name a fixture folder (see docs/conformance.md)", file.display()))
    })?;
    let expected: Expected = serde_json::from_str(&text)
        .map_err(|e| usage(format!("{} is not a fixture (see docs/conformance.md): {e}", file.display())))?;
    let wrong = |e: WeightsError| Failure::new(Exit::Usage, e.to_string());
    let (target, draft) = models(args, dir)?;
    let target = Checkpoint::open(&target).map_err(wrong)?;
    let draft = Checkpoint::open(&draft).map_err(wrong)?;
    let work = Replay { dir, expected: &expected, target: &target, draft: &draft, precision: args.dtype.into(), seen };
    device::on(Place { device: args.device, threads: args.threads, tensor_parallel: 1 }, work, |notice| {
        out::tell(&notice);
    })
    .map_err(|e| usage(e.to_string()))?
}

/// A folder's checks, on whatever device.
struct Replay<'a, S> {
    dir: &'a Path,
    expected: &'a Expected,
    target: &'a Checkpoint,
    draft: &'a Checkpoint,
    precision: Precision,
    seen: S,
}

impl<S: FnMut(&Check)> OnDevice for Replay<'_, S> {
    type Out = Result<Report, Failure>;

    fn run<B: Backend>(self, backend: B) -> Result<Report, Failure> {
        replay(backend, self)
    }
}

fn replay<B: Backend>(backend: B, work: Replay<'_, impl FnMut(&Check)>) -> Result<Report, Failure> {
    let Replay { dir, expected, target, draft, precision, mut seen } = work;
    let wrong = |e: WeightsError| Failure::new(Exit::Usage, e.to_string());
    let core = Core::load(backend, target, Some(draft), precision, |_| {}).map_err(wrong)?;
    let tokenizer = Tokenizer::read(target, core.target.config.vocab).map_err(wrong)?;
    let template = ChatTemplate::read(target).map_err(wrong)?;
    let info = core.backend.info();
    let mut report = Report {
        fixture: dir.display().to_string(),
        target: core.target.info.name.clone(),
        draft: core.drafter.as_ref().map_or(String::new(), |d| d.info.name.clone()),
        kernels: format!("{}, {}, {} threads", core.target.info.dtype, info.kernels, info.threads),
        checks: Vec::new(),
        passed: 0,
        failed: 0,
    };
    let stops = expected.eos_token_id.map_or_else(|| core.target.config.stop_tokens.clone(), |id| vec![id]);
    let block = core.drafter.as_ref().map_or(0, |d| d.config.block_size);
    let mut player = Player { core, stops, block_size: expected.block_size.unwrap_or(block) };
    for (number, case) in expected.cases.iter().enumerate() {
        for check in player.case(number, case, &tokenizer, template.as_ref()) {
            seen(&check);
            if check.passed {
                report.passed += 1;
            } else {
                report.failed += 1;
            }
            report.checks.push(check);
        }
    }
    Ok(report)
}

fn models(args: &EngineArgs, dir: &Path) -> Result<(ModelSource, ModelSource), Failure> {
    let in_folder = |name: &str| {
        let path = dir.join(name);
        path.is_dir().then_some(path)
    };
    let target = args.target.clone().or_else(|| in_folder("target"));
    let draft = args.draft.clone().or_else(|| in_folder("drafter"));
    if let (Some(target), Some(draft)) = (&target, &draft) {
        return Ok((ModelSource::Path(target.clone()), ModelSource::Path(draft.clone())));
    }
    // A fixture without models of its own is one of the default pair.
    let resolve =
        hub::resolve(hub::Ask { target, draft, tiny: args.tiny, offline: args.offline, ..hub::Ask::default() });
    let pair = resolve(&mut |_| {}).map_err(|e| Failure::new(Exit::Usage, e.to_string()))?;
    if let (Some(notice), None) = (&pair.notice, &args.target) {
        return Err(Failure::new(Exit::Usage, notice.clone()));
    }
    let draft = pair.draft.ok_or_else(|| Failure::new(Exit::Usage, "this fixture needs a drafter: give --draft"))?;
    Ok((pair.target, draft))
}

struct Player<B: Backend> {
    core: Core<B>,
    stops: Vec<u32>,
    block_size: usize,
}

impl<B: Backend> Player<B> {
    fn settings(&self, mode: Mode, tree_budget: usize) -> ModeSettings {
        ModeSettings { mode, block_size: self.block_size, tree_budget, chain_seed: false }
    }

    /// Prefills and returns the sequence with its first token.
    fn begin(&mut self, case: &Case) -> (Sequence<B>, Outcome) {
        let room = case.prompt_ids.len() + limit(case) + 1024;
        let mut sequence = self.core.sequence(case.prompt_ids.clone(), room, self.stops.clone(), Sampling::default());
        loop {
            let task = Task::Prefill(sequence.unfilled().min(CHUNK));
            let outcome = self.step(&mut sequence, task);
            if outcome.walk.is_some() {
                return (sequence, outcome);
            }
        }
    }

    fn step(&mut self, sequence: &mut Sequence<B>, task: Task) -> Outcome {
        let (mut outcomes, _) = self.core.round(&mut [Work { sequence, task }]);
        outcomes.remove(0)
    }

    /// Decodes to the end. Returns ids, rounds, and the margin before each id.
    ///
    /// The reference drafts whole blocks to the end, runs rounds while the seed's position is inside the limit, and cuts
    /// the surplus off its output afterwards; its last acceptance lengths are therefore those of uncut rounds.
    fn decode(&mut self, case: &Case, settings: ModeSettings) -> (Vec<u32>, Vec<Outcome>, Vec<f64>) {
        let (mut sequence, first) = self.begin(case);
        let mut margins: Vec<f64> = first.best.iter().map(|b| f64::from(b.value - b.second)).collect();
        let mut rounds = Vec::new();
        let stopped = |s: &Sequence<B>, stops: &[u32]| s.tokens.last().is_some_and(|t| stops.contains(t));
        while sequence.generated() <= limit(case) && !stopped(&sequence, &self.stops) {
            let outcome = self.step(&mut sequence, Task::Decode(settings));
            if let Some(walk) = &outcome.walk {
                margins.extend(walk.path.iter().map(|&n| f64::from(outcome.best[n].value - outcome.best[n].second)));
            }
            rounds.push(outcome);
        }
        let mut ids = sequence.tokens[sequence.prompt..].to_vec();
        ids.truncate(limit(case));
        (ids, rounds, margins)
    }

    fn case(
        &mut self,
        number: usize,
        case: &Case,
        tokenizer: &Tokenizer,
        template: Option<&ChatTemplate>,
    ) -> Vec<Check> {
        let mut checks = Vec::new();
        let name = |what: &str| format!("case {number}: {what}");
        if let Some(prompt) = &case.prompt {
            let ids = match template {
                Some(template) => template
                    .render(&[serde_json::json!({"role": "user", "content": prompt})])
                    .map(|text| tokenizer.encode(&text, true)),
                None => Ok(tokenizer.encode(prompt, false)),
            };
            checks.push(match ids {
                Ok(ids) => same_ids(&name("prompt ids"), &ids, &case.prompt_ids, None),
                Err(problem) => Check { name: name("prompt ids"), passed: false, deviation: None, note: problem },
            });
        }
        if let Some(want) = &case.prompt_logits_last {
            self.begin(case);
            let got = self.core.backend.read(&self.core.target.logits, 0..1).to_vec();
            checks.push(close(&name("prompt logits"), &got, want));
        }
        if let Some(want) = &case.first_draft_logits {
            let (mut sequence, _) = self.begin(case);
            self.step(&mut sequence, Task::Decode(self.settings(Mode::Dflash, 0)));
            let mut got = Vec::new();
            if let Some(drafter) = &self.core.drafter {
                got.extend_from_slice(&self.core.backend.read(&drafter.logits, 0..want.len()));
            }
            let want: Vec<f64> = want.iter().flatten().copied().collect();
            checks.push(close(&name("first draft logits"), &got, &want));
        }
        let (ids, _, margins) = self.decode(case, self.settings(Mode::Off, 0));
        let recorded = case.greedy_top2_margin.as_deref();
        checks.push(same_ids(&name("greedy ids"), &ids, &case.greedy_ids, recorded.or(Some(&margins))));
        if let Some(want) = &case.dflash {
            self.mode(&mut checks, &name("dflash"), case, want, Mode::Dflash, 0);
        }
        let mut budgets: Vec<(usize, &Recorded)> =
            case.ddtree.iter().filter_map(|(budget, want)| Some((budget.parse().ok()?, want))).collect();
        budgets.sort_by_key(|b| b.0);
        for (budget, want) in budgets {
            self.mode(&mut checks, &name(&format!("ddtree {budget}")), case, want, Mode::Ddtree, budget);
        }
        checks
    }

    /// Rounds before the first one whose draft block reaches past `room` generated tokens. The tree reference works in
    /// a buffer of that length (limit + budget + 1) and drafts from a shortened block at its end, so its last lengths
    /// are its own.
    fn whole_blocks(&self, lengths: &[usize], room: usize) -> usize {
        let mut seed = 0;
        lengths
            .iter()
            .take_while(|&&length| {
                let whole = seed + self.block_size <= room;
                seed += length;
                whole
            })
            .count()
    }

    fn mode(&mut self, checks: &mut Vec<Check>, name: &str, case: &Case, want: &Recorded, mode: Mode, budget: usize) {
        let (ids, rounds, margins) = self.decode(case, self.settings(mode, budget));
        let margins = case.greedy_top2_margin.as_deref().unwrap_or(&margins);
        checks.push(same_ids(&format!("{name} output ids"), &ids, &want.output_ids, Some(margins)));
        let mut lengths: Vec<usize> =
            rounds.iter().filter_map(|r| r.walk.as_ref()).map(|walk| walk.path.len()).collect();
        let mut recorded = want.acceptance_lengths.clone();
        if mode == Mode::Ddtree {
            let whole = self.whole_blocks(&recorded, limit(case) + budget + 1);
            lengths.truncate(whole);
            recorded.truncate(whole);
        }
        let at = lengths.iter().zip(&recorded).position(|(a, b)| a != b);
        let same = lengths == recorded;
        let mean = |l: &[usize]| l.iter().sum::<usize>() as f64 / l.len().max(1) as f64;
        let note = if same {
            String::new()
        } else {
            let at = at.unwrap_or(lengths.len().min(recorded.len()));
            format!(
                "round {at}: {:?} instead of {:?}; mean {:.3} against {:.3}",
                lengths.get(at),
                recorded.get(at),
                mean(&lengths),
                mean(&recorded)
            )
        };
        checks.push(Check { name: format!("{name} acceptance lengths"), passed: same, deviation: None, note });
        if !want.first_rounds.is_empty() {
            checks.push(same_trees(&format!("{name} trees"), &rounds, &want.first_rounds));
        }
    }
}

fn limit(case: &Case) -> usize {
    case.max_new_tokens.unwrap_or(case.greedy_ids.len())
}

fn close(name: &str, got: &[f32], want: &[f64]) -> Check {
    let worst = got.iter().zip(want).map(|(g, w)| (f64::from(*g) - w).abs()).fold(0.0, f64::max);
    let mut check =
        Check { name: name.into(), passed: worst <= LOGIT_TOLERANCE, deviation: Some(worst), note: String::new() };
    if got.len() != want.len() {
        check.passed = false;
        check.note = format!("{} logits instead of {}", got.len(), want.len());
    }
    check
}

/// Ids must be equal; a difference passes only at a near tie, and is then reported.
fn same_ids(name: &str, got: &[u32], want: &[u32], margins: Option<&[f64]>) -> Check {
    let mut check = Check { name: name.into(), passed: true, deviation: None, note: String::new() };
    if got == want {
        return check;
    }
    let at = got.iter().zip(want).position(|(a, b)| a != b).unwrap_or(got.len().min(want.len()));
    let margin = margins.and_then(|m| m.get(at)).copied();
    check.deviation = margin;
    check.passed = margin.is_some_and(|m| m < EXCUSE_MARGIN);
    check.note = format!(
        "position {at}: {:?} instead of {:?}, top-2 margin {}{}",
        got.get(at),
        want.get(at),
        margin.map_or("unknown".into(), |m| format!("{m:.4}")),
        if check.passed { " (a near tie: excused)" } else { "" }
    );
    check
}

fn same_trees(name: &str, rounds: &[Outcome], want: &[RecordedRound]) -> Check {
    let mut check = Check { name: name.into(), passed: true, deviation: None, note: String::new() };
    for (number, want) in want.iter().enumerate() {
        let Some(round) = rounds.get(number) else {
            check.passed = false;
            check.note = format!("round {number} is missing");
            return check;
        };
        let tree = &round.proposal.tree;
        // The record lists the root as first parent (−1).
        let parents: Vec<usize> = want.parents.iter().skip(1).map(|&p| p.max(0) as usize).collect();
        let accepted = round.walk.as_ref().map(|w| w.path.clone()).unwrap_or_default();
        let differs = [
            ("tokens", tree.tokens != want.tokens),
            ("depths", tree.depths != want.depths),
            ("parents", tree.parents != parents),
            ("accepted", accepted != want.accepted),
        ];
        if let Some((what, _)) = differs.iter().find(|d| d.1) {
            let at = tree.tokens.iter().zip(&want.tokens).position(|(a, b)| a != b);
            check.passed = false;
            check.note = format!("round {number}: {what} differ (first token at node {at:?})");
            return check;
        }
    }
    check
}

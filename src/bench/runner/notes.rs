//! What a reader of the run must know, beside what the guard saw.

use std::collections::HashSet;

use super::endpoint::Endpoint;
use crate::bench::guard::{self, Guard};
use crate::bench::plan::{Plan, Planned, PrefixCache};
use crate::protocol::mode::Mode;
use crate::protocol::run::{CountKind, Purpose, RequestRecord, RequestStatus};

/// Warnings of single requests that are kept; more would hide the others.
const MOST: usize = 20;

/// Warnings of a run.
#[derive(Debug, Default)]
pub(super) struct Notes {
    warnings: Vec<String>,
    suppressed: usize,
}

impl Notes {
    /// What is known before anything is sent.
    pub fn new(plan: &Plan, endpoints: &[Endpoint], by_mode: &[usize], resumed: bool) -> Self {
        let mut warnings = Vec::new();
        if resumed {
            warnings.push("this run was broken off and went on later: times before and after may differ".into());
        }
        for notice in endpoints.iter().filter_map(Endpoint::notice) {
            warnings.push(format!("the server says: {notice}"));
        }
        let models: HashSet<Option<String>> = by_mode.iter().map(|at| endpoints[*at].model()).collect();
        if models.len() > 1 {
            warnings.push("the modes' servers do not name the same model".into());
        }
        match PrefixCache::parse(&plan.run.prefix_cache) {
            Some(PrefixCache::AsIs) => warnings.push(
                "the server may have a prefix cache: repeats of a prompt may get their first token too soon (--prefix-cache nonce keeps earlier runs out)".into(),
            ),
            Some(PrefixCache::Nonce) => warnings.push(
                "each prompt begins with a random line of this run: its outputs cannot be compared with other runs".into(),
            ),
            _ => {}
        }
        let most = by_mode.iter().filter_map(|at| endpoints[*at].max_running()).min();
        if let Some(most) = most.filter(|most| plan.run.concurrency.iter().any(|asked| asked > most)) {
            warnings.push(format!("the server decodes at most {most} requests at once: more wait in its queue"));
        }
        Self { warnings, suppressed: 0 }
    }

    /// Something about a single request or mode.
    pub fn add(&mut self, warning: String) {
        if self.warnings.len() < MOST { self.warnings.push(warning) } else { self.suppressed += 1 }
    }

    /// What the server says about a request must fit what was asked for and what was seen.
    pub fn check(&mut self, plan: &Plan, planned: &Planned, record: &RequestRecord) {
        if let Some(error) = &record.error {
            self.add(format!("{}: {error}", plan.words(planned)));
        }
        let Some(server) = &record.server else { return };
        let asked = plan.run.modes[planned.mode].request.mode;
        // `auto` is a choice among the others, round by round.
        if let Some(asked) = asked.filter(|asked| *asked != Mode::Auto)
            && let Some((other, _)) = server.modes.iter().find(|(mode, _)| *mode != asked)
        {
            self.add(format!("{}: the server decoded in mode {other}", plan.words(planned)));
        }
        if record.count == CountKind::Exact && server.tokens != record.tokens {
            let (seen, told) = (record.tokens, server.tokens);
            self.add(format!("{}: {seen} tokens came, the server counts {told}", plan.words(planned)));
        }
    }

    /// Everything, the machine's first.
    pub fn all(&self, guard: &Guard, records: &[RequestRecord]) -> Vec<String> {
        let mut all = guard.warnings();
        all.extend(guard::drift_warning(records));
        all.extend(self.warnings.iter().cloned());
        if self.suppressed > 0 {
            all.push(format!("{} more warnings about single requests", self.suppressed));
        }
        let well = |record: &&RequestRecord| {
            record.purpose == Purpose::Measure
                && matches!(record.status, RequestStatus::Finished | RequestStatus::CutShort)
        };
        if records.iter().filter(well).any(|record| record.count == CountKind::Estimated) {
            all.push("the server tells no token counts: tokens are estimated from chunks".into());
        }
        all
    }
}

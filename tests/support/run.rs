//! A made-up run that looks like a real one: speeds scatter by prompt and repeat, drafts are accepted by chance, one
//! answer fails, one parts from the baseline, some are cut short.

#![allow(dead_code)] // every test file uses a part of this

use spectop::bench::stats::Rng;
use spectop::bench::summary::{compare, summarise};
use spectop::protocol::event::RequestMetrics;
use spectop::protocol::mode::{Mode, ModeRequest, ModeSettings};
use spectop::protocol::run::{
    ChunkRecord, CountKind, Environment, ModeSpec, Purpose, RUN_SCHEMA, RequestRecord, RequestStatus, Run, RunMeta,
    RunPlan, RunStatus, SuiteInfo,
};
use spectop::protocol::sensor::{GpuReading, HostReading, Sensors};
use spectop::protocol::state::{DeviceInfo, ModelInfo, StageTimes};

/// A standard normal number (Box and Muller).
pub fn normal(rng: &mut Rng) -> f64 {
    let (u, v) = (1.0 - rng.unit(), rng.unit());
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

fn settings(mode: Mode, block_size: usize, tree_budget: usize) -> ModeSettings {
    ModeSettings { mode, block_size, tree_budget, chain_seed: true }
}

fn spec(settings: ModeSettings) -> ModeSpec {
    let request = ModeRequest {
        mode: Some(settings.mode),
        block_size: (settings.mode == Mode::Dflash).then_some(settings.block_size),
        tree_budget: (settings.mode == Mode::Ddtree).then_some(settings.tree_budget),
        chain_seed: None,
    };
    ModeSpec { label: settings.label(), request, url: None }
}

/// What is simulated.
pub struct Simulation {
    /// Modes, the first is the baseline.
    pub modes: Vec<ModeSettings>,
    /// Suites and their prompts.
    pub suites: Vec<(&'static str, usize)>,
    /// Repeats.
    pub repeats: usize,
    /// Concurrency levels.
    pub concurrency: Vec<usize>,
}

impl Default for Simulation {
    fn default() -> Self {
        let tree = |budget| settings(Mode::Ddtree, 16, budget);
        Self {
            modes: vec![
                settings(Mode::Off, 16, 16),
                settings(Mode::Dflash, 16, 16),
                tree(16),
                tree(32),
                tree(64),
                tree(128),
                tree(256),
            ],
            suites: vec![("story", 3), ("math", 10), ("code", 12)],
            repeats: 3,
            concurrency: vec![1],
        }
    }
}

struct Clock {
    now: f64,
    seq: usize,
    rng: Rng,
}

impl Simulation {
    /// The run, with its summary and comparison.
    pub fn run(&self) -> Run {
        let mut clock = Clock { now: 0.0, seq: 0, rng: Rng::new(20) };
        let mut requests = Vec::new();
        let level = self.concurrency[0];
        for mode in &self.modes {
            for repeat in 0..3 {
                requests.push(self.request(&mut clock, mode, ("story", 0), (repeat, 0), Purpose::Warmup, level));
            }
        }
        for repeat in 0..2 {
            requests.push(self.request(&mut clock, &self.modes[0], ("story", 0), (repeat, 0), Purpose::Bracket, level));
        }
        for level in &self.concurrency {
            for (suite, prompts) in &self.suites {
                for prompt in 0..*prompts {
                    for repeat in 0..self.repeats {
                        let mut order: Vec<usize> = (0..self.modes.len()).collect();
                        for i in (1..order.len()).rev() {
                            order.swap(i, clock.rng.below(i + 1));
                        }
                        for (place, mode) in order.into_iter().enumerate() {
                            let mode = &self.modes[mode];
                            let at = (repeat, place);
                            requests.push(self.request(
                                &mut clock,
                                mode,
                                (suite, prompt),
                                at,
                                Purpose::Measure,
                                *level,
                            ));
                        }
                    }
                }
            }
        }
        self.spoil(&mut requests);
        for repeat in 2..4 {
            requests.push(self.request(&mut clock, &self.modes[0], ("story", 0), (repeat, 0), Purpose::Bracket, level));
        }
        let plan = self.plan();
        let (summary, compare) = (summarise(&requests), compare(&plan, &requests));
        Run {
            schema: RUN_SCHEMA.into(),
            meta: RunMeta {
                id: "2026-12-01-1120-k3x9".into(),
                title: "DDTree budgets <16 … 256> & DFlash".into(),
                started_ms: 1_796_124_000_000,
                finished_ms: Some(1_796_124_000_000 + clock.now as u64),
                status: RunStatus::Complete,
                made_by: "spectop 0.1.0".into(),
            },
            plan,
            env: environment(),
            requests,
            summary,
            compare,
            warnings: vec![
                "GPU 0 was held down by its power cap during 4 of 590 requests".into(),
                "another process used the GPU: python3 (pid 4711)".into(),
            ],
        }
    }

    /// The plan.
    pub fn plan(&self) -> RunPlan {
        RunPlan {
            suites: self
                .suites
                .iter()
                .map(|(name, prompts)| SuiteInfo {
                    name: (*name).into(),
                    prompts: *prompts,
                    source: if *name == "story" { "built in".into() } else { format!("{name}.jsonl") },
                })
                .collect(),
            modes: self.modes.iter().copied().map(spec).collect(),
            repeats: self.repeats,
            concurrency: self.concurrency.clone(),
            temperature: 0.0,
            max_tokens: 256,
            seed: 7,
            prefix_cache: "none".into(),
            hash: "9c1d3b6e".repeat(8),
        }
    }

    fn request(
        &self,
        clock: &mut Clock,
        mode: &ModeSettings,
        (suite, prompt): (&str, usize),
        (repeat, order): (usize, usize),
        purpose: Purpose,
        concurrency: usize,
    ) -> RequestRecord {
        // What belongs to the prompt must be the same in all modes and repeats.
        let mut own = Rng::new(suite.len() as u64 * 1_000 + prompt as u64);
        own.bits();
        let wanted = 40 + own.below(260);
        let tokens = wanted.min(256);
        let chance = (0.62 + 0.12 * normal(&mut own)).clamp(0.3, 0.85);
        let rng = &mut clock.rng;
        let load = 1.0 + 0.15 * (concurrency as f64 - 1.0);
        let machine = (0.02 * normal(rng)).exp() * load;
        let (accept, draft, build, verify) = match mode.mode {
            Mode::Off => (0.0, 0.0, 0.0, 9.4),
            Mode::Dflash | Mode::Shadow | Mode::Auto => (chance, 2.1, 0.05, 11.2),
            Mode::Ddtree => {
                let budget = mode.tree_budget as f64;
                (
                    1.0 - (1.0 - chance) * 0.72_f64.powf((budget / 8.0).log2()),
                    2.1,
                    0.002 * budget,
                    11.2 + 0.045 * budget,
                )
            }
        };
        let ttft = (38.0 + 2.0 * normal(rng).abs()) * load;
        let mut chunks = vec![ChunkRecord { at_ms: ttft, tokens: 1 }];
        let mut hist = vec![0_u64; 1];
        let mut stages = StageTimes::default();
        let (mut out, mut at, mut drafted, mut accepted, mut committed) = (1, ttft, 0, 0, 0);
        while out < tokens {
            let mut taken = 0;
            while taken < 15 && rng.unit() < accept {
                taken += 1;
            }
            if hist.len() <= taken {
                hist.resize(taken + 1, 0);
            }
            hist[taken] += 1;
            let noise = machine * (0.03 * normal(rng)).exp();
            at += (draft + build + verify + 0.3) * noise;
            stages.draft += draft * noise;
            stages.build += build * noise;
            stages.verify += verify * noise;
            stages.commit += 0.3 * noise;
            drafted += match mode.mode {
                Mode::Off => 0,
                Mode::Dflash | Mode::Shadow | Mode::Auto => mode.block_size as u64 - 1,
                Mode::Ddtree => mode.tree_budget as u64,
            };
            accepted += taken as u64;
            let new = (taken + 1).min(tokens - out);
            committed += new;
            out += new;
            chunks.push(ChunkRecord { at_ms: at, tokens: new });
        }
        let rounds: u64 = hist.iter().sum();
        let e2e = at + 0.4;
        let decode = (tokens > 1).then(|| (tokens - 1) as f64 / (at - ttft) * 1_000.0);
        let cut = wanted > tokens;
        let ids: Vec<u32> = (0..tokens).map(|i| (own.clone().bits() % 40_000) as u32 + i as u32 * 7 % 911).collect();
        let text = (0..tokens)
            .map(|i| ["if a < b", " & \"then\"", " the", " sum", " größer", "\n"][i * 5 % 6])
            .collect::<String>();
        let record = RequestRecord {
            seq: clock.seq,
            purpose,
            suite: suite.into(),
            prompt_id: if suite == "story" {
                ["code", "explanation", "one word"][prompt % 3].into()
            } else {
                format!("{suite}-{:02}", prompt + 1)
            },
            turn: 0,
            mode: mode.label(),
            repeat,
            order,
            concurrency,
            status: if cut { RequestStatus::CutShort } else { RequestStatus::Finished },
            error: None,
            retries: 0,
            sent_ms: clock.now,
            ttft_ms: Some(ttft),
            ttfat_ms: Some(ttft),
            e2e_ms: e2e,
            tokens,
            prompt_tokens: Some(30 + prompt),
            count: CountKind::Exact,
            decode_tok_s: decode,
            e2e_tok_s: Some(tokens as f64 / e2e * 1_000.0),
            tpot_ms: decode.map(|rate| 1_000.0 / rate),
            chunks,
            finish_reason: Some(if cut { "length" } else { "stop" }.into()),
            token_ids: Some(ids),
            margins: Some(vec![0.5; tokens]),
            text: Some(text),
            output_hash: format!("{:016x}", suite.len() * 31 + prompt),
            server: Some(RequestMetrics {
                mode: *mode,
                modes: vec![(mode.mode, rounds)],
                prompt_tokens: 30 + prompt,
                tokens,
                rounds,
                drafted,
                accepted,
                tau: (rounds > 0).then(|| committed as f64 / rounds as f64),
                accepted_hist: hist,
                queue_ms: 0.2,
                ttft_ms: Some(ttft - 1.0),
                e2e_ms: e2e - 1.0,
                decode_tok_s: decode.map(|rate| rate * 1.004),
                prefill_tok_s: Some(830.0),
                stages,
            }),
            energy_j: Some(e2e * 0.31),
        };
        clock.seq += 1;
        clock.now += e2e / concurrency as f64 + 3.0;
        record
    }

    /// What goes wrong in a real run.
    fn spoil(&self, requests: &mut [RequestRecord]) {
        let label = |i: usize| self.modes.get(i).map_or_else(String::new, ModeSettings::label);
        if let Some(record) = find(requests, &label(4), 1) {
            record.status = RequestStatus::Failed;
            record.error = Some("502 Bad Gateway: <html>upstream</html>".into());
            record.retries = 3;
            (record.tokens, record.chunks) = (0, Vec::new());
            (record.ttft_ms, record.ttfat_ms, record.decode_tok_s, record.e2e_tok_s) = (None, None, None, None);
            (record.tpot_ms, record.token_ids, record.margins, record.server) = (None, None, None, None);
            (record.text, record.finish_reason, record.energy_j) = (None, None, None);
        }
        if let Some(record) = find(requests, &label(5), 2) {
            if let Some(ids) = &mut record.token_ids {
                ids[31] += 1;
            }
            if let Some(text) = &mut record.text {
                let at = text.char_indices().nth(130).map_or(0, |(at, _)| at);
                text.insert_str(at, " ≤ <script>alert(1)</script>");
            }
        }
        if let Some(record) = find(requests, &label(1), 0) {
            record.status = RequestStatus::TimedOut;
            record.error = Some("no answer within 60 s".into());
        }
    }
}

/// A measured answer of some length, not in the story suite.
fn find<'a>(requests: &'a mut [RequestRecord], mode: &str, repeat: usize) -> Option<&'a mut RequestRecord> {
    requests.iter_mut().find(|r| {
        r.purpose == Purpose::Measure && r.suite != "story" && r.tokens > 35 && r.mode == mode && r.repeat == repeat
    })
}

fn environment() -> Environment {
    let sensors = |temp, clock| Sensors {
        gpus: vec![GpuReading {
            index: 0,
            name: "NVIDIA H200".into(),
            uuid: Some("GPU-0f3a".into()),
            power_w: Some(412.0),
            power_limit_w: Some(700.0),
            temp_c: Some(temp),
            sm_mhz: Some(clock),
            throttle: vec!["sw power cap".into()],
            ..GpuReading::default()
        }],
        host: HostReading { cpu_name: "AMD EPYC".into(), cores: 16, cpu_percent: Some(12.0), ..HostReading::default() },
    };
    let model = |name: &str, architecture: &str, parameters| ModelInfo {
        name: name.into(),
        architecture: architecture.into(),
        source: "hub".into(),
        parameters,
        bytes: parameters * 2,
        dtype: "BF16".into(),
        layers: 36,
        vocab: 151_936,
    };
    Environment {
        server: "spectop".into(),
        server_version: Some("0.1.0".into()),
        model: Some("Qwen3-8B".into()),
        target: Some(model("Qwen3-8B", "qwen3", 8_190_735_360)),
        draft: Some(model("Qwen3-8B-DFlash-b16", "dflash", 1_048_000_000)),
        device: Some(DeviceInfo {
            kind: "cuda".into(),
            name: "NVIDIA H200".into(),
            threads: 16,
            kernels: "sm90".into(),
        }),
        client: "Linux x86_64, AMD EPYC".into(),
        sensors_before: Some(sensors(41.0, 1_980)),
        sensors_after: Some(sensors(63.0, 1_755)),
    }
}

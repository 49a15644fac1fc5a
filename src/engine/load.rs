//! From a choice of files to a running scheduler, on the engine's own thread.

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use crate::protocol::event::Level;
use crate::protocol::mode::{Limits, Mode, ModeSettings};
use crate::protocol::state::{DeviceInfo, Readiness};

use super::api::{Delta, EngineConfig, EngineError, Resolve};
use super::backend::Backend;
use super::chat_template::ChatTemplate;
use super::device::{self, OnDevice};
use super::model::config::TargetConfig;
use super::plan;
use super::rounds::Core;
use super::sampling;
use super::scheduler::{Command, Scheduler, check};
use super::shared::{Shared, Text, lock};
use super::tokenizer::Tokenizer;
use super::weights::Checkpoint;

/// Context where none is asked for.
const DEFAULT_CONTEXT: usize = 8_192;
/// Largest tree: its verify pass takes one row a node.
const MAX_TREE_BUDGET: usize = 256;
/// Tree budget where none is asked for.
const DEFAULT_TREE_BUDGET: usize = 16;

/// Body of the engine's thread.
pub fn run(config: &EngineConfig, resolve: Resolve, shared: &Arc<Shared>, commands: &Receiver<Command>) {
    let serve = Serve { config, resolve, shared, commands };
    let tell = |notice| shared.log(Level::Warn, "engine", notice);
    let reason = match device::on(config.device, config.threads, serve, tell) {
        Ok(None) => return,
        Ok(Some(reason)) => reason,
        Err(error) => error.to_string(),
    };
    shared.log(Level::Error, "engine", reason.clone());
    shared.ready(Readiness::Failed { reason: reason.clone() });
    // Answer what still comes in, so that nobody waits for ever.
    for command in commands {
        match command {
            Command::Submit(queued) => {
                let _ = queued.client.send(Delta::Failed(EngineError::Load(reason.clone())));
            }
            Command::Mode(_, answer) => {
                let _ = answer.send(Err(EngineError::Load(reason.clone())));
            }
            Command::Stop => return,
        }
    }
}

/// The engine's work, on whatever device.
struct Serve<'a> {
    config: &'a EngineConfig,
    resolve: Resolve,
    shared: &'a Arc<Shared>,
    commands: &'a Receiver<Command>,
}

impl OnDevice for Serve<'_> {
    /// Why it gave up; nothing when it was told to stop.
    type Out = Option<String>;

    fn run<B: Backend>(self, backend: B) -> Option<String> {
        let (core, settings, limits) = match start(backend, self.config, self.resolve, self.shared) {
            Ok(started) => started,
            Err(error) => return Some(error.to_string()),
        };
        let text = self.shared.text.get()?;
        let shared = Arc::clone(self.shared);
        let ended = Scheduler::new(core, shared, text, self.commands, settings, limits).run();
        ended.err().map(|panic| {
            format!("the engine stopped on an internal error ({panic}); restart it, and please report this")
        })
    }
}

fn start<B: Backend>(
    backend: B,
    config: &EngineConfig,
    resolve: Resolve,
    shared: &Arc<Shared>,
) -> Result<(Core<B>, ModeSettings, Limits), EngineError> {
    let pair = resolve(&mut |readiness| shared.ready(readiness))?;
    let load = |e: super::weights::WeightsError| EngineError::Load(e.to_string());
    let target = Checkpoint::open(&pair.target).map_err(load)?;
    let draft = pair.draft.as_ref().map(Checkpoint::open).transpose().map_err(load)?;
    let what = format!("reading {}", target.name());
    shared.ready(Readiness::Loading { what: what.clone(), fraction: Some(0.0) });
    let most = fitting(&backend, config, &target, draft.as_ref())?;
    let core = Core::load(backend, &target, draft.as_ref(), config.precision, |share| {
        shared.ready(Readiness::Loading { what: what.clone(), fraction: Some(share) });
    })
    .map_err(load)?;
    let vocab = core.target.config.vocab;
    let text = Text {
        tokenizer: Tokenizer::read(&target, vocab).map_err(load)?,
        template: ChatTemplate::read(&target).map_err(load)?,
        sampling: sampling::suggested(&target).map_err(load)?,
    };
    let (settings, limits) = modes(config, &core, most)?;
    // `run` is the only one who sets it.
    let _ = shared.text.set(text);
    {
        let mut facts = lock(&shared.facts);
        facts.target = Some(core.target.info.clone());
        facts.draft = core.drafter.as_ref().map(|d| d.info.clone());
        facts.device = Some(core.backend.info());
        facts.mode = settings;
        facts.limits = limits.clone();
        facts.notice = pair.notice;
    }
    shared.ready(Readiness::Ready);
    shared.log(
        Level::Info,
        "engine",
        format!("{} is ready on {}, mode {}", target.name(), place(&core.backend.info()), settings.label()),
    );
    Ok((core, settings, limits))
}

/// `N threads`, or the GPU's name.
fn place(device: &DeviceInfo) -> String {
    if device.kind == "cpu" { format!("{} threads", device.threads) } else { device.name.clone() }
}

/// Tokens that a sequence may have by what was asked for and what the model was made for.
fn context(config: &EngineConfig, model_context: usize) -> Result<usize, EngineError> {
    match config.context {
        0 => Ok(model_context.min(DEFAULT_CONTEXT)),
        n if n > model_context => Err(EngineError::Load(format!(
            "--context {n} is more than the {model_context} tokens that the model was made for"
        ))),
        n => Ok(n),
    }
}

/// Tokens that a sequence may have on a device with memory of its own; refuses a pair that does not fit.
fn fitting<B: Backend>(
    backend: &B,
    config: &EngineConfig,
    target: &Checkpoint,
    draft: Option<&Checkpoint>,
) -> Result<Option<usize>, EngineError> {
    let Some(room) = backend.room() else { return Ok(None) };
    let load = |e: super::weights::WeightsError| EngineError::Load(e.to_string());
    let wanted = context(config, TargetConfig::read(target).map_err(load)?.context)?;
    let need = plan::need(target, draft, config.precision).map_err(load)?;
    let name = backend.info().name;
    plan::context(&need, room, config.max_running, wanted, config.context > 0, &name)
        .map(Some)
        .map_err(EngineError::Load)
}

fn modes<B: Backend>(
    config: &EngineConfig,
    core: &Core<B>,
    most: Option<usize>,
) -> Result<(ModeSettings, Limits), EngineError> {
    let context = context(config, core.target.config.context)?;
    let context = most.map_or(context, |most| most.min(context));
    let block = core.drafter.as_ref().map_or(0, |d| d.config.block_size);
    let limits = Limits {
        modes: if block == 0 { vec![Mode::Off] } else { Mode::ALL.to_vec() },
        block_size: [block.min(2), block],
        tree_budget: if block == 0 { [0, 0] } else { [1, MAX_TREE_BUDGET] },
        context,
        max_running: config.max_running,
        max_waiting: config.max_waiting,
    };
    let default = ModeSettings {
        mode: if block == 0 { Mode::Off } else { Mode::Dflash },
        block_size: block,
        tree_budget: if block == 0 { 0 } else { DEFAULT_TREE_BUDGET },
        chain_seed: true,
    };
    let settings = default.with(config.mode);
    check(&settings, &limits)?;
    Ok((settings, limits))
}

impl Text {
    /// Token ids of a conversation, ready for the answer. `switches` are for the template.
    pub fn encode_chat(
        &self,
        messages: &[serde_json::Value],
        switches: &serde_json::Map<String, serde_json::Value>,
    ) -> Result<Vec<u32>, EngineError> {
        let invalid = |problem: String| EngineError::Invalid { field: "messages", problem };
        if let Some(template) = &self.template {
            let prompt = template.render_with(messages, switches).map_err(invalid)?;
            return Ok(self.tokenizer.encode(&prompt, true));
        }
        // A model without a template has seen plain text only.
        let last = messages
            .iter()
            .rev()
            .find_map(|m| m.get("content").and_then(|c| c.as_str()))
            .ok_or_else(|| invalid("there is no message with text".into()))?;
        Ok(self.tokenizer.encode(last, false))
    }
}

//! `spectop generate PROMPT`: one generation without a server.

use serde::Serialize;

use crate::engine::Engine;
use crate::engine::api::{Delta, EngineConfig, EngineError, GenerateRequest, Resolve, Sampling};
use crate::protocol::event::{Event, FinishReason, RequestMetrics};
use crate::protocol::mode::ModeRequest;
use crate::protocol::state::Readiness;

use super::loading::{self, Progress};
use super::out::{self, Reader};
use super::{Exit, Failure, GenerateArgs};

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Output {
    text: String,
    token_ids: Vec<u32>,
    tokens: usize,
    rounds: u64,
    /// Tokens committed a round, bonus included; null without rounds.
    tau: Option<f64>,
    decode_tok_s: Option<f64>,
    ttft_ms: Option<f64>,
    finish_reason: &'static str,
    mode: &'static str,
    model: Option<String>,
    notice: Option<String>,
    metrics: Box<RequestMetrics>,
}

/// Exit code of an engine error.
pub fn failure(error: &EngineError) -> Failure {
    let exit = match error {
        EngineError::Load(_) | EngineError::Invalid { .. } | EngineError::PromptTooLong { .. } => Exit::Usage,
        _ => Exit::Failed,
    };
    Failure::new(exit, error.to_string())
}

/// Starts an engine and waits until it can generate; load progress goes to stderr.
pub async fn ready_engine(config: EngineConfig, resolve: Resolve) -> Result<Engine, Failure> {
    let engine = Engine::start(config, resolve);
    let mut events = engine.subscribe();
    let mut told = Progress::default();
    loop {
        let state = engine.state();
        if let Some(failure) = loading::failure(&state) {
            return Err(failure);
        }
        match &state.readiness {
            Readiness::Ready => return Ok(engine),
            Readiness::Failed { .. } => {}
            Readiness::Loading { what, fraction } => {
                if let Some(line) = told.line(what, *fraction, std::time::Instant::now()) {
                    out::tell(&line);
                }
            }
        }
        // A lagged or closed stream is no reason to stop: the state is asked again anyway.
        if let Ok(event) = events.recv().await {
            while !matches!(*event, Event::Progress(_)) && events.try_recv().is_ok() {}
        }
    }
}

/// Runs the subcommand.
pub fn run(args: &GenerateArgs, config: EngineConfig, resolve: Resolve) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::new(Exit::Failed, format!("cannot start the runtime: {e}")))?;
    runtime.block_on(async {
        tokio::select! {
            result = generate(args, config, resolve) => result,
            _ = tokio::signal::ctrl_c() => Err(Failure::new(Exit::Interrupted, "interrupted")),
        }
    })
}

async fn generate(args: &GenerateArgs, config: EngineConfig, resolve: Resolve) -> Result<(), Failure> {
    let engine = ready_engine(config, resolve).await?;
    if let Some(notice) = engine.state().notice {
        out::tell(&notice);
    }
    let prompt = if args.raw {
        engine.encode(&args.prompt)
    } else {
        engine.encode_chat(&[serde_json::json!({"role": "user", "content": args.prompt})])
    }
    .map_err(|e| failure(&e))?;
    let request = GenerateRequest {
        id: None,
        prompt,
        max_tokens: args.max_tokens,
        sampling: Sampling { temperature: args.temperature, top_p: args.top_p, top_k: args.top_k, seed: args.seed },
        stop: args.stop.clone(),
        ignore_eos: args.ignore_eos,
        mode: ModeRequest::default(),
    };
    let mut generation = engine.submit(request).map_err(|e| failure(&e))?;
    let mut text = String::new();
    let mut token_ids = Vec::new();
    while let Some(delta) = generation.deltas.recv().await {
        match delta {
            Delta::Tokens { ids, text: piece, .. } => {
                token_ids.extend(ids);
                say(args.json, &piece)?;
                text.push_str(&piece);
            }
            Delta::Done { reason, text: piece, metrics } => {
                say(args.json, &piece)?;
                text.push_str(&piece);
                return finish(args.json, text, token_ids, reason, metrics, &engine);
            }
            Delta::Failed(error) => return Err(failure(&error)),
        }
    }
    Err(Failure::new(Exit::Failed, "the engine stopped in the middle of the answer"))
}

/// A reader that closes its end of the pipe (`| head`) has what it wanted.
fn say(json: bool, piece: &str) -> Result<(), Failure> {
    if json || piece.is_empty() {
        return Ok(());
    }
    match out::print(piece)? {
        Reader::There => Ok(()),
        Reader::Gone => Err(Failure::new(Exit::Ok, "")),
    }
}

fn finish(
    json: bool,
    text: String,
    token_ids: Vec<u32>,
    reason: FinishReason,
    metrics: Box<RequestMetrics>,
    engine: &Engine,
) -> Result<(), Failure> {
    if !json {
        say(json, "\n")?;
        let unit = |value: Option<f64>, unit: &str| value.map_or("—".into(), |v| format!("{v:.1} {unit}"));
        out::tell(&format!(
            "{} tokens in {} rounds, {}, τ {}, {} to the first token, {} ({})",
            metrics.tokens,
            metrics.rounds,
            unit(metrics.decode_tok_s, "tok/s"),
            metrics.tau.map_or("—".into(), |t| format!("{t:.2}")),
            unit(metrics.ttft_ms, "ms"),
            metrics.mode.label(),
            reason.name()
        ));
        return Ok(());
    }
    let output = Output {
        text,
        tokens: token_ids.len(),
        token_ids,
        rounds: metrics.rounds,
        tau: metrics.tau,
        decode_tok_s: metrics.decode_tok_s,
        ttft_ms: metrics.ttft_ms,
        finish_reason: reason.name(),
        mode: metrics.mode.mode.name(),
        model: engine.model_name(),
        notice: engine.state().notice,
        metrics,
    };
    let line = serde_json::to_string(&output).map_err(|e| Failure::new(Exit::Failed, e.to_string()))?;
    out::print_line(&line)?;
    Ok(())
}

//! The engine behind its handle: queue, cancel, stops, limits, switches in mid-answer. On the embedded tiny pair.

use std::time::Duration;

use spectop::engine::Engine;
use spectop::engine::api::{
    Delta, EngineConfig, EngineError, GenerateRequest, Generation, ModelSource, PairSource, Sampling,
};
use spectop::engine::weights::bundle;
use spectop::protocol::event::{Event, FinishReason, RequestMetrics};
use spectop::protocol::mode::{Mode, ModeRequest};
use spectop::protocol::state::Readiness;

async fn engine(config: EngineConfig) -> Engine {
    let engine = Engine::start(
        EngineConfig { threads: 1, ..config },
        Box::new(|_| {
            Ok(PairSource {
                target: ModelSource::Embedded(&bundle::TINY_TARGET),
                draft: Some(ModelSource::Embedded(&bundle::TINY_DRAFT)),
                notice: None,
            })
        }),
    );
    for _ in 0..1_000 {
        match engine.state().readiness {
            Readiness::Ready => return engine,
            Readiness::Failed { reason } => panic!("{reason}"),
            Readiness::Loading { .. } => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
    panic!("the tiny pair did not load in time");
}

fn ask(prompt: &str, max_tokens: usize) -> GenerateRequest {
    GenerateRequest {
        id: None,
        prompt: prompt.bytes().map(u32::from).collect(),
        max_tokens,
        sampling: Sampling::default(),
        stop: Vec::new(),
        ignore_eos: true,
        mode: ModeRequest::default(),
    }
}

struct Answer {
    ids: Vec<u32>,
    text: String,
    reason: FinishReason,
    metrics: Box<RequestMetrics>,
}

async fn whole(mut generation: Generation) -> Answer {
    let (mut ids, mut out) = (Vec::new(), String::new());
    while let Some(delta) = generation.deltas.recv().await {
        match delta {
            Delta::Tokens { ids: new, text, margins } => {
                assert_eq!(new.len(), margins.len());
                ids.extend(new);
                out.push_str(&text);
            }
            Delta::Done { reason, text, metrics } => {
                out.push_str(&text);
                return Answer { ids, text: out, reason, metrics };
            }
            Delta::Failed(error) => panic!("{error}"),
        }
    }
    panic!("the generation ended without a last word");
}

#[tokio::test]
async fn limits_and_stop_strings_give_the_same_answer_in_every_mode() {
    let engine = engine(EngineConfig::default()).await;
    let prompt = "def quicksort(a):\n";
    let long = whole(engine.submit(ask(prompt, 80)).unwrap()).await;
    assert_eq!((long.ids.len(), long.reason), (80, FinishReason::Length));
    // A stop text that lies in the middle of the answer, wherever rounds end.
    let stop = long.text[30..34].to_owned();
    let cut = long.text.find(&stop).unwrap();
    for mode in Mode::ALL {
        let with = |mut request: GenerateRequest| {
            request.mode = ModeRequest::mode(mode);
            engine.submit(request).unwrap()
        };
        for limit in [1, 2, 7, 8, 9, 17] {
            let answer = whole(with(ask(prompt, limit))).await;
            assert_eq!(answer.ids, long.ids[..limit], "{mode} {limit}");
            assert_eq!(answer.metrics.tokens, limit);
        }
        let mut request = ask(prompt, 80);
        request.stop = vec!["never to be found".into(), stop.clone()];
        let answer = whole(with(request)).await;
        assert_eq!((answer.text.as_str(), answer.reason), (&long.text[..cut], FinishReason::Stop), "{mode}");
        assert_eq!(answer.ids, long.ids[..answer.ids.len()], "{mode}: nothing beyond the stop is kept");
        assert_eq!(answer.ids.len(), cut + stop.len(), "{mode}: one byte a token");
    }
}

#[tokio::test]
async fn a_switch_in_mid_answer_changes_the_rounds_and_not_the_text() {
    let engine = engine(EngineConfig { mode: ModeRequest::mode(Mode::Off), ..EngineConfig::default() }).await;
    let plain = whole(engine.submit(ask("class A:\n", 1_500)).unwrap()).await;
    let mut events = engine.subscribe();
    let generation = engine.submit(ask("class A:\n", 1_500)).unwrap();
    let id = generation.id.clone();
    let answer = tokio::spawn(whole(generation));
    let mut seen = Vec::new();
    let mut round = 0;
    while let Ok(event) = events.recv().await {
        match &*event {
            Event::Round(r) if r.request == id => {
                round += 1;
                if !seen.contains(&r.mode) {
                    seen.push(r.mode);
                }
                if round == 10 {
                    let change = engine.set_mode(ModeRequest::mode(Mode::Ddtree)).await.unwrap();
                    assert_eq!(change.settings.mode, Mode::Ddtree);
                }
                if round == 20 {
                    engine.set_mode(ModeRequest::mode(Mode::Dflash)).await.unwrap();
                }
            }
            Event::Request(r) if r.id == id && r.metrics.is_some() => break,
            _ => {}
        }
    }
    let answer = answer.await.unwrap();
    assert_eq!(answer.ids, plain.ids);
    assert_eq!(seen, [Mode::Off, Mode::Ddtree, Mode::Dflash]);
    assert_eq!(answer.metrics.modes.iter().map(|m| m.0).collect::<Vec<_>>(), seen);
    assert_eq!(engine.state().mode.mode, Mode::Dflash);
}

#[tokio::test]
async fn the_queue_is_bounded_and_the_abandoned_leave_it() {
    let config = EngineConfig { max_running: 1, max_waiting: 2, ..EngineConfig::default() };
    let engine = engine(config).await;
    let running = engine.submit(ask("x", 1_500)).unwrap();
    while engine.state().running == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let first = engine.submit(ask("y", 5)).unwrap();
    let second = engine.submit(ask("z", 5)).unwrap();
    let refused = engine.submit(ask("w", 5)).unwrap_err();
    assert_eq!(refused, EngineError::QueueFull { waiting: 2 });
    drop(first);
    drop(running);
    let answer = whole(second).await;
    assert_eq!(answer.ids.len(), 5);
    for _ in 0..200 {
        let state = engine.state();
        // The gauges follow at the end of the turn.
        if state.counters.requests_cancelled == 2 && state.running == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let state = engine.state();
    assert_eq!((state.counters.requests_cancelled, state.counters.requests_finished), (2, 1));
    assert_eq!((state.running, state.waiting), (0, 0));
}

#[tokio::test]
async fn what_cannot_be_generated_is_refused_with_a_reason() {
    let engine = engine(EngineConfig { context: 64, ..EngineConfig::default() }).await;
    let refused = |request: GenerateRequest| engine.submit(request).unwrap_err().to_string();
    assert!(refused(ask("", 5)).contains("prompt"));
    assert!(refused(ask("x", 0)).contains("max_tokens"));
    assert!(refused(ask(&"x".repeat(64), 5)).contains("64"));
    let mut request = ask("x", 5);
    request.prompt = vec![70_000];
    assert!(refused(request).contains("70000"));
    let mut request = ask("x", 5);
    request.sampling.temperature = f32::NAN;
    assert!(refused(request).contains("temperature"));
    let mut request = ask("x", 5);
    request.mode = ModeRequest { tree_budget: Some(0), ..ModeRequest::mode(Mode::Ddtree) };
    assert!(refused(request).contains("tree_budget"));
    let error = engine.set_mode(ModeRequest { block_size: Some(99), ..ModeRequest::mode(Mode::Dflash) }).await;
    assert!(error.unwrap_err().to_string().contains("2 to 8"));
    // The longest prompt that fits gets exactly the room that is left.
    for limit in [50, usize::MAX] {
        let answer = whole(engine.submit(ask(&"x".repeat(60), limit)).unwrap()).await;
        assert_eq!((answer.ids.len(), answer.reason), (4, FinishReason::Length), "at most {limit}");
    }
}

#[tokio::test]
async fn many_requests_at_once_get_what_each_would_get_alone() {
    let engine = engine(EngineConfig::default()).await;
    let prompts = ["a", "def f(x):", "import ", "for i in ", "# ", "class B", "return", "if x", "while", "try:"];
    let mut alone = Vec::new();
    for prompt in prompts {
        let mut request = ask(prompt, 40);
        request.mode = ModeRequest::mode(Mode::Off);
        alone.push(whole(engine.submit(request).unwrap()).await.ids);
    }
    let together: Vec<_> = prompts
        .iter()
        .enumerate()
        .map(|(i, prompt)| {
            let mut request = ask(prompt, 40);
            request.mode = ModeRequest::mode(Mode::ALL[i % Mode::ALL.len()]);
            tokio::spawn(whole(engine.submit(request).unwrap()))
        })
        .collect();
    for (got, want) in together.into_iter().zip(alone) {
        assert_eq!(got.await.unwrap().ids, want);
    }
}

#[tokio::test]
async fn a_failed_load_is_told_and_nobody_waits() {
    let engine = Engine::start(
        EngineConfig::default(),
        Box::new(|_| Err(EngineError::Load("there is no such file: /nowhere/model.gguf".into()))),
    );
    for _ in 0..400 {
        if let Readiness::Failed { reason } = engine.state().readiness {
            assert!(reason.contains("/nowhere/model.gguf"));
            assert!(matches!(engine.submit(ask("x", 1)), Err(EngineError::Load(_))));
            assert!(engine.set_mode(ModeRequest::mode(Mode::Off)).await.is_err());
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the failure was not told");
}

//! State, health and the event stream.

use std::sync::Arc;
use std::time::{Duration, Instant};

use spectop::protocol::event::{Event, Level, LogLine};
use spectop::protocol::mode::Mode;
use spectop::protocol::sensor::{GpuReading, Sensors};
use spectop::protocol::state::{Readiness, StageTimes, State};
use spectop::protocol::trace::{Round, RoundEnd, Token};
use spectop::server::MAX_EVENT_READERS;
use spectop::server::backend::Backend;

use crate::scripted::{Events, Running, Scripted};

fn round(step: u64) -> Event {
    Event::Round(Round {
        request: "r".into(),
        round: step,
        step,
        mode: Mode::Off,
        proposed: vec![],
        left_out: Vec::new(),
        accepted: vec![0],
        bonus: Token::new(1, "🙂".as_bytes()),
        committed: vec![Token::new(2, &[0xf0, 0x9f])],
        accepted_drafts: 0,
        end: RoundEnd::Plain,
        shadow_hit: None,
        stages: StageTimes::default(),
        rows: 1,
        context: 1,
        at_ms: 1,
    })
}

fn log(message: &str) -> Event {
    Event::Log(LogLine { at_ms: 1, level: Level::Info, source: "engine".into(), message: message.into() })
}

#[tokio::test]
async fn state_and_health() {
    let server = Running::start().await;
    let state: State = server.get("/spec/state").await.json().await.expect("a state");
    assert_eq!(state, server.backend.state());
    let health = server.get("/health").await;
    assert_eq!(health.status(), 200);
    assert_eq!(health.text().await.expect("a body"), "{\"status\":\"ok\"}");
}

#[tokio::test]
async fn events_begin_with_hello_and_pass_through() {
    let server = Running::start().await;
    let mut events = Events::new(server.get("/spec/events").await);
    assert_eq!(events.next().await, Some(Event::Hello(Box::new(server.backend.state()))));
    server.backend.publish(round(3));
    server.backend.publish(log("line\nbreak"));
    assert_eq!(events.until(|e| matches!(e, Event::Round(_))).await, round(3));
    assert_eq!(events.until(|e| matches!(e, Event::Log(_))).await, log("line\nbreak"));
}

#[tokio::test]
async fn rounds_can_be_left_out() {
    let server = Running::start().await;
    let mut events = Events::new(server.get("/spec/events?rounds=0").await);
    events.next().await;
    server.backend.publish(round(1));
    server.backend.publish(log("after"));
    let first = events.until(|e| matches!(e, Event::Round(_) | Event::Log(_))).await;
    assert_eq!(first, log("after"));
    assert_eq!(server.get("/spec/events?rounds=maybe").await.status(), 400);
}

#[tokio::test]
async fn samples_come_four_times_a_second_with_sensors() {
    let source =
        || Sensors { gpus: vec![GpuReading { name: "G".into(), ..GpuReading::default() }], ..Sensors::default() };
    let server = Running::with(Scripted::new(), None, Some(Arc::new(source))).await;
    // Without a reader nothing is published.
    let mut own = server.backend.subscribe();
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert!(own.try_recv().is_err());
    let mut events = Events::new(server.get("/spec/events").await);
    let is_sample = |e: &Event| matches!(e, Event::Sample(_));
    events.until(is_sample).await;
    let begin = Instant::now();
    for _ in 0..4 {
        let Event::Sample(sample) = events.until(is_sample).await else { continue };
        assert_eq!(sample.sensors.gpus[0].name, "G");
        assert_eq!(sample.tau, Some(3.5));
    }
    let took = begin.elapsed();
    assert!((Duration::from_millis(800)..Duration::from_secs(3)).contains(&took), "{took:?}");
}

#[tokio::test]
async fn a_slow_reader_learns_what_it_lost() {
    let server = Running::start().await;
    let mut events = Events::new(server.get("/spec/events").await);
    events.next().await;
    // The double's channel holds 16 events, and none of these tasks run in between.
    for i in 0..50 {
        server.backend.publish(round(i));
    }
    let lagged = events.until(|e| !matches!(e, Event::Sample(_))).await;
    let Event::Lagged(lagged) = lagged else { panic!("{lagged:?}") };
    assert!(lagged.dropped >= 34, "{lagged:?}");
    // The state again, then what is left.
    assert!(matches!(events.next().await, Some(Event::Hello(_))));
    let last = events.until(|e| matches!(e, Event::Round(r) if r.round == 49)).await;
    assert_eq!(last, round(49));
}

#[tokio::test]
async fn changes_of_readiness_are_told() {
    let backend = Scripted::new();
    let loading = |f| Readiness::Loading { what: "reading".into(), fraction: Some(f) };
    backend.readiness(loading(0.1));
    let server = Running::with(backend, None, None).await;
    let mut events = Events::new(server.get("/spec/events").await);
    let Some(Event::Hello(hello)) = events.next().await else { panic!("no hello") };
    assert_eq!(hello.readiness, loading(0.1));
    server.backend.readiness(loading(0.6));
    assert_eq!(events.until(|e| !matches!(e, Event::Sample(_))).await, Event::Progress(loading(0.6)));
    server.backend.readiness(Readiness::Ready);
    let Event::Hello(hello) = events.until(|e| !matches!(e, Event::Sample(_))).await else { panic!("no hello") };
    assert_eq!(hello.readiness, Readiness::Ready);
}

#[tokio::test]
async fn readers_are_bounded_and_leave_their_places() {
    let server = Running::start().await;
    let mut readers = Vec::new();
    for _ in 0..MAX_EVENT_READERS {
        let response = server.get("/spec/events").await;
        assert_eq!(response.status(), 200);
        readers.push(response);
    }
    let refused = server.get("/spec/events").await;
    assert_eq!(refused.status(), 429);
    assert!(refused.headers().contains_key("retry-after"));
    drop(readers);
    let begin = Instant::now();
    while server.get("/spec/events").await.status() != 200 {
        assert!(begin.elapsed() < Duration::from_secs(5), "places are not given back");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_stalled_reader_stops_nobody() {
    let server = Running::start().await;
    let stalled = server.get("/spec/events").await;
    let mut events = Events::new(server.get("/spec/events?rounds=0").await);
    events.next().await;
    let begin = Instant::now();
    for i in 0..20_000 {
        server.backend.publish(round(i));
        if i % 100 == 0 {
            tokio::task::yield_now().await;
        }
    }
    server.backend.publish(log("end"));
    assert_eq!(events.until(|e| matches!(e, Event::Log(_))).await, log("end"));
    assert!(begin.elapsed() < Duration::from_secs(10));
    drop(stalled);
}

//! Staying attached to our own server: order, loss, return, lag.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use spectop::protocol::event::{Event, Level, Sample};
use spectop::source::{Client, Connection, ServerKind, Update};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::scripted::{Attached, Server, native, round, saying, state, wire};

fn hello() -> String {
    wire(&Event::Hello(Box::new(state())))
}

fn sample() -> Event {
    Event::Sample(Box::default())
}

/// Says hello and then a sample every 100 ms, as a healthy server does.
fn healthy() -> mpsc::Receiver<String> {
    let (tx, rx) = mpsc::channel(16);
    tokio::spawn(async move {
        let mut text = hello();
        while tx.send(text).await.is_ok() {
            text = wire(&sample());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    rx
}

const CONNECTED: Connection = Connection::Connected { kind: ServerKind::Native };

#[tokio::test]
async fn events_come_in_order_and_odd_ones_do_no_harm() {
    let server = Server::start(native(|| {
        let texts = [
            hello(),
            "event: invented\ndata: 1\n\n".into(),
            "event: round\ndata: {\"half\n\n".into(),
            "event: sample\ndata: []\n\n".into(),
            ": comment\n\n".into(),
            wire(&round(1)),
            wire(&round(2)),
            wire(&sample()),
        ];
        saying(texts.to_vec())
    }))
    .await;
    let mut attached = Attached::to(server.client());
    assert_eq!(attached.next().await, Update::Connection(Connection::Connecting));
    assert_eq!(attached.next().await, Update::Connection(CONNECTED));
    assert_eq!(attached.next().await, Update::Event(Event::Hello(Box::new(state()))));
    let Update::Event(Event::Log(line)) = attached.next().await else { panic!("a complaint") };
    assert_eq!(line.level, Level::Warn);
    assert!(line.message.contains("\"round\""), "{}", line.message);
    assert_eq!(attached.next().await, Update::Event(round(1)));
    assert_eq!(attached.next().await, Update::Event(round(2)));
    assert_eq!(attached.next().await, Update::Event(Event::Sample(Box::<Sample>::default())));
}

#[tokio::test]
async fn a_killed_server_is_lost_at_once_and_found_again() {
    let server = Server::start(native(healthy)).await;
    let address = server.address;
    let mut attached = Attached::to(server.client());
    assert_eq!(attached.connection().await, Connection::Connecting);
    assert_eq!(attached.connection().await, CONNECTED);
    attached.event().await;

    let killed = Instant::now();
    drop(server);
    let Connection::Lost { retry_in, .. } = attached.connection().await else { panic!("lost") };
    assert!(killed.elapsed() < Duration::from_secs(2), "{:?}", killed.elapsed());
    assert!(retry_in <= Duration::from_millis(250));
    let Connection::Lost { reason, .. } = attached.connection().await else { panic!("still lost") };
    assert!(reason.contains("connection refused"), "{reason}");

    let _server = Server::start_at(address, native(healthy)).await;
    let back = Instant::now();
    while attached.connection().await != CONNECTED {}
    assert!(back.elapsed() < Duration::from_secs(4), "{:?}", back.elapsed());
    assert!(matches!(attached.event().await, Event::Hello(_)));
}

#[tokio::test]
async fn a_server_that_hangs_is_lost_within_two_seconds() {
    let server = Server::start(native(|| saying(vec![hello()]))).await;
    let mut attached = Attached::to(server.client());
    assert!(matches!(attached.event().await, Event::Hello(_)));
    let hung = Instant::now();
    let Connection::Lost { reason, .. } = attached.connection().await else { panic!("lost") };
    assert_eq!(reason, "no data for 1.5 s");
    assert!(hung.elapsed() < Duration::from_secs(2), "{:?}", hung.elapsed());
}

#[tokio::test]
async fn a_server_that_only_accepts_connections_is_asked_less_and_less() {
    // The stream ends at once: the connection succeeds, but nothing is said.
    let server = Server::start(native(|| mpsc::channel(1).1)).await;
    let mut attached = Attached::to(server.client());
    let mut pauses = Vec::new();
    while pauses.len() < 3 {
        if let Connection::Lost { retry_in, reason } = attached.connection().await {
            assert_eq!(reason, "the server closed the connection");
            pauses.push(retry_in);
        }
    }
    assert!(pauses[1] > pauses[0] && pauses[2] > pauses[1], "{pauses:?}");
}

#[tokio::test]
async fn a_slow_reader_loses_rounds_and_nothing_else() {
    const ROUNDS: u64 = 6000;
    let sent = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&sent);
    let server = Server::start(native(move || {
        let (tx, rx) = mpsc::channel(16);
        let counter = Arc::clone(&counter);
        tokio::spawn(async move {
            let _ = tx.send(hello()).await;
            for number in 0..ROUNDS {
                let _ = tx.send(wire(&round(number))).await;
                counter.store(number + 1, Ordering::Relaxed);
            }
            for _ in 0..3 {
                let _ = tx.send(wire(&sample())).await;
            }
            tx.closed().await;
        });
        rx
    }))
    .await;
    let mut attached = Attached::to(server.client());
    let until = Instant::now() + Duration::from_secs(10);
    // The reader sleeps, and still the server gets rid of all its events.
    while sent.load(Ordering::Relaxed) < ROUNDS && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(sent.load(Ordering::Relaxed), ROUNDS);

    let (mut rounds, mut dropped, mut samples, mut last) = (0, 0, 0, None);
    while samples < 3 {
        match attached.event().await {
            Event::Round(round) => {
                assert!(last < Some(round.round), "in order");
                last = Some(round.round);
                rounds += 1;
            }
            Event::Lagged(lagged) => dropped += lagged.dropped,
            Event::Sample(_) => samples += 1,
            _ => {}
        }
    }
    assert_eq!(rounds + dropped, ROUNDS);
    assert!(dropped > 0);
}

#[tokio::test]
async fn cancelling_and_going_away_both_end_the_task() {
    let server = Server::start(native(healthy)).await;
    let mut attached = Attached::to(server.client());
    attached.event().await;
    attached.stop.cancel();
    timeout(Duration::from_secs(2), &mut attached.task).await.expect("ends").unwrap();

    // Gone readers are noticed while connected, and while waiting for a server.
    let nobody = Client::new(&Server::start(Router::new()).await.address.to_string(), None).unwrap();
    for client in [server.client(), nobody] {
        let mut attached = Attached::to(client);
        attached.next().await;
        attached.updates.close();
        while attached.updates.recv().await.is_some() {}
        timeout(Duration::from_secs(5), &mut attached.task).await.expect("ends").unwrap();
    }
}

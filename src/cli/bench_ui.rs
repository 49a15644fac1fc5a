//! `spectop bench-ui`: what the dashboard itself costs, measured on the real binary in a terminal of its own, attached
//! to a load generator behind a real server on the loopback.

mod load;
mod subject;

use std::fmt::Write as _;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use self::load::Load;
use self::subject::Subject;
use super::{Exit, Failure, out};
use crate::bench::stats::percentile;
use crate::server::{self, Options};

/// Time that a dashboard gets to settle before it is measured.
const SETTLE: Duration = Duration::from_secs(3);
/// Dashboards that are started for the first frame.
const STARTS: usize = 5;
/// Characters that nothing on the screen contains, so that the frame that shows one is known by it.
const MARKS: [char; 24] = [
    'Б', 'Г', 'Д', 'Ж', 'З', 'И', 'Й', 'К', 'Л', 'П', 'У', 'Ф', 'Ц', 'Ч', 'Ш', 'Щ', 'Ъ', 'Ы', 'Ь', 'Э', 'Ю', 'Я', 'Ђ',
    'Љ',
];
/// Rounds sent at once, to see that losses are shown.
const FLOOD: u64 = 60_000;

/// Options of `bench-ui`.
#[derive(Debug, Clone, Args)]
pub struct BenchUiArgs {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 10, value_name = "S", value_parser = clap::value_parser!(u64).range(2..=600))]
    pub seconds: u64,
    /// Size of the terminal.
    #[arg(long, default_value = "120x36", value_name = "COLUMNSxROWS", value_parser = size)]
    pub size: (u16, u16),
    /// Exit code 5 when a limit is not met.
    #[arg(long)]
    pub gate: bool,
}

fn size(text: &str) -> Result<(u16, u16), String> {
    let parsed = text.split_once('x').and_then(|(c, r)| Some((c.parse().ok()?, r.parse().ok()?)));
    parsed.filter(|(c, r)| *c > 0 && *r > 0).ok_or_else(|| "it must be COLUMNSxROWS, such as 120x36".into())
}

impl Failure {
    fn broken(what: &str, error: &dyn std::fmt::Display) -> Self {
        Self::new(Exit::Failed, format!("{what}: {error}"))
    }
}

/// What was measured.
#[derive(Debug, Clone, Default)]
struct Figures {
    first_frame_ms: f64,
    idle_cpu_percent: f64,
    idle_bytes_per_s: f64,
    rss_mb: f64,
    stream_cpu_percent: f64,
    stream_bytes_per_s: f64,
    key_to_frame_p50_ms: f64,
    key_to_frame_p99_ms: f64,
    key_samples: usize,
    flood_events_per_s: f64,
    lagged_shown: bool,
    peak_rss_mb: f64,
}

/// Measures and prints.
pub fn run(args: &BenchUiArgs) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| Failure::broken("cannot start", &e))?;
    let load = Load::new();
    let shutdown = CancellationToken::new();
    let bound = runtime.block_on(server::bind(&Options { host: "127.0.0.1".into(), port: 0, api_key: None }));
    let bound = bound.map_err(|e| Failure::new(Exit::Failed, e.to_string()))?;
    let url = format!("http://{}", bound.addr());
    runtime.spawn(bound.run_backend(Arc::clone(&load) as _, shutdown.clone()));
    runtime.spawn(Arc::clone(&load).run());
    let figures = measure(args, &url, &load);
    shutdown.cancel();
    runtime.shutdown_timeout(Duration::from_secs(2));
    let figures = figures?;
    let limits = limits(&figures);
    let text = if args.json { as_json(&figures, &limits) } else { as_table(args, &figures, &limits) };
    out::print(&text)?;
    let missed: Vec<_> = limits.iter().filter(|l| !l.met()).map(|l| l.key).collect();
    if args.gate && !missed.is_empty() {
        return Err(Failure::new(Exit::Gate, format!("not met: {}", missed.join(", "))));
    }
    Ok(())
}

fn measure(args: &BenchUiArgs, url: &str, load: &Load) -> Result<Figures, Failure> {
    let tell = |text: &str| {
        if !args.json {
            out::tell(text);
        }
    };
    let span = Duration::from_secs(args.seconds);
    let mut figures = Figures::default();
    tell(&format!("first frame without a server, {STARTS} starts …"));
    figures.first_frame_ms = first_frame(args.size)?;

    tell(&format!("idle, {} s …", args.seconds));
    let mut subject = Subject::start(url, args.size)?;
    if subject.wait(b"load generator", SETTLE).is_none() {
        return Err(Failure::new(Exit::Failed, "the dashboard did not attach to the load generator"));
    }
    thread::sleep(SETTLE);
    let idle = over(&subject, span)?;
    (figures.idle_cpu_percent, figures.idle_bytes_per_s, figures.rss_mb) = idle;

    tell(&format!("500 tokens a second, {} s …", args.seconds));
    load.set(100, 5);
    thread::sleep(SETTLE);
    (figures.stream_cpu_percent, figures.stream_bytes_per_s, figures.peak_rss_mb) = over(&subject, span)?;

    tell(&format!("2000 events a second, a key every 40 ms, {} s …", args.seconds));
    load.set(2000, 4);
    thread::sleep(Duration::from_secs(1));
    let (sent, begin) = (load.sent(), Instant::now());
    let mut latencies = key_to_frame(&mut subject, span)?;
    figures.flood_events_per_s = (load.sent() - sent) as f64 / begin.elapsed().as_secs_f64();
    latencies.sort_by(f64::total_cmp);
    figures.key_samples = latencies.len();
    figures.key_to_frame_p50_ms = percentile(&latencies, 50.0).unwrap_or(f64::NAN);
    figures.key_to_frame_p99_ms = percentile(&latencies, 99.0).unwrap_or(f64::NAN);
    let (_, _, rss) = over(&subject, Duration::from_millis(200))?;
    figures.peak_rss_mb = figures.peak_rss_mb.max(rss);

    tell("more than a reader can take …");
    load.set(0, 1);
    thread::sleep(Duration::from_millis(500));
    subject.forget();
    load.flood(FLOOD);
    figures.lagged_shown = subject.wait(b"lagged", Duration::from_secs(10)).is_some();
    if !subject.quit()? {
        return Err(Failure::new(Exit::Failed, "the dashboard did not end as it should"));
    }
    Ok(figures)
}

/// Milliseconds from the start of the program to the first frame on a terminal, with nobody at the address: the median.
fn first_frame(size: (u16, u16)) -> Result<f64, Failure> {
    // A port that was free a moment ago: connections to it are refused.
    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr());
    let url = format!("http://{}", free.map_err(|e| Failure::broken("no port is free", &e))?);
    let mut times = Vec::new();
    for _ in 0..STARTS {
        let subject = Subject::start(&url, size)?;
        let seen = subject.wait(b"quit", Duration::from_secs(10));
        let seen = seen.ok_or_else(|| Failure::new(Exit::Failed, "the dashboard drew nothing in 10 s"))?;
        times.push(seen.duration_since(subject.started).as_secs_f64() * 1000.0);
        subject.quit()?;
    }
    times.sort_by(f64::total_cmp);
    Ok(percentile(&times, 50.0).unwrap_or(f64::NAN))
}

/// CPU in percent of a core and bytes a second over a while, and resident megabytes at its end.
fn over(subject: &Subject, span: Duration) -> Result<(f64, f64, f64), Failure> {
    let (usage, bytes, begin) = (subject.usage()?, subject.total(), Instant::now());
    thread::sleep(span);
    let seconds = begin.elapsed().as_secs_f64();
    let after = subject.usage()?;
    let cpu = (after.cpu_s - usage.cpu_s) / seconds * 100.0;
    Ok((cpu, (subject.total() - bytes) as f64 / seconds, after.rss as f64 / 1e6))
}

/// Milliseconds from a key to the frame that shows it, typed into the prompt editor over the live dashboard.
fn key_to_frame(subject: &mut Subject, span: Duration) -> Result<Vec<f64>, Failure> {
    let unseen = || Failure::new(Exit::Failed, "a key was pressed and no frame showed it in 2 s");
    subject.forget();
    subject.keys(b"p")?;
    subject.wait("ask the model".as_bytes(), Duration::from_secs(2)).ok_or_else(unseen)?;
    let mut latencies = Vec::new();
    let begin = Instant::now();
    // Three rounds of the marks fit into a line of the editor; then it is emptied.
    for (n, mark) in MARKS.iter().cycle().enumerate() {
        if begin.elapsed() >= span {
            break;
        }
        if n % MARKS.len() == 0 && n > 0 {
            subject.keys(&[0x15])?;
            thread::sleep(Duration::from_millis(150));
        }
        // Not in step with anything that repeats.
        thread::sleep(Duration::from_millis(28 + (n as u64 * 37) % 24));
        subject.forget();
        let pressed = subject.keys(mark.encode_utf8(&mut [0; 4]).as_bytes())?;
        let seen = subject.wait(mark.encode_utf8(&mut [0; 4]).as_bytes(), Duration::from_secs(2)).ok_or_else(unseen)?;
        latencies.push(seen.duration_since(pressed).as_secs_f64() * 1000.0);
    }
    subject.keys(&[0x15])?;
    subject.keys(b"\x1b")?;
    Ok(latencies)
}

/// A figure with the most that it may be.
struct Limit {
    key: &'static str,
    what: &'static str,
    value: f64,
    most: f64,
    unit: &'static str,
}

impl Limit {
    fn met(&self) -> bool {
        self.value <= self.most
    }
}

fn limits(f: &Figures) -> Vec<Limit> {
    let limit = |key, what, value, most, unit| Limit { key, what, value, most, unit };
    vec![
        limit("first_frame_ms", "first frame, server down", f.first_frame_ms, 150.0, "ms"),
        limit("idle_cpu_percent", "idle: CPU", f.idle_cpu_percent, 1.0, "% of a core"),
        limit("rss_mb", "idle: memory", f.rss_mb, 40.0, "MB"),
        limit("idle_bytes_per_s", "idle: to the terminal", f.idle_bytes_per_s, 20_000.0, "B/s"),
        limit("stream_cpu_percent", "500 tok/s: CPU", f.stream_cpu_percent, 5.0, "% of a core"),
        limit("key_to_frame_p99_ms", "2000 events/s: key to frame, p99", f.key_to_frame_p99_ms, 50.0, "ms"),
        limit("lagged_shown", "lost events not shown", f64::from(u8::from(!f.lagged_shown)), 0.0, ""),
    ]
}

fn as_json(f: &Figures, limits: &[Limit]) -> String {
    let round = |v: f64| (v * 100.0).round() / 100.0;
    let most: serde_json::Map<_, _> =
        limits.iter().filter(|l| l.key != "lagged_shown").map(|l| (l.key.to_owned(), json!(l.most))).collect();
    let value = json!({
        "load": "generated rounds behind the real server on the loopback",
        "first_frame_ms": round(f.first_frame_ms),
        "idle_cpu_percent": round(f.idle_cpu_percent),
        "rss_mb": round(f.rss_mb),
        "idle_bytes_per_s": f.idle_bytes_per_s.round(),
        "stream_cpu_percent": round(f.stream_cpu_percent),
        "stream_bytes_per_s": f.stream_bytes_per_s.round(),
        "key_to_frame_p50_ms": round(f.key_to_frame_p50_ms),
        "key_to_frame_p99_ms": round(f.key_to_frame_p99_ms),
        "key_samples": f.key_samples,
        "flood_events_per_s": f.flood_events_per_s.round(),
        "lagged_shown": f.lagged_shown,
        "peak_rss_mb": round(f.peak_rss_mb),
        "limits": most,
        "met": limits.iter().all(Limit::met),
    });
    format!("{value:#}\n")
}

fn as_table(args: &BenchUiArgs, f: &Figures, limits: &[Limit]) -> String {
    let mut text = format!(
        "The dashboard at {}×{}, on a load generator (made-up rounds behind the real server on the loopback)\n\n",
        args.size.0, args.size.1
    );
    for limit in limits {
        let mark = if limit.met() { "ok  " } else { "OVER" };
        if limit.key == "lagged_shown" {
            let shown = if f.lagged_shown { "yes" } else { "no" };
            let _ = writeln!(text, "{mark} {:<34} {shown:>10}", "a count of lost events is shown");
        } else {
            let most = format!("(at most {} {})", limit.most, limit.unit);
            let _ = writeln!(text, "{mark} {:<34} {:>10.2} {:<12} {most}", limit.what, limit.value, limit.unit);
        }
    }
    let _ = write!(
        text,
        "\nkey to frame p50 {:.2} ms over {} keys at {:.0} events/s; streaming {:.0} B/s to the terminal; most memory {:.1} \
         MB\n",
        f.key_to_frame_p50_ms, f.key_samples, f.flood_events_per_s, f.stream_bytes_per_s, f.peak_rss_mb
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        assert_eq!(size("80x24"), Ok((80, 24)));
        assert!(size("80").is_err() && size("0x9").is_err() && size("axb").is_err());
    }

    #[test]
    fn json_has_the_keys_and_the_verdict() {
        let good = Figures { lagged_shown: true, ..Figures::default() };
        let value: serde_json::Value = serde_json::from_str(&as_json(&good, &limits(&good))).expect("JSON");
        for key in [
            "idle_cpu_percent",
            "rss_mb",
            "first_frame_ms",
            "key_to_frame_p99_ms",
            "idle_bytes_per_s",
            "stream_cpu_percent",
        ] {
            assert!(value[key].is_number(), "{key}");
            assert!(value["limits"][key].is_number(), "{key}");
        }
        assert_eq!(value["met"], true);
        for bad in [Figures { rss_mb: 41.0, ..good.clone() }, Figures::default()] {
            assert!(!limits(&bad).iter().all(Limit::met));
        }
    }
}

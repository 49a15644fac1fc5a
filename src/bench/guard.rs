//! Watching the machine while it is measured: what would make the numbers worthless is said beside them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use crate::protocol::run::{Purpose, RequestRecord, RequestStatus};
use crate::protocol::sensor::Sensors;

/// Gives the latest readings of this machine. Called up to four times a second; must not block.
pub type SensorSource = Arc<dyn Fn() -> Sensors + Send + Sync>;

/// Pause between two looks at the readings.
const LOOK: Duration = Duration::from_millis(250);
/// Pause between two looks at the clock.
const TICK: Duration = Duration::from_millis(50);
/// Time for the first readings.
const FIRST: Duration = Duration::from_millis(1500);
/// The baseline may drift by this much from the start of the run to its end.
pub const DRIFT: f64 = 0.03;
/// Load of an idle machine, percent.
const IDLE_CPU: f64 = 25.0;
/// Load of an idle GPU, percent.
const IDLE_GPU: f64 = 10.0;
/// Ticks of the clock that may come late, and what late is.
const LATE_SHARE: f64 = 0.01;
const LATE: Duration = Duration::from_millis(10);

/// What is watched.
pub struct Guard {
    source: Option<SensorSource>,
    before: Option<Sensors>,
    notes: Arc<Mutex<Notes>>,
    watcher: JoinHandle<()>,
}

/// What was noticed.
#[derive(Debug, Default)]
struct Notes {
    /// Reasons for which clocks were held down, by GPU.
    throttle: BTreeMap<u32, BTreeSet<String>>,
    /// Least and greatest clock of a GPU at work, MHz.
    clocks: BTreeMap<u32, (u32, u32)>,
    /// Latest energy counters, summed, with the power and when they were read.
    energy: Option<Energy>,
    ticks: u64,
    late: u64,
    latest: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Energy {
    at: Instant,
    joules: f64,
    watts: f64,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.watcher.abort();
    }
}

impl Guard {
    /// Starts to watch; waits a moment for the first readings. Without a source only the clock is watched.
    pub async fn start(source: Option<SensorSource>) -> Self {
        let mut before = None;
        if let Some(source) = &source {
            let until = Instant::now() + FIRST;
            loop {
                let reading = source();
                let complete = reading.host.cpu_percent.is_some();
                before = Some(reading);
                if complete || Instant::now() >= until {
                    break;
                }
                tokio::time::sleep(LOOK / 2).await;
            }
        }
        let notes = Arc::new(Mutex::new(Notes::default()));
        if let Some(sensors) = &before {
            lock(&notes).look(sensors);
        }
        let watcher = tokio::spawn(watch(source.clone(), Arc::clone(&notes)));
        Self { source, before, notes, watcher }
    }

    /// Readings at the start.
    pub fn before(&self) -> Option<Sensors> {
        self.before.clone()
    }

    /// Readings now.
    pub fn now(&self) -> Option<Sensors> {
        self.source.as_ref().map(|source| source())
    }

    /// Energy of all GPUs up to now, joules: the counter, and since it was read the power. Absent where one of them has
    /// no counter.
    pub fn energy_j(&self) -> Option<f64> {
        let energy = lock(&self.notes).energy?;
        Some(energy.joules + energy.watts * energy.at.elapsed().as_secs_f64())
    }

    /// What a reader must know, so far.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if let Some(before) = &self.before {
            if let Some(load) = before.host.cpu_percent.filter(|load| *load > IDLE_CPU) {
                warnings.push(format!("the processor was {load:.0} % busy before the run began"));
            }
            for gpu in &before.gpus {
                if let Some(load) = gpu.util_percent.filter(|load| *load > IDLE_GPU) {
                    let index = gpu.index;
                    warnings.push(format!(
                        "GPU {index} was {load:.0} % busy before the run began: does another process use it?"
                    ));
                }
            }
        }
        let notes = lock(&self.notes);
        for (gpu, reasons) in &notes.throttle {
            let reasons: Vec<&str> = reasons.iter().map(String::as_str).collect();
            let clocks = notes.clocks.get(gpu).map(|(least, most)| format!(" ({least} to {most} MHz)"));
            let clocks = clocks.unwrap_or_default();
            warnings.push(format!("GPU {gpu}: clocks were held down: {}{clocks}", reasons.join(", ")));
        }
        if notes.ticks > 100 && notes.late as f64 > LATE_SHARE * notes.ticks as f64 {
            let share = 100.0 * notes.late as f64 / notes.ticks as f64;
            warnings.push(format!(
                "this program was not always scheduled in time ({share:.0} % of its ticks came more than {} ms late, the worst {} ms): single times may be off by as much",
                LATE.as_millis(),
                notes.latest.as_millis()
            ));
        }
        warnings
    }
}

fn lock(notes: &Mutex<Notes>) -> std::sync::MutexGuard<'_, Notes> {
    notes.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Notes {
    fn look(&mut self, sensors: &Sensors) {
        for gpu in &sensors.gpus {
            if !gpu.throttle.is_empty() {
                self.throttle.entry(gpu.index).or_default().extend(gpu.throttle.iter().cloned());
            }
            if let Some(clock) = gpu.sm_mhz.filter(|_| gpu.util_percent.is_some_and(|load| load > IDLE_GPU)) {
                let (least, most) = self.clocks.entry(gpu.index).or_insert((clock, clock));
                (*least, *most) = ((*least).min(clock), (*most).max(clock));
            }
        }
        let joules: Option<f64> = sensors.gpus.iter().map(|gpu| gpu.energy_j).sum();
        // Readings that have not changed are old ones: their time is that of the first look at them.
        if let Some(joules) = joules.filter(|joules| !sensors.gpus.is_empty() && joules.is_finite())
            && self.energy.is_none_or(|energy| energy.joules != joules)
        {
            let watts = sensors.gpus.iter().filter_map(|gpu| gpu.power_w).sum();
            self.energy = Some(Energy { at: Instant::now(), joules, watts });
        }
    }

    fn tick(&mut self, late: Duration) {
        self.ticks += 1;
        self.late += u64::from(late > LATE);
        self.latest = self.latest.max(late);
    }
}

async fn watch(source: Option<SensorSource>, notes: Arc<Mutex<Notes>>) {
    let mut looked = Instant::now();
    loop {
        let due = Instant::now() + TICK;
        tokio::time::sleep_until(due.into()).await;
        let reading = source.as_ref().filter(|_| looked.elapsed() >= LOOK).map(|source| source());
        let mut notes = lock(&notes);
        // Timers are exact to a millisecond.
        notes.tick(due.elapsed().saturating_sub(Duration::from_millis(1)));
        if let Some(reading) = reading {
            looked = Instant::now();
            notes.look(&reading);
        }
    }
}

/// How much slower (below 0) or faster the baseline was at the end: median speed over median speed, minus 1.
pub fn drift(records: &[RequestRecord]) -> Option<f64> {
    let well = |record: &&RequestRecord| {
        record.purpose == Purpose::Bracket && matches!(record.status, RequestStatus::Finished | RequestStatus::CutShort)
    };
    let measured = |record: &&RequestRecord| record.purpose == Purpose::Measure;
    let first = records.iter().filter(measured).map(|record| record.seq).min()?;
    let speeds = |after: bool, speed: fn(&RequestRecord) -> Option<f64>| {
        let bracket = records.iter().filter(well).filter(|record| (record.seq > first) == after);
        bracket.map(speed).collect::<Option<Vec<f64>>>().and_then(median)
    };
    let ratio = |speed: fn(&RequestRecord) -> Option<f64>| Some(speeds(true, speed)? / speeds(false, speed)?);
    // Answers of a single chunk have no decoding speed; the time of the whole is all there is.
    let decode = ratio(|record| record.decode_tok_s);
    let whole = || ratio(|record| (record.e2e_ms > 0.0).then(|| 1.0 / record.e2e_ms));
    decode.or_else(whole).filter(|ratio| ratio.is_finite()).map(|ratio| ratio - 1.0)
}

/// The drift as a warning, if it is one.
pub fn drift_warning(records: &[RequestRecord]) -> Option<String> {
    let drift = drift(records).filter(|drift| drift.abs() > DRIFT)?;
    let how = if drift < 0.0 { "slower" } else { "faster" };
    Some(format!(
        "unstable: the baseline was {:.1} % {how} at the end of the run than at its start",
        drift.abs() * 100.0
    ))
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 0 => Some(f64::midpoint(values[middle - 1], values[middle])),
        _ => Some(values[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::sensor::GpuReading;

    #[test]
    fn medians() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0]), Some(2.5));
    }

    #[tokio::test]
    async fn what_disturbs_is_noticed() {
        let gpu = |energy| GpuReading {
            index: 1,
            util_percent: Some(60.0),
            sm_mhz: Some(1400),
            throttle: vec!["power cap".into()],
            energy_j: energy,
            power_w: Some(100.0),
            ..GpuReading::default()
        };
        let mut sensors = Sensors { gpus: vec![gpu(Some(500.0))], ..Sensors::default() };
        sensors.host.cpu_percent = Some(80.0);
        let guard = Guard::start(Some(Arc::new(move || sensors.clone()))).await;
        let text = guard.warnings().join("\n");
        for part in ["80 % busy", "GPU 1 was 60 % busy", "power cap (1400 to 1400 MHz)"] {
            assert!(text.contains(part), "{text}");
        }
        let before = guard.energy_j().unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        let used = guard.energy_j().unwrap() - before;
        assert!((4.0..60.0).contains(&used), "{used} J in 50 ms or a bit more at 100 W");
        let mut half = Notes::default();
        half.look(&Sensors { gpus: vec![gpu(Some(1.0)), gpu(None)], ..Sensors::default() });
        assert!(half.energy.is_none(), "half a sum is no sum");
        let blind = Guard::start(None).await;
        assert!(blind.warnings().is_empty() && blind.energy_j().is_none() && blind.before().is_none());
    }
}

//! Sensor readings over time, one moment a second: gaps stay gaps, and a change of mode leaves a mark.

use std::collections::VecDeque;

use crate::protocol::mode::Mode;
use crate::protocol::sensor::{GpuReading, HostReading, Sensors};

use super::history::Column;

/// Moments kept: ten minutes.
const CAPACITY: usize = 600;
/// Milliseconds a moment stands for.
const STEP_MS: u64 = 1_000;

/// Processors whose load is kept; with more there are no charts of each.
pub const CORES: usize = 8;

/// Whose sensors are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// The server's.
    Server,
    /// This machine's, while the server tells nothing.
    Local,
}

/// One GPU at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct GpuMoment {
    /// NVML index.
    pub index: u32,
    /// Utilisation, percent.
    pub util: Option<f64>,
    /// Memory in use, share of 1.
    pub memory: Option<f64>,
    /// Power, watts.
    pub power: Option<f64>,
    /// SM clock, MHz.
    pub clock: Option<f64>,
    /// Temperature, °C.
    pub temp: Option<f64>,
}

/// All readings of one second.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Moment {
    /// The GPUs.
    pub gpus: Vec<GpuMoment>,
    /// Processor, percent of all cores.
    pub cpu: Option<f64>,
    /// Host memory in use, share of 1.
    pub memory: Option<f64>,
    /// The first processors, percent.
    pub cores: Vec<f64>,
    mode: Option<Mode>,
    mark: Option<String>,
}

impl Moment {
    /// The reading of a GPU by its NVML index.
    pub fn gpu(&self, index: u32) -> Option<&GpuMoment> {
        self.gpus.iter().find(|g| g.index == index)
    }
}

/// A server without sensors of its own sends this.
pub fn blank(sensors: &Sensors) -> bool {
    sensors.gpus.is_empty() && sensors.host == HostReading::default()
}

fn share(used: Option<u64>, total: Option<u64>) -> Option<f64> {
    let (used, total) = (used?, total.filter(|t| *t > 0)?);
    Some(used as f64 / total as f64)
}

fn moment(gpu: &GpuReading) -> GpuMoment {
    let finite = |v: Option<f64>| v.filter(|v| v.is_finite() && *v >= 0.0);
    GpuMoment {
        index: gpu.index,
        util: finite(gpu.util_percent),
        memory: share(gpu.mem_used, gpu.mem_total),
        power: finite(gpu.power_w),
        clock: gpu.sm_mhz.map(f64::from),
        temp: finite(gpu.temp_c),
    }
}

/// The ring.
#[derive(Debug, Clone, Default)]
pub struct SensorHistory {
    moments: VecDeque<Moment>,
    whose: Option<Whose>,
    at_ms: u64,
    mark: Option<String>,
}

impl SensorHistory {
    /// Takes readings in, if the last ones are a second old. Readings of another machine begin a new history.
    pub fn push(&mut self, sensors: &Sensors, whose: Whose, mode: Option<Mode>, now_ms: u64) {
        let since = now_ms.saturating_sub(self.at_ms);
        if self.whose == Some(whose) && since + STEP_MS / 10 < STEP_MS {
            return;
        }
        if self.whose != Some(whose) {
            // The server's own readings win over this machine's as soon as they come, and lose only when they stop.
            if self.whose == Some(Whose::Server) && since < 3 * STEP_MS {
                return;
            }
            self.moments.clear();
            self.mark = None;
        } else {
            for _ in 0..(since / STEP_MS).saturating_sub(2).min(CAPACITY as u64) {
                self.add(Moment { mode, ..Moment::default() });
            }
        }
        self.whose = Some(whose);
        self.at_ms = now_ms;
        let mark = self.mark.take();
        let cpu = sensors.host.cpu_percent.filter(|p| p.is_finite());
        let memory = share(sensors.host.mem_used, sensors.host.mem_total);
        let cores = if sensors.host.per_core.len() > CORES { Vec::new() } else { sensors.host.per_core.clone() };
        self.add(Moment { gpus: sensors.gpus.iter().map(moment).collect(), cpu, memory, cores, mode, mark });
    }

    fn add(&mut self, moment: Moment) {
        if self.moments.len() == CAPACITY {
            self.moments.pop_front();
        }
        self.moments.push_back(moment);
    }

    /// Marks the next moment as the beginning of a mode.
    pub fn mark(&mut self, label: String) {
        if !self.moments.is_empty() {
            self.mark = Some(label);
        }
    }

    /// Seconds kept.
    pub fn len(&self) -> usize {
        self.moments.len()
    }

    /// True before the first readings.
    pub fn is_empty(&self) -> bool {
        self.moments.is_empty()
    }

    /// The last `width` columns of a chart of `pick`, oldest first.
    pub fn columns(&self, width: usize, pick: impl Fn(&Moment) -> Option<f64>) -> Vec<Column> {
        let mut columns = VecDeque::new();
        for moment in self.moments.iter().rev() {
            if columns.len() >= width {
                break;
            }
            columns.push_front(pick(moment).map_or(Column::Gap, |v| Column::Value(v, moment.mode)));
            if let Some(label) = &moment.mark {
                columns.push_front(Column::Mark(label.clone(), moment.mode));
            }
        }
        while columns.len() > width {
            columns.pop_front();
        }
        columns.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(cpu: f64) -> Sensors {
        Sensors { gpus: Vec::new(), host: HostReading { cpu_percent: Some(cpu), ..HostReading::default() } }
    }

    #[test]
    fn a_silence_is_a_gap_and_a_new_mode_a_mark() {
        let mut history = SensorHistory::default();
        for (at, cpu) in [(10_000, 1.0), (10_250, 9.0), (11_000, 2.0), (16_000, 3.0)] {
            history.push(&reading(cpu), Whose::Server, None, at);
        }
        history.mark("dflash b8".into());
        history.push(&reading(4.0), Whose::Server, Some(Mode::Dflash), 17_000);
        let value = |v, m| Column::Value(v, m);
        let expected = [
            value(1.0, None),
            value(2.0, None),
            Column::Gap,
            Column::Gap,
            Column::Gap,
            value(3.0, None),
            Column::Mark("dflash b8".into(), Some(Mode::Dflash)),
            value(4.0, Some(Mode::Dflash)),
        ];
        assert_eq!(history.columns(20, |m| m.cpu), expected);
        assert_eq!(history.columns(2, |m| m.cpu), expected[6..]);
    }

    #[test]
    fn this_machine_stands_in_only_when_the_server_is_silent() {
        let mut history = SensorHistory::default();
        history.push(&reading(1.0), Whose::Local, None, 1_000);
        history.push(&reading(2.0), Whose::Server, None, 1_500);
        history.push(&reading(3.0), Whose::Local, None, 3_000);
        assert_eq!(history.columns(9, |m| m.cpu), [Column::Value(2.0, None)]);
        history.push(&reading(4.0), Whose::Local, None, 9_000);
        assert_eq!(history.columns(9, |m| m.cpu), [Column::Value(4.0, None)]);
    }
}

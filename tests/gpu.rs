//! Sensors, against a stand-in for the NVML library that is compiled here.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use spectop::gpu::Sampler;
use spectop::gpu::host::Host;
use spectop::gpu::nvml::{Gpus, LIB_VARIABLE};
use spectop::protocol::sensor::GpuReading;

/// Compiles the stand-in with these settings; `None` (and a note) on a machine without a C compiler.
fn fake(dir: &Path, settings: &[&str]) -> Option<PathBuf> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/nvml/fake_nvml.c");
    let lib = dir.join("libfake-nvml.so");
    let run = Command::new("cc")
        .args(["-shared", "-fPIC", "-O0", "-o"])
        .arg(&lib)
        .args(settings.iter().map(|setting| format!("-D{setting}")))
        .arg(source)
        .output();
    match run {
        Err(error) => {
            println!("skipped: no C compiler (cc: {error})");
            None
        }
        Ok(output) => {
            assert!(output.status.success(), "cc: {}", String::from_utf8_lossy(&output.stderr));
            Some(lib)
        }
    }
}

fn read(settings: &[&str]) -> Option<(Vec<GpuReading>, Option<String>)> {
    let dir = tempfile::tempdir().unwrap();
    let lib = fake(dir.path(), settings)?;
    Some(Gpus::new(Some(lib.into())).read())
}

#[test]
fn every_value_of_one_gpu() {
    let Some((gpus, reason)) = read(&["GPUS=1"]) else { return };
    assert_eq!(reason, None);
    assert_eq!(
        gpus,
        [GpuReading {
            index: 0,
            name: "Fake GPU A".into(),
            uuid: Some("GPU-0000-0".into()),
            util_percent: Some(40.0),
            mem_used: Some(2500),
            mem_total: Some(8000),
            power_w: Some(123.5),
            power_limit_w: Some(700.0),
            temp_c: Some(61.0),
            sm_mhz: Some(1980),
            throttle: vec!["power cap".into()],
            energy_j: Some(5000.25),
        }]
    );
}

#[test]
fn two_gpus_in_order() {
    let Some((gpus, _)) = read(&["GPUS=2"]) else { return };
    let seen: Vec<_> = gpus.iter().map(|gpu| (gpu.index, gpu.name.as_str(), gpu.util_percent)).collect();
    assert_eq!(seen, [(0, "Fake GPU A", Some(40.0)), (1, "Fake GPU B", Some(41.0))]);
}

#[test]
fn unsupported_values_are_absent_not_zero() {
    let Some((gpus, reason)) = read(&["GPUS=1", "UNSUPPORTED"]) else { return };
    assert_eq!(reason, None);
    assert_eq!(gpus, [GpuReading { index: 0, name: "Fake GPU A".into(), ..GpuReading::default() }]);
}

#[test]
fn an_old_driver_still_tells_its_memory() {
    let Some((gpus, _)) = read(&["GPUS=1", "NO_MEMORY_V2"]) else { return };
    assert_eq!((gpus[0].mem_used, gpus[0].mem_total), (Some(3000), Some(8000)));
}

#[test]
fn without_gpus_there_is_a_reason() {
    let Some((gpus, reason)) = read(&["GPUS=0"]) else { return };
    assert!(gpus.is_empty());
    assert_eq!(reason.as_deref(), Some("the NVIDIA driver reports no GPU"));

    let Some((gpus, reason)) = read(&["NO_DRIVER"]) else { return };
    assert!(gpus.is_empty());
    assert_eq!(reason.as_deref(), Some("the NVIDIA driver is not running"));

    let (gpus, reason) = Gpus::new(Some("/nonexistent/libnvidia-ml.so".into())).read();
    assert!(gpus.is_empty());
    assert!(reason.unwrap().starts_with("cannot load /nonexistent/libnvidia-ml.so: "));
}

#[test]
fn a_machine_without_the_driver_says_so() {
    let (gpus, reason) = Gpus::new(None).read();
    if gpus.is_empty() && !Path::new("/proc/driver/nvidia/version").exists() {
        assert_eq!(reason.as_deref(), Some("no NVIDIA driver (libnvidia-ml.so.1 not found)"));
    }
}

#[test]
fn a_gpu_lost_while_running_disappears_with_a_reason_and_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let flag = dir.path().join("lost");
    let setting = format!("LOST_FILE=\"{}\"", flag.display());
    let Some(lib) = fake(dir.path(), &["GPUS=2", &setting]) else { return };
    let mut gpus = Gpus::new(Some(lib.into()));
    assert_eq!(gpus.read().0.len(), 2);

    std::fs::write(&flag, "").unwrap();
    let (left, reason) = gpus.read();
    assert_eq!(left.iter().map(|gpu| gpu.index).collect::<Vec<_>>(), [1]);
    assert_eq!(reason.as_deref(), Some("GPU 0 was lost: it fell off the bus"));

    std::fs::remove_file(&flag).unwrap();
    let (all, reason) = gpus.read();
    assert_eq!((all.len(), reason), (2, None));
}

#[test]
fn a_driver_that_comes_later_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("libfake-nvml.so");
    let mut gpus = Gpus::new(Some(path.into())).retry_after(Duration::ZERO);
    assert!(gpus.read().1.is_some());
    if fake(dir.path(), &["GPUS=1"]).is_some() {
        assert_eq!(gpus.read().0.len(), 1);
    }
}

#[test]
fn host_reading_is_plausible() {
    let mut host = Host::new();
    assert_eq!(host.read().cpu_percent, None, "utilisation needs two reads");
    sleep(Duration::from_millis(250));
    let reading = host.read();
    assert!(reading.cores > 0);
    if cfg!(target_os = "linux") {
        assert_eq!(reading.per_core.len(), reading.cores);
        assert!((0.0..=100.5).contains(&reading.cpu_percent.unwrap()));
        assert!(reading.mem_used.unwrap() < reading.mem_total.unwrap());
        assert!((1 << 20..1 << 34).contains(&reading.rss.unwrap()), "{reading:?}");
    }
}

#[test]
fn a_look_at_the_host_costs_little() {
    let mut host = Host::new();
    host.read();
    let mut times: Vec<Duration> = (0..21)
        .map(|_| {
            let begin = Instant::now();
            host.read();
            begin.elapsed()
        })
        .collect();
    times.sort();
    // The processor counters are read at most five times a second; one such read is timed apart.
    sleep(Duration::from_millis(250));
    let begin = Instant::now();
    host.read();
    let with_cpu = begin.elapsed();
    println!("host look: median {:?} without and {with_cpu:?} with processor counters", times[10]);
    // 0.5 % of a core at one look a second is 5 ms; the median keeps a busy machine from failing the test.
    assert!(times[10] < Duration::from_millis(5), "{times:?}");
}

#[test]
fn sampler_reads_in_the_background_and_stops_when_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let gpus = Gpus::new(fake(dir.path(), &["GPUS=1"]).map(Into::into));
    let sampler = Sampler::spawn_with(Duration::from_millis(100), gpus).unwrap();
    let until = Instant::now() + Duration::from_secs(10);
    let sensors = loop {
        let sensors = sampler.latest();
        if sensors.host.cpu_percent.is_some() || Instant::now() > until {
            break sensors;
        }
        sleep(Duration::from_millis(20));
    };
    assert!(sensors.host.cores > 0);
    assert!(sensors.gpus.len() == 1 || sensors.host.no_gpu_reason.is_some());
    if cfg!(target_os = "linux") {
        assert!(sensor_threads() > 0);
        drop(sampler);
        let until = Instant::now() + Duration::from_secs(10);
        while sensor_threads() > 0 && Instant::now() < until {
            sleep(Duration::from_millis(20));
        }
        assert_eq!(sensor_threads(), 0);
    }
}

fn sensor_threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    tasks
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok())
        .filter(|name| name.trim() == "sensors")
        .count()
}

/// Runs only inside the child that the test below starts.
#[test]
fn child_reads_what_the_environment_names() {
    if std::env::var_os("SPECTOP_TEST_CHILD").is_some() {
        assert_eq!(Gpus::from_env().read().0[0].name, "Fake GPU A");
    }
}

#[test]
fn the_environment_can_name_the_library() {
    let dir = tempfile::tempdir().unwrap();
    let Some(lib) = fake(dir.path(), &["GPUS=1"]) else { return };
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_reads_what_the_environment_names"])
        .env(LIB_VARIABLE, lib)
        .env("SPECTOP_TEST_CHILD", "1")
        .output()
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
}

//! What was run, where, by what: everything that a reader needs to do it again or to doubt it.

use std::fmt::Write as _;

use crate::protocol::run::{Purpose, Run};
use crate::protocol::sensor::Sensors;
use crate::protocol::state::ModelInfo;

use super::super::svg::escape;
use super::super::words;

/// All of it.
pub fn section(run: &Run, out: &mut String) {
    out.push_str("<section id=\"provenance\">\n<h2>Provenance</h2>\n<dl>\n");
    let mut entry = |name: &str, value: &str| {
        if !value.is_empty() {
            let _ = writeln!(out, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(value));
        }
    };
    let (meta, plan, env) = (&run.meta, &run.plan, &run.env);
    let finished = meta.finished_ms.map_or_else(String::new, |ms| format!(" to {}", words::date(ms)));
    entry("run", &meta.id);
    entry("when", &format!("{}{finished}, {}", words::date(meta.started_ms), words::status(meta.status)));
    entry("made by", &format!("{}, format {}", meta.made_by, run.schema));
    entry("server", &format!("{} {}", env.server, env.server_version.as_deref().unwrap_or("(version unknown)")));
    entry("model", env.model.as_deref().unwrap_or("unknown"));
    entry("target", &env.target.as_ref().map_or_else(String::new, model));
    entry("drafter", &env.draft.as_ref().map_or_else(String::new, model));
    if let Some(device) = &env.device {
        entry(
            "device",
            &format!("{} ({}), {} kernels, {} threads", device.name, device.kind, device.kernels, device.threads),
        );
    }
    entry("client", &env.client);
    entry("sensors before", &env.sensors_before.as_ref().map_or_else(String::new, sensors));
    entry("sensors after", &env.sensors_after.as_ref().map_or_else(String::new, sensors));
    let suites: Vec<String> =
        plan.suites.iter().map(|s| format!("{}: {} prompts ({})", s.name, s.prompts, s.source)).collect();
    entry("suites", &suites.join("; "));
    let modes: Vec<String> = plan
        .modes
        .iter()
        .map(|mode| {
            let asked = serde_json::to_string(&mode.request).unwrap_or_default();
            let url = mode.url.as_deref().map_or_else(String::new, |url| format!(" at {url}"));
            format!("{} {asked}{url}", mode.label)
        })
        .collect();
    entry("modes", &modes.join("; "));
    let levels: Vec<String> = plan.concurrency.iter().map(ToString::to_string).collect();
    entry(
        "plan",
        &format!(
            "{} repeats, {} in flight, at most {} tokens, temperature {}, seed {}",
            plan.repeats,
            levels.join(" / "),
            plan.max_tokens,
            plan.temperature,
            plan.seed
        ),
    );
    entry("prefix cache", &plan.prefix_cache);
    entry("plan hash", &plan.hash);
    let count = |purpose| run.requests.iter().filter(|r| r.purpose == purpose).count();
    entry(
        "requests",
        &format!(
            "{} measured, {} warm-up, {} bracket; modes in a seeded random order for every prompt and repeat",
            count(Purpose::Measure),
            count(Purpose::Warmup),
            count(Purpose::Bracket)
        ),
    );
    entry("clock", "the client's monotonic clock, from sending to the arrival of each chunk");
    out.push_str("</dl>\n</section>\n");
}

fn model(model: &ModelInfo) -> String {
    format!(
        "{}, {}, {} layers, {} M weights, {}, {} MiB, from {}",
        model.name,
        model.architecture,
        model.layers,
        model.parameters / 1_000_000,
        model.dtype,
        model.bytes / (1 << 20),
        model.source
    )
}

fn sensors(s: &Sensors) -> String {
    let mut parts: Vec<String> = s
        .gpus
        .iter()
        .map(|gpu| {
            let mut text = format!("GPU {} {}", gpu.index, gpu.name);
            let values = [
                (gpu.sm_mhz.map(f64::from), " MHz"),
                (gpu.temp_c, " °C"),
                (gpu.power_w, " W"),
                (gpu.util_percent, " %"),
            ];
            for (value, unit) in values {
                if let Some(value) = value {
                    let _ = write!(text, ", {}{unit}", value.round());
                }
            }
            if !gpu.throttle.is_empty() {
                let _ = write!(text, ", held down: {}", gpu.throttle.join(", "));
            }
            text
        })
        .collect();
    let host = &s.host;
    let load = host.cpu_percent.map_or_else(String::new, |percent| format!(", {} % busy", percent.round()));
    if !host.cpu_name.is_empty() {
        parts.push(format!("{}, {} cores{load}", host.cpu_name, host.cores));
    }
    parts.join("; ")
}

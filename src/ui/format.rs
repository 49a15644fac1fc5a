//! Numbers for people: with a unit, in few characters, and "—" for what is not known.

/// What stands for an absent value.
pub const ABSENT: &str = "—";

fn finite(value: Option<f64>) -> Option<f64> {
    value.filter(|v| v.is_finite())
}

/// A rate or count in three to four characters: `9.87`, `98.7`, `412.6`, `9.8k`, `1.2M`.
pub fn short(value: Option<f64>) -> String {
    let Some(v) = finite(value) else { return ABSENT.into() };
    match v.abs() {
        a if a < 9.995 => format!("{v:.2}"),
        a if a < 999.95 => format!("{v:.1}"),
        a if a < 999_950.0 => format!("{:.1}k", v / 1e3),
        a if a < 999_950_000.0 => format!("{:.1}M", v / 1e6),
        _ => format!("{v:.3e}"),
    }
}

/// A whole number: `412`, `12.3k`.
pub fn count(n: u64) -> String {
    if n < 10_000 { n.to_string() } else { short(Some(n as f64)) }
}

/// Milliseconds: `2.41 ms`, `16.6 ms`, `61 ms`, `12.3 s`.
pub fn ms(value: Option<f64>) -> String {
    match finite(value) {
        None => ABSENT.into(),
        Some(v) if v >= 10_000.0 => format!("{} s", short(Some(v / 1e3))),
        Some(v) => format!("{} ms", ms_bare(v)),
    }
}

/// Milliseconds without the unit, for columns whose heading has it.
pub fn ms_bare(v: f64) -> String {
    if !v.is_finite() {
        return ABSENT.into();
    }
    match v.abs() {
        a if a < 0.995 => format!("{v:.2}").trim_start_matches('0').to_owned(),
        a if a < 9.995 => format!("{v:.2}"),
        a if a < 99.95 => format!("{v:.1}"),
        a if a < 99_999.5 => format!("{v:.0}"),
        _ => format!("{}s", short(Some(v / 1e3))),
    }
}

/// A share of 1 as `.97`, `1.0`, `.00`.
pub fn share(v: f64) -> String {
    if !v.is_finite() {
        return ABSENT.into();
    }
    if v >= 0.995 { "1.0".into() } else { format!(".{:02.0}", v.max(0.0) * 100.0) }
}

/// Percent: `93 %`.
pub fn percent(value: Option<f64>) -> String {
    finite(value).map_or_else(
        || format!("{ABSENT} %"),
        |v| if v.abs() < 10_000.0 { format!("{v:.0} %") } else { format!("{} %", short(Some(v))) },
    )
}

/// Bytes: `812 MiB`, `61.2 GiB`.
pub fn bytes(value: Option<u64>) -> String {
    const KIB: f64 = 1024.0;
    let Some(b) = value else { return ABSENT.into() };
    let b = b as f64;
    match b {
        _ if b < KIB => format!("{b:.0} B"),
        _ if b < KIB * KIB => format!("{:.0} KiB", b / KIB),
        _ if b < KIB.powi(3) => format!("{:.0} MiB", b / KIB.powi(2)),
        _ if b < KIB.powi(4) => format!("{:.1} GiB", b / KIB.powi(3)),
        _ => format!("{:.1} TiB", b / KIB.powi(4)),
    }
}

/// Used of total in the unit of the total: `3.1/7.8 GiB`.
pub fn used_of(used: Option<u64>, total: Option<u64>) -> String {
    let (Some(used), Some(total)) = (used, total) else {
        return match (used, total) {
            (Some(used), None) => bytes(Some(used)),
            (_, total) => format!("{ABSENT}/{}", bytes(total)),
        };
    };
    let whole = bytes(Some(total));
    let Some((_, unit)) = whole.split_once(' ') else { return whole };
    let scale = match unit {
        "TiB" => 1024f64.powi(4),
        "GiB" => 1024f64.powi(3),
        "MiB" => 1024f64.powi(2),
        "KiB" => 1024.0,
        _ => 1.0,
    };
    format!("{:.1}/{whole}", used as f64 / scale)
}

/// A duration as a clock: `02:14`, `1:02:14`, `3d 04:11`.
pub fn clock(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        return ABSENT.into();
    }
    let s = seconds as u64;
    let (d, h, m, s) = (s / 86_400, s / 3_600 % 24, s / 60 % 60, s % 60);
    match (d, h) {
        (0, 0) => format!("{m:02}:{s:02}"),
        (0, _) => format!("{h}:{m:02}:{s:02}"),
        _ => format!("{d}d {h:02}:{m:02}"),
    }
}

/// Time of day in UTC from milliseconds since the epoch: `11:02:07`.
pub fn time_of_day(at_ms: u64) -> String {
    let s = at_ms / 1000 % 86_400;
    format!("{:02}:{:02}:{:02}", s / 3_600, s / 60 % 60, s % 60)
}

/// Date and time in UTC from milliseconds since the epoch: `2026-12-01 11:20`.
pub fn date(at_ms: u64) -> String {
    // Days since 0000-03-01, so that a leap day is the last of its year; eras of 400 years repeat.
    let days = at_ms / 86_400_000 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02} {}", &time_of_day(at_ms)[..5])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units_and_absent_is_a_dash() {
        assert_eq!(short(None), "—");
        assert_eq!(short(Some(f64::NAN)), "—");
        assert_eq!(short(Some(412.62)), "412.6");
        assert_eq!(short(Some(9_812.0)), "9.8k");
        assert_eq!(short(Some(6.839)), "6.84");
        assert_eq!(ms(Some(61.2)), "61.2 ms");
        assert_eq!(ms(Some(612.2)), "612 ms");
        assert_eq!(ms(Some(12_345.0)), "12.3 s");
        assert_eq!(ms(None), "—");
        assert_eq!(share(0.974), ".97");
        assert_eq!(share(1.0), "1.0");
        assert_eq!(share(0.0), ".00");
        assert_eq!(used_of(Some(3 << 30), Some(8 << 30)), "3.0/8.0 GiB");
        assert_eq!(used_of(None, Some(8 << 30)), "—/8.0 GiB");
        assert_eq!(percent(None), "— %");
        assert_eq!(clock(134.0), "02:14");
        assert_eq!(clock(f64::INFINITY), "—");
        assert_eq!(time_of_day(39_727_000), "11:02:07");
        assert_eq!(date(0), "1970-01-01 00:00");
        assert_eq!(date(1_709_208_000_000), "2024-02-29 12:00");
        assert_eq!(date(1_796_123_999_000), "2026-12-01 11:19");
    }

    #[test]
    fn extremes_do_not_grow() {
        for v in [f64::MAX, f64::MIN, -1.0, 1e-300, 0.0, f64::INFINITY] {
            assert!(short(Some(v)).len() < 16, "{v}");
            assert!(percent(Some(v.clamp(-1e6, 1e6))).len() < 12);
            assert!(ms(Some(v.min(1e12))).len() < 16, "{v}");
        }
        assert!(bytes(Some(u64::MAX)).len() < 16);
    }
}

//! What Transformers offers to templates beyond Jinja: `raise_exception`, `strftime_now`, and JSON as Python writes it.

use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use minijinja::value::Kwargs;
use minijinja::{Environment, Error, ErrorKind, Value};
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

/// Registers them.
pub(super) fn add(environment: &mut Environment<'_>) {
    environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message))
    });
    environment.add_function("strftime_now", |format: String| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        strftime(&format, now)
    });
    environment.add_filter("tojson", |value: Value, options: Kwargs| -> Result<String, Error> {
        let indent: Option<usize> = options.get("indent")?;
        json(&value, indent)
            .map_err(|e| Error::new(ErrorKind::InvalidOperation, format!("cannot be written as JSON: {e}")))
    });
}

fn json(value: &Value, indent: Option<usize>) -> Result<String, serde_json::Error> {
    let mut out = Vec::new();
    match indent {
        None => value.serialize(&mut Serializer::with_formatter(&mut out, Spaced))?,
        Some(n) => {
            let spaces = " ".repeat(n.min(16));
            let formatter = PrettyFormatter::with_indent(spaces.as_bytes());
            value.serialize(&mut Serializer::with_formatter(&mut out, formatter))?;
        }
    }
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// Python's default separators.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }
    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }
    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];

/// The date formats that templates use, in UTC. Unknown ones are left as they are.
fn strftime(format: &str, seconds: u64) -> String {
    let (day, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, date) = civil(day);
    let (month_name, day_name) = (MONTHS[month as usize - 1], DAYS[(day % 7) as usize]);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let part = match chars.next() {
            Some('Y') => year.to_string(),
            Some('y') => format!("{:02}", year % 100),
            Some('m') => format!("{month:02}"),
            Some('d') => format!("{date:02}"),
            Some('B') => month_name.to_owned(),
            Some('b' | 'h') => month_name[..3].to_owned(),
            Some('A') => day_name.to_owned(),
            Some('a') => day_name[..3].to_owned(),
            Some('H') => format!("{hour:02}"),
            Some('I') => format!("{:02}", (hour + 11) % 12 + 1),
            Some('p') => if hour < 12 { "AM" } else { "PM" }.to_owned(),
            Some('M') => format!("{minute:02}"),
            Some('S') => format!("{:02}", second % 60),
            Some('F') => format!("{year}-{month:02}-{date:02}"),
            Some('T') => format!("{hour:02}:{minute:02}:{:02}", second % 60),
            Some('Z') => "UTC".to_owned(),
            Some('z') => "+0000".to_owned(),
            Some('%') | None => "%".to_owned(),
            Some(other) => format!("%{other}"),
        };
        out.push_str(&part);
    }
    out
}

/// Year, month and day of the month of a day since 1970-01-01, in the Gregorian calendar.
fn civil(day: u64) -> (u64, u64, u64) {
    let shifted = day + 719_468; // days since 0000-03-01: years that begin in March end with the leap day
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + u64::from(month <= 2), month, date)
}

#[cfg(test)]
mod tests {
    use super::strftime;

    #[test]
    fn dates_are_right() {
        assert_eq!(strftime("%d %b %Y", 0), "01 Jan 1970");
        assert_eq!(strftime("%Y-%m-%d %H:%M:%S %A", 951_827_696), "2000-02-29 12:34:56 Tuesday");
        assert_eq!(strftime("%B %y, %I %p %% %Q%", 1_798_761_599), "December 26, 11 PM % %Q%");
        assert_eq!(strftime("%F", 4_107_542_400), "2100-03-01");
    }
}

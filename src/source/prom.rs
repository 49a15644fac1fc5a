//! A reader for Prometheus text. It is lenient: a line that cannot be read is skipped, because one odd metric must not
//! hide all others.

use std::collections::BTreeMap;

/// One scrape.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scrape {
    rows: Vec<Row>,
}

#[derive(Debug, Clone, PartialEq)]
struct Row {
    name: String,
    labels: Vec<(String, String)>,
    value: f64,
}

impl Row {
    fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

impl Scrape {
    /// Reads a scrape. Histogram buckets are left out: nobody asks for them, and they are most of the text.
    pub fn parse(text: &str) -> Self {
        let rows = text.lines().filter_map(row).filter(|row| !row.name.ends_with("_bucket")).collect();
        Self { rows }
    }

    /// Whether a metric begins with this prefix.
    pub fn has_prefix(&self, prefix: &str) -> bool {
        self.rows.iter().any(|row| row.name.starts_with(prefix))
    }

    /// Sum over all label sets of the first of these names that is there; absent when none is.
    pub fn sum(&self, names: &[&str]) -> Option<f64> {
        self.values(names).map(|values| values.iter().sum())
    }

    /// Mean over all label sets of the first of these names that is there.
    pub fn mean(&self, names: &[&str]) -> Option<f64> {
        self.values(names).map(|values| values.iter().sum::<f64>() / values.len() as f64)
    }

    /// Sums by the number in a label, e.g. by `position`.
    pub fn by_number(&self, names: &[&str], label: &str) -> BTreeMap<usize, f64> {
        let mut sums = BTreeMap::new();
        for row in self.rows_of(names) {
            if let Some(number) = row.label(label).and_then(|text| text.parse().ok()) {
                *sums.entry(number).or_insert(0.0) += row.value;
            }
        }
        sums
    }

    /// The label's value in the first row of this name.
    pub fn label(&self, name: &str, label: &str) -> Option<&str> {
        self.rows.iter().find(|row| row.name == name).and_then(|row| row.label(label))
    }

    /// This scrape with only the first tensor- and pipeline-parallel rank: all ranks report the same work, so adding
    /// them up would count it several times. Data-parallel ranks share the work and stay.
    #[must_use]
    pub fn first_rank(mut self) -> Self {
        let first = |row: &Row, label| row.label(label).is_none_or(|rank| rank == "0");
        self.rows.retain(|row| first(row, "tp_rank") && first(row, "pp_rank"));
        self
    }

    fn values(&self, names: &[&str]) -> Option<Vec<f64>> {
        let values: Vec<f64> = self.rows_of(names).map(|row| row.value).collect();
        (!values.is_empty()).then_some(values)
    }

    fn rows_of<'a>(&'a self, names: &[&str]) -> impl Iterator<Item = &'a Row> {
        let name = names.iter().find(|name| self.rows.iter().any(|row| row.name == **name));
        let name = name.map(|name| (*name).to_owned());
        self.rows.iter().filter(move |row| name.as_deref() == Some(&row.name) && row.value.is_finite())
    }
}

/// `name{label="value",…} number [timestamp]`.
fn row(line: &str) -> Option<Row> {
    let line = line.trim();
    if line.starts_with('#') {
        return None;
    }
    let end = line.find(|c: char| c == '{' || c.is_whitespace())?;
    let (name, rest) = line.split_at(end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Vec::new(), rest),
    };
    let value = rest.split_whitespace().next()?.parse().ok()?;
    (!name.is_empty()).then(|| Row { name: name.to_owned(), labels, value })
}

/// The labels after `{`, and what follows `}`.
fn labels(mut rest: &str) -> Option<(Vec<(String, String)>, &str)> {
    let mut labels = Vec::new();
    loop {
        rest = rest.trim_start_matches(|c: char| c == ',' || c.is_whitespace());
        if let Some(rest) = rest.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, quoted) = rest.split_once('=')?;
        let mut value = String::new();
        let mut chars = quoted.trim_start().strip_prefix('"')?.chars();
        loop {
            match chars.next()? {
                '"' => break,
                '\\' => match chars.next()? {
                    'n' => value.push('\n'),
                    other => value.push(other),
                },
                other => value.push(other),
            }
        }
        labels.push((name.trim().to_owned(), value));
        rest = chars.as_str();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_a_line() {
        let scrape = Scrape::parse(
            "# HELP a text\n# TYPE a counter\na 1\nb{} 2.5\nc{x=\"1\",y=\"q\\\"}\\n\\\\\",} 3e2 1700000000\n\
             d{x=\"1\"} NaN\ne +Inf\nf\ng{x=\"1\" 7\nh{x=1} 7\n\n{x=\"1\"} 4\nlat_bucket{le=\"1\"} 9\nlat_count 9\n",
        );
        assert_eq!(scrape.sum(&["a"]), Some(1.0));
        assert_eq!(scrape.sum(&["b"]), Some(2.5));
        assert_eq!(scrape.sum(&["c"]), Some(300.0));
        assert_eq!(scrape.label("c", "y"), Some("q\"}\n\\"));
        for absent in ["d", "e", "f", "g", "h", "lat_bucket", "nowhere"] {
            assert_eq!(scrape.sum(&[absent]), None, "{absent}");
        }
        assert_eq!(scrape.sum(&["lat_count"]), Some(9.0));
    }

    #[test]
    fn engines_add_up_and_tensor_ranks_do_not() {
        let text =
            "n{dp_rank=\"0\",tp_rank=\"0\"} 1\nn{dp_rank=\"0\",tp_rank=\"1\"} 1\nn{dp_rank=\"1\",tp_rank=\"0\"} 4\n";
        let scrape = Scrape::parse(text);
        assert_eq!(scrape.sum(&["old", "n"]), Some(6.0));
        let scrape = scrape.first_rank();
        assert_eq!(scrape.sum(&["n"]), Some(5.0));
        assert_eq!(scrape.mean(&["n"]), Some(2.5));
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "\\PC*", line in "[a-z{}\",=\\\\ 0-9.]{0,40}") {
            Scrape::parse(&text);
            Scrape::parse(&line);
        }
    }
}

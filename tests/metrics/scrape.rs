//! A scrape, read as Prometheus reads it.

use std::collections::BTreeMap;

/// The samples of a scrape, by their whole text before the value.
#[derive(Debug, Clone, Default)]
pub struct Scrape {
    samples: BTreeMap<String, f64>,
    /// Of each family, its type.
    pub kinds: BTreeMap<String, String>,
}

impl Scrape {
    pub fn of(text: &str) -> Self {
        let mut scrape = Self::default();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                scrape.kinds.insert(name.to_owned(), kind.to_owned());
            } else if !line.starts_with('#') {
                let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line:?}"));
                let twice = scrape.samples.insert(series.to_owned(), value.parse().unwrap());
                assert_eq!(twice, None, "{series} stands twice");
            }
        }
        scrape
    }

    /// The sum of the samples of this name whose labels hold all of these.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let held: Vec<f64> = self.matching(name, labels).collect();
        assert!(!held.is_empty(), "no {name} {labels:?}");
        held.iter().sum()
    }

    pub fn has(&self, name: &str, labels: &[(&str, &str)]) -> bool {
        self.matching(name, labels).next().is_some()
    }

    fn matching<'a>(&'a self, name: &'a str, labels: &'a [(&str, &str)]) -> impl Iterator<Item = f64> + 'a {
        let is_meant = move |series: &str| {
            let (own, rest) = series.split_once('{').unwrap_or((series, ""));
            own == name && labels.iter().all(|(label, value)| rest.contains(&format!("{label}=\"{value}\"")))
        };
        self.samples.iter().filter(move |(series, _)| is_meant(series)).map(|(_, value)| *value)
    }

    /// How many samples there are.
    pub fn len(&self) -> usize {
        self.samples.len()
    }
}

//! docs/metrics.md is the program's own list.

use duewheel::metrics::{Described, Kind, Metrics, Scope, Unit, catalog};

use super::scrape::Scrape;

const PAGE: &str = include_str!("../../docs/metrics.md");

/// A row of the page, without its code marks: name, type, unit, labels, of, meaning.
fn rows() -> Vec<Vec<String>> {
    let rows =
        PAGE.lines().filter(|line| line.starts_with("| `duewheel_") || line.starts_with("| `process_"));
    let cells = |row: &str| {
        let inside = row.trim_start_matches('|').trim_end_matches('|').replace(['`', '*'], "");
        inside.split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    rows.map(cells).collect()
}

fn row_of(family: &Described) -> Vec<String> {
    let scope = match family.scope {
        Scope::Process => "P",
        Scope::Wheel => "W",
    };
    let unit = family.unit.map_or("", Unit::as_str);
    let cells = [family.name, family.kind.as_str(), unit, &family.labels.join(", "), scope, family.help];
    cells.map(str::to_owned).to_vec()
}

#[test]
fn the_page_lists_what_the_program_measures_and_nothing_else() {
    let program: Vec<Vec<String>> = catalog::ALL.into_iter().map(row_of).collect();
    for (page, program) in rows().iter().zip(&program) {
        assert_eq!(page, program);
    }
    assert_eq!(rows().len(), program.len());
}

#[test]
fn every_family_has_a_name_of_its_own_that_says_its_kind_and_unit() {
    let mut names: Vec<&str> = catalog::ALL.iter().map(|family| family.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), catalog::ALL.len());
    for family in catalog::ALL {
        assert_eq!(family.kind == Kind::Counter, family.name.ends_with("_total"), "{}", family.name);
        let stem = family.name.trim_end_matches("_total");
        if let Some(unit) = family.unit {
            assert!(stem.ends_with(unit.as_str()), "{}", family.name);
        }
        assert!(
            !family.labels.iter().any(|label| ["id", "order", "job", "instance", "le"].contains(label)),
            "{family:?}"
        );
    }
}

#[test]
fn both_forms_of_the_text_name_every_family_with_its_kind() {
    let metrics = Metrics::new();
    // A family without series is not written.
    for family in catalog::ALL {
        let values = vec!["x"; family.labels.len()];
        match family.kind {
            Kind::Counter => drop(metrics.counter(family, &values)),
            Kind::Gauge => drop(metrics.gauge(family, &values)),
            Kind::Histogram(_) => drop(metrics.histogram(family, &values)),
        }
    }
    let (classic, open) = (metrics.scrape(None), metrics.scrape(Some("application/openmetrics-text")));
    assert_eq!(classic.content_type, "text/plain; version=0.0.4; charset=utf-8");
    assert_eq!(open.content_type, "application/openmetrics-text; version=1.0.0; charset=utf-8");
    assert!(open.text.ends_with("# EOF\n") && !classic.text.contains("# EOF"));
    let (classic, open) = (Scrape::of(&classic.text), Scrape::of(&open.text));
    for family in catalog::ALL {
        let kind = family.kind.as_str();
        assert_eq!(classic.kinds.get(family.name).map(String::as_str), Some(kind), "{}", family.name);
        let stem =
            if family.kind == Kind::Counter { family.name.trim_end_matches("_total") } else { family.name };
        assert_eq!(open.kinds.get(stem).map(String::as_str), Some(kind), "{stem}");
    }
    assert_eq!(classic.kinds.len(), catalog::ALL.len(), "{:?}", classic.kinds);
}

//! deploy/systemd: units that systemd understands, that let the program talk back, and that give it nothing it does not need.

use std::collections::BTreeSet;

use super::{content, read, tool};

const UNITS: [&str; 2] = ["duewheel-worker.service", "duewheel-serve.service"];

fn unit(name: &str) -> String {
    read(&format!("deploy/systemd/{name}"))
}

/// The values of a key, in order.
fn values<'a>(unit: &'a str, key: &str) -> Vec<&'a str> {
    let lines = unit.lines().filter_map(|line| line.split_once('='));
    lines.filter(|(name, _)| *name == key).map(|(_, value)| value).collect()
}

#[test]
fn a_unit_waits_for_the_drain_and_is_watched() {
    for name in UNITS {
        let unit = unit(name);
        assert_eq!(values(&unit, "Type"), ["notify"], "{name}");
        assert_eq!(values(&unit, "DynamicUser"), ["yes"], "{name}");
        assert_eq!(values(&unit, "ProtectSystem"), ["strict"], "{name}");
        assert_eq!(values(&unit, "WatchdogSec").len(), 1, "{name}");
        let stop: u64 = values(&unit, "TimeoutStopSec")[0].parse().unwrap();
        // The defaults' grace and the webhook's timeout, and some seconds for the way out.
        assert!(name != "duewheel-worker.service" || stop >= 25 + 10 + 10, "{name}: {stop}");
        // Every credential is handed to the program as a file, under the same name.
        let credentials: BTreeSet<_> = values(&unit, "LoadCredential")
            .into_iter()
            .chain(values(&unit, "#LoadCredential"))
            .map(|value| value.split(':').next().unwrap())
            .collect();
        let handed: BTreeSet<_> = values(&unit, "Environment")
            .into_iter()
            .chain(values(&unit, "#Environment"))
            .filter_map(|value| Some(value.split_once("_FILE=%d/")?.1))
            .collect();
        assert_eq!(credentials, handed, "{name}");
    }
}

/// `systemd-analyze verify` reads the unit as systemd would; the program is where this build put it.
#[test]
fn systemd_understands_the_units_and_finds_them_tight() {
    let Some(analyze) = tool("systemd-analyze") else { return };
    let folder = tempfile::tempdir().unwrap();
    for name in UNITS {
        let unit = unit(name).replace("/usr/bin/duewheel", env!("CARGO_BIN_EXE_duewheel"));
        // The manual is not installed here.
        let unit = unit.replace("Documentation=man:duewheel(1)\n", "");
        std::fs::write(folder.path().join(name), unit).unwrap();
        let said = content(&analyze, folder.path(), &["verify", "--man=no", &format!("./{name}")]);
        let about_it: Vec<_> = said.lines().filter(|line| line.contains(name)).collect();
        assert!(about_it.is_empty(), "{about_it:?}");
        // 10 is exposed to everything, 0 to nothing; a service that needs the network cannot be at 0.
        content(
            &analyze,
            folder.path(),
            &["security", "--offline=true", "--threshold=15", &format!("./{name}")],
        );
    }
}

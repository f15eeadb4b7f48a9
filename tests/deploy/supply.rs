//! What may be built on: deny.toml lets in what we have, and nothing under a license or from a place that it does not name.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// cargo-deny, or the end of the test where this machine has none.
fn cargo_deny() -> Option<PathBuf> {
    let given = std::env::var_os("DUEWHEEL_CARGO_DENY").filter(|path| !path.is_empty()).map(PathBuf::from);
    let found = given.or_else(|| crate::rig::on_path("cargo-deny"));
    if found.is_none() {
        eprintln!("cargo-deny is not installed: deny.toml is not tried");
    }
    found
}

/// A crate that depends on one of this name and with these fields, under our rules; whether they let it in, and what they say.
fn judged(program: &Path, planted: &str, fields: &str) -> (bool, String) {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let package = |name: &str, rest: &str| {
        format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2021\"\n{rest}")
    };
    let needs =
        format!("[dependencies]\n{planted} = {{ path = \"planted\", version = \"0.1\" }}\n[workspace]\n");
    write("Cargo.toml", &package("shop", &format!("license = \"MIT\"\n{needs}")));
    write("src/lib.rs", "");
    write("planted/Cargo.toml", &package(planted, fields));
    write("planted/src/lib.rs", "");
    let mut command = Command::new(program);
    command.args(["--offline", "--manifest-path"]).arg(folder.path().join("Cargo.toml"));
    command.arg("--config").arg(root().join("deny.toml")).args(["check", "bans", "licenses", "sources"]);
    let ran = command.output().unwrap();
    (ran.status.success(), String::from_utf8_lossy(&ran.stderr).into_owned())
}

#[test]
fn a_dependency_under_a_license_that_is_not_named_or_that_is_kept_out_turns_it_red() {
    let Some(program) = cargo_deny() else { return };
    let (good, said) = judged(&program, "planted", "license = \"MIT OR Apache-2.0\"\n");
    assert!(good, "{said}");
    for (fields, why) in [
        ("license = \"GPL-3.0-only\"\n", "GPL-3.0"),
        ("license = \"AGPL-3.0-only\"\n", "AGPL-3.0"),
        ("", "unlicensed"),
    ] {
        let (good, said) = judged(&program, "planted", fields);
        assert!(!good && said.contains(why), "{fields}: {said}");
    }
    let (good, said) = judged(&program, "rsa", "license = \"MIT\"\n");
    assert!(!good, "a crate that is kept out: {said}");
}

#[test]
fn the_advisories_that_were_looked_at_stand_in_the_rules_with_reason_and_date() {
    let rules = std::fs::read_to_string(root().join("deny.toml")).unwrap();
    for advisory in ["RUSTSEC-2024-0363", "RUSTSEC-2023-0071", "RUSTSEC-2025-0012"] {
        assert!(rules.contains(advisory), "{advisory}");
    }
    assert!(rules.contains("yanked = \"deny\""));
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).unwrap();
    for crate_name in ["rsa", "backoff", "openssl-sys", "native-tls", "aws-lc-rs"] {
        assert!(!lock.contains(&format!("name = \"{crate_name}\"\n")), "{crate_name} is in Cargo.lock");
    }
    let sources = lock.lines().filter(|line| line.starts_with("source = "));
    assert!(sources.clone().count() > 100);
    for source in sources {
        assert_eq!(source, "source = \"registry+https://github.com/rust-lang/crates.io-index\"");
    }
}

//! deploy/docker: an image without root and shell, and a composition that keeps what Redis is told.

use serde_json::Value;

use super::{content, read, root};

const DOCKERFILE: &str = "deploy/docker/Dockerfile";

#[test]
fn the_image_runs_without_root_and_is_told_to_drain() {
    let text = read(DOCKERFILE);
    let instructions: Vec<_> =
        text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
    let last_stage = instructions.iter().rposition(|line| line.starts_with("FROM ")).unwrap();
    assert!(last_stage > 0, "one stage only");
    let last_stage = &instructions[last_stage..];
    assert!(last_stage.contains(&"USER 65532:65532"), "{last_stage:?}");
    assert!(last_stage.contains(&"STOPSIGNAL SIGTERM"), "{last_stage:?}");
    assert!(
        !last_stage.iter().any(|line| line.starts_with("RUN") || line.starts_with("ADD")),
        "{last_stage:?}"
    );
    let entry = last_stage.iter().find_map(|line| line.strip_prefix("ENTRYPOINT ")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(entry).unwrap(), serde_json::json!(["/usr/bin/duewheel"]));
    for label in ["title", "description", "licenses", "version", "revision"] {
        assert!(text.contains(&format!("org.opencontainers.image.{label}=")), "{label}");
    }
    // The compiler is the oldest that the manifest allows.
    let manifest = read("Cargo.toml");
    let version = manifest.lines().find_map(|line| line.strip_prefix("rust-version = ")).unwrap();
    assert!(text.contains(&format!("FROM rust:{}-", version.trim_matches('"'))), "{version}");
}

#[test]
fn the_image_is_made_of_everything_that_the_build_names() {
    let ignored = read("deploy/docker/Dockerfile.dockerignore");
    let kept: Vec<_> = ignored.lines().filter_map(|line| line.strip_prefix('!')).collect();
    for path in &kept {
        assert!(root().join(path).exists(), "{path} is kept and not there");
    }
    let manifest = read("Cargo.toml");
    let named = manifest.lines().filter_map(|line| {
        let (key, value) = line.split_once(" = ")?;
        matches!(key, "path" | "readme").then(|| value.trim_matches('"'))
    });
    for path in named {
        let top = path.split('/').next().unwrap();
        assert!(kept.contains(&top), "Cargo.toml names {path}, which the image's build does not get");
    }
}

#[test]
fn hadolint_is_content() {
    let Some(hadolint) = crate::rig::on_path("hadolint") else { return };
    content(&hadolint, &root(), &[DOCKERFILE]);
}

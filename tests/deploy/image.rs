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
    // The compiler is none that the manifest forbids.
    let minor = |version: &str| version.split('.').nth(1).unwrap().parse::<u32>().unwrap();
    let manifest = read("Cargo.toml");
    let oldest = manifest.lines().find_map(|line| line.strip_prefix("rust-version = ")).unwrap();
    let compiler = text.lines().find_map(|line| line.strip_prefix("FROM rust:")?.split('-').next()).unwrap();
    assert!(minor(compiler) >= minor(oldest.trim_matches('"')), "{compiler} < {oldest}");
}

#[test]
fn the_image_is_made_of_everything_that_the_build_names() {
    let ignored = read("deploy/docker/Dockerfile.dockerignore");
    let kept: Vec<_> = ignored.lines().filter_map(|line| line.strip_prefix('!')).collect();
    for path in &kept {
        assert!(root().join(path).exists(), "{path} is kept and not there");
    }
    let is_kept = |path: &str| kept.iter().any(|kept| path == *kept || path.starts_with(&format!("{kept}/")));
    let manifest = read("Cargo.toml");
    let named = manifest.lines().filter_map(|line| {
        let (key, value) = line.split_once(" = ")?;
        matches!(key, "path" | "readme").then(|| value.trim_matches('"'))
    });
    for path in named {
        assert!(is_kept(path), "Cargo.toml names {path}, which the image's build does not get");
    }
    // Where the templates of the page are, and what the code takes in when it is compiled.
    assert!(is_kept("askama.toml"));
    let mut taken_in = 0;
    for (file, text) in sources(&root().join("src")) {
        for path in text.split('"').filter(|text| text.starts_with("../") && text.contains('.')) {
            let mut place = file.parent().unwrap().strip_prefix(root()).unwrap().to_owned();
            for part in path.split('/') {
                if part == ".." { assert!(place.pop()) } else { place.push(part) }
            }
            let place = place.to_str().unwrap();
            assert!(
                is_kept(place),
                "{} takes in {place}, which the image's build does not get",
                file.display()
            );
            taken_in += 1;
        }
    }
    assert!(taken_in >= 2, "the scripts and the manual");
}

/// Every file of Rust in a folder, with its text.
fn sources(folder: &std::path::Path) -> Vec<(std::path::PathBuf, String)> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| match path.extension() {
            _ if path.is_dir() => sources(&path),
            Some(end) if end == "rs" => vec![(path.clone(), std::fs::read_to_string(&path).unwrap())],
            _ => Vec::new(),
        })
        .collect()
}

/// Ports, addresses and times of the composition are those of the image and of the program.
#[test]
fn the_composition_listens_where_the_image_says_and_asks_the_program_itself_how_it_is() {
    let (compose, image) = (read("deploy/docker/compose.yaml"), read(DOCKERFILE));
    let defaults = read("src/config/default.toml");
    let exposed = image.lines().find_map(|line| line.strip_prefix("EXPOSE ")).unwrap();
    let [api, metrics] = exposed.split(' ').collect::<Vec<_>>().try_into().unwrap();
    for (port, key) in [(api, "listen = \"127.0.0.1:"), (metrics, "#listen = \"127.0.0.1:")] {
        assert!(defaults.lines().any(|line| line == format!("{key}{port}\"")), "{port} is not the default");
    }
    let said = |words: &str| assert!(compose.contains(words), "{words}");
    said(&format!("command: [worker, --metrics, \"0.0.0.0:{metrics}\"]"));
    said(&format!("command: [serve, --listen, \"0.0.0.0:{api}\", --metrics, \"0.0.0.0:{metrics}\"]"));
    said(&format!("ports: [\"127.0.0.1:{api}:{api}\"]"));
    said(&format!("test: [CMD, /usr/bin/duewheel, probe, --at, \"127.0.0.1:{metrics}\"]"));
    let version = env!("CARGO_PKG_VERSION");
    said(&format!("image: duewheel:{version}"));
    assert!(image.contains(&format!("ARG VERSION={version}\n")), "{version}");
    // The files that it mounts: one comes along, one is made by who runs it, and neither ends in a layer or a commit.
    assert!(root().join("deploy/docker/duewheel.toml").exists());
    assert!(read(".gitignore").lines().any(|line| line == "/deploy/docker/tokens"));
}

#[test]
fn hadolint_is_content() {
    let Some(hadolint) = crate::rig::on_path("hadolint") else { return };
    content(&hadolint, &root(), &[DOCKERFILE]);
}

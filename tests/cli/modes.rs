//! What the program writes is nobody else's to read, whatever the umask.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::rig::cli::Ran;
use crate::rig::redis::RedisServer;
use crate::rig::shop::{Kind, Shop};
use crate::rig::wheel::{after, enqueue};
use crate::rig::worker::{Fleet, Plan};

/// The same command where a new file would be everybody's.
fn without_a_umask(command: &Command) -> Command {
    let mut loose = Command::new("sh");
    loose.args(["-c", r#"umask 000; exec "$@""#, "sh"]).arg(command.get_program()).args(command.get_args());
    loose.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    loose.current_dir(command.get_current_dir().unwrap());
    loose
}

/// The files below a folder, with their modes.
fn files(folder: &Path) -> Vec<(PathBuf, u32)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let meta = std::fs::symlink_metadata(&path).unwrap();
        if meta.is_dir() {
            found.extend(files(&path));
        } else {
            found.push((path, meta.mode() & 0o777));
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_the_program_writes_is_closed_to_others_even_without_a_umask() {
    let redis = RedisServer::shared();
    let shop = Shop::open(Kind::Sqlite, 1).await;
    shop.orders(1..=5, -1000, &[(0, 1)]).await;
    let fleet = Fleet::new(redis, &Plan::new(redis.url()).shards(2).closing(&shop)).await;
    for n in 1..=5 {
        enqueue(&fleet.wheel, &n.to_string(), after(0)).await.unwrap();
    }
    let (out, strays) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = |name: &str| out.path().join(name).display().to_string();
    // Some of it was there before, open to everybody.
    for name in ["there.ndjson", "there.json"] {
        std::fs::write(out.path().join(name), "old").unwrap();
        std::fs::set_permissions(out.path().join(name), std::fs::Permissions::from_mode(0o666)).unwrap();
    }
    let database = shop.url.trim_start_matches("sqlite://");
    for (path, _) in files(Path::new(database).parent().unwrap()) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    for args in [
        &["worker", "--until-idle"][..],
        &["export", "--out", &path("new.ndjson")],
        &["export", "--out", &path("there.ndjson")],
        &["reconcile", "--out", &path("new.md")],
        &["reconcile", "--json", "--out", &path("there.json")],
        &["check"],
        &["config"],
        &["list"],
    ] {
        let mut command = fleet.command();
        command.args(args).env("HOME", strays.path()).env("TMPDIR", strays.path());
        let ran = tokio::task::block_in_place(|| Ran::of(&mut without_a_umask(&command)));
        assert!([0, 3].contains(&ran.code), "{args:?}: {ran:?}");
    }
    let written = files(out.path());
    assert_eq!(written.len(), 4, "{written:?}");
    assert!(
        written.iter().all(|(path, mode)| *mode == 0o600 && std::fs::metadata(path).unwrap().len() > 3),
        "{written:?}"
    );
    // What SQLite puts beside the shop's file, and what nobody asked for.
    let beside = files(Path::new(database).parent().unwrap());
    assert!(beside.iter().all(|(_, mode)| mode & 0o077 == 0), "{beside:?}");
    assert_eq!(files(strays.path()), []);
    assert_eq!(fleet_folder(&fleet), ["duewheel.toml"], "a file beside the configuration");
}

fn fleet_folder(fleet: &Fleet) -> Vec<String> {
    let folder = fleet.command();
    let found = files(folder.get_current_dir().unwrap());
    found.iter().map(|(path, _)| path.file_name().unwrap().to_string_lossy().into_owned()).collect()
}

#[test]
fn an_export_to_a_pipe_leaves_the_pipe_as_it_is() {
    let cli = crate::rig::cli::Cli::new(RedisServer::shared());
    cli.run(&["enqueue", "o-1", "--in", "1h"]).ends(0);
    let ran = cli.run(&["export", "--out", "/dev/stdout"]).ends(0);
    assert!(ran.stdout.contains("\"o-1\""), "{ran:?}");
}

//! A wall clock that a test sets, preloaded into a server of its own.

use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use super::redis::RedisOptions;

/// The clock of one server.
pub struct ClockShim {
    file: tempfile::NamedTempFile,
}

impl ClockShim {
    /// A clock that is right until it is set.
    pub fn new() -> Self {
        let shim = Self { file: tempfile::NamedTempFile::new().expect("a temp file") };
        shim.set(0);
        shim
    }

    /// Options of a server that lives by this clock.
    pub fn redis(&self) -> RedisOptions {
        RedisOptions { env: self.environment(), ..RedisOptions::default() }
    }

    /// What makes a process live by this clock.
    pub fn environment(&self) -> Vec<(String, String)> {
        let text = |path: &std::path::Path| path.to_str().expect("a path in UTF-8").to_owned();
        vec![
            ("LD_PRELOAD".to_owned(), text(library())),
            ("DUEWHEEL_TEST_CLOCK".to_owned(), text(self.file.path())),
        ]
    }

    /// Sets the clock to so many milliseconds ahead of the true one.
    pub fn set(&self, ahead_ms: i64) {
        self.file.as_file().write_all_at(&(ahead_ms * 1000).to_ne_bytes(), 0).expect("a file of eight bytes");
    }
}

/// The shim, compiled once. Rust's own toolchain needs a `cc`, so it is there.
fn library() -> &'static PathBuf {
    static LIBRARY: OnceLock<(PathBuf, tempfile::TempDir)> = OnceLock::new();
    let (library, _) = LIBRARY.get_or_init(|| {
        let dir = tempfile::tempdir().expect("a temp dir");
        let (source, library) = (dir.path().join("clock_shim.c"), dir.path().join("clock_shim.so"));
        std::fs::write(&source, include_str!("clock_shim.c")).expect("a file");
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"])
            .args([&library, &source])
            .output()
            .expect("cc, which Rust's own linker is too");
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        (library, dir)
    });
    library
}

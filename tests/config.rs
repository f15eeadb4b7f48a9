//! Configuration: every value has one source that can be named, and every mistake is reported, all of them together.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use duewheel::config::{Config, Draft, Environment, HookSettings};
use duewheel::error::Error;
use secrecy::ExposeSecret as _;

/// A folder with a `duewheel.toml` of this text.
fn folder(text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("duewheel.toml"), text.as_bytes());
    folder
}

fn write(path: &Path, bytes: &[u8]) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::write(path, bytes).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

fn resolve_with(
    text: &str,
    environment: &[(&str, &str)],
    flags: &[(&'static str, String)],
) -> Result<Config, String> {
    let folder = folder(text);
    resolve_file(&folder.path().join("duewheel.toml"), environment, flags)
}

fn resolve_file(
    path: &Path,
    environment: &[(&str, &str)],
    flags: &[(&'static str, String)],
) -> Result<Config, String> {
    let draft = Draft::gather(Some(path), &Environment::of(environment), flags, None);
    let folder = format!("{}/", path.parent().unwrap().display());
    Config::resolve(draft).map_err(|e| match e {
        Error::Config(problems) => problems.join("\n").replace(&folder, ""),
        other => panic!("not a configuration error: {other}"),
    })
}

fn resolve(text: &str) -> Result<Config, String> {
    resolve_with(text, &[], &[])
}

fn defaults() -> Config {
    Config::resolve(Draft::gather(None, &Environment::default(), &[], None)).unwrap()
}

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

#[test]
fn the_embedded_file_says_what_the_library_does() {
    use duewheel::shard::WheelName;
    use duewheel::wheel::{RedisSettings, WheelSettings};
    use duewheel::worker::WorkerSettings;
    let config = defaults();
    let name = WheelName::new("orders").unwrap();
    assert_eq!(format!("{:?}", config.wheels[0].wheel), format!("{:?}", WheelSettings::new(name)));
    assert_eq!(format!("{:?}", config.wheels[0].worker), format!("{:?}", WorkerSettings::default()));
    let redis = RedisSettings::new("redis://127.0.0.1:6379/0".into());
    assert_eq!(format!("{:?}", config.redis), format!("{redis:?}"));
    assert!(matches!(config.wheels[0].hook, HookSettings::None));
}

#[cfg(feature = "webhook")]
#[test]
fn the_embedded_file_says_what_the_webhook_hook_does() {
    use duewheel::hook::webhook::WebhookSettings;
    let url = "https://shop.example/close";
    let config =
        resolve(&format!("[wheel.a.hook]\nkind = 'webhook'\nurl = '{url}'\nsecret = '{SECRET}'")).unwrap();
    let HookSettings::Webhook(settings) = &config.wheels[0].hook else { panic!("another hook") };
    let mut expected = WebhookSettings::new(url);
    expected.secrets.clone_from(&settings.secrets);
    assert_eq!(format!("{settings:?}"), format!("{expected:?}"));
    assert_eq!(settings.secrets[0].secret.expose_secret(), SECRET);
}

#[cfg(feature = "sql")]
const SQL: &str = "[wheel.a.hook]\nkind = 'sql'\nurl = 'sqlite://shop.db'\ntable = 'orders'\nguard = \"status = 'unpaid'\"\n\
                   set = \"status = 'closed'\"\nclose_at = 'pay_by'\nstate = 'status'\n";

#[cfg(feature = "sql")]
#[test]
fn the_embedded_file_says_what_the_sql_hook_does() {
    use duewheel::hook::sql::SqlSettings;
    let config = resolve(SQL).unwrap();
    let HookSettings::Sql(settings) = &config.wheels[0].hook else { panic!("another hook") };
    let expected = SqlSettings {
        urls: settings.urls.clone(),
        table: "orders".into(),
        guard: "status = 'unpaid'".into(),
        set: "status = 'closed'".into(),
        close_at: Some("pay_by".into()),
        state: Some("status".into()),
        ..SqlSettings::default()
    };
    assert_eq!(format!("{settings:?}"), format!("{expected:?}"));
}

#[cfg(feature = "sql")]
#[test]
fn the_embedded_file_says_what_feed_and_sweep_do() {
    use duewheel::sweep::{FeedSettings, SweepSettings};
    let config = defaults();
    assert_eq!(format!("{:?}", config.wheels[0].sweep), format!("{:?}", SweepSettings::default()));
    assert_eq!(format!("{:?}", config.wheels[0].feed), format!("{:?}", FeedSettings::default()));
    let reconcile = duewheel::sweep::ReconcileSettings::default();
    assert_eq!(format!("{:?}", config.wheels[0].reconcile), format!("{reconcile:?}"));
}

#[cfg(feature = "sql")]
#[test]
fn rules_are_sections_of_their_own_and_checked_before_anything_runs() {
    let rules = "[wheel.a.reconcile]\nevery = '6h'\n[wheel.a.reconcile.rules.negative]\nlevel = 'high'\nsql = 'SELECT id FROM o WHERE amount < 0'\n\
                 [wheel.a.reconcile.rules.old]\nsql = 'WITH x AS (SELECT 1 AS id) SELECT id FROM x'\n";
    let config = resolve(&format!("{SQL}{rules}")).unwrap();
    let found: Vec<_> =
        config.wheels[0].reconcile.rules.iter().map(|r| (r.name.as_str(), r.level.as_str())).collect();
    assert_eq!(found, [("negative", "high"), ("old", "medium")]);
    for (text, why) in [
        (
            "[wheel.a.reconcile.rules.x]\nsql = 'DELETE FROM o'",
            "wheel.a.reconcile.rules.x.sql: expected one SELECT or WITH",
        ),
        ("[wheel.a.reconcile.rules.x]\nlevel = 'high'", "wheel.a.reconcile.rules.x.sql: is missing"),
        (
            "[wheel.a.reconcile.rules.x]\nlevel = 'hi'\nsql = 'SELECT 1'",
            "wheel.a.reconcile.rules.x.level: \"hi\": expected low, medium or high",
        ),
        (
            "[wheel.a.reconcile.rules.x]\nsql = 'SELECT 1'\nlvl = 'low'",
            "unknown key wheel.a.reconcile.rules.x.lvl",
        ),
        (
            "[wheel.a.reconcile]\npaid_after_close = 'SELECT 1 INTO x'",
            "wheel.a.reconcile.paid_after_close: expected a query that only reads",
        ),
        ("[wheel.a.reconcile]\ngrace = '2h'", "wheel.a.reconcile.grace: \"2h\": expected 0s to 1h"),
        ("[wheel.a.reconcile]\nrule = 1", "unknown key wheel.a.reconcile.rule"),
    ] {
        let problems = resolve(&format!("{SQL}{text}\n")).unwrap_err().to_string();
        assert!(problems.contains(why), "{text}: {problems}");
    }
}

#[cfg(feature = "sql")]
#[test]
fn feed_and_sweep_are_checked_against_the_table_of_their_hook() {
    let feed = "[wheel.a.feed]\ntime = 'made_at'\nwindow_by = 'kind'\nwindow = '2h'\n[wheel.a.feed.windows]\nflash = '60m'\n";
    let sweep = "[wheel.a.sweep]\nevery = '*/10 * * * *'\nurl = 'sqlite://replica.db'\n";
    let config = resolve(&format!("{SQL}{sweep}{feed}")).unwrap();
    let wheel = &config.wheels[0];
    assert_eq!((wheel.sweep.every.to_string().as_str(), wheel.sweep.urls.len()), ("*/10 * * * *", 1));
    let channel =
        "[wheel.a.channel.wechat]\nmin_age = '5m'\n[wheel.a.feed]\ntime = 'made_at'\nchannel = 'pay'\n";
    let both = resolve(&format!("{SQL}{channel}")).unwrap().wheels.remove(0);
    assert_eq!(
        (both.sweep.channel.as_deref(), both.sweep.created_at.as_deref()),
        (Some("pay"), Some("made_at"))
    );
    assert_eq!(both.sweep.channels.by_name.len(), 1);
    let hour = Duration::from_secs(3600);
    assert_eq!((wheel.feed.window, wheel.feed.windows.get("flash")), (Some(2 * hour), Some(&hour)));
    for (text, why) in [
        (
            "[wheel.a.sweep]\nevery = '0 3 * * 1'",
            "wheel.a.sweep.every: \"0 3 * * 1\": expected weekdays by name",
        ),
        ("[wheel.a.sweep]\nevery = '5'", "wheel.a.sweep.every: \"5\": expected a duration"),
        (
            "[wheel.a.sweep]\nurl = 'postgres://h/x'",
            "wheel.a.sweep.url: expected replicas of the hook's kind",
        ),
        ("[wheel.a.sweep]\npayload = 'a; b'", "wheel.a.sweep.payload: expected one statement"),
        ("[wheel.a.sweep]\ntime = 'a b'", "wheel.a.sweep.time: \"a b\": expected a name"),
        ("[wheel.a.sweep]\nevry = '5m'", "unknown key wheel.a.sweep.evry; did you mean every?"),
        (
            "[wheel.a.feed]\ntime = 'made_at'\nwindow = '1h'\nclose_at = 'pay_by'",
            "wheel.a.feed.window: expected none beside close_at",
        ),
        (
            "[wheel.a.feed]\ntime = 'made_at'\n[wheel.a.feed.windows]\na = '1h'",
            "wheel.a.feed.window_by: is missing",
        ),
        (
            "[wheel.a.feed]\ntime = 'made_at'\n[wheel.a.feed.windows]\na = '1'",
            "wheel.a.feed.windows.a: \"1\": 1 has no unit",
        ),
        (
            "[wheel.a.feed]\ntime = 'made_at'\ntable = 'outbox'",
            "wheel.a.feed.close_at: is missing, and so is window",
        ),
        (
            "[wheel.a.feed]\ntime = 'made_at'\nchannel = 'pay'",
            "wheel.a.feed.channel: the wheel has no channel whose rules could hold",
        ),
        ("[wheel.a.feed]\nchannel = 'pay'", "wheel.a.feed.channel: expected time beside it"),
    ] {
        let problems = resolve(&format!("{SQL}{text}")).expect_err(text);
        assert!(problems.contains(why), "{text}:\n{problems}");
    }
}

#[test]
fn every_key_is_explained_in_the_embedded_file() {
    let mut text = String::new();
    let mut explained = false;
    for line in duewheel::config::DEFAULT.lines() {
        if line.starts_with("# ") {
            explained = true;
        } else if line.trim().is_empty() || line.starts_with('[') {
            explained = line.starts_with('[') && explained;
        } else {
            // A run of keys may share the comment above it.
            assert!(explained, "no comment above: {line}");
            let _ = writeln!(text, "{line}");
        }
    }
    for key in [
        "shards",
        "slot_width",
        "lease_margin",
        "backoff_jitter",
        "retry_after_cap",
        "statement_timeout",
        "#guard",
        "#secret_file",
    ] {
        assert!(text.lines().any(|l| l.starts_with(&format!("{key} ="))), "{key} is not in the file");
    }
}

#[test]
fn a_stronger_source_wins_and_is_named() {
    let file = "[redis]\nurl = 'redis://file:1'\npool_size = 3\n[wheel.orders]\nshards = 4\n";
    let source = |config: &Config, key: &str| {
        let shown = config.shown.iter().find(|s| s.key == key).unwrap();
        let (file, line) = shown.source.rsplit_once('/').unwrap_or(("", &shown.source));
        let _ = file;
        format!("{} from {line}", shown.value)
    };
    let flags = |text: &str| vec![("--set", text.to_owned())];
    let url = [("REDIS_URL", "redis://env:2")];
    let own = [
        ("REDIS_URL", "redis://env:2"),
        ("DUEWHEEL_REDIS__URL", "redis://own:3"),
        ("DUEWHEEL_WHEEL__ORDERS__SHARDS", "8"),
    ];

    let config = resolve_with(file, &[], &[]).unwrap();
    assert_eq!(source(&config, "redis.url"), "redis://file:1 from duewheel.toml:2");
    assert_eq!(source(&config, "redis.response_timeout"), "\"3s\" from default");
    let config = resolve_with(file, &url, &[]).unwrap();
    assert_eq!(source(&config, "redis.url"), "redis://env:2 from $REDIS_URL");
    let config = resolve_with(file, &own, &[]).unwrap();
    assert_eq!(source(&config, "redis.url"), "redis://own:3 from $DUEWHEEL_REDIS__URL");
    assert_eq!(source(&config, "wheel.orders.shards"), "8 from $DUEWHEEL_WHEEL__ORDERS__SHARDS");
    let config = resolve_with(file, &own, &flags("wheel.orders.shards=2")).unwrap();
    assert_eq!(source(&config, "wheel.orders.shards"), "2 from --set");
    assert_eq!(config.wheels[0].wheel.shards.get(), 2);
}

#[test]
fn what_holds_for_every_wheel_is_said_once_and_a_wheel_may_differ() {
    let config = resolve(
        "[defaults]\nshards = 4\n[defaults.worker]\nlease = '1m'\n[wheel.flash]\n[wheel.orders]\nshards = 8\n[wheel.orders.worker]\nlease = '2m'",
    )
    .unwrap();
    let of = |name: &str| config.wheel(Some(name)).unwrap();
    assert_eq!((of("flash").wheel.shards.get(), of("orders").wheel.shards.get()), (4, 8));
    assert_eq!(of("flash").worker.lease, Duration::from_secs(60));
    assert_eq!(of("orders").worker.lease, Duration::from_secs(120));
    assert!(config.wheel(None).unwrap_err().to_string().contains("flash, orders"));
    assert_eq!(
        config.wheel(Some("flsh")).unwrap_err().to_string(),
        "--wheel \"flsh\": is not configured (there is flash, orders); did you mean flash?"
    );
}

#[test]
fn a_variable_reaches_a_wheel_whose_name_has_a_dash() {
    let config =
        resolve_with("[wheel.flash-sale]\n", &[("DUEWHEEL_WHEEL__FLASH_SALE__SHARDS", "2")], &[]).unwrap();
    assert_eq!(config.wheels.len(), 1);
    assert_eq!(config.wheels[0].wheel.shards.get(), 2);
}

#[test]
fn a_variable_of_somebody_else_is_only_warned_of() {
    let config = resolve_with("[wheel.orders]\n", &[("DUEWHEEL_BUILDER_ZONE", "x")], &[]).unwrap();
    assert_eq!(config.warnings, ["$DUEWHEEL_BUILDER_ZONE is not read: it names no key"]);
    let meant = resolve_with("[wheel.orders]\n", &[("DUEWHEEL_REDIS_URL", "x")], &[]).unwrap_err();
    assert!(meant.contains("did you mean $DUEWHEEL_REDIS__URL?"), "{meant}");
}

#[test]
fn every_mistake_is_reported_at_once_with_its_line() {
    let problems = resolve_with(
        r#"
[redis]
url = "localhost:6379"
pool_size = 0
poolsize = 4
[wheel.orders]
shards = 0
slot_width = "1"
ended_keep = 72
lease = "60s"
[wheel.orders.worker]
lease = "0s"
claim_batch = 501
claim-batch = 10
max_attempts = 2147483648
backoff_base = "10s"
backoff_cap = "5s"
backoff_jitter = 1.5
grace = "30M"
poll_interval = ["1s"]
[wheel.orders.hook]
kind = "webhok"
[wheel.Orders]
[reddis]
url = "x"
[log]
format = "xml"
"#,
        &[
            ("DUEWHEEL_REDIS_URL", "redis://h"),
            ("DUEWHEEL_LOGG", "debug"),
            ("DUEWHEEL_WHEEL__ORDERS__SHARD", "3"),
            ("DUEWHEEL_SERVICE_HOST", "10.0.0.1"),
        ],
        &[("--set", "wheel.orders.hook.secret=x".to_owned()), ("--set", "shards".to_owned())],
    )
    .unwrap_err();
    insta::assert_snapshot!(problems);
}

#[test]
fn a_duplicate_key_or_broken_toml_names_the_line_and_shows_no_value() {
    let problems = resolve("[redis]\nurl = 'redis://:hunter2@h'\nurl = 'redis://:hunter2@h'\n").unwrap_err();
    assert!(problems.contains("duewheel.toml:3: not TOML: duplicate key"), "{problems}");
    let broken = resolve("[redis]\nurl = 'redis://:hunter2@h\n").unwrap_err();
    assert!(broken.contains("duewheel.toml:2: not TOML"), "{broken}");
    let twice = resolve("[wheel.a]\nshards = 1\n[wheel.a]\nshards = 2\n").unwrap_err();
    assert!(twice.contains("duewheel.toml:3: not TOML: duplicate key"), "{twice}");
    assert!(!format!("{problems}{broken}").contains("hunter2"));
}

#[test]
fn a_file_that_cannot_be_read_is_named_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    write(&at("latin1.toml"), b"# caf\xe9\n");
    write(&at("empty.toml"), b" \n");
    write(&at("huge.toml"), "#".repeat(2_000_000).as_bytes());
    std::fs::create_dir(at("folder.toml")).unwrap();
    let problem = |name: &str| resolve_file(&at(name), &[], &[]).unwrap_err();
    assert_eq!(problem("none.toml"), "none.toml: No such file or directory (os error 2)");
    assert_eq!(problem("folder.toml"), "folder.toml: is a directory");
    assert_eq!(problem("latin1.toml"), "latin1.toml: not UTF-8");
    assert_eq!(problem("empty.toml"), "empty.toml: is empty; start from `duewheel config --default`");
    assert_eq!(problem("huge.toml"), "huge.toml: is longer than 1048576 bytes");
    // Endless, and no error of its own.
    let zero = resolve_file(Path::new("/dev/zero"), &[], &[]).unwrap_err();
    assert!(zero.contains("is longer than 1048576 bytes"), "{zero}");
}

#[test]
fn a_lease_that_does_not_outlive_its_hook_is_refused() {
    let text = |lease: &str| {
        format!(
            "[wheel.a.worker]\nlease = '{lease}'\n[wheel.a.hook]\nkind = 'webhook'\nurl = 'https://h/'\nsecret = '{SECRET}'\ntimeout = '10s'\n"
        )
    };
    assert_eq!(
        resolve(&text("11s")).unwrap_err(),
        "duewheel.toml:2: wheel.a.worker.lease: \"11s\": expected more than the hook's timeout 10s and lease_margin 1s together"
    );
    assert!(resolve(&text("11001ms")).is_ok());
}

#[test]
fn a_redis_url_is_checked_and_its_password_never_shown() {
    let with = |url: &str| resolve(&format!("[redis]\nurl = '{url}'\n"));
    for good in [
        "redis://h",
        "redis://:p%40ss@h:6379/3",
        "rediss://user:pw@h:6380/0",
        "unix:///run/redis.sock?db=1",
        "valkey://h",
        "redis://[::1]:6379",
        "redis://h/0?protocol=resp3",
        "redis+sentinel://:p%40ss@a,b:26380/mymaster/2?sentinel_password=x",
        "rediss-sentinel://a",
        "redis+cluster://user:pw@a:7000,[::1]:7001",
    ] {
        assert!(with(good).is_ok(), "{good} was refused: {:?}", with(good).err());
    }
    for bad in [
        "h:6379",
        "hunter2",
        "http://:hunter2@h",
        "redis://",
        "redis://:hunter2@h:99999",
        "redis://:hunter2@h:0",
        "redis://:hunter2@h/shop",
        "unix://run/redis.sock",
        "redis+sentinel://:hunter2@a,b/mymaster/shop",
        "redis+sentinel://:hunter2@/mymaster",
        "redis+sentinel://a/mymaster?pass=hunter2",
        "redis+cluster://:hunter2@a/3",
        "redis://${HOST}",
        "redis://:hunter2${X@h",
    ] {
        let problem = with(bad).unwrap_err();
        assert!(problem.contains("redis.url"), "{bad}: {problem}");
        assert!(!problem.contains("hunter2"), "{problem}");
    }
}

#[test]
fn a_password_from_a_file_or_variable_is_put_into_the_url_exactly() {
    let folder = folder("[redis]\nurl = 'redis://h:6379/0'\nusername = 'due'\npassword_file = 'PASSWORD'\n");
    let password = folder.path().join("password");
    write(&password, b"p@ss/wo?rd \r\n");
    let file = folder.path().join("duewheel.toml");
    let text = std::fs::read_to_string(&file).unwrap().replace("PASSWORD", &password.display().to_string());
    write(&file, text.as_bytes());
    let config = resolve_file(&file, &[], &[]).unwrap();
    assert_eq!(config.redis.url.expose_secret(), "redis://due:p%40ss%2Fwo%3Frd%20@h:6379/0");
    // A variable is stronger than the file's password_file.
    let config = resolve_file(&file, &[("DUEWHEEL_REDIS__PASSWORD", "pw")], &[]).unwrap();
    assert_eq!(config.redis.url.expose_secret(), "redis://due:pw@h:6379/0");
    let config = resolve_file(&file, &[("REDIS_URL", "unix:///run/r.sock")], &[]).unwrap();
    assert_eq!(config.redis.url.expose_secret(), "unix:///run/r.sock?user=due&pass=p%40ss%2Fwo%3Frd+");
    let config = resolve_file(&file, &[("REDIS_URL", "redis+sentinel://old:x@a,b:1/shop/2")], &[]).unwrap();
    assert_eq!(config.redis.url.expose_secret(), "redis+sentinel://due:p%40ss%2Fwo%3Frd%20@a,b:1/shop/2");
    assert!(!format!("{config:?}").contains("p@ss"));
    write(&password, b"\n");
    assert!(resolve_file(&file, &[], &[]).unwrap_err().contains("redis.password_file: "));
    std::fs::remove_file(&password).unwrap();
    assert!(resolve_file(&file, &[], &[]).unwrap_err().contains("No such file"));
}

#[test]
fn a_secret_given_in_two_ways_at_once_is_refused() {
    let problem = resolve("[redis]\nurl = 'redis://h'\nurl_file = '/x'\n").unwrap_err();
    assert_eq!(problem, "duewheel.toml:2: redis.url: given twice: here and as url_file (duewheel.toml:3)");
}

#[test]
fn files_with_secrets_that_others_may_read_are_warned_of() {
    use std::os::unix::fs::PermissionsExt as _;
    let open = |path: &Path| std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let folder = folder("[redis]\nurl = 'redis://:pw@h'\n");
    let file = folder.path().join("duewheel.toml");
    assert_eq!(resolve_file(&file, &[], &[]).unwrap().warnings, Vec::<String>::new());
    open(&file);
    let warnings = resolve_file(&file, &[], &[]).unwrap().warnings;
    assert!(
        warnings[0].ends_with("holds a password and its mode 0644 lets others read it; chmod 600 it"),
        "{warnings:?}"
    );
    for (text, holds) in [
        ("[redis]\npassword = 'pw'\n", true),
        ("redis.password = 'pw'\n", true),
        (
            "[wheel.a.hook]\nkind = 'webhook'\nurl = 'https://h/'\nsecret_file = 'secret'\nheaders.authorization = 'pw'\n",
            true,
        ),
        ("[wheel.a.hook.headers]\nauthorization = 'pw'\n", true),
        ("[wheel.a.hook.headers]\nauthorization_file = 'pw'\n", false),
        ("[redis]\n#password = 'pw'\npassword_file = 'pw'\nurl = 'redis://h'\n", false),
    ] {
        write(&file, text.as_bytes());
        open(&file);
        let draft = Draft::gather(Some(&file), &Environment::default(), &[], None);
        let warned = draft.warnings.iter().any(|warning| warning.contains("lets others read it"));
        assert_eq!(warned, holds, "{text}");
    }
    let key = folder.path().join("tls.key");
    write(&key, b"");
    open(&key);
    let text = format!("[http]\ntls_cert_file = 'tls.crt'\ntls_key_file = '{}'\n", key.display());
    let warnings = resolve(&text).unwrap().warnings;
    assert!(warnings[0].contains("holds a private key and its mode 0644"), "{warnings:?}");
    let secret = folder.path().join("url");
    write(&secret, b"redis://:pw@h\n");
    open(&secret);
    let config =
        resolve_with("[log]\nlevel = 'info'\n", &[("REDIS_URL_FILE", &secret.display().to_string())], &[])
            .unwrap();
    assert!(config.warnings[0].contains("holds a secret"), "{:?}", config.warnings);
    assert_eq!(config.redis.url.expose_secret(), "redis://:pw@h");
}

#[cfg(feature = "sql")]
#[test]
fn database_url_is_the_url_of_the_only_sql_hook() {
    let url = [("DATABASE_URL", "postgres://u:pw@db/shop")];
    let urls = |text: &str| -> Vec<String> {
        let config = resolve_with(text, &url, &[]).unwrap();
        let of = |hook: &HookSettings| match hook {
            HookSettings::Sql(s) => s.urls[0].expose_secret().to_owned(),
            _ => "none".to_owned(),
        };
        config.wheels.iter().map(|w| of(&w.hook)).collect()
    };
    assert_eq!(urls(SQL), ["postgres://u:pw@db/shop"]);
    let second = SQL.replace("wheel.a", "wheel.b").replace("url = 'sqlite://shop.db'\n", "");
    assert_eq!(urls(&format!("{SQL}{second}")), ["sqlite://shop.db", "postgres://u:pw@db/shop"]);
    // Somebody else's variable, where no wheel closes by SQL.
    assert_eq!(urls("[wheel.a]\n"), ["none"]);
}

#[cfg(feature = "webhook")]
#[test]
fn headers_and_rotated_secrets_of_a_webhook_are_read_and_hidden() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    write(&token, b"Bearer hunter2\n");
    let text = format!(
        "[wheel.a.hook]\nkind = 'webhook'\nurl = 'https://h/close?token=hunter2'\nsecret = '{SECRET}'\nold_secret = '{SECRET}'\n\
         old_secret_until = '2026-12-31T00:00:00Z'\n[wheel.a.hook.headers]\nAuthorization_file = '{}'\nX-Shop = 'hunter2'\n",
        token.display()
    );
    let config = resolve(&text).unwrap();
    let HookSettings::Webhook(settings) = &config.wheels[0].hook else { panic!("another hook") };
    let headers: Vec<_> = settings.headers.iter().map(|(n, v)| (n.as_str(), v.expose_secret())).collect();
    assert_eq!(headers, [("Authorization", "Bearer hunter2"), ("X-Shop", "hunter2")]);
    assert_eq!(settings.secrets[1].not_after.unwrap().to_string(), "2026-12-31T00:00:00.000Z");
    assert!(!format!("{:?}", config.shown).contains("hunter2"));
    let problem = resolve(&text.replace("old_secret_until", "#")).unwrap_err();
    assert!(problem.contains("a secret that was replaced must end"), "{problem}");
}

#[cfg(feature = "webhook")]
#[test]
fn an_endpoint_that_cannot_be_called_or_signed_for_is_refused_here() {
    let with = |line: &str| {
        let mut lines = vec![
            "kind = 'webhook'".to_owned(),
            "url = 'https://h/'".to_owned(),
            format!("secret = '{SECRET}'"),
        ];
        let key = line.split(' ').next().unwrap();
        lines.retain(|l| !l.starts_with(&format!("{key} ")));
        lines.push(line.to_owned());
        resolve(&format!("[wheel.a.hook]\n{}\n", lines.join("\n"))).err().unwrap_or_default()
    };
    for (line, key) in [
        ("url = 'ftp://x'", "url"),
        ("url = 'file:///etc/passwd'", "url"),
        ("url = '//x/y'", "url"),
        ("url = 'http://ex.com:99999/'", "url"),
        ("url = 'http://h:0/'", "url"),
        ("url = 'https://user:hunter2@host/'", "url"),
        ("secret = 'whsec_c2hvcnQ='", "secret"),
        ("secret = 'hunter2'", "secret"),
        ("max_concurrency = 0", "max_concurrency"),
        ("connect_timeout = '11s'", "connect_timeout"),
        ("format = 'xml'", "format"),
        ("table = 'orders'", "table"),
    ] {
        let problem = with(line);
        assert!(problem.contains(&format!("wheel.a.hook.{key}")), "{line}: {problem}");
        assert!(!problem.contains("hunter2"), "{line}: {problem}");
    }
}

#[cfg(feature = "sql")]
#[test]
fn a_close_that_would_be_written_wrong_is_refused_here() {
    let with = |from: &str, to: &str| resolve(&SQL.replace(from, to)).err().unwrap_or_default();
    for (from, to, key) in [
        ("table = 'orders'", "table = 'orders; drop table x'", "table"),
        ("table = 'orders'", "table = '\"a\"\"b\"'", "table"),
        ("table = 'orders'\n", "", "table"),
        ("guard = \"status = 'unpaid'\"\n", "", "guard"),
        ("set = \"status = 'closed'\"\n", "", "set"),
        ("url = 'sqlite://shop.db'", "url = 'oracle://u:hunter2@h/db'", "url"),
        ("state = 'status'", "state = 'status'\nkey_type = 'int'", "key_type"),
        ("state = 'status'", "state = 'status'\nlock_timeout = '21s'", "lock_timeout"),
        ("state = 'status'", "state = 'status'\nmax_batch = 2001", "max_batch"),
        ("state = 'status'", "state = 'status'\nsecret = 'x'", "secret"),
    ] {
        let problem = with(from, to);
        assert!(problem.contains(&format!("wheel.a.hook.{key}")), "{to}: {problem}");
        assert!(!problem.contains("hunter2"), "{to}: {problem}");
    }
}

#[test]
fn a_topic_is_told_only_by_a_build_that_knows_kafka_and_with_what_keeps_events_whole() {
    let text = "[wheel.a]\n[wheel.a.kafka]\ntopic = 'events'\nbrokers = ['k1:9092', 'k2:9092']\n[wheel.a.kafka.properties]\n\
                'sasl.password' = 'hunter2'\n";
    if cfg!(feature = "kafka") {
        let config = resolve(text).unwrap();
        let kafka = config.wheels[0].kafka.as_ref().unwrap();
        assert_eq!((kafka.topic.as_str(), kafka.brokers.len()), ("events", 2));
        assert_eq!(kafka.properties[0].1.expose_secret(), "hunter2");
        assert!(!config.shown.iter().any(|shown| shown.value.contains("hunter2")));
    } else {
        let problems = resolve(text).unwrap_err();
        assert!(problems.contains("wheel.a.kafka.topic: this build knows no Kafka"), "{problems}");
    }
    let wrong =
        resolve("[wheel.a]\n[wheel.a.kafka]\ntopic = 'events'\n[wheel.a.kafka.properties]\nacks = '1'\n")
            .unwrap_err();
    assert!(
        wrong.contains("brokers: is missing") && wrong.contains("acks: is set by duewheel itself"),
        "{wrong}"
    );
    assert!(resolve("[wheel.a]").unwrap().wheels[0].kafka.is_none());
}

#[test]
#[cfg(feature = "http")]
fn the_api_listens_beyond_this_machine_with_tokens_only_and_every_mistake_is_named() {
    assert_eq!(defaults().http.limits, duewheel::http::Limits::default());
    let hash = "ab".repeat(32);
    let token = format!("shop read,enqueue sha256:{hash}");
    let good = resolve(&format!("[http]\nlisten = '0.0.0.0:8480'\ntokens = ['{token}']\n")).unwrap();
    assert_eq!((good.http.listen.port(), good.http.tokens.len()), (8480, 1));
    let shown = good.shown.iter().find(|shown| shown.key == "http.tokens").unwrap();
    assert!(!shown.value.contains(&hash));
    let lines = format!("[http]\ntokens = '''\n# the shop\n{token}\n\n{}'''\n", token.replace("shop", "old"));
    assert_eq!(resolve(&lines).unwrap().http.tokens.len(), 2);
    for (text, why) in [
        ("listen = '0.0.0.0:8480'".to_owned(), "let in by tokens only"),
        ("listen = '[::]:8480'".to_owned(), "let in by tokens only"),
        ("listen = 'localhost'".to_owned(), "expected ADDRESS:PORT"),
        ("tokens = ['dwt_leaked']".to_owned(), "duewheel token new"),
        (format!("tokens = ['{token}', '{token}']"), "given twice"),
        ("tls_cert_file = 'a.pem'".to_owned(), "tls_key_file: is missing"),
        ("max_body_kib = 0".to_owned(), "from 1 to 65536"),
        ("header_timeout = '30'".to_owned(), "header_timeout"),
        ("max_conections = 1".to_owned(), "did you mean max_connections?"),
    ] {
        let problems = resolve(&format!("[http]\n{text}\n")).expect_err(&text);
        assert!(problems.contains(why), "{text}:\n{problems}");
        assert!(!problems.contains("leaked"));
    }
}

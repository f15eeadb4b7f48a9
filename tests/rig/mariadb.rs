//! The MariaDB server of this test run, and databases of one's own on it.

use sqlx::{AssertSqlSafe, Connection, Executor, MySqlConnection};

/// The server's URL, given by `scripts/test` (or `scripts/services`).
pub fn server() -> String {
    std::env::var("DUEWHEEL_TEST_MARIADB")
        .expect("no DUEWHEEL_TEST_MARIADB: run scripts/test, which starts what the tests need")
}

/// Makes an empty database and answers its URL. It stays until the server's folder is removed.
pub async fn database() -> String {
    database_on(&server()).await
}

/// The same on that server.
pub async fn database_on(server: &str) -> String {
    let name = super::shop::database_name();
    let mut session = MySqlConnection::connect(server).await.expect("the test server answers");
    session.execute(AssertSqlSafe(format!("CREATE DATABASE {name}"))).await.expect("a database of its own");
    super::shop::with_database(server, &name)
}

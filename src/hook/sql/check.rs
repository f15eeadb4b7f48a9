//! Start-up checks.
use crate::error::Result;
pub(super) async fn check(_hook: &super::SqlHook) -> Result<Vec<String>> { Ok(vec![]) }

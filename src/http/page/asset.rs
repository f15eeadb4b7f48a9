//! Style and script, within the binary. Their names carry what is in them, so that browsers keep them and never mix versions.

use std::sync::OnceLock;

use axum::body::Body;
use axum::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use rust_embed::RustEmbed;

#[derive(RustEmbed)]
#[folder = "src/http/page/assets"]
struct Assets;

/// The names of all assets: as they lie here, and as they are asked for.
fn names() -> &'static [(String, String)] {
    static NAMES: OnceLock<Vec<(String, String)>> = OnceLock::new();
    NAMES.get_or_init(|| {
        let named = |name: std::borrow::Cow<'static, str>| {
            let hash = Assets::get(&name)?.metadata.sha256_hash();
            let hash: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
            let (stem, kind) = name.rsplit_once('.')?;
            Some((name.to_string(), format!("{stem}.{hash}.{kind}")))
        };
        Assets::iter().filter_map(named).collect()
    })
}

/// Where an asset is asked for.
pub(super) fn path(base: &str, name: &str) -> String {
    let known = names().iter().find(|(plain, _)| plain == name).map_or(name, |(_, versioned)| versioned);
    format!("{base}/assets/{known}")
}

/// `GET /assets/{name}`.
pub(super) async fn serve(Path(name): Path<String>) -> Response {
    let found =
        names().iter().find(|(_, versioned)| *versioned == name).and_then(|(plain, _)| Assets::get(plain));
    let mut response = Response::new(match &found {
        Some(file) => Body::from(file.data.clone().into_owned()),
        None => Body::empty(),
    });
    let kind = match name.rsplit('.').next() {
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        _ => "application/octet-stream",
    };
    let (status, cache) = match found {
        Some(_) => (StatusCode::OK, "public, max-age=31536000, immutable"),
        None => (StatusCode::NOT_FOUND, "no-store"),
    };
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(cache));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

//! What stands before the page: the name it is asked by, and the headers of every answer.

use axum::extract::Request;
use axum::http::header::{HOST, HeaderName, HeaderValue};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::IpAddr;

/// On every answer.
const HEADERS: &[(&str, &str)] = &[
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
         connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
];

/// Refuses what is asked by a name that is not the machine's own: a page elsewhere whose name
/// leads here (DNS rebinding) could read and change everything otherwise.
pub(super) async fn guard(request: Request, next: Next) -> Response {
    let mut response = if asked_by_address(request.headers()) {
        next.run(request).await
    } else {
        let text = "ask by address, as in http://127.0.0.1:PORT/, or by localhost\n";
        (StatusCode::MISDIRECTED_REQUEST, text).into_response()
    };
    for (name, value) in HEADERS {
        let header = (HeaderName::from_static(name), HeaderValue::from_static(value));
        response.headers_mut().insert(header.0, header.1);
    }
    response
}

/// Whether `Host` is an address, or `localhost`. Such names cannot be made to lead elsewhere.
fn asked_by_address(headers: &HeaderMap) -> bool {
    let mut all = headers.get_all(HOST).iter();
    let (Some(host), None) = (all.next(), all.next()) else { return false };
    host.to_str().is_ok_and(is_address)
}

fn is_address(host: &str) -> bool {
    let is_port = |port: &str| port.parse::<u16>().is_ok();
    if let Some(rest) = host.strip_prefix('[') {
        let Some((address, port)) = rest.split_once(']') else { return false };
        let port_fits = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
        return port_fits && matches!(address.parse(), Ok(IpAddr::V6(_)));
    }
    let (name, port_fits) =
        host.split_once(':').map_or((host, true), |(name, port)| (name, is_port(port)));
    let named = name.eq_ignore_ascii_case("localhost") || matches!(name.parse(), Ok(IpAddr::V4(_)));
    port_fits && named
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_may_lead_elsewhere_are_refused() {
        for good in
            ["127.0.0.1", "127.0.0.1:9080", "localhost:80", "LocalHost", "[::1]:9080", "[::1]"]
        {
            assert!(is_address(good), "{good}");
        }
        for bad in [
            "",
            "evil.example",
            "evil.example:9080",
            "127.0.0.1.evil.example",
            "127.0.0.1:x",
            "localhost.evil.example",
            "[::1",
            "[evil]",
            "[127.0.0.1]",
            "::1",
            "127.1:",
            "[::1]80",
        ] {
            assert!(!is_address(bad), "{bad}");
        }
    }
}

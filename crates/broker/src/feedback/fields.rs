//! The names of the input's fields: the reader checks them, and the errors say them.

/// Every field of the input, in the order in which they are shown to people.
pub const FIELDS: &[&str] = &[
    "title",
    "summary",
    "reproduction",
    "expected",
    "actual",
    "kind",
    "severity",
    "impact",
    "workaround",
    "tags",
    "client_request_id",
    "request",
    "response",
    "evidence",
    "bundle",
    "redact",
    "confidential",
];

/// The fields without which there is no report.
pub const REQUIRED: &[&str] = &["title", "summary", "reproduction", "expected", "actual"];

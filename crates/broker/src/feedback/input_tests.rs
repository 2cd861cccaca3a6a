//! Tests of the input's rules: each refusal names its field.

use serde_json::{Value, json};

use super::*;
use crate::feedback::fields::REQUIRED;

fn minimal() -> Value {
    json!({ "title": "t", "summary": "s", "reproduction": "r", "expected": "e", "actual": "a" })
}

fn refused(change: &Value) -> (String, String) {
    let mut value = minimal();
    value.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    let error = Input::from_value(&value).map(|_| ()).unwrap_err();
    assert!(error.is_input());
    (error.field().unwrap_or_default().to_owned(), error.to_string())
}

#[test]
fn the_smallest_input_has_the_defaults() {
    let input = Input::from_value(&minimal()).unwrap();
    assert_eq!((input.kind, input.bundle, input.redact, input.confidential), (None, Bundle::None, true, false));
    assert!(input.tags.is_empty() && input.evidence.is_empty() && input.request.is_none());
}

#[test]
fn every_field_is_read() {
    let value = json!({
        "title": "t", "summary": "s", "reproduction": "r", "expected": "e", "actual": "a", "kind": "ux", "severity": "low",
        "impact": "i", "workaround": "w", "tags": ["x", " "], "client_request_id": "c", "request": {"q": 1}, "response": {},
        "evidence": [{"name": "n", "content": ""}, {"name": "m.txt", "path": "p/q"}], "bundle": "zip", "redact": false,
        "confidential": false,
    });
    assert_eq!(
        value.as_object().unwrap().keys().map(String::as_str).collect::<Vec<_>>(),
        FIELDS,
        "this test knows them all"
    );
    let input = Input::from_value(&value).unwrap();
    assert_eq!((input.kind, input.severity, input.bundle), (Some("ux"), Some("low"), Bundle::Zip));
    assert_eq!((input.tags.len(), input.evidence.len(), input.redact), (1, 2, false));
    assert_eq!(input.evidence[1].source, Source::Path("p/q".into()));
}

#[test]
fn what_is_no_object_is_told_what_is_needed() {
    for value in [json!([]), json!("x"), json!(null), json!(3)] {
        let text = Input::from_value(&value).unwrap_err().to_string();
        assert!(REQUIRED.iter().all(|f| text.contains(f)), "{text}");
    }
}

#[test]
fn each_required_field_is_required_and_not_blank() {
    for field in REQUIRED {
        let mut value = minimal();
        value.as_object_mut().unwrap().remove(*field);
        let error = Input::from_value(&value).unwrap_err();
        assert!(matches!(&error, FeedbackError::Missing { field: f } if f == field), "{error}");
        let (named, text) = refused(&json!({ *field: " \n " }));
        assert!(named == *field && text.contains("empty"), "{text}");
        let (named, text) = refused(&json!({ *field: 1 }));
        assert!(named == *field && text.contains("a string"), "{text}");
    }
}

#[test]
fn each_wrong_value_names_its_field() {
    let long = "x".repeat(MAX_TEXT + 1);
    let deep = "x".repeat(MAX_JSON);
    let many: Vec<_> = (0..=MAX_TAGS).map(|n| n.to_string()).collect();
    let pieces: Vec<_> = (0..=MAX_EVIDENCE).map(|n| json!({"name": n.to_string(), "content": ""})).collect();
    for (change, field) in [
        (json!({"titel": "x"}), "titel"),
        (json!({"workspace": {}}), "workspace"),
        (json!({"title": "x".repeat(MAX_TITLE + 1)}), "title"),
        (json!({"summary": long}), "summary"),
        (json!({"kind": "Bug"}), "kind"),
        (json!({"kind": null}), "kind"),
        (json!({"severity": "worst"}), "severity"),
        (json!({"impact": 1}), "impact"),
        (json!({"workaround": []}), "workaround"),
        (json!({"tags": "x"}), "tags"),
        (json!({"tags": ["x", 1]}), "tags[1]"),
        (json!({"tags": many}), "tags"),
        (json!({"tags": ["x".repeat(MAX_WORD + 1)]}), "tags[0]"),
        (json!({"client_request_id": 5}), "client_request_id"),
        (json!({"request": []}), "request"),
        (json!({"request": {"x": deep}}), "request"),
        (json!({"response": "x"}), "response"),
        (json!({"bundle": "tar"}), "bundle"),
        (json!({"redact": "no"}), "redact"),
        (json!({"confidential": 1}), "confidential"),
        (json!({"confidential": true, "redact": false}), "redact"),
        (json!({"evidence": {}}), "evidence"),
        (json!({"evidence": pieces}), "evidence"),
        (json!({"evidence": ["x"]}), "evidence[0]"),
        (json!({"evidence": [{"name": "a", "content": "", "mode": 1}]}), "evidence[0].mode"),
        (json!({"evidence": [{"content": ""}]}), "evidence[0].name"),
        (json!({"evidence": [{"name": "a"}]}), "evidence[0]"),
        (json!({"evidence": [{"name": "a", "content": "", "path": "b"}]}), "evidence[0]"),
        (json!({"evidence": [{"name": "a", "content": 1}]}), "evidence[0].content"),
        (json!({"evidence": [{"name": "a", "path": ""}]}), "evidence[0].path"),
        (json!({"evidence": [{"name": "a", "content": "x".repeat(MAX_EVIDENCE_BYTES + 1)}]}), "evidence[0].content"),
        (json!({"evidence": [{"name": "a", "content": ""}, {"name": "A", "content": ""}]}), "evidence[1].name"),
    ] {
        let (named, text) = refused(&change);
        assert_eq!(named, field, "{text}");
        assert!(text.contains(&format!("`{field}`")) && text.len() < 400, "{text}");
    }
}

#[test]
fn evidence_names_are_plain() {
    for name in ["", " ", ".", "..", "../x", "a/b", "a\\b", "c:x", "a..b", "a\nb", "a\0", &"x".repeat(121)] {
        let (field, text) = refused(&json!({"evidence": [{"name": name, "content": ""}]}));
        assert_eq!(field, "evidence[0].name", "{name:?}: {text}");
    }
    for name in ["a", "a b.log", ".hidden", "größe.txt"] {
        let mut value = minimal();
        value["evidence"] = json!([{"name": name, "content": ""}]);
        Input::from_value(&value).unwrap();
    }
}

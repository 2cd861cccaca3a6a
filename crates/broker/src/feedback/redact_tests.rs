//! Tests of what is replaced, and of what must not be.

use std::path::PathBuf;

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn alice() -> Person {
    Person { home: Some(PathBuf::from("/home/alice")), names: vec!["alice".into(), "root".into()] }
}

fn check(text: &str, expected: &str) {
    assert_eq!(Redactor::new(&alice(), None).text(text), expected, "from {text:?}");
}

fn same(text: &str) {
    check(text, text);
}

#[test]
fn homes_and_names() {
    check("/home/alice", "~");
    check("in /home/alice/p/A.lean:3", "in ~/p/A.lean:3");
    check("file:///home/alice/x and -L/home/alice/lib", "file://~/x and -L~/lib");
    check("gone from /home/alice.", "gone from ~.");
    check("/home/alice2/x", "/home/[user]/x");
    check("/home/alice-old/x", "/home/[user]/x");
    check("(/Users/Bob Smith/x) /home/carol", "(/Users/[user] Smith/x) /home/[user]");
    check(r"C:\Users\dan\x", r"C:\Users\[user]\x");
    check("/srv/alice/x by alice@host", "/srv/[user]/x by [user]@host");
    same("docs/home/index.md and /srv/alicea and alice in wonderland");
    same("/root/x and root@host");
}

/// What the variable says may lead elsewhere, and addresses spell it in another way.
#[test]
fn every_spelling_of_the_home() {
    let keep = tempfile::tempdir().unwrap();
    let top = keep.path().canonicalize().unwrap();
    std::fs::create_dir(top.join("real é")).unwrap();
    std::os::unix::fs::symlink(top.join("real é"), top.join("link")).unwrap();
    let person = Person { home: Some(top.join("link")), names: vec![] };
    let redactor = Redactor::new(&person, None);
    let top = top.to_str().unwrap();
    let text = format!("{top}/link/a {top}/real é/b file://{top}/real%20%C3%A9/c");
    assert_eq!(redactor.text(&text), "~/a ~/b file://~/c");
}

#[test]
fn a_home_that_is_everything_is_no_home() {
    for home in [None, Some("/"), Some(""), Some("relative"), Some("//")] {
        let person = Person { home: home.map(PathBuf::from), names: vec![String::new(), "ab".into()] };
        let text = "/etc/x relative/y /ab/z";
        assert_eq!(Redactor::new(&person, None).text(text), text, "{home:?}");
    }
}

#[test]
fn credentials() {
    let token = "a1".repeat(18);
    check(&format!("push with ghp_{token} failed"), "push with [redacted] failed");
    check(&format!("Authorization: Bearer {token}"), "Authorization: Bearer [redacted]");
    check(&format!("\"api_key\": \"{token}\""), "\"api_key\": \"[redacted]\"");
    check("GITHUB_TOKEN=abc123def", "GITHUB_TOKEN=[redacted]");
    check("https://bob:hunter2@example.org/x", "https://[redacted]@example.org/x");
    check("sk-ant-0123456789abcdefghijk AKIAABCDEFGHIJKLMNOP", "[redacted] [redacted]");
    check(&format!("eyJhbGciOiJIUzI1.eyJzdWIiOiIx.{token}"), "[redacted]");
    check("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nrest", "[redacted]\nrest");
    check("-----BEGIN PRIVATE KEY-----\ncut off", "[redacted]");
}

#[test]
fn lean_and_protocol_texts_stay() {
    for text in [
        "def f (token : String) : Nat := 0",
        "theorem secret : x₁ = password := by simp [token]",
        "structure S where\n  secret : Fin 10\n  password := defaultValue",
        r#"{"_meta":{"progressToken":"abc123def"}}"#,
        "instance : Monad Bearer where",
        "http://example.org:8080/path@x and Lean (version 4.28.0)",
        "sk-small, eyJ, AKIA, ghp_",
    ] {
        same(text);
    }
}

#[test]
fn values_are_walked_with_their_keys() {
    let redactor = Redactor::new(&alice(), None);
    let value = json!({
        "/home/alice": 1, "~": 2, "list": ["/home/alice/x", 3, null, true], "token": "anything", "clientSecret": "x",
        "progressToken": "p1", "maxTokens": 5, "token2": {"token": 7}, "empty": {"password": ""},
    });
    assert_eq!(
        redactor.value(&value),
        json!({
            "~": 1, "~'": 2, "list": ["~/x", 3, null, true], "token": "[redacted]", "clientSecret": "[redacted]",
            "progressToken": "p1", "maxTokens": 5, "token2": {"token": 7}, "empty": {"password": ""},
        })
    );
    assert_eq!(Redactor::off().value(&value), value);
}

#[test]
fn the_project_is_hidden_when_it_is_asked_for() {
    let redactor = Redactor::new(&alice(), Some(std::path::Path::new("/home/alice/proj")));
    assert_eq!(redactor.text("/home/alice/proj/A.lean /home/alice/x"), "[project]/A.lean ~/x");
}

proptest! {
    /// A report may be redacted again by the next tool that handles it.
    #[test]
    fn redacting_twice_changes_nothing(parts in proptest::collection::vec(prop_oneof![
        Just("/home/alice".to_owned()), Just("/home/".into()), Just("alice@".into()), Just("/alice".into()), Just("token=".into()),
        Just("a1b2c3d4".into()), Just("://u:p@".into()), Just("https".into()), Just(" ".into()), Just("\"".into()), "\\PC{0,6}",
    ], 0..12)) {
        let redactor = Redactor::new(&alice(), None);
        let once = redactor.text(&parts.concat());
        prop_assert_eq!(redactor.text(&once), once.clone());
        prop_assert!(!once.contains("/home/alice/"));
    }
}

//! Sizes, cuts and their statements.

use expect_test::{Expect, expect};

use super::*;

fn limits(max_output_bytes: usize) -> OutputLimits {
    OutputLimits { max_output_bytes, full_messages: true }
}

fn bounded(value: &Value, limit: usize) -> ToolOutput {
    to_limit(ToolOutput { structured: value.clone(), is_error: false }, &limits(limit))
}

fn truncated(value: &Value, limit: usize, expect: &Expect) -> Value {
    let out = bounded(value, limit);
    assert!(!out.is_error, "{}", out.structured);
    let bytes = out.structured.to_string().len();
    assert!(bytes <= limit, "{bytes} bytes");
    assert!(bytes * 2 > limit, "only {bytes} of {limit} bytes are used");
    expect.assert_eq(&out.structured["truncated"].to_string());
    out.structured
}

#[test]
fn what_fits_is_not_touched() {
    let value = json!({ "workspace": { "root": "/p" }, "success": true, "messages": ["x".repeat(900)] });
    let size = value.to_string().len();
    assert_eq!(bounded(&value, size).structured, value);
    assert_ne!(bounded(&value, size - 1).structured, value);
}

#[test]
fn long_lists_lose_their_tail_and_say_so() {
    let items: Vec<_> = (0..5000).map(|n| json!({ "uri": format!("file:///p/{n}.lean"), "range": n })).collect();
    let out = truncated(
        &json!({ "workspace": { "root": "/p" }, "result": items }),
        20_000,
        &expect![[r#"[{"field":"result","unit":"items","shown":485,"total":5000}]"#]],
    );
    assert_eq!(out["result"][0], items[0]);
    assert_eq!(out["workspace"], json!({ "root": "/p" }));
}

#[test]
fn errors_stay_longest() {
    let mut messages: Vec<_> =
        (0..400).map(|n| json!({ "severity": "information", "text": format!("{n} {}", "i".repeat(60)) })).collect();
    messages.push(json!({ "severity": "error", "text": "the reason" }));
    let value =
        json!({ "success": false, "messages": messages, "traces": [], "proof_state": null, "next_handle": null });
    let out = truncated(&value, 8_000, &expect![[r#"[{"field":"messages","unit":"items","shown":77,"total":401}]"#]]);
    let kept = out["messages"].as_array().unwrap();
    assert_eq!(kept.last().unwrap()["text"], "the reason");
    assert_eq!(kept[0], messages[0]);
}

#[test]
fn long_texts_lose_their_end_at_a_character() {
    let text = "∀ \"quoted\"\n".repeat(4000);
    let value =
        json!({ "success": true, "messages": [{ "severity": "error", "text": text }], "traces": [text, "short"] });
    let out = truncated(
        &value,
        10_000,
        &expect![[
            r#"[{"field":"traces[0]","unit":"characters","shown":3331,"total":44000},{"field":"traces","unit":"items","shown":1,"total":2},{"field":"messages[0].text","unit":"characters","shown":3311,"total":44000}]"#
        ]],
    );
    let kept = out["messages"][0]["text"].as_str().unwrap().strip_suffix(ELLIPSIS).unwrap();
    assert!(text.starts_with(kept));
    let stated = out["truncated"].as_array().unwrap().iter().find(|t| t["field"] == "messages[0].text").unwrap();
    assert_eq!(stated["shown"], kept.chars().count());
    assert_eq!(stated["total"], text.chars().count());
}

/// A short part is never paid for by a long neighbour.
#[test]
fn what_is_short_stays_whole() {
    let goal = |n: usize| json!({ "goalPrefix": "⊢ ", "target": "p".repeat(300), "hyps": [{ "names": ["h"], "type": n.to_string() }] });
    let value = json!({
        "success": true,
        "messages": (0..2000).map(|n| json!({ "severity": "information", "text": n.to_string() })).collect::<Vec<_>>(),
        "proof_state": { "goals": [goal(1), goal(2)] },
    });
    let out = truncated(&value, 6_000, &expect![[r#"[{"field":"messages","unit":"items","shown":126,"total":2000}]"#]]);
    assert_eq!(out["proof_state"], value["proof_state"]);
}

#[test]
fn handles_and_code_actions_are_whole_or_the_call_fails() {
    let action = json!({ "title": "t", "edit": { "newText": "x".repeat(9000) } });
    let out = bounded(&json!({ "workspace": { "root": "/p" }, "version": 1, "code_action": action }), 5_000);
    assert!(out.is_error);
    assert_eq!(out.structured["code"], "outputTooLarge");
    let message = out.structured["message"].as_str().unwrap();
    assert!(message.contains("max_output_bytes") && message.contains("5000"), "{message}");
    // In a list, what does not fit is left out whole.
    let items = json!([{ "kind": "sorry", "range": 1 }, { "kind": "code_action", "code_action": action }]);
    let out = truncated(
        &json!({ "version": 1, "items": items, "padding": "y".repeat(8000) }),
        5_000,
        &expect![[
            r#"[{"field":"padding","unit":"characters","shown":2350,"total":8000},{"field":"items","unit":"items","shown":1,"total":2}]"#
        ]],
    );
    assert_eq!(out["items"], json!([{ "kind": "sorry", "range": 1 }]));
    let handle = json!({ "workspaceId": "w", "raw": "z".repeat(6000) });
    assert!(bounded(&json!({ "success": true, "next_handle": handle }), 5_000).is_error);
}

#[test]
fn statistics_of_many_workspaces_show_some_of_them() {
    let all: Map<String, Value> = (0..300)
        .map(|n| (format!("local:/p{n}"), json!({ "id": n, "sessions": { "lean": { "active": true } } })))
        .collect();
    let value = json!({ "uptimeMs": 1, "workspaces": all });
    let out = truncated(&value, 5_000, &expect![[r#"[{"field":"workspaces","unit":"items","shown":80,"total":300}]"#]]);
    assert_eq!(out["workspaces"]["local:/p0"], value["workspaces"]["local:/p0"]);
    // One that is too large by itself is not halved.
    let huge = json!({ "uptimeMs": 1, "workspaces": { "local:/p": "x".repeat(9000) } });
    assert_eq!(bounded(&huge, 5_000).structured["workspaces"], json!({}));
}

#[test]
fn errors_are_bounded_too_and_stay_errors() {
    let e = ToolError {
        code: "syncBarrierIncomplete".to_owned(),
        message: "m".to_owned(),
        data: Some(json!({ "staleDirectDeps": (0..3000).map(|n| n.to_string()).collect::<Vec<_>>() })),
    };
    let out = to_limit(e.into(), &limits(4096));
    assert!(out.is_error && out.structured["code"] == "syncBarrierIncomplete");
    assert_eq!(out.structured["truncated"][0]["field"], "data.staleDirectDeps");
    assert!(out.structured.to_string().len() <= 4096);
}

#[test]
fn sizes_are_those_of_the_json() {
    for value in [json!(null), json!([1, "a\"\\\n\u{1}é", { "k": [] }]), json!({ "a": 1.5, "b": "∀" }), json!([])] {
        assert_eq!(size(&value), value.to_string().len());
        if let Value::Array(items) = &value {
            assert_eq!(size_of_items(items), size(&value));
        }
    }
    let text = "a\"∀\n\u{1}z";
    for budget in 0..20 {
        let kept = &text[..prefix(text, budget)];
        assert!(quoted(kept) - 2 <= budget, "{budget}: {kept:?}");
    }
    assert_eq!(prefix(text, 100), text.len());
}

#[test]
fn the_variable_is_checked() {
    assert_eq!(OutputLimits::parse(None), Ok(OutputLimits::default()));
    assert_eq!(OutputLimits::parse(Some(" ")), Ok(OutputLimits::default()));
    assert_eq!(OutputLimits::parse(Some("8192")), Ok(OutputLimits { max_output_bytes: 8192, full_messages: false }));
    for bad in ["0", "-1", "4095", "3145729", "many"] {
        assert!(OutputLimits::parse(Some(bad)).unwrap_err().contains(OutputLimits::VARIABLE), "{bad}");
    }
}

mod any {
    use proptest::prelude::*;

    use super::*;

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i32>().prop_map(Value::from),
            "\\PC{0,400}".prop_map(Value::from),
            Just(json!("error")),
        ];
        leaf.prop_recursive(4, 64, 8, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
                proptest::collection::vec(("(severity|text|path|items|result|message|code_action)", inner), 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// Whatever comes in: it fits afterwards, and is either unchanged, cut with a statement, or an error.
        #[test]
        fn it_fits(value in values(), limit in 400usize..4000) {
            let value = json!({ "workspace": { "root": "/p" }, "body": value });
            let out = bounded(&value, limit);
            let fits = value.to_string().len() <= limit;
            if out.is_error {
                prop_assert!(!fits);
                prop_assert_eq!(&out.structured["code"], "outputTooLarge");
            } else {
                prop_assert!(out.structured.to_string().len() <= limit);
                prop_assert_eq!(out.structured == value, fits);
                prop_assert_eq!(out.structured.get("truncated").is_none(), fits);
            }
        }
    }
}

fn in_default_limits(value: Value) -> Value {
    to_limit(ToolOutput { structured: value, is_error: false }, &OutputLimits::default()).structured
}

/// Issue 12: half a megabyte of one trace is told by its first lines.
#[test]
fn a_long_message_is_cut_for_itself_and_its_length_is_told() {
    let long = "∀ x, ".repeat(3000);
    let value = json!({
        "workspace": { "root": "/p" },
        "messages": [{ "severity": "error", "text": "short" }, { "severity": "error", "text": long }],
        "traces": [long],
        "next_handle": { "raw": { "text": long } },
        "readiness": { "blocking_diagnostics": [{ "message": long }] },
    });
    let out = in_default_limits(value.clone());
    expect![[r#"[{"field":"messages[1].text","unit":"characters","shown":6000,"total":15000},{"field":"traces[0]","unit":"characters","shown":6000,"total":15000},{"field":"readiness.blocking_diagnostics[0].message","unit":"characters","shown":6000,"total":15000}]"#]]
        .assert_eq(&out["truncated"].to_string());
    assert_eq!(out["messages"][1]["text"].as_str().unwrap().chars().count(), 6001);
    assert_eq!(out["messages"][0], value["messages"][0]);
    assert_eq!(out["next_handle"], value["next_handle"], "what is opaque is whole");
    let full = OutputLimits { max_output_bytes: 1 << 20, full_messages: true };
    assert_eq!(to_limit(ToolOutput { structured: value.clone(), is_error: false }, &full).structured, value);
    let exact = json!({ "messages": [{ "text": "x".repeat(6000) }] });
    assert_eq!(in_default_limits(exact.clone()), exact);
}

/// Both cuts together: the length that is told is that of the whole text.
#[test]
fn a_text_that_is_cut_twice_has_its_first_length() {
    let value = json!({ "messages": [{ "severity": "error", "text": "y".repeat(9_000_000) }], "traces": [] });
    let limits = OutputLimits { max_output_bytes: 4096, full_messages: false };
    let out = to_limit(ToolOutput { structured: value, is_error: false }, &limits).structured;
    assert!(out.to_string().len() <= 4096);
    assert_eq!(out["truncated"].as_array().unwrap().len(), 1, "{out}");
    assert_eq!(out["truncated"][0]["total"], 9_000_000);
    let shown = out["truncated"][0]["shown"].as_u64().unwrap();
    assert_eq!(out["messages"][0]["text"].as_str().unwrap().chars().count() as u64, shown + 1);
}

//! What people should know about an answer that is no error: caveats, sorries, old imports, advice (issue 10). Data in, lines out.

use std::fmt::Write as _;

use beam_wire::{Op, Response};
use serde_json::Value;

/// Sorries that get a line each; the answer has the others.
const SORRIES: usize = 10;

/// The notes on an answer about the file that the user calls `path`.
#[must_use]
pub fn of(op: Op, response: &Response, path: Option<&str>) -> Vec<String> {
    let Ok(result) = &response.outcome else { return Vec::new() };
    let path = path.unwrap_or_default();
    let mut notes = match op {
        Op::RunAt | Op::RunWith => run(result),
        Op::TryTexts => attempts(result),
        Op::SyncFile | Op::RefreshFile => sorries(result, path),
        // The barrier that the checkpoint is based on.
        Op::SaveOlean => sorries(&result["sync"], path),
        Op::Close => sorries(&result["saved"]["sync"], path),
        Op::Goals => hint(result).into_iter().collect(),
        _ => Vec::new(),
    };
    notes.extend(stale(result, path));
    notes
}

/// What a caveat means, said of "the text" or of some candidates. A word that this build does not know is shown as it is.
fn caveat(subject: &str, word: &str) -> String {
    match word {
        "sorry" => {
            format!("note: {subject} was accepted, but it leaves a `sorry`; the declaration is not proved")
        }
        "recursion" => format!(
            "note: {subject} was accepted, but it uses the declaration that is being proved; whether that terminates is checked only when the file is"
        ),
        "unsafe" => {
            format!(
                "note: {subject} was accepted, but it uses what the kernel refuses; the declaration will be an error"
            )
        }
        other => format!("note: {subject} was accepted, with the caveat `{other}`"),
    }
}

fn words(value: &Value) -> impl Iterator<Item = &str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn hint(result: &Value) -> Option<String> {
    result["hint"]["text"].as_str().map(|text| format!("hint: {text}"))
}

fn run(result: &Value) -> Vec<String> {
    words(&result["caveats"]).map(|word| caveat("the text", word)).chain(hint(result)).collect()
}

/// One line for what is said of several candidates: sixty-four may have the same mistake.
fn attempts(result: &Value) -> Vec<String> {
    let lines = || result["results"].as_array().into_iter().flatten();
    let mut said: Vec<(String, Vec<u64>)> = Vec::new();
    let mut say = |what: String, index: &Value| {
        // Counted from 1, as everything on stderr is.
        let number = index.as_u64().unwrap_or_default() + 1;
        match said.iter_mut().find(|(known, _)| *known == what) {
            Some((_, numbers)) => numbers.push(number),
            None => said.push((what, vec![number])),
        }
    };
    for line in lines() {
        for word in words(&line["caveats"]) {
            say(format!("caveat {word}"), &line["index"]);
        }
        if let Some(text) = line["hint"]["text"].as_str() {
            say(format!("hint {text}"), &line["index"]);
        }
    }
    let mut notes: Vec<String> = said
        .iter()
        .map(|(what, numbers)| match what.split_once(' ') {
            Some(("caveat", word)) => caveat(&candidates(numbers), word),
            Some((_, text)) => format!("hint for {}: {text}", candidates(numbers)),
            None => what.clone(),
        })
        .collect();
    if lines().all(|line| matches!(line["outcome"].as_str(), Some("failed" | "error"))) && lines().next().is_some() {
        notes.insert(0, "note: no candidate was accepted; see result.results".to_owned());
    }
    notes
}

/// `candidate 3`, `each of the candidates 1, 2, 5`: what follows is in the singular.
fn candidates(numbers: &[u64]) -> String {
    match numbers {
        [one] => format!("candidate {one}"),
        several => {
            let list: Vec<_> = several.iter().map(u64::to_string).collect();
            format!("each of the candidates {}", list.join(", "))
        }
    }
}

/// Where proofs are missing, positions from 1.
fn sorries(result: &Value, path: &str) -> Vec<String> {
    let places: Vec<&Value> = result["sorries"].as_array().into_iter().flatten().collect();
    let from_one = |n: &Value| n.as_u64().unwrap_or_default() + 1;
    let mut notes: Vec<String> = places
        .iter()
        .take(SORRIES)
        .map(|place| {
            let mut line = format!("note: sorry {path}:{}:{}", from_one(&place["line"]), from_one(&place["character"]));
            if let Some(name) = place["declaration"].as_str() {
                let _written = write!(line, ": `{name}` is not proved");
            }
            line
        })
        .collect();
    let total = result["sorriesTotal"].as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(places.len());
    if total > notes.len() {
        notes.push(format!("note: and {} more; see result.sorries", total - notes.len()));
    }
    notes
}

/// An answer about an environment that is no longer what the sources say.
fn stale(result: &Value, path: &str) -> Option<String> {
    let imports: Vec<_> = words(&result["staleImports"]).collect();
    (!imports.is_empty()).then(|| {
        format!(
            "note: imports changed since {path} was opened: {}; this answer is about the old ones; run: lean-beam refresh {}",
            imports.join(", "),
            quoted(path)
        )
    })
}

/// One word for a shell.
fn quoted(path: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
    if !path.is_empty() && path.chars().all(plain) {
        path.to_owned()
    } else {
        format!("'{}'", path.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use beam_wire::{ErrorBody, FailureCode};
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    fn check(op: Op, result: Value, expect: &Expect) {
        expect.assert_eq(&of(op, &Response::ok(result), Some("A.lean")).join("\n"));
    }

    #[test]
    fn clean_answers_and_failures_have_no_notes() {
        for op in [Op::RunAt, Op::RunWith, Op::TryTexts, Op::SyncFile, Op::Goals, Op::SaveOlean, Op::Hover] {
            let solved = json!({"success": true, "results": [{"index": 0, "outcome": "solved"}]});
            assert_eq!(of(op, &Response::ok(solved), Some("A.lean")), Vec::<String>::new(), "{op:?}");
            let failed = Response::failed(ErrorBody::new(FailureCode::InternalError, "x"));
            assert_eq!(of(op, &failed, Some("A.lean")), Vec::<String>::new(), "{op:?}");
        }
    }

    #[test]
    fn every_caveat_is_a_sentence() {
        let all: Vec<_> = beam_wire::run::Caveat::ALL.iter().map(|c| c.as_str()).collect();
        check(
            Op::RunAt,
            json!({"success": true, "caveats": all}),
            &expect![[r#"
            note: the text was accepted, but it leaves a `sorry`; the declaration is not proved
            note: the text was accepted, but it uses the declaration that is being proved; whether that terminates is checked only when the file is
            note: the text was accepted, but it uses what the kernel refuses; the declaration will be an error"#]],
        );
    }

    #[test]
    fn hints_and_old_imports() {
        let hint = json!({"code": "leadingBy", "text": "leave out the `by`"});
        let result = json!({"success": false, "hint": hint, "staleImports": ["B", "C.D"]});
        check(
            Op::RunWith,
            result.clone(),
            &expect![[r#"
            hint: leave out the `by`
            note: imports changed since A.lean was opened: B, C.D; this answer is about the old ones; run: lean-beam refresh A.lean"#]],
        );
        let spaced = of(Op::Todo, &Response::ok(result), Some("My App/it's.lean"));
        assert!(spaced[0].ends_with(r"run: lean-beam refresh 'My App/it'\''s.lean'"), "{spaced:?}");
    }

    #[test]
    fn candidates_that_have_the_same_to_be_said_share_a_line() {
        let hint = json!({"code": "severalTactics", "text": "wrap as `(a; b)`"});
        let line = |index, outcome: &str, caveats: &[&str]| json!({"index": index, "outcome": outcome, "caveats": caveats, "hint": hint});
        check(
            Op::TryTexts,
            json!({"results": [line(0, "failed", &[]), line(1, "solved", &["sorry"]), line(4, "solved", &["sorry", "recursion"])]}),
            &expect![[r#"
                hint for each of the candidates 1, 2, 5: wrap as `(a; b)`
                note: each of the candidates 2, 5 was accepted, but it leaves a `sorry`; the declaration is not proved
                note: candidate 5 was accepted, but it uses the declaration that is being proved; whether that terminates is checked only when the file is"#]],
        );
        check(
            Op::TryTexts,
            json!({"results": [{"index": 0, "outcome": "failed"}, {"index": 1, "outcome": "error"}]}),
            &expect!["note: no candidate was accepted; see result.results"],
        );
    }

    #[test]
    fn sorries_are_placed_and_bounded() {
        let place = |n: u64| json!({"line": n, "character": 2, "declaration": format!("t{n}")});
        let few = json!({"sorries": [place(3), {"line": 0, "character": 0}]});
        let shown = expect![[r#"
            note: sorry A.lean:4:3: `t3` is not proved
            note: sorry A.lean:1:1"#]];
        check(Op::SyncFile, few.clone(), &shown);
        check(Op::SaveOlean, json!({"sync": few}), &shown);
        check(Op::Close, json!({"saved": {"sync": few}}), &shown);
        let many: Vec<_> = (0..100).map(place).collect();
        let notes = of(Op::SyncFile, &Response::ok(json!({"sorries": many, "sorriesTotal": 250})), Some("A.lean"));
        assert_eq!(notes.len(), SORRIES + 1);
        assert_eq!(notes[SORRIES], "note: and 240 more; see result.sorries");
    }
}

//! Comparing an answer with a case's expectation. An expectation names all that is promised and nothing else.

use serde_json::{Value, json};

/// The request did not fail.
pub fn accepted(answer: &Value) -> Result<(), String> {
    if answer["ok"] == true { Ok(()) } else { Err(format!("not accepted: {answer}")) }
}

/// Two values are the same.
pub fn equal(what: &str, got: &Value, want: &Value) -> Result<(), String> {
    if got == want { Ok(()) } else { Err(format!("{what}: expected {want}, got {got}")) }
}

fn contains_all(what: &str, text: &Value, parts: &Value) -> Result<(), String> {
    let text = text.as_str().ok_or_else(|| format!("{what}: no text"))?;
    for part in parts.as_array().expect("a list of parts") {
        let part = part.as_str().expect("a part");
        if !text.contains(part) {
            return Err(format!("{what}: {part:?} does not occur in {text:?}"));
        }
    }
    Ok(())
}

/// Everything a step expects.
pub fn step(want: &Value, answer: &Value) -> Result<(), String> {
    if let Some(code) = want.get("transport_error") {
        equal("ok", &answer["ok"], &json!(false))?;
        equal("error code", &answer["error"]["code"], code)?;
        if let Some(parts) = want.get("message_contains") {
            contains_all("error message", &answer["error"]["message"], parts)?;
        }
        return Ok(());
    }
    accepted(answer)?;
    let result = &answer["result"];
    for (key, want) in want.as_object().expect("an expectation") {
        match key.as_str() {
            "success" => equal(key, &result["success"], want)?,
            "goals" => goals(result, want)?,
            "messages" => messages(result, want)?,
            "messages_include" => messages_include(result, want)?,
            "handle" => equal(key, &json!(result["handle"].is_object()), want)?,
            "traces" => equal(key, &result["traces"], want)?,
            "result" => equal(key, result, want)?,
            "items" => items(result, want)?,
            "edits" => edits(result, want)?,
            "save_ready" => equal(key, &result["readiness"]["saveReady"], want)?,
            "reason" => equal(key, &result["readiness"]["reason"], want)?,
            "blocking_error_count" => equal(key, &result["readiness"]["blockingErrorCount"], want)?,
            "counts" => equal(key, &result["diagnostics"]["counts"], want)?,
            other => return Err(format!("the case expects `{other}`, which this runner does not know")),
        }
    }
    // What an execution result must not have unless the case says so.
    if want.get("success").is_some() {
        if want.get("traces").is_none() {
            equal("traces", &result["traces"], &json!([]))?;
        }
        if want.get("handle").is_none() {
            equal("handle", &json!(result.get("handle").is_some()), &json!(false))?;
        }
    }
    Ok(())
}

/// `null` means that there is no proof state at all.
fn goals(result: &Value, want: &Value) -> Result<(), String> {
    let got = if result.get("goals").is_some() { &result["goals"] } else { &result["proofState"]["goals"] };
    equal("goals", got, want)
}

fn message(got: &Value, want: &Value) -> Result<(), String> {
    equal("message severity", &got["severity"], &want["severity"])?;
    match want.get("text") {
        Some(text) => equal("message text", &got["text"], text),
        None => contains_all("message text", &got["text"], &want["text_contains"]),
    }
}

fn messages(result: &Value, want: &Value) -> Result<(), String> {
    let (got, want) = (list(&result["messages"])?, list(want)?);
    if got.len() != want.len() {
        return Err(format!("{} messages, expected {}", got.len(), want.len()));
    }
    got.iter().zip(want).try_for_each(|(g, w)| message(g, w))
}

fn messages_include(result: &Value, want: &Value) -> Result<(), String> {
    let got = list(&result["messages"])?;
    for w in list(want)? {
        if !got.iter().any(|g| message(g, w).is_ok()) {
            return Err(format!("no message like {w}"));
        }
    }
    Ok(())
}

fn list(v: &Value) -> Result<&Vec<Value>, String> {
    v.as_array().ok_or_else(|| format!("not a list: {v}"))
}

/// Items in order; those of equal kind and range in any order.
fn items(result: &Value, want: &Value) -> Result<(), String> {
    let mut got: Vec<&Value> = list(&result["items"])?.iter().collect();
    let want = list(want)?;
    if got.len() != want.len() {
        return Err(format!("{} items, expected {}", got.len(), want.len()));
    }
    for w in want {
        let first = got.iter().position(|g| g["kind"] == w["kind"] && g["range"] == w["range"]);
        let same = got.iter().position(|g| item(g, w).is_ok());
        match (first, same) {
            // Anything before it in the list must be one it may change places with.
            (Some(0), Some(n)) if got[..n].iter().all(|g| g["kind"] == w["kind"] && g["range"] == w["range"]) => {
                got.remove(n);
            }
            _ => {
                let why =
                    got.first().map_or("the list is exhausted".to_owned(), |g| item(g, w).err().unwrap_or_default());
                return Err(format!("item {w}: {why}"));
            }
        }
    }
    Ok(())
}

fn item(got: &Value, want: &Value) -> Result<(), String> {
    equal("kind", &got["kind"], &want["kind"])?;
    equal("range", &got["range"], &want["range"])?;
    equal("runAtPosition", &got["runAtPosition"], &want["run_at_position"])?;
    equal("runAtText", &got["runAtText"], &want["run_at_text"])?;
    equal("goals", &got["proofState"]["goals"], &want["goals"])?;
    if let Some(severity) = want.get("severity") {
        equal("severity", &got["severity"], severity)?;
    }
    if let Some(title) = want.get("title") {
        equal("title", &got["codeAction"]["title"], title)?;
    }
    if let Some(parts) = want.get("title_contains") {
        contains_all("title", &got["codeAction"]["title"], parts)?;
    }
    if let Some(text) = want.get("message") {
        equal("message", &got["message"], text)?;
    }
    if let Some(parts) = want.get("message_contains") {
        contains_all("message", &got["message"], parts)?;
    }
    Ok(())
}

/// All text edits of a resolved action, in either shape of a workspace edit.
fn edits(result: &Value, want: &Value) -> Result<(), String> {
    let edit = &result["codeAction"]["edit"];
    let mut got = Vec::new();
    for change in edit["documentChanges"].as_array().into_iter().flatten() {
        got.extend(change["edits"].as_array().into_iter().flatten().cloned());
    }
    for (_, changes) in edit["changes"].as_object().into_iter().flatten() {
        got.extend(changes.as_array().into_iter().flatten().cloned());
    }
    let got: Vec<Value> = got.iter().map(|e| json!({"range": e["range"], "new_text": e["newText"]})).collect();
    equal("edits", &json!(got), want)
}

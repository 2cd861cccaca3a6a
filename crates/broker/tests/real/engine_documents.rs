//! The barrier, unusual files, statistics, todo, navigation, dependencies.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::expect::equal;
use crate::support::lanes::{Lane, WORKSPACE};
use crate::support::steps::{Outcome, PROOF, code, holds, probe, put, succeeds, sync};

const MIXED: &str = "def a : Nat := \"x\"\n\ntheorem w : 1 = 1 := by\n  sorry\n\n#eval 1 + 1\n";

pub async fn sync_counts_and_filters_diagnostics(lane: Arc<Lane>) -> Outcome {
    put(&lane, "A.lean", MIXED).await?;
    for (scope, shown) in [(None, 1), (Some("errors"), 1), (Some("all"), 3)] {
        // Fresh and replayed alike: the second and third time Lean has nothing new to publish.
        let mut request = json!({"op": "sync_file", "path": lane.path("A.lean"), "diagnosticsInResult": true});
        if let Some(scope) = scope {
            request["diagnosticScope"] = scope.into();
        }
        let (r, events) = lane.ask_with_events(request).await;
        let d = &r["result"]["diagnostics"];
        equal(
            "counts",
            &d["counts"],
            &json!({"error": 1, "warning": 1, "information": 1, "hint": 0, "unknown": 0, "total": 3}),
        )?;
        equal("items", &json!(d["items"].as_array().map(Vec::len)), &json!(shown))?;
        let streamed: Vec<_> = events.iter().filter(|e| e["kind"] == "diagnostic").collect();
        equal("streamed", &json!(streamed.len()), &json!(shown))?;
        holds("a relative path", streamed[0]["payload"]["path"] == lane.path("A.lean").as_str(), &json!(streamed))?;
    }
    let plain = sync(&lane, "A.lean").await;
    equal("no items unasked", &plain["result"]["diagnostics"]["items"], &Value::Null)
}

pub async fn r6_readiness_is_leans_verdict(lane: Arc<Lane>) -> Outcome {
    put(&lane, "A.lean", MIXED).await?;
    let r = sync(&lane, "A.lean").await;
    let ready = &r["result"]["readiness"];
    equal(
        "not ready",
        &json!([ready["saveReady"], ready["reason"], ready["blockingErrorCount"]]),
        &json!([false, "documentErrors", 1]),
    )?;
    equal("evidence", &ready["blockingDiagnostics"][0]["range"]["start"]["line"], &json!(0))?;
    put(&lane, "A.lean", "theorem w : 1 = 1 := by\n  sorry\n").await?;
    let r = sync(&lane, "A.lean").await;
    let ready = &r["result"]["readiness"];
    equal(
        "ready with a warning",
        &json!([ready["saveReady"], ready["reason"], ready["blockingErrorCount"]]),
        &json!([true, "ok", 0]),
    )
}

pub async fn sync_after_an_edit_is_about_the_new_text(lane: Arc<Lane>) -> Outcome {
    for n in 0..12u32 {
        let bad = n % 3 == 0;
        let text = if bad { format!("def a{n} : Nat := \"{n}\"\n") } else { format!("def a{n} : Nat := {n}\n") };
        let v = put(&lane, "A.lean", &text).await?;
        let r = sync(&lane, "A.lean").await;
        equal("version", &r["result"]["version"], &json!(v))?;
        equal("errors", &r["result"]["diagnostics"]["counts"]["error"], &json!(u32::from(bad)))?;
        equal("ready", &r["result"]["readiness"]["saveReady"], &json!(!bad))?;
    }
    Ok(())
}

pub async fn a_missing_import_is_never_clean(lane: Arc<Lane>) -> Outcome {
    put(&lane, "I.lean", "import Not.There\n\ndef k : Nat := 9\n").await?;
    let r = sync(&lane, "I.lean").await;
    if r["ok"] == true {
        equal("ready", &r["result"]["readiness"]["saveReady"], &json!(false))?;
        holds("an error", r["result"]["diagnostics"]["counts"]["error"].as_u64() > Some(0), &r)?;
    } else {
        code(&r, "syncBarrierIncomplete")?;
    }
    lane.ask(json!({"op": "close", "path": lane.path("I.lean")}), None).await;
    Ok(())
}

pub async fn utf16_crlf_tabs_and_missing_newlines(lane: Arc<Lane>) -> Outcome {
    let v = put(&lane, "A.lean", "def k := 1\r\n-- 😀\r\n\tdef l := 2").await?;
    succeeds(&probe(&lane, "A.lean", v, 1, 5, "#check k").await)?;
    let r = probe(&lane, "A.lean", v, 1, 6, "#check k").await;
    code(&r, "invalidParams")?;
    holds("the limit in UTF-16", r["error"]["message"].as_str().is_some_and(|m| m.contains('5')), &r)?;
    succeeds(&probe(&lane, "A.lean", v, 0, 10, "#check k").await)?;
    code(&probe(&lane, "A.lean", v, 0, 11, "#check k").await, "invalidParams")?;
    code(&probe(&lane, "A.lean", v, 3, 0, "#check k").await, "invalidParams")?;
    // The hash of the text is compared on both sides, so a sync proves that both see the same characters.
    let r = sync(&lane, "A.lean").await;
    equal("synced", &r["ok"], &json!(true))
}

pub async fn an_empty_file_and_a_byte_order_mark(lane: Arc<Lane>) -> Outcome {
    let v = put(&lane, "A.lean", "").await?;
    succeeds(&probe(&lane, "A.lean", v, 0, 0, "#check Nat").await)?;
    let r = sync(&lane, "A.lean").await;
    equal("ready", &r["result"]["readiness"]["saveReady"], &json!(true))?;
    put(&lane, "A.lean", "\u{feff}def k := 1\n").await?;
    let r = sync(&lane, "A.lean").await;
    // Lean does not accept the mark; it says so, and so do we.
    holds(
        "an answer about the text",
        r["ok"] == true && r["result"]["diagnostics"]["counts"]["error"].as_u64() > Some(0),
        &r,
    )
}

pub async fn a_line_of_two_megabytes(lane: Arc<Lane>) -> Outcome {
    let text = format!("def k := 1\n-- {}\ndef l := 2\n", "😀x".repeat(400_000));
    let v = put(&lane, "A.lean", &text).await?;
    succeeds(&probe(&lane, "A.lean", v, 3, 0, "#check l").await)?;
    let r = sync(&lane, "A.lean").await;
    equal("ready", &r["result"]["readiness"]["saveReady"], &json!(true))
}

pub async fn open_documents_know_the_disk(lane: Arc<Lane>) -> Outcome {
    let v = put(&lane, "A.lean", PROOF).await?;
    put(&lane, "B.lean", PROOF).await?;
    lane.write("B.lean", "-- other\n");
    let r = lane.ask(json!({"op": "open_docs"}), None).await;
    let files = &r["result"]["sessions"]["lean"]["files"];
    let find = |file: &str| {
        files
            .as_array()
            .and_then(|a| a.iter().find(|f| f["path"] == lane.path(file).as_str()))
            .cloned()
            .unwrap_or_default()
    };
    equal(
        "A",
        &json!([find("A.lean")["version"], find("A.lean")["diskStatus"], find("A.lean")["checkpointed"]]),
        &json!([v, "matchesTracked", false]),
    )?;
    equal("B", &find("B.lean")["diskStatus"], &json!("differsFromTracked"))?;
    std::fs::remove_file(lane.dir().join("B.lean")).expect("B is there");
    let r = lane.ask(json!({"op": "open_docs"}), None).await;
    let gone = r["result"]["sessions"]["lean"]["files"]
        .as_array()
        .is_some_and(|a| a.iter().any(|f| f["path"] == lane.path("B.lean").as_str() && f["diskStatus"] == "missing"));
    holds("B is missing", gone, &r)?;
    // A file that is gone can still be closed.
    equal(
        "closed",
        &lane.ask(json!({"op": "close", "path": lane.path("B.lean")}), None).await["result"],
        &json!({"closed": true}),
    )
}

pub async fn statistics_count_what_happened(lane: Arc<Lane>) -> Outcome {
    let v = put(&lane, "A.lean", PROOF).await?;
    succeeds(&probe(&lane, "A.lean", v, 1, 2, "skip").await)?;
    let up = |r: &Value| r["result"]["uptimeMs"].as_u64().ok_or_else(|| format!("no uptime: {r}"));
    let old = up(&lane.ask(json!({"op": "stats"}), None).await)?;
    let since = Instant::now();
    equal("reset", &lane.ask_process(json!({"op": "reset_stats"})).await["ok"], &json!(true))?;
    for scope in [lane.ask(json!({"op": "stats"}), None).await, lane.ask_process(json!({"op": "stats"})).await] {
        // Not younger than the reset; a clock that ran on would show at least what it showed before.
        let (new, most) = (up(&scope)?, u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX));
        holds("the uptime starts anew", old > 0 && new <= most && new < old + most, &json!([old, new, most]))?;
    }
    succeeds(&probe(&lane, "A.lean", v, 1, 2, "skip").await)?;
    code(&probe(&lane, "A.lean", v, 99, 2, "skip").await, "invalidParams")?;
    code(&lane.ask(json!({"op": "run_at", "path": "x"}), None).await, "invalidParams")?;
    let r = lane.ask(json!({"op": "stats"}), None).await;
    let op = &r["result"]["byBackend"]["lean"]["ops"]["run_at"];
    equal(
        "run_at",
        &json!([op["count"], op["successCount"], op["errorCount"], op["invalidParamsCount"]]),
        &json!([3, 1, 2, 2]),
    )?;
    let all = lane.ask_process(json!({"op": "stats"})).await;
    holds(
        "the process-wide form",
        all["result"]["workspaces"][WORKSPACE]["root"].is_string() && all["result"]["root"].is_null(),
        &all,
    )
}

/// R1: many clients read the file while it changes; whatever the order in which their reads end, the mirror ends up with the last text.
pub async fn r1_concurrent_updates_settle_on_the_newest_text(lane: Arc<Lane>) -> Outcome {
    put(&lane, "A.lean", "-- 0\n").await?;
    let mut all = tokio::task::JoinSet::new();
    for n in 1..=40 {
        lane.write("A.lean", &format!("-- {n}\n"));
        let lane = Arc::clone(&lane);
        all.spawn(async move { lane.ask(json!({"op": "update_file", "path": lane.path("A.lean")}), None).await });
        if n % 8 == 0 {
            tokio::task::yield_now().await;
        }
    }
    while let Some(r) = all.join_next().await {
        equal("ok", &r.map_err(|e| e.to_string())?["ok"], &json!(true))?;
    }
    let r = lane.ask(json!({"op": "open_docs"}), None).await;
    let files = r["result"]["sessions"]["lean"]["files"].as_array().cloned().unwrap_or_default();
    let a = files.iter().find(|f| f["path"] == lane.path("A.lean").as_str()).cloned().unwrap_or_default();
    equal("disk status", &a["diskStatus"], &json!("matchesTracked"))
}

pub async fn r4_events_come_before_the_one_answer(lane: Arc<Lane>) -> Outcome {
    put(&lane, "A.lean", PROOF).await?;
    // The barrier itself brings the new text, so that all of its elaboration is seen by the barrier.
    lane.write("A.lean", &format!("{PROOF}\n-- fresh\n{PROOF}").replacen("theorem t ", "theorem fresh ", 1));
    let (r, events) = lane.ask_with_events(json!({"op": "sync_file", "path": lane.path("A.lean")})).await;
    equal("ok", &r["ok"], &json!(true))?;
    equal("done", &r["fileProgress"]["done"], &json!(true))?;
    let progress: Vec<u64> = events
        .iter()
        .filter(|e| e["kind"] == "fileProgress")
        .filter_map(|e| e["payload"]["updates"].as_u64())
        .collect();
    holds("progress is shown", !progress.is_empty(), &json!(events))?;
    holds("rising updates", progress.windows(2).all(|w| w[0] < w[1]), &json!(progress))?;
    let last = r["fileProgress"]["updates"].as_u64();
    holds("the answer is the last to count", last >= progress.last().copied(), &json!([r["fileProgress"], progress]))
}

pub async fn todo_ranges_kinds_and_refusals(lane: Arc<Lane>) -> Outcome {
    let v = put(&lane, "A.lean", "theorem t : True := by\n  sorry\n").await?;
    let todo = |kinds: Value, end_line: u32| json!({"op": "todo", "path": lane.path("A.lean"), "version": v, "line": 0, "character": 0, "endLine": end_line, "endCharacter": 0, "kinds": kinds});
    let r = lane.ask(todo(json!(["sorry"]), 2), None).await;
    let items = &r["result"]["items"];
    equal("one sorry", &json!(items.as_array().map(Vec::len)), &json!(1))?;
    let at = &items[0]["runAtPosition"];
    let (line, character) = (at["line"].as_u64().unwrap_or(99), at["character"].as_u64().unwrap_or(99));
    let r =
        probe(&lane, "A.lean", v, u32::try_from(line).unwrap_or(99), u32::try_from(character).unwrap_or(99), "trivial")
            .await;
    succeeds(&r)?;
    // An end behind the file is moved to its end, and without a range it is the whole file; a start outside is a mistake.
    let whole = json!({"op": "todo", "path": lane.path("A.lean"), "version": v, "kinds": ["sorry"]});
    for request in [todo(json!(["sorry"]), 99), whole] {
        let r = lane.ask(request, None).await["result"].clone();
        equal("the end", &r["range"]["end"], &json!({"line": 2, "character": 0}))?;
        equal("lines and items", &json!([r["lineCount"], r["items"].as_array().map(Vec::len)]), &json!([3, 1]))?;
    }
    let mut outside = todo(json!(["sorry"]), 99);
    outside["line"] = 50.into();
    code(&lane.ask(outside, None).await, "invalidParams")?;
    code(&lane.ask(todo(json!(["everything"]), 2), None).await, "invalidParams")?;
    let mut reversed = todo(json!([]), 0);
    reversed["line"] = 1.into();
    code(&lane.ask(reversed, None).await, "invalidParams")
}

pub async fn code_actions_are_resolved_for_their_own_file_only(lane: Arc<Lane>) -> Outcome {
    let v = put(&lane, "A.lean", "#guard_msgs in\n#eval 7\n").await?;
    put(&lane, "B.lean", PROOF).await?;
    let r = lane
        .ask(json!({"op": "todo", "path": lane.path("A.lean"), "version": v, "line": 0, "character": 0, "endLine": 2, "endCharacter": 0, "kinds": ["code_action"]}), None)
        .await;
    let action = r["result"]["items"][0]["codeAction"].clone();
    holds("an action", action.is_object(), &r)?;
    let resolve = |file: &str, version: u64, action: &Value| json!({"op": "code_action_resolve", "path": lane.path(file), "version": version, "codeAction": action});
    let r = lane.ask(resolve("A.lean", v, &action), None).await;
    holds("an edit", r["result"]["codeAction"]["edit"].is_object() && r["result"]["version"] == v, &r)?;
    // The target is checked before the version.
    code(&lane.ask(resolve("B.lean", 99, &action), None).await, "invalidParams")?;
    code(&lane.ask(resolve("A.lean", v + 1, &action), None).await, "contentModified")?;
    let mut odd = action.clone();
    odd["data"] = json!({"my": "own"});
    code(&lane.ask(resolve("A.lean", v, &odd), None).await, "invalidParams")
}

pub async fn hover_symbols_and_signature_are_leans_own(lane: Arc<Lane>) -> Outcome {
    let v = put(&lane, "A.lean", "/-- doc of twice -/\ndef twice (n : Nat) : Nat := n + n\n\n#eval twice 4\n").await?;
    let at = |op: &str, line: u32, character: u32| json!({"op": op, "path": lane.path("A.lean"), "version": v, "line": line, "character": character});
    let r = lane.ask(at("hover", 3, 8), None).await;
    holds(
        "type and doc",
        r["result"]["contents"]["value"].as_str().is_some_and(|t| t.contains("twice") && t.contains("doc of twice")),
        &r,
    )?;
    let r = lane.ask(at("hover", 2, 0), None).await;
    equal("nothing there", &json!([r["ok"], r["result"]]), &json!([true, null]))?;
    let r = lane.ask(json!({"op": "document_symbols", "path": lane.path("A.lean"), "version": v}), None).await;
    holds("twice", r["result"].as_array().is_some_and(|a| a.iter().any(|s| s["name"] == "twice")), &r)?;
    let r = lane.ask(at("signature_help", 3, 12), None).await;
    let label = r["result"]["signatures"][0]["label"].as_str();
    holds("the signature, as only signature help has it", label.is_some_and(|l| l.contains("n : Nat")), &r)
}

pub async fn workspace_selectors_are_checked(lane: Arc<Lane>) -> Outcome {
    let update = |extra: Value| {
        let mut r = json!({"op": "update_file", "path": lane.path("A.lean")});
        for (key, value) in extra.as_object().expect("fields") {
            r[key] = value.clone();
        }
        r
    };
    put(&lane, "A.lean", PROOF).await?;
    code(&lane.ask_process(update(json!({}))).await, "invalidParams")?;
    code(&lane.ask_process(update(json!({"workspaceId": "nobody"}))).await, "invalidParams")?;
    let root = lane.dir().parent().expect("the root");
    let same = root.join("lane0/..");
    equal("an alias of the root", &lane.ask(update(json!({"root": same})), None).await["ok"], &json!(true))?;
    let r = lane.ask(update(json!({"root": "/"})), None).await;
    code(&r, "invalidParams")?;
    holds(
        "both roots",
        r["error"]["message"].as_str().is_some_and(|m| m.contains("`/`") && m.contains(&*root.to_string_lossy())),
        &r,
    )?;
    code(&lane.ask(update(json!({"root": "/no/such/place"})), None).await, "invalidParams")
}

pub async fn ensure_reports_the_session(lane: Arc<Lane>) -> Outcome {
    let r = lane.ask(json!({"op": "ensure"}), None).await;
    let result = &r["result"];
    equal(
        "ensure",
        &json!([result["workspace_id"], result["backend"], result["epoch"]]),
        &json!([WORKSPACE, "lean", 1]),
    )?;
    equal("root", &result["root"], &json!(lane.dir().parent().expect("the root")))?;
    code(&lane.ask(json!({"op": "ensure", "backend": "rocq"}), None).await, "invalidParams")
}

pub async fn goals_with_a_text_are_refused(lane: Arc<Lane>) -> Outcome {
    let v = put(&lane, "A.lean", PROOF).await?;
    let request =
        json!({"op": "goals", "path": lane.path("A.lean"), "version": v, "line": 1, "character": 2, "text": "skip"});
    code(&lane.ask(request, None).await, "invalidParams")
}

/// Closed, refreshed, deleted and made anew: what a request says about a version is never answered about another text.
pub async fn a_version_names_one_text_for_ever(lane: Arc<Lane>) -> Outcome {
    let mut seen = vec![put(&lane, "A.lean", PROOF).await?];
    for n in 0..4 {
        match n {
            0 => drop(lane.ask(json!({"op": "close", "path": lane.path("A.lean")}), None).await),
            1 => {
                std::fs::remove_file(lane.dir().join("A.lean")).expect("A is there");
                lane.ask(json!({"op": "close", "path": lane.path("A.lean")}), None).await;
            }
            2 => {
                let r = lane.ask(json!({"op": "refresh_file", "path": lane.path("A.lean")}), None).await;
                seen.push(r["result"]["version"].as_u64().ok_or_else(|| r.to_string())?);
            }
            _ => {}
        }
        seen.push(put(&lane, "A.lean", &format!("-- {n}\n{PROOF}")).await?);
    }
    holds("versions only rise", seen.windows(2).all(|w| w[0] < w[1]), &json!(seen))?;
    let now = seen.pop().unwrap_or_default();
    for old in seen {
        let r = probe(&lane, "A.lean", old, 2, 2, "exact ⟨hp, hq⟩").await;
        code(&r, "contentModified")?;
        equal("the version now", &r["error"]["data"]["currentVersion"], &json!(now))?;
    }
    succeeds(&probe(&lane, "A.lean", now, 2, 2, "exact ⟨hp, hq⟩").await)
}

/// The file's last command takes long; a probe above it must not wait for it.
pub async fn a_probe_waits_only_for_the_prefix(lane: Arc<Lane>) -> Outcome {
    let slow = "example : True := by\n  sleep 6000\n  trivial\n";
    put(&lane, "A.lean", PROOF).await?;
    sync(&lane, "A.lean").await;
    let v = put(&lane, "A.lean", &format!("{PROOF}\n{slow}")).await?;
    let asked = Instant::now();
    succeeds(&probe(&lane, "A.lean", v, 1, 2, "exact ⟨hp, hq⟩").await)?;
    holds(
        "before the slow command has ended",
        asked.elapsed() < Duration::from_secs(5),
        &json!(asked.elapsed().as_millis()),
    )?;
    put(&lane, "A.lean", PROOF).await?;
    Ok(())
}

/// `Top` imports `Low`, which is built. Definition leads from one to the other, references back, open or not.
pub async fn definition_and_references_cross_files(lane: Arc<Lane>) -> Outcome {
    lane.write("Low.lean", "/-- low -/\ndef low : Nat := 4\n");
    let v = put(&lane, "Top.lean", "import lane0.Low\n\ntheorem uses : low = low := rfl\n").await?;
    let r = sync(&lane, "Top.lean").await;
    equal("the import is found", &r["result"]["readiness"]["saveReady"], &json!(true))
        .map_err(|e| format!("{e}: {r}"))?;
    let at = |op: &str, file: &str, version: u64, line: u32, character: u32| json!({"op": op, "path": lane.path(file), "version": version, "line": line, "character": character});
    let r = lane.ask(at("definition", "Top.lean", v, 2, 16), None).await;
    let place = &r["result"][0];
    let uri = place["targetUri"].as_str().or(place["uri"].as_str()).unwrap_or_default();
    holds("the definition in the other file", uri.ends_with("/Low.lean"), &r)?;

    let low = put(&lane, "Low.lean", "/-- low -/\ndef low : Nat := 4\n").await?;
    let uses = |r: &Value| -> Vec<String> {
        let mut all: Vec<String> = r["result"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|l| l["uri"].as_str().map(|u| u.rsplit('/').next().unwrap_or_default().to_owned()))
            .collect();
        all.sort();
        all
    };
    let r = lane.ask(at("references", "Low.lean", low, 1, 5), None).await;
    equal("with the declaration", &json!(uses(&r)), &json!(["Low.lean", "Top.lean", "Top.lean"]))
        .map_err(|e| format!("{e}: {r}"))?;
    let mut without = at("references", "Low.lean", low, 1, 5);
    without["includeDeclaration"] = false.into();
    let r = lane.ask(without, None).await;
    equal("without it", &json!(uses(&r)), &json!(["Top.lean", "Top.lean"])).map_err(|e| format!("{e}: {r}"))?;
    let r = lane.ask(json!({"op": "workspace_symbols", "query": "uses"}), None).await;
    holds("the symbol", r["result"].as_array().is_some_and(|a| a.iter().any(|s| s["name"] == "uses")), &r)?;
    lane.ask(json!({"op": "close", "path": lane.path("Low.lean")}), None).await;
    Ok(())
}

/// A dependency whose text changed since the importer loaded it makes the importer's barrier incomplete, with a plan that works. A project
/// without a lakefile: its modules are its paths.
pub async fn an_importer_of_a_changed_dependency_is_never_clean(lane: Arc<Lane>) -> Outcome {
    lane.write("Under.lean", "def low : Nat := 4\n");
    put(&lane, "Over.lean", "import lane0.Under\n\n#check low\n").await?;
    equal("clean at first", &sync(&lane, "Over.lean").await["ok"], &json!(true))?;
    equal("a baseline", &sync(&lane, "Under.lean").await["ok"], &json!(true))?;
    equal("still clean", &sync(&lane, "Over.lean").await["ok"], &json!(true))?;
    put(&lane, "Under.lean", "def low : Nat := 5\n").await?;
    equal("the dependency is fine", &sync(&lane, "Under.lean").await["ok"], &json!(true))?;
    // The second time the importer is edited, too: it still sees the old dependency.
    for text in ["import lane0.Under\n\n#check low\n", "import lane0.Under\n\n#check low + 1\n"] {
        lane.write("Over.lean", text);
        let r = sync(&lane, "Over.lean").await;
        code(&r, "syncBarrierIncomplete")?;
        let data = &r["error"]["data"];
        let (low, top) = (lane.path("Under.lean"), lane.path("Over.lean"));
        let dep = json!([{"module": "lane0.Under", "path": low, "needsSave": true}]);
        equal("the dependency", &data["staleDirectDeps"], &dep)?;
        equal("to be saved", &data["saveDeps"], &json!([low]))?;
        let plan = json!([format!("lean-beam save \"{low}\""), format!("lean-beam refresh \"{top}\"")]);
        equal("the plan", &data["recoveryPlan"], &plan)?;
        equal("progress", &r["ok"], &json!(false))?;
    }
    let r = lane.ask(json!({"op": "save_olean", "path": lane.path("Under.lean")}), None).await;
    equal("saved", &r["ok"], &json!(true)).map_err(|e| format!("{e}: {r}"))?;
    let r = sync(&lane, "Over.lean").await;
    code(&r, "syncBarrierIncomplete")?;
    equal("saved, but not yet seen", &r["error"]["data"]["saveDeps"], &json!([]))?;
    let r = lane.ask(json!({"op": "refresh_file", "path": lane.path("Over.lean")}), None).await;
    equal("refreshed", &r["ok"], &json!(true)).map_err(|e| format!("{e}: {r}"))?;
    for file in ["Under.lean", "Over.lean"] {
        lane.ask(json!({"op": "close", "path": lane.path(file)}), None).await;
    }
    Ok(())
}

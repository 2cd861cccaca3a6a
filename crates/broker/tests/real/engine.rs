//! The engine's own promises, against real Lean workers: versions, cancellation, edits and closes while a probe is pending, many
//! probes at once, handles and their counts, the barrier, unusual files.

mod support;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::{Value, json};
use support::expect::equal;
use support::lanes::{Lane, Lanes, WORKSPACE};

type Outcome = Result<(), String>;

fn main() -> ExitCode {
    let mut args = Arguments::from_args();
    let lanes = Arc::new(Lanes::new(1));
    args.test_threads = Some(1);
    macro_rules! trials {
        ($($name:ident),* $(,)?) => {
            vec![$({
                let lanes = Arc::clone(&lanes);
                Trial::test(stringify!($name), move || lanes.with($name).map_err(Failed::from))
            }),*]
        };
    }
    let trials = trials![
        a_version_is_the_token_of_every_position,
        a_disk_edit_makes_the_old_version_stale_at_once,
        positions_outside_name_the_limit,
        bad_files_are_named_for_what_they_are,
        a_second_request_with_an_active_id_is_refused,
        a_cancelled_probe_leaves_nothing_running,
        dropping_a_request_cancels_it,
        r3_a_late_cancel_hits_nobody,
        an_edit_ends_pending_probes_and_only_those,
        a_close_ends_pending_probes,
        a_killed_worker_is_replaced_and_told,
        a_changed_header_gets_a_fresh_worker,
        many_probes_share_one_worker,
        handle_counts_return_to_zero,
        malformed_raw_handles_reach_lean_and_are_refused,
        handles_of_another_session_are_stale,
        sync_counts_and_filters_diagnostics,
        r6_readiness_is_leans_verdict,
        sync_after_an_edit_is_about_the_new_text,
        a_missing_import_is_never_clean,
        utf16_crlf_tabs_and_missing_newlines,
        an_empty_file_and_a_byte_order_mark,
        a_line_of_two_megabytes,
        open_documents_know_the_disk,
        statistics_count_what_happened,
        r1_concurrent_updates_settle_on_the_newest_text,
        r4_events_come_before_the_one_answer,
        todo_ranges_kinds_and_refusals,
        code_actions_are_resolved_for_their_own_file_only,
        hover_symbols_and_signature_are_leans_own,
        workspace_selectors_are_checked,
        ensure_reports_the_session,
        goals_with_a_text_are_refused,
        refresh_starts_over_at_version_one,
        a_probe_waits_only_for_the_prefix,
        no_lean_file_is_ever_written,
        definition_and_references_cross_files,
        an_importer_of_a_changed_dependency_is_never_clean,
    ];
    let conclusion = libtest_mimic::run(&args, trials);
    lanes.shut_down();
    if conclusion.has_failed() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

const PROOF: &str =
    "theorem t (p q : Prop) (hp : p) (hq : q) : p ∧ q := by\n  constructor\n  · exact hp\n  · exact hq\n";
/// A tactic that waits, polling for interruption; and one that computes.
const META: &str = "import Lean\n\nelab \"poll_a_while\" : tactic => do\n  for _ in [0:500] do\n    IO.sleep 20\n    Lean.Core.checkInterrupted\n\nexample : True := by\n  trivial\n";

/// Writes and updates; the version.
async fn put(lane: &Lane, file: &str, text: &str) -> Result<u64, String> {
    lane.write(file, text);
    let answer = lane.ask(json!({"op": "update_file", "path": lane.path(file)}), None).await;
    answer["result"]["version"].as_u64().ok_or_else(|| format!("update: {answer}"))
}

fn run_at(lane: &Lane, file: &str, version: u64, line: u32, character: u32, text: &str) -> Value {
    json!({"op": "run_at", "path": lane.path(file), "version": version, "line": line, "character": character, "text": text})
}

async fn probe(lane: &Lane, file: &str, version: u64, line: u32, character: u32, text: &str) -> Value {
    lane.ask(run_at(lane, file, version, line, character, text), None).await
}

async fn sync(lane: &Lane, file: &str) -> Value {
    lane.ask(json!({"op": "sync_file", "path": lane.path(file)}), None).await
}

fn code(answer: &Value, want: &str) -> Outcome {
    equal("error code", &answer["error"]["code"], &json!(want)).map_err(|e| format!("{e}; answer: {answer}"))
}

fn succeeds(answer: &Value) -> Outcome {
    equal("success", &answer["result"]["success"], &json!(true)).map_err(|e| format!("{e}; answer: {answer}"))
}

fn holds(what: &str, condition: bool, seen: &Value) -> Outcome {
    if condition { Ok(()) } else { Err(format!("{what}; seen: {seen}")) }
}

async fn a_version_is_the_token_of_every_position(lane: Arc<Lane>) -> Outcome {
    let v = put(&lane, "A.lean", PROOF).await?;
    let again = lane.ask(json!({"op": "update_file", "path": lane.path("A.lean")}), None).await;
    equal("changed", &again["result"], &json!({"version": v, "changed": false}))?;
    let r = probe(&lane, "A.lean", v, 1, 2, "exact ⟨hp, hq⟩").await;
    succeeds(&r)?;
    equal("goals", &r["result"]["proofState"]["goals"], &json!([]))?;
    let r = probe(&lane, "A.lean", v + 1, 1, 2, "skip").await;
    code(&r, "contentModified")?;
    let data = &r["error"]["data"];
    equal("reason", &data["reason"], &json!("documentVersionMismatch"))?;
    equal(
        "versions",
        &json!([data["expectedVersion"], data["acceptedVersion"], data["currentVersion"]]),
        &json!([v + 1, v, v]),
    )?;
    holds("a uri", data["uri"].as_str().is_some_and(|u| u.ends_with("/A.lean")), data)
}

async fn a_disk_edit_makes_the_old_version_stale_at_once(lane: Arc<Lane>) -> Outcome {
    let v = put(&lane, "A.lean", PROOF).await?;
    lane.write("A.lean", &format!("{PROOF}\n"));
    for op in ["run_at", "goals", "hover"] {
        let mut request = json!({"op": op, "path": lane.path("A.lean"), "version": v, "line": 1, "character": 2});
        if op == "run_at" {
            request["text"] = "skip".into();
        }
        code(&lane.ask(request, None).await, "contentModified")?;
    }
    succeeds(&probe(&lane, "A.lean", v + 1, 1, 2, "skip").await)
}

async fn positions_outside_name_the_limit(lane: Arc<Lane>) -> Outcome {
    let v = put(&lane, "A.lean", PROOF).await?;
    for (op, line, character, limit) in [
        ("run_at", 99, 0, "4"),
        ("run_at", 1, 99, "13"),
        ("goals", 99, 0, "4"),
        ("hover", 99, 0, "4"),
        ("hover", 1, 99, "13"),
    ] {
        let mut request =
            json!({"op": op, "path": lane.path("A.lean"), "version": v, "line": line, "character": character});
        if op == "run_at" {
            request["text"] = "skip".into();
        }
        let r = lane.ask(request, None).await;
        code(&r, "invalidParams")?;
        holds(
            "both numbers",
            r["error"]["message"].as_str().is_some_and(|m| m.contains("99") && m.contains(limit)),
            &r,
        )?;
    }
    Ok(())
}

async fn bad_files_are_named_for_what_they_are(lane: Arc<Lane>) -> Outcome {
    std::fs::create_dir_all(lane.dir().join("Folder.lean")).expect("a folder");
    std::fs::write(lane.dir().join("Latin.lean"), b"-- caf\xe9\n").expect("a file");
    for (file, words) in [("None.lean", "does not exist"), ("Folder.lean", "is a folder"), ("Latin.lean", "not UTF-8")]
    {
        for op in ["update_file", "sync_file"] {
            let r = lane.ask(json!({"op": op, "path": lane.path(file)}), None).await;
            code(&r, "invalidParams")?;
            holds(words, r["error"]["message"].as_str().is_some_and(|m| m.contains(words) && m.contains(file)), &r)?;
        }
    }
    Ok(())
}

async fn a_second_request_with_an_active_id_is_refused(lane: Arc<Lane>) -> Outcome {
    let v = put(&lane, "M.lean", META).await?;
    sync(&lane, "M.lean").await;
    let slow = lane.ask_later(run_at(&lane, "M.lean", v, 8, 2, "poll_a_while"), "twice").await;
    let r = lane.ask(run_at(&lane, "M.lean", v, 8, 2, "trivial"), Some(&lane.request_id("twice"))).await;
    code(&r, "invalidParams")?;
    holds("the id", r["error"]["message"].as_str().is_some_and(|m| m.contains("twice")), &r)?;
    cancel(&lane, "twice", true).await?;
    code(&slow.await.map_err(|e| e.to_string())?, "requestCancelled")
}

async fn cancel(lane: &Lane, reference: &str, found: bool) -> Outcome {
    let r = lane.ask_process(json!({"op": "cancel", "cancelRequestId": lane.request_id(reference)})).await;
    equal("cancelled", &r["result"]["cancelled"], &json!(found))
}

/// Processor time of every process of ours below this one, in clock ticks.
fn cpu_ticks() -> u64 {
    let children: Vec<u32> = descendants(std::process::id());
    children
        .iter()
        .filter_map(|pid| std::fs::read_to_string(format!("/proc/{pid}/stat")).ok())
        .map(|stat| {
            let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
            // utime and stime, counted from the field behind the command's closing parenthesis.
            fields[11].parse::<u64>().unwrap_or(0) + fields[12].parse::<u64>().unwrap_or(0)
        })
        .sum()
}

fn descendants(root: u32) -> Vec<u32> {
    let mut parents = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|s| s.parse::<u32>().ok()) else { continue };
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        let ppid =
            stat.rsplit(')').next().and_then(|s| s.split_whitespace().nth(1)).and_then(|s| s.parse::<u32>().ok());
        parents.push((pid, ppid.unwrap_or(0)));
    }
    let mut found = vec![root];
    let mut n = 0;
    while n < found.len() {
        let above = found[n];
        found.extend(parents.iter().filter(|(_, p)| *p == above).map(|(pid, _)| *pid));
        n += 1;
    }
    found.remove(0);
    found
}

/// Three kinds of work that must stop: waiting, looping, and a huge computation.
async fn a_cancelled_probe_leaves_nothing_running(lane: Arc<Lane>) -> Outcome {
    let v = put(&lane, "A.lean", "example : True := by\n  trivial\n").await?;
    sync(&lane, "A.lean").await;
    let texts = [
        "sleep 60000",
        "repeat (have := 1; clear this)",
        "(have : (List.range 100000000).foldl (· + ·) 0 = 0 := by decide); trivial",
        "exact absurd (by decide : ∀ a b c d : Fin 200, a.val + b.val + c.val + d.val < 0) (by simp)",
    ];
    for (n, text) in texts.iter().enumerate() {
        let reference = format!("burn{n}");
        let pending = lane.ask_later(run_at(&lane, "A.lean", v, 1, 2, text), &reference).await;
        let asked = Instant::now();
        if !pending.is_finished() {
            cancel(&lane, &reference, true).await?;
            code(&pending.await.map_err(|e| e.to_string())?, "requestCancelled")?;
            holds("an answer at once", asked.elapsed() < Duration::from_millis(500), &json!(text))?;
        }
        // Two seconds of grace for Lean to notice, then nothing may burn.
        tokio::time::sleep(Duration::from_millis(2600)).await;
        let before = cpu_ticks();
        tokio::time::sleep(Duration::from_millis(700)).await;
        let burnt = cpu_ticks().saturating_sub(before);
        holds("an idle worker", burnt < 35, &json!({"text": text, "ticks": burnt}))?;
    }
    succeeds(&probe(&lane, "A.lean", v, 1, 2, "trivial").await)
}

async fn dropping_a_request_cancels_it(lane: Arc<Lane>) -> Outcome {
    let v = put(&lane, "M.lean", META).await?;
    sync(&lane, "M.lean").await;
    let pending = lane.ask_later(run_at(&lane, "M.lean", v, 8, 2, "poll_a_while"), "gone").await;
    pending.abort();
    drop(pending.await);
    // The id is free again, which only the end of the request makes it.
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let r = lane.ask(run_at(&lane, "M.lean", v, 8, 2, "trivial"), Some(&lane.request_id("gone"))).await;
        if r["ok"] == true {
            return succeeds(&r);
        }
        holds("the request ends", Instant::now() < deadline, &r)?;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn r3_a_late_cancel_hits_nobody(lane: Arc<Lane>) -> Outcome {
    let v = put(&lane, "A.lean", PROOF).await?;
    let id = lane.request_id("late");
    succeeds(&lane.ask(run_at(&lane, "A.lean", v, 1, 2, "skip"), Some(&id)).await)?;
    cancel(&lane, "late", false).await?;
    succeeds(&lane.ask(run_at(&lane, "A.lean", v, 1, 2, "skip"), Some(&id)).await)
}

async fn an_edit_ends_pending_probes_and_only_those(lane: Arc<Lane>) -> Outcome {
    let v = put(&lane, "M.lean", META).await?;
    let b = put(&lane, "A.lean", PROOF).await?;
    sync(&lane, "M.lean").await;
    let slow = lane.ask_later(run_at(&lane, "M.lean", v, 8, 2, "poll_a_while"), "edited").await;
    let other = lane.ask_later(run_at(&lane, "A.lean", b, 1, 2, "sleep 1500"), "other").await;
    let v2 = put(&lane, "M.lean", &format!("{META}\n-- more\n")).await?;
    let r = slow.await.map_err(|e| e.to_string())?;
    code(&r, "contentModified")?;
    equal("accepted", &r["error"]["data"]["acceptedVersion"], &json!(v2))?;
    succeeds(&other.await.map_err(|e| e.to_string())?)?;
    succeeds(&probe(&lane, "M.lean", v2, 8, 2, "trivial").await)
}

async fn a_close_ends_pending_probes(lane: Arc<Lane>) -> Outcome {
    let v = put(&lane, "M.lean", META).await?;
    sync(&lane, "M.lean").await;
    let slow = lane.ask_later(run_at(&lane, "M.lean", v, 8, 2, "poll_a_while"), "closed").await;
    let close = json!({"op": "close", "path": lane.path("M.lean")});
    equal("closed", &lane.ask(close.clone(), None).await["result"], &json!({"closed": true}))?;
    code(&slow.await.map_err(|e| e.to_string())?, "contentModified")?;
    equal("closed again", &lane.ask(close, None).await["result"], &json!({"closed": true}))?;
    let v = put(&lane, "M.lean", META).await?;
    equal("a new life", &json!(v), &json!(1))
}

async fn a_killed_worker_is_replaced_and_told(lane: Arc<Lane>) -> Outcome {
    let v = put(&lane, "M.lean", META).await?;
    sync(&lane, "M.lean").await;
    let mut request = run_at(&lane, "M.lean", v, 8, 2, "skip");
    request["storeHandle"] = true.into();
    let handle = lane.ask(request, None).await["result"]["handle"].clone();
    let slow = lane.ask_later(run_at(&lane, "M.lean", v, 8, 2, "poll_a_while"), "killed").await;
    for pid in descendants(std::process::id()) {
        let killed = std::process::Command::new("kill").args(["-9", &pid.to_string()]).status();
        holds("kill", killed.is_ok(), &json!(pid))?;
    }
    let r = slow.await.map_err(|e| e.to_string())?;
    code(&r, "workerExited")?;
    holds("how it ended", r["error"]["data"]["exitStatus"].as_str().is_some_and(|s| s.contains('9')), &r)?;
    succeeds(&probe(&lane, "M.lean", v, 8, 2, "trivial").await)?;
    let r = lane
        .ask(json!({"op": "run_with", "path": lane.path("M.lean"), "handle": handle, "text": "trivial"}), None)
        .await;
    code(&r, "contentModified")
}

async fn a_changed_header_gets_a_fresh_worker(lane: Arc<Lane>) -> Outcome {
    put(&lane, "A.lean", PROOF).await?;
    sync(&lane, "A.lean").await;
    let v = put(&lane, "A.lean", "import Lean\n\n#check Lean.Elab.Term.TermElabM\n").await?;
    let r = probe(&lane, "A.lean", v, 2, 1, "#check Lean.Meta.MetaM").await;
    succeeds(&r)?;
    let s = sync(&lane, "A.lean").await;
    equal("no errors", &s["result"]["diagnostics"]["counts"]["error"], &json!(0))?;
    let v = put(&lane, "A.lean", "#check Lean.Meta.MetaM\n").await?;
    let r = probe(&lane, "A.lean", v, 0, 1, "#check Nat").await;
    succeeds(&r)?;
    let s = sync(&lane, "A.lean").await;
    equal("an unknown name", &s["result"]["diagnostics"]["counts"]["error"], &json!(1))
}

async fn many_probes_share_one_worker(lane: Arc<Lane>) -> Outcome {
    let v = put(&lane, "A.lean", PROOF).await?;
    sync(&lane, "A.lean").await;
    let before = descendants(std::process::id()).len();
    let started = Instant::now();
    let mut all = tokio::task::JoinSet::new();
    for n in 0..32u32 {
        let lane = Arc::clone(&lane);
        all.spawn(async move {
            // Half of them sleep: they must not hold up the others, nor each other.
            let text = if n % 2 == 0 {
                "(sleep 1500; exact ⟨hp, hq⟩)".to_owned()
            } else {
                format!("(have h{n} : {n} = {n} := rfl; exact ⟨hp, hq⟩)")
            };
            (n, started.elapsed(), probe(&lane, "A.lean", v, 1, 2, &text).await)
        });
    }
    while let Some(done) = all.join_next().await {
        let (_, _, r) = done.map_err(|e| e.to_string())?;
        succeeds(&r)?;
    }
    let took = started.elapsed();
    equal("no process more", &json!(descendants(std::process::id()).len()), &json!(before))?;
    // Sixteen sleeps one after the other would take 24 s; the rest is the starting of threads on a busy machine.
    holds("in parallel", took < Duration::from_secs(14), &json!(took.as_millis()))
}

async fn handles(lane: &Lane) -> Result<u64, String> {
    let r = lane.ask(json!({"op": "stats"}), None).await;
    r["result"]["sessions"]["lean"]["handleCount"].as_u64().ok_or_else(|| format!("stats: {r}"))
}

async fn handle_counts_return_to_zero(lane: Arc<Lane>) -> Outcome {
    let v = put(&lane, "A.lean", PROOF).await?;
    sync(&lane, "A.lean").await;
    let start = handles(&lane).await?;
    let mut minted = Vec::new();
    for n in 0..500 {
        let mut request = run_at(&lane, "A.lean", v, 1, 2, &format!("have h{n} := hp"));
        request["storeHandle"] = true.into();
        let r = lane.ask(request, None).await;
        succeeds(&r)?;
        minted.push(r["result"]["handle"].clone());
    }
    equal("alive", &json!(handles(&lane).await? - start), &json!(500))?;
    let with = |op: &str, handle: &Value| {
        let mut r = json!({"op": op, "path": lane.path("A.lean"), "handle": handle});
        if op == "run_with" {
            r["text"] = "skip".into();
        }
        r
    };
    for handle in &minted[..250] {
        let r = lane.ask(with("release", handle), None).await;
        equal("released", &r["result"], &Value::Null)?;
    }
    equal("half", &json!(handles(&lane).await? - start), &json!(250))?;
    put(&lane, "A.lean", &format!("{PROOF}\n")).await?;
    // Released before the edit is gone; alive at the edit is stale. Two different mistakes, two different codes.
    code(&lane.ask(with("run_with", &minted[0]), None).await, "invalidParams")?;
    code(&lane.ask(with("run_with", &minted[499]), None).await, "contentModified")?;
    code(&lane.ask(with("run_with", &minted[499]), None).await, "contentModified")?;
    equal("none", &json!(handles(&lane).await?), &json!(0))
}

async fn some_handle(lane: &Lane) -> Result<Value, String> {
    let v = put(lane, "A.lean", PROOF).await?;
    let mut request = run_at(lane, "A.lean", v, 1, 2, "skip");
    request["storeHandle"] = true.into();
    let r = lane.ask(request, None).await;
    succeeds(&r)?;
    Ok(r["result"]["handle"].clone())
}

async fn malformed_raw_handles_reach_lean_and_are_refused(lane: Arc<Lane>) -> Outcome {
    let good = some_handle(&lane).await?;
    for raw in [json!("x"), json!({}), json!({"value": "zzz"}), json!({"value": 7}), json!(null)] {
        let mut bad = good.clone();
        bad["raw"] = raw;
        for op in ["run_with", "release"] {
            let mut request = json!({"op": op, "path": lane.path("A.lean"), "handle": bad});
            if op == "run_with" {
                request["text"] = "skip".into();
            }
            code(&lane.ask(request, None).await, "invalidParams")?;
        }
    }
    Ok(())
}

async fn handles_of_another_session_are_stale(lane: Arc<Lane>) -> Outcome {
    let good = some_handle(&lane).await?;
    for (key, value) in [("epoch", json!(99)), ("session", json!("another")), ("backend", json!("rocq"))] {
        let mut stale = good.clone();
        stale[key] = value;
        let request = json!({"op": "run_with", "path": lane.path("A.lean"), "handle": stale, "text": "skip"});
        code(&lane.ask(request, None).await, "contentModified")?;
    }
    let mut foreign = good.clone();
    foreign["workspaceId"] = "elsewhere".into();
    let request = json!({"op": "run_with", "path": lane.path("A.lean"), "handle": foreign, "text": "skip"});
    code(&lane.ask(request, None).await, "invalidParams")
}

const MIXED: &str = "def a : Nat := \"x\"\n\ntheorem w : 1 = 1 := by\n  sorry\n\n#eval 1 + 1\n";

async fn sync_counts_and_filters_diagnostics(lane: Arc<Lane>) -> Outcome {
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

async fn r6_readiness_is_leans_verdict(lane: Arc<Lane>) -> Outcome {
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

async fn sync_after_an_edit_is_about_the_new_text(lane: Arc<Lane>) -> Outcome {
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

async fn a_missing_import_is_never_clean(lane: Arc<Lane>) -> Outcome {
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

async fn utf16_crlf_tabs_and_missing_newlines(lane: Arc<Lane>) -> Outcome {
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

async fn an_empty_file_and_a_byte_order_mark(lane: Arc<Lane>) -> Outcome {
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

async fn a_line_of_two_megabytes(lane: Arc<Lane>) -> Outcome {
    let text = format!("def k := 1\n-- {}\ndef l := 2\n", "😀x".repeat(400_000));
    let v = put(&lane, "A.lean", &text).await?;
    succeeds(&probe(&lane, "A.lean", v, 3, 0, "#check l").await)?;
    let r = sync(&lane, "A.lean").await;
    equal("ready", &r["result"]["readiness"]["saveReady"], &json!(true))
}

async fn open_documents_know_the_disk(lane: Arc<Lane>) -> Outcome {
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

async fn statistics_count_what_happened(lane: Arc<Lane>) -> Outcome {
    let v = put(&lane, "A.lean", PROOF).await?;
    lane.ask_process(json!({"op": "reset_stats"})).await;
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
async fn r1_concurrent_updates_settle_on_the_newest_text(lane: Arc<Lane>) -> Outcome {
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

async fn r4_events_come_before_the_one_answer(lane: Arc<Lane>) -> Outcome {
    put(&lane, "A.lean", &format!("{PROOF}\n-- fresh\n")).await?;
    put(&lane, "A.lean", PROOF).await?;
    let (r, events) = lane.ask_with_events(json!({"op": "sync_file", "path": lane.path("A.lean")})).await;
    equal("ok", &r["ok"], &json!(true))?;
    equal("done", &r["fileProgress"]["done"], &json!(true))?;
    let progress: Vec<u64> = events
        .iter()
        .filter(|e| e["kind"] == "fileProgress")
        .filter_map(|e| e["payload"]["updates"].as_u64())
        .collect();
    holds("rising updates", progress.windows(2).all(|w| w[0] < w[1]), &json!(progress))
}

async fn todo_ranges_kinds_and_refusals(lane: Arc<Lane>) -> Outcome {
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
    code(&lane.ask(todo(json!(["sorry"]), 99), None).await, "invalidParams")?;
    code(&lane.ask(todo(json!(["everything"]), 2), None).await, "invalidParams")?;
    let mut reversed = todo(json!([]), 0);
    reversed["line"] = 1.into();
    code(&lane.ask(reversed, None).await, "invalidParams")
}

async fn code_actions_are_resolved_for_their_own_file_only(lane: Arc<Lane>) -> Outcome {
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

async fn hover_symbols_and_signature_are_leans_own(lane: Arc<Lane>) -> Outcome {
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
    equal("signature help is answered", &r["ok"], &json!(true))
}

async fn workspace_selectors_are_checked(lane: Arc<Lane>) -> Outcome {
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

async fn ensure_reports_the_session(lane: Arc<Lane>) -> Outcome {
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

async fn goals_with_a_text_are_refused(lane: Arc<Lane>) -> Outcome {
    let v = put(&lane, "A.lean", PROOF).await?;
    let request =
        json!({"op": "goals", "path": lane.path("A.lean"), "version": v, "line": 1, "character": 2, "text": "skip"});
    code(&lane.ask(request, None).await, "invalidParams")
}

async fn refresh_starts_over_at_version_one(lane: Arc<Lane>) -> Outcome {
    put(&lane, "A.lean", PROOF).await?;
    put(&lane, "A.lean", &format!("{PROOF}\n")).await?;
    let r = lane.ask(json!({"op": "refresh_file", "path": lane.path("A.lean")}), None).await;
    equal("version", &r["result"]["version"], &json!(1))?;
    equal("ready", &r["result"]["readiness"]["saveReady"], &json!(true))
}

/// The file's last command takes long; a probe above it must not wait for it.
async fn a_probe_waits_only_for_the_prefix(lane: Arc<Lane>) -> Outcome {
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

/// X1: whatever is asked, sources stay as they are, byte for byte.
async fn no_lean_file_is_ever_written(lane: Arc<Lane>) -> Outcome {
    let text = "theorem t : 1 = 1 := by\r\n  sorry -- ü😀";
    let v = put(&lane, "A.lean", text).await?;
    let state = || {
        let path = lane.dir().join("A.lean");
        (
            std::fs::read(&path).expect("the file"),
            std::fs::metadata(&path).and_then(|m| m.modified()).expect("its time"),
        )
    };
    let before = state();
    let path = lane.path("A.lean");
    probe(&lane, "A.lean", v, 1, 2, "rfl").await;
    for request in [
        json!({"op": "sync_file", "path": path}),
        json!({"op": "todo", "path": path, "version": v, "line": 0, "character": 0, "endLine": 1, "endCharacter": 7}),
        json!({"op": "goals", "path": path, "version": v, "line": 1, "character": 2}),
        json!({"op": "refresh_file", "path": path}),
        json!({"op": "close", "path": path}),
    ] {
        let r = lane.ask(request, None).await;
        equal("ok", &r["ok"], &json!(true)).map_err(|e| format!("{e}: {r}"))?;
    }
    holds("the same bytes and time", state() == before, &json!("A.lean"))
}

/// `Top` imports `Low`, which is built. Definition leads from one to the other, references back, open or not.
async fn definition_and_references_cross_files(lane: Arc<Lane>) -> Outcome {
    lane.write("Low.lean", "/-- low -/\ndef low : Nat := 4\n");
    lane.build("Low");
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

/// A dependency whose text changed since the importer last looked, and was never built, makes the importer's barrier incomplete,
/// with a plan. The first look at a dependency is a baseline.
async fn an_importer_of_a_changed_dependency_is_never_clean(lane: Arc<Lane>) -> Outcome {
    lane.write("Low.lean", "def low : Nat := 4\n");
    lane.build("Low");
    put(&lane, "Top.lean", "import lane0.Low\n\n#check low\n").await?;
    equal("clean at first", &sync(&lane, "Top.lean").await["ok"], &json!(true))?;
    equal("a baseline", &sync(&lane, "Low.lean").await["ok"], &json!(true))?;
    equal("still clean", &sync(&lane, "Top.lean").await["ok"], &json!(true))?;
    put(&lane, "Low.lean", "def low : Nat := 5\n").await?;
    equal("the dependency is fine", &sync(&lane, "Low.lean").await["ok"], &json!(true))?;
    for op in ["sync_file", "refresh_file"] {
        let r = lane.ask(json!({"op": op, "path": lane.path("Top.lean")}), None).await;
        code(&r, "syncBarrierIncomplete")?;
        let data = &r["error"]["data"];
        let low = lane.path("Low.lean");
        equal(
            "the dependency",
            &data["staleDirectDeps"],
            &json!([{"module": "lane0.Low", "path": low, "needsSave": true}]),
        )?;
        equal("to be saved", &data["saveDeps"], &json!([low]))?;
        let plan = json!(["lake build", format!("lean-beam refresh \"{}\"", lane.path("Top.lean"))]);
        equal("the plan", &data["recoveryPlan"], &plan)?;
        equal("progress", &r["ok"], &json!(false))?;
    }
    // The plan, by hand: build it, then refresh.
    lane.build("Low");
    let r = sync(&lane, "Top.lean").await;
    code(&r, "syncBarrierIncomplete")?;
    equal("built, but not yet seen", &r["error"]["data"]["saveDeps"], &json!([]))?;
    let r = lane.ask(json!({"op": "refresh_file", "path": lane.path("Top.lean")}), None).await;
    equal("refreshed", &r["ok"], &json!(true)).map_err(|e| format!("{e}: {r}"))?;
    for file in ["Low.lean", "Top.lean"] {
        lane.ask(json!({"op": "close", "path": lane.path(file)}), None).await;
    }
    Ok(())
}

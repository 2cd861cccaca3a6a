//! Versions, cancellation, edits and closes while a probe is pending, many probes at once, handles.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::expect::equal;
use crate::support::lanes::Lane;
use crate::support::steps::{META, Outcome, PROOF, code, holds, probe, put, run_at, succeeds, sync};

pub async fn a_version_is_the_token_of_every_position(lane: Arc<Lane>) -> Outcome {
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

pub async fn a_disk_edit_makes_the_old_version_stale_at_once(lane: Arc<Lane>) -> Outcome {
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

pub async fn positions_outside_name_the_limit(lane: Arc<Lane>) -> Outcome {
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

pub async fn bad_files_are_named_for_what_they_are(lane: Arc<Lane>) -> Outcome {
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

pub async fn a_second_request_with_an_active_id_is_refused(lane: Arc<Lane>) -> Outcome {
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
pub async fn a_cancelled_probe_leaves_nothing_running(lane: Arc<Lane>) -> Outcome {
    let v = put(&lane, "A.lean", "example : True := by\n  trivial\n").await?;
    sync(&lane, "A.lean").await;
    let texts = [
        "sleep 60000",
        "set_option maxHeartbeats 0 in repeat' have := 1",
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
        // Lean stops, or after the grace its worker is replaced (later on a machine so busy that the worker hardly gets to run).
        let deadline = Instant::now() + Duration::from_secs(25);
        loop {
            let before = cpu_ticks();
            tokio::time::sleep(Duration::from_millis(700)).await;
            // 35 ticks are half of one processor.
            if cpu_ticks().saturating_sub(before) < 35 {
                break;
            }
            holds("an idle worker", Instant::now() < deadline, &json!(text))?;
        }
    }
    succeeds(&probe(&lane, "A.lean", v, 1, 2, "trivial").await)
}

pub async fn dropping_a_request_cancels_it(lane: Arc<Lane>) -> Outcome {
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

pub async fn r3_a_late_cancel_hits_nobody(lane: Arc<Lane>) -> Outcome {
    let v = put(&lane, "A.lean", PROOF).await?;
    let id = lane.request_id("late");
    succeeds(&lane.ask(run_at(&lane, "A.lean", v, 1, 2, "skip"), Some(&id)).await)?;
    cancel(&lane, "late", false).await?;
    succeeds(&lane.ask(run_at(&lane, "A.lean", v, 1, 2, "skip"), Some(&id)).await)
}

pub async fn an_edit_ends_pending_probes_and_only_those(lane: Arc<Lane>) -> Outcome {
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

pub async fn a_close_ends_pending_probes(lane: Arc<Lane>) -> Outcome {
    let v = put(&lane, "M.lean", META).await?;
    sync(&lane, "M.lean").await;
    let slow = lane.ask_later(run_at(&lane, "M.lean", v, 8, 2, "poll_a_while"), "closed").await;
    let close = json!({"op": "close", "path": lane.path("M.lean")});
    equal("closed", &lane.ask(close.clone(), None).await["result"], &json!({"closed": true}))?;
    code(&slow.await.map_err(|e| e.to_string())?, "contentModified")?;
    equal("closed again", &lane.ask(close, None).await["result"], &json!({"closed": true}))?;
    let again = put(&lane, "M.lean", META).await?;
    holds("a version of its own", again > v, &json!([v, again]))
}

pub async fn a_killed_worker_is_replaced_and_told(lane: Arc<Lane>) -> Outcome {
    let v = put(&lane, "M.lean", META).await?;
    sync(&lane, "M.lean").await;
    let mut request = run_at(&lane, "M.lean", v, 8, 2, "skip");
    request["storeHandle"] = true.into();
    let handle = lane.ask(request, None).await["result"]["handle"].clone();
    let slow = lane.ask_later(run_at(&lane, "M.lean", v, 8, 2, "poll_a_while"), "killed").await;
    kill_workers()?;
    let r = slow.await.map_err(|e| e.to_string())?;
    code(&r, "workerExited")?;
    holds("how it ended", r["error"]["data"]["exitStatus"].as_str().is_some_and(|s| s.contains('9')), &r)?;
    succeeds(&probe(&lane, "M.lean", v, 8, 2, "trivial").await)?;
    let r = lane
        .ask(json!({"op": "run_with", "path": lane.path("M.lean"), "handle": handle, "text": "trivial"}), None)
        .await;
    code(&r, "contentModified")
}

fn kill_workers() -> Outcome {
    for pid in descendants(std::process::id()) {
        let killed = std::process::Command::new("kill").args(["-9", &pid.to_string()]).status();
        holds("kill", killed.is_ok(), &json!(pid))?;
    }
    Ok(())
}

pub async fn a_reset_forgets_how_many_workers_were_replaced(lane: Arc<Lane>) -> Outcome {
    let v = put(&lane, "A.lean", PROOF).await?;
    let restarts = || async {
        let stats = lane.ask(json!({"op": "stats"}), None).await;
        stats["result"]["byBackend"]["lean"]["sessionRestarts"].clone()
    };
    succeeds(&probe(&lane, "A.lean", v, 1, 2, "skip").await)?;
    for round in 0..2 {
        lane.ask_process(json!({"op": "reset_stats"})).await;
        equal("after the reset", &restarts().await, &json!(0))?;
        kill_workers()?;
        // One that is asked before the loss is noticed is told of it.
        while probe(&lane, "A.lean", v, 1, 2, "skip").await["ok"] != true {}
        equal(if round == 0 { "once" } else { "again once" }, &restarts().await, &json!(1))?;
    }
    Ok(())
}

pub async fn a_changed_header_gets_a_fresh_worker(lane: Arc<Lane>) -> Outcome {
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

pub async fn many_probes_share_one_worker(lane: Arc<Lane>) -> Outcome {
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

pub async fn handle_counts_return_to_zero(lane: Arc<Lane>) -> Outcome {
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

pub async fn malformed_raw_handles_reach_lean_and_are_refused(lane: Arc<Lane>) -> Outcome {
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

pub async fn handles_of_another_session_are_stale(lane: Arc<Lane>) -> Outcome {
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

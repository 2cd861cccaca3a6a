//! Dependencies: what Lake says when a worker asks it, and what importers hear of a change.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use beam_session::{BuildMode, Observation};
use serde_json::{Value, json};
use testkit::Fixture;

use crate::stage::{Stage, lines};

/// A stage whose `lake` is a script in the project.
fn with_lake(script: &str, mode: BuildMode) -> Stage {
    let fixture = Fixture::parse(&format!("-- file: lake\n#!/bin/sh\n{script}\n-- file: Main.lean\n"));
    Stage::with(&fixture, |command, config| {
        let lake = config.root.join("lake");
        std::fs::set_permissions(&lake, PermissionsExt::from_mode(0o755)).unwrap();
        command.env_remove.retain(|name| name != "LAKE");
        command.env.push(("LAKE".into(), lake.as_path().into()));
        config.build_mode = mode;
    })
}

/// Which question a worker of 4.35 has for Lake, under each of our build modes: the header on stdin, and no builds unless wanted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lake_is_asked_as_the_build_mode_says() {
    for (mode, flags) in [(BuildMode::Never, " --no-build --no-cache"), (BuildMode::Once, ""), (BuildMode::Always, "")]
    {
        let stage = with_lake("echo \"$@\" >> asked; cat >> header; exit 2", mode);
        let version = stage.apply("Main.lean", "prelude\ninductive N where\n  | z\n#check N.z\n").await;
        assert_eq!(stage.settle("Main.lean", version).await, ["N.z : N"], "exit code 2: there is no lakefile");
        let main = stage.file("Main.lean");
        assert_eq!(lines(&stage.file("asked")), [format!("setup-file {main} -{flags}")]);
        let header: Value = serde_json::from_str(&lines(&stage.file("header")).concat()).unwrap();
        assert_eq!(header["imports"], json!([]));
        // A second worker of the same document: `once` has had its build.
        stage.session.kill_worker(&main).await;
        stage.settle("Main.lean", version).await;
        let again = if mode == BuildMode::Once { " --no-build --no-cache" } else { flags };
        assert_eq!(lines(&stage.file("asked"))[1], format!("setup-file {main} -{again}"));
    }
}

/// Lake's own words reach the user, and a file whose dependencies cannot be had is at its end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_lake_is_shown_with_its_words() {
    let stage = with_lake("echo 'the lakefile is broken' >&2; exit 1", BuildMode::Never);
    let version = stage.apply("Main.lean", "prelude\nimport Low\n#check low\n").await;
    let messages = stage.settle("Main.lean", version).await;
    assert!(messages.len() == 1 && messages[0].contains("the lakefile is broken"), "{messages:?}");
    let info = stage.info("Main.lean").await;
    assert!(info.progress.unwrap().done);
    assert_eq!((info.worker.starts, info.direct_imports[0].module.as_str()), (1, "Low"));
}

/// Exit code 3 of `lake setup-file --no-build`: what is imported was not built since it changed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stale_imports_are_reported_and_not_built() {
    let stage = with_lake("exit 3", BuildMode::Never);
    let version = stage.apply("Main.lean", "prelude\nimport Low\n#check low\n").await;
    let messages = stage.settle("Main.lean", version).await;
    assert!(messages.len() == 1 && messages[0].contains("Imports are out of date"), "{messages:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn importers_of_a_changed_file_are_told_by_lean() {
    let low = "prelude\ninductive N where\n  | z\ndef low : N := N.z\n";
    let top = "prelude\nimport Low\n#check low\n";
    let stage = Stage::of(&Fixture::parse(&format!("-- file: Low.lean\n{low}-- file: Top.lean\n{top}")));
    stage.build("Low");
    let version = stage.apply("Top.lean", top).await;
    assert_eq!(stage.settle("Top.lean", version).await, ["low : N"]);
    let opened = stage.apply("Low.lean", low).await;
    stage.settle("Low.lean", opened).await;
    let stale = |items: &[Value]| {
        items.iter().any(|it| it["message"].as_str().is_some_and(|it| it.contains("Imports are out of date")))
    };
    let (observer, mut observed) = beam_session::observer();
    // A barrier for a version that does not exist yet stays pending, and observes until it is dropped.
    let mut spec = stage.barrier("Top.lean", version + 1);
    spec.version = None;
    let endless = stage.session.request(&stage.file("Top.lean"), spec, Some(observer));
    stage.apply("Low.lean", &low.replace("N.z\n", "N.z -- changed\n")).await;
    let told = tokio::time::timeout(Duration::from_secs(120), async {
        while let Some(observation) = observed.recv().await {
            if let Observation::Diagnostics(list) = observation
                && stale(&list.items().unwrap())
            {
                return true;
            }
        }
        false
    });
    assert_eq!(told.await, Ok(true));
    drop(endless);
}

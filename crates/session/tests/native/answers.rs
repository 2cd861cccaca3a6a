//! What a worker answers, and what is answered in its stead.

use beam_base::Utf16Pos;
use serde_json::{Value, json};
use testkit::Fixture;

use crate::stage::{BASICS, Stage};

fn first_lines(answer: &Value) -> Vec<(String, u64)> {
    let line = |it: &Value| {
        let file = it["uri"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
        (file, it["range"]["start"]["line"].as_u64().unwrap())
    };
    answer.as_array().unwrap().iter().map(line).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_is_elaborated_and_asked_about() {
    let fixture = Fixture::parse(&format!(
        "{BASICS}def ‹def›two : N := N.s (N.s early)
-- 😀 two
theorem t (p : Prop) (h : p) : p := ‹term›h
theorem u (p : Prop) (h : p) : p := by
  ‹tactic›match h with
  | x => ?_
def three : N := ‹call›N.s ‹use›two
example : N := tw‹typed›
#check three
"
    ));
    let stage = Stage::of(&fixture);
    let version = stage.apply("Main.lean", fixture.text()).await;
    let mut messages = stage.settle("Main.lean", version).await;
    messages.sort();
    // The internal exception is Lean's way of missing `sorryAx`, which an unsolved goal needs and no library defines here.
    assert_eq!(
        messages,
        [
            "Unknown identifier `tw`",
            "internal exception #3",
            "three : N",
            "unsolved goals\np : Prop\nh : p\nx : p := h\n⊢ p"
        ],
        "Lean's silent messages are gone"
    );
    let progress = stage.info("Main.lean").await.progress.unwrap();
    assert!(progress.done && progress.updates > 0 && progress.range_start_line.is_none(), "{progress:?}");

    let ask = |method, mark: &str| stage.ask_at("Main.lean", method, fixture.at(mark));
    let hover = ask("textDocument/hover", "use").await;
    assert_eq!(hover["contents"]["value"], "```lean\ntwo : N\n```");
    for method in ["textDocument/definition", "textDocument/declaration"] {
        let found = ask(method, "use").await;
        assert_eq!(found[0]["targetUri"], json!(stage.uri("Main.lean")), "{method}");
        assert_eq!(found[0]["targetSelectionRange"]["start"], json!(fixture.at("def")), "{method}");
    }
    let kind = ask("textDocument/typeDefinition", "use").await;
    assert_eq!(kind[0]["targetSelectionRange"]["start"], json!({"line": 1, "character": 10}));
    let goal = ask("$/lean/plainGoal", "tactic").await;
    assert_eq!(goal["goals"], json!(["p : Prop\nh : p\n⊢ p"]));
    let goal = ask("$/lean/plainTermGoal", "term").await;
    assert_eq!(goal["goal"], "p : Prop\nh : p\n⊢ p");
    let completion = ask("textDocument/completion", "typed").await;
    let labels: Vec<_> = completion["items"].as_array().unwrap().iter().map(|it| it["label"].clone()).collect();
    assert!(labels.contains(&json!("two")), "{labels:?}");
    let highlights = ask("textDocument/documentHighlight", "use").await;
    assert_eq!(highlights.as_array().unwrap().len(), 2, "{highlights}");

    let document = json!({"textDocument": {"uri": stage.uri("Main.lean")}});
    let symbols = stage.ask("Main.lean", "textDocument/documentSymbol", document.clone()).await.unwrap();
    let names: Vec<_> = symbols.as_array().unwrap().iter().map(|it| it["name"].clone()).collect();
    assert_eq!(names, ["N", "Eq", "early", "two", "t", "u", "three", "example"].map(|name| json!(name)));
    let folding = stage.ask("Main.lean", "textDocument/foldingRange", document).await.unwrap();
    assert!(
        folding.as_array().unwrap().contains(&json!({"startLine": 1, "endLine": 3, "kind": "region"})),
        "{folding}"
    );
}

/// For an unknown name the worker asks back which modules have it. It takes no for an answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn code_actions_that_ask_back_come_to_an_end() {
    let stage = Stage::new();
    let version = stage.apply("Main.lean", &format!("{BASICS}def x : N := oops\n")).await;
    assert_eq!(stage.settle("Main.lean", version).await, ["Unknown identifier `oops`"]);
    let range = json!({"start": {"line": 7, "character": 13}, "end": {"line": 7, "character": 17}});
    let uri = stage.uri("Main.lean");
    let params = json!({"textDocument": {"uri": uri}, "range": range, "context": {"diagnostics": []}});
    assert_eq!(stage.ask("Main.lean", "textDocument/codeAction", params).await.unwrap(), json!([]));
    assert_eq!(stage.info("Main.lean").await.worker.starts, 1);
}

/// Requests no worker knows are answered here; what nobody knows is the worker's own refusal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_method_is_refused_by_the_worker() {
    let stage = Stage::new();
    let version = stage.apply("Main.lean", BASICS).await;
    stage.settle("Main.lean", version).await;
    let at = stage.at("Main.lean", Utf16Pos { line: 6, character: 5 });
    match stage.ask("Main.lean", "textDocument/nothing", at).await {
        Err(beam_session::RequestFailure::Server(error)) => assert!(error.message.contains("nothing"), "{error:?}"),
        other => panic!("{other:?}"),
    }
    assert!(stage.early().await.contains("early : N"));
}

/// Across an open file, a built one, and one that is both: from the worker's own index data, and from `.ilean` files that 4.35 wrote.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn references_definitions_and_symbols_across_files() {
    let fixture = Fixture::parse(
        "-- file: Low.lean\nprelude\ninductive N where\n  | z\n  | s (n : N)\ndef ‹def›low : N := N.z\n\
         -- file: Top.lean\nprelude\nimport Low\ndef top : N := N.s low\n\
         -- file: Main.lean\nprelude\nimport Low\ntheorem t (P : N → Prop) (h : P low) : P low := h\ndef mine : N := ‹use›low\n",
    );
    let stage = Stage::of(&fixture);
    stage.build("Low");
    stage.build("Top");
    let version = stage.apply("Main.lean", fixture.text()).await;
    let references = |declaration: bool| {
        let mut params = stage.at("Main.lean", fixture.at("use"));
        params["context"] = json!({"includeDeclaration": declaration});
        stage.ask("Main.lean", "textDocument/references", params)
    };
    // Asked at once; the answer comes when the file is through.
    let main = |line| ("Main.lean".to_owned(), line);
    let mut found = first_lines(&references(false).await.unwrap());
    found.sort();
    assert_eq!(found, [main(2), main(2), main(3), ("Top.lean".to_owned(), 2)]);
    let found = first_lines(&references(true).await.unwrap());
    assert_eq!((found.len(), &found[0]), (5, &("Low.lean".to_owned(), 4)));

    let definition = || stage.ask_at("Main.lean", "textDocument/definition", fixture.at("use"));
    let found = definition().await;
    assert_eq!(found[0]["targetUri"], json!(stage.uri("Low.lean")));
    assert_eq!(found[0]["targetSelectionRange"]["start"], json!(fixture.at("def")));
    assert!(found[0].get("ident").is_none() && found[0].get("isDefault").is_none(), "{found}");
    // `Low` is opened and moved around: both know where `low` is now, although it was not built anew.
    let moved =
        "prelude\n-- moved\n\ninductive N where\n  | z\n  | s (n : N)\ndef low : N := N.z\ndef more : N := low\n";
    let edited = stage.apply("Low.lean", moved).await;
    assert_eq!(stage.settle("Low.lean", edited).await, Vec::<String>::new());
    assert_eq!(definition().await[0]["targetSelectionRange"]["start"], json!({"line": 6, "character": 4}));
    let now = first_lines(&references(true).await.unwrap());
    assert_eq!(now[..2], [("Low.lean".to_owned(), 6), ("Low.lean".to_owned(), 7)]);
    let symbols = stage.session.workspace_symbols("low").await;
    let shown: Vec<_> = symbols.iter().map(|it| (it.name.as_str(), it.location.range.start.line)).collect();
    assert_eq!(shown, [("low", 6)]);
    assert_eq!(stage.session.workspace_symbols("top").await[0].name, "top");
    assert_eq!(stage.session.workspace_symbols("mine").await[0].location.uri, stage.uri("Main.lean"));
    assert_eq!(stage.info("Main.lean").await.direct_imports.len(), 1);
    stage.settle("Main.lean", version).await;
}

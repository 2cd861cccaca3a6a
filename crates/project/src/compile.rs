//! One module through one Lean process, into a folder of its own, and from there into the library folder.
//!
//! Not many modules in one process, though each process costs seconds under WebAssembly: importing a module runs what it says to
//! `initialize`, and registering an option or attribute twice in one process is an error.
//!
//! * Nothing is seen in the library folder before the compiler has succeeded; then the files are renamed in as a set, between an open
//!   record and a whole one. Whoever is killed in between leaves the open record, and the next build starts over.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use beam_base::AbsPath;
use serde::Deserialize;

use crate::layout::Module;
use crate::plan::Node;
use crate::trace::{Message, Origin, PARTS, Record, Severity, Trace, endings};
use beam_process::{Done, HostEnv, Run, RunError};
use beam_toolchain::Toolchain;
use beam_toolchain::fs::FsError;
use beam_toolchain::killpoint::kill_point;

/// What the files are called until they are renamed: the compiler derives the names of the further parts from this one.
const STAGED: &str = "module";

/// How modules of this project are compiled.
pub(crate) struct Compiler<'a> {
    pub toolchain: &'a Toolchain,
    pub env: &'a HostEnv,
    /// The project's root; messages name files relative to it.
    pub root: &'a AbsPath,
    /// The search path.
    pub path: &'a [AbsPath],
    pub limit: Duration,
}

/// How it went.
#[derive(Debug)]
pub(crate) enum Compiled {
    /// The artifacts are in place.
    Done(Vec<Message>),
    /// The module has errors, or Lean came to grief over it.
    Failed(Vec<Message>),
    /// The source was edited meanwhile: nothing was put in place.
    Moved,
    Stopped,
}

impl Compiler<'_> {
    /// Compiles a module whose imports are in place. The caller holds the lock of its build folder.
    pub fn compile(&self, node: &Node, stop: &dyn Fn() -> bool) -> Result<Compiled, FsError> {
        let stage = Stage::new(&node.module.build_dir)?;
        let done = match self.run(node, &stage.dir, stop) {
            Ok(done) => done,
            Err(RunError::Stopped { .. }) => return Ok(Compiled::Stopped),
            Err(e) => return Ok(Compiled::Failed(vec![Message { severity: Severity::Error, text: e.to_string() }])),
        };
        kill_point(self.env, "module-compiled");
        let mut messages = messages(&done);
        let is_module = node.source.header.is_module;
        let whole = endings(is_module).all(|ending| stage.file(ending).is_file());
        if !done.ok() || !whole {
            messages.push(Message { severity: Severity::Error, text: how_it_ended(&done) });
            return Ok(Compiled::Failed(messages));
        }
        // Lean has read the file itself, and perhaps another text than was planned for.
        match crate::source::Source::read(&node.module.source) {
            Ok(now) if now.hash == node.source.hash => {}
            _ => return Ok(Compiled::Moved),
        }
        self.publish(node, &stage, messages.clone())?;
        Ok(Compiled::Done(messages))
    }

    fn run(&self, node: &Node, stage: &AbsPath, stop: &dyn Fn() -> bool) -> Result<Done, RunError> {
        let module = &node.module;
        let staged = |ending: &str| stage.join(format!("{STAGED}.{ending}")).as_os_str().to_owned();
        let run = Run::new(&self.toolchain.lean, self.root)
            .args(["--json", "-R"])
            .args([module.source_root.as_os_str()])
            .args(module.weak_args())
            .args(module.options().iter().map(crate::config::LeanOption::argument))
            .args(module.more_args())
            .args(["-o".into(), staged("olean"), "-i".into(), staged("ilean")])
            .args([module.source.relative_to(self.root).unwrap_or(module.source.as_utf8_path()).as_os_str()])
            .set("LEAN_PATH", search_path(self.path, self.env))
            .limit(self.limit)
            .unset(["LEAN_SYSROOT", "LEAN_SRC_PATH", "NODE_OPTIONS"]);
        run.capture_until(self.env, stop)
    }

    fn publish(&self, node: &Node, stage: &Stage, messages: Vec<Message>) -> Result<(), FsError> {
        let module = &node.module;
        let is_module = node.source.header.is_module;
        // A name without a path has no source either, so it was never compiled.
        let Some(trace) = module.artifact("trace") else { return Ok(()) };
        let folder = trace.parent().unwrap_or_else(|| module.lib_dir.clone());
        std::fs::create_dir_all(&folder).map_err(FsError::at("make the folder", &folder))?;
        Trace::write(&trace, None)?;
        kill_point(self.env, "module-open");
        let targets: Vec<(AbsPath, AbsPath)> =
            endings(is_module).filter_map(|ending| Some((stage.file(ending), module.artifact(ending)?))).collect();
        rename_all(&targets, &stage.dir)?;
        if !is_module {
            remove_parts(module)?;
        }
        kill_point(self.env, "module-renamed");
        let record = Record::of(module, is_module, Origin::Build, node.inputs.clone(), messages)?;
        Trace::write(&trace, Some(record))
    }
}

/// Removes the further parts of what was a `module` file and is none any more: whoever imports it would read them.
pub(crate) fn remove_parts(module: &Module) -> Result<(), FsError> {
    for path in PARTS.iter().filter_map(|ending| module.artifact(ending)) {
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(FsError::at("remove", &path)(e)),
            _ => {}
        }
    }
    Ok(())
}

/// Renames all or none: what was there is kept in `backup` until the last one is in place.
fn rename_all(targets: &[(AbsPath, AbsPath)], backup: &AbsPath) -> Result<(), FsError> {
    let old = |n: usize| backup.join(format!("old-{n}"));
    for (n, (_, target)) in targets.iter().enumerate() {
        // Not every file system has links, and not every file may be linked to.
        let kept = std::fs::hard_link(target, old(n)).or_else(|_| std::fs::copy(target, old(n)).map(drop));
        match kept {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(FsError::at("keep the old", target)(e)),
            _ => {}
        }
    }
    for (n, (from, target)) in targets.iter().enumerate() {
        let Err(e) = std::fs::rename(from, target) else { continue };
        for (m, (_, target)) in targets[..n].iter().enumerate() {
            // The record stays open, so even if this fails too nobody takes the mixture for artifacts.
            let _ignored =
                if old(m).is_file() { std::fs::rename(old(m), target) } else { std::fs::remove_file(target) };
        }
        return Err(FsError::at("replace", target)(e));
    }
    Ok(())
}

/// The project's library folders, then the caller's search path.
pub(crate) fn search_path(dirs: &[AbsPath], env: &HostEnv) -> std::ffi::OsString {
    let mut out = std::ffi::OsString::new();
    for dir in dirs.iter().map(|d| d.as_os_str()).chain(env.var_os("LEAN_PATH")) {
        if !out.is_empty() {
            out.push(":");
        }
        out.push(dir);
    }
    out
}

/// A folder for what is being made, beside the library folder and on its file system; gone when dropped.
struct Stage {
    dir: AbsPath,
}

/// Where stages and the lock are, below a build folder.
pub(crate) fn own_dir(build_dir: &AbsPath) -> AbsPath {
    build_dir.join("lean-beam")
}

fn stages(build_dir: &AbsPath) -> AbsPath {
    own_dir(build_dir).join("stage")
}

/// Removes what killed builds have left. The caller holds the lock.
pub(crate) fn sweep(build_dir: &AbsPath) {
    // What cannot be removed now is in nobody's way; the next sweep tries again.
    let _ignored = std::fs::remove_dir_all(stages(build_dir));
}

impl Stage {
    fn new(build_dir: &AbsPath) -> Result<Self, FsError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let dir = stages(build_dir).join(name);
        std::fs::create_dir_all(&dir).map_err(FsError::at("make the folder", &dir))?;
        Ok(Self { dir })
    }

    fn file(&self, ending: &str) -> AbsPath {
        self.dir.join(format!("{STAGED}.{ending}"))
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ignored = std::fs::remove_dir_all(&self.dir);
        // Only when it was the last one.
        let _ignored = self.dir.parent().map(std::fs::remove_dir);
    }
}

/// A line of `lean --json`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonMessage {
    severity: String,
    file_name: String,
    pos: JsonPos,
    #[serde(default)]
    caption: String,
    data: String,
}

#[derive(Deserialize)]
struct JsonPos {
    line: u64,
    column: u64,
}

/// What Lean said. Lines that are no messages are what the module's own code has printed.
fn messages(done: &Done) -> Vec<Message> {
    let mut out = Vec::new();
    let mut printed = String::new();
    for line in done.stdout.lines() {
        if let Ok(m) = serde_json::from_str::<JsonMessage>(line) {
            let caption = if m.caption.is_empty() { String::new() } else { format!("{}:\n", m.caption) };
            let text = format!("{}:{}:{}: {caption}{}", m.file_name, m.pos.line, m.pos.column, m.data.trim_end());
            let severity = match m.severity.as_str() {
                "error" => Severity::Error,
                "warning" => Severity::Warning,
                _ => Severity::Information,
            };
            out.push(Message { severity, text });
        } else if !line.trim().is_empty() {
            printed.push_str(line);
            printed.push('\n');
        }
    }
    for (name, text) in [("stdout", printed.as_str()), ("stderr", done.stderr.as_str())] {
        if !text.trim().is_empty() {
            let text = format!("{name}:\n{}", text.trim_end());
            out.push(Message { severity: Severity::Information, text });
        }
    }
    out
}

/// Lake's words where Lake has some.
fn how_it_ended(done: &Done) -> String {
    match done.status.code() {
        Some(0) => "Lean ended without error, but did not write all artifacts".to_owned(),
        Some(code) => format!("Lean exited with code {code}"),
        None => format!("Lean was killed ({}); with too little memory this happens to large modules", done.status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn artifacts_are_replaced_together_or_not_at_all() {
        let tmp = tempfile::tempdir().unwrap();
        let dir = AbsPath::new(tmp.path()).unwrap();
        let backup = dir.join("backup");
        fs::create_dir(&backup).unwrap();
        let pairs = |names: &[&str]| -> Vec<_> {
            for name in names {
                fs::write(dir.join(format!("{name}.new")), format!("new {name}")).unwrap();
            }
            names.iter().map(|n| (dir.join(format!("{n}.new")), dir.join(n))).collect()
        };
        fs::write(dir.join("a"), "old a").unwrap();
        // One is there, one is not, and the last cannot be replaced: nothing may have changed.
        let mut targets = pairs(&["a", "b", "c"]);
        targets[2].0 = dir.join("absent");
        assert!(rename_all(&targets, &backup).unwrap_err().to_string().contains("cannot replace"));
        assert_eq!(fs::read_to_string(dir.join("a")).unwrap(), "old a");
        assert!(!dir.join("b").exists() && !dir.join("c").exists());
        fs::remove_dir_all(&backup).unwrap();
        fs::create_dir(&backup).unwrap();
        rename_all(&pairs(&["a", "b", "c"]), &backup).unwrap();
        for name in ["a", "b", "c"] {
            assert_eq!(fs::read_to_string(dir.join(name)).unwrap(), format!("new {name}"));
        }
        // A folder in an artifact's place is the user's problem, and is left.
        fs::create_dir_all(dir.join("d/inside")).unwrap();
        assert!(rename_all(&pairs(&["d"]), &backup).is_err());
        assert!(dir.join("d/inside").is_dir());
    }

    #[test]
    fn what_lean_said_is_told_as_lake_tells_it() {
        let stdout = concat!(
            r#"{"caption":"","data":"oh\n","fileName":"A.lean","pos":{"column":2,"line":1},"endPos":null,"severity":"error"}"#,
            "\nprinted\n",
            r#"{"caption":"linter","data":"hm","fileName":"A.lean","pos":{"column":0,"line":3},"severity":"warning"}"#,
            "\n\n{}\n"
        );
        let status = std::os::unix::process::ExitStatusExt::from_raw(0x100);
        let said = messages(&Done { status, stdout: stdout.to_owned(), stderr: "bang\n".to_owned() });
        let want = [
            (Severity::Error, "A.lean:1:2: oh"),
            (Severity::Warning, "A.lean:3:0: linter:\nhm"),
            (Severity::Information, "stdout:\nprinted\n{}"),
            (Severity::Information, "stderr:\nbang"),
        ];
        assert_eq!(said, want.map(|(severity, text)| Message { severity, text: text.to_owned() }));
        let done = |raw| Done {
            status: std::os::unix::process::ExitStatusExt::from_raw(raw),
            stdout: String::new(),
            stderr: String::new(),
        };
        assert_eq!(how_it_ended(&done(0x100)), "Lean exited with code 1");
        assert!(how_it_ended(&done(9)).starts_with("Lean was killed (signal: 9"));
    }
}

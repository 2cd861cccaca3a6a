//! `quickstart`: from nothing to real answers. Finds or installs a Lean, makes an example project, and shows each kind of
//! question as the command line that asks it, with its answer. Fails if any answer is not what it must be.
//!
//! The commands are real processes of this program: what is shown is what a user would see.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use beam_base::AbsPath;
use beam_toolchain::support::{Registries, Support};
use beam_toolchain::{Choice, EMBEDDED_NAME, ResolveError, Store, Toolchain, ToolchainKind, ToolchainOrigin};
use camino::Utf8Path;
use serde_json::Value;

use crate::args::Wish;
use crate::context::Context;
use crate::error::{CliError, Ending};
use crate::{embedded, ui};

/// The example. The positions in [`steps`] are those of `sorry`.
const EXAMPLE: &str = "theorem both (p q : Prop) (hp : p) (hq : q) : p ∧ q := by
  sorry
";
const FILE: &str = "Example.lean";
/// Line and character of `sorry`.
const AT: [&str; 2] = ["1", "2"];

/// Runs it.
pub fn run(ctx: &Context, dir: Option<&Utf8Path>, wish: Option<Wish>) -> Result<Ending, CliError> {
    let mut ctx = ctx.clone();
    if wish.is_some() {
        ctx.globals.toolchain = wish;
    }
    let dir = folder(&ctx, dir)?;
    let tc = lean(&ctx, &dir)?;
    let embedded = tc.kind == ToolchainKind::Embedded;
    let marker = project(&ctx, &dir, &tc)?;
    show(&format!("Lean {} ({}), {}", tc.version, if embedded { "embedded" } else { "native" }, tc.lean))?;
    show(&format!("example project: {dir} ({marker}, {FILE})\n\n{FILE}:\n{}", indent(EXAMPLE.trim_end())))?;

    let choice = match (&tc.found, ctx.wish()) {
        // Said on each line, so that the lines can be used as they stand.
        (_, Wish::Lean(_)) => Some(ctx.choice_text()),
        (ToolchainOrigin::Explicit | ToolchainOrigin::EmbeddedFallback, _) if embedded => Some("embedded".to_owned()),
        _ => None,
    };
    let shell = Shell { program: program()?, dir: dir.clone(), choice };
    let outcome = steps(&shell);
    // Whatever happened: the example's daemon is of no use to anybody any more.
    let _ended = shell.output(&["shutdown".to_owned()], None);
    outcome?;
    show(&format!(
        "All answers are right. Try your own in {dir}:\n\n{}\n",
        indent(&shell.line("run-at Example.lean 1 1 2 \"simp_all\""))
    ))?;
    Ok(Ending::Done)
}

/// The folder of the example: the one that was named, or a new one among the temporary ones.
fn folder(ctx: &Context, dir: Option<&Utf8Path>) -> Result<AbsPath, CliError> {
    let made = |what: &AbsPath, e: std::io::Error| {
        CliError::Quickstart(format!("cannot make {what}: {e}; name another folder with --dir"))
    };
    let dir = match dir {
        Some(dir) => AbsPath::resolve(&ctx.cwd, dir),
        None => {
            let base = ctx.env.var_os("TMPDIR").and_then(|d| AbsPath::new(d).ok());
            let base = base.unwrap_or_else(|| AbsPath::resolve(&ctx.cwd, "/tmp"));
            base.join(format!("lean-beam-quickstart-{}", std::process::id()))
        }
    };
    std::fs::create_dir_all(&dir).map_err(|e| made(&dir, e))?;
    AbsPath::canonical(&dir).map_err(|e| made(&dir, e))
}

/// The Lean that projects in this folder would use; the embedded one is installed where there is none.
fn lean(ctx: &Context, dir: &AbsPath) -> Result<Toolchain, CliError> {
    let choice = ctx.choice();
    let looked = match beam_toolchain::resolve(dir, &ctx.env, &choice) {
        Ok(tc) => {
            if let Some(notice) = &tc.notice {
                ctx.ui.say(notice);
            }
            return Ok(tc);
        }
        Err(ResolveError::None { looked }) => looked,
        Err(ResolveError::NotInstalled) => Vec::new(),
        // A Lean that is there but broken is not covered up with another one.
        Err(other) => return Err(other.into()),
    };
    for found_not in looked {
        ctx.ui.say(&found_not);
    }
    ctx.ui.say("installing the embedded Lean: 120 MB to download, then a minute or two of work, once");
    embedded::install(ctx, &Store::open(&ctx.env)?)?;
    Ok(beam_toolchain::resolve(dir, &ctx.env, &Choice::Embedded)?)
}

/// Writes the example. Nothing that is there and different is touched.
fn project(ctx: &Context, dir: &AbsPath, tc: &Toolchain) -> Result<&'static str, CliError> {
    let name = match &tc.found {
        ToolchainOrigin::Elan { channel } => channel.clone(),
        _ if tc.kind == ToolchainKind::Embedded => EMBEDDED_NAME.to_owned(),
        _ => format!("leanprover/lean4:v{}", tc.version),
    };
    // A name that the lists do not know would be refused in a lean-toolchain file; a lakefile marks a project as well.
    let known =
        name == EMBEDDED_NAME || Registries::load(&Store::open(&ctx.env)?)?.classify(&name) != Support::Unsupported;
    let (marker, text) = if known {
        ("lean-toolchain", format!("{name}\n"))
    } else {
        ("lakefile.toml", "name = \"example\"\n".to_owned())
    };
    for (file, text) in [(marker, text.as_str()), (FILE, EXAMPLE)] {
        let path = dir.join(file);
        match std::fs::read_to_string(&path) {
            Ok(there) if there == text => {}
            Ok(_) => {
                let why = format!("{path} exists and is not the example; name an empty folder with --dir");
                return Err(CliError::Quickstart(why));
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => std::fs::write(&path, text).map_err(|e| {
                CliError::Quickstart(format!("cannot write {path}: {e}; name another folder with --dir"))
            })?,
            Err(e) => return Err(CliError::Quickstart(format!("cannot read {path}: {e}"))),
        }
    }
    Ok(marker)
}

/// Each question, and what its answer must be.
fn steps(shell: &Shell) -> Result<(), CliError> {
    let at = |verb: &[&str], rest: &[&str]| -> Vec<String> {
        [verb, &[FILE, "1"], &AT, rest].concat().into_iter().map(str::to_owned).collect()
    };
    let file = |verb: &str, rest: &[&str]| -> Vec<String> {
        [&[verb, FILE], rest].concat().into_iter().map(str::to_owned).collect()
    };

    let answer =
        shell.ask("Tell Lean about the file. The version is what positions are about.", &file("update", &[]), None)?;
    expect(&answer, "/result/version", &Value::from(1))?;

    let answer = shell.ask(
        "What is to be shown at `sorry`? (Lines and characters count from 0.)",
        &at(&["goals", "before"], &[]),
        None,
    )?;
    expect(&answer, "/result/goals/0/target", &Value::from("p ∧ q"))?;

    let answer = shell.ask(
        "Try a tactic there. No goals are left, so it would close the proof.",
        &at(&["run-at"], &["exact ⟨hp, hq⟩"]),
        None,
    )?;
    expect(&answer, "/result/success", &Value::from(true))?;
    expect(&answer, "/result/proofState/goals", &Value::Array(Vec::new()))?;

    let answer = shell.ask(
        "Try one that fails. That is an answer, too: exit code 0, success false, Lean's words.",
        &at(&["run-at"], &["exact hp"]),
        None,
    )?;
    expect(&answer, "/result/success", &Value::from(false))?;
    expect(&answer, "/result/messages/0/severity", &Value::from("error"))?;

    let first = shell.ask(
        "Keep the state after a tactic under a handle: two goals are left.",
        &at(&["run-at-handle"], &["constructor"]),
        None,
    )?;
    expect(&first, "/result/proofState/goals/1/target", &Value::from("q"))?;
    let second = shell.ask(
        "Go on from the handle. The answer before is the input.",
        &file("run-with", &["-", "exact hp"]),
        Some(&first),
    )?;
    expect(&second, "/result/proofState/goals/0/target", &Value::from("q"))?;
    let last = shell.ask("And again: solved.", &file("run-with", &["-", "exact hq"]), Some(&second))?;
    expect(&last, "/result/proofState/goals", &Value::Array(Vec::new()))?;

    let answer = shell.ask(
        "Wait until Lean has checked the whole file. `sorry` is a warning, and nothing else is wrong.",
        &file("sync", &[]),
        None,
    )?;
    expect(&answer, "/result/diagnostics/counts/error", &Value::from(0))?;
    expect(&answer, "/result/diagnostics/counts/warning", &Value::from(1))?;
    Ok(())
}

fn expect(answer: &Value, pointer: &str, wanted: &Value) -> Result<(), CliError> {
    match answer.pointer(pointer) {
        Some(got) if got == wanted => Ok(()),
        got => {
            let got = got.map_or_else(|| "nothing".to_owned(), ToString::to_string);
            Err(CliError::Quickstart(format!("the answer has {got} at {pointer}, where {wanted} was expected")))
        }
    }
}

/// Runs this program in the example.
struct Shell {
    program: PathBuf,
    dir: AbsPath,
    choice: Option<String>,
}

impl Shell {
    /// A command line as one would type it.
    fn line(&self, args: &str) -> String {
        match &self.choice {
            Some(choice) => format!("lean-beam --toolchain {} {args}", quote(choice)),
            None => format!("lean-beam {args}"),
        }
    }

    /// Shows a question and its answer.
    fn ask(&self, why: &str, args: &[String], input: Option<&Value>) -> Result<Value, CliError> {
        let typed = self.line(&args.iter().map(|a| quote(a)).collect::<Vec<_>>().join(" "));
        let pipe = if input.is_some() { "... | " } else { "" };
        show(&format!("# {why}\n$ {pipe}{typed}"))?;
        let input = input.map(ToString::to_string);
        let done = self.output(args, input.as_deref())?;
        let stdout = String::from_utf8_lossy(&done.stdout).into_owned();
        show(&format!("{}\n", stdout.trim_end()))?;
        if !done.status.success() {
            return Err(CliError::Quickstart(format!("`{typed}` failed ({})", done.status)));
        }
        serde_json::from_str(&stdout)
            .map_err(|e| CliError::Quickstart(format!("the answer of `{typed}` is not JSON: {e}")))
    }

    fn output(&self, args: &[String], input: Option<&str>) -> Result<std::process::Output, CliError> {
        let failed = |source| CliError::System { what: "cannot run this program", source };
        let mut command = Command::new(&self.program);
        // The user's switches for one command are not meant for the nine of this one.
        command.env_remove("BEAM_REQUEST_ID").env_remove("BEAM_DEBUG_TEXT");
        if let Some(choice) = &self.choice {
            command.args(["--toolchain", choice]);
        }
        let mut child = command
            .args(args)
            .current_dir(&self.dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(failed)?;
        if let Some(mut pipe) = child.stdin.take() {
            // A command that does not read its input closes the pipe; its own answer says what went wrong.
            let _unread = pipe.write_all(input.unwrap_or_default().as_bytes());
        }
        child.wait_with_output().map_err(failed)
    }
}

fn program() -> Result<PathBuf, CliError> {
    std::env::current_exe().map_err(|source| CliError::System { what: "cannot find this program's own file", source })
}

fn show(text: &str) -> Result<(), CliError> {
    ui::answer(text)
}

fn indent(text: &str) -> String {
    text.lines().map(|l| format!("    {l}")).collect::<Vec<_>>().join("\n")
}

/// For a POSIX shell.
fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./+:@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn command_lines_can_be_pasted() {
        let shell = |choice: Option<&str>| Shell {
            program: PathBuf::new(),
            dir: AbsPath::new("/x").unwrap(),
            choice: choice.map(str::to_owned),
        };
        assert_eq!(quote("exact ⟨hp, hq⟩"), "'exact ⟨hp, hq⟩'");
        assert_eq!(quote("it's"), r"'it'\''s'");
        assert_eq!(quote("-"), "-");
        assert_eq!(shell(None).line("sync A.lean"), "lean-beam sync A.lean");
        assert_eq!(shell(Some("/a b/lean")).line("sync"), "lean-beam --toolchain '/a b/lean' sync");
    }

    #[test]
    fn a_wrong_answer_is_named() {
        let answer = json!({"result":{"success":true}});
        assert!(expect(&answer, "/result/success", &json!(true)).is_ok());
        let text = expect(&answer, "/result/success", &json!(false)).unwrap_err().to_string();
        assert!(text.contains("has true at /result/success, where false"), "{text}");
        assert!(expect(&answer, "/result/gone", &json!(false)).unwrap_err().to_string().contains("has nothing"));
    }
}

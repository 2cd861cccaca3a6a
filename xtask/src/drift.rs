//! What the extension needs of Lean and a newer Lean does not have. `cargo xtask drift LEAN LIBRARY [--update]`; a test runs it, too.
//!
//! Two toolchains are at hand and neither is both complete and new: one has Lean's library and compiles the extension, of the other
//! there is only the shared library. So the extension is compiled to C by the first, and the symbols that this C wants from outside
//! are looked for in the second. A name that is missing was renamed, removed or never meant to be exported, and each gets a written
//! judgement in the table. What a symbol cannot show (a changed type, a changed meaning) is shown by compiling and qualifying on the
//! toolchain itself, which happens before any use.
//!
//! Owns the comparison and the table's form; must never judge: a missing symbol without a row is a complaint.

mod names;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use object::{Object, ObjectSymbol};

pub use names::demangle;

/// The table, relative to the repository.
pub const TABLE: &str = "tests/native/drift.md";
/// What stands in a row that nobody has judged.
const UNJUDGED: &str = "?";
/// The program whose modules are compared. Others have no part in a worker; the one that asks Lake needs symbols of Lake's, which
/// Lean's shared library does not hold.
const PROGRAM: &str = "LeanBeamWorker";

/// What a comparison found.
#[derive(Debug, Default)]
pub struct Found {
    /// Symbols that the extension needs from outside.
    pub needed: BTreeSet<String>,
    /// Those of them that the library does not export.
    pub missing: BTreeSet<String>,
}

/// Compiles the extension in `root/lean` with `lean` and looks for what it needs in the shared library.
pub fn compare(root: &Path, lean: &Path, library: &Path) -> Result<Found, String> {
    let exported = exports(library)?;
    let mut needed = BTreeSet::new();
    let mut own = BTreeSet::new();
    for c in emit(&root.join("lean"), lean)? {
        let symbols = Symbols::of(&c);
        needed.extend(symbols.needed);
        own.extend(symbols.defined);
    }
    needed.retain(|name| !own.contains(name));
    let missing = needed.iter().filter(|name| !exported.contains(*name)).cloned().collect();
    Ok(Found { needed, missing })
}

/// What is wrong with the table: missing symbols without a judgement, rows about symbols that are not missing.
#[must_use]
pub fn complaints(found: &Found, table: &str) -> Vec<String> {
    let rows = rows(table);
    let mut out = Vec::new();
    for name in &found.missing {
        match rows.get(name.as_str()) {
            None => out.push(format!("{TABLE}: no row for `{name}` ({})", demangle(name))),
            Some(judgement) if judgement.is_empty() || *judgement == UNJUDGED => {
                out.push(format!("{TABLE}: `{name}` is not judged"));
            }
            Some(_) => {}
        }
    }
    let superfluous = rows.keys().filter(|name| !found.missing.contains(**name));
    out.extend(superfluous.map(|name| format!("{TABLE}: `{name}` is needed no more, or exported again")));
    out
}

/// The table for what was found, with the judgements of the old one and a `?` for what is new.
#[must_use]
pub fn updated(found: &Found, table: &str) -> String {
    let rows = rows(table);
    let head = table.split_inclusive('\n').take_while(|line| !line.starts_with("| `"));
    let mut out: String = head.collect();
    for name in &found.missing {
        let judgement = rows.get(name.as_str()).copied().unwrap_or(UNJUDGED);
        out.push_str(&format!("| `{name}` | `{}` | {judgement} |\n", demangle(name)));
    }
    out
}

/// Symbol and judgement of each row.
fn rows(table: &str) -> BTreeMap<&str, &str> {
    table
        .lines()
        .filter_map(|line| {
            let (name, rest) = line.strip_prefix("| `")?.split_once('`')?;
            let judgement = rest.trim_end().strip_suffix('|')?.rsplit_once(" | ")?.1;
            Some((name, judgement.trim()))
        })
        .collect()
}

/// The names that a shared library exports.
fn exports(library: &Path) -> Result<BTreeSet<String>, String> {
    let data = fs::read(library).map_err(|e| format!("cannot read {}: {e}", library.display()))?;
    let file = object::File::parse(&*data).map_err(|e| format!("{} is no library: {e}", library.display()))?;
    let names = file.dynamic_symbols().filter(|symbol| symbol.is_definition()).filter_map(|symbol| symbol.name().ok());
    let names: BTreeSet<String> = names.map(str::to_owned).collect();
    if names.contains("lean_main") {
        Ok(names)
    } else {
        Err(format!("{} is not Lean's shared library", library.display()))
    }
}

/// The C of every module, compiled in an order that respects their imports, two at a time.
fn emit(sources: &Path, lean: &Path) -> Result<Vec<String>, String> {
    let mut waiting = modules(sources)?;
    let names: BTreeSet<String> = waiting.keys().cloned().collect();
    let out = tempfile::tempdir().map_err(|e| format!("no temporary folder: {e}"))?;
    let mut done = BTreeSet::new();
    let mut all = Vec::new();
    while !waiting.is_empty() {
        let ready =
            waiting.iter().filter(|(_, imports)| imports.iter().all(|i| !names.contains(i) || done.contains(i)));
        let ready: Vec<String> = ready.map(|(name, _)| name.clone()).take(2).collect();
        if ready.is_empty() {
            return Err(format!("modules that import each other: {:?}", waiting.keys()));
        }
        let compiled: Vec<Result<String, String>> = std::thread::scope(|scope| {
            let out = out.path();
            let jobs: Vec<_> =
                ready.iter().map(|module| scope.spawn(move || compile(sources, out, lean, module))).collect();
            jobs.into_iter()
                .map(|job| job.join().unwrap_or_else(|_| Err("a compilation panicked".to_owned())))
                .collect()
        });
        for (module, c) in ready.into_iter().zip(compiled) {
            all.push(c?);
            waiting.remove(&module);
            done.insert(module);
        }
    }
    Ok(all)
}

/// [`PROGRAM`] and the modules it needs, with what each imports.
fn modules(sources: &Path) -> Result<BTreeMap<String, Vec<String>>, String> {
    let mut out = BTreeMap::new();
    let mut queue = vec![PROGRAM.to_owned()];
    while let Some(module) = queue.pop() {
        let path = sources.join(format!("{}.lean", module.replace('.', "/")));
        // What is not here is the toolchain's.
        if out.contains_key(&module) || (module != PROGRAM && !path.is_file()) {
            continue;
        }
        let text = fs::read_to_string(&path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
        let imports: Vec<String> =
            text.lines().filter_map(|line| line.strip_prefix("import ")).map(|name| name.trim().to_owned()).collect();
        queue.extend(imports.iter().cloned());
        out.insert(module, imports);
    }
    Ok(out)
}

fn compile(sources: &Path, out: &Path, lean: &Path, module: &str) -> Result<String, String> {
    let relative = module.replace('.', "/");
    let olean = out.join(format!("{relative}.olean"));
    let c = out.join(format!("{relative}.c"));
    if let Some(dir) = olean.parent() {
        fs::create_dir_all(dir).map_err(|e| format!("cannot make {}: {e}", dir.display()))?;
    }
    let output = Command::new(lean)
        .current_dir(sources)
        .env("LEAN_PATH", out)
        .arg("--root=.")
        .arg("-o")
        .arg(&olean)
        .arg("-c")
        .arg(&c)
        .arg(format!("{relative}.lean"))
        .output()
        .map_err(|e| format!("cannot run {}: {e}", lean.display()))?;
    if !output.status.success() {
        let said = [output.stdout, output.stderr].concat();
        return Err(format!("{module} does not compile:\n{}", String::from_utf8_lossy(&said)));
    }
    fs::read_to_string(&c).map_err(|e| format!("{module} has no C: {e}"))
}

/// What one file of C declares without defining it, and what it defines.
#[derive(Debug, Default, PartialEq, Eq)]
struct Symbols {
    needed: BTreeSet<String>,
    defined: BTreeSet<String>,
}

impl Symbols {
    /// Reads C as Lean's compiler writes it: one declaration a line, own ones marked `static` or `LEAN_EXPORT`, all others meant for
    /// the linker. They stand in front of the first body; only initialisers of imported modules are declared at the end.
    fn of(c: &str) -> Self {
        let mut out = Self::default();
        let mut in_front = true;
        for line in c.lines() {
            if line.starts_with("LEAN_EXPORT ") {
                out.defined.extend(declared(line).map(str::to_owned));
            } else if line.ends_with(';')
                && !line.starts_with("static ")
                && (in_front || line.contains(" initialize_"))
                && let Some(name) = declared(line)
            {
                out.needed.insert(name.to_owned());
            }
            in_front &= !line.ends_with('{') || line.starts_with("extern \"C\"");
        }
        out
    }
}

/// The name in `type name(…);`, `extern type name;` or the head of a function.
fn declared(line: &str) -> Option<&str> {
    let head = line.split(['(', ';', '=']).next()?.trim_end();
    let (kind, name) = head.rsplit_once([' ', '*'])?;
    let word = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    (!kind.trim().is_empty() && word(name)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const C: &str = "// Lean compiler output
#include <lean/lean.h>
#ifdef __cplusplus
extern \"C\" {
#endif
lean_object* l_Lean_Name_str___override(lean_object*, lean_object*);
static lean_object* l_X_f___closed__0;
extern lean_object* l_Lean_maxRecDepth;
LEAN_EXPORT uint8_t l_X_f(lean_object*);
uint8_t lean_nat_dec_eq(lean_object*, lean_object*);
LEAN_EXPORT uint8_t l_X_f(lean_object* x_1) {
_start:
{
lean_object* x_2;
x_2 = l_Lean_Name_str___override(x_1, x_1);
return 0;
}
}
lean_object* initialize_Init(uint8_t builtin);
static bool _G_initialized = false;
LEAN_EXPORT lean_object* initialize_X(uint8_t builtin) {
lean_object * res;
";

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn what_a_file_needs_and_defines() {
        let want = Symbols {
            needed: set(&["initialize_Init", "l_Lean_Name_str___override", "l_Lean_maxRecDepth", "lean_nat_dec_eq"]),
            defined: set(&["initialize_X", "l_X_f"]),
        };
        assert_eq!(Symbols::of(C), want);
    }

    #[test]
    fn every_missing_symbol_wants_a_judgement_and_every_judgement_a_symbol() {
        let found = Found { missing: set(&["l_A_b", "l_A_c", "l_A_d"]), ..Found::default() };
        let table = "# Title\n\n| s | n | j |\n| --- | --- | --- |\n| `l_A_b` | `A.b` | fine | \n| `l_A_c` | `A.c` | ? |\n| `l_Z` | `Z` | gone |\n";
        assert_eq!(
            complaints(&found, table),
            [
                "tests/native/drift.md: `l_A_c` is not judged",
                "tests/native/drift.md: no row for `l_A_d` (A.d)",
                "tests/native/drift.md: `l_Z` is needed no more, or exported again",
            ]
        );
        let table = updated(&found, table);
        assert!(table.starts_with("# Title\n") && table.contains("| `l_A_b` | `A.b` | fine |\n"), "{table}");
        assert!(table.ends_with("| `l_A_d` | `A.d` | ? |\n") && !table.contains("l_Z"), "{table}");
    }
}

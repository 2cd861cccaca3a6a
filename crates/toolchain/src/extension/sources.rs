//! The extension's sources and the order in which they are compiled, both read from the sources themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// The worker program; what it imports, directly or not, is the extension.
pub const WORKER: &str = "LeanBeamWorker.lean";

/// The program that asks Lake about a save, beside the worker's.
pub const LAKE: &str = "LeanBeamLake.lean";

/// All `.lean` files of the repository's `lean/`, by path relative to it, sorted.
static EMBEDDED: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/extension_sources.rs"));

/// Sources that cannot be compiled in any order.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// There is no worker program.
    #[error("this program was built without the Lean extension ({WORKER} is missing)")]
    NoWorker,
    /// Modules import each other in a circle.
    #[error("the extension's modules import each other in a circle through {0}")]
    Cycle(String),
}

/// One module to be compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// Path relative to the source root, `A/B.lean`.
    pub path: String,
    /// Its text.
    pub text: String,
    /// Indices of the modules of the extension that it imports.
    pub needs: Vec<usize>,
}

/// The programs and the modules that the worker needs, each after those it imports.
#[derive(Debug, Clone)]
pub struct Sources {
    /// The worker, and the program that asks Lake: path and text. They are not compiled.
    pub programs: Vec<(&'static str, String)>,
    /// In an order of compilation.
    pub modules: Vec<Module>,
    /// blake3 over paths and texts, hexadecimal.
    pub hash: String,
}

impl Sources {
    /// The sources this program was built with.
    ///
    /// # Errors
    /// They cannot be compiled in any order.
    pub fn embedded() -> Result<&'static Self, SourceError> {
        static SOURCES: LazyLock<Result<Sources, SourceError>> = LazyLock::new(|| Sources::new(EMBEDDED));
        SOURCES.as_ref().map_err(Clone::clone)
    }

    /// Sorts out the given files. Files that are neither a program nor reached by the worker take no part, not even in the hash.
    ///
    /// # Errors
    /// They cannot be compiled in any order.
    pub fn new(files: &[(&str, &str)]) -> Result<Self, SourceError> {
        let files: BTreeMap<&str, &str> = files.iter().copied().collect();
        let worker = *files.get(WORKER).ok_or(SourceError::NoWorker)?;
        let mut walk = Walk { files: &files, modules: Vec::new(), done: BTreeMap::new(), open: BTreeSet::new() };
        for name in imports(worker) {
            walk.visit(&name)?;
        }
        let modules = walk.modules;
        let mut hash = blake3::Hasher::new();
        let mut sorted: Vec<(&str, &str)> = modules.iter().map(|m| (m.path.as_str(), m.text.as_str())).collect();
        let programs: Vec<(&'static str, String)> =
            [WORKER, LAKE].into_iter().filter_map(|path| Some((path, (*files.get(path)?).to_owned()))).collect();
        sorted.extend(programs.iter().map(|(path, text)| (*path, text.as_str())));
        sorted.sort_unstable();
        for (path, text) in sorted {
            for part in [path, text] {
                hash.update(&(part.len() as u64).to_le_bytes());
                hash.update(part.as_bytes());
            }
        }
        Ok(Self { programs, modules, hash: hash.finalize().to_hex().to_string() })
    }
}

struct Walk<'a> {
    files: &'a BTreeMap<&'a str, &'a str>,
    modules: Vec<Module>,
    done: BTreeMap<String, usize>,
    open: BTreeSet<String>,
}

impl Walk<'_> {
    /// Adds the module after all it needs; `None` for a module of the toolchain.
    fn visit(&mut self, name: &str) -> Result<Option<usize>, SourceError> {
        let path = format!("{}.lean", name.replace('.', "/"));
        if let Some(&n) = self.done.get(&path) {
            return Ok(Some(n));
        }
        let Some(&text) = self.files.get(path.as_str()) else {
            return Ok(None);
        };
        if !self.open.insert(path.clone()) {
            return Err(SourceError::Cycle(name.to_owned()));
        }
        let mut needs = Vec::new();
        for import in imports(text) {
            needs.extend(self.visit(&import)?);
        }
        self.open.remove(&path);
        let n = self.modules.len();
        self.done.insert(path.clone(), n);
        self.modules.push(Module { path, text: text.to_owned(), needs });
        Ok(Some(n))
    }
}

/// The modules a file imports: its header is `module? prelude? (public? meta? import all? Name)*`, with comments anywhere.
pub(crate) fn imports(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut words = Words(text);
    let mut word = words.next();
    while let Some(w) = word {
        match w {
            "module" | "prelude" | "public" | "meta" => word = words.next(),
            "import" => {
                let name = match words.next() {
                    Some("all") => words.next(),
                    other => other,
                };
                out.extend(name.map(|n| n.replace(['«', '»'], "")));
                word = words.next();
            }
            _ => break,
        }
    }
    out
}

/// Words between blanks, comments left out.
struct Words<'a>(&'a str);

impl<'a> Iterator for Words<'a> {
    type Item = &'a str;
    fn next(&mut self) -> Option<&'a str> {
        loop {
            self.0 = self.0.trim_start();
            if self.0.starts_with("--") {
                self.0 = self.0.split_once('\n').map_or("", |(_, rest)| rest);
            } else if self.0.starts_with("/-") {
                self.0 = after_block_comment(self.0);
            } else {
                break;
            }
        }
        let end = self.0.find(|c: char| c.is_whitespace()).unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at(end);
        self.0 = rest;
        (!word.is_empty()).then_some(word)
    }
}

/// What follows the (nesting) comment at the start of `text`.
fn after_block_comment(text: &str) -> &str {
    let bytes = text.as_bytes();
    let (mut depth, mut i) = (0usize, 0);
    while i < bytes.len() {
        match bytes.get(i..i + 2) {
            Some(b"/-") => {
                depth += 1;
                i += 2;
            }
            Some(b"-/") => {
                depth -= 1;
                i += 2;
                if depth == 0 {
                    return &text[i..];
                }
            }
            _ => i += 1,
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_forms() {
        let text = "/- a /- nested import X -/ -/ module -- import Y\nprelude\npublic import A.B\nimport all C meta import D\n\
                    /-! doc -/\npublic meta import «E».F\n\nnamespace Z\nimport G\n";
        assert_eq!(imports(text), ["A.B", "C", "D", "E.F"]);
        assert!(imports("").is_empty());
        assert!(imports("/- open import A").is_empty());
        assert!(imports("import").is_empty());
        assert!(imports("def x := 1\nimport A").is_empty());
    }

    #[test]
    fn order_and_hash_follow_the_imports() {
        let files = [
            ("A.lean", "import B.C\nimport Lean\nimport B.D"),
            ("B/C.lean", "import B.D"),
            ("B/D.lean", "-- leaf"),
            ("Tests.lean", "import A"),
            (WORKER, "import A"),
        ];
        let s = Sources::new(&files).unwrap();
        let got: Vec<_> = s.modules.iter().map(|m| (m.path.as_str(), m.needs.clone())).collect();
        assert_eq!(got, [("B/D.lean", vec![]), ("B/C.lean", vec![0]), ("A.lean", vec![1, 0])]);
        let changed = |n: usize, text| {
            let mut f = files;
            f[n].1 = text;
            Sources::new(&f).unwrap().hash
        };
        assert_eq!(changed(3, "other"), s.hash, "not reached");
        assert_ne!(changed(2, "-- leaf "), s.hash);
        assert_ne!(changed(4, "import A "), s.hash);
        let mut with_lake = files.to_vec();
        with_lake.push((LAKE, "import Lake"));
        let with_lake = Sources::new(&with_lake).unwrap();
        assert_eq!((with_lake.modules.len(), with_lake.programs.len()), (3, 2), "a program, no module");
        assert_ne!(with_lake.hash, s.hash);
    }

    #[test]
    fn circles_and_a_missing_worker_are_errors() {
        assert_eq!(Sources::new(&[]).unwrap_err(), SourceError::NoWorker);
        let files = [("A.lean", "import B"), ("B.lean", "import A"), (WORKER, "import A")];
        assert!(matches!(Sources::new(&files), Err(SourceError::Cycle(_))));
    }
}

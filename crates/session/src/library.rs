//! Reference data of modules that are built and not open: the `.ilean` files below some folders, and the sources they are about.
//!
//! Blocking; runs on a thread that may block. Nothing is read before somebody asks, and for a question about given names only files
//! whose text holds those names are parsed: a large library is some 300 MB of JSON, which is quick to search and slow to parse.

#![allow(clippy::disallowed_methods, reason = "runs on blocking threads: begun by the router for a search")]

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;
use std::{fs, io};

use beam_base::{AbsPath, Utf16Range, uri};
use beam_lean::ModuleName;
use beam_lean::ilean::{self, Ident, Places};
use tokio_util::sync::CancellationToken;

/// Where built modules and sources are.
#[derive(Debug, Clone, Default)]
pub struct IndexRoots {
    /// Folders holding `.ilean` files at their modules' places, as in Lean's search path.
    pub ileans: Vec<AbsPath>,
    /// Folders holding sources at their modules' places; earlier ones win.
    pub sources: Vec<AbsPath>,
}

impl IndexRoots {
    /// From search paths as Lean's environment variables hold them (`LEAN_PATH`, `LEAN_SRC_PATH`); relative entries are left out.
    #[must_use]
    pub fn from_search_paths(built: &OsStr, sources: &OsStr) -> Self {
        let split = |paths| std::env::split_paths(paths).filter_map(|path| AbsPath::new(path).ok()).collect();
        Self { ileans: split(built), sources: split(sources) }
    }

    /// The source file of a module, if there is one.
    fn source_of(&self, module: &str) -> Option<AbsPath> {
        let relative = ModuleName::parse(module)?.path("lean")?;
        self.sources.iter().map(|root| root.join(&relative)).find(|path| path.is_file())
    }

    /// The module a source file would be, going by its place.
    pub(crate) fn module_of(&self, source: &AbsPath) -> Option<String> {
        let relative = self.sources.iter().find_map(|root| source.relative_to(root))?;
        Some(ModuleName::of_path(relative)?.to_string())
    }
}

/// Where an identifier stands in one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InFile {
    pub(crate) uri: String,
    pub(crate) places: Places,
}

/// A named definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Definition {
    pub(crate) name: String,
    pub(crate) uri: String,
    pub(crate) range: Utf16Range,
}

/// Modules left out of an answer because an open document speaks for them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Covered {
    pub(crate) modules: HashSet<String>,
    pub(crate) uris: HashSet<String>,
}

type Stamp = (Option<SystemTime>, u64);
type Names = Arc<[(String, Utf16Range)]>;

/// One module's definitions, as long as its file stays the same.
struct Cached {
    stamp: Stamp,
    module: Arc<str>,
    names: Names,
}

/// The built modules of a session.
pub(crate) struct Library {
    roots: IndexRoots,
    // Held while one entry is looked up or put in, never while a file is read.
    names: Mutex<HashMap<PathBuf, Cached>>,
    /// Files whose places were read.
    #[cfg(test)]
    files_read: std::sync::atomic::AtomicUsize,
}

impl Library {
    pub(crate) fn new(roots: IndexRoots) -> Self {
        Self {
            roots,
            names: Mutex::default(),
            #[cfg(test)]
            files_read: std::sync::atomic::AtomicUsize::default(),
        }
    }

    pub(crate) fn roots(&self) -> &IndexRoots {
        &self.roots
    }

    /// Where these constants are defined. An identifier names its module, so that module's file is all that is read.
    pub(crate) fn find_definitions(&self, idents: &[Ident], covered: &Covered) -> Vec<InFile> {
        let mut found = Vec::new();
        for ident in idents {
            let Ident::Const { module, .. } = ident else { continue };
            let Some(place) = ModuleName::parse(module).and_then(|name| name.path("ilean")) else { continue };
            let paths = self.roots.ileans.iter().map(|root| root.join(&place));
            if let Some(path) = paths.into_iter().find(|path| path.is_file()) {
                self.read_places(path.as_path().as_ref(), std::slice::from_ref(ident), covered, &mut found);
            }
        }
        found
    }

    /// Where these constants are defined and used, by file. Asks `stop` before each file.
    pub(crate) fn find(&self, idents: &[Ident], covered: &Covered, stop: &CancellationToken) -> Vec<InFile> {
        let mut found = Vec::new();
        if idents.iter().any(|ident| needle(ident).is_some()) {
            self.each_file(stop, |path| self.read_places(path, idents, covered, &mut found));
        }
        found
    }

    /// Adds what one file says about these constants.
    fn read_places(&self, path: &Path, idents: &[Ident], covered: &Covered, found: &mut Vec<InFile>) {
        #[cfg(test)]
        self.files_read.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let Ok(text) = fs::read_to_string(path) else { return };
        if !idents.iter().filter_map(needle).any(|needle| text.contains(needle)) {
            return;
        }
        let data = match ilean::parse(&text, None) {
            Ok(data) => data,
            Err(error) => return tracing::debug!(%error, path = %path.display(), "cannot read reference data"),
        };
        let places: Vec<_> = idents.iter().filter_map(|ident| data.refs.places(ident).cloned()).collect();
        if places.is_empty() {
            return;
        }
        if let Some(uri) = data.module.and_then(|module| self.visible(&module, covered)) {
            found.extend(places.into_iter().map(|places| InFile { uri: uri.clone(), places }));
        }
    }

    /// Every definition whose name `wanted` accepts. Asks `stop` before each file.
    pub(crate) fn definitions(
        &self,
        wanted: impl Fn(&str) -> bool,
        covered: &Covered,
        stop: &CancellationToken,
    ) -> Vec<Definition> {
        let mut found = Vec::new();
        self.each_file(stop, |path| {
            let Ok((module, names)) = self.names_of(path) else { return };
            let mut uri = None;
            for (name, range) in names.iter().filter(|(name, _)| wanted(name)) {
                // Looked for on disk once per file that has something to show.
                let uri = uri.get_or_insert_with(|| self.visible(&module, covered));
                if let Some(uri) = uri {
                    found.push(Definition { name: name.clone(), uri: uri.clone(), range: *range });
                }
            }
        });
        found
    }

    /// The URI of a module's source, if it has one and no open document speaks for it.
    fn visible(&self, module: &str, covered: &Covered) -> Option<String> {
        if covered.modules.contains(module) {
            return None;
        }
        let uri = uri::from_path(&self.roots.source_of(module)?);
        (!covered.uris.contains(&uri)).then_some(uri)
    }

    fn names_of(&self, path: &Path) -> io::Result<(Arc<str>, Names)> {
        let meta = fs::metadata(path)?;
        let stamp = (meta.modified().ok(), meta.len());
        {
            let cache = self.names.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(hit) = cache.get(path).filter(|hit| hit.stamp == stamp) {
                return Ok((hit.module.clone(), hit.names.clone()));
            }
        }
        let data = ilean::parse(&fs::read_to_string(path)?, None)?;
        let module: Arc<str> = data.module.unwrap_or_default().into();
        let names: Names = data.refs.definitions().map(|(_, name, range)| (name.to_owned(), range)).collect();
        let cached = Cached { stamp, module: module.clone(), names: names.clone() };
        self.names.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), cached);
        Ok((module, names))
    }

    fn each_file(&self, stop: &CancellationToken, mut visit: impl FnMut(&Path)) {
        let mut folders: Vec<PathBuf> = self.roots.ileans.iter().map(|root| root.as_path().to_owned()).collect();
        let mut seen = HashSet::new();
        while let Some(folder) = folders.pop() {
            // Roots may lie in each other, or be there twice.
            if !seen.insert(folder.clone()) {
                continue;
            }
            // A folder that is not there, or not yet, holds nothing.
            let Ok(entries) = fs::read_dir(&folder) else { continue };
            for entry in entries.flatten() {
                if stop.is_cancelled() {
                    return;
                }
                let path = entry.path();
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => folders.push(path),
                    Ok(_) if path.extension().is_some_and(|it| it == "ilean") => visit(&path),
                    _ => {}
                }
            }
        }
    }
}

/// A text that every file mentioning the constant contains, however its JSON is escaped: the longest plain run of the name.
fn needle(ident: &Ident) -> Option<&str> {
    match ident {
        Ident::Const { name, .. } => {
            name.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.')).max_by_key(|run| run.len())
        }
        Ident::Local { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use testkit::TempProject;

    #[test]
    fn modules_and_paths() {
        for (module, path) in [
            ("A", Some("A.lean")),
            ("A.B.C", Some("A/B/C.lean")),
            ("A.«b-c.d».E", Some("A/b-c.d/E.lean")),
            ("A.«..».B", None),
            ("A..B", None),
            ("«/etc».B", None),
            ("A.«b", None),
            ("", None),
        ] {
            let found = ModuleName::parse(module).and_then(|name| name.path("lean"));
            assert_eq!(found.as_deref().map(camino::Utf8Path::as_str), path, "{module}");
        }
        let root = AbsPath::new("/p").unwrap();
        let roots = IndexRoots { ileans: vec![], sources: vec![root.clone()] };
        assert_eq!(roots.module_of(&root.join("A/b-c/Δx'.lean")).as_deref(), Some("A.«b-c».Δx'"));
        assert_eq!(roots.module_of(&root.join("A.txt")), None);
        assert_eq!(roots.module_of(&AbsPath::new("/q/A.lean").unwrap()), None);
        let roots = IndexRoots::from_search_paths(OsStr::new("/a:b:/c"), OsStr::new(""));
        assert_eq!(
            (roots.ileans, roots.sources),
            (vec![AbsPath::new("/a").unwrap(), AbsPath::new("/c").unwrap()], vec![])
        );
    }

    fn ilean(module: &str, entries: &[(&str, &str, Option<u32>, &[u32])]) -> String {
        let span = |line: &u32| json!([line, 0, line, 3]);
        let references: serde_json::Map<_, _> = entries
            .iter()
            .map(|(owner, name, definition, usages)| {
                let key = json!({"c": {"m": owner, "n": name}}).to_string();
                let usages: Vec<_> = usages.iter().map(span).collect();
                (key, json!({"definition": definition.as_ref().map(span), "usages": usages}))
            })
            .collect();
        json!({"module": module, "version": 5, "references": references}).to_string()
    }

    #[test]
    fn names_are_found_in_files_that_mention_them() {
        let project = TempProject::empty().unwrap();
        for source in ["A.lean", "B/C.lean"] {
            project.write(source, "").unwrap();
        }
        project.write("out/A.ilean", ilean("A", &[("A", "α.foo", Some(1), &[2])])).unwrap();
        project
            .write("out/B/C.ilean", ilean("B.C", &[("A", "α.foo", None, &[7, 8]), ("B.C", "bar", Some(0), &[])]))
            .unwrap();
        project.write("out/Gone.ilean", ilean("Gone", &[("A", "α.foo", None, &[9])])).unwrap();
        project.write("out/Broken.ilean", "foo {").unwrap();
        let out = project.path("out");
        let roots =
            IndexRoots { ileans: vec![out.clone(), out, project.path("none")], sources: vec![project.root().clone()] };
        let library = Library::new(roots);
        let foo = [Ident::Const { module: "A".into(), name: "α.foo".into() }];
        let lines = |covered: &Covered| {
            let mut found: Vec<_> = library
                .find(&foo, covered, &CancellationToken::new())
                .into_iter()
                .map(|it| {
                    let lines: Vec<_> =
                        it.places.definition.iter().chain(&it.places.usages).map(|r| r.start.line).collect();
                    (it.uri.rsplit('/').next().unwrap().to_owned(), lines)
                })
                .collect();
            found.sort();
            found
        };
        // Modules without a source have no place to point to.
        assert_eq!(lines(&Covered::default()), [("A.lean".to_owned(), vec![1, 2]), ("C.lean".to_owned(), vec![7, 8])]);
        let covered = Covered { modules: HashSet::from(["A".to_owned()]), uris: HashSet::new() };
        assert_eq!(lines(&covered), [("C.lean".to_owned(), vec![7, 8])]);
        let uris = HashSet::from([uri::from_path(&project.path("B/C.lean"))]);
        assert_eq!(lines(&Covered { modules: HashSet::new(), uris }), [("A.lean".to_owned(), vec![1, 2])]);

        // A definition is looked for where it is, and nowhere else.
        let read = || library.files_read.swap(0, std::sync::atomic::Ordering::Relaxed);
        read();
        let defined = library.find_definitions(&foo, &Covered::default());
        assert_eq!(defined.len(), 1);
        assert_eq!(defined[0].places.definition.map(|it| it.start.line), Some(1));
        assert_eq!(read(), 1);
        // A search that was stopped reads nothing more.
        let stopped = CancellationToken::new();
        stopped.cancel();
        assert_eq!((library.find(&foo, &Covered::default(), &stopped), read()), (vec![], 0));

        let names = |library: &Library| {
            let mut names: Vec<_> = library
                .definitions(|_| true, &Covered::default(), &CancellationToken::new())
                .into_iter()
                .map(|it| it.name)
                .collect();
            names.sort();
            names
        };
        assert_eq!(names(&library), ["bar", "α.foo"]);
        // A file that is built anew is read anew.
        project.write("out/B/C.ilean", ilean("B.C", &[("B.C", "bar.baz", Some(0), &[])])).unwrap();
        assert_eq!(names(&library), ["bar.baz", "α.foo"]);
    }
}

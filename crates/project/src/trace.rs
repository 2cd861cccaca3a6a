//! What is known of a module's artifacts: a record of ours, in the place and shape of Lake's own trace file.
//!
//! Why there. A Lake that finds no trace beside an artifact, or finds its own from before, could take our artifact for its own. So
//! `<Module>.trace` is always a trace Lake can read, with an input hash that never matches: Lake sees "stale" and rebuilds. What we
//! know stands under a key of ours, which Lake skips. And when Lake rebuilds, its trace replaces ours, so we cannot mistake Lake's
//! artifact for ours either.
//!
//! * An *open* record says that the artifacts are being replaced. It is written before the first of them is touched; whoever finds
//!   it rebuilds.

use std::io;
use std::time::UNIX_EPOCH;

use beam_base::AbsPath;
use serde::{Deserialize, Serialize};

use crate::layout::Module;
use beam_toolchain::fs::FsError;

/// The format of the record. Another number is no record.
const VERSION: u32 = 1;
/// Lake's trace format that we imitate.
const LAKE_SCHEMA: &str = "2025-09-10";
/// No build has this input hash.
const NEVER: &str = "0000000000000000";

/// What every module has.
pub(crate) const PLAIN: [&str; 2] = ["olean", "ilean"];
/// What only files with `module` header have besides.
pub(crate) const PARTS: [&str; 3] = ["olean.server", "olean.private", "ir"];

/// The endings of the files that make up a module.
pub(crate) fn endings(is_module: bool) -> impl Iterator<Item = &'static str> {
    PLAIN.into_iter().chain(is_module.then_some(PARTS).into_iter().flatten())
}

/// One message of the compiler, kept to be shown again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Message {
    pub severity: Severity,
    /// `App/Low.lean:3:0: …`, several lines.
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Severity {
    Information,
    Warning,
    Error,
}

/// An artifact as it was when the record was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Artifact {
    ending: String,
    size: u64,
    /// Nanoseconds since 1970.
    modified: u64,
    hash: String,
}

/// What the artifacts were made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Inputs {
    /// Hash of all that follows, of the toolchain and of the module's name.
    pub key: String,
    pub toolchain: String,
    /// Hash of the text, line ends normalised.
    pub source: String,
    /// Options and arguments.
    pub settings: String,
    /// The workspace's modules that it imports, each with the key of the artifact it was given.
    pub imports: Vec<(String, String)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Origin {
    /// Compiled by the builder.
    Build,
    /// Written by a file worker.
    Save,
}

/// The record of whole artifacts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub module: String,
    pub origin: Origin,
    pub inputs: Inputs,
    artifacts: Vec<Artifact>,
    pub messages: Vec<Message>,
}

#[derive(Serialize, Deserialize)]
struct Ours {
    version: u32,
    /// None: open.
    record: Option<Record>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TraceFile {
    #[serde(default, skip_deserializing)]
    schema_version: &'static str,
    #[serde(default, skip_deserializing)]
    dep_hash: &'static str,
    #[serde(default, skip_deserializing)]
    inputs: [u8; 0],
    #[serde(default, skip_deserializing)]
    outputs: (),
    #[serde(default, skip_deserializing)]
    log: [u8; 0],
    #[serde(default, skip_deserializing)]
    synthetic: bool,
    lean_beam: Ours,
}

/// What lies in a trace file's place.
#[derive(Debug)]
pub(crate) enum Trace {
    /// Nothing, or something that is not ours: Lake's, most likely.
    NotOurs,
    /// The artifacts are, or were when somebody was killed, about to be replaced.
    Open,
    /// Ours. With the time of the file, nanoseconds since 1970.
    Ours(Box<Record>, u64),
}

impl Trace {
    pub fn read(path: &AbsPath) -> Self {
        let Ok(bytes) = std::fs::read(path) else { return Self::NotOurs };
        match serde_json::from_slice::<TraceFile>(&bytes) {
            Ok(TraceFile { lean_beam: Ours { version: VERSION, record: Some(record) }, .. }) => {
                modified(path).map_or(Self::Open, |at| Self::Ours(Box::new(record), at))
            }
            Ok(_) => Self::Open,
            // Ours, but of a version we do not understand: as if it were open, for what it says of the artifacts is lost on us.
            Err(_) => match serde_json::from_slice::<serde_json::Value>(&bytes) {
                Ok(other) if other.get("leanBeam").is_some() => Self::Open,
                _ => Self::NotOurs,
            },
        }
    }

    /// Writes an open record (`None`) or a whole one, by rename: whatever was in its place, a link included, is replaced.
    pub fn write(path: &AbsPath, record: Option<Record>) -> Result<(), FsError> {
        let file = TraceFile {
            schema_version: LAKE_SCHEMA,
            dep_hash: NEVER,
            inputs: [],
            outputs: (),
            log: [],
            synthetic: false,
            lean_beam: Ours { version: VERSION, record },
        };
        let text = serde_json::to_vec_pretty(&file).map_err(io::Error::other).map_err(FsError::at("write", path))?;
        replace(path, &text)
    }
}

impl Record {
    /// Looks at the module's artifacts and writes down what they are.
    pub fn of(
        module: &Module,
        is_module: bool,
        origin: Origin,
        inputs: Inputs,
        messages: Vec<Message>,
    ) -> Result<Self, FsError> {
        let mut artifacts = Vec::new();
        for ending in endings(is_module) {
            let Some(path) = module.artifact(ending) else { continue };
            let meta = std::fs::metadata(&path).map_err(FsError::at("find", &path))?;
            let hash = hash_file(&path).map_err(FsError::at("read", &path))?;
            artifacts.push(Artifact { ending: ending.to_owned(), size: meta.len(), modified: time_of(&meta), hash });
        }
        Ok(Self { module: module.name.to_string(), origin, inputs, artifacts, messages })
    }

    /// As [`Record::holds`], for the kind of file that it was when it was recorded.
    pub fn holds_all(&self, module: &Module) -> bool {
        self.holds(module, self.artifacts.iter().any(|a| PARTS.contains(&a.ending.as_str())))
    }

    /// Whether the artifacts are still those of the record. Where size and time are the same the content is not read: whoever
    /// replaces an artifact makes a new file.
    pub fn holds(&self, module: &Module, is_module: bool) -> bool {
        let holds = |ending: &str| {
            let recorded = self.artifacts.iter().find(|a| a.ending == ending)?;
            let path = module.artifact(ending)?;
            let meta = std::fs::metadata(&path).ok().filter(std::fs::Metadata::is_file)?;
            let same = meta.len() == recorded.size
                && (time_of(&meta) == recorded.modified || hash_file(&path).ok()? == recorded.hash);
            same.then_some(())
        };
        endings(is_module).all(|ending| holds(ending).is_some())
    }
}

/// Writes a file beside and renames it into place.
fn replace(path: &AbsPath, content: &[u8]) -> Result<(), FsError> {
    let tmp = AbsPath::resolve(path, format!("../.{}.{}", name_of(path), std::process::id()));
    let written = std::fs::write(&tmp, content).and_then(|()| std::fs::rename(&tmp, path));
    written
        .inspect_err(|_| {
            let _ignored = std::fs::remove_file(&tmp);
        })
        .map_err(FsError::at("write", path))
}

fn name_of(path: &AbsPath) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

pub(crate) fn hash_file(path: &AbsPath) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(std::fs::File::open(path)?)?;
    Ok(hasher.finalize().to_hex().to_string())
}

/// Modification time in nanoseconds since 1970.
pub(crate) fn modified(path: &AbsPath) -> Option<u64> {
    std::fs::metadata(path).ok().map(|m| time_of(&m))
}

pub(crate) fn time_of(meta: &std::fs::Metadata) -> u64 {
    let since = meta.modified().ok().and_then(|t| t.duration_since(UNIX_EPOCH).ok());
    since.and_then(|d| u64::try_from(d.as_nanos()).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Project;
    use beam_lean::ModuleName;

    #[test]
    fn a_trace_is_ours_open_or_somebody_elses() {
        let tmp = tempfile::tempdir().unwrap();
        let root = AbsPath::canonical(tmp.path()).unwrap();
        std::fs::write(root.join("A.lean"), "").unwrap();
        let module = Project::read(&root).find(&ModuleName::parse("A").unwrap()).unwrap();
        let path = module.artifact("trace").unwrap();
        std::fs::create_dir_all(&module.lib_dir).unwrap();
        let state = || match Trace::read(&path) {
            Trace::NotOurs => "not ours",
            Trace::Open => "open",
            Trace::Ours(..) => "ours",
        };
        assert_eq!(state(), "not ours");
        // What a link leads to is left alone; the link is not.
        let elsewhere = root.join("elsewhere");
        std::fs::write(&elsewhere, "theirs").unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        Trace::write(&path, None).unwrap();
        assert_eq!((state(), std::fs::read_to_string(&elsewhere).unwrap().as_str()), ("open", "theirs"));

        let inputs = Inputs {
            key: "k".into(),
            toolchain: "t".into(),
            source: "s".into(),
            settings: "o".into(),
            imports: vec![("B".into(), "b".into())],
        };
        let message = Message { severity: Severity::Warning, text: "w".into() };
        for ending in endings(false) {
            std::fs::write(module.artifact(ending).unwrap(), ending).unwrap();
        }
        let missing = Record::of(&module, true, Origin::Save, inputs.clone(), Vec::new()).unwrap_err();
        assert!(missing.path.as_path().ends_with("A.olean.server"), "{missing}");
        let record = Record::of(&module, false, Origin::Build, inputs, vec![message]).unwrap();
        Trace::write(&path, Some(record.clone())).unwrap();
        let Trace::Ours(read, _) = Trace::read(&path) else { panic!("it is ours") };
        assert_eq!(*read, record);
        assert!(read.holds(&module, false) && read.holds_all(&module) && !read.holds(&module, true));
        // Written again with the same content it is the same artifact, with another it is not.
        let olean = module.artifact("olean").unwrap();
        std::fs::write(&olean, "olean").unwrap();
        assert!(read.holds(&module, false));
        std::fs::write(&olean, "OLEAN").unwrap();
        std::fs::File::options()
            .append(true)
            .open(&olean)
            .unwrap()
            .set_modified(std::time::SystemTime::now() + std::time::Duration::from_secs(9))
            .unwrap();
        assert!(!read.holds(&module, false));

        for (text, want) in [
            (r#"{"leanBeam":{"version":99,"record":{"module":"A"}}}"#, "open"),
            (r#"{"leanBeam":{"version":99,"record":null}}"#, "open"),
            (r#"{"leanBeam":7}"#, "open"),
            (r#"{"schemaVersion":"2025-09-10","depHash":"0f3a5c7712ab9d40","log":[]}"#, "not ours"),
            ("123456", "not ours"),
            ("", "not ours"),
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(state(), want, "{text}");
        }
    }
}

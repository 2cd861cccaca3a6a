//! What has to be built: the workspace modules that a text imports, all the way down, and what is known of their artifacts.
//!
//! Only looks, never writes.

use std::collections::HashMap;
use std::sync::Arc;

use beam_base::AbsPath;

use crate::layout::{Module, Project};
use crate::source::{Source, Sources};
use crate::trace::{Inputs, Message, Trace, hash_file, modified};
use beam_lean::Header;
use beam_lean::ModuleName;
use beam_process::HostEnv;
use beam_toolchain::Toolchain;
use beam_toolchain::fs::FsError;

/// Changes what every key is: raised when artifacts of an older builder must not be used.
const BUILDER: &str = "lean-beam builder 1";

/// Why a module has to be built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// It has no artifact.
    NeverBuilt,
    /// Its source is not the text that the artifact was made from, or is newer than an artifact that is not ours.
    SourceChanged,
    /// A module that it imports has changed or has to be built.
    ImportChanged {
        /// The first such.
        module: ModuleName,
    },
    /// Its options, or arguments of `lean`, have changed.
    SettingsChanged,
    /// The artifact was made by another toolchain.
    ToolchainChanged,
    /// Artifacts are missing or not those that were recorded.
    Damaged,
    /// Whoever was replacing its artifacts did not come to the end.
    Interrupted,
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NeverBuilt => f.write_str("it has not been built"),
            Self::SourceChanged => f.write_str("its source has changed"),
            Self::ImportChanged { module } => write!(f, "it imports {module}, which has changed"),
            Self::SettingsChanged => f.write_str("its Lean options or arguments have changed"),
            Self::ToolchainChanged => f.write_str("it was built by another toolchain"),
            Self::Damaged => f.write_str("its artifacts are incomplete or damaged"),
            Self::Interrupted => f.write_str("building it was interrupted"),
        }
    }
}

/// What is known of a module's artifacts.
#[derive(Debug)]
pub(crate) enum NodeState {
    /// Ours, and made from what is there now.
    Fresh(Vec<Message>),
    /// Not ours, newer than its source, loadable: left alone.
    Kept,
    /// Not ours, newer than its source, made by another Lean: left alone, and of no use.
    Alien(AbsPath),
    /// To be built.
    Stale(Why),
    /// It has no source.
    Gone,
}

#[derive(Debug)]
pub(crate) struct Node {
    pub module: Module,
    pub source: Arc<Source>,
    /// Indices of what it imports, without repetition; all lower than its own.
    pub deps: Vec<usize>,
    pub inputs: Inputs,
    pub state: NodeState,
}

/// Modules in an order in which they can be built.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub nodes: Vec<Node>,
    /// What the text itself imports.
    pub direct: Vec<usize>,
    /// Direct imports that nothing known to us provides.
    pub missing: Vec<ModuleName>,
}

impl Plan {
    pub fn stale(&self) -> impl Iterator<Item = (usize, &Node, &Why)> {
        self.nodes.iter().enumerate().filter_map(|(n, node)| match &node.state {
            NodeState::Stale(why) => Some((n, node, why)),
            _ => None,
        })
    }
}

/// Why there is no plan.
#[derive(Debug)]
pub(crate) enum PlanError {
    /// The modules of the circle, the first one at the end again.
    Cycle(Vec<Module>),
    Fs(FsError),
}

/// Makes plans.
pub(crate) struct Planner<'a> {
    pub project: &'a Project,
    pub sources: &'a Sources,
    pub toolchain: &'a Toolchain,
    pub env: &'a HostEnv,
}

/// What a text's imports contribute to its key.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    /// The workspace's modules with the keys of their artifacts, without repetition.
    pub imports: Vec<(String, String)>,
    /// All others.
    pub others: Vec<String>,
}

/// What an import turns out to be.
enum ImportPlace {
    Workspace(Module),
    /// Of the toolchain, whose identity is part of every key.
    Library,
    /// Somewhere on the caller's search path.
    Outside(AbsPath),
    Nowhere,
}

impl ImportPlace {
    /// Its share in the key of whoever imports it, unless it is of the workspace.
    fn share(&self, name: &ModuleName) -> String {
        match self {
            // By time and size: these are files of another's making, of any size, and only compared with themselves.
            Self::Outside(path) => {
                let size = std::fs::metadata(path).map_or(0, |m| m.len());
                format!("{} {size} {}", path.display(), modified(path).unwrap_or(0))
            }
            Self::Nowhere => format!("{name} nowhere"),
            Self::Library | Self::Workspace(_) => String::new(),
        }
    }
}

/// A module whose imports are being followed.
struct Open {
    module: Module,
    source: Arc<Source>,
    header: Vec<Imported>,
    next: usize,
    /// Known by the configuration, or by an artifact, and yet without a source.
    gone: bool,
}

/// An import, resolved.
enum Imported {
    Workspace(Module),
    /// Its share in the key.
    Other(String),
}

impl Planner<'_> {
    /// The plan for a text with this header.
    pub fn plan(&self, header: &Header) -> Result<Plan, PlanError> {
        let mut plan = Plan::default();
        let mut index = HashMap::new();
        for import in &header.imports {
            match self.resolve(&import.module) {
                ImportPlace::Workspace(module) => {
                    let n = self.add(module, &mut plan, &mut index)?;
                    if !plan.direct.contains(&n) {
                        plan.direct.push(n);
                    }
                }
                ImportPlace::Library | ImportPlace::Outside(_) => {}
                ImportPlace::Nowhere => plan.missing.push(import.module.clone()),
            }
        }
        Ok(plan)
    }

    /// The plan for one module; it is the last node.
    pub fn plan_module(&self, module: Module) -> Result<Plan, PlanError> {
        let mut plan = Plan::default();
        let n = self.add(module, &mut plan, &mut HashMap::new())?;
        plan.direct.push(n);
        Ok(plan)
    }

    /// Adds a module and what it imports. Not by recursion: chains of imports are long, stacks of helper threads are not.
    fn add(&self, module: Module, plan: &mut Plan, index: &mut HashMap<ModuleName, usize>) -> Result<usize, PlanError> {
        if let Some(&n) = index.get(&module.name) {
            return Ok(n);
        }
        let mut path = vec![self.open(module)?];
        loop {
            let Some(top) = path.last_mut() else {
                // The first one pushed is the last one closed, and closing it returns.
                return Ok(plan.nodes.len().saturating_sub(1));
            };
            let dep = top.header[top.next..]
                .iter()
                .position(|i| matches!(i, Imported::Workspace(m) if !index.contains_key(&m.name)));
            if let Some(skip) = dep {
                top.next += skip;
                let Imported::Workspace(dep) = &top.header[top.next] else { continue };
                let dep = dep.clone();
                if let Some(begin) = path.iter().position(|o| o.module.name == dep.name) {
                    let mut circle: Vec<Module> = path[begin..].iter().map(|o| o.module.clone()).collect();
                    circle.push(dep);
                    return Err(PlanError::Cycle(circle));
                }
                path.push(self.open(dep)?);
                continue;
            }
            let Some(done) = path.pop() else { continue };
            let n = plan.nodes.len();
            index.insert(done.module.name.clone(), n);
            let node = self.close(done, plan, index);
            plan.nodes.push(node);
            if path.is_empty() {
                return Ok(n);
            }
        }
    }

    fn open(&self, module: Module) -> Result<Open, PlanError> {
        let source = match self.sources.read(&module.source) {
            Ok(source) => source,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                let source = Arc::new(Source::of_text(""));
                return Ok(Open { module, source, header: Vec::new(), next: 0, gone: true });
            }
            Err(source) => return Err(PlanError::Fs(FsError { action: "read", path: module.source, source })),
        };
        let resolve = |import: &beam_lean::Import| match self.resolve(&import.module) {
            ImportPlace::Workspace(module) => Imported::Workspace(module),
            other => Imported::Other(other.share(&import.module)),
        };
        let header = source.header.imports.iter().map(resolve).collect();
        Ok(Open { module, source, header, next: 0, gone: false })
    }

    fn close(&self, open: Open, plan: &Plan, index: &HashMap<ModuleName, usize>) -> Node {
        let Open { module, source, header, gone, .. } = open;
        let mut deps = Vec::new();
        let mut shares = Shares::default();
        for import in header {
            match import {
                Imported::Workspace(dep) => {
                    if let Some(&n) = index.get(&dep.name)
                        && !deps.contains(&n)
                    {
                        deps.push(n);
                        shares.imports.push((dep.name.to_string(), plan.nodes[n].inputs.key.clone()));
                    }
                }
                Imported::Other(share) => shares.others.push(share),
            }
        }
        let mut inputs = self.inputs(&module, &source, shares);
        let state = if gone { NodeState::Gone } else { self.state(&module, &source, &deps, &inputs, plan) };
        if matches!(state, NodeState::Kept) {
            // What importers are built against is this file, whatever it was made from.
            let content = module.artifact("olean").and_then(|path| hash_file(&path).ok());
            inputs.key = format!("foreign {}", content.unwrap_or_default());
        }
        Node { module, source, deps, inputs, state }
    }

    /// All that determines the artifacts of a text with these imports.
    pub fn inputs(&self, module: &Module, source: &Source, shares: Shares) -> Inputs {
        let settings: Vec<String> = module
            .options()
            .iter()
            .map(crate::config::LeanOption::argument)
            .chain(module.more_args().iter().cloned())
            .collect();
        let settings = hash_of(settings.iter().map(String::as_str));
        let toolchain = self.toolchain.fingerprint.id();
        let name = module.name.to_string();
        let Shares { imports, others } = shares;
        let count = imports.len().to_string();
        let fixed = [BUILDER, &toolchain, &name, &source.hash, &settings, &count];
        let links = imports.iter().flat_map(|(name, key)| [name.as_str(), key.as_str()]);
        let key = hash_of(fixed.into_iter().chain(links).chain(others.iter().map(String::as_str)));
        Inputs { key, toolchain, source: source.hash.clone(), settings, imports }
    }

    /// What a text's imports contribute as their artifacts are now, whether or not those are fresh. `Err` names an import without an
    /// artifact that is known to be whole.
    pub fn recorded(&self, header: &Header) -> Result<Shares, ModuleName> {
        let mut shares = Shares::default();
        for import in &header.imports {
            let name = import.module.to_string();
            match self.resolve(&import.module) {
                ImportPlace::Workspace(module) => {
                    if shares.imports.iter().all(|(n, _)| *n != name) {
                        let key = self.recorded_key(&module).ok_or_else(|| import.module.clone())?;
                        shares.imports.push((name, key));
                    }
                }
                ImportPlace::Nowhere => return Err(import.module.clone()),
                other => shares.others.push(other.share(&import.module)),
            }
        }
        Ok(shares)
    }

    fn recorded_key(&self, module: &Module) -> Option<String> {
        match Trace::read(&module.artifact("trace")?) {
            Trace::Ours(record, _) if record.holds_all(module) => Some(record.inputs.key),
            Trace::Ours(..) | Trace::NotOurs => {
                let olean = module.artifact("olean")?;
                (!self.is_alien(&olean)).then_some(())?;
                Some(format!("foreign {}", hash_file(&olean).ok()?))
            }
            Trace::Open => None,
        }
    }

    fn state(&self, module: &Module, source: &Source, deps: &[usize], inputs: &Inputs, plan: &Plan) -> NodeState {
        let (Some(trace), Some(olean)) = (module.artifact("trace"), module.artifact("olean")) else {
            return NodeState::Gone;
        };
        let is_module = source.header.is_module;
        let (record, at) = match Trace::read(&trace) {
            Trace::Open => return NodeState::Stale(Why::Interrupted),
            Trace::NotOurs => return self.foreign(source, deps, plan, &olean),
            Trace::Ours(record, at) => (record, at),
        };
        let holds = record.holds(module, is_module);
        if record.inputs.key == inputs.key && holds {
            return NodeState::Fresh(record.messages);
        }
        if !holds && !record.holds_all(module) && modified(&olean).is_some_and(|t| t > at) {
            // Somebody has put another artifact in the place of ours, after us.
            return self.foreign(source, deps, plan, &olean);
        }
        let was = &record.inputs;
        NodeState::Stale(if was.toolchain != inputs.toolchain {
            Why::ToolchainChanged
        } else if was.source != inputs.source {
            Why::SourceChanged
        } else if was.settings != inputs.settings {
            Why::SettingsChanged
        } else if let Some(module) = changed_import(&was.imports, deps, plan) {
            Why::ImportChanged { module }
        } else if was.key == inputs.key {
            Why::Damaged
        } else {
            // What it imports from elsewhere.
            Why::ToolchainChanged
        })
    }

    /// An artifact that is not ours stays if it is newer than its source, unless something it imports is, or has just been, built by us.
    fn foreign(&self, source: &Source, deps: &[usize], plan: &Plan, olean: &AbsPath) -> NodeState {
        let Some(built) = modified(olean) else {
            return NodeState::Stale(Why::NeverBuilt);
        };
        if built <= source.modified {
            return NodeState::Stale(Why::SourceChanged);
        }
        let outdated = deps.iter().map(|&n| &plan.nodes[n]).find(|dep| match dep.state {
            NodeState::Kept | NodeState::Alien(_) | NodeState::Gone => false,
            NodeState::Stale(_) => true,
            NodeState::Fresh(_) => dep.module.artifact("olean").and_then(|p| modified(&p)).is_none_or(|t| t > built),
        });
        if let Some(dep) = outdated {
            return NodeState::Stale(Why::ImportChanged { module: dep.module.name.clone() });
        }
        if self.is_alien(olean) { NodeState::Alien(olean.clone()) } else { NodeState::Kept }
    }

    /// Whether a file is no module file of this very Lean. Its head says: magic, format, Lean's version, its commit; the byte of flags
    /// between format and version does not matter.
    fn is_alien(&self, olean: &AbsPath) -> bool {
        let own = head(&self.toolchain.lib_dir.join("Init.olean"));
        match (own, head(olean)) {
            (Some(own), Some(other)) => own[..6] != other[..6] || own[7..] != other[7..],
            // Nothing to compare with, so nothing is said.
            (None, Some(_)) => false,
            (_, None) => true,
        }
    }

    fn resolve(&self, name: &ModuleName) -> ImportPlace {
        let library = self.toolchain.lib_dir.clone();
        let in_library = name.path("olean").is_some_and(|p| library.join(p).is_file());
        // The name of a library's folder is the library's, whatever lies about in a project without configuration.
        if in_library {
            return ImportPlace::Library;
        }
        if let Some(module) = self.project.find(name) {
            return ImportPlace::Workspace(module);
        }
        let Some(file) = name.path("olean") else { return ImportPlace::Nowhere };
        // Without its source an artifact of the project would go on being imported for ever.
        if let Some(module) = self.project.orphan(name) {
            return ImportPlace::Workspace(module);
        }
        let path = self.env.var_os("LEAN_PATH").unwrap_or_default();
        let outside = std::env::split_paths(path).filter_map(|dir| AbsPath::new(dir).ok()).map(|dir| dir.join(&file));
        outside.into_iter().find(|p| p.is_file()).map_or(ImportPlace::Nowhere, ImportPlace::Outside)
    }
}

/// The first import that is not as it was recorded.
fn changed_import(was: &[(String, String)], deps: &[usize], plan: &Plan) -> Option<ModuleName> {
    let now = deps.iter().map(|&n| &plan.nodes[n]);
    now.into_iter()
        .find(|dep| {
            let name = dep.module.name.to_string();
            !was.iter().any(|(n, key)| *n == name && *key == dep.inputs.key)
        })
        .map(|dep| dep.module.name.clone())
}

/// The first 80 bytes.
fn head(path: &AbsPath) -> Option<[u8; 80]> {
    use std::io::Read;
    let mut head = [0; 80];
    std::fs::File::open(path).ok()?.read_exact(&mut head).ok()?;
    Some(head)
}

/// Length-prefixed, so that no two lists are one.
fn hash_of<'a>(parts: impl Iterator<Item = &'a str>) -> String {
    let mut hash = blake3::Hasher::new();
    for part in parts {
        hash.update(&(part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    hash.finalize().to_hex().to_string()
}

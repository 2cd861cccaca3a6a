//! Counters, and what is open (broker protocol section 12). Never waits for a disk that does not answer: what it would say stays unknown.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use beam_base::AbsPath;
use beam_session::DocumentInfo;

use beam_wire::Backend;
use beam_wire::stats::{
    DiskStatus, OpenDoc, OpenDocs, OpenDocsAnswer, PerBackend, RootDocs, SessionStats, StatsAnswer, WorkspaceDocs,
    WorkspaceStats,
};
use tokio::task::JoinSet;

use crate::engine::core::EngineCore;
use crate::engine::handles::HandleBasis;
use crate::engine::live::LiveSession;
use crate::engine::observe;
use crate::engine::source::{self, SourceError};
use crate::engine::workspace::Workspace;

/// `stats`, of one workspace or of all.
pub(in crate::engine) async fn stats(core: &EngineCore, one: Option<&Workspace>) -> StatsAnswer {
    if let Some(workspace) = one {
        let stats = workspace_stats(workspace).await;
        return StatsAnswer::One(Box::new(WorkspaceStats { uptime_ms: Some(core.uptime_ms()), ..stats }));
    }
    // At once: each may have to wait for its own disk.
    let mut each = JoinSet::new();
    for workspace in core.workspaces.all() {
        each.spawn(async move { (workspace.id().to_owned(), workspace_stats(&workspace).await) });
    }
    let workspaces: BTreeMap<_, _> = each.join_all().await.into_iter().collect();
    StatsAnswer::All { uptime_ms: core.uptime_ms(), workspaces }
}

/// `open_docs`, of one workspace or of all.
pub(in crate::engine) async fn open_docs(core: &EngineCore, one: Option<&Workspace>) -> OpenDocsAnswer {
    if let Some(workspace) = one {
        return OpenDocsAnswer::One(WorkspaceDocs {
            workspace_id: workspace.id().to_owned(),
            root: workspace.root().to_string(),
            sessions: workspace_docs(workspace).await,
        });
    }
    let mut each = JoinSet::new();
    for workspace in core.workspaces.all() {
        each.spawn(async move {
            let docs = RootDocs { root: workspace.root().to_string(), sessions: workspace_docs(&workspace).await };
            (workspace.id().to_owned(), docs)
        });
    }
    OpenDocsAnswer::All { workspaces: each.join_all().await.into_iter().collect() }
}

async fn workspace_stats(workspace: &Workspace) -> WorkspaceStats {
    let (lean, restarts) = match workspace.running() {
        Some(live) => (session_stats(workspace, &live).await, live.session.counters().worker_restarts),
        None => (SessionStats::Inactive { active: false }, 0),
    };
    let report = |backend, restarts| workspace.metrics(backend).report(restarts);
    WorkspaceStats {
        id: workspace.id().to_owned(),
        root: workspace.root().to_string(),
        sessions: PerBackend { lean, rocq: SessionStats::Inactive { active: false } },
        by_backend: PerBackend { lean: report(Backend::Lean, restarts), rocq: report(Backend::Rocq, 0) },
        uptime_ms: None,
    }
}

async fn session_stats(workspace: &Workspace, live: &Arc<LiveSession>) -> SessionStats {
    let docs = live.session.documents().await;
    let look = Arc::clone(live);
    let changed = live.disk.want(move || look.config_changed()).await;
    SessionStats::Active {
        active: true,
        workspace_id: workspace.id().to_owned(),
        root: workspace.root().to_string(),
        epoch: live.session.epoch(),
        open_doc_count: u64::try_from(docs.len()).unwrap_or(u64::MAX),
        handle_count: live.handles.count(&bases(&docs)),
        // Said only when it is known.
        config_changed: changed.is_some_and(|files| !files.is_empty()),
    }
}

/// What every open document's handles are bound to now.
fn bases(docs: &[DocumentInfo]) -> HashMap<AbsPath, HandleBasis> {
    docs.iter().map(|d| (d.path.clone(), (d.version, d.worker.starts))).collect()
}

async fn workspace_docs(workspace: &Workspace) -> PerBackend<OpenDocs> {
    let lean = match workspace.running() {
        Some(live) => {
            let saved = live.checkpoints().clone();
            let mut each = JoinSet::new();
            for doc in live.session.documents().await {
                let (live, root, saved) = (Arc::clone(&live), workspace.root().clone(), saved.get(&doc.path).copied());
                each.spawn(async move { open_doc(&live, &root, saved, doc).await });
            }
            let mut files = each.join_all().await;
            files.sort_by(|a, b| a.path.cmp(&b.path));
            OpenDocs { active: true, files }
        }
        None => OpenDocs { active: false, files: Vec::new() },
    };
    PerBackend { lean, rocq: OpenDocs { active: false, files: Vec::new() } }
}

async fn open_doc(live: &LiveSession, root: &AbsPath, saved: Option<u64>, doc: DocumentInfo) -> OpenDoc {
    let (path, tracked) = (doc.path.clone(), doc.hash);
    let disk_status = live.disk.want(move || disk_status(&path, tracked)).await.unwrap_or(DiskStatus::Unknown);
    OpenDoc {
        uri: doc.uri,
        version: doc.version,
        disk_status,
        checkpointed: disk_status == DiskStatus::MatchesTracked && saved == Some(doc.version),
        path: Some(doc.path.display_in(root)),
        file_progress: doc.progress.map(observe::progress),
    }
}

/// Blocking.
fn disk_status(path: &AbsPath, tracked: u64) -> DiskStatus {
    match source::read(path) {
        Ok(s) if beam_lean::lean_text_hash(&beam_lean::normalize_newlines(&s.text)) == tracked => {
            DiskStatus::MatchesTracked
        }
        Ok(_) => DiskStatus::DiffersFromTracked,
        Err(SourceError::Missing(_)) => DiskStatus::Missing,
        Err(_) => DiskStatus::Unknown,
    }
}

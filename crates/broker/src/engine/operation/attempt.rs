//! `try`: several candidates over one state. Each is run as `run_at` or `run_with` would run it, at once as far as the worker takes them.

use std::sync::Arc;

use beam_wire::run::{GoalsForm, RunAt, RunResult, RunWith, Severity, StateForm, TryLine, TryResult, TryTexts};
use beam_wire::stream::Event;
use beam_wire::{Answer, Operation, Progress};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::run::{run_at, run_with};
use crate::engine::error::{Defect, EngineError, ParameterError};
use crate::engine::workspace::Workspace;

/// Candidates of one request.
const MOST: usize = 64;
/// Characters of a message in a line of the result.
const BRIEF: usize = 300;

/// `try`.
pub(super) async fn attempt(
    workspace: &Arc<Workspace>,
    op: &TryTexts,
    events: mpsc::Sender<Event>,
) -> Result<(Answer, Option<Progress>), EngineError> {
    if op.texts.is_empty() || op.texts.len() > MOST {
        return Err(ParameterError::Candidates { given: op.texts.len(), most: MOST }.into());
    }
    let mut running = JoinSet::new();
    for (index, text) in op.texts.iter().enumerate() {
        let candidate = candidate(op, text)?;
        let (workspace, events) = (Arc::clone(workspace), events.clone());
        // Dropping the set, as a cancelled request does, aborts each of them, and that cancels it at the worker.
        running.spawn(async move { (index, run_one(&workspace, candidate, events).await) });
    }
    let mut results: Vec<TryLine> = (0..op.texts.len()).map(stopped).collect();
    let mut failed = None;
    let mut progress = None;
    while let Some(done) = running.join_next().await {
        let (index, outcome) = done.map_err(|e| Defect::Task(e.to_string()))?;
        match outcome {
            Ok((result, observed)) => {
                progress = observed.or(progress);
                results[index] = line(index, result);
                if op.first == Some(true) && results[index].outcome == SOLVED && results[index].caveats.is_none() {
                    break;
                }
            }
            // What is wrong with the request as a whole (its version, its position) is wrong with each candidate.
            Err(error) => {
                results[index].outcome = "error".to_owned();
                results[index].message = Some(brief(&error.to_string()));
                failed.get_or_insert(error);
            }
        }
    }
    running.shutdown().await;
    if let Some(error) = failed
        && results.iter().all(|line| matches!(line.outcome.as_str(), "error" | "stopped"))
    {
        return Err(error);
    }
    let solved = results.iter().find(|line| line.outcome == SOLVED && line.caveats.is_none()).map(|line| line.index);
    Ok((TryResult { results, solved }.into(), progress))
}

const SOLVED: &str = "solved";

/// One candidate as the request that it stands for.
fn candidate(op: &TryTexts, text: &str) -> Result<Operation, EngineError> {
    let goals = Some(op.goals.unwrap_or(GoalsForm::Count));
    // A state that a failure leaves as it was is neither drawn nor sent.
    let state = Some(StateForm::Changed);
    let (path, text, store_handle, kernel) = (op.path.clone(), text.to_owned(), op.store_handle, op.kernel);
    match (&op.handle, op.version, op.line, op.character) {
        (Some(handle), None, None, None) => {
            let (handle, linear) = (handle.clone(), Some(false));
            Ok(RunWith { store_handle, linear, kernel, goals, state, ..RunWith::new(path, handle, text) }.into())
        }
        (None, Some(version), Some(line), Some(character)) => {
            Ok(RunAt { store_handle, kernel, goals, state, ..RunAt::new(path, version, line, character, text) }.into())
        }
        _ => Err(ParameterError::HandleOrPosition.into()),
    }
}

async fn run_one(
    workspace: &Workspace,
    candidate: Operation,
    events: mpsc::Sender<Event>,
) -> Result<(RunResult, Option<Progress>), EngineError> {
    let params = candidate.lean_params();
    let (answer, progress) = match &candidate {
        Operation::RunAt(op) => run_at(workspace, op, params, events).await?,
        Operation::RunWith(op) => run_with(workspace, op, params, events).await?,
        other => return Err(Defect::NotDispatched(other.op()).into()),
    };
    match answer {
        Answer::Run(result) => Ok((result, progress)),
        _ => Err(Defect::NotDispatched(candidate.op()).into()),
    }
}

fn stopped(index: usize) -> TryLine {
    TryLine {
        index: u64::try_from(index).unwrap_or(u64::MAX),
        outcome: "stopped".to_owned(),
        caveats: None,
        proof_state: None,
        message: None,
        hint: None,
        handle: None,
    }
}

fn line(index: usize, result: RunResult) -> TryLine {
    let worst = |severity: Severity| result.messages.iter().find(|m| m.severity == severity);
    let message = if result.success {
        worst(Severity::Warning).or(worst(Severity::Information))
    } else {
        worst(Severity::Error).or(result.messages.first())
    };
    let goals = result.proof_state.as_ref().and_then(beam_wire::Goals::number);
    let outcome = match (result.success, goals, &result.proof_state, result.state_unchanged) {
        (false, ..) => "failed",
        (true, Some(0), ..) => SOLVED,
        (true, Some(_), ..) | (true, None, Some(_), _) | (true, None, None, Some(true)) => "goals",
        (true, None, None, _) => "ok",
    };
    TryLine {
        outcome: outcome.to_owned(),
        caveats: result.caveats,
        message: message.map(|m| brief(&m.text)),
        hint: result.hint,
        handle: result.handle,
        proof_state: result.proof_state.filter(|_| result.success),
        ..stopped(index)
    }
}

/// One line, cut where it is long.
fn brief(text: &str) -> String {
    let line = text.lines().map(str::trim).filter(|l| !l.is_empty()).collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(BRIEF) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

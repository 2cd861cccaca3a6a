import LeanBeam.Barrier
import Lean.Server.CodeActions

/-!
# `$/beam/codeActions`: the code actions of a range, with their edits

Owns the resolving of all actions in one request. Must never make an edit of its own.

An action that cannot be resolved is listed with the reason: it is no failure of the others.
-/

open Lean Server FileWorker

namespace LeanBeam.Actions

private def resolve (action : Lsp.CodeAction) (stop : Stop) : RequestM ResolvedAction := do
  let plain : ResolvedAction := {
    title := action.title, kind? := action.kind?, isPreferred? := action.isPreferred?, edit? := action.edit? }
  if action.edit?.isSome then
    return plain
  if let some disabled := action.disabled? then
    return { plain with unresolved? := some disabled.reason }
  if action.data?.isNone then
    return { plain with unresolved? := some "the action has neither an edit nor data to make one from" }
  stop.check
  let resolved ← try
      stop.await (Compat.taskOf (← handleCodeActionResolve action))
    catch e =>
      stop.check
      pure (.error e)
  match resolved with
  | .ok resolved =>
    if resolved.edit?.isSome then
      return { plain with edit? := resolved.edit? }
    return { plain with unresolved? := some "Lean made no edit of it" }
  | .error e => return { plain with unresolved? := some e.message }

private def touches (a b : Lsp.Range) : Bool :=
  let le (a b : Lsp.Position) := a.line < b.line || a.line == b.line && a.character ≤ b.character
  le a.start b.end && le b.start a.end

private def handleCodeActions (p : CodeActionsParams) : RequestM (RequestTask CodeActionsResult) := do
  let doc ← checkDocument p.textDocument.uri p.textDocument.version?
  let start ← EIO.ofExcept (checkPosition doc.meta.text p.range.start)
  let stop ← EIO.ofExcept (checkPosition doc.meta.text p.range.end)
  unless start ≤ stop do
    throw <| invalidParams "the range ends before it starts"
  onOwnThread fun wanted => do
    -- Providers look at the diagnostics, which are there once Lean has reported them.
    discard <| awaitDocument doc wanted
    let diagnostics := (← visibleDiagnostics doc).filter (touches p.range ·.fullRange)
    let task ← handleCodeAction {
      textDocument := { uri := doc.meta.uri }, range := p.range, context := { diagnostics } }
    match ← wanted.await (Compat.taskOf task) with
    | .ok actions => return { version := doc.meta.version, actions := ← actions.mapM (resolve · wanted) }
    | .error e => throw e

initialize
  serve "$/beam/codeActions" CodeActionsParams CodeActionsResult handleCodeActions

end LeanBeam.Actions

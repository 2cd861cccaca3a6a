import LeanBeam.Caveats
import LeanBeam.Request
import LeanBeam.Wire

/-!
# `$/beam/waitForDiagnostics`: the diagnostics barrier and the save verdict

Owns the moment at which a document version counts as finished, and the judgement whether it may be saved. Must never answer before
that moment, nor judge from anything but Lean's own snapshots.

1. Finished means: Lean's reporter has visited every snapshot of the version, and every command has a result. Lean's
   `textDocument/waitForDiagnostics` waits for the same two; but asked for a version that it has not got it polls the document
   it was given at the start for ever. Messages are read in order, so a version that is not there yet is a mistake of the
   client, and is answered at once (`contentModified`).
2. Diagnostics are published through the same queue as answers: what was published for the version is sent before the answer.
3. A later version answers for an earlier one; an edit while waiting ends the wait (`contentModified`).
4. Not ready, if there is no state behind the last command (`documentDidNotElaborateSuccessfully`: a broken header), or an
   error that the front end has not marked as reported stands anywhere in the snapshot tree (`documentErrors`).

`textHash` is Lean's `hash : String → UInt64` of the worker's text, in 16 lower-case hex digits (compiled code, also in this
interpreted extension). The worker's text is the client's with every `\r\n` turned into `\n`: Lean does this on open and on change; a
lone `\r` stays. The algorithm, for whoever has to reproduce it: MurmurHash64A with seed 11 over the UTF-8 bytes.
-/

open Lean Server FileWorker

namespace LeanBeam

/-- Texts by which Lean and Lake say that the imports themselves are not in order. -/
private def setupProblems : List String :=
  ["Failed to build module dependencies.", "error: target is out-of-date and needs to be rebuilt",
   "Imports are out of date and should be rebuilt"]

private def isError (d : Lsp.Diagnostic) : Bool :=
  d.severity? matches some .error

private def blockingDiagnostic (d : Lsp.Diagnostic) : BlockingDiagnostic := {
  range := d.fullRange
  severity? := d.severity?
  message := d.message
  saveBlocking := true
  completionBlocking := setupProblems.any fun text => (d.message.splitOn text).length > 1
}

/-- The error messages in the snapshot tree that nothing has reported elsewhere. -/
private def unreportedErrors (doc : EditableDocument) : Array Message :=
  (Compat.snapshotTree doc).getAll.foldl (init := #[]) fun errors snap =>
    let log := snap.diagnostics.msgLog
    if log.hasUnreported then errors ++ (Compat.unreported log).filter (·.severity matches .error) else errors

/-- The user-visible diagnostics of a finished version. -/
def visibleDiagnostics (doc : EditableDocument) : BaseIO (Array Lsp.Diagnostic) := do
  return (← Compat.currentDiagnostics doc).filter fun d => !(d.isSilent? == some true)

/-- Waits until the version is finished; gives its commands, the header first, or none if the header is broken. -/
def awaitDocument (doc : EditableDocument) (stop : Stop) : EIO RequestError (List Snapshots.Snapshot) := do
  stop.await (Compat.reported doc)
  stop.await (Compat.allCommands doc)

/-- The verdict on a finished version. -/
def judge (doc : EditableDocument) (commands : List Snapshots.Snapshot) : BaseIO SaveReadiness := do
  let diagnostics ← visibleDiagnostics doc
  let verdict : SaveReadiness := {
    version := doc.meta.version
    textHash := hex16 (hash doc.meta.text.source)
    currentDiagnostics := diagnostics
    currentWarningCount := (diagnostics.filter (·.severity? matches some .warning)).size
    saveReady := true
    saveReadyReason := "ok"
    blockingDiagnostics := #[]
    blockingCommandMessages := #[]
  }
  let complete := commands.getLast?.any (·.isAtEnd)
  let errors := unreportedErrors doc
  if complete && errors.isEmpty then
    return verdict
  let blockingDiagnostics := diagnostics.filter isError |>.map blockingDiagnostic
  let blockingCommandMessages ←
    if blockingDiagnostics.isEmpty then
      errors.mapM fun m => return { message := ← m.data.toString, saveBlocking := true, completionBlocking := false }
    else
      pure #[]
  let (reason, message) :=
    if complete then ("documentErrors", "the document has errors")
    else ("documentDidNotElaborateSuccessfully", "there is no state behind the last command; see the errors of the header")
  return { verdict with
    saveReady := false, saveReadyReason := reason, saveReadyMessage? := some message
    blockingDiagnostics, blockingCommandMessages }

/-- Each `sorry` of a finished version. -/
def sorriesOf (doc : EditableDocument) (commands : List Snapshots.Snapshot) (stop : Stop) :
    EIO RequestError (Array WrittenSorry) := do
  let some last := commands.getLast? | return #[]
  let env := last.cmdState.env
  stop.await (Compat.kernelChecked env)
  writtenSorries doc.meta.text env commands fun command => return (Compat.infoTrees command).get

private def sorriesAtMost : Nat := 100

private def sorryItem (text : FileMap) (s : WrittenSorry) : SorryItem :=
  let pos := text.utf8PosToLspPos s.range.start
  let declaration? := s.declName?.bind fun name =>
    let name := privateToUserName name
    if name.isAnonymous || name matches .str _ "_example" then none else some name.toString
  { line := pos.line, character := pos.character, declaration? }

private def handleBarrier (p : BarrierParams) : RequestM (RequestTask BarrierResult) := do
  let doc ← RequestM.readDoc
  -- Refuses only a version from the future; see 1 and 3 above.
  discard <| checkDocument p.uri (if p.version > doc.meta.version then some p.version else none)
  onOwnThread fun stop => do
    let commands ← awaitDocument doc stop
    let sorries ← sorriesOf doc commands stop
    let imports := (Compat.headerImports doc).map toString
    return {
      version := doc.meta.version
      directImports := imports.foldl (init := #[]) fun seen m => if seen.contains m then seen else seen.push m
      saveReadiness := ← judge doc commands
      sorries? := if sorries.isEmpty then none else some <| (sorries.extract 0 sorriesAtMost).map (sorryItem doc.meta.text)
      sorriesTotal? := if sorries.size > sorriesAtMost then some sorries.size else none
    }

initialize
  serve "$/beam/waitForDiagnostics" BarrierParams BarrierResult handleBarrier

end LeanBeam

import LeanBeam.Exec
import LeanBeam.Handles

/-!
# `$/lean/runAt`, `$/lean/runWith`, `$/lean/releaseHandle`, `$/lean/goalsPrev`, `$/lean/goalsAfter`

Owns the requests that work on a state. A handle is looked up, and a linear one used up, on the thread that reads messages, so
that the order of the client's requests decides; a successor is stored only when the result is about to be sent.
-/

open Lean Elab Server FileWorker

namespace LeanBeam

private def runOn (doc : EditableDocument) (basis : Basis) (text : String) (store : Bool) (stop : Stop) :
    EIO RequestError ProbeResult := do
  let (next, result) ← match basis with
    | .proof state =>
      let o ← runTactic state text stop
      stop.check
      let goals ← o.state.render stop
      pure (Basis.proof o.state, { o with proofState? := some goals : ProbeResult })
    | .command state =>
      let o ← runCommand state text stop
      pure (Basis.command o.state, { o with : ProbeResult })
  stop.check
  if store && result.success then
    return { result with handle? := some (← HandleStore.mint doc next) }
  return result

private def handleRunAt (p : RunAtParams) : RequestM (RequestTask ProbeResult) := do
  let doc ← checkDocument p.textDocument.uri p.textDocument.version
  let pos ← EIO.ofExcept (checkPosition doc.meta.text p.position)
  onOwnThread fun stop => do
    let some basis ← findBasis? doc pos stop
      | throw <| invalidParams "there is no state at this position; move into a command or a proof (is the header in order?)"
    runOn doc basis p.text (p.storeHandle?.getD false) stop

private def handleRunWith (p : RunWithParams) : RequestM (RequestTask ProbeResult) := do
  let doc ← checkDocument p.textDocument.uri none
  let basis ← HandleStore.look doc p.handle (remove := p.linear?.getD false)
  onOwnThread fun stop => runOn doc basis p.text (p.storeHandle?.getD false) stop

private def handleRelease (p : ReleaseParams) : RequestM (RequestTask Json) := do
  let doc ← checkDocument p.textDocument.uri none
  discard <| HandleStore.look doc p.handle (remove := true)
  return .pure .null

private def handleGoals (useAfter : Bool) (p : GoalsParams) : RequestM (RequestTask Goals) := do
  let doc ← checkDocument p.textDocument.uri p.textDocument.version?
  let pos ← EIO.ofExcept (checkPosition doc.meta.text p.position)
  onOwnThread fun stop => do
    let some result ← findTactic? doc pos stop
      | throw <| invalidParams "there are no goals at this position"
    (proofStateOf result.ctxInfo result.tacticInfo useAfter).render stop

initialize
  serve "$/lean/runAt" RunAtParams ProbeResult handleRunAt
  serve "$/lean/runWith" RunWithParams ProbeResult handleRunWith
  serve "$/lean/releaseHandle" ReleaseParams Json handleRelease
  serve "$/lean/goalsPrev" GoalsParams Goals (handleGoals false)
  serve "$/lean/goalsAfter" GoalsParams Goals (handleGoals true)

end LeanBeam

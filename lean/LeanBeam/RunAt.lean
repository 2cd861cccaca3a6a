import LeanBeam.Hints

/-!
# `$/lean/runAt`, `$/lean/runWith`, `$/lean/releaseHandle`, `$/lean/goalsPrev`, `$/lean/goalsAfter`

Owns the requests that work on a state, the states that handles refer to, and the meaning of a handle value. A handle is looked up,
and a linear one used up, on the thread that reads messages, so that the order of the client's requests decides; a successor is
stored only when the result is about to be sent. Must never store a state for a request that is not answered with its handle.

A value is `lbh1-U-P-V-N`: hash of the document's URI, token of the worker process, document version, number. Callers treat it as opaque.

1. Checks, in this order: malformed; another document; another process; (released, consumed or never made); another version. A handle
   that was released before an edit stays `invalidParams`; one that was live turns `contentModified`, and stays so.
2. States of older versions are dropped at the next use of the store; `retired` remembers, in one byte per handle ever made, which
   of them were released or consumed before.
3. A worker serves one document, so the store needs no key for it; the hash is there to reject the handle of another one.
-/

open Lean Elab Server FileWorker

namespace LeanBeam

/-! ## Stored states -/

/-- A state, and the position from which it was reached. -/
structure Stored where
  basis : Basis
  origin : String.Pos.Raw

structure HandleStore where
  /-- The version all of `states` belong to. -/
  version : Nat := 0
  states : Std.HashMap Nat Stored := {}
  /-- Entry `n` is 1 if handle `n` was released or consumed. -/
  retired : ByteArray := .empty

instance : Inhabited HandleStore := ⟨{}⟩

/-- Distinguishes this process from all others that have served, or will serve, the document. -/
initialize workerToken : UInt64 ← do
  return (← IO.getRandomBytes 8).toUInt64LE!

initialize handleStore : IO.Ref HandleStore ← IO.mkRef {}

namespace HandleStore

/-- Forgets the states of other versions. -/
private def atVersion (s : HandleStore) (version : Nat) : HandleStore :=
  if s.version == version then s else { s with version, states := {} }

/-- Stores a state. Called from the thread of the probe, so an edit may have come in between: then the handle is stale from birth,
and must not take the place of states of the newer version. -/
def mint (doc : EditableDocument) (state : Stored) : BaseIO HandleRef := do
  let version := doc.meta.version
  let n ← handleStore.modifyGet fun s =>
    let n := s.retired.size
    let s := { s with retired := s.retired.push 0 }
    if version < s.version then
      (n, s)
    else
      let s := s.atVersion version
      (n, { s with states := s.states.insert n state })
  return { value := s!"lbh1-{hex16 (hash doc.meta.uri)}-{hex16 workerToken}-{version}-{n}" }

private inductive Lookup where
  | found (state : Stored)
  | retired
  | stale

/-- The state of a handle; with `remove`, the handle is used up in the same step. -/
def look (doc : EditableDocument) (h : HandleRef) (remove : Bool) : EIO RequestError Stored := do
  let ["lbh1", uriHash, token, version, n] := h.value.splitOn "-"
    | throw <| invalidParams "malformed handle"
  let (some version, some n) := (version.toNat?, n.toNat?)
    | throw <| invalidParams "malformed handle"
  unless uriHash == hex16 (hash doc.meta.uri) do
    throw <| invalidParams "the handle belongs to another document"
  unless token == hex16 workerToken do
    throw { code := .contentModified, message := "the handle belongs to an earlier session of this document" }
  let r ← handleStore.modifyGet fun s =>
    let s := s.atVersion doc.meta.version
    if n ≥ s.retired.size || s.retired.get! n != 0 then
      (Lookup.retired, s)
    else if version != doc.meta.version then
      (.stale, s)
    else match s.states[n]? with
      | none => (.stale, s)
      | some state =>
        if remove then
          (.found state, { s with states := s.states.erase n, retired := s.retired.set! n 1 })
        else
          (.found state, s)
  match r with
  | .found state => return state
  | .retired => throw <| invalidParams "the handle is unknown: it was released or consumed"
  | .stale => throw { code := .contentModified, message := "the document was edited after the handle was made" }

end HandleStore

/-! ## Requests -/

/-- How a text is to be run, and what is wanted of the answer. -/
private structure Run where
  text : String
  store : Bool
  kernel : Bool
  wanted : Wanted
  /-- Names the state it starts from. -/
  key : String
  /-- Absent for a handle. -/
  pos? : Option String.Pos.Raw

private def Run.start (r : Run) (doc : EditableDocument) (start : Stored) (stop : Stop) : EIO RequestError ProbeResult := do
  let explain (result : ProbeResult) : EIO RequestError ProbeResult := do
    if result.success then
      return result
    let hint? ← hintFor? doc r.pos? start.basis r.text stop
    return { result with at? := some (placeOf doc.meta.text start.origin start.basis.name), hint? }
  match start.basis with
  | .proof state =>
    let o ← runTactic state r.text r.kernel stop
    let keep := r.store && o.success
    unless keep do
      o.background.forM (·.cancelRec)
    stop.check
    let (proofState?, unchanged?) ← showState r.wanted r.key state o.state stop
    let result ← explain { o with proofState?, stateUnchanged? := unchanged?.filter id }
    stop.check
    if keep then
      let handle ← HandleStore.mint doc { start with basis := .proof o.state }
      rememberFor handle r.wanted proofState?
      return { result with handle? := some handle }
    return result
  | .command state =>
    let o ← runCommand state r.text stop
    stop.check
    let result ← explain { o with }
    if r.store && o.success then
      return { result with handle? := some (← HandleStore.mint doc { start with basis := .command o.state }) }
    return result

private def handleRunAt (p : RunAtParams) : RequestM (RequestTask ProbeResult) := do
  let doc ← checkDocument p.textDocument.uri p.textDocument.version
  let wanted ← EIO.ofExcept (Wanted.parse p.goals? p.state?)
  let pos ← EIO.ofExcept (checkPosition doc.meta.text p.position)
  onOwnThread fun stop => do
    let some basis ← findBasis? doc pos stop
      | throw <| invalidParams "there is no state at this position; move into a command or a proof (is the header in order?)"
    let run : Run := {
      text := p.text, store := p.storeHandle?.getD false, kernel := p.kernel?.getD false, wanted, pos? := some pos
      key := s!"{doc.meta.version}:{p.position.line}:{p.position.character}" }
    run.start doc { basis, origin := pos } stop

private def handleRunWith (p : RunWithParams) : RequestM (RequestTask ProbeResult) := do
  let doc ← checkDocument p.textDocument.uri none
  let wanted ← EIO.ofExcept (Wanted.parse p.goals? p.state?)
  let state ← HandleStore.look doc p.handle (remove := p.linear?.getD false)
  let run : Run := {
    text := p.text, store := p.storeHandle?.getD false, kernel := p.kernel?.getD false, wanted, pos? := none, key := p.handle.value }
  onOwnThread fun stop => run.start doc state stop

private def handleRelease (p : ReleaseParams) : RequestM (RequestTask Json) := do
  let doc ← checkDocument p.textDocument.uri none
  discard <| HandleStore.look doc p.handle (remove := true)
  return .pure .null

private def handleGoals (useAfter : Bool) (p : GoalsParams) : RequestM (RequestTask GoalsAnswer) := do
  let doc ← checkDocument p.textDocument.uri p.textDocument.version?
  let pos ← EIO.ofExcept (checkPosition doc.meta.text p.position)
  let wanted ← EIO.ofExcept (Wanted.parse p.goals? none)
  onOwnThread fun stop => do
    let some result ← findTactic? doc pos stop
      | let hint? ← notReached? doc pos stop
        let why := (hint?.map (·.text)).getD "there are no goals at this position"
        throw <| invalidParams s!"{why}; line {p.position.line} is `{lineAt doc.meta.text p.position.line}`"
    let view ← (proofStateOf result.ctxInfo result.tacticInfo useAfter).view wanted.form stop
    if !(p.explain?.getD false) then
      return { toGoalsView := view }
    return { toGoalsView := view, at? := some (placeOf doc.meta.text pos "tactic"), hint? := ← notReached? doc pos stop }

initialize
  serve "$/lean/runAt" RunAtParams ProbeResult handleRunAt
  serve "$/lean/runWith" RunWithParams ProbeResult handleRunWith
  serve "$/lean/releaseHandle" ReleaseParams Json handleRelease
  serve "$/lean/goalsPrev" GoalsParams GoalsAnswer (handleGoals false)
  serve "$/lean/goalsAfter" GoalsParams GoalsAnswer (handleGoals true)

end LeanBeam

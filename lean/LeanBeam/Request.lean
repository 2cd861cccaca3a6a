import LeanBeam.Compat

/-!
# The gate every request passes, and how it is stopped

Owns the order of checks before any work (document, version, position), the running of the work on a thread of its own, and
the outcome of a request that was cancelled or overtaken by an edit. Must never look at what a request computes.

1. Checks run on the thread that reads messages, so they see the document in the order in which the client sent things.
   Nothing else of ours runs there.
2. The work of a request runs on a dedicated thread: Lean's pool has as many threads as the machine has cores, and a few
   sleeping or looping probes in it would stop the elaboration of the file and all other probes.
3. A cancelled request is answered `requestCancelled`, and one whose document was edited `contentModified`, whatever the work
   had come to; and only after the work has really stopped, so that a client can tell a worker that refuses to stop. The one
   exception is work that cannot be undone (`settled`): it is answered as done.
4. Waiting for the file never outlives the request: a version that is replaced may leave tasks that never finish.

An error cannot carry `data`: Lean's `RequestError` has a code and a message only (4.28 to 4.36). A version mismatch is marked by
the first word of its message; the client knows the versions itself.
-/

open Lean Server FileWorker

namespace LeanBeam

/-- How one request is told to stop. -/
structure Stop where
  /-- What Lean's elaborator polls. -/
  token : IO.CancelToken
  /-- Resolved together with `token`, to wake a wait. -/
  woken : IO.Promise Unit
  request : RequestCancellationToken

namespace Stop

/-- Starts to watch the cancellation of a request. -/
def watch (request : RequestCancellationToken) : BaseIO Stop := do
  let token ← IO.CancelToken.new
  let woken ← IO.Promise.new
  for signal in Compat.stopSignals request do
    -- `sync`: runs on the thread that reads messages, at once and without a pool thread, which may all be busy.
    discard <| BaseIO.mapTask (sync := true) (t := signal) fun
      | some () => do token.set; woken.resolve ()
      | none => pure ()
  return { token, woken, request }

/-- Fails if the request must not be answered with a result any more. -/
def check (stop : Stop) : EIO RequestError Unit := do
  if ← stop.request.wasCancelledByCancelRequest then
    throw { code := .requestCancelled, message := "the request was cancelled" }
  if ← stop.request.wasCancelledByEdit then
    throw { code := .contentModified, message := "the document changed while the request was pending" }

/-- Waits for `t`, but no longer than the request is wanted. -/
def await (stop : Stop) (t : Task α) : EIO RequestError α := do
  if ← IO.hasFinished t then
    stop.check
    return t.get
  let tasks := [t.map (sync := true) some, stop.woken.result?.map (sync := true) fun _ => none]
  let first ← IO.waitAny tasks (by simp [tasks])
  stop.check
  match first with
  | some a => return a
  -- `woken` is dropped only together with the request, so this is out of reach; waiting is the harmless reading.
  | none => return t.get

end Stop

/-- 16 lower-case hex digits. -/
def hex16 (n : UInt64) : String :=
  let digits := String.ofList (Nat.toDigits 16 n.toNat)
  "".pushn '0' (16 - digits.length) ++ digits

def invalidParams (message : String) : RequestError :=
  { code := .invalidParams, message }

/-- The byte position of an LSP position, if that lies inside the document. The last valid line is the one that holds the
end of the file, the last valid character of a line its length in UTF-16 units. Costs the length of one line. -/
def checkPosition (text : FileMap) (pos : Lsp.Position) : Except RequestError String.Pos.Raw := do
  -- `positions` holds the start of every line and then the end of the file.
  let lastLine := text.positions.size - 2
  if pos.line > lastLine then
    throw <| invalidParams s!"position is outside the document: line {pos.line}, but the last line is {lastLine}"
  let start := text.positions[pos.line]!
  let next := text.positions[pos.line + 1]!
  let stop : String.Pos.Raw := if pos.line < lastLine then ⟨next.byteIdx - 1⟩ else next
  let length := (Compat.slice text.source start stop).utf16Length
  if pos.character > length then
    throw <| invalidParams
      s!"position is outside the document: character {pos.character} of line {pos.line}, but the last character is {length}"
  return text.lspPosToUtf8Pos pos

/-- The byte position of an LSP position, moved back to the end of its line or of the document where it lies outside. -/
def clampPosition (text : FileMap) (pos : Lsp.Position) : String.Pos.Raw :=
  match checkPosition text pos with
  | .ok pos => pos
  | .error _ =>
    let lastLine := text.positions.size - 2
    if pos.line ≥ lastLine then text.positions.back! else ⟨text.positions[pos.line + 1]!.byteIdx - 1⟩

/-- The document, if it is the one meant and has the version meant. -/
def checkDocument (uri : String) (version? : Option Nat) : RequestM EditableDocument := do
  let doc ← RequestM.readDoc
  unless doc.meta.uri == uri do
    throw <| invalidParams s!"this worker serves {doc.meta.uri}, not {uri}"
  if let some version := version? then
    unless doc.meta.version == version do
      throw { code := .contentModified,
              message := s!"documentVersionMismatch: expected version {version}, the document is at version {doc.meta.version}" }
  return doc

/-- Runs the work of a request on its own thread. With `settled`, work that has come to its end is answered as what it is. -/
def onOwnThread (work : Stop → RequestM α) (settled : Bool := false) : RequestM (RequestTask α) := do
  let stop ← Stop.watch (← read).cancelTk
  RequestM.asTask do
    stop.check
    let a ← work stop
    unless settled do
      stop.check
    return a

/-- Registers a request, once per process: a document that imports this very extension (its own sources, say) runs the
`initialize` blocks of its modules a second time. -/
def serve (method : String) (paramType : Type) [FromJson paramType] [Lsp.FileSource paramType]
    (resultType : Type) [ToJson resultType] (handler : paramType → RequestM (RequestTask resultType)) : IO Unit := do
  unless (← lookupLspRequestHandler method).isSome do
    registerLspRequestHandler method paramType resultType handler

end LeanBeam

import LeanBeam.Goals

/-!
# `$/beam/snippet`: a text that is run and forgotten

Owns the elaboration of a text of several commands in the environment that the document's header gives. Must never leave anything behind:
the state is dropped with the answer.

1. The text may have a header. Without imports, or with exactly those of the document (in any order), it is run here. Other imports
   need another process: the request fails with `invalidParams`, and its message begins with `otherImports:`.
2. It starts where the document's first command does: none of the document's own declarations, namespaces or options are in scope.
3. Commands run one after the other on the request's own thread, with `Elab.async` off, and stop with the request.
-/

open Lean Elab Server FileWorker

namespace LeanBeam.Snippet

private structure Run where
  state : Command.State
  parser : Parser.ModuleParserState
  messages : Array Message
  trees : PersistentArray InfoTree := {}
  output : String := ""

/-- Messages of tasks that a command has left, once they are finished. -/
private def lateMessages (s : Command.State) (stop : Stop) : EIO RequestError (Array Message) := do
  if s.snapshotTasks.isEmpty then
    return #[]
  let tree : Language.SnapshotTree := { element := { desc := "", diagnostics := .empty }, children := s.snapshotTasks }
  match ← (stop.await (← tree.waitAll)).toBaseIO with
  | .ok () => return (tree.getAll.map (Compat.unreported ·.diagnostics.msgLog)).foldl (· ++ ·) #[]
  | .error e =>
    s.snapshotTasks.forM (·.cancelRec)
    throw e

/-- Runs one command; gives `none` behind the last. -/
private def step (input : Parser.InputContext) (r : Run) (stop : Stop) : EIO RequestError (Run × Bool) := do
  stop.check
  let scope := r.state.scopes.headD { header := "" }
  let pmctx := { env := r.state.env, options := scope.opts, currNamespace := scope.currNamespace, openDecls := scope.openDecls }
  let (stx, parser, parseMessages) := Parser.parseCommand input pmctx r.parser {}
  let ctx : Command.Context := {
    fileName := input.fileName, fileMap := input.fileMap, cmdPos := r.parser.pos, snap? := none, cancelTk? := some stop.token }
  let ref ← IO.mkRef { r.state with messages := {}, traceState := {}, snapshotTasks := #[], infoState := { enabled := true } }
  let (output, result) ← IO.FS.withIsolatedStreams (Command.elabCommandTopLevel stx ctx ref).toBaseIO
  let state ← ref.get
  stop.check
  let mut messages := r.messages ++ Compat.unreported parseMessages ++ Compat.unreported state.messages
  messages := messages ++ (← lateMessages state stop)
  if let .error ex := result then
    let text ← ex.toMessageData.toString
    let pos := input.fileMap.toPosition r.parser.pos
    messages := messages.push { fileName := input.fileName, pos, data := text }
  let trees := state.infoState.substituteLazy.get.trees
  let r := { r with state, parser, messages, trees := r.trees ++ trees, output := r.output ++ output }
  return (r, !Parser.isTerminalCommand stx)

private partial def loop (input : Parser.InputContext) (r : Run) (stop : Stop) : EIO RequestError Run := do
  let (r, more) ← step input r stop
  if more then loop input r stop else return r

private def severityName : MessageSeverity → String
  | .information => "information"
  | .warning => "warning"
  | .error => "error"

private def ofMessage (text : FileMap) (m : Message) : BaseIO SnippetDiagnostic := do
  let start := text.leanPosToLspPos m.pos
  let stop := (m.endPos.map text.leanPosToLspPos).getD start
  return { range := ⟨start, stop⟩, severity := severityName m.severity, message := (← m.data.toString) }

private def names (imports : Array Import) : List String :=
  (imports.map (toString ·.module)).qsort (· < ·) |>.toList.eraseDups

/-- What stands at a position of the text. -/
private def goalsAt? (text : FileMap) (r : Run) (pos : String.Pos.Raw) (wanted : Wanted) (stop : Stop) :
    EIO RequestError (Option GoalsAround) := do
  for tree in r.trees do
    if let result :: _ := tree.goalsAt? text pos then
      return some (← goalsAround result "both" wanted stop)
  return (← expectedTypeIn? r.trees pos wanted.form stop).map fun view => { expectedType? := some view }

private def handleSnippet (p : SnippetParams) : RequestM (RequestTask SnippetResult) := do
  let doc ← checkDocument p.textDocument.uri p.textDocument.version?
  let wanted ← EIO.ofExcept (Wanted.parse p.goals? none)
  let input := Parser.mkInputContext p.text "<snippet>"
  let pos? ← p.position?.mapM fun pos => EIO.ofExcept (checkPosition input.fileMap pos)
  onOwnThread fun stop => do
    let .ok (some header) ← stop.await (Compat.findCommand doc fun _ => true)
      | throw <| invalidParams "the document's header is not in order, so there is no environment to run in"
    let (stx, parser, headerMessages) ← match ← (Parser.parseHeader input).toBaseIO with
      | .ok parsed => pure parsed
      | .error e => throw { code := .internalError, message := toString e }
    let own := names (Elab.headerToImports stx (includeInit := false))
    let theirs := names ((Compat.headerImports doc).map ({ module := · }))
    unless own.isEmpty || own == theirs do
      throw <| invalidParams
        s!"otherImports: the text imports {", ".intercalate own}, the document {if theirs.isEmpty then "nothing" else ", ".intercalate theirs}"
    let scopes := match header.cmdState.scopes with
      | scope :: scopes => { scope with opts := Elab.async.set scope.opts false } :: scopes
      | [] => []
    let r ← loop input {
      state := { header.cmdState with scopes }
      parser, messages := Compat.unreported headerMessages } stop
    let shown := r.messages.filter (!·.isSilent)
    let goals? ← match pos? with
      | some pos => goalsAt? input.fileMap r pos wanted stop
      | none => pure none
    return {
      success := !shown.any (·.severity matches .error)
      imports := theirs.toArray
      diagnostics := ← shown.mapM fun m => ofMessage input.fileMap m
      output? := if r.output.isEmpty then none else some r.output
      goals? }

initialize
  serve "$/beam/snippet" SnippetParams SnippetResult handleSnippet

end LeanBeam.Snippet

import LeanBeam.State
import Lean.Elab.Tactic.BuiltinTactic

/-!
# Running one tactic or one command

Owns the parsing and the execution of a probe's text in a given state, and the messages that come of it. Must never change anything
outside of the state it is given: states are values, and what a probe did is either in the state it hands back or nowhere.

1. The text is parsed as it is, with its own columns, under the scope of the state; it must be one phrase of the category and nothing else.
2. A tactic runs with error recovery off. If it throws, the state is the one before it; if it only logs an error, the state it reached.
3. A result without success always has an error message.
4. Only messages of this execution are reported: the log starts empty, also where the command of the basis left messages in its state.
5. Everything happens on the calling thread: `Elab.async` is off, so proofs of a probe cannot occupy Lean's thread pool (where a slow one
   would hold up the file and other probes), what they print is captured, and they are stopped by the one token. Tasks that a
   probe starts all the same are awaited, and cancelled with it.
6. Heartbeats start afresh, under the limit in force at the basis.

Capturing is per thread: `withIsolatedStreams` replaces the streams of the current thread only, and each probe has its own (see
`LeanBeam.Request`). What a task started by user code prints goes to the real standard output, as in Lean's own server.
-/

open Lean Elab Server

namespace LeanBeam

/-- What came of a text: the state to show and to go on from, and what was said. -/
structure Outcome (σ : Type) where
  state : σ
  success : Bool
  messages : Array ProbeMessage
  traces : Array String := #[]

private def errorMessage (text : String) : ProbeMessage :=
  { severity := "error", text }

/-- A text that was not executed. -/
private def Outcome.rejected (state : σ) (text : String) : Outcome σ :=
  { state, success := false, messages := #[errorMessage text] }

private def severityName : MessageSeverity → String
  | .information => "information"
  | .warning => "warning"
  | .error => "error"

private def ofMessages (log : Array Message) : BaseIO (Array ProbeMessage) :=
  log.filterMapM fun m => do
    if m.isSilent then
      return none
    return some { severity := severityName m.severity, text := ← m.data.toString }

private def ofTraces (traces : TraceState) : BaseIO (Array String) :=
  traces.traces.toArray.mapM fun t => t.msg.toString

private def ofOutput (output : String) : Array ProbeMessage :=
  let output := output.trimAscii.toString
  if output.isEmpty then #[] else #[{ severity := "information", text := output }]

/-! ## Parsing -/

private inductive Parsed where
  | phrase (stx : Syntax)
  | failed (message : String)
  /-- A phrase was found, but the text goes on behind it. -/
  | leftOver (message : String)

private def parse (category : Name) (text : Parser.InputContext) (scope : Parser.ParserModuleContext) : Parsed :=
  let s := (Compat.categoryFn category).run text scope (Parser.getTokenTable scope.env) (Parser.mkParserState text.inputString)
  if !s.allErrors.isEmpty then
    .failed (s.toErrorMsg text)
  else if text.atEnd s.pos then
    .phrase s.stxStack.back
  else
    .leftOver ((s.mkError "end of input").toErrorMsg text)

/-! ## Waiting for what a probe started -/

private abbrev Tasks := Array (Language.SnapshotTask Language.SnapshotTree)

/-- Messages of tasks, once they are finished. If the probe is stopped first the tasks are cancelled. -/
private def asyncMessages (tasks : Tasks) (stop : Stop) : BaseIO (Array ProbeMessage) := do
  if tasks.isEmpty then
    return #[]
  let tree : Language.SnapshotTree := { element := { desc := "", diagnostics := .empty }, children := tasks }
  match ← (stop.await (← tree.waitAll)).toBaseIO with
  | .ok () =>
    let logs := tree.getAll.map (Compat.unreported ·.diagnostics.msgLog)
    ofMessages (logs.foldl (· ++ ·) #[])
  | .error _ =>
    tasks.forM (·.cancelRec)
    return #[]

/-! ## Tactics -/

/-- Evaluates the tactic and returns the goals that are left and the names of the universe levels in scope. -/
private def evalOneTactic (s : ProofState) (stx : Syntax) : MetaM (List MVarId × List Name) := do
  let tactic : Tactic.TacticM Unit := do
    Tactic.evalTactic stx
    Term.synthesizeSyntheticMVarsNoPostponing
    Tactic.pruneSolvedGoals
  let term : TermElabM _ := tactic { elaborator := .anonymous, recover := false } |>.run { goals := s.goals }
  let (((), tac), term) ← term.run { declName? := s.declName? } { levelNames := s.levelNames }
  return (tac.goals, term.levelNames)

/-- The text for an exception. Lean's aborts carry none: their reason was logged, and is about to be rolled back. -/
private def exceptionText (ex : Exception) (logged : Array ProbeMessage) : BaseIO String := do
  match ex with
  | .internal id _ =>
    if isAbortExceptionId id then
      let reasons := logged.filter (·.severity == "error") |>.map (·.text)
      if reasons.isEmpty then
        return "the text was aborted by Lean without a message; it may have left unsolved goals or unassigned placeholders"
      else
        return "the text was aborted by Lean after:\n" ++ "\n".intercalate reasons.toList
    ex.toMessageData.toString
  | .error _ msg => msg.toString

/-- Runs one tactic on the goals of `s`. If the probe was stopped the outcome means nothing. -/
def runTactic (s : ProofState) (text : String) (stop : Stop) : EIO RequestError (Outcome ProofState) := do
  let input := Parser.mkInputContext text "<runAt>"
  let scope := { env := s.env, options := s.options, currNamespace := s.currNamespace, openDecls := s.openDecls }
  match parse `tactic input scope with
  | .failed message | .leftOver message => return .rejected s message
  | .phrase stx =>
    let s' := { s with options := Elab.async.set s.options false }
    let (output, r, core) ← IO.FS.withIsolatedStreams <| s'.run input.fileMap stop.token (evalOneTactic s stx)
    let logged ← ofMessages (Compat.unreported core.messages)
    let traces ← ofTraces core.traceState
    match r with
    | .ok ((goals, levelNames), metaState) =>
      let messages := logged ++ (← asyncMessages core.snapshotTasks stop) ++ ofOutput output
      let state := { s with
        goals, levelNames
        mctx := metaState.mctx
        env := core.env
        ngen := core.ngen
        auxDeclNGen := core.auxDeclNGen
        nextMacroScope := core.nextMacroScope }
      return { state, traces, messages, success := !messages.any (·.severity == "error") }
    | .error ex =>
      -- They belong to a state that is rolled back.
      core.snapshotTasks.forM (·.cancelRec)
      let messages := ofOutput output |>.push (errorMessage (← exceptionText ex logged))
      return { state := s, success := false, messages, traces }

/-! ## Commands -/

/-- The state to start a command from: everything but what belongs to the command before. -/
private def freshCommandState (s : Command.State) : Command.State :=
  let scopes := match s.scopes with
    | scope :: scopes => { scope with opts := Elab.async.set scope.opts false } :: scopes
    | [] => []
  { s with scopes, messages := {}, traceState := {}, snapshotTasks := #[], infoState := { enabled := true } }

private def oneCommandOnly (parserMessage : String) : String :=
  "runAtSupportsOneCommandOnly: the text must be one command; continue with a handle for the next one, or edit the file. " ++
  s!"The parser says: {parserMessage}"

/-- Whether the command will surely add declarations. These go through the kernel, behind those of the file. -/
private def addsDeclarations (stx : Syntax) : Bool :=
  (stx.find? fun stx =>
    stx.isOfKind ``Parser.Command.declaration || stx.isOfKind ``Parser.Command.mutual || stx.isOfKind ``Parser.Command.eval).isSome

/-- Runs one command in the state `s`. If the probe was stopped the outcome means nothing. -/
def runCommand (s : Command.State) (text : String) (stop : Stop) : EIO RequestError (Outcome Command.State) := do
  let input := Parser.mkInputContext text "<runAt>"
  let s := freshCommandState s
  let scope := s.scopes.headD { header := "" }
  let scope := { env := s.env, options := scope.opts, currNamespace := scope.currNamespace, openDecls := scope.openDecls }
  match parse `command input scope with
  | .failed message => return .rejected s message
  | .leftOver message => return .rejected s (oneCommandOnly message)
  | .phrase stx =>
    -- The elaborator would wait for slow proofs of the file too, but deaf to cancellation.
    if addsDeclarations stx then
      stop.await (Compat.kernelChecked s.env)
    let ctx : Command.Context := {
      fileName := "<runAt>", fileMap := input.fileMap, snap? := none, cancelTk? := some stop.token }
    let state ← IO.mkRef s
    let (output, r) ← IO.FS.withIsolatedStreams (Command.elabCommandTopLevel stx ctx state).toBaseIO
    let s' ← state.get
    let logged ← ofMessages (Compat.unreported s'.messages)
    let async ← asyncMessages s'.snapshotTasks stop
    let mut messages := logged ++ async ++ ofOutput output
    if let .error ex := r then
      messages := messages.push (errorMessage (← exceptionText ex logged))
    let traces ← ofTraces s'.traceState
    let s' := { s' with messages := {}, traceState := {}, snapshotTasks := #[], infoState := { enabled := true } }
    return { state := s', traces, messages, success := !messages.any (·.severity == "error") }

end LeanBeam

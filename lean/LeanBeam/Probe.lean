import LeanBeam.Caveats
import LeanBeam.Request
import LeanBeam.Wire
import Lean.Elab.Tactic.BuiltinTactic
import Lean.Server.FileWorker.RequestHandling
import Lean.Widget.InteractiveGoal

/-!
# Probes: the state a position stands for, and running a text in it

Owns the choice of the basis of a position, states as values, the execution of one tactic or one command in a state, the messages that
come of it, and goals as data. Must never change anything outside of the state it is given: what a probe did is either in the state
it hands back or nowhere. Must not re-derive what Lean decides: which tactic a position belongs to (Lean's search for goals at a
position), and what is shown of a goal (`goalToInteractive`: grouping, hidden hypotheses, daggers, let values, options).

1. Proof basis first: the first result of Lean's search. Otherwise the command basis: the state after the first command (the header
   counts as one) that ends at or behind the position. Both searches run in Lean's compiled code, over the snapshots in front
   of the position: the cost does not depend on what follows it.
2. The text is parsed as it is, with its own columns, under the scope of the state; it must be one phrase of the category and nothing else.
3. A tactic runs with error recovery off. If it throws, the state is the one before it; if it only logs an error, the state it reached.
4. A result without success always has an error message.
5. Only messages of this execution are reported: the log starts empty, also where the command of the basis left messages in its state.
6. Everything happens on the calling thread: `Elab.async` is off, so proofs of a probe cannot occupy Lean's thread pool (where a slow one
   would hold up the file and other probes), what they print is captured, and they are stopped by the one token. Tasks that a
   probe starts all the same are awaited, and cancelled with it.
7. A tactic does not wait for the kernel to check the proofs in front of it. The lemmas some tactics add (`omega`, for one) can be checked
   only behind those, so while they are not through, `Elab.async` is on and the check of these lemmas is left behind, as it is
   in Lean's own server. A command that adds declarations does wait.
8. Heartbeats start afresh, under the limit in force at the basis.

Capturing is per thread: `withIsolatedStreams` replaces the streams of the current thread only, and each probe has its own (see
`LeanBeam.Request`). What a task started by user code prints goes to the real standard output, as in Lean's own server.
-/

open Lean Elab Server FileWorker

namespace LeanBeam

/-! ## Proof states and goals -/

/-- The state of a proof: what a tactic needs to run as it would in the file. -/
structure ProofState where
  env : Environment
  options : Options
  currNamespace : Name
  openDecls : List OpenDecl
  declName? : Option Name
  levelNames : List Name
  mctx : MetavarContext
  goals : List MVarId
  ngen : NameGenerator
  auxDeclNGen : DeclNameGenerator
  nextMacroScope : MacroScope

/-- Runs `x` in the state `s` and gives back the final core state also if `x` throws. -/
def ProofState.run (s : ProofState) (text : FileMap) (cancelTk : IO.CancelToken) (x : MetaM α) :
    BaseIO (Except Exception (α × Meta.State) × Core.State) := do
  let ctx ← Compat.coreContext text s.options s.currNamespace s.openDecls cancelTk
  let core ← IO.mkRef {
    env := s.env
    ngen := s.ngen
    auxDeclNGen := s.auxDeclNGen
    nextMacroScope := s.nextMacroScope
    : Core.State }
  let x : CoreM _ := withOptions (fun _ => s.options) <| x.run Compat.metaContext { mctx := s.mctx }
  let r ← (x ctx core).toBaseIO
  return (r, ← core.get)

private def ofHyp (h : Widget.InteractiveHypothesisBundle) : Hyp :=
  { names := h.names, type := h.type.stripTags, value? := h.val?.map (·.stripTags) }

/-- A goal as Lean draws it. -/
def ofGoal (g : Widget.InteractiveGoal) : Goal :=
  { userName? := g.userName?
    goalPrefix := g.goalPrefix
    target := g.type.stripTags
    hyps := g.hyps.map ofHyp }

/-- Renders the goals in the present metavariable context. -/
def renderGoals (goals : List MVarId) : MetaM Goals := do
  let goals ← goals.mapM fun g => return ofGoal (← Widget.goalToInteractive g)
  return { goals := goals.toArray }

/-- The goals of a state, for display. -/
def ProofState.render (s : ProofState) (stop : Stop) : EIO RequestError Goals := do
  if s.goals.isEmpty then
    return { goals := #[] }
  let (r, _) ← s.run default stop.token (renderGoals s.goals)
  match r with
  | .ok (goals, _) => return goals
  | .error ex =>
    stop.check
    throw { code := .internalError, message := s!"the goals cannot be shown: {← ex.toMessageData.toString}" }

/-! ## The basis of a position -/

inductive Basis where
  | proof (state : ProofState)
  | command (state : Command.State)

/-- Universe levels a text may name. The info tree does not keep the names in scope, so they are read off the goals. -/
private def levelNames (mctx : MetavarContext) (goals : List MVarId) : List Name :=
  let s := goals.foldl (init := {}) fun s goal =>
    match mctx.findDecl? goal with
    | none => s
    | some decl => decl.lctx.foldl (init := collectLevelParams s decl.type) fun s hyp => collectLevelParams s hyp.type
  s.params.toList

/-- The state before or after a tactic. -/
def proofStateOf (ctx : ContextInfo) (info : TacticInfo) (useAfter : Bool) : ProofState :=
  let mctx := if useAfter then info.mctxAfter else info.mctxBefore
  let goals := if useAfter then info.goalsAfter else info.goalsBefore
  -- The trees of single tactics, which the search prefers, are not below the node that names the declaration.
  let declName? := ctx.parentDecl? <|> Compat.bodyOf? ctx.env
  {
    -- As Lean's own server does for info trees: inside `module` files too, everything is visible.
    env := ctx.env.setExporting false
    options := ctx.options
    currNamespace := ctx.currNamespace
    openDecls := ctx.openDecls
    levelNames := levelNames mctx goals
    declName?, mctx, goals
    ngen := ctx.ngen
    auxDeclNGen := .ofPrefix (declName?.getD .anonymous)
    nextMacroScope := firstFrontendMacroScope + 1
  }

/-- The innermost tactic at the position, by Lean's rules. -/
def findTactic? (doc : EditableDocument) (pos : String.Pos.Raw) (stop : Stop) : EIO RequestError (Option GoalsAtResult) := do
  return (← stop.await (Compat.goalsAt doc pos)).bind (·.head?)

/-- The basis of a position, or `none` where the file has no state (a broken header). -/
def findBasis? (doc : EditableDocument) (pos : String.Pos.Raw) (stop : Stop) : EIO RequestError (Option Basis) := do
  if let some result ← findTactic? doc pos stop then
    return some <| .proof (proofStateOf result.ctxInfo result.tacticInfo result.useAfter)
  match ← stop.await (Compat.findCommand doc (·.endPos ≥ pos)) with
  | .ok (some snap) => return some <| .command snap.cmdState
  | .ok none => return none
  | .error e => throw { code := .internalError, message := toString e }

/-! ## Outcomes -/

/-- What came of a text: the state to show and to go on from, and what was said. -/
structure Outcome (σ : Type) where
  state : σ
  success : Bool
  messages : Array ProbeMessage
  traces : Array String := #[]
  caveats? : Option (Array String) := none
  /-- Checks left behind (7 above); of use only if the state is kept. -/
  background : Array (Language.SnapshotTask Language.SnapshotTree) := #[]

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

/-- Under the namespaces and opened names of the text, as Lean logs it. Exceptions and traces come without them. -/
private def named (scope : NamingContext) (msg : MessageData) : BaseIO String :=
  (MessageData.withNamingContext scope msg).toString

private def ofTraces (scope : NamingContext) (traces : TraceState) : BaseIO (Array String) :=
  traces.traces.toArray.mapM fun t => named scope t.msg

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
private def exceptionText (scope : NamingContext) (ex : Exception) (logged : Array ProbeMessage) : BaseIO String := do
  match ex with
  | .internal id _ =>
    if isAbortExceptionId id then
      let reasons := logged.filter (·.severity == "error") |>.map (·.text)
      if reasons.isEmpty then
        return "the text was aborted by Lean without a message; it may have left unsolved goals or unassigned placeholders"
      else
        return "the text was aborted by Lean after:\n" ++ "\n".intercalate reasons.toList
    named scope ex.toMessageData
  | .error _ msg => named scope msg

/-- The judgement on a tactic that succeeded: the state with the goals it lost, the caveats, and the kernel's objection. -/
private def judgeTactic (before after : ProofState) (kernel : Bool) (scope : NamingContext) (stop : Stop) :
    BaseIO (ProofState × Option (Array String) × Option ProbeMessage) := do
  let side (s : ProofState) : ProofSide := { env := s.env, mctx := s.mctx, goals := s.goals }
  let verdict := judgeStep (side before) (side after)
  let state := { after with goals := after.goals ++ verdict.dropped }
  if !kernel then
    return (state, verdict.caveats.toWire?, none)
  let (r, _) ← after.run default stop.token (kernelObjection? (side before) (side after))
  let objection? ← match r with
    | .ok (none, _) => pure none
    | .ok (some objection, _) => some <$> named scope objection
    | .error ex => some <$> named scope ex.toMessageData
  return (state, verdict.caveats.toWire?, objection?.map errorMessage)

/-- Runs one tactic on the goals of `s`. With `kernel`, the kernel checks what it proved. If the probe was stopped the outcome
means nothing. -/
def runTactic (s : ProofState) (text : String) (kernel : Bool) (stop : Stop) : EIO RequestError (Outcome ProofState) := do
  let input := Parser.mkInputContext text "<runAt>"
  let scope := { env := s.env, options := s.options, currNamespace := s.currNamespace, openDecls := s.openDecls }
  let naming : NamingContext := { currNamespace := s.currNamespace, openDecls := s.openDecls }
  match parse `tactic input scope with
  | .failed message | .leftOver message => return .rejected s message
  | .phrase stx =>
    if kernel then
      -- Its own check is behind that of everything before.
      stop.await (Compat.kernelChecked s.env)
    let settled ← IO.hasFinished (Compat.kernelChecked s.env)
    let s' := { s with options := Elab.async.set s.options !settled }
    let (output, r, core) ← IO.FS.withIsolatedStreams <| s'.run input.fileMap stop.token (evalOneTactic s stx)
    let logged ← ofMessages (Compat.unreported core.messages)
    let traces ← ofTraces naming core.traceState
    match r with
    | .ok ((goals, levelNames), metaState) =>
      let (background, tasks) := if settled then (#[], core.snapshotTasks) else core.snapshotTasks.partition Compat.isKernelCheck
      let messages := logged ++ (← asyncMessages tasks stop) ++ ofOutput output
      let state := { s with
        goals, levelNames
        mctx := metaState.mctx
        env := core.env
        ngen := core.ngen
        auxDeclNGen := core.auxDeclNGen
        nextMacroScope := core.nextMacroScope }
      if messages.any (·.severity == "error") then
        return { state, traces, messages, background, success := false }
      stop.check
      match ← judgeTactic s state kernel naming stop with
      | (_, _, some objection) =>
        return { state := s, traces, messages := messages.push objection, background, success := false }
      | (state, caveats?, none) => return { state, traces, messages, background, caveats?, success := true }
    | .error ex =>
      -- They belong to a state that is rolled back.
      core.snapshotTasks.forM (·.cancelRec)
      let messages := ofOutput output |>.push (errorMessage (← exceptionText naming ex logged))
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

/-- Commands that add no declaration, so that the proofs in front of them need not be waited for. -/
private def addsNothing (stx : Syntax) : Bool :=
  [``Parser.Command.check, ``Parser.Command.check_failure, ``Parser.Command.print, ``Parser.Command.printSig, ``Parser.Command.printAxioms,
    ``Parser.Command.printEqns, ``Parser.Command.synth, ``Parser.Command.where, ``Parser.Command.open,
    ``Parser.Command.namespace, ``Parser.Command.section, ``Parser.Command.end, ``Parser.Command.variable, ``Parser.Command.universe,
    ``Parser.Command.set_option, ``Parser.Command.export, ``Parser.Command.exit].contains stx.getKind

/-- Runs one command in the state `s`. If the probe was stopped the outcome means nothing. -/
def runCommand (s : Command.State) (text : String) (stop : Stop) : EIO RequestError (Outcome Command.State) := do
  let input := Parser.mkInputContext text "<runAt>"
  let s := freshCommandState s
  let scope := s.scopes.headD { header := "" }
  let naming : NamingContext := { currNamespace := scope.currNamespace, openDecls := scope.openDecls }
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
      messages := messages.push (errorMessage (← exceptionText naming ex logged))
    let traces ← ofTraces naming s'.traceState
    let success := !messages.any (·.severity == "error")
    let mut caveats? := none
    if success && !addsNothing stx then
      -- What its own tasks had to say is in `messages`, so this waits for nothing but proofs in front of it.
      stop.await (Compat.kernelChecked s'.env)
      let trees ← stop.await (s'.infoState.substituteLazy)
      caveats? := (judgeCommand stx s.env s'.env trees.trees).toWire?
    let s' := { s' with messages := {}, traceState := {}, snapshotTasks := #[], infoState := { enabled := true } }
    return { state := s', traces, messages, caveats?, success }

end LeanBeam

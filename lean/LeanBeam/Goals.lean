import LeanBeam.Probe

/-!
# How goals are shown, and `$/beam/goals`

Owns the choice of what an answer says about a proof state: its form (`goals`), and whether it is all of it or what differs from the state
before (`state`). Must not re-derive how Lean draws a goal: every text comes from `goalToInteractive`, also where hypotheses are
left out. Those are then marked as implementation details of a copy of the goal, so that they are not drawn but still take part in
the choice of names and daggers.

1. Drawing is nearly all of what a cheap probe costs, and it is Lean's own compiled delaborator that it goes to: 0.1 ms for each operator
   on the embedded Lean, 0.5 ms for a hypothesis such as `a + 1 < b * 2`. So what is not asked for is not drawn (`none`, `count`,
   the hypotheses of `targets`, an unchanged state, unchanged hypotheses), and the state in front of a probe is drawn once for all
   candidates that leave it as it was.
2. What is compared are the instantiated terms, with the names of hypotheses as they are drawn: a hypothesis that has got a dagger
   differs. A hypothesis that a tactic has taken out and put back is the same, whatever its internal name.
3. A goal is compared with itself if it was there before, else with the first goal before, which is the one a tactic works on.
-/

open Lean Elab Server FileWorker

namespace LeanBeam

/-! ## What is wanted -/

inductive Form where
  | json | text | targets | count | none
  deriving BEq

/-- What an answer is to say about a state. -/
structure Wanted where
  form : Form := .json
  /-- Only what differs from the state before. -/
  changed : Bool := false

/-- Reads the two options of a request; absent means all of the state, as JSON. -/
def Wanted.parse (goals? state? : Option String) : Except RequestError Wanted := do
  let form ← match goals?.getD "json" with
    | "json" => pure .json
    | "text" => pure .text
    | "targets" => pure .targets
    | "count" => pure .count
    | "none" => pure .none
    | other => throw <| invalidParams s!"unknown form of goals '{other}'; the forms are json, text, targets, count, none"
  let changed ← match state?.getD "full" with
    | "full" => pure false
    | "changed" => pure true
    | other => throw <| invalidParams s!"unknown value '{other}' of `state`; it is full or changed"
  return { form, changed }

/-! ## Comparing -/

/-- How one goal differs from another. -/
private structure Difference where
  /-- Hypotheses, of those that are drawn, that are as before. -/
  same : Array FVarId := #[]
  /-- How many are not. -/
  others : Nat := 0
  /-- Names that are there no more. -/
  removed : Array String := #[]
  sameTarget : Bool := false

private def Difference.none (d : Difference) : Bool := d.others == 0 && d.removed.isEmpty && d.sameTarget

private def instantiateIn (mctx : MetavarContext) (e : Expr) : Expr :=
  if e.hasMVar then (instantiateMVarsCore mctx e).1 else e

private def asDrawn (options : Options) (lctx : LocalContext) : LocalContext :=
  (lctx.sanitizeNames { options }).1

private def isHidden (decl : LocalDecl) : Bool := decl.isImplementationDetail || decl.isAuxDecl

private def differenceOf (before after : ProofState) (old new : MVarId) : Option Difference := do
  let oldDecl ← before.mctx.findDecl? old
  let newDecl ← after.mctx.findDecl? new
  let mut byName : Std.HashMap Name LocalDecl := {}
  for decl in asDrawn before.options oldDecl.lctx do
    unless isHidden decl do
      byName := byName.insert decl.userName decl
  let mut d : Difference := {}
  -- What was taken out and put back has another internal name.
  let mut news := #[]
  let mut olds := #[]
  for decl in asDrawn after.options newDecl.lctx do
    if isHidden decl then
      continue
    let some was := byName[decl.userName]?
      | d := { d with others := d.others + 1 }
        continue
    byName := byName.erase decl.userName
    let now (e : Expr) : Expr := (instantiateIn after.mctx e).replaceFVars news olds
    let asBefore (e was : Expr) : Bool := (now e).equal (instantiateIn before.mctx was)
    let sameValue := match decl.value? (allowNondep := true), was.value? (allowNondep := true) with
      | some e, some was => asBefore e was
      | .none, .none => true
      | _, _ => false
    if sameValue && asBefore decl.type was.type then
      d := { d with same := d.same.push decl.fvarId }
      unless decl.fvarId == was.fvarId do
        news := news.push decl.toExpr
        olds := olds.push was.toExpr
    else
      d := { d with others := d.others + 1 }
  let target := (instantiateIn after.mctx newDecl.type).replaceFVars news olds
  return { d with
    removed := (byName.toArray.map (toString ·.1)).qsort (· < ·)
    sameTarget := oldDecl.userName == newDecl.userName && target.equal (instantiateIn before.mctx oldDecl.type) }

private def unsafeSame (a b : MetavarContext) : Bool := unsafe ptrAddrUnsafe a == ptrAddrUnsafe b

/-- Whether nothing has been assigned or added between two states, as after a tactic that failed. -/
private def untouched (before after : ProofState) : Bool :=
  before.goals == after.goals && unsafeSame before.mctx after.mctx

/-- Whether two states look the same. -/
def unchanged (before after : ProofState) (stop : Stop) : EIO RequestError Bool := do
  if untouched before after then
    return true
  unless before.goals.length == after.goals.length do
    return false
  for (old, new) in before.goals.zip after.goals do
    stop.check
    unless (differenceOf before after old new).any (·.none) do
      return false
  return true

/-! ## Drawing -/

/-- A copy of the goal in which some hypotheses are not drawn. -/
private def copyWithout (goal : MVarId) (hidden : Array FVarId) : MetaM MVarId := do
  let decl ← goal.getDecl
  let lctx := hidden.foldl (fun lctx fvarId => lctx.setKind fvarId .implDetail) decl.lctx
  let copy ← Meta.mkFreshExprMVarAt lctx decl.localInstances decl.type .syntheticOpaque decl.userName
  return copy.mvarId!

private def drawHiding (goal : MVarId) (hidden : Array FVarId) : MetaM Widget.InteractiveGoal :=
  if hidden.isEmpty then
    Widget.goalToInteractive goal
  else
    withOptions (fun o => o.setBool `pp.implementationDetailHyps false) do
      Widget.goalToInteractive (← copyWithout goal hidden)

private def drawTarget (goal : MVarId) : MetaM String := do
  let hidden := (← goal.getDecl).lctx.foldl (init := #[]) fun all decl => all.push decl.fvarId
  let g ← drawHiding goal hidden
  return g.goalPrefix ++ g.type.stripTags

/-- The goals, each without some of its hypotheses. -/
private def draw (form : Form) (goals : Array (MVarId × Array FVarId)) : MetaM GoalsView := do
  match form with
  | .none => return {}
  | .count => return { count? := goals.size }
  | .targets => return { targets? := ← goals.mapM (drawTarget ·.1) }
  | .text => return { text? := ← goals.mapM fun (g, hidden) => return (← drawHiding g hidden).pretty.pretty }
  | .json => return { goals? := ← goals.mapM fun (g, hidden) => return ofGoal (← drawHiding g hidden) }

private def runDrawing (s : ProofState) (stop : Stop) (x : MetaM α) : EIO RequestError α := do
  let (r, _) ← s.run default stop.token x
  match r with
  | .ok (a, _) => return a
  | .error ex =>
    stop.check
    throw { code := .internalError, message := s!"the goals cannot be shown: {← ex.toMessageData.toString}" }

/-- All of a state. -/
def ProofState.view (s : ProofState) (form : Form) (stop : Stop) : EIO RequestError GoalsView :=
  runDrawing s stop <| draw form (s.goals.toArray.map (·, #[]))

/-- What of a state is new or differs. -/
private def ProofState.viewChanged (before after : ProofState) (form : Form) (stop : Stop) : EIO RequestError GoalsView := do
  let mut goals := #[]
  let mut unchangedHyps := #[]
  let mut removedHyps := #[]
  for goal in after.goals do
    stop.check
    let old? := if before.goals.contains goal then some goal else before.goals.head?
    let d := (old?.bind (differenceOf before after · goal)).getD {}
    goals := goals.push (goal, d.same)
    unchangedHyps := unchangedHyps.push d.same.size
    removedHyps := removedHyps.push d.removed
  let view ← runDrawing after stop <| draw form goals
  if form matches .json | .text then
    return { view with
      unchangedHyps? := some unchangedHyps
      removedHyps? := if removedHyps.all (·.isEmpty) then none else some removedHyps }
  return view

/-! ## The state in front of many candidates -/

/-- Drawings of states that probes start from, newest first. A key names a version and a position, or a handle, and so one state for the
life of the process; an old version's are pushed out by use. -/
initialize drawings : IO.Ref (List (String × Form × GoalsView)) ← IO.mkRef []

private def maxDrawings : Nat := 8

private def remember (key : String) (form : Form) (view : GoalsView) : BaseIO Unit :=
  drawings.modify fun all => (key, form, view) :: (all.filter fun (k, f, _) => k != key || f != form).take (maxDrawings - 1)

/-- What the answer to a probe says about the state it reached, and whether that is as before (if this was asked). `key` names the
state before. -/
def showState (wanted : Wanted) (key : String) (before after : ProofState) (stop : Stop) :
    EIO RequestError (Option GoalsView × Option Bool) := do
  if wanted.changed then
    if ← unchanged before after stop then
      return (none, some true)
    if wanted.form matches .none then
      return (none, some false)
    return (some (← before.viewChanged after wanted.form stop), some false)
  match wanted.form with
  | .none => return (none, none)
  | .count | .targets => return (some (← after.view wanted.form stop), none)
  | .json | .text =>
    unless untouched before after do
      return (some (← after.view wanted.form stop), none)
    if let some (_, _, view) := (← drawings.get).find? fun (k, f, _) => k == key && f == wanted.form then
      return (some view, none)
    let view ← after.view wanted.form stop
    remember key wanted.form view
    return (some view, none)

/-- What was drawn of the state behind a new handle serves the probes from there. -/
def rememberFor (handle : HandleRef) (wanted : Wanted) (view? : Option GoalsView) : BaseIO Unit := do
  if let some view := view? then
    if !wanted.changed && (wanted.form matches .json | .text) then
      remember handle.value wanted.form view

/-! ## `$/beam/goals` -/

/-- The expected type and the local context of the term at the position, as Lean's own "expected type" has it. -/
def expectedTypeIn? (trees : PersistentArray InfoTree) (pos : String.Pos.Raw) (form : Form) (stop : Stop) :
    EIO RequestError (Option GoalsView) := do
  for tree in trees do
    stop.check
    let some { ctx, info := info@(.ofTermInfo term), .. } := tree.termGoalAt? pos | continue
    let state : ProofState := {
      env := ctx.env.setExporting false
      options := ctx.options
      currNamespace := ctx.currNamespace
      openDecls := ctx.openDecls
      declName? := ctx.parentDecl?
      levelNames := []
      mctx := ctx.mctx
      goals := []
      ngen := ctx.ngen
      auxDeclNGen := .ofPrefix (ctx.parentDecl?.getD .anonymous)
      nextMacroScope := firstFrontendMacroScope + 1 }
    -- A binder is no part of its own context.
    let lctx := if term.isBinder then info.lctx.pop else info.lctx
    return some <| ← runDrawing state stop do
      let type ← Meta.withLCtx info.lctx {} do
        match term.expectedType? with
        | some type => instantiateMVars type
        | none => instantiateMVars (← Meta.inferType term.expr)
      let goal ← Meta.mkFreshExprMVarAt lctx {} type .syntheticOpaque
      draw form #[(goal.mvarId!, #[])]
  return none

private def expectedType? (doc : EditableDocument) (pos : String.Pos.Raw) (form : Form) (stop : Stop) :
    EIO RequestError (Option GoalsView) := do
  let .ok (some command) ← stop.await (Compat.findCommand doc (·.endPos ≥ pos)) | return none
  expectedTypeIn? (← stop.await (Compat.infoTrees command)) pos form stop

/-- The states around a tactic. -/
def goalsAround (result : GoalsAtResult) (mode : String) (wanted : Wanted) (stop : Stop) : EIO RequestError GoalsAround := do
  let before := proofStateOf result.ctxInfo result.tacticInfo (useAfter := false)
  let after := proofStateOf result.ctxInfo result.tacticInfo (useAfter := true)
  let mut answer : GoalsAround := {}
  unless mode == "after" do
    answer := { answer with before? := some (← before.view wanted.form stop) }
  unless mode == "before" do
    let changed := wanted.changed && mode == "both"
    if changed && (← unchanged before after stop) then
      answer := { answer with stateUnchanged? := some true }
    else if changed then
      answer := { answer with after? := some (← before.viewChanged after wanted.form stop) }
    else
      answer := { answer with after? := some (← after.view wanted.form stop) }
  return answer

private def handleGoalsAround (p : GoalsAroundParams) : RequestM (RequestTask GoalsAround) := do
  let doc ← checkDocument p.textDocument.uri p.textDocument.version?
  let pos ← EIO.ofExcept (checkPosition doc.meta.text p.position)
  let wanted ← EIO.ofExcept (Wanted.parse p.goals? p.state?)
  let mode := p.mode?.getD "both"
  unless ["before", "after", "both"].contains mode do
    throw <| invalidParams s!"unknown mode '{mode}'; it is before, after or both"
  onOwnThread fun stop => do
    let some result ← findTactic? doc pos stop
      | let some view ← expectedType? doc pos wanted.form stop
          | throw <| invalidParams "there are no goals and no term at this position"
        return { expectedType? := some view }
    goalsAround result mode wanted stop

initialize
  serve "$/beam/goals" GoalsAroundParams GoalsAround handleGoalsAround

end LeanBeam

import LeanBeam.Compat

/-!
# What a success does not say: `caveats`, and the kernel's word

Owns the question whether a proof, or a new declaration, that elaborated without an error would also stand in the file. Lean's messages do not
answer it at the moment of a probe: `sorry` is warned of when the declaration is added, termination is checked behind the
body, and the kernel comes last of all. Must never read a message or the text; everything is found in terms.

1. What the text did is what it assigned: the metavariables that were open in front of it and that its goals mention, with everything behind
   them, delayed assignments and lemmas that the text has added included.
2. What was there before does not count. A `sorry` of the statement, or of a hypothesis, comes into the new term with the types. Lean
   numbers each `sorry` it elaborates, so a new one differs from all that were there.
3. `sorry`: a new `sorryAx`. `recursion`: a variable that stands for a declaration that is being elaborated. `unsafe`: a
   constant that the kernel refuses in a safe declaration, which are those marked `unsafe` (the compiler's `lcProof` among them) or `partial`.
4. A goal that vanished from the list without a proof, and a metavariable that the text has made and left behind with no goal
   open, are goals all the same: Lean would find them at the end of the declaration.

Speed: each probe passes here. The walks over terms are Lean's compiled ones, and only lists of names and metavariables are looked at
one by one.
-/

open Lean Meta Elab

namespace LeanBeam

structure Caveats where
  sorries : Bool := false
  recursion : Bool := false
  refused : Bool := false

namespace Caveats

def or (a b : Caveats) : Caveats :=
  { sorries := a.sorries || b.sorries, recursion := a.recursion || b.recursion, refused := a.refused || b.refused }

/-- As they stand in an answer; `none` if there are none. -/
def toWire? (c : Caveats) : Option (Array String) :=
  let all := (if c.sorries then #["sorry"] else #[]) ++ (if c.recursion then #["recursion"] else #[]) ++
    (if c.refused then #["unsafe"] else #[])
  if all.isEmpty then none else some all

end Caveats

/-! ## Sorries in terms -/

/-- What tells one `sorry` from another: Lean's number, where it gave one. -/
private def sorryKey (e : Expr) : Expr :=
  match e.getAppArgs[2]? with
  | some label => if label.isAppOf ``Name.num || label.isAppOf ``Function.const then label else e
  | none => e

private def collectSorries {ω : Type} (e : Expr) : StateT (Array Expr) (ST ω) Unit :=
  e.forEachWhere (stopWhenVisited := true) (·.isAppOf ``sorryAx) fun e => modify (·.push e)

/-- Every application of `sorryAx` in a term, each with all of its arguments. -/
def sorriesIn (e : Expr) : Array Expr :=
  if e.hasSorry then runST fun _ => Prod.snd <$> (collectSorries e).run #[] else #[]

private def instantiateIn (mctx : MetavarContext) (e : Expr) : Expr :=
  if e.hasExprMVar then (instantiateMVarsCore mctx e).1 else e

/-- The types and values that a goal shows. -/
private def foldContext (mctx : MetavarContext) (goal : MVarId) (init : σ) (f : σ → Expr → σ) : σ :=
  match mctx.findDecl? goal with
  | none => init
  | some decl => decl.lctx.foldl (init := f init decl.type) fun s hyp =>
    let s := f s hyp.type
    match hyp.value? (allowNondep := true) with
    | some value => f s value
    | none => s

/-- The sorries that the goals show. -/
private def sorriesShown (mctx : MetavarContext) (goals : List MVarId) : Array Expr :=
  goals.foldl (init := #[]) fun found goal =>
    foldContext mctx goal found fun found e => found ++ (sorriesIn (instantiateIn mctx e)).map sorryKey

/-! ## Sorries of the text -/

/-- A `sorry` that was elaborated: the text it came from, a macro's use included, and the declaration it stands in. -/
structure WrittenSorry where
  range : Lean.Syntax.Range
  declName? : Option Name
  /-- Its type can be had from here, where it is a term. -/
  term? : Option (ContextInfo × TermInfo) := none

private def writtenHere (info : Info) : Bool :=
  match info with
  | .ofTermInfo term => !term.isBinder && term.expr.isNonSyntheticSorry
  -- A `by` or a bullet has an entry of its own, which stands for all of its proof.
  | .ofTacticInfo tactic => !tactic.stx.isAtom && !tactic.stx.isOfKind ``Lean.cdotTk && tactic.goalsBefore.any fun goal =>
    match tactic.mctxAfter.eAssignment.find? goal with
    | some value => value.hasNonSyntheticSorry
    | none => false
  | _ => false

/-- The sorries that info trees know of, the innermost piece of text for each. Those that stand for an error are not counted. -/
def sorriesInTrees (trees : PersistentArray InfoTree) : Array WrittenSorry := Id.run do
  let mut found : Array WrittenSorry := #[]
  for tree in trees do
    found := tree.foldInfo (init := found) fun ctx info found =>
      if writtenHere info then
        match info.stx.getRange? with
        | some range =>
          -- A tactic comes before the terms it consists of.
          if found.any (·.range == range) then found
          else found.push { range, declName? := ctx.parentDecl?, term? := if let .ofTermInfo term := info then some (ctx, term) else none }
        | none => found
      else found
  let contains (outer inner : Lean.Syntax.Range) : Bool := outer.start ≤ inner.start && inner.stop ≤ outer.stop && outer != inner
  return found.filter fun a => !found.any fun b => contains a.range b.range

/-- Whether a command may elaborate something that leaves no constant behind. Of Lean's own commands that is `example`; what a command of
the user's does is not known. -/
private partial def mayLeaveNothing (stx : Syntax) : Bool :=
  if stx.isOfKind ``Parser.Command.declaration then stx[1].isOfKind ``Parser.Command.example
  else if stx.isOfKind ``Parser.Command.in then mayLeaveNothing stx[2]
  else if stx.isOfKind ``Parser.Command.mutual then stx[1].getArgs.any mayLeaveNothing
  else !(`Lean.Parser).isPrefixOf stx.getKind

/-- Where the sorries of a constant are: at the places that Lean wrote into them, or else somewhere in its declaration. -/
private def placesOf (text : FileMap) (env : Environment) (info : ConstantInfo) (sorries : Array Expr) : Array String.Pos.Raw := Id.run do
  let labelled := sorries.filterMap fun e => do
    let place ← (← isLabeledSorry? (mkAppN e.getAppFn (e.getAppArgs.extract 0 3))).module?
    guard <| place.module == env.mainModule
    return text.ofPosition place.range.pos
  if labelled.size == sorries.size then
    return labelled
  let mut name := info.name
  while !name.isAnonymous do
    if let some ranges := declRangeExt.find? (level := .server) env name then
      return labelled.push (text.ofPosition ranges.range.pos)
    name := name.getPrefix
  return labelled

/-- The sorries of a finished text, whatever its messages say: in order, and each once. The constants tell which commands to look at,
so the cost of a text without any is that of Lean's own search in its declarations. Waits for nothing if `env` has passed the kernel. -/
def writtenSorries (text : FileMap) (env : Environment) (commands : List Server.Snapshots.Snapshot)
    (treesOf : Server.Snapshots.Snapshot → BaseIO (PersistentArray InfoTree)) : BaseIO (Array WrittenSorry) := do
  let guilty := env.constants.map₂.foldl (init := #[]) fun all _ info =>
    let has (e : Expr) : Bool := e.hasNonSyntheticSorry
    if has info.type || (info.value? (allowOpaque := true)).any has then all.push info else all
  let places := guilty.map fun info =>
    let sorries := (sorriesIn info.type ++ ((info.value? (allowOpaque := true)).map sorriesIn).getD #[]).filter (·.isNonSyntheticSorry)
    (info.name, placesOf text env info sorries)
  let mut found : Array WrittenSorry := #[]
  let mut start : String.Pos.Raw := 0
  for command in commands do
    let inside := places.filter (·.2.any fun pos => start ≤ pos && pos < command.endPos)
    if !inside.isEmpty || mayLeaveNothing command.stx then
      let here := sorriesInTrees (← treesOf command)
      found := found ++ here
      -- A term without a trace in the text: it is known at least which declaration it belongs to.
      if here.isEmpty then
        if let some range := command.stx.getRange? then
          found := found ++ (inside.extract 0 1).map fun (name, _) => { range, declName? := some name }
    start := command.endPos
  return found.qsort fun a b => a.range.start < b.range.start

/-! ## What a text assigned -/

/-- A metavariable and what it stands for now. -/
private structure Assigned where
  mvarId : MVarId
  value : Expr

private structure Walk where
  seen : Std.HashSet MVarId := {}
  assigned : Array Assigned := #[]
  /-- Metavariables that stand for nothing. -/
  left : Array MVarId := #[]

/-- Everything behind a metavariable. Where a part of a delayed assignment is still open, Lean's own instantiation stops in front
of it, so the rest is looked up here. -/
private partial def follow (mctx : MetavarContext) (mvarId : MVarId) (w : Walk) : Walk := Id.run do
  if w.seen.contains mvarId then
    return w
  let mut w := { w with seen := w.seen.insert mvarId }
  match mctx.dAssignment.find? mvarId with
  | some delayed => return follow mctx delayed.mvarIdPending w
  | none => pure ()
  match mctx.eAssignment.find? mvarId with
  | none => return { w with left := w.left.push mvarId }
  | some value =>
    let value := (instantiateMVarsCore mctx value).1
    w := { w with assigned := w.assigned.push { mvarId, value } }
    if value.hasExprMVar then
      for next in (value.collectMVars {}).result do
        w := follow mctx next w
    return w

/-- What is open in front of a text: its goals, and the metavariables they mention. -/
private def roots (mctx : MetavarContext) (goals : List MVarId) : Array MVarId :=
  let mentioned := goals.foldl (init := ({} : CollectMVars.State)) fun s goal =>
    foldContext mctx goal s fun s e => if e.hasExprMVar then (instantiateIn mctx e).collectMVars s else s
  goals.toArray ++ mentioned.result

private def assignedBetween (before after : MetavarContext) (goals : List MVarId) : Walk :=
  (roots before goals).foldl (fun w mvarId => follow after mvarId w) {}

/-! ## Constants -/

/-- Whether a constant that is in the environment may not be used by a safe declaration. -/
private def isRefused (env : Environment) (name : Name) : Bool :=
  match env.findAsync? name with
  -- A theorem is always safe, and its proof, for which one would have to wait, does not matter.
  | some c => c.kind matches .axiom | .defn | .opaque && (c.isUnsafe || c.kind matches .defn && c.constInfo.get.isPartial)
  | none => false

private structure Terms where
  caveats : Caveats := {}
  seen : NameSet := {}

/-- Looks at a term, and through the constants that are not in `before`. `old` holds the keys of sorries that do not count. -/
private partial def lookAt (before after : Environment) (old : Unit → Array Expr) (e : Expr) (t : Terms) : Terms := Id.run do
  let mut t := t
  for name in e.getUsedConstants do
    if name == ``sorryAx then
      unless t.caveats.sorries do
        let old := old ()
        if (sorriesIn e).any fun s => !old.contains (sorryKey s) then
          t := { t with caveats.sorries := true }
    else if !t.seen.contains name then
      t := { t with seen := t.seen.insert name }
      if isRefused after name then
        t := { t with caveats.refused := true }
      if (before.findAsync? name).isNone then
        if let some info := after.find? name then
          t := lookAt before after old info.type t
          if let some value := info.value? (allowOpaque := true) then
            t := lookAt before after old value t
  return t

/-! ## Tactics -/

/-- A proof state in as far as it matters here. -/
structure ProofSide where
  env : Environment
  mctx : MetavarContext
  goals : List MVarId

/-- What came of a tactic that succeeded. -/
structure Verdict where
  caveats : Caveats
  /-- Goals that are neither proved nor in the list. -/
  dropped : List MVarId

private def usesItself (mctx : MetavarContext) (a : Assigned) : Bool :=
  a.value.hasFVar && match mctx.findDecl? a.mvarId with
    | none => false
    | some decl => (collectFVars {} a.value).fvarIds.any fun fvarId =>
      (decl.lctx.find? fvarId).any (·.isAuxDecl)

/-- Judges the step from one state to another. -/
def judgeStep (before after : ProofSide) : Verdict :=
  let w := assignedBetween before.mctx after.mctx before.goals
  let old := Thunk.mk fun _ => sorriesShown before.mctx before.goals
  let terms := w.assigned.foldl (init := ({} : Terms)) fun t a => lookAt before.env after.env (fun _ => old.get) a.value t
  let recursion := w.assigned.any (usesItself after.mctx ·)
  let dropped :=
    if !after.goals.isEmpty then []
    else w.left.toList.filter fun mvarId => before.goals.contains mvarId || (before.mctx.findDecl? mvarId).isNone
  { caveats := { terms.caveats with recursion }, dropped }

/-! ## Commands -/

/-- Whether a declaration in the syntax is marked `unsafe` or `partial`, for those that leave no constant behind. -/
private def isMarked (stx : Syntax) (kind : Name) : Bool := (stx.find? (·.isOfKind kind)).isSome

/-- Judges a command that succeeded: what it added, and what it elaborated without adding it (`example`). Both environments have
passed the kernel. -/
def judgeCommand (stx : Syntax) (before after : Environment) (trees : PersistentArray InfoTree) : Caveats := Id.run do
  let added := after.constants.map₂.foldl (init := #[]) fun all name info =>
    if (before.findAsync? name).isNone then all.push info else all
  -- For code, Lean keeps a copy of every recursive function that nothing else refers to. An opaque one with a copy is a `partial` one.
  let copies := added.filter (·.isPartial)
  let mut t : Terms := {}
  let mut recursion := isMarked stx ``Parser.Command.partial
  for info in added do
    if info.isPartial then
      continue
    t := lookAt before after (fun _ => #[]) info.type t
    if let some value := info.value? (allowOpaque := true) then
      t := lookAt before after (fun _ => #[]) value t
    if info.isUnsafe then
      t := { t with caveats.refused := true }
    if info matches .opaqueInfo _ && copies.any (·.name.getPrefix == info.name) then
      recursion := true
  let refused := t.caveats.refused || isMarked stx ``Parser.Command.unsafe
  let sorries := t.caveats.sorries || !(sorriesInTrees trees).isEmpty
  return { sorries, recursion, refused }

/-! ## The kernel -/

/-- Has the kernel check what the step assigned, each term closed over its context and over the goals that are left. The
environment is given up afterwards. Gives the kernel's objection. Must run in the state behind the step. -/
def kernelObjection? (before after : ProofSide) : MetaM (Option MessageData) := do
  let env := after.env.toKernelEnv
  let cancelTk? := (← readThe Core.Context).cancelTk?
  for a in (assignedBetween before.mctx after.mctx before.goals).assigned do
    let objection? ← a.mvarId.withContext do
      let closed ← Closure.mkValueTypeClosure (← instantiateMVars (← a.mvarId.getDecl).type) a.value (zetaDelta := false)
      let name := `_leanBeam.checked
      let levelParams := closed.levelParams.toList
      let (type, value) := (closed.type, closed.value)
      let decl ←
        if ← Meta.isProp type then
          pure <| Declaration.thmDecl { name, levelParams, type, value }
        else
          pure <| Declaration.defnDecl { name, levelParams, type, value, hints := .opaque, safety := .safe }
      match env.addDecl {} decl cancelTk? with
      | .ok _ => return none
      | .error e => return some (e.toMessageData (← getOptions))
    if objection?.isSome then
      return objection?
  return none

end LeanBeam

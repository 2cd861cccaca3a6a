import LeanBeam.State
import Lean.Server.FileWorker.RequestHandling

/-!
# The state a position stands for

Owns the choice of the basis. Proof basis first: the first result of Lean's own search for goals at a position. Otherwise the
command basis: the state after the first command (the header counts as one) that ends at or behind the position. Must never
re-derive the rules of that search, nor look behind the position: the cost does not depend on what follows.

Both searches run in Lean's compiled code, over the snapshots before the position.
-/

open Lean Elab Server FileWorker

namespace LeanBeam

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

end LeanBeam

import LeanBeam.Request
import LeanBeam.Wire
import Lean.Widget.InteractiveGoal

/-!
# Proof states

Owns what a tactic needs to run as it would in the file, as a value, and the translation of goals into data. What is shown of a goal
(grouping of hypotheses, hidden ones, daggers, let values, options) is decided by Lean's `goalToInteractive`; must never be decided anew.
-/

open Lean Server

namespace LeanBeam

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

private def ofGoal (g : Widget.InteractiveGoal) : Goal :=
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

end LeanBeam

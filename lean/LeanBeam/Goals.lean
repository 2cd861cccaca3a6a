import LeanBeam.Wire
import Lean.Widget.InteractiveGoal

/-!
# Goals as data

Owns the translation of Lean's own display form of a goal into ours. Everything that decides what is shown (grouping of hypotheses,
hidden ones, daggers, let values, options) is Lean's `goalToInteractive`; must never decide it anew.
-/

open Lean

namespace LeanBeam

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

end LeanBeam

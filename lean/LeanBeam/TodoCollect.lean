import LeanBeam.Barrier
import LeanBeam.Basis
import LeanBeam.TodoScan
import Lean.Server.CodeActions

/-!
# Collecting what is left to do

Owns one collector per kind of item. A collector may return too much: the range is judged in one place (`LeanBeam.Todo`). Must
never walk what lies outside of the commands that touch the range: the extension is interpreted, a document may be long.
-/

open Lean Elab Server FileWorker

namespace LeanBeam.Todo

/-- What an item is, before goals are rendered. -/
structure Found where
  item : TodoItem
  /-- The state behind an unfinished tactic. -/
  state? : Option ProofState := none

/-- A command and the part of the text it owns, the blanks and comments behind it included. -/
structure Span where
  start : String.Pos.Raw
  stop : String.Pos.Raw
  /-- Absent for a text whose header is broken: then all of it is one span. -/
  command? : Option Snapshots.Snapshot

/-- The spans that touch a range of bytes. -/
def spans (text : FileMap) (commands : List Snapshots.Snapshot) (start stop : String.Pos.Raw) : Array Span := Id.run do
  if commands.isEmpty then
    return #[{ start := 0, stop := text.positions.back!, command? := none }]
  let mut spans := #[]
  let mut previous : String.Pos.Raw := 0
  for command in commands do
    let next := command.endPos
    if previous > stop then
      break
    if next ≥ start then
      spans := spans.push { start := previous, stop := next, command? := some command }
    previous := next
  return spans

private def toRange (text : FileMap) (r : Lean.Syntax.Range) : Lsp.Range :=
  { start := text.utf8PosToLspPos r.start, «end» := text.utf8PosToLspPos r.stop }

private def atStart (kind message : String) (range : Lsp.Range) : Found :=
  { item := { kind, range, runAtPosition := range.start, message? := some message } }

/-! ## Sorries and holes -/

private partial def sorryNodes (stx : Syntax) (found : Array Lean.Syntax.Range) : Array Lean.Syntax.Range :=
  if stx.isOfKind ``Parser.Term.sorry || stx.isOfKind ``Parser.Tactic.tacticSorry then
    match stx.getRange? (canonicalOnly := true) with
    | some r => found.push r
    | none => found
  else
    stx.getArgs.foldl (fun found stx => sorryNodes stx found) found

/-- Sorries of the text: tokens found by the scanner, and syntax nodes (which may stand inside of an interpolated string). Every sorry that
was elaborated from the text is one of the latter; one that a macro brought in has no place in the text. -/
def sorries (text : FileMap) (span : Span) : Array Found := Id.run do
  let slice := Compat.slice text.source span.start span.stop
  -- Compiled code, unlike the scanner: most spans end here.
  let pieces := slice.splitOn "sorry"
  if pieces.length ≤ 1 then
    return #[]
  let mut ranges : Array Lean.Syntax.Range := #[]
  let chars := slice.toList.toArray
  let mut index := 0
  let mut pos := span.start.byteIdx
  for hit in TodoScan.sorries slice do
    pos := (chars.extract index hit).foldl (fun pos c => pos + c.utf8Size) pos
    index := hit
    ranges := ranges.push ⟨⟨pos⟩, ⟨pos + 5⟩⟩
  if let some command := span.command? then
    ranges := sorryNodes command.stx ranges
  return ranges.map fun r => atStart "sorry" "`sorry` stands for a missing proof or term" (toRange text r)

private def holeOf? (info : Info) : Option Syntax := do
  let .ofTermInfo term := info | none
  guard <| !term.isBinder && !term.elaborator.isAnonymous
  guard <| term.stx.isOfKind ``Parser.Term.hole || term.stx.isOfKind ``Parser.Term.syntheticHole
  return term.stx

/-! ## Unfinished proofs -/

/-- A `by` or a bullet by itself: its "goals afterwards" are those in front of the first tactic. -/
private def isMark (stx : Syntax) : Bool :=
  stx.isOfKind ``Lean.cdotTk || stx.isToken "by" || stx.isToken "·"

private def unfinished? (text : FileMap) (suggest : Bool) (ctx : ContextInfo) (info : TacticInfo) : Option Found := do
  guard <| !info.goalsAfter.isEmpty && !isMark info.stx
  let range := toRange text (← info.stx.getRange? (canonicalOnly := true))
  let n := info.goalsAfter.length
  return {
    item := {
      kind := "incomplete_proof"
      range
      runAtPosition := range.end
      runAtText? := if suggest then some "exact ?_" else none
      message? := some s!"{n} {if n == 1 then "goal is" else "goals are"} open behind this step"
    }
    state? := some (proofStateOf ctx info (useAfter := true))
  }

/-- Holes and unfinished proofs: one walk over the info trees of a span. -/
def fromInfoTrees (text : FileMap) (span : Span) (start stop : String.Pos.Raw) (holes proofs suggest : Bool) (wanted : Stop) :
    EIO RequestError (Array Found) := do
  let some command := span.command? | return #[]
  let touches (stx : Syntax) : Bool :=
    match stx.getRange? (canonicalOnly := true) with
    | some r => r.start ≤ stop && start ≤ r.stop
    | none => false
  let mut found := #[]
  for tree in ← wanted.await (Compat.infoTrees command) do
    found := tree.foldInfo (init := found) fun ctx info found =>
      match info with
      | .ofTacticInfo tactic =>
        if proofs && touches tactic.stx then
          match unfinished? text suggest ctx tactic with
          | some item => found.push item
          | none => found
        else found
      | .ofTermInfo _ =>
        if holes then
          match holeOf? info with
          | some stx =>
            match stx.getRange? (canonicalOnly := true) with
            | some r => found.push (atStart "hole" "this hole must be filled" (toRange text r))
            | none => found
          | none => found
        else found
      | _ => found
  return found

/-! ## Diagnostics and code actions -/

def ofDiagnostic (d : Lsp.Diagnostic) : Found :=
  { item := {
      kind := "diagnostic", range := d.fullRange, runAtPosition := d.fullRange.start
      message? := some d.message, severity? := d.severity?, diagnostic? := some d } }

/-- The ranges a code action would change in this document. -/
private def editRanges (uri : String) (action : Lsp.CodeAction) : List Lsp.Range :=
  match action.edit? with
  | none => []
  | some edit =>
    let plain := (edit.changes?.map (·.toList)).getD []
    let versioned := (edit.documentChanges?.getD #[]).toList.filterMap fun
      | .edit e => some (e.textDocument.uri, e.edits)
      | _ => none
    (plain ++ versioned).flatMap fun (u, edits) => if u == uri then edits.toList.map (·.range) else []

/-- Lean's code actions for the range; `overlapping` are the diagnostics in it. Fails only if the request must stop: an action provider
that throws hides the light bulb in an editor, too. -/
def codeActions (doc : EditableDocument) (range : Lsp.Range) (overlapping : Array Lsp.Diagnostic)
    (overlaps : Lsp.Range → Bool) (stop : Stop) : RequestM (Array Found) := do
  let task ← handleCodeAction {
    textDocument := { uri := doc.meta.uri }, range, context := { diagnostics := overlapping } }
  match ← stop.await (Compat.taskOf task) with
  | .error _ => return #[]
  | .ok actions => return actions.map fun action =>
    let target := (action.diagnostics?.bind (·[0]?)).map (·.fullRange)
      <|> (editRanges doc.meta.uri action).find? overlaps
    let found := atStart "code_action" action.title (target.getD range)
    { found with item := { found.item with codeAction? := some action } }

end LeanBeam.Todo

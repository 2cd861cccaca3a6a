import LeanBeam.TodoCollect

/-!
# `$/lean/todo`, and the check in front of `codeAction/resolve`

Owns the selection, the order and the removal of doubles among what the collectors found.

1. For a non-empty range an item must overlap it strictly; an empty range (a cursor) may touch either end of an item.
2. Of items of the same kind and range the first is kept. Then an unfinished proof that strictly contains another with the same
   end is dropped.
3. Order: start, end, kind.
4. Goals are rendered last, for the items that are left.
-/

open Lean Elab Server FileWorker

namespace LeanBeam.Todo

private def allKinds : List String := ["sorry", "hole", "incomplete_proof", "diagnostic", "code_action"]

private def lt (a b : Lsp.Position) : Bool := a.line < b.line || a.line == b.line && a.character < b.character
private def le (a b : Lsp.Position) : Bool := !lt b a

private def overlaps (request item : Lsp.Range) : Bool :=
  if request.start == request.end then
    le item.start request.start && le request.start item.end
  -- An item without width (Lean puts errors of the header at 0:0) lies in a half-open range as a point does.
  else if item.start == item.end then
    le request.start item.start && lt item.start request.end
  else
    lt item.start request.end && lt request.start item.end

private def before (a b : TodoItem) : Bool :=
  if a.range.start != b.range.start then lt a.range.start b.range.start
  else if a.range.end != b.range.end then lt a.range.end b.range.end
  else a.kind < b.kind

private def strictlyContains (outer inner : Lsp.Range) : Bool :=
  le outer.start inner.start && le inner.end outer.end && outer != inner

/-- Rules 1 to 3. -/
private def select (request : Lsp.Range) (found : Array Found) : Array Found := Id.run do
  let mut seen : Std.HashSet (String × Nat × Nat × Nat × Nat) := {}
  let mut kept := #[]
  for f in found do
    let r := f.item.range
    let key := (f.item.kind, r.start.line, r.start.character, r.end.line, r.end.character)
    if overlaps request r && !seen.contains key then
      seen := seen.insert key
      kept := kept.push f
  let proofs := kept.filter (·.item.kind == "incomplete_proof")
  let covered (f : Found) : Bool := f.item.kind == "incomplete_proof" && proofs.any fun p =>
    p.item.runAtPosition == f.item.runAtPosition && strictlyContains f.item.range p.item.range
  return (kept.filter (!covered ·)).qsort fun a b => before a.item b.item

private def render (stop : Stop) (f : Found) : EIO RequestError TodoItem := do
  match f.state? with
  | none => return f.item
  | some state => return { f.item with proofState? := some (← state.render stop) }

private def collect (p : TodoParams) (kinds : Array String) (doc : EditableDocument) (start stop : String.Pos.Raw)
    (wanted : Stop) : RequestM (Array TodoItem) := do
  let text := doc.meta.text
  let commands ← awaitDocument doc wanted
  let has (kind : String) := kinds.isEmpty || kinds.contains kind
  let mut found := #[]
  for span in spans text commands start stop do
    wanted.check
    if has "sorry" then
      found := found ++ sorries text span
    if has "hole" || has "incomplete_proof" then
      let suggest := p.suggest?.getD "basic" == "basic"
      found := found ++ (← fromInfoTrees text span start stop (has "hole") (has "incomplete_proof") suggest wanted)
  if has "diagnostic" || has "code_action" then
    let diagnostics := (← visibleDiagnostics doc).filter (overlaps p.range ·.fullRange)
    if has "diagnostic" then
      found := found ++ diagnostics.map ofDiagnostic
    if has "code_action" then
      found := found ++ (← codeActions doc p.range diagnostics (overlaps p.range) wanted)
  (select p.range found).mapM (render wanted ·)

private def handleTodo (p : TodoParams) : RequestM (RequestTask TodoResult) := do
  let doc ← checkDocument p.textDocument.uri p.textDocument.version
  let start ← EIO.ofExcept (checkPosition doc.meta.text p.range.start)
  let stop ← EIO.ofExcept (checkPosition doc.meta.text p.range.end)
  unless le p.range.start p.range.end do
    throw <| invalidParams "the range ends before it starts"
  let kinds := p.kinds?.getD #[]
  if let some unknown := kinds.find? (!allKinds.contains ·) then
    throw <| invalidParams s!"unknown kind '{unknown}'; the kinds are {", ".intercalate allKinds}"
  unless ["none", "basic"].contains (p.suggest?.getD "basic") do
    throw <| invalidParams "suggest must be 'none' or 'basic'"
  onOwnThread fun wanted => do
    let items ← collect p kinds doc start stop wanted
    return { version := doc.meta.version, range := p.range, items }

/-- Lean resolves an action against whatever document the worker holds; one made for another document would be answered with edits
that do not fit. -/
private def checkResolve (action : Lsp.CodeAction) (resolved : RequestTask Lsp.CodeAction) :
    RequestM (RequestTask Lsp.CodeAction) := do
  let some data := action.data?
    | throw <| invalidParams "the code action has no data to resolve it by"
  let .ok (data : CodeActionResolveData) := fromJson? data
    | throw <| invalidParams "the code action's data is not Lean's"
  discard <| checkDocument data.params.textDocument.uri none
  return resolved

initialize
  serve "$/lean/todo" TodoParams TodoResult handleTodo
  -- After a second time the check would run twice, to the same effect.
  chainLspRequestHandler "codeAction/resolve" Lsp.CodeAction Lsp.CodeAction checkResolve

end LeanBeam.Todo

import LeanBeam.Barrier
import LeanBeam.Probe
import Lean.Server.CodeActions

/-!
# `$/lean/todo`, and the check in front of `codeAction/resolve`

Owns one collector per kind of item, and the selection among what they find. Must never walk what lies outside of the commands that
touch the range: the extension is interpreted, and a document may be long.

1. For a non-empty range an item must overlap it strictly; an empty range (a cursor) may touch either end of an item.
2. Of items of the same kind and range (and title, for code actions) the first is kept. Then an unfinished proof that strictly contains another with the same
   end is dropped.
3. Order: start, end, kind.
4. Goals and types are rendered last, for the items that are left.
5. A step of a proof is unfinished if a goal it left is not proved at the end of the outermost `by` around it. There, as in
   Lean's own recovery, a synthetic `sorry` stands for what failed.
6. Lean looks for code actions in one command only, the one that holds the end of the range. So each command is asked for itself.

Collectors may return too much; rule 1 is applied in one place.
-/

open Lean Elab Server FileWorker

/-! ## Finding the word in the text

A scanner that finds the token `sorry` without parsing, so that it works where the parser has given up. Knows line comments, nested
block comments, strings (also raw ones), character literals, quoted names and dotted names. Its text must start between two tokens.
-/

namespace LeanBeam.TodoScan

private structure State where
  chars : Array Char
  found : Array Nat := #[]

private def charAt (s : State) (i : Nat) : Char := s.chars[i]?.getD '\x00'

/-- The index behind a block comment that is open `depth` deep before `i`. -/
private partial def blockComment (s : State) (i depth : Nat) : Nat :=
  if i ≥ s.chars.size then i
  else if charAt s i == '-' && charAt s (i + 1) == '/' then
    if depth == 1 then i + 2 else blockComment s (i + 2) (depth - 1)
  else if charAt s i == '/' && charAt s (i + 1) == '-' then blockComment s (i + 2) (depth + 1)
  else blockComment s (i + 1) depth

/-- The index behind the next `stop`; with `escapes`, a backslash protects the character behind it. -/
private partial def skipTo (s : State) (i : Nat) (stop : Char) (escapes : Bool) : Nat :=
  if i ≥ s.chars.size then i
  else if charAt s i == stop then i + 1
  else if escapes && charAt s i == '\\' then skipTo s (i + 2) stop escapes
  else skipTo s (i + 1) stop escapes

private partial def hashes (s : State) (i : Nat) : Nat :=
  if charAt s i == '#' then 1 + hashes s (i + 1) else 0

/-- The index behind a raw string with `n` hashes, from inside of it. -/
private partial def rawString (s : State) (i n : Nat) : Nat :=
  if i ≥ s.chars.size then i
  else if charAt s i == '"' && hashes s (i + 1) ≥ n then i + 1 + n
  else rawString s (i + 1) n

/-- The index behind a name that starts at `i`, dots and quoted parts included. -/
private partial def name (s : State) (i : Nat) : Nat :=
  let j := if charAt s i == '«' then skipTo s (i + 1) '»' false else rest s (i + 1)
  let next := charAt s (j + 1)
  if charAt s j == '.' && (isIdFirst next || next == '«') then name s (j + 1) else j
where
  rest (s : State) (i : Nat) : Nat :=
    if i < s.chars.size && isIdRest (charAt s i) then rest s (i + 1) else i

private def isSorry (s : State) (i j : Nat) : Bool :=
  j == i + 5 && s.chars.extract i j == #['s', 'o', 'r', 'r', 'y'] && (i == 0 || charAt s (i - 1) != '.')

/-- The index behind the token (or blank) at `i`, and whether it is the word. -/
private def step (s : State) (i : Nat) : Nat × Bool :=
  let c := charAt s i
  let next := charAt s (i + 1)
  if c == '-' && next == '-' then (skipTo s (i + 2) '\n' false, false)
  else if c == '/' && next == '-' then (blockComment s (i + 2) 1, false)
  else if c == '"' then (skipTo s (i + 1) '"' true, false)
  else if c == 'r' && (next == '"' || next == '#' && charAt s (i + 1 + hashes s (i + 1)) == '"') then
    let n := hashes s (i + 1)
    (rawString s (i + 2 + n) n, false)
  else if c == '\'' && next == '\\' then (skipTo s (i + 1) '\'' true, false)
  else if c == '\'' && charAt s (i + 2) == '\'' then (i + 3, false)
  else if isIdFirst c || c == '«' then
    let j := name s i
    (j, isSorry s i j)
  else if c.isDigit then (name s i, false)
  else (i + 1, false)

private partial def loop (s : State) (i : Nat) : Array Nat :=
  if i ≥ s.chars.size then s.found
  else
    let (j, hit) := step s i
    loop (if hit then { s with found := s.found.push i } else s) j

/-- Indexes, counted in characters, at which the word starts. -/
def sorries (text : String) : Array Nat :=
  loop { chars := text.toList.toArray } 0

end LeanBeam.TodoScan

namespace LeanBeam.Todo

private def allKinds : List String := ["sorry", "hole", "incomplete_proof", "diagnostic", "code_action"]

/-- What an item is, before goals are rendered. -/
private structure Found where
  item : TodoItem
  /-- The unfinished tactic. -/
  tactic? : Option (ContextInfo × TacticInfo) := none
  /-- The term that is missing. -/
  term? : Option (ContextInfo × TermInfo) := none

/-- A command and the part of the text it owns, the blanks and comments behind it included. -/
private structure Span where
  start : String.Pos.Raw
  stop : String.Pos.Raw
  /-- Absent for a text whose header is broken: then all of it is one span. -/
  command? : Option Snapshots.Snapshot

/-- The spans that touch a range of bytes. -/
private def spans (text : FileMap) (commands : List Snapshots.Snapshot) (start stop : String.Pos.Raw) : Array Span := Id.run do
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

/-- Sorries as they are spelled: tokens found by the scanner, and syntax nodes (which may stand inside of an interpolated string). These are
found in a text that Lean could not read, too. -/
private def sorries (text : FileMap) (span : Span) : Array Found := Id.run do
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

/-- A `sorry` that was elaborated, in whatever form it is written. -/
private def ofWritten (text : FileMap) (s : WrittenSorry) : Found :=
  { atStart "sorry" "a proof or term is missing here: Lean has put in `sorry`" (toRange text s.range) with term? := s.term? }

/-- Whether a term is still missing at the end of the elaboration it belongs to. -/
private def stillMissing (mctx : MetavarContext) (e : Expr) : Bool :=
  let e := (instantiateMVarsCore mctx e).1
  e.hasExprMVar || e.hasSyntheticSorry

private def holeOf? (ctx : ContextInfo) (info : Info) : Option TermInfo := do
  let .ofTermInfo term := info | none
  guard <| !term.isBinder && !term.elaborator.isAnonymous
  guard <| term.stx.isOfKind ``Parser.Term.hole || term.stx.isOfKind ``Parser.Term.syntheticHole
  guard <| stillMissing ctx.mctx term.expr
  return term

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
    tactic? := some (ctx, info)
  }

/-- The state in which a proof ended, and the text of the proof. -/
private structure ProofEnd where
  range : Lean.Syntax.Range
  mctx : MetavarContext

private def covers (outer inner : Lean.Syntax.Range) : Bool := outer.start ≤ inner.start && inner.stop ≤ outer.stop

/-- Whether a goal was never proved. A proof in which something failed may have forgotten the goal: then it was not. -/
private def stayedOpen (ends : Array ProofEnd) (last? : Option MetavarContext) (range : Lean.Syntax.Range) (goal : MVarId) : Bool :=
  match ends.find? fun e => covers e.range range && (e.mctx.findDecl? goal).isSome with
  | some e =>
    -- With nothing around it (the tactics of `decreasing_by`), the last one of them has the end.
    let mctx := if e.range == range then (last?.filter (·.findDecl? goal |>.isSome)).getD e.mctx else e.mctx
    stillMissing mctx (mkMVar goal)
  | none => true

private structure Trees where
  holes : Array Found := #[]
  steps : Array (Lean.Syntax.Range × Found) := #[]
  /-- Outer ones first. -/
  ends : Array ProofEnd := #[]
  last? : Option MetavarContext := none

/-- Holes and unfinished proofs: one walk over the info trees of a span. -/
private def fromInfoTrees (text : FileMap) (span : Span) (start stop : String.Pos.Raw) (holes proofs suggest : Bool) (wanted : Stop) :
    EIO RequestError (Array Found) := do
  let some command := span.command? | return #[]
  let mut found : Array Found := #[]
  for tree in ← wanted.await (Compat.infoTrees command) do
    let all := tree.foldInfo (init := ({} : Trees)) fun ctx info all =>
      match info with
      | .ofTacticInfo tactic =>
        if !proofs then all
        else match tactic.stx.getRange? with
          | none => all
          | some range =>
            let all := { all with last? := some tactic.mctxAfter }
            let all :=
              if tactic.stx.isOfKind ``Parser.Term.byTactic || !all.ends.any (covers ·.range range) then
                { all with ends := all.ends.push { range, mctx := tactic.mctxAfter } }
              else all
            if range.start ≤ stop && start ≤ range.stop then
              match unfinished? text suggest ctx tactic with
              | some item => { all with steps := all.steps.push (range, item) }
              | none => all
            else all
      | .ofTermInfo _ =>
        if !holes then all
        else match holeOf? ctx info with
          | none => all
          | some term => match term.stx.getRange? (canonicalOnly := true) with
            | none => all
            | some r =>
              let hole := { atStart "hole" "this hole must be filled" (toRange text r) with term? := some (ctx, term) }
              { all with holes := all.holes.push hole }
      | _ => all
    let steps := all.steps.filter fun (range, step) =>
      step.tactic?.any fun (_, tactic) => tactic.goalsAfter.any (stayedOpen all.ends all.last? range ·)
    found := found ++ all.holes ++ steps.map (·.2)
  return found

/-! ## Diagnostics and code actions -/

private def ofDiagnostic (d : Lsp.Diagnostic) : Found :=
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

/-- Lean's code actions for a range inside of one command; `overlapping` are the diagnostics in it. Fails only if the request must stop: an
action provider that throws hides the light bulb in an editor, too. -/
private def codeActions (doc : EditableDocument) (range : Lsp.Range) (overlapping : Array Lsp.Diagnostic)
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

/-! ## Selection -/

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
  let mut seen : Std.HashSet (String × String × Nat × Nat × Nat × Nat) := {}
  let mut kept := #[]
  for f in found do
    let r := f.item.range
    let title := (f.item.codeAction?.map (·.title)).getD ""
    let key := (f.item.kind, title, r.start.line, r.start.character, r.end.line, r.end.character)
    if overlaps request r && !seen.contains key then
      seen := seen.insert key
      kept := kept.push f
  let proofs := kept.filter (·.item.kind == "incomplete_proof")
  let covered (f : Found) : Bool := f.item.kind == "incomplete_proof" && proofs.any fun p =>
    p.item.runAtPosition == f.item.runAtPosition && strictlyContains f.item.range p.item.range
  return (kept.filter (!covered ·)).qsort fun a b => before a.item b.item

/-- The type that is wanted where a term is missing. What cannot be shown is left out. -/
private def expectedType? (ctx : ContextInfo) (term : TermInfo) : BaseIO (Option String) := do
  let shown ← (ctx.runMetaM term.lctx do
    let type ← match term.expectedType? with
      | some type => instantiateMVars type
      | none => instantiateMVars (← Meta.inferType term.expr)
    if type.getAppFn.isMVar then
      return none
    return some (← Meta.ppExpr type).pretty).toBaseIO
  match shown with
  | .ok type? => return type?
  | .error _ => return none

private def render (stop : Stop) (f : Found) : EIO RequestError TodoItem := do
  if let some (ctx, tactic) := f.tactic? then
    let goals ← (proofStateOf ctx tactic (useAfter := true)).render stop
    return { f.item with proofState? := some goals }
  if let some (ctx, term) := f.term? then
    stop.check
    return { f.item with expectedType? := ← expectedType? ctx term }
  return f.item

/-- The code actions of a range, command by command. A cursor belongs to one command. -/
private def allCodeActions (doc : EditableDocument) (range : Lsp.Range) (spans : Array Span) (diagnostics : Array Lsp.Diagnostic)
    (wanted : Stop) : RequestM (Array Found) := do
  if range.start == range.end || spans.size ≤ 1 then
    return ← codeActions doc range diagnostics (overlaps range) wanted
  let mut found := #[]
  for span in spans do
    let own := toRange doc.meta.text { start := span.start, stop := span.stop }
    let part : Lsp.Range := {
      start := if lt own.start range.start then range.start else own.start
      «end» := if lt own.end range.end then own.end else range.end }
    if lt part.start part.end then
      wanted.check
      found := found ++ (← codeActions doc part (diagnostics.filter (overlaps part ·.fullRange)) (overlaps part) wanted)
  return found

private def collect (p : TodoParams) (kinds : Array String) (doc : EditableDocument) (start stop : String.Pos.Raw)
    (wanted : Stop) : RequestM (Array TodoItem) := do
  let text := doc.meta.text
  let range := toRange text { start, stop }
  let commands ← awaitDocument doc wanted
  let has (kind : String) := kinds.isEmpty || kinds.contains kind
  let spans := spans text commands start stop
  let mut found := #[]
  if has "sorry" then
    found := found ++ (← sorriesOf doc commands wanted).map (ofWritten text)
  for span in spans do
    wanted.check
    if has "sorry" then
      let spelled := sorries text span
      -- A declaration that failed has left no constant to find it by.
      if let (false, some command) := (spelled.isEmpty, span.command?) then
        found := found ++ (sorriesInTrees (← wanted.await (Compat.infoTrees command))).map (ofWritten text)
      found := found ++ spelled
    if has "hole" || has "incomplete_proof" then
      let suggest := p.suggest?.getD "basic" == "basic"
      found := found ++ (← fromInfoTrees text span start stop (has "hole") (has "incomplete_proof") suggest wanted)
  if has "diagnostic" || has "code_action" then
    let diagnostics := (← visibleDiagnostics doc).filter (overlaps range ·.fullRange)
    if has "diagnostic" then
      found := found ++ diagnostics.map ofDiagnostic
    if has "code_action" then
      found := found ++ (← allCodeActions doc range spans diagnostics wanted)
  (select range found).mapM (render wanted ·)

private def handleTodo (p : TodoParams) : RequestM (RequestTask TodoResult) := do
  let doc ← checkDocument p.textDocument.uri p.textDocument.version
  let text := doc.meta.text
  let start ← match p.range? with
    | some range => EIO.ofExcept (checkPosition text range.start)
    | none => pure 0
  let stop := match p.range? with
    | some range => clampPosition text range.end
    | none => text.positions.back!
  if let some range := p.range? then
    unless le range.start range.end do
      throw <| invalidParams "the range ends before it starts"
  let kinds := p.kinds?.getD #[]
  if let some unknown := kinds.find? (!allKinds.contains ·) then
    throw <| invalidParams s!"unknown kind '{unknown}'; the kinds are {", ".intercalate allKinds}"
  unless ["none", "basic"].contains (p.suggest?.getD "basic") do
    throw <| invalidParams "suggest must be 'none' or 'basic'"
  onOwnThread fun wanted => do
    let items ← collect p kinds doc start stop wanted
    return { version := doc.meta.version, range := toRange text { start, stop }, lineCount := text.positions.size - 1, items }

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

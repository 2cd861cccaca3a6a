import LeanBeam.Goals

/-!
# What to do about a text that did not run: `at` and `hint`

Owns the two fields that help a caller who is off by a line, or has sent something else than one tactic or one command. Must never read a
message: Lean's words change from release to release. What a text is, is decided by Lean's own parsers, which are given the text
and variants of it; where it would run, by running it there.

1. At most one hint, the first that fits, in the order of `hintFor?`.
2. Only failures pay for this. A neighbouring line is tried only for a text that the grammar refuses where it was sent, or that met no
   goal, and only where Lean is through already: a hint must not wait for the file.
3. Lines and characters in a hint count from 0, as positions do.
-/

open Lean Elab Server FileWorker

namespace LeanBeam

/-! ## The place -/

private def maxLine : Nat := 120

/-- The line of a position, cut short. -/
def lineAt (text : FileMap) (line : Nat) : String := Id.run do
  let some start := text.positions[line]? | return ""
  let stop := text.positions[line + 1]?.getD text.positions.back!
  let all := (Compat.slice text.source start stop).trimAsciiEnd.toString
  if all.length ≤ maxLine then all else ((all.take (maxLine - 1)).toString ++ "…")

def placeOf (text : FileMap) (pos : String.Pos.Raw) (basis : String) : Place :=
  { lineText := lineAt text (text.utf8PosToLspPos pos).line, basis }

def Basis.name : Basis → String
  | .proof _ => "tactic"
  | .command _ => "command"

/-! ## Reading a text as something else -/

private structure Grammar where
  scope : Parser.ParserModuleContext

private def Basis.grammar : Basis → Grammar
  | .proof s => ⟨{ env := s.env, options := s.options, currNamespace := s.currNamespace, openDecls := s.openDecls }⟩
  | .command s =>
    let scope := s.scopes.headD { header := "" }
    ⟨{ env := s.env, options := scope.opts, currNamespace := scope.currNamespace, openDecls := scope.openDecls }⟩

/-- The text as one phrase of the parser, blanks and comments around it aside. -/
private def Grammar.reads? (g : Grammar) (parser : Parser.ParserFn) (text : String) : Option Syntax :=
  let input := Parser.mkInputContext text "<runAt>"
  let s := (Parser.andthenFn Parser.whitespace parser).run input g.scope (Parser.getTokenTable g.scope.env) (Parser.mkParserState text)
  if s.allErrors.isEmpty && input.atEnd s.pos then some s.stxStack.back else none

private def Grammar.category? (g : Grammar) (category : Name) (text : String) : Option Syntax :=
  g.reads? (Parser.categoryParserFn category) text

private def isBlank (text : String) : Bool := text.all Char.isWhitespace

private def indentOf (line : String) : Nat := line.length - line.trimAsciiStart.toString.length

/-- The text with its first line indented as the others are: callers often cut it out of a file behind the indentation. -/
private def aligned (text : String) : String :=
  match text.splitOn "\n" with
  | first :: rest@(_ :: _) =>
    let indents := (rest.filter (!isBlank ·)).map indentOf
    let least := indents.foldl min (indents.headD 0)
    "\n".intercalate (("".pushn ' ' (least - indentOf first) ++ first) :: rest)
  | _ => text

/-- The tactics of a text, each as it is written, if it consists of nothing else. -/
private def Grammar.tactics? (g : Grammar) (text : String) : Option (Array String) := do
  let read (text : String) : Option (Array String) := do
    let stx ← g.reads? Parser.Tactic.tacticSeq.fn text
    let parts := stx[0][0].getSepArgs
    parts.mapM fun part => part.getRange?.map fun r => Compat.slice text r.start r.stop
  guard <| !isBlank text
  read text <|> read (aligned text)

/-- How to send several tactics as one. -/
private def wrapped (tactics : Array String) : String :=
  let short := tactics.all (fun t => (t.splitOn "\n").length == 1) && tactics.foldl (fun n t => n + t.length + 2) 0 ≤ 160
  if short then s!"wrap as `({"; ".intercalate tactics.toList})`"
  else "wrap as `(a; b)`, or put `(` in front and `)` behind with one tactic a line, all at the same column"

private def hint (code text : String) : Option Hint := some { code, text }

/-- What stands between the first two lines of three backticks, or between single ones. -/
private def fenced? (text : String) : Option String := do
  let trimmed := text.trimAscii.toString
  if (trimmed.splitOn "```").length > 1 then
    let isFence (line : String) : Bool := line.trimAsciiStart.toString.startsWith "```"
    let behind := (trimmed.splitOn "\n").dropWhile (!isFence ·) |>.drop 1
    return "\n".intercalate (behind.takeWhile (!isFence ·))
  guard <| trimmed.startsWith "`" && trimmed.endsWith "`" && trimmed.length > 2
  return (trimmed.drop 1).dropEnd 1 |>.toString

/-- The text without the lines in front of and behind what the grammar can read, and without words that end in a colon. -/
private def withoutProse? (reads : String → Bool) (text : String) : Option String := Id.run do
  let lines := (text.splitOn "\n").toArray
  if lines.size > 40 then
    return none
  for start in [0:lines.size] do
    for fewer in [0:min 3 (lines.size - start)] do
      let part := lines.extract start (lines.size - fewer)
      let candidate := "\n".intercalate part.toList
      if (start, fewer) != (0, 0) && !isBlank candidate && reads candidate then
        return some candidate
  match text.splitOn ": " with
  | _ :: rest@(_ :: _) =>
    let candidate := ": ".intercalate rest
    return if !isBlank candidate && reads candidate then some candidate else none
  | _ => return none

/-- What stands behind a leading `by` (or `:= by`). -/
private def behindBy? (text : String) : Option String := do
  let text := text.trimAsciiStart.toString
  let text := if text.startsWith ":=" then (text.drop 2).trimAsciiStart.toString else text
  guard <| text.startsWith "by" && !(isIdRest ((text.drop 2).toString.front))
  return (text.drop 2).toString

/-! ## Where else it would run -/

/-- What a task has, or will have in a moment: also a finished file is looked up by tasks of Lean's pool. -/
private def soon? (t : Task α) : BaseIO (Option α) := do
  for _ in [0:10] do
    if ← IO.hasFinished t then
      return some t.get
    IO.sleep 3
  return none

/-- The command at a position, the header included. -/
private def readyCommand? (doc : EditableDocument) (pos : String.Pos.Raw) : BaseIO (Option Snapshots.Snapshot) := do
  match ← soon? (Compat.findCommand doc (·.endPos ≥ pos)) with
  | some (.ok command?) => return command?
  | _ => return none

/-- The basis of a position, if Lean has got so far. -/
private def readyBasis? (doc : EditableDocument) (pos : String.Pos.Raw) (stop : Stop) : EIO RequestError (Option Basis) := do
  let some goals? ← soon? (Compat.goalsAt doc pos) | return none
  if goals?.any (!·.isEmpty) || (← readyCommand? doc pos).isSome then
    findBasis? doc pos stop
  else
    return none

private def runs (basis : Basis) (text : String) (stop : Stop) : EIO RequestError Bool := do
  match basis with
  | .proof s =>
    let o ← runTactic s text false stop
    o.background.forM (·.cancelRec)
    return o.success
  | .command s => return (← runCommand s text stop).success

/-- A position one line up or down at which the text runs, on a basis of the wanted kind. -/
private def neighbour? (doc : EditableDocument) (pos : String.Pos.Raw) (wanted : Basis → Bool) (text : String) (stop : Stop) :
    EIO RequestError (Option Lsp.Position) := do
  let map := doc.meta.text
  let here := map.utf8PosToLspPos pos
  let lines := if here.line == 0 then [1] else [here.line - 1, here.line + 1]
  for line in lines do
    unless line + 1 < map.positions.size do
      continue
    let first := clampPosition map { line, character := indentOf (lineAt map line) }
    let other := clampPosition map { line, character := here.character }
    for candidate in if first == other then [other] else [other, first] do
      if let some basis ← readyBasis? doc candidate stop then
        if wanted basis then
          if ← runs basis text stop then
            return some (map.utf8PosToLspPos candidate)
  return none

private def isProof : Basis → Bool
  | .proof s => !s.goals.isEmpty
  | .command _ => false

private def isCommand : Basis → Bool
  | .proof _ => false
  | .command _ => true

private def showPosition (p : Lsp.Position) : String := s!"line {p.line}, character {p.character}"

/-- A place in front of the command at a position where commands can be run. -/
private def commandPlace? (doc : EditableDocument) (pos : String.Pos.Raw) (stop : Stop) : EIO RequestError (Option Lsp.Position) := do
  let some command ← readyCommand? doc pos | return none
  let some range := command.stx.getRange? | return none
  for candidate in [range.start, ⟨range.start.byteIdx + 1⟩] do
    if let some (.command _) ← readyBasis? doc candidate stop then
      return some (doc.meta.text.utf8PosToLspPos candidate)
  return none

/-! ## What was not reached -/

private def isSequence (stx : Syntax) : Bool :=
  [``Parser.Tactic.tacticSeq, ``Parser.Tactic.tacticSeq1Indented, ``Parser.Tactic.tacticSeqBracketed, ``Parser.Term.byTactic].contains
    stx.getKind

/-- The first error from `start` on that ends on a line in front of the position. -/
private def errorBetween? (doc : EditableDocument) (start pos : String.Pos.Raw) : BaseIO (Option Nat) := do
  let map := doc.meta.text
  let line := (map.utf8PosToLspPos pos).line
  let mut first? : Option Nat := none
  for message in ← Compat.finishedMessages (Compat.snapshotTree doc) do
    -- Lean's own lines count from 1.
    let at' := message.pos.line - 1
    let ends := (message.endPos.getD message.pos).line - 1
    if message.severity matches .error && start ≤ map.ofPosition message.pos && ends < line then
      if first?.all (at' < ·) then
        first? := some at'
  return first?

/-- Says which earlier error keeps Lean from having a state at the position. It does so in three ways: nothing was elaborated there,
only the sequence that the tactic stands in was, or the tactic was run when there was nothing left to do. -/
def notReached? (doc : EditableDocument) (pos : String.Pos.Raw) (stop : Stop) : EIO RequestError (Option Hint) := do
  let found? ← findTactic? doc pos stop
  let mut start? : Option String.Pos.Raw := none
  if let some found := found? then
    if isSequence found.tacticInfo.stx then
      start? := found.tacticInfo.stx.getRange?.map (·.start)
  if found?.all (·.tacticInfo.goalsBefore.isEmpty) then
    if let some range := (← readyCommand? doc pos).bind (·.stx.getRange?) then
      -- Behind the command there is nothing to reach.
      if range.start ≤ pos && pos ≤ range.stop then
        start? := some range.start
  let some start := start? | return none
  return (← errorBetween? doc start pos).bind fun line => hint "notReached" s!"not reached: error at line {line}"

/-! ## The hint -/

private def hintInProof? (doc : EditableDocument) (pos? : Option String.Pos.Raw) (g : Grammar) (text : String) (stop : Stop) :
    EIO RequestError (Option Hint) := do
  let isTactics (t : String) : Bool := (g.tactics? t).isSome
  let more (t : String) : String := match g.tactics? t with
    | some tactics => if tactics.size > 1 then s!"; as there are {tactics.size} tactics, {wrapped tactics}" else ""
    | none => ""
  if let some inner := fenced? text then
    if isTactics inner || ((behindBy? inner).map isTactics).getD false then
      return hint "fence" s!"send the tactic alone, without the backticks around it{more inner}"
  if let some inner := behindBy? text then
    if isTactics inner then
      return hint "leadingBy" s!"leave out the leading `by`: this is inside of a proof already{more inner}"
  if (g.category? `command text).isSome then
    let mut place? := none
    if let some pos := pos? then
      place? ← commandPlace? doc pos stop
    let example? := place?.map fun p => s!", for example at {showPosition p}"
    return hint "commandInProof" s!"a command cannot run inside a proof; send it at a position outside of proofs{example?.getD ""}"
  if let some tactics := g.tactics? text then
    if tactics.size > 1 then
      return hint "severalTactics" s!"there are {tactics.size} tactics, and one is run: {wrapped tactics}"
  if let some inner := withoutProse? isTactics text then
    return hint "prose" s!"send the tactic alone, without the words around it{more inner}"
  return none

private def hintForCommand? (doc : EditableDocument) (pos? : Option String.Pos.Raw) (g : Grammar) (text : String) (stop : Stop) :
    EIO RequestError (Option Hint) := do
  let isCommand (t : String) : Bool := (g.category? `command t).isSome
  if let some inner := fenced? text then
    if isCommand inner || (g.tactics? inner).isSome then
      return hint "fence" "send the command or the tactic alone, without the backticks around it"
  if let some stx := g.reads? (Parser.many1Fn (Parser.categoryParserFn `command)) text then
    return hint "severalCommands" s!"there are {stx.getNumArgs} commands, and one is run: send one after the other, each with the handle of the one before"
  let tactic? := (g.category? `tactic text).map (fun _ => text) <|> do
    let tactics ← g.tactics? ((behindBy? text).getD text)
    return s!"({"\n".intercalate (tactics.toList)})"
  if tactic?.isSome then
    if let some pos := pos? then
      if let some hint ← notReached? doc pos stop then
        return some hint
      if let some p ← neighbour? doc pos isProof text stop then
        return hint "otherLine" s!"there is no proof at this position; the same text runs at {showPosition p}"
    return hint "notInProof" "a tactic needs a proof, and there is none at this position; give a position inside of the proof, at its first tactic or behind"
  if let some _ := withoutProse? isCommand text then
    return hint "prose" "send the command alone, without the words around it"
  return none

/-- The one thing that helps most with a text that failed, if the grammar knows one. `pos?` is absent for a state that a handle refers to. -/
def hintFor? (doc : EditableDocument) (pos? : Option String.Pos.Raw) (basis : Basis) (text : String) (stop : Stop) :
    EIO RequestError (Option Hint) := do
  let g := basis.grammar
  match basis with
  | .proof s =>
    let isOne := (g.category? `tactic text).isSome
    if s.goals.isEmpty then
      if let some pos := pos? then
        if let some hint ← notReached? doc pos stop then
          return some hint
        if isOne then
          if let some p ← neighbour? doc pos isProof text stop then
            return hint "otherLine" s!"no goal is left at this position; the same text runs at {showPosition p}"
    if isOne then
      -- Lean may have taken the second line for arguments of the first.
      if let some tactics := g.tactics? text then
        if tactics.size > 1 then
          return hint "severalTactics" s!"with its lines apart these are {tactics.size} tactics, and one is run: {wrapped tactics}"
      return none
    hintInProof? doc pos? g text stop
  | .command _ =>
    if (g.category? `command text).isSome then
      return none
    hintForCommand? doc pos? g text stop

end LeanBeam

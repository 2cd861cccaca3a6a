import Lean.Syntax

/-!
# Finding the word in the text

Owns a scanner that finds the token `sorry` in source text without parsing it, so that it works where the parser has given up. Knows
line comments, nested block comments, strings (also raw ones), character literals, quoted names and dotted names. Must be
given text that starts between two tokens.
-/

open Lean

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

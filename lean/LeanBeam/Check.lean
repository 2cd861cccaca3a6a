import LeanBeam.Search
import LeanBeam.Barrier
import Lean.Compiler.ImplementedByAttr

/-!
# `$/beam/check`: what a declaration or a file rests on

Owns the walk over everything that declarations reach, and the verdict. Must never take an axiom for proved because it cannot see more: what
is imported without a body is counted apart.

The verdict is the first that holds:

1. `errors`: there is an error diagnostic in the declarations (in the file, if all of it was asked for).
2. `sorry`: `sorryAx` is reached.
3. `unsafe`: a declaration outside of the library that is reached is `unsafe`. What else may run differently from what the kernel has seen
   (`partial`, `implemented_by`, `extern`) is listed and changes no verdict: a proof that counts on running it has an axiom for that.
4. `axioms`: an axiom is reached other than `propext`, `Quot.sound` and `Classical.choice`.
5. `proved`. Where `libraryTheorems` and its like are given, this holds under the condition that the library is right.

The public part of a module has axioms in the place of theorems and of definitions it does not expose (`getOriginalConstKind?` knows them). The
embedded toolchain's whole library is such a part. Nothing behind them can be seen.

The walk is our own, because Lean's `collectAxioms` cannot be stopped.
-/

open Lean Elab Server FileWorker

namespace LeanBeam.Check

/-- Everything that has been reached. -/
private structure Reached where
  seen : Std.HashSet Name := {}
  axioms : Array Name := #[]
  sorries : Array Name := #[]
  unsafeParts : Array (Name × String) := #[]
  libraryTheorems : Nat := 0
  libraryDefinitions : Nat := 0
  importedWithoutProof : Nat := 0

private def bodyOf? : ConstantInfo → Option Expr
  | .defnInfo v => some v.value
  | .thmInfo v => some v.value
  | .opaqueInfo v => some v.value
  | _ => none

private def reaches (info : ConstantInfo) : Array Name :=
  let inType := info.type.getUsedConstants
  let inBody := ((bodyOf? info).map (·.getUsedConstants)).getD #[]
  let others := match info with
    | .inductInfo v => v.ctors.toArray
    | .ctorInfo v => #[v.induct]
    | .recInfo v => v.all.toArray
    | _ => #[]
  inType ++ inBody ++ others

private def isOurs (env : Environment) (name : Name) : Bool :=
  match env.getModuleIdxFor? name with
  | none => true
  | some idx => !isLibraryModule env.header.moduleNames[idx]!

/-- Why code behind a name may be something else than what the kernel has seen. -/
private def unsafePart? (env : Environment) (info : ConstantInfo) : Option String :=
  if info.isUnsafe then some "unsafe"
  else if info.isPartial || (env.find? (Compiler.mkUnsafeRecName info.name)).isSome && info matches .opaqueInfo _ then some "partial"
  else if (Compiler.implementedByAttr.getParam? env info.name).isSome && !info.name.isInternalDetail then some "implemented_by"
  else if isExtern env info.name then some "extern"
  else none

private def visit (env : Environment) (r : Reached) (info : ConstantInfo) : Reached := Id.run do
  let name := info.name
  let mut r := r
  if info matches .axiomInfo _ then
    match Compat.originalKind? env name with
    | none | some .axiom => r := { r with axioms := r.axioms.push name }
    | some kind =>
      if isOurs env name then
        r := { r with importedWithoutProof := r.importedWithoutProof + 1 }
      else if kind matches .thm then
        r := { r with libraryTheorems := r.libraryTheorems + 1 }
      else
        r := { r with libraryDefinitions := r.libraryDefinitions + 1 }
    return r
  if isOurs env name then
    if let some why := unsafePart? env info then
      r := { r with unsafeParts := r.unsafeParts.push (name, why) }
    if info.type.hasSorry || ((bodyOf? info).map (·.hasSorry)).getD false then
      r := { r with sorries := r.sorries.push name }
  return r

/-- Everything that is reached from some declarations. -/
private def walk (env : Environment) (roots : Array Name) (stop : Stop) : EIO RequestError Reached := do
  let mut r : Reached := {}
  let mut open_ := roots
  let mut steps := 0
  while !open_.isEmpty do
    let name := open_.back!
    open_ := open_.pop
    if r.seen.contains name then
      continue
    r := { r with seen := r.seen.insert name }
    steps := steps + 1
    if steps % 64 == 0 then
      stop.check
    let some info := env.find? name | continue
    r := visit env r info
    for next in reaches info do
      unless r.seen.contains next do
        open_ := open_.push next
  return r

/-! ## What is asked for -/

private def usual : List Name := [``propext, ``Quot.sound, ``Classical.choice]

/-- Declarations of the file that people have written. -/
private def ofFile (env : Environment) : Array Name :=
  env.constants.map₂.foldl (init := #[]) fun all name _ => all.push name

private def nameRange? (name : Name) : MetaM (Option DeclarationRanges) := do
  findDeclarationRangesCore? name

private def toLsp (r : DeclarationRange) : Lsp.Range :=
  { start := ⟨r.pos.line - 1, r.charUtf16⟩, «end» := ⟨r.endPos.line - 1, r.endCharUtf16⟩ }

private def le (a b : Lsp.Position) : Bool := a.line < b.line || a.line == b.line && a.character ≤ b.character

/-- The innermost declarations whose text holds a position; several, if one command made them. -/
private def declarationsAt (env : Environment) (pos : Lsp.Position) : MetaM (Array (Name × Lsp.Range)) := do
  let mut found : Array (Name × Lsp.Range) := #[]
  for name in ofFile env do
    if (privateToUserName name).isInternalDetail then
      continue
    if let some ranges ← nameRange? name then
      let range := toLsp ranges.range
      if le range.start pos && le pos range.end then
        found := found.push (name, range)
  let some innermost := found.foldl (fun best? f => match best? with
      | some b => if le b.start f.2.start then some f.2 else best?
      | none => some f.2) (none : Option Lsp.Range)
    | return #[]
  return found.filter (·.2 == innermost)

private def namedDeclaration (env : Environment) (name : String) : MetaM (Array (Name × Option Lsp.Range)) := do
  let found ← resolveGlobalName name.toName
  match found.filterMap fun (n, rest) => if rest.isEmpty then some n else none with
  | [] => throwError "there is no declaration `{name}` in this file or its imports; if its command has errors, ask by position or for the file"
  | names => names.toArray.mapM fun (n : Name) => do
    let range? ← if (env.getModuleIdxFor? n).isNone then nameRange? n else pure none
    return (n, range?.map (toLsp ·.range))

/-- The declaration that a hidden part of one belongs to. -/
private partial def ownerOf (name : Name) : Name :=
  if name.isInternalDetail && !name.getPrefix.isAnonymous then ownerOf name.getPrefix else name

private def owners (found : Array (Name × Option String)) : Array (Name × Option String) :=
  found.foldl (init := #[]) fun all (name, why?) =>
    let f := (ownerOf name, why?)
    if all.contains f then all else all.push f

private def finding (env : Environment) (name : Name) (why? : Option String) : MetaM CheckFinding := do
  let range? ← if (env.getModuleIdxFor? name).isNone then nameRange? name else pure none
  return { declaration := (privateToUserName name).toString, range? := range?.map (toLsp ·.selectionRange), why? }

/-- Sorries that Lean has told of where no declaration remains: in examples, and in commands that failed. -/
private def otherSorries (doc : EditableDocument) (known : Array CheckFinding) : Array CheckFinding :=
  let text := doc.meta.text
  let messages := (Compat.snapshotTree doc).getAll.foldl (init := #[]) fun all snap => all ++ snap.diagnostics.msgLog.toArray
  messages.foldl (init := #[]) fun all m =>
    if m.data.hasTag (· == `hasSorry) then
      let start := text.leanPosToLspPos m.pos
      if known.any fun f => f.range?.any (·.start == start) then all
      else all.push { declaration := "example", range? := some ⟨start, (m.endPos.map text.leanPosToLspPos).getD start⟩ }
    else all

private def sorted (names : Array Name) : Array String :=
  (names.map toString).qsort (· < ·)

private def handleCheck (p : CheckParams) : RequestM (RequestTask CheckResult) := do
  let doc ← checkDocument p.textDocument.uri p.textDocument.version?
  discard <| p.position?.mapM fun pos => EIO.ofExcept (checkPosition doc.meta.text pos)
  if p.name?.isSome && p.position?.isSome then
    throw <| invalidParams "give a name or a position, not both; neither means the whole file"
  onOwnThread fun stop => do
    discard <| awaitDocument doc stop
    let scope ← Search.scopeAt doc none stop
    let env := scope.env
    let inScope {α : Type} (x : MetaM α) : EIO RequestError α := do
      match (← scope.run default stop.token x).1 with
      | .ok (a, _) => return a
      | .error ex =>
        stop.check
        throw <| invalidParams (← ex.toMessageData.toString)
    let errors := (← visibleDiagnostics doc).filter (·.severity? matches some .error)
    let whole := p.name?.isNone && p.position?.isNone
    let roots ← inScope do
      match p.name?, p.position? with
      | some name, _ => namedDeclaration env name
      | _, some pos => return (← declarationsAt env pos).map fun (n, r) => (n, some r)
      | _, _ => return (ofFile env).map (·, none)
    let touches (d : Lsp.Diagnostic) : Bool := whole || roots.any fun (_, range?) => range?.any fun r =>
      le r.start d.fullRange.start && le d.fullRange.start r.end
    let mut errors := errors.filter touches
    if let some pos := p.position? then
      if roots.isEmpty then
        -- A command that failed has left nothing but its errors.
        errors := (← visibleDiagnostics doc).filter fun d =>
          (d.severity? matches some .error) && le d.fullRange.start pos && le pos d.fullRange.end
        if errors.isEmpty then
          throw <| invalidParams "there is no declaration at this position (an example leaves none)"
    let r ← walk env (roots.map (·.1)) stop
    let unusual := r.axioms.filter fun a => !usual.contains a && a != ``sorryAx
    let (sorries, unsafeParts) ← inScope do
      let sorries ← (owners (r.sorries.map (·, none))).mapM fun (n, why?) => finding env n why?
      let unsafeParts ← (owners (r.unsafeParts.map fun (n, why) => (n, some why))).mapM fun (n, why?) => finding env n why?
      return (sorries, unsafeParts)
    let sorries := if whole then sorries ++ otherSorries doc sorries else sorries
    let verdict :=
      if !errors.isEmpty then "errors"
      else if r.axioms.contains ``sorryAx || !sorries.isEmpty then "sorry"
      else if r.unsafeParts.any (·.2 == "unsafe") then "unsafe"
      else if !unusual.isEmpty then "axioms"
      else "proved"
    let shown ← inScope <| roots.filterMapM fun (n, _) => do
      if whole then
        let shown := privateToUserName n
        let made := shown.isInternalDetail || Search.isCompanion shown || (env.find? n).any (· matches .recInfo _)
        return if made || (← nameRange? n).isNone then none else some shown
      return some (privateToUserName n)
    let some? (n : Nat) : Option Nat := if n == 0 then none else some n
    return {
      version := doc.meta.version
      declarations := sorted shown
      verdict
      axioms := sorted r.axioms
      unusualAxioms := sorted unusual
      sorries, unsafeParts, errors
      libraryTheorems? := some? r.libraryTheorems
      libraryDefinitions? := some? r.libraryDefinitions
      importedWithoutProof? := some? r.importedWithoutProof
    }

initialize
  serve "$/beam/check" CheckParams CheckResult handleCheck

end LeanBeam.Check

import LeanBeam.Goals
import Lean.Elab.DeclarationRange
import Lean.Server.Completion.CompletionUtils

/-!
# `$/beam/search`: declarations in scope at a place

Owns the index of the imported declarations, the order of answers, and the test of one declaration. Must never decide by text what Lean
decides by unification: a type pattern is elaborated where the request stands and matched by `isDefEq`.

1. The index is made at the first search and kept: a worker imports once. It is two arrays and one long string, because this code is
   interpreted and a step of it costs a microsecond: what goes over every declaration is a call of compiled code (the names are one
   text, in which `splitOn` finds a fragment in 60 ms for 100,000 names), or stops as soon as the page is full.
2. The order of the index is the order of answers without a name: modules of the workspace before the library, then short names first.
   Declarations of the file come before all. With a name: exact last component, its beginning, a beginning of a word, elsewhere.
3. A search stops at the end of its page, at the end of its time (`budget`), or at the end of the declarations; `next` says where to go
   on, and means the same as long as the environment does (the version of the document).
4. Hidden are names that Lean makes for itself, private ones of other files, what the compiler and the recursor constructions
   make, and the unsafe axioms that stand for library helpers in the embedded toolchain.
5. A request that is stopped leaves nothing behind but a finished index.
-/

open Lean Elab Server FileWorker

namespace LeanBeam

/-- Declarations of `lean` itself, as opposed to what stands in a project or its dependencies. -/
def isLibraryModule (module : Name) : Bool :=
  [`Init, `Std, `Lean, `Lake].contains module.getRoot

namespace Search

/-! ## The index -/

structure Index where
  /-- In the order of answers. -/
  infos : Array ConstantInfo
  /-- The names, one a line. -/
  text : String
  deriving Inhabited

initialize indexRef : IO.Ref (Option Index) ← IO.mkRef none

/-- What is known of the constants that types mention, made at the first search by constants or pattern. -/
structure Mentions where
  /-- For each place in the index, what its type mentions. -/
  sets : Array NameSet
  /-- For constants that were asked for: the places whose types mention them. -/
  places : Std.HashMap Name (Array Nat) := {}

initialize mentionsRef : IO.Ref (Option Mentions) ← IO.mkRef none

/-- How many steps of interpreted code go between two looks at the request's state: about a millisecond. -/
private def stride : Nat := 256

/-- Last components of what Lean makes along with an inductive type. -/
private def companions : NameSet :=
  [`casesOn, `recOn, `below, `brecOn, `binductionOn, `ibelow, `noConfusion, `noConfusionType, `injEq, `sizeOf_spec, `toCtorIdx, `ctorIdx,
   `ctorElim, `ctorElimType, `ofNat_toCtorIdx, `ofNat_ctorIdx].foldl (·.insert ·) {}

def isCompanion : Name → Bool
  | .str _ s => companions.contains (.mkSimple s)
  | _ => true

/-- Whether an imported name is none of the user's business. -/
private def isHiddenName (name : Name) : Bool :=
  name.isInternalDetail || isPrivateName name || name.hasMacroScopes

/-- Adds the declarations of some modules, short names first. -/
private def addModules (modules : Array ModuleData) (stop : Stop) (index : Index) (lines : Array String) :
    EIO RequestError (Index × Array String) := do
  let names := modules.foldl (fun all m => all ++ m.constNames) #[]
  let infos := modules.foldl (fun all m => all ++ m.constants) #[]
  let texts := names.map Name.toString
  stop.check
  let mut byLength : Array (Array Nat) := Array.replicate 160 #[]
  for h : i in [0:names.size] do
    if i % stride == 0 then
      stop.check
    unless isHiddenName names[i] || isCompanion names[i] do
      byLength := byLength.modify (min texts[i]!.length 159) (·.push i)
  let mut index := index
  let mut lines := lines
  for same in byLength do
    stop.check
    for i in same do
      let info := infos[i]!
      -- See 4; the modules of a project have real ones.
      if info matches .axiomInfo { isUnsafe := true, .. } then
        continue
      index := { index with infos := index.infos.push info }
      lines := lines.push texts[i]!
  return (index, lines)

private def getIndex (env : Environment) (stop : Stop) : EIO RequestError Index := do
  if let some index ← indexRef.get then
    return index
  let header := env.header
  let modules := (header.moduleNames.zip header.moduleData)
  let own := modules.filter fun (name, _) => !isLibraryModule name
  let library := modules.filter fun (name, _) => isLibraryModule name
  let (index, lines) ← addModules (own.map (·.2)) stop { infos := #[], text := "" } #[]
  let (index, lines) ← addModules (library.map (·.2)) stop index lines
  let index := { index with text := "\n".intercalate lines.toList }
  indexRef.set (some index)
  return index

/-- The places whose types mention a constant, in order. -/
private def placesOf (index : Index) (constant : Name) (stop : Stop) : EIO RequestError (Array Nat) := do
  let mentions ← match ← mentionsRef.get with
    | some mentions => pure mentions
    | none =>
      let mut sets := Array.emptyWithCapacity index.infos.size
      for info in index.infos do
        if sets.size % stride == 0 then
          stop.check
        sets := sets.push info.type.getUsedConstantsAsSet
      pure { sets }
  if let some places := mentions.places[constant]? then
    return places
  let mut places := #[]
  let mut i := 0
  for set in mentions.sets do
    if set.contains constant then
      places := places.push i
    i := i + 1
  stop.check
  mentionsRef.modify fun now => some { mentions with places := (now.getD mentions).places.insert constant places }
  return places

private def otherCase (fragment : String) : String :=
  let first := fragment.front
  let other := if first.isUpper then first.toLower else first.toUpper
  other.toString ++ (fragment.drop 1).toString

/-- A fragment as it is written, and with its first letter in the other case. -/
private def variants (fragment : String) : List String :=
  let other := otherCase fragment
  if other == fragment then [fragment] else [fragment, other]

private def contains (text fragment : String) : Bool :=
  (text.splitOn fragment).length > 1

private def containsAny (text : String) (variants : List String) : Bool :=
  variants.any (contains text)

private def hasFragments (fragments : Array String) (info : ConstantInfo) : Bool :=
  let text := (privateToUserName info.name).toString
  fragments.all fun f => containsAny text (variants f)

/-- Two ascending lists as one. -/
private partial def merge (a b : Array Nat) : Array Nat :=
  if a.isEmpty then b else if b.isEmpty then a else go 0 0 #[]
where
  go (i j : Nat) (all : Array Nat) : Array Nat :=
    match a[i]?, b[j]? with
    | none, none => all
    | some x, none => go (i + 1) j (all.push x)
    | none, some y => go i (j + 1) (all.push y)
    | some x, some y => if x < y then go (i + 1) j (all.push x) else if y < x then go i (j + 1) (all.push y) else go (i + 1) (j + 1) (all.push x)

/-- Places in the index whose names hold the fragment, in order. Lines are counted by `splitOn`, too. -/
private def linesWith (index : Index) (fragment : String) (stop : Stop) : EIO RequestError (Array Nat) := do
  let mut found := #[]
  for variant in variants fragment do
    let mut lines := #[]
    let mut line := 0
    match index.text.splitOn variant with
    | [] => pure ()
    | first :: others =>
      stop.check
      line := (first.splitOn "\n").length - 1
      for piece in others do
        unless lines.back? == some line do
          lines := lines.push line
        line := line + (piece.splitOn "\n").length - 1
        if lines.size % stride == 0 then
          stop.check
    found := merge found lines
  return found

/-! ## Order by name -/

private def lastComponent (name : Name) : String :=
  match name with
  | .str _ s => s
  | other => other.toString

/-- How well a name fits one fragment; less is better. -/
private def misfit (name : Name) (text fragment : String) : Nat :=
  let vs := variants fragment
  let last := lastComponent name
  if vs.contains text || vs.contains last then 0
  else if vs.any (·.isPrefixOf last) then 1
  else if vs.any fun v => v.isPrefixOf text || contains text ("." ++ v) || contains text ("_" ++ v) || v.front.isUpper && contains text v then 2
  else 3

private def misfits (name : Name) (fragments : Array String) : Nat :=
  let text := name.toString
  fragments.foldl (fun n f => n + misfit name text f) 0

/-- More hits than this stay in the order of the index. -/
private def maxRanked : Nat := 1000

/-! ## What is searched for -/

/-- A type pattern, elaborated. -/
private structure Pattern where
  abstracted : Meta.AbstractMVarsResult
  /-- A statement or a type, as opposed to a term that may stand anywhere in one. -/
  isType : Bool
  constants : Array Name

private structure Query where
  /-- Only those that the candidates were not chosen by. -/
  fragments : Array String
  constants : Array Name
  pattern? : Option Pattern
  kinds : Array String

private def elabPattern (text : String) : Term.TermElabM Pattern := do
  let stx ← match Parser.runParserCategory (← getEnv) `term text "<pattern>" with
    | .ok stx => pure stx
    | .error e => throwError "the pattern does not parse: {e}"
  let e ← withReader (fun c => { c with ignoreTCFailures := true, errToSorry := false }) do
    let e ← Term.elabTerm stx none
    Term.synthesizeSyntheticMVars (postpone := .no) (ignoreStuckTC := true)
    instantiateMVars e
  let isType ← Meta.isType e
  -- Each use gets fresh variables, which unification may assign, for the holes (also the named ones) and what is implicit.
  return { abstracted := ← Meta.abstractMVars e, isType, constants := e.getUsedConstants }

private partial def skeleton (env : Environment) (p e : Expr) : Bool :=
  let p := p.consumeMData
  let e := e.consumeMData
  match p.getAppFn, e.getAppFn with
  | .const c _, .const c' _ =>
    if c == c' then
      let ps := p.getAppArgs
      let es := e.getAppArgs
      ps.size == es.size && (List.range ps.size).all fun i => skeleton env ps[i]! es[i]!
    else
      unfolds c || unfolds c'
  | .sort _, .const c _ | .const c _, .sort _ | .forallE .., .const c _ | .const c _, .forallE .. => unfolds c
  | .sort _, .forallE .. | .forallE .., .sort _ => false
  | _, _ => true
where
  /-- What unification sees through at the transparency of instances. -/
  unfolds (c : Name) : Bool :=
    (getReducibilityStatusCore env c matches .reducible) || Meta.isInstanceCore env c || c == ``OfNat.ofNat

/-- Unification that fails, instead of the request, when it goes too deep or too far. -/
private def unifies (a b : Expr) : MetaM Bool :=
  tryCatchRuntimeEx (Meta.isDefEq a b) fun ex => if ex.isInterrupt then throw ex else return false

/-- The hypotheses and the conclusion of a pattern. -/
private partial def arrows (p : Expr) (hyps : Array Expr) : Array Expr × Expr :=
  match p.consumeMData with
  | .forallE _ h body _ => if body.hasLooseBVars then (hyps, p) else arrows body (hyps.push h)
  | _ => (hyps, p)

/-- Where the pattern fits the statement, if it does. The statement's own variables stay what they are: an answer is an instance of the
pattern, not something that would become one. -/
private def fits? (pattern : Pattern) (type : Expr) : MetaM (Option String) := do
  let env ← getEnv
  Meta.forallTelescope type fun hyps body => do
    -- In here, since the holes may be filled with the variables.
    let (_, _, p) ← Meta.openAbstractMVarsResult pattern.abstracted
    if !pattern.isType then
      -- A term, anywhere.
      if (← Meta.kabstract body p).hasLooseBVars then
        return some "conclusion"
      for h in hyps do
        if (← Meta.kabstract (← Meta.inferType h) p).hasLooseBVars then
          return some "hypothesis"
      return none
    let (wantedHyps, wanted) := arrows p #[]
    if skeleton env wanted body then
      let saved ← Meta.saveState
      if ← unifies wanted body then
        if ← wantedHyps.allM fun h => hyps.anyM fun hyp => do unifies h (← Meta.inferType hyp) then
          return some "conclusion"
      saved.restore
    if wantedHyps.isEmpty then
      for hyp in hyps do
        let hypType ← Meta.inferType hyp
        if skeleton env wanted hypType then
          let saved ← Meta.saveState
          if ← unifies wanted hypType then
            return some "hypothesis"
          saved.restore
    return none

/-! ## One declaration -/

private def kindOf (info : ConstantInfo) : MetaM String := do
  let env ← getEnv
  match info with
  | .inductInfo _ => return if isClass env info.name then "class" else if isStructure env info.name then "structure" else "inductive"
  | .ctorInfo _ => return "constructor"
  | .recInfo _ => return "recursor"
  | .quotInfo _ => return "quotient"
  | .opaqueInfo _ => return if ← Meta.isInstance info.name then "instance" else "opaque"
  | .thmInfo _ => return "theorem"
  -- The public part of a module has types only, of theorems and of definitions that are not exposed; so has the embedded library.
  | .axiomInfo _ => match Compat.originalKind? env info.name with
    | some .thm => return "theorem"
    | some .defn => return if ← Meta.isInstance info.name then "instance" else "def"
    | some .opaque => return "opaque"
    | _ => return "axiom"
  | .defnInfo _ =>
    if ← Meta.isInstance info.name then
      return "instance"
    return if getReducibilityStatusCore env info.name matches .reducible then "abbrev" else "def"

private def allKinds : List String :=
  ["theorem", "def", "abbrev", "instance", "axiom", "opaque", "inductive", "structure", "class", "constructor", "recursor", "quotient"]

/-- Where a module's source is, if it is known here. -/
def sourceOf? (module : Name) : BaseIO (Option String) := do
  match ← (documentUriFromModule? module).toBaseIO with
  | .ok uri? => return uri?
  | .error _ => return none

private def describe (doc : EditableDocument) (info : ConstantInfo) (kind : String) (place? : Option String) : MetaM SearchHit := do
  let env ← getEnv
  let signature ← tryCatchRuntimeEx (do return (← PrettyPrinter.ppSignature info.name).fmt.pretty) fun ex =>
    if ex.isInterrupt then throw ex else return info.name.toString
  let (module, origin, uri?) ← match env.getModuleIdxFor? info.name with
    | none => pure (doc.meta.mod, "file", some doc.meta.uri)
    | some idx =>
      let module := env.header.moduleNames[idx]!
      let uri? ← sourceOf? module
      let inPackage := uri?.any fun uri => (uri.splitOn "/.lake/packages/").length > 1
      pure (module, if isLibraryModule module then "library" else if inPackage then "package" else "workspace", uri?)
  let range? := (← findDeclarationRanges? info.name).map fun r =>
    let r := r.selectionRange
    ({ start := ⟨r.pos.line - 1, r.charUtf16⟩, «end» := ⟨r.endPos.line - 1, r.endCharUtf16⟩ } : Lsp.Range)
  return {
    name := (privateToUserName info.name).toString
    kind, signature, module := module.toString, origin
    uri? := if range?.isSome then uri? else none
    range?, matched? := place? }

private inductive Verdict where
  | no
  | hit (kind : String) (place? : Option String)

/-- Whether a declaration is an answer; the cheap questions first. -/
private def judge (q : Query) (mentioned : NameSet) (info : ConstantInfo) : MetaM Verdict := do
  unless q.fragments.isEmpty || hasFragments q.fragments info do
    return .no
  unless q.constants.all mentioned.contains do
    return .no
  let mut place? := none
  if let some pattern := q.pattern? then
    unless pattern.constants.all mentioned.contains do
      return .no
    let saved ← Meta.saveState
    place? ← Core.withCurrHeartbeats <| tryCatchRuntimeEx (fits? pattern info.type) fun ex =>
      if ex.isInterrupt then throw ex else return none
    saved.restore
    if place?.isNone then
      return .no
  let kind ← kindOf info
  if q.kinds.isEmpty || q.kinds.contains kind then
    return .hit kind place?
  return .no

/-! ## The search -/

/-- Candidates, those of the file first. -/
private inductive Candidates where
  | all (own : Array ConstantInfo) (index : Index)
  | some (infos : Array ConstantInfo)

private def Candidates.size : Candidates → Nat
  | .all own index => own.size + index.infos.size
  | .some infos => infos.size

private def Candidates.get! : Candidates → Nat → ConstantInfo
  | .all own index, i => if i < own.size then own[i]! else index.infos[i - own.size]!
  | .some infos, i => infos[i]!

/-- Case does not matter in this one: Lean's own fuzzy match (compiled) picks, and what it picks is looked at. -/
private def anyCase (index : Index) (fragments : Array String) (longest : String) (stop : Stop) : EIO RequestError (Array Nat) := do
  let lower := fragments.map String.toLower
  let others := lower.filter (· != longest.toLower)
  let longest := longest.toLower
  let mut found := #[]
  let mut i := 0
  for line in index.text.splitOn "\n" do
    if i % stride == 0 then
      stop.check
    if FuzzyMatching.fuzzyMatch longest line && others.all (FuzzyMatching.fuzzyMatch · line) then
      let text := line.toLower
      if lower.all (contains text) then
        found := found.push i
    i := i + 1
  return found

private def ownDeclarations (env : Environment) : Array ConstantInfo :=
  let all := env.constants.map₂.foldl (init := #[]) fun all name info =>
    let shown := privateToUserName name
    if shown.isInternalDetail || name.hasMacroScopes || isCompanion shown then all else all.push info
  all.qsort fun a b =>
    let (a, b) := (a.name.toString, b.name.toString)
    a.length < b.length || a.length == b.length && a < b

private def byName (own : Array ConstantInfo) (index : Index) (fragments : Array String) (longest : String) (stop : Stop) :
    EIO RequestError Candidates := do
  let mut lines ← linesWith index longest stop
  if fragments.size > 1 then
    lines := lines.filter fun i => hasFragments fragments index.infos[i]!
  let own := own.filter (hasFragments fragments)
  if lines.isEmpty && own.isEmpty then
    lines ← anyCase index fragments longest stop
  let all := own ++ lines.map (index.infos[·]!)
  if all.size > maxRanked then
    return .some all
  let mut ranked : Array (Nat × Nat) := #[]
  for h : i in [0:all.size] do
    if i % stride == 0 then
      stop.check
    ranked := ranked.push (misfits (privateToUserName all[i].name) fragments, i)
  let inOrder := ranked.qsort fun a b => a.1 < b.1 || a.1 == b.1 && a.2 < b.2
  return .some (inOrder.map fun (_, i) => all[i]!)

/-- What narrows the search most, of what is cheap: the name; else the constant that came into the world last, because the late ones
are mentioned least. Nearly every name holds a fragment of a letter or two: these are left to the test of each candidate. -/
private def candidates (env : Environment) (q : Query) (index : Index) (stop : Stop) :
    EIO RequestError (Candidates × Query) := do
  let own := ownDeclarations env
  let longest := q.fragments.foldl (fun best f => if best.length < f.length then f else best) ""
  if longest.length > 2 then
    return (← byName own index q.fragments longest stop, { q with fragments := #[] })
  let mentioned := q.constants ++ (q.pattern?.map (·.constants)).getD #[]
  if let some first := mentioned[0]? then
    -- A constant of the file itself is mentioned nowhere else.
    let age (c : Name) : Nat := ((env.getModuleIdxFor? c).map (·.toNat)).getD env.header.moduleNames.size
    let youngest := mentioned.foldl (fun best c => if age best < age c then c else best) first
    let places ← if (env.getModuleIdxFor? youngest).isSome then placesOf index youngest stop else pure #[]
    return (.some (own ++ places.map (index.infos[·]!)), q)
  return (.all own index, q)

/-- Milliseconds after which a search gives what it has found. -/
private def budget : Nat := 2000

private def defaultLimit : Nat := 20
private def maxLimit : Nat := 200

private structure Page where
  hits : Array SearchHit := #[]
  next? : Option Nat := none
  outOfTime : Bool := false

private def collect (doc : EditableDocument) (q : Query) (cs : Candidates) (start limit deadline : Nat) : MetaM Page := do
  let needsMentions := !q.constants.isEmpty || q.pattern?.isSome
  let mut page : Page := {}
  for i in [start:cs.size] do
    if page.hits.size ≥ limit then
      return { page with next? := some i }
    if i % 16 == 0 then
      Core.checkInterrupted
      if (← IO.monoMsNow) > deadline && i > start then
        return { page with next? := some i, outOfTime := true }
    let info := cs.get! i
    let mentioned := if needsMentions then info.type.getUsedConstantsAsSet else {}
    if let .hit kind place? ← judge q mentioned info then
      page := { page with hits := page.hits.push (← describe doc info kind place?) }
  return page

/-- The scope of a basis, without its goals. -/
def scopeOf : Basis → ProofState
  | .proof s => { s with goals := [] }
  | .command s =>
    let scope := s.scopes.headD { header := "" }
    { env := s.env, options := scope.opts, currNamespace := scope.currNamespace, openDecls := scope.openDecls, declName? := none
      levelNames := scope.levelNames, mctx := {}, goals := [], ngen := s.ngen, auxDeclNGen := s.auxDeclNGen
      nextMacroScope := s.nextMacroScope }

/-- The scope at a position, or behind the last command; waits until all of it has passed the kernel. -/
def scopeAt (doc : EditableDocument) (pos? : Option String.Pos.Raw) (stop : Stop) : EIO RequestError ProofState := do
  let basis? ← match pos? with
    | some pos => findBasis? doc pos stop
    | none => pure <| (← stop.await (Compat.allCommands doc)).getLast?.map fun s => Basis.command s.cmdState
  let some basis := basis?
    | throw <| invalidParams "there is no environment at this position (is the header in order?)"
  let scope := scopeOf basis
  stop.await (Compat.kernelChecked scope.env)
  return scope

private def constantsOf (names : Array String) : MetaM (Array Name) :=
  names.mapM fun (name : String) => do
    let found ← resolveGlobalName name.toName
    match found.filterMap fun (n, rest) => if rest.isEmpty then some n else none with
    | n :: _ => return n
    | [] => throwError "there is no constant `{name}` here"

private def handleSearch (p : SearchParams) : RequestM (RequestTask SearchResult) := do
  let doc ← checkDocument p.textDocument.uri p.textDocument.version?
  let pos? ← p.position?.mapM fun pos => EIO.ofExcept (checkPosition doc.meta.text pos)
  let fragments := ((p.name?.getD "").splitToList Char.isWhitespace).toArray.filter (!·.isEmpty)
  let constants := p.constants?.getD #[]
  let kinds := p.kinds?.getD #[]
  if fragments.isEmpty && constants.isEmpty && p.pattern?.isNone then
    throw <| invalidParams "search for something: give `name`, `constants` or `pattern`"
  if let some unknown := kinds.find? (!allKinds.contains ·) then
    throw <| invalidParams s!"unknown kind '{unknown}'; the kinds are {", ".intercalate allKinds}"
  let limit := p.limit?.getD defaultLimit
  unless 0 < limit && limit ≤ maxLimit do
    throw <| invalidParams s!"limit must be from 1 to {maxLimit}"
  onOwnThread fun stop => do
    let scope ← scopeAt doc pos? stop
    let index ← getIndex scope.env stop
    let search : MetaM Page := do
      let constants ← constantsOf constants
      let pattern? ← p.pattern?.mapM fun text => (elabPattern text).run' { declName? := scope.declName? }
      match ← (candidates scope.env { fragments, constants, pattern?, kinds } index stop).toBaseIO with
      | .ok (cs, q) =>
        -- The making of the index does not count: it would leave nothing for the first search.
        let deadline := (← IO.monoMsNow) + budget
        Meta.withTransparency .instances <| collect doc q cs (p.start?.getD 0) limit deadline
      -- The request is to stop, and says so itself.
      | .error _ => throw <| .internal interruptExceptionId
    let (r, _) ← scope.run default stop.token search
    match r with
    | .ok (page, _) =>
      return { version := doc.meta.version, hits := page.hits, next? := page.next?, outOfTime? := if page.outOfTime then some true else none }
    | .error ex =>
      stop.check
      throw <| invalidParams (← ex.toMessageData.toString)

initialize
  serve "$/beam/search" SearchParams SearchResult handleSearch

end Search

end LeanBeam

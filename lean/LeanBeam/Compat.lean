import Lean.Server.FileWorker.RequestHandling
-- For the C code: whichever module has it in a release, Lean's own command line imports it.
import Lean.Shell

/-!
# Access to Lean that differs between releases

Owns every use of a Lean API that is known, or likely, to change between the supported releases (4.28 and later), so that
a new release is dealt with in this file alone. Must never hold behaviour of ours.

Where two releases disagree, the definition lists the alternatives with the releases they are for (`release%`). The last one is for all
later releases as well, so one that breaks it stops the build of the extension with an error at the accessor: an
older form that happens to typecheck is never taken in its place. Where it is not known in which of two releases something
changed, both alternatives allow for both, and the elaborator of the toolchain at hand takes the first one that it understands. Only an
alternative that fits nowhere else (it names what the others lack) may be for all releases without being the last.
-/

open Lean Server FileWorker Language

namespace LeanBeam.Compat

/-- One alternative: the minor version of the first release it is for and of the last, if there is a last. -/
syntax releaseAlternative := " | " num " .. " (num)? " => " term

/-- `release% | 28 .. 30 => old | 31 .. => new` is the alternative for the toolchain at hand. -/
syntax (name := releaseTerm) "release%" releaseAlternative+ : term

macro_rules
  | `(release% $alternatives:releaseAlternative*) => do
    let fitting ← alternatives.filterMapM fun alternative => match alternative with
      | `(releaseAlternative| | $first:num .. $[$last?:num]? => $e) =>
        let fits := Lean.version.major == 4 && first.getNat ≤ Lean.version.minor && last?.all (Lean.version.minor ≤ ·.getNat)
        return if fits then some e else none
      | _ => Macro.throwUnsupported
    if fitting.isEmpty then
      Macro.throwError s!"nothing is known for Lean {Lean.versionString}"
    `(by first $[| exact $fitting]*)

/-- Tasks that finish when the request is cancelled by the client, or overtaken by an edit.
They finish with `none` when the request is dropped instead. -/
def stopSignals (tk : RequestCancellationToken) : List (Task (Option Unit)) :=
  [tk.requestCancellationPromise.result?, tk.editCancellationPromise.result?]

/-- The result of Lean's own "goals at position" search, which waits only for the snapshots it needs. -/
def goalsAt (doc : EditableDocument) (pos : String.Pos.Raw) : Task (Option (List Elab.GoalsAtResult)) :=
  release%
  | 28 .. => (findGoalsAt? doc pos).task
  | 28 .. => findGoalsAt? doc pos

/-- The first command snapshot (the header counts as one) that satisfies `p`; waits for the commands before it. -/
def findCommand (doc : EditableDocument) (p : Snapshots.Snapshot → Bool) :
    Task (Except IO.Error (Option Snapshots.Snapshot)) :=
  release%
  | 28 .. => (doc.cmdSnaps.waitFind? p).task
  | 28 .. => doc.cmdSnaps.waitFind? p

/-- All command snapshots, the header first, once the whole document is elaborated. -/
def allCommands (doc : EditableDocument) : Task (List Snapshots.Snapshot) :=
  release%
  | 28 .. => (doc.cmdSnaps.waitAll).task.map (sync := true) (·.1)
  | 28 .. => (doc.cmdSnaps.waitAll).map (sync := true) (·.1)

/-- Finishes when Lean has reported every snapshot of this document version (or was told to stop by an edit). -/
def reported (doc : EditableDocument) : Task Unit :=
  release%
  | 28 .. => doc.reporter.task
  | 28 .. => doc.reporter

/-- The diagnostics collected so far for this document version. Releases with a diagnostics mutex (4.32 and later) add
the sticky ones ("Imports are out of date ..."); before that the sticky ones are out of a request handler's reach. -/
def currentDiagnostics (doc : EditableDocument) : BaseIO (Array Lsp.Diagnostic) :=
  release%
  | 28 .. => do return (← doc.diagnosticsRef.get).map (·.toDiagnostic)
  | 31 .. => do return (← doc.collectCurrentDiagnostics).toArray.map (·.toDiagnostic)

/-- Modules named by the header, without the implicit `Init`, and without the nameless one of a malformed `import`. -/
def headerImports (doc : EditableDocument) : Array Name :=
  (Elab.headerToImports ⟨doc.initSnap.stx⟩ (includeInit := false)).map (·.module) |>.filter (!·.isAnonymous)

/-- The document's whole snapshot tree. -/
def snapshotTree (doc : EditableDocument) : SnapshotTree :=
  toSnapshotTree doc.initSnap

/-- The messages of a snapshot tree, as far as it is there. -/
partial def finishedMessages (tree : SnapshotTree) : BaseIO (Array Message) :=
  tree.children.foldlM (init := tree.element.diagnostics.msgLog.toArray) fun all child => do
    if ← IO.hasFinished child.task then return all ++ (← finishedMessages child.get) else return all

/-- The info trees of a command, those of its asynchronous parts included. -/
def infoTrees (command : Snapshots.Snapshot) : Task (PersistentArray Elab.InfoTree) :=
  command.cmdState.infoState.substituteLazy.map (sync := true) (·.trees)

/-- The declaration whose body an environment belongs to, if it is restricted to one: only names below it may be added. -/
def bodyOf? (env : Environment) : Option Name := env.asyncPrefix?

/-- Finishes when everything in `env` has passed the kernel. -/
def kernelChecked (env : Environment) : Task Unit :=
  env.checked.map (sync := true) fun _ => ()

/-- Whether a task is the kernel's check of a declaration that has already been entered in the environment. -/
def isKernelCheck (task : SnapshotTask SnapshotTree) : Bool :=
  task.reportingRange matches .skip

/-- The task behind the answer to a request. -/
def taskOf (t : RequestTask α) : Task (Except RequestError α) :=
  release%
  | 28 .. => t.task
  | 28 .. => t

/-- The part of `s` between two byte positions. -/
def slice (s : String) (start stop : String.Pos.Raw) : String :=
  release%
  | 28 .. => String.Pos.Raw.extract s start stop
  | 28 .. => s.extract start stop

/-- A parser that skips leading blanks and comments and then wants one phrase of a syntax category. -/
def categoryFn (category : Name) : Parser.ParserFn :=
  Parser.andthenFn Parser.whitespace (Parser.categoryParserFn category)

/-- Context for running elaborators outside of the file. Heartbeats start afresh. -/
def coreContext (text : FileMap) (options : Options) (currNamespace : Name) (openDecls : List OpenDecl)
    (cancelTk : IO.CancelToken) : BaseIO Core.Context := do
  return {
    fileName := "<runAt>"
    fileMap := text
    options, currNamespace, openDecls
    maxRecDepth := maxRecDepth.get options
    maxHeartbeats := Core.getMaxHeartbeats options
    initHeartbeats := ← IO.getNumHeartbeats
    inheritedTraceOptions := ← inheritedTraceOptions.get
    -- Hygiene: names made by a probe must not coincide with those made by the file, whose own context names end in `_hygCtx`.
    quotContext := `_leanBeam
    cancelTk? := some cancelTk
  }

/-- The unifier settings under which commands, and so the tactics in them, elaborate. -/
def metaContext : Meta.Context := {
  keyedConfig := Meta.Config.toConfigWithKey { foApprox := true, ctxApprox := true, quasiPatternApprox := true }
}

/-- Messages that nothing has shown yet. -/
def unreported (log : MessageLog) : Array Message :=
  if log.hasUnreported then log.unreported.toArray else #[]

/-- What stands behind the last command, as a batch compile takes it; waits for it. -/
def finalState? (doc : EditableDocument) : Option Elab.Command.State :=
  Lean.Language.Lean.waitForFinalCmdState? doc.initSnap

/-- The messages of each snapshot together with the command they belong to. -/
partial def commandMessages (tree : SnapshotTree) (stx? : Option Syntax := none) : Array (Option Syntax × MessageLog) :=
  tree.children.foldl (init := #[(stx?, tree.element.diagnostics.msgLog)]) fun all child =>
    all ++ commandMessages child.get (child.stx? <|> stx?)

/-- The environment as a batch compile writes it: later releases put the linters' messages in. -/
def withLints (doc : EditableDocument) (env : Environment) : IO Environment :=
  release%
  | 31 .. => do return (← Linter.recordLints doc.meta.text env (commandMessages (snapshotTree doc)))
  -- Before it kept the places of commands.
  | 31 .. 33 => do return (← Linter.recordLints env ((commandMessages (snapshotTree doc)).foldl (init := {}) (· ++ ·.2)))
  | 28 .. 30 => (fun _ => pure env) doc

/-- Writes the `.olean`, and for a file with a `module` header the rest of its family, named after the first. -/
def writeModule (env : Environment) (options : Options) (olean : System.FilePath) : IO Unit :=
  release%
  | 29 .. => Lean.writeModule (writeIR := !(Compiler.compiler.postponeCompile.get options)) env olean
  | 28 .. 30 => (fun _ => Lean.writeModule env olean) options

/-- The text of the `.ilean` that a batch compile writes. From the trees of whole commands: those of their parts, which a server keeps
as well, do not know the declaration they stand in. -/
def ilean (doc : EditableDocument) (commands : List Snapshots.Snapshot) (module : Name) : IO String := do
  let trees := commands.toArray.flatMap fun command => (infoTrees command).get.toArray
  let (references, decls) ← (findModuleRefs doc.meta.text trees (localVars := false)).toLspModuleRefs
  let ilean : Ilean := { module, directImports := collectImports ⟨doc.initSnap.stx⟩, references, decls }
  return (toJson ilean).compress

/-- The text of the C file that a batch compile writes. -/
def emitC (env : Environment) (options : Options) : IO String :=
  release%
  | 30 .. => Prod.fst <$> (Compiler.LCNF.emitC env.mainModule).toIO { fileName := "", fileMap := default, options } { env }
  | 28 .. 30 => (fun _ => IO.ofExcept (IR.emitC env env.mainModule)) options

/-- What a constant was where it was declared: the public part of a module has axioms in the place of what it does not expose. -/
def originalKind? (env : Environment) (name : Name) : Option ConstantKind := by
  first
  | exact getOriginalConstKind? env name
  | exact (env.find? name).map (ConstantKind.ofConstantInfo ·)

end LeanBeam.Compat

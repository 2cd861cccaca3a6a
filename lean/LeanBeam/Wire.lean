import Lean.Server.FileSource

/-!
# Parameters and results of our requests

Owns the JSON shapes. Keys are the field names; a field whose name ends in `?` is optional and left out when absent; unknown
keys are tolerated. Must never hold logic.
-/

open Lean

namespace LeanBeam

/-- A document together with the version the client believes it has. -/
structure DocumentAtVersion where
  uri : String
  version : Nat
  deriving FromJson

/-- A document; the version is checked only if the client gives one. -/
structure DocumentRef where
  uri : String
  version? : Option Nat := none
  deriving FromJson

/-- Refers to a stored state; see `LeanBeam.RunAt`. -/
structure HandleRef where
  value : String
  deriving FromJson, ToJson

structure RunAtParams where
  textDocument : DocumentAtVersion
  position : Lsp.Position
  text : String
  storeHandle? : Option Bool := none
  /-- Whether the kernel is to check what the text proved. -/
  kernel? : Option Bool := none
  /-- `json`, `text`, `targets`, `count` or `none`; absent means `json`. -/
  goals? : Option String := none
  /-- `full` or `changed`; absent means `full`. -/
  state? : Option String := none
  deriving FromJson

structure RunWithParams where
  textDocument : DocumentRef
  handle : HandleRef
  text : String
  storeHandle? : Option Bool := none
  linear? : Option Bool := none
  /-- Whether the kernel is to check what the text proved. -/
  kernel? : Option Bool := none
  /-- `json`, `text`, `targets`, `count` or `none`; absent means `json`. -/
  goals? : Option String := none
  /-- `full` or `changed`; absent means `full`. -/
  state? : Option String := none
  deriving FromJson

structure ReleaseParams where
  textDocument : DocumentRef
  handle : HandleRef
  deriving FromJson

structure GoalsParams where
  textDocument : DocumentRef
  position : Lsp.Position
  /-- Whether the answer is to have `at` and `hint`. -/
  explain? : Option Bool := none
  /-- `json`, `text`, `targets`, `count` or `none`; absent means `json`. -/
  goals? : Option String := none
  deriving FromJson

structure GoalsAroundParams where
  textDocument : DocumentRef
  position : Lsp.Position
  /-- `before`, `after` or `both`; absent means `both`. -/
  mode? : Option String := none
  /-- `json`, `text`, `targets`, `count` or `none`; absent means `json`. -/
  goals? : Option String := none
  /-- `full` or `changed`; absent means `full`. -/
  state? : Option String := none
  deriving FromJson

structure SearchParams where
  textDocument : DocumentRef
  /-- Absent means behind the last command. -/
  position? : Option Lsp.Position := none
  /-- Fragments of the name, separated by blanks; all must occur. -/
  name? : Option String := none
  /-- Constants that the type must mention, as one would write them at the position. -/
  constants? : Option (Array String) := none
  /-- A type, or a term in it, with holes. -/
  pattern? : Option String := none
  kinds? : Option (Array String) := none
  limit? : Option Nat := none
  /-- `next` of the answer before. -/
  start? : Option Nat := none
  deriving FromJson

structure CheckParams where
  textDocument : DocumentRef
  /-- A declaration, as one would write it behind the last command. -/
  name? : Option String := none
  /-- A place in a declaration. -/
  position? : Option Lsp.Position := none
  deriving FromJson

structure SnippetParams where
  textDocument : DocumentRef
  text : String
  /-- A place in `text` whose goals are wanted. -/
  position? : Option Lsp.Position := none
  goals? : Option String := none
  deriving FromJson

structure CodeActionsParams where
  textDocument : DocumentRef
  range : Lsp.Range
  deriving FromJson

structure BarrierParams where
  uri : String
  version : Nat
  deriving FromJson

/-- Names its document as the barrier does (`uri` and `version`), or as the other requests do (`textDocument`). -/
structure ReadinessParams where
  textDocument : DocumentAtVersion

instance : FromJson ReadinessParams where
  fromJson? json := return { textDocument := ← (json.getObjValAs? _ "textDocument").orElseLazy fun _ => fromJson? json }

/-- Absolute paths. All that Lean can write is named, whether or not it will be: what the module has no use for is removed, so that
no part of an older family stays beside a newer one. -/
structure SaveOutputs where
  olean : String
  ilean : String
  oleanServer? : Option String := none
  oleanPrivate? : Option String := none
  ir? : Option String := none
  /-- From the release on that splits the `.ir` file. -/
  irSig? : Option String := none
  c? : Option String := none
  deriving FromJson

structure SaveParams where
  textDocument : DocumentAtVersion
  /-- The text that the client means; see `SaveReadiness.textHash`. -/
  textHash : String
  /-- The module that the client takes the file for. -/
  module : String
  outputs : SaveOutputs
  deriving FromJson

structure TodoParams where
  textDocument : DocumentAtVersion
  /-- Absent means the whole file. An end outside of it stands for the end of the line, or of the file. -/
  range? : Option Lsp.Range := none
  /-- Absent or empty means all. -/
  kinds? : Option (Array String) := none
  /-- `none` or `basic`; absent means `basic`. -/
  suggest? : Option String := none
  deriving FromJson

instance : Lsp.FileSource RunAtParams where
  fileSource p := Lsp.fileSource (⟨p.textDocument.uri⟩ : Lsp.TextDocumentIdentifier)
instance : Lsp.FileSource RunWithParams where
  fileSource p := Lsp.fileSource (⟨p.textDocument.uri⟩ : Lsp.TextDocumentIdentifier)
instance : Lsp.FileSource ReleaseParams where
  fileSource p := Lsp.fileSource (⟨p.textDocument.uri⟩ : Lsp.TextDocumentIdentifier)
instance : Lsp.FileSource GoalsParams where
  fileSource p := Lsp.fileSource (⟨p.textDocument.uri⟩ : Lsp.TextDocumentIdentifier)
instance : Lsp.FileSource GoalsAroundParams where
  fileSource p := Lsp.fileSource (⟨p.textDocument.uri⟩ : Lsp.TextDocumentIdentifier)
instance : Lsp.FileSource SearchParams where
  fileSource p := Lsp.fileSource (⟨p.textDocument.uri⟩ : Lsp.TextDocumentIdentifier)
instance : Lsp.FileSource CheckParams where
  fileSource p := Lsp.fileSource (⟨p.textDocument.uri⟩ : Lsp.TextDocumentIdentifier)
instance : Lsp.FileSource SnippetParams where
  fileSource p := Lsp.fileSource (⟨p.textDocument.uri⟩ : Lsp.TextDocumentIdentifier)
instance : Lsp.FileSource CodeActionsParams where
  fileSource p := Lsp.fileSource (⟨p.textDocument.uri⟩ : Lsp.TextDocumentIdentifier)
instance : Lsp.FileSource BarrierParams where
  fileSource p := Lsp.fileSource (⟨p.uri⟩ : Lsp.TextDocumentIdentifier)

instance : Lsp.FileSource ReadinessParams where
  fileSource p := Lsp.fileSource (⟨p.textDocument.uri⟩ : Lsp.TextDocumentIdentifier)
instance : Lsp.FileSource SaveParams where
  fileSource p := Lsp.fileSource (⟨p.textDocument.uri⟩ : Lsp.TextDocumentIdentifier)
instance : Lsp.FileSource TodoParams where
  fileSource p := Lsp.fileSource (⟨p.textDocument.uri⟩ : Lsp.TextDocumentIdentifier)

/-- One or more adjacent hypotheses of the same type; a let binding is alone. -/
structure Hyp where
  names : Array String
  type : String
  value? : Option String := none
  deriving ToJson

structure Goal where
  userName? : Option String := none
  /-- The turnstile and a space, or `| ` in conversion mode. -/
  goalPrefix : String
  target : String
  hyps : Array Hyp
  deriving ToJson

structure Goals where
  goals : Array Goal
  deriving ToJson

/-- What is said of a proof state: one of the first four, by the form that was asked for. -/
structure GoalsView where
  goals? : Option (Array Goal) := none
  text? : Option (Array String) := none
  targets? : Option (Array String) := none
  count? : Option Nat := none
  /-- With `state: changed`: for each goal, how many hypotheses were left out. -/
  unchangedHyps? : Option (Array Nat) := none
  /-- With `state: changed`, if there are any: for each goal, names of hypotheses that are there no more. -/
  removedHyps? : Option (Array (Array String)) := none
  deriving ToJson

structure GoalsAround where
  before? : Option GoalsView := none
  after? : Option GoalsView := none
  /-- With `state: changed`: `after` is as `before`, and left out. -/
  stateUnchanged? : Option Bool := none
  /-- Only where there is no tactic: one goal, whose target is the type. -/
  expectedType? : Option GoalsView := none
  deriving ToJson

structure ProbeMessage where
  /-- `information`, `warning` or `error`. -/
  severity : String
  text : String
  deriving ToJson

/-- Where a request was taken to be. -/
structure Place where
  /-- The line of the position, cut after 120 characters. -/
  lineText : String
  /-- What is run or shown there: `tactic` or `command`. -/
  basis : String
  deriving ToJson

/-- What to do about a text that did not run. -/
structure Hint where
  /-- `severalTactics`, `severalCommands`, `leadingBy`, `fence`, `prose`,
  `commandInProof`, `notInProof`, `otherLine`, `notReached`. -/
  code : String
  text : String
  deriving ToJson

/-- The answer to a request for goals. -/
structure GoalsAnswer extends GoalsView where
  /-- Both only if the request has `explain`. -/
  at? : Option Place := none
  /-- `notReached`, where an error in front of the position keeps Lean from running what stands there. -/
  hint? : Option Hint := none
  deriving ToJson

structure ProbeResult where
  success : Bool
  messages : Array ProbeMessage
  traces : Array String
  /-- What the success does not say: `sorry`, `recursion`, `unsafe`; see `LeanBeam.Caveats`. -/
  caveats? : Option (Array String) := none
  /-- Only with a failure. For a handle, the position it was made at. -/
  at? : Option Place := none
  /-- Only with a failure, and where the grammar knows something that helps. -/
  hint? : Option Hint := none
  /-- Only for a proof basis; an empty goal list means solved. -/
  proofState? : Option GoalsView := none
  /-- With `state: changed`: the state is as before, and left out. -/
  stateUnchanged? : Option Bool := none
  handle? : Option HandleRef := none
  deriving ToJson

/-- An error diagnostic that stands in the way of saving. -/
structure BlockingDiagnostic where
  range : Lsp.Range
  severity? : Option Lsp.DiagnosticSeverity := none
  message : String
  saveBlocking : Bool
  completionBlocking : Bool
  deriving ToJson

/-- An error message that has no diagnostic of its own. -/
structure BlockingMessage where
  message : String
  saveBlocking : Bool
  completionBlocking : Bool
  deriving ToJson

structure SaveReadiness where
  version : Nat
  /-- 16 lower-case hex digits; see `LeanBeam.Barrier`. -/
  textHash : String
  currentDiagnostics : Array Lsp.Diagnostic
  currentWarningCount : Nat
  saveReady : Bool
  /-- `ok`, `documentErrors` or `documentDidNotElaborateSuccessfully`. -/
  saveReadyReason : String
  saveReadyMessage? : Option String := none
  blockingDiagnostics : Array BlockingDiagnostic
  blockingCommandMessages : Array BlockingMessage
  deriving ToJson

/-- A `sorry` in a finished text, in whatever form it is written. -/
structure SorryItem where
  line : Nat
  character : Nat
  /-- Absent where there is no name: in an `example`. -/
  declaration? : Option String := none
  deriving ToJson

structure BarrierResult where
  version : Nat
  directImports : Array String
  saveReadiness : SaveReadiness
  /-- The first hundred; absent if there are none. -/
  sorries? : Option (Array SorryItem) := none
  /-- How many there are, if that is more than `sorries` has. -/
  sorriesTotal? : Option Nat := none
  deriving ToJson

structure ReadinessResult where
  version : Nat
  saveReadiness : SaveReadiness
  deriving ToJson

/-- One artifact that was written. -/
structure SavedFile where
  path : String
  /-- Lake's content hash, 16 lower-case hex digits. -/
  hash : String
  deriving ToJson

structure SavedFiles where
  olean : SavedFile
  ilean : SavedFile
  oleanServer? : Option SavedFile := none
  oleanPrivate? : Option SavedFile := none
  ir? : Option SavedFile := none
  irSig? : Option SavedFile := none
  c? : Option SavedFile := none
  deriving ToJson

structure SaveResult where
  version : Nat
  textHash : String
  module : String
  /-- Whether the file has a `module` header, and so a family of artifacts. -/
  isModule : Bool
  written : SavedFiles
  deriving ToJson

structure SearchHit where
  name : String
  kind : String
  /-- As Lean's `#check` shows it. -/
  signature : String
  module : String
  /-- `file` (the document), `workspace`, `package` (a dependency) or `library` (Lean's own). -/
  origin : String
  uri? : Option String := none
  /-- Of the name in its source. -/
  range? : Option Lsp.Range := none
  /-- With a pattern: `conclusion` or `hypothesis`. -/
  matched? : Option String := none
  deriving ToJson

structure SearchResult where
  version : Nat
  hits : Array SearchHit
  /-- Where to go on; absent at the end. -/
  next? : Option Nat := none
  /-- The search stopped because of the time it took, and may have found less than was asked for. -/
  outOfTime? : Option Bool := none
  deriving ToJson

/-- A declaration that is not what it claims to be, or not checked. -/
structure CheckFinding where
  declaration : String
  /-- Of its name, if it stands in the document. -/
  range? : Option Lsp.Range := none
  /-- For unsafe parts: `unsafe`, `partial`, `implemented_by` or `extern`. -/
  why? : Option String := none
  deriving ToJson

structure CheckResult where
  version : Nat
  /-- The declarations that were looked at. -/
  declarations : Array String
  /-- `proved`, `sorry`, `axioms`, `unsafe` or `errors`; see `LeanBeam.Check`. -/
  verdict : String
  /-- All axioms that are reached, `sorryAx` too, but not what only stands for a theorem or definition. -/
  axioms : Array String
  /-- Those of them that are not Lean's usual three. -/
  unusualAxioms : Array String
  /-- Declarations outside of the library that have a `sorry` in themselves. -/
  sorries : Array CheckFinding
  /-- Declarations outside of the library with unsafe parts. -/
  unsafeParts : Array CheckFinding
  errors : Array Lsp.Diagnostic
  /-- Theorems of Lean's own library that are reached and whose proofs are not there, if there are any. -/
  libraryTheorems? : Option Nat := none
  libraryDefinitions? : Option Nat := none
  /-- The same for theorems and definitions of other imported modules. -/
  importedWithoutProof? : Option Nat := none
  deriving ToJson

structure SnippetDiagnostic where
  range : Lsp.Range
  /-- `information`, `warning` or `error`. -/
  severity : String
  message : String
  deriving ToJson

structure SnippetResult where
  success : Bool
  /-- What was in scope at the start. -/
  imports : Array String
  diagnostics : Array SnippetDiagnostic
  /-- What `#eval` and the like printed. -/
  output? : Option String := none
  /-- With a position: what there is at it, if anything. -/
  goals? : Option GoalsAround := none
  deriving ToJson

structure ResolvedAction where
  title : String
  kind? : Option String := none
  isPreferred? : Option Bool := none
  edit? : Option Lsp.WorkspaceEdit := none
  /-- Why there is no edit. -/
  unresolved? : Option String := none
  deriving ToJson

structure CodeActionsResult where
  version : Nat
  actions : Array ResolvedAction
  deriving ToJson

structure TodoItem where
  kind : String
  range : Lsp.Range
  /-- Where a probe meets the state the item is about. -/
  runAtPosition : Lsp.Position
  runAtText? : Option String := none
  message? : Option String := none
  /-- The type wanted of a term: of `sorry` and of a hole, where they are terms. -/
  expectedType? : Option String := none
  /-- LSP severity, 1 (error) to 4 (hint). -/
  severity? : Option Lsp.DiagnosticSeverity := none
  diagnostic? : Option Lsp.Diagnostic := none
  codeAction? : Option Lsp.CodeAction := none
  proofState? : Option Goals := none
  deriving ToJson

structure TodoResult where
  version : Nat
  /-- The range that was looked at. -/
  range : Lsp.Range
  /-- How many lines the file has; the last one may be empty. -/
  lineCount : Nat
  items : Array TodoItem
  deriving ToJson

end LeanBeam

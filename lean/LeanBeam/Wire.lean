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
  deriving FromJson

structure RunWithParams where
  textDocument : DocumentRef
  handle : HandleRef
  text : String
  storeHandle? : Option Bool := none
  linear? : Option Bool := none
  deriving FromJson

structure ReleaseParams where
  textDocument : DocumentRef
  handle : HandleRef
  deriving FromJson

structure GoalsParams where
  textDocument : DocumentRef
  position : Lsp.Position
  deriving FromJson

structure BarrierParams where
  uri : String
  version : Nat
  deriving FromJson

structure TodoParams where
  textDocument : DocumentAtVersion
  range : Lsp.Range
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
instance : Lsp.FileSource BarrierParams where
  fileSource p := Lsp.fileSource (⟨p.uri⟩ : Lsp.TextDocumentIdentifier)

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

structure ProbeMessage where
  /-- `information`, `warning` or `error`. -/
  severity : String
  text : String
  deriving ToJson

structure ProbeResult where
  success : Bool
  messages : Array ProbeMessage
  traces : Array String
  /-- Only for a proof basis; an empty goal list means solved. -/
  proofState? : Option Goals := none
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

structure BarrierResult where
  version : Nat
  directImports : Array String
  saveReadiness : SaveReadiness
  deriving ToJson

structure TodoItem where
  kind : String
  range : Lsp.Range
  /-- Where a probe meets the state the item is about. -/
  runAtPosition : Lsp.Position
  runAtText? : Option String := none
  message? : Option String := none
  /-- LSP severity, 1 (error) to 4 (hint). -/
  severity? : Option Lsp.DiagnosticSeverity := none
  diagnostic? : Option Lsp.Diagnostic := none
  codeAction? : Option Lsp.CodeAction := none
  proofState? : Option Goals := none
  deriving ToJson

structure TodoResult where
  version : Nat
  range : Lsp.Range
  items : Array TodoItem
  deriving ToJson

end LeanBeam

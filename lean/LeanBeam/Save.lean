import LeanBeam.Barrier

/-!
# `$/beam/saveReadiness` and `$/beam/saveArtifacts`: the verdict alone, and the checkpoint

Owns the artifacts of the worker's own snapshot: which files there are, what is in them, and how they take the place of older ones.
Must never write anything else, nor anything from a document that is not finished, not ready, or not the one the client means.

What is written is what a batch compile writes, by the same functions of Lean, from the environment behind the last command. The
names in it (private ones, that of the module) were made while the file was elaborated; a worker that took the file for another
module than the client does cannot make good artifacts of it, and refuses.

1. Every file is written under another name beside its target first, and nothing is touched before all of them are there.
2. All old files or all new ones: old ones are kept as hard links until the last new one is in place, and put back if one fails.
   Each file by itself is whole at every moment. A process that is killed in between the renames leaves a mixture; the client has
   taken away the trace before, so nobody trusts it.
3. What Lean no longer writes for this file is removed together with the rest (a reader finds the parts of a family by their names),
   and so are the hashes that Lake keeps beside the old files (it would trust them).
4. One commit at a time. A request that is cancelled or overtaken by an edit before its commit changes nothing; once the commit has
   begun it is carried through, and answered as such.
5. No file of ours stays, whatever the outcome. What a killed process left beside a target is removed by a later save of the same
   module, when it is an hour old.
-/

open Lean Server FileWorker System

namespace LeanBeam

/-- Lake's content hash of an artifact. Texts are no exception: Lean writes them with `\n` everywhere, and Lake knows. -/
private def contentHash (bytes : ByteArray) : String := hex16 (hash bytes)

/-- One file of the set. -/
private structure Part where
  /-- Its name among the outputs. -/
  kind : String
  /-- None: Lean writes no such file for this module, and an older one has to go. -/
  staged? : Option FilePath
  target : FilePath
  hash : String := ""

/-- The family that `writeModule` makes out of the path of the first, by the names of the outputs. -/
private def family (olean : FilePath) : List (String × FilePath) :=
  [("olean", olean), ("oleanServer", olean.addExtension "server"), ("oleanPrivate", olean.addExtension "private"),
   ("ir", olean.withExtension "ir"), ("irSig", olean.withExtension "ir.sig")]

private def targetOf (outputs : SaveOutputs) : String → Option FilePath
  | "olean" => some outputs.olean
  | "ilean" => some outputs.ilean
  | "oleanServer" => outputs.oleanServer?.map (⟨·⟩)
  | "oleanPrivate" => outputs.oleanPrivate?.map (⟨·⟩)
  | "ir" => outputs.ir?.map (⟨·⟩)
  | "irSig" => outputs.irSig?.map (⟨·⟩)
  | "c" => outputs.c?.map (⟨·⟩)
  | _ => none

private def kinds : List String := ["olean", "oleanServer", "oleanPrivate", "ir", "irSig", "ilean", "c"]

/-- The type of what stands at a path; symbolic links are not followed. -/
private def typeAt (path : FilePath) : BaseIO (Option IO.FS.FileType) := do
  match ← path.symlinkMetadata.toBaseIO with
  | .ok data => return some data.type
  | .error _ => return none

private def folderOf (path : FilePath) : FilePath := path.parent.getD "/"

/-- A name beside `target`. Hidden, and without an extension that means something to those who look for artifacts. -/
private def beside (target : FilePath) (mark suffix : String) : FilePath :=
  folderOf target / s!".{target.fileStem.getD ""}.{mark}.{suffix}"

/-- Makes sure that every target can be written: absolute, in a folder that exists now, no folder itself, named once. -/
private def checkTargets (targets : List (String × FilePath)) : ExceptT RequestError IO Unit := do
  let mut seen : List FilePath := []
  for (kind, target) in targets do
    unless target.isAbsolute && target.fileName.isSome do
      throw <| invalidParams s!"the path of {kind} is not absolute: {target}"
    IO.FS.createDirAll (folderOf target)
    if (← typeAt target) matches some .dir then
      throw <| invalidParams s!"the path of {kind} is a folder: {target}"
    let real := (← IO.FS.realPath (folderOf target)) / target.fileName.getD ""
    if seen.contains real then
      throw <| invalidParams s!"two outputs have the same path: {target}"
    seen := real :: seen

private def removeIfThere (path : FilePath) : IO Unit := do
  if (← typeAt path).isSome then
    IO.FS.removeFile path

/-- Removes all that bears the mark in the folders of the targets, without complaint: this is the way out of a failure. -/
private def removeMarked (targets : List (String × FilePath)) (mark : String) : BaseIO Unit := do
  let folders := (targets.map fun (_, target) => folderOf target).eraseDups
  for folder in folders do
    if let .ok entries ← folder.readDir.toBaseIO then
      for entry in entries do
        if (entry.fileName.splitOn s!".{mark}.").length > 1 then
          discard <| (IO.FS.removeFile entry.path).toBaseIO

/-- Removes what other processes left beside a target an hour ago or earlier, by the clock of the file system. -/
private def removeLeftovers (target staged : FilePath) : IO Unit := do
  let now := (← staged.metadata).modified.sec
  for entry in ← (folderOf target).readDir do
    if entry.fileName.startsWith s!".{target.fileStem.getD ""}.beam-" then
      if let .ok data ← entry.path.symlinkMetadata.toBaseIO then
        if data.modified.sec + 3600 < now then
          removeIfThere entry.path

/-- Keeps the old file under another name. The target stays where it is. -/
private def keep (target backup : FilePath) : IO Unit := do
  try
    IO.FS.hardLink target backup
  catch _ =>
    -- A file system without links.
    IO.FS.writeBinFile backup (← IO.FS.readBinFile target)

/-- Takes back the parts that are in place already, the last first; gives what could not be put back. -/
private def rollBack (placed : List (Part × Option FilePath)) : BaseIO (List String) := do
  let mut lost := []
  for (part, backup?) in placed do
    let undo : IO Unit := match backup? with
      | some backup => IO.FS.rename backup part.target
      | none => removeIfThere part.target
    if let .error e ← undo.toBaseIO then
      lost := s!"{part.target}: {e}" :: lost
  return lost

/-- Puts all parts in place, or none. What bears the mark is the caller's to remove. -/
private def commit (parts : List Part) (mark : String) : IO Unit := do
  let mut backups : List (Part × Option FilePath) := []
  for part in parts do
    if (← typeAt part.target).isSome then
      let backup := beside part.target mark s!"{part.kind}.old"
      keep part.target backup
      backups := (part, some backup) :: backups
    else
      backups := (part, none) :: backups
  let mut placed := []
  for (part, backup?) in backups.reverse do
    try
      match part.staged? with
      | some staged => IO.FS.rename staged part.target
      | none => removeIfThere part.target
    catch e =>
      let lost ← rollBack placed
      unless lost.isEmpty do
        throw <| IO.userError s!"{e}; and these could not be put back: {"; ".intercalate lost}"
      throw e
    placed := (part, backup?) :: placed

/-- Commits of this process, one at a time. -/
initialize commits : Std.Mutex Unit ← Std.Mutex.new ()

/-- The commit, without regard to cancellation once it has begun; see 4. -/
private def commitAlone (check : IO Unit) (parts : List Part) (mark : String) : IO Unit :=
  commits.atomically do
    check
    commit parts mark

/-- Writes everything under the mark. Gives the whole set, what has to go included. -/
private def stage (doc : EditableDocument) (commands : List Snapshots.Snapshot) (state : Elab.Command.State)
    (outputs : SaveOutputs) (mark : String) (check : IO Unit) : ExceptT RequestError IO (List Part) := do
  let options := state.scopes.head?.map (·.opts) |>.getD {}
  let env ← Compat.withLints doc state.env
  let olean := beside outputs.olean mark "olean"
  Compat.writeModule env options olean
  check
  let known := family olean
  for entry in ← (folderOf olean).readDir do
    if (entry.fileName.splitOn s!".{mark}.").length > 1 && !known.any (·.2.fileName == some entry.fileName) then
      throw { code := .internalError, message := s!"this release of Lean writes an artifact that is unknown here: {entry.fileName}" }
  let mut parts := []
  for (kind, staged) in known do
    if ← staged.pathExists then
      let some target := targetOf outputs kind
        | throw <| invalidParams s!"this module has a file for `{kind}`; give its path"
      parts := { kind, staged? := some staged, target, hash := contentHash (← IO.FS.readBinFile staged) } :: parts
    else if let some target := targetOf outputs kind then
      parts := { kind, staged? := none, target } :: parts
  check
  let text (kind : String) (target : FilePath) (contents : String) : IO Part := do
    let staged := beside target mark s!"{kind}.new"
    IO.FS.writeFile staged contents
    return { kind, staged? := some staged, target, hash := contentHash contents.toUTF8 }
  parts := (← text "ilean" outputs.ilean (← Compat.ilean doc commands env.mainModule)) :: parts
  check
  if let some c := outputs.c? then
    parts := (← text "c" c (← Compat.emitC env options)) :: parts
    check
  -- Lake keeps the hash of a file in another beside it, and trusts that.
  let hashes := parts.map fun part => { kind := s!"{part.kind}Hash", staged? := none, target := part.target.addExtension "hash" }
  return parts.reverse ++ hashes

/-- A cancellation, carried through code that only knows errors of input and output. -/
private def interrupted : String := "interrupted"

/-- The work of a save on a document that is ready. -/
private def publish (doc : EditableDocument) (commands : List Snapshots.Snapshot) (state : Elab.Command.State) (outputs : SaveOutputs)
    (stop : Stop) : EIO RequestError (List Part) := do
  let targets := kinds.filterMap fun kind => (targetOf outputs kind).map (kind, ·)
  let unwanted : IO Bool := do
    return (← stop.request.wasCancelledByCancelRequest) || (← stop.request.wasCancelledByEdit)
  let check : IO Unit := do if ← unwanted then throw <| IO.userError interrupted
  let work : ExceptT RequestError IO (List Part) := do
    checkTargets targets
    let mark := s!"beam-{hex16 (hash (← IO.getRandomBytes 16))}"
    try
      let parts ← stage doc commands state outputs mark check
      if let some staged := parts.findSome? (·.staged?) then
        -- Tidying up is no reason to fail.
        discard <| (targets.forM fun (_, target) => removeLeftovers target staged : IO Unit).toBaseIO
      liftM (m := IO) <| commitAlone check parts mark
      return parts
    finally
      removeMarked targets mark
  match ← work.run.toBaseIO with
  | .ok (.ok parts) => return parts
  | .ok (.error e) => throw e
  | .error e =>
    stop.check
    throw { code := .internalError, message := s!"no artifact was changed: {e}" }

private def handleReadiness (p : ReadinessParams) : RequestM (RequestTask ReadinessResult) := do
  let doc ← checkDocument p.textDocument.uri p.textDocument.version
  onOwnThread fun stop => do
    let commands ← awaitDocument doc stop
    return { version := doc.meta.version, saveReadiness := ← judge doc commands }

private def refusal (verdict : SaveReadiness) (p : SaveParams) : Option RequestError :=
  if verdict.textHash != p.textHash then
    some { code := .contentModified,
           message := s!"textHashMismatch: expected {p.textHash}, the document's text has {verdict.textHash}" }
  else if !verdict.saveReady then
    some <| invalidParams s!"the document is not ready to be saved ({verdict.saveReadyReason}): {verdict.saveReadyMessage?.getD ""}"
  else
    none

private def savedFiles (parts : List Part) : SavedFiles :=
  let file? kind := parts.find? (fun part => part.kind == kind && part.staged?.isSome) |>.map fun part =>
    { path := part.target.toString, hash := part.hash : SavedFile }
  let file kind := (file? kind).getD { path := "", hash := "" }
  { olean := file "olean", ilean := file "ilean", oleanServer? := file? "oleanServer", oleanPrivate? := file? "oleanPrivate"
    ir? := file? "ir", irSig? := file? "irSig", c? := file? "c" }

private def handleSave (p : SaveParams) : RequestM (RequestTask SaveResult) := do
  let doc ← checkDocument p.textDocument.uri p.textDocument.version
  onOwnThread (settled := true) fun stop => do
    let commands ← awaitDocument doc stop
    let verdict ← judge doc commands
    if let some e := refusal verdict p then throw e
    let some state := Compat.finalState? doc
      | throw <| invalidParams "there is no state behind the last command"
    let module := state.env.mainModule
    unless module.toString == p.module || module.toString (escape := false) == p.module do
      throw <| invalidParams s!"moduleMismatch: the worker elaborated this file as {module}, not as {p.module}; \
        the source folder of the module has to be on its LEAN_SRC_PATH"
    let parts ← publish doc commands state p.outputs stop
    return { version := verdict.version, textHash := verdict.textHash, module := p.module
             isModule := state.env.header.isModule, written := savedFiles parts }

initialize
  serve "$/beam/saveReadiness" ReadinessParams ReadinessResult handleReadiness
  serve "$/beam/saveArtifacts" SaveParams SaveResult handleSave

end LeanBeam

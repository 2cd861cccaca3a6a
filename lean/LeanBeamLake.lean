import Lake
import Lake.Load.Workspace

/-!
# What only Lake knows

    lake env lean --load-dynlib=<libLake_shared> --run LeanBeamLake.lean <command> <json>

Owns what a save needs of Lake: which module a file is, where its artifacts go, whether all that it depends on is built, and the trace
that makes Lake accept the artifacts a worker has written. Prints one line of JSON on standard output; everything for people goes to
standard error. Must never build anything, change a configuration, update a toolchain, or make up a fact of Lake's.

A process of its own, since Lake may end the process it runs in: with exit code 3 and without an answer, when something would have to
be built. Not part of the extension, and elaborated at each run: Lake's library is large, and nobody else needs it.

* `target {root, path}`: `{module, package, isModule, artifacts: {olean, ...}, trace, leanArgs, weakLeanArgs, options, plugins, dynlibs}`.
* `trace {root, path, textHash}`: `{trace, sourceHash}`. The artifacts are in place already. Lake itself makes the trace, as at the end of
  any build: it is given a compiler that does nothing, and does it for this one module only. So the trace has the shape and the
  contents of the toolchain's own Lake, whichever release that is. A source that has changed on the disk since the save gets no trace.
* Any failure: `{"error": {"kind", "message"}}`. Kinds: `notModule`, `traceStale`, `sourceChanged`, `configuration`, `usage`, `failed`.
-/

open Lean System Lake

namespace LeanBeamLake

/-- A failure with a kind, as opposed to one of input and output. -/
structure Failure where
  kind : String
  message : String

abbrev M := ExceptT Failure IO

structure Params where
  root : String
  path : String
  /-- `hash` of the text that was saved, 16 hex digits. -/
  textHash? : Option String := none
  deriving FromJson

/-- What fits the toolchain at hand, as in `LeanBeam.Compat`, which this program does not import: a minor version is the last release
that the second alternative is for. A later one that has not the first stops the program here. -/
macro "current% " new:term " until " last:num " => " old:term : term => do
  if Lean.version.major == 4 && Lean.version.minor ≤ last.getNat then
    `(by first | exact $new | exact $old)
  else
    return new

/-- Later releases split the `.ir` file. -/
def irSigFile? (mod : Lake.Module) : Option FilePath :=
  current% some mod.irSigFile until 32 => (fun _ => none) mod

/-- Without Lake's store of artifacts, which would put its own in the place of ours. A package may still ask for it. -/
def withoutCache (env : Env) : Env :=
  current% { env with enableArtifactCache? := some false } until 30 => { env with enableArtifactCache := false }

/-- The workspace as it is: nothing is updated, and nothing is fetched that is not there. `adjust` may change where Lake finds what. -/
def load (root : FilePath) (adjust : Env → Env := id) : M Workspace := do
  let (elan?, lean?, lake?) ← findInstall?
  let some lean := lean?
    | throw ⟨"configuration", "Lake finds no Lean; run this under `lake env`"⟩
  let lake := lake?.getD (LakeInstall.ofLean lean)
  let env ← match ← (Env.compute lake lean elan? (noCache := some true)).toBaseIO with
    | .ok env => pure env
    | .error e => throw ⟨"configuration", e⟩
  let config : LoadConfig := { lakeEnv := adjust env, wsDir := root, reconfigure := false, updateDeps := false, updateToolchain := false }
  let some workspace ← (loadWorkspace config).toBaseIO
    | throw ⟨"configuration", "Lake cannot load the workspace; what it says is above"⟩
  return workspace

def findModule (workspace : Workspace) (path : FilePath) : M Lake.Module := do
  let some mod := workspace.findModuleBySrc? path
    | throw ⟨"notModule", s!"{path} is not a module of any package of the workspace"⟩
  return mod

/-- Runs a job of Lake's without building. Ends the process with code 3 if something would have to be built. -/
def withoutBuilding (workspace : Workspace) (job : FetchM (Job α)) : M α := do
  match ← (workspace.runBuild job { noBuild := true, verbosity := .quiet, out := .stderr }).toBaseIO with
  | .ok a => return a
  | .error e => throw ⟨"traceStale", s!"a dependency of the module is not up to date: {e}"⟩

def artifacts (mod : Lake.Module) : Json :=
  let file (path : FilePath) : Json := path.toString
  let all := [("olean", file mod.oleanFile), ("oleanServer", file mod.oleanServerFile), ("oleanPrivate", file mod.oleanPrivateFile),
    ("ir", file mod.irFile), ("ilean", file mod.ileanFile), ("c", file mod.cFile)]
  Json.mkObj <| all
    ++ (irSigFile? mod |>.map fun path => ("irSig", file path)).toList
    ++ if Lean.Internal.hasLLVMBackend () then [("bc", file mod.bcFile)] else []

def target (p : Params) : M Json := do
  let workspace ← load (← IO.FS.realPath p.root)
  let mod ← findModule workspace (← IO.FS.realPath p.path)
  let setup ← withoutBuilding workspace mod.setup.fetch
  return json% {
    module: $(mod.name.toString),
    package: $(mod.pkg.prettyName),
    isModule: $(setup.isModule),
    artifacts: $(artifacts mod),
    trace: $(mod.traceFile.toString),
    leanArgs: $(mod.leanArgs),
    weakLeanArgs: $(mod.weakLeanArgs),
    options: $(toJson setup.options),
    plugins: $(setup.plugins.map (·.toString)),
    dynlibs: $(setup.dynlibs.map (·.toString))
  }

/-- In single quotes, for a shell. -/
def quoted (text : String) : String := s!"'{text.replace "'" "'\\''"}'"

/-- A compiler that accepts the module whose artifacts are there, and no other. -/
def standIn (folder olean : FilePath) : IO FilePath := do
  let program := folder / "lean"
  IO.FS.writeFile program <|
    s!"#!/bin/sh\nfor word; do\n  [ \"$word\" = {quoted olean.toString} ] && exit 0\ndone\n" ++
    "echo 'this would have to be built first' >&2\nexit 1\n"
  IO.setAccessRights program { user := { read := true, write := true, execution := true } }
  return program

/-- 16 lower-case hex digits. -/
def hex16 (n : UInt64) : String :=
  let digits := String.ofList (Nat.toDigits 16 n.toNat)
  "".pushn '0' (16 - digits.length) ++ digits

def ofHex? (text : String) : Option UInt64 := do
  guard (text.length == 16)
  let value ← text.foldl (init := some 0) fun n c => do
    let n ← n
    let digit ← if c.isDigit then some (c.toNat - '0'.toNat)
      else if 'a' ≤ c && c ≤ 'f' then some (c.toNat - 'a'.toNat + 10) else none
    return n * 16 + digit
  return value.toUInt64

/-- Whether the source is still the text that was saved, and since when it is what it is. -/
def sourceState (path : FilePath) (textHash : UInt64) : IO (Bool × IO.FS.SystemTime) := do
  let changed := (← path.metadata).modified
  return (hash (← IO.FS.readFile path).crlfToLf == textHash, changed)

def removeIfThere (path : FilePath) : IO Unit := do
  if ← path.pathExists then
    IO.FS.removeFile path

def trace (p : Params) : M Json := do
  let some textHash := p.textHash?.bind ofHex?
    | throw ⟨"usage", "textHash: 16 hex digits are wanted"⟩
  -- Lake's `Hash.ofText` of the same text.
  let sourceHash := hex16 (mixHash 1723 textHash)
  let root ← IO.FS.realPath p.root
  let path ← IO.FS.realPath p.path
  let mod ← findModule (← load root) path
  unless ← mod.oleanFile.pathExists do
    throw ⟨"failed", s!"{mod.oleanFile} is missing"⟩
  let folder ← IO.FS.createTempDir
  try
    let program ← standIn folder mod.oleanFile
    let workspace ← load root fun env => withoutCache { env with lean := { env.lean with lean := program } }
    let mod ← findModule workspace path
    let before ← sourceState path textHash
    -- Lake trusts these, and they are those of the old files.
    mod.clearOutputHashes
    removeIfThere mod.traceFile
    let built ← (workspace.runBuild mod.leanArts.fetch { verbosity := .quiet, out := .stderr }).toBaseIO
    if let .error e := built then
      removeIfThere mod.traceFile
      throw ⟨"traceStale", s!"Lake does not accept the artifacts of {mod.name}: {e}"⟩
    -- Lake has read the source in between. Comparing the times finds a text that was changed and changed back.
    let after ← sourceState path textHash
    unless before.1 && after.1 && before.2 == after.2 do
      removeIfThere mod.traceFile
      throw ⟨"sourceChanged", s!"{path} has changed since it was saved; Lake will build the module anew"⟩
    unless ← mod.traceFile.pathExists do
      throw ⟨"failed", s!"Lake made no trace at {mod.traceFile}"⟩
    return json% { trace: $(mod.traceFile.toString), sourceHash: $sourceHash }
  finally
    IO.FS.removeDirAll folder

def run (args : List String) : M Json := do
  let [command, text] := args
    | throw ⟨"usage", "LeanBeamLake.lean target|trace <json>"⟩
  let p ← match Json.parse text >>= fromJson? with
    | .ok (p : Params) => pure p
    | .error e => throw ⟨"usage", e⟩
  match command with
  | "target" => target p
  | "trace" => trace p
  | _ => throw ⟨"usage", s!"there is no command `{command}`"⟩

def answer (args : List String) : IO Json := do
  match ← (run args).run.toBaseIO with
  | .ok (.ok result) => return result
  | .ok (.error e) => return json% { error: { kind: $(e.kind), message: $(e.message) } }
  | .error e => return json% { error: { kind: "failed", message: $(toString e) } }

end LeanBeamLake

def main (args : List String) : IO UInt32 := do
  IO.println (← LeanBeamLake.answer args).compress
  return 0

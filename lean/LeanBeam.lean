import LeanBeam.Actions
import LeanBeam.Check
import LeanBeam.RunAt
import LeanBeam.Save
import LeanBeam.Search
import LeanBeam.Snippet
import LeanBeam.Todo
import Lean.Server.FileWorker

/-!
# The lean-beam server extension, and the worker's main function

Importing this module into a program adds our requests to Lean's file worker; see `README.md`. `workerMain` runs the worker as
`lean --worker` would. Must never touch the standard streams: they are the worker's.

What Lean's `--worker` does beyond calling `workerMain` (`Lean/Shell.lean`, the same in 4.28 and later): it starts from the options built
into the binary (none in releases), adds those of the command line, and sets the memory limit, the allocation limit, the
stack size and the number of threads of the process (`-M`, `-T`, `-s`, `-j`). The latter are settings of the process, so
they belong in front of `--run`, where Lean's driver applies them before it calls us. Everything else that a worker needs
(`Elab.async`, `Elab.inServer`, options from Lake) is set by `workerMain` itself.
-/

open Lean

namespace LeanBeam

/-- Adds one `name=value`, typed if the option is known here, else as text, for the document's own elaboration to type once
its imports, which may bring the option, are known. -/
private def addOption (opts : Options) (arg : String) : IO Options := do
  let name :: rest@(_ :: _) := arg.splitOn "="
    | throw <| IO.userError s!"expected -Dname=value, got -D{arg}"
  let value := "=".intercalate rest
  match (← getOptionDecls).find? name.toName with
  | some decl => Language.Lean.setOption opts decl name.toName value
  | none => return opts.set name.toName value

private unsafe def runInitializersUnsafe : IO Unit := enableInitializersExecution

/-- Lets the document's imports run their `initialize` blocks, without which no attribute, environment extension or other state of a
library exists. Lean allows this to a process once, for one import; `lean --run` has spent it on the worker program.
The state is the process's, and a worker imports for one document only, as under `lean --worker`. -/
@[implemented_by runInitializersUnsafe]
private opaque runInitializers : IO Unit

/-- Arguments: `-Dname=value`, any number; anything else that does not begin with a dash is ignored (a watchdog passes the
document's URI, which the worker reads from `didOpen`). Does not return in the normal course: Lean's worker ends the process. -/
def workerMain (args : List String) : IO UInt32 := do
  let mut opts : Options := {}
  for arg in args do
    if arg.startsWith "-D" then
      opts ← addOption opts (arg.drop 2).toString
    else if arg.startsWith "-" then
      IO.eprintln s!"unknown argument {arg}"
      return 1
  runInitializers
  Server.FileWorker.workerMain opts

end LeanBeam

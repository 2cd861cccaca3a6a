import Lean.Elab.Frontend

/-!
Compiles modules one after the other in this one process: `lean --run build.lean A.B C …`, in an order that respects their imports, from
the folder that holds the sources and gets the `.olean` files (and is on `LEAN_PATH`).

Why not `lean -o` for each: under WebAssembly every process begins with cold code, and that costs several times what the module itself
does.
-/

open Lean

def build (module : String) : IO (Option Environment) := do
  let path := module.replace "." "/"
  let source ← IO.FS.readFile s!"{path}.lean"
  Elab.runFrontend source {} s!"{path}.lean" module.toName (oleanFileName? := some s!"{path}.olean")

/-- Unsafe because it frees the imported files' memory: 100 MB and more a module, and there are 2 GB in all. What the frontend returned
has been written out, and nothing of it is used any more; but tasks of the module may still be about to end, so it is
freed when the next module is done. -/
unsafe def main (modules : List String) : IO UInt32 := do
  let out ← IO.getStdout
  let mut previous : Option Environment := none
  for module in modules do
    let begun ← IO.monoMsNow
    let some env ← build module |
      -- The exit code of `main` is lost in this build, that of an uncaught error is not.
      throw <| IO.userError s!"{module} does not compile"
    if let some done := previous then
      done.freeRegions
    previous := env
    out.putStrLn s!"#built {module} {(← IO.monoMsNow) - begun} ms"
    out.flush
  return 0

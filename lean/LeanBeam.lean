import LeanBeam.RunAt
import LeanBeam.Barrier
import LeanBeam.Todo
import LeanBeam.Worker

/-!
# The lean-beam server extension

Importing this module into a program that runs Lean's file worker adds our requests to it; see `README.md`.
-/

structure Point where
  x : Nat
  y : Nat
  deriving Repr, DecidableEq, BEq, Hashable, Inhabited

def total (xs : Array Nat) : Nat := Id.run do
  let mut sum := 0
  for x in xs do
    sum := sum + x
  return sum

theorem linear (a b : Nat) (h : a < b) : a + 1 ≤ b := by omega
theorem mapped (xs : List Nat) : (xs.map id).length = xs.length := by simp
example (p q : Prop) (hp : p) (hq : q) : p ∧ q := by constructor <;> assumption

syntax "twice! " term : term
macro_rules
  | `(twice! $t) => `($t + $t)

#eval total #[1, 2, 3]
#eval (Point.mk 1 2, Point.mk 1 2 == default, (["b", "a"].map String.length))
#eval twice! 21
#eval (do IO.println s!"{Lean.versionString.isEmpty}"; return 7 : IO Nat)

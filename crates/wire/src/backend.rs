//! Which proof assistant an operation speaks to.

use crate::field::choices;

choices! {
    /// Which proof assistant an operation speaks to.
    Backend {
        /// Lean 4.
        Lean = "lean",
        /// Rocq through coq-lsp.
        Rocq = "rocq",
    }
}

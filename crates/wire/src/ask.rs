//! Questions about declarations and texts: search, check, snippet, diagnostics, code actions.

use beam_base::Utf16Range;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::field::{NonEmpty, choices, fields};
use crate::observed::StreamDiagnostic;
use crate::run::{Goals, GoalsForm};

choices! {
    /// What a declaration was declared as.
    DeclarationKind {
        /// `theorem`, `lemma`.
        Theorem = "theorem",
        /// `def`.
        Def = "def",
        /// `abbrev`.
        Abbrev = "abbrev",
        /// `instance`.
        Instance = "instance",
        /// `axiom`.
        Axiom = "axiom",
        /// `opaque`.
        Opaque = "opaque",
        /// `inductive`.
        Inductive = "inductive",
        /// `structure`.
        Structure = "structure",
        /// `class`.
        Class = "class",
        /// A constructor.
        Constructor = "constructor",
        /// A recursor.
        Recursor = "recursor",
        /// Part of the quotient type.
        Quotient = "quotient",
    }
    /// What a declaration, or a file, is worth.
    CheckVerdict {
        /// There are errors.
        Errors = "errors",
        /// `sorryAx` is reached.
        Sorry = "sorry",
        /// An unsafe declaration outside of the library is reached.
        Unsafe = "unsafe",
        /// An axiom beside `propext`, `Quot.sound` and `Classical.choice` is reached.
        Axioms = "axioms",
        /// None of these.
        Proved = "proved",
    }
    /// Severity of a diagnostic, as a filter.
    SeverityName {
        /// LSP 1.
        Error = "error",
        /// LSP 2.
        Warning = "warning",
        /// LSP 3.
        Information = "information",
        /// LSP 4.
        Hint = "hint",
    }
}

fields! {
    /// Declarations in scope, by parts of their name, by constants that their type mentions, or by a pattern of their type.
    Search {
        /// The file, absolute or relative to the root.
        path "path": NonEmpty,
        /// Version of the document.
        version "version": u64 [note "of lean_update"],
        optional
        /// Parts of the name, separated by blanks; all of them occur.
        name "name": String [note "parts of the name"],
        /// Constants that the type mentions, all of them.
        constants "constants": Vec<String> [note "that the type mentions"],
        /// A term with holes that the statement matches.
        pattern "pattern": String [note "with holes: _ + _ = _ + _"],
        /// Kinds of declarations that are wanted; all by default.
        kinds "kinds": Vec<DeclarationKind> [note "default all"],
        /// Line of the position at which things are in scope, from 0; by default behind the last command.
        line "line": u32,
        /// UTF-16 unit in that line, from 0.
        character "character": u32,
        /// At most so many, 1 to 200.
        limit "limit": u64 [default "20"],
        /// Where the answer before stopped.
        start "start": u64 [note "next of the answer before"],
    }

    /// What a declaration, or all of a file, rests on: axioms, sorries, unsafe parts, and a verdict.
    Check {
        /// The file, absolute or relative to the root.
        path "path": NonEmpty,
        /// Version of the document.
        version "version": u64 [note "of lean_update"],
        optional
        /// A declaration by its name; without name and position all of the file.
        name "name": NonEmpty,
        /// Line of a position in the declaration, from 0.
        line "line": u32,
        /// UTF-16 unit in that line, from 0.
        character "character": u32,
    }

    /// Run a text of several commands in the environment of a file's header, without a file on disk; then it is gone.
    Snippet {
        /// The file whose imports are used, absolute or relative to the root.
        path "path": NonEmpty,
        /// Version of the document.
        version "version": u64 [note "of lean_update"],
        /// The text. It may have imports if they are the file's.
        text "text": String,
        optional
        /// Line of a position in the text whose goals are wanted, from 0.
        line "line": u32,
        /// UTF-16 unit in that line, from 0.
        character "character": u32,
        /// In which form goals are shown.
        goals "goals": GoalsForm [default "\"json\""],
    }

    /// The code actions of some lines, each with its edit. Nothing is applied.
    CodeActions {
        /// The file, absolute or relative to the root.
        path "path": NonEmpty,
        /// Version of the document.
        version "version": u64 [note "of lean_update"],
        /// First line, from 0.
        line "line": u32,
        optional
        /// Last line, from 0; the first by default.
        end_line "endLine": u32,
    }

    /// The diagnostics of a file, filtered. Waits as sync does.
    DiagnosticsOf {
        /// The file, absolute or relative to the root.
        path "path": NonEmpty,
        /// Version of the document.
        version "version": u64 [note "of lean_update"],
        optional
        /// Severities that are wanted; all by default.
        severities "severities": Vec<SeverityName> [note "default all"],
        /// First line, from 0.
        line "line": u32,
        /// Last line, from 0.
        end_line "endLine": u32,
        /// Only those whose message has this text.
        contains "contains": String,
    }
}

/// What a search found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SearchResult {
    /// The version it is about.
    pub version: u64,
    /// Best first.
    pub hits: Vec<SearchHit>,
    /// Where to go on; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
    /// It stopped after two seconds: go on from `next`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out_of_time: Option<bool>,
}

/// A declaration that was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchHit {
    /// Full name.
    pub name: String,
    /// What it was declared as.
    pub kind: DeclarationKind,
    /// As `#check` shows it.
    pub signature: String,
    /// Its module.
    pub module: String,
    /// `file`, `workspace`, `package` or `library`.
    pub origin: String,
    /// Where its source is, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
    /// Where its name stands there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<Utf16Range>,
    /// With a pattern: `conclusion` or `hypothesis`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matched: Option<String>,
}

/// What a declaration, or a file, rests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CheckResult {
    /// The version it is about.
    pub version: u64,
    /// What was looked at.
    pub declarations: Vec<String>,
    /// The first that holds.
    pub verdict: CheckVerdict,
    /// All axioms that are reached.
    pub axioms: Vec<String>,
    /// Those that decide between `axioms` and `proved`.
    pub unusual_axioms: Vec<String>,
    /// Declarations that have a `sorry` in themselves.
    pub sorries: Vec<DeclarationPlace>,
    /// Unsafe and unverified parts.
    pub unsafe_parts: Vec<UnsafePart>,
    /// The errors meant by the verdict: LSP diagnostics.
    pub errors: Vec<Value>,
    /// Theorems of Lean's library of which only the statement is there, as on the embedded toolchain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library_theorems: Option<u64>,
    /// The same for definitions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library_definitions: Option<u64>,
    /// The same for other modules, where a `module` header hides them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported_without_proof: Option<u64>,
}

/// A declaration and where its name stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeclarationPlace {
    /// Its name.
    pub declaration: String,
    /// Where the name stands, in this document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<Utf16Range>,
}

/// A declaration that is unsafe, or runs code that nobody verified.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UnsafePart {
    /// Its name.
    pub declaration: String,
    /// Where the name stands, in this document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<Utf16Range>,
    /// `unsafe`, `partial`, `implemented_by` or `extern`.
    pub why: String,
}

/// What a snippet said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SnippetResult {
    /// No error.
    pub success: bool,
    /// Modules it was run with.
    pub imports: Vec<String>,
    /// With positions in the snippet.
    pub diagnostics: Vec<SnippetDiagnostic>,
    /// What went to standard output without a message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// The goals at the position, in the shape of `goals` with mode `both`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goals: Option<SnippetGoals>,
}

/// A diagnostic of a snippet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SnippetDiagnostic {
    /// In the snippet.
    pub range: Utf16Range,
    /// How bad.
    pub severity: crate::run::Severity,
    /// Lean's words.
    pub message: String,
}

/// The goals at a position of a snippet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SnippetGoals {
    /// Before the tactic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Goals>,
    /// After it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Goals>,
    /// Of the term, where there is no tactic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_type: Option<Goals>,
}

/// Code actions with their edits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CodeActionsResult {
    /// The version the edits are about.
    pub version: u64,
    /// LSP code actions, in Lean's order: `title`, `kind`, `isPreferred`, `edit`, or `unresolved` with why there is none.
    pub actions: Vec<Value>,
}

/// Diagnostics of a version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DiagnosticsResult {
    /// The version they are about.
    pub version: u64,
    /// How many there are without the filter.
    pub total: u64,
    /// Those that pass it, by position.
    pub diagnostics: Vec<StreamDiagnostic>,
}

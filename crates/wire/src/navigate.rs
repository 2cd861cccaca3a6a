//! Navigation: LSP requests whose answers are Lean's own.

use crate::field::{NonEmpty, fields};

fields! {
    /// Type and documentation of what stands at a position.
    Hover {
    /// The file, absolute or relative to the root.
    path "path": NonEmpty,
    /// Version of the document that the position is about.
    version "version": u64 [note "of lean_update"],
    /// Line, from 0.
    line "line": u32,
    /// UTF-16 unit in the line, from 0.
    character "character": u32 [note "UTF-16 units, from 0"],
    }
    /// Signature of the application at a position.
    SignatureHelp {
    /// The file, absolute or relative to the root.
    path "path": NonEmpty,
    /// Version of the document that the position is about.
    version "version": u64 [note "of lean_update"],
    /// Line, from 0.
    line "line": u32,
    /// UTF-16 unit in the line, from 0.
    character "character": u32 [note "UTF-16 units, from 0"],
    }
    /// Where what stands at a position is defined.
    Definition {
    /// The file, absolute or relative to the root.
    path "path": NonEmpty,
    /// Version of the document that the position is about.
    version "version": u64 [note "of lean_update"],
    /// Line, from 0.
    line "line": u32,
    /// UTF-16 unit in the line, from 0.
    character "character": u32 [note "UTF-16 units, from 0"],
    }
    /// Where what stands at a position is used, in every file that is open or built.
    References {
    /// The file, absolute or relative to the root.
    path "path": NonEmpty,
    /// Version of the document that the position is about.
    version "version": u64 [note "of lean_update"],
    /// Line, from 0.
    line "line": u32,
    /// UTF-16 unit in the line, from 0.
    character "character": u32 [note "UTF-16 units, from 0"],
    optional
    /// Whether the declaration itself is listed, too.
    include_declaration "includeDeclaration": bool [default "true"],
    }
    /// Declarations of the file.
    DocumentSymbols {
    /// The file, absolute or relative to the root.
    path "path": NonEmpty,
    /// Version of the document.
    version "version": u64 [note "of lean_update"],
    }
    /// Declarations of the workspace whose name matches a query.
    WorkspaceSymbols {
    /// What their names are matched against.
    query "query": String,
    }
}

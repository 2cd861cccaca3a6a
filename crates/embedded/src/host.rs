//! What is written beside the module: the host script, its data, the launcher.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use beam_base::AbsPath;
use serde::Serialize;

use crate::snippets::Snippets;
use crate::symbols::Collision;
use crate::wasm::Rewritten;
use beam_toolchain::fs::FsError;

/// What runs the module under Node: `host.cjs` and its parts.
const HOST: [(&str, &str); 6] = [
    ("host.cjs", include_str!("../assets/host/host.cjs")),
    ("state.cjs", include_str!("../assets/host/state.cjs")),
    ("files.cjs", include_str!("../assets/host/files.cjs")),
    ("system.cjs", include_str!("../assets/host/system.cjs")),
    ("exceptions.cjs", include_str!("../assets/host/exceptions.cjs")),
    ("threads.cjs", include_str!("../assets/host/threads.cjs")),
];
/// The launcher's place.
const BIN: &str = "bin/lean";
/// The launcher.
const LAUNCHER: &str = include_str!("../assets/lean.sh");

/// Why the host was not written.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The symbol table cannot be made.
    #[error(transparent)]
    Symbols(#[from] Collision),
    /// A file operation failed.
    #[error(transparent)]
    Fs(#[from] FsError),
}

/// `meta.json`: numbers that the host needs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Meta<'a> {
    got: serde_json::Map<String, serde_json::Value>,
    symbol_bits: u32,
    memory_min: u64,
    memory_max: u64,
    /// Address of the flag by which Lean knows that it runs under Emscripten; 0 if the module has none.
    is_emscripten: u32,
    #[serde(flatten)]
    snippets: &'a Snippets,
}

/// Writes `bin/lean` and `libexec/*` but the module itself, which is there already.
pub(crate) fn write(entry: &AbsPath, module: &Rewritten, snippets: &Snippets) -> Result<(), HostError> {
    let (table, symbol_bits) = module.symbols.table()?;
    let meta = Meta {
        got: module.got.iter().map(|(name, index)| (name.clone(), (*index).into())).collect(),
        symbol_bits,
        memory_min: module.memory_min,
        memory_max: module.memory_max,
        is_emscripten: module.symbols.get("l_System_Platform_isEmscripten").unwrap_or(0),
        snippets,
    };
    let meta_path = entry.join("libexec/meta.json");
    let meta = serde_json::to_vec(&meta).map_err(io::Error::other).map_err(FsError::at("write", &meta_path))?;
    put(&entry.join("libexec/symbols.bin"), &table)?;
    put(&meta_path, &meta)?;
    write_scripts(entry)
}

/// Hash of the scripts, which are part of the store key.
pub(crate) fn scripts_hash() -> String {
    let mut hash = blake3::Hasher::new();
    for (path, text) in scripts() {
        for part in [path.as_str(), text] {
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
    }
    hash.finalize().to_hex().to_string()
}

/// Paths in the entry and contents.
fn scripts() -> impl Iterator<Item = (String, &'static str)> {
    HOST.iter().map(|(name, text)| (format!("libexec/{name}"), *text)).chain([(BIN.to_owned(), LAUNCHER)])
}

/// Whether the file of an entry is one of the scripts, of this version or another.
pub(crate) fn is_script(rel: &Path) -> bool {
    rel == Path::new(BIN) || rel.extension().is_some_and(|e| e == "cjs")
}

fn put(path: &AbsPath, content: &[u8]) -> Result<(), FsError> {
    std::fs::write(path, content).map_err(FsError::at("write", path))
}

/// Writes the scripts. They must not be there yet: they might be links to another entry's.
pub(crate) fn write_scripts(entry: &AbsPath) -> Result<(), HostError> {
    for (path, text) in scripts() {
        put(&entry.join(path), text.as_bytes())?;
    }
    let launcher = entry.join(BIN);
    std::fs::set_permissions(&launcher, PermissionsExt::from_mode(0o755))
        .map_err(FsError::at("make executable", &launcher))?;
    Ok(())
}

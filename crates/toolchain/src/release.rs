//! Release names of Lean, as elan and the registries spell them.

/// A canonical release name, `leanprover/lean4:vX.Y.Z[-rcN]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    /// X.
    pub major: u32,
    /// Y.
    pub minor: u32,
    /// Z.
    pub patch: u32,
    /// N of `-rcN`; a release proper sorts after its candidates.
    pub candidate: u32,
}

impl Release {
    /// Reads a canonical name: no leading zeros, candidates count from 1.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::parse_version(name.strip_prefix("leanprover/lean4:v")?)
    }

    /// Reads `X.Y.Z[-rcN]`.
    #[must_use]
    pub fn parse_version(version: &str) -> Option<Self> {
        let (version, candidate) = match version.split_once("-rc") {
            Some((version, n)) => (version, number(n).filter(|n| (1..u32::MAX).contains(n))?),
            None => (version, u32::MAX),
        };
        let mut parts = version.split('.').map(number);
        let (major, minor, patch) = (parts.next()??, parts.next()??, parts.next()??);
        parts.next().is_none().then_some(Self { major, minor, patch, candidate })
    }

    /// Whether it is a release candidate.
    #[must_use]
    pub fn is_candidate(self) -> bool {
        self.candidate != u32::MAX
    }
}

/// A decimal number in its shortest spelling.
pub(crate) fn number(text: &str) -> Option<u32> {
    let n: u32 = text.parse().ok()?;
    (n.to_string() == text).then_some(n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_sort_before_their_release() {
        let v = |s| Release::parse_version(s).unwrap();
        assert!(v("4.28.0-rc1") < v("4.28.0-rc2"));
        assert!(v("4.28.0-rc2") < v("4.28.0"));
        assert!(v("4.28.0") < v("4.28.1-rc1"));
    }
}

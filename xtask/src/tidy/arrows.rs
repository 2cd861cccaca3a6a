//! Which crate may depend on which: read from the manifests as TOML, whatever form a dependency is written in.

use super::tree::File;

/// Which crate may depend on which of ours, by folder below `crates/`. A crate that is not here may not exist.
const ARROWS: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("lean", &["base"]),
    ("process", &["base"]),
    ("wire", &["base"]),
    ("toolchain", &["base", "process"]),
    ("project", &["base", "lean", "process", "toolchain"]),
    ("embedded", &["base", "process", "toolchain"]),
    ("session", &["base", "lean", "process"]),
    ("broker", &["base", "embedded", "lean", "process", "project", "session", "toolchain", "wire"]),
    ("mcp", &["base", "broker", "wire"]),
    ("cli", &["base", "broker", "embedded", "lean", "mcp", "process", "project", "session", "toolchain", "wire"]),
    ("testkit", &["base"]),
];

/// The folder of one of our crates, from its package name.
fn folder(package: &str) -> Option<&str> {
    match package {
        "lean-beam" => Some("cli"),
        "testkit" => Some("testkit"),
        _ => package.strip_prefix("beam-"),
    }
}

/// Dependencies between our crates that point up.
pub(super) fn check(files: &[File]) -> Vec<String> {
    let mut out = Vec::new();
    for file in files {
        let Some(name) = file.path.strip_prefix("crates/").and_then(|p| p.strip_suffix("/Cargo.toml")) else {
            continue;
        };
        let Some((_, allowed)) = ARROWS.iter().find(|(n, _)| *n == name) else {
            out.push(format!("{}: a crate that the layering in xtask/src/tidy/arrows.rs does not know", file.path));
            continue;
        };
        let manifest: toml::Table = match file.text.parse() {
            Ok(manifest) => manifest,
            Err(error) => {
                out.push(format!("{}: cannot be read: {error}", file.path));
                continue;
            }
        };
        for package in dependencies(&manifest) {
            if folder(&package).is_some_and(|below| !allowed.contains(&below)) {
                out.push(format!("{}: `{package}` is not below `{name}`", file.path));
            }
        }
    }
    out
}

/// Packages that the crate itself is built with: normal and build dependencies, also those of one platform. Tests may use
/// anything, and the kit.
fn dependencies(manifest: &toml::Table) -> Vec<String> {
    let mut out = Vec::new();
    for section in ["dependencies", "build-dependencies"] {
        for (key, value) in manifest.get(section).and_then(toml::Value::as_table).into_iter().flatten() {
            // A dependency under another name says which package it is.
            let package = value.get("package").and_then(toml::Value::as_str).unwrap_or(key);
            out.push(package.to_owned());
        }
    }
    for (_, platform) in manifest.get("target").and_then(toml::Value::as_table).into_iter().flatten() {
        out.extend(platform.as_table().map(dependencies).unwrap_or_default());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::file;

    fn session(toml: &str) -> Vec<String> {
        check(&[file("crates/session/Cargo.toml", toml)])
    }

    const WIRE: &str = "crates/session/Cargo.toml: `beam-wire` is not below `session`";

    #[test]
    fn a_wrong_arrow_is_seen() {
        let toml = "[dependencies]\nbeam-wire.workspace = true\n[dev-dependencies]\ntestkit.workspace = true\n";
        assert_eq!(session(toml), [WIRE]);
        assert!(check(&[file("crates/broker/Cargo.toml", toml)]).is_empty());
    }

    #[test]
    fn a_wrong_arrow_is_seen_in_every_form() {
        for toml in [
            "[dependencies.beam-wire]\nworkspace = true\n",
            "dependencies = { beam-wire = { workspace = true } }\n",
            "[dependencies]\n\"beam-wire\" = { path = \"../wire\" }\n",
            "[dependencies]\nw = { package = \"beam-wire\", path = \"../wire\" }\n",
            "[build-dependencies.beam-wire]\nworkspace = true\n",
            "[target.'cfg(unix)'.dependencies.beam-wire]\nworkspace = true\n",
        ] {
            assert_eq!(session(toml), [WIRE], "{toml}");
        }
        assert!(session("[dev-dependencies.beam-wire]\nworkspace = true\n").is_empty());
    }

    #[test]
    fn a_crate_without_a_place_and_a_broken_manifest_are_seen() {
        assert_eq!(check(&[file("crates/new/Cargo.toml", "")]).len(), 1);
        assert_eq!(session("[dependencies\n").len(), 1);
    }

    /// The table itself points down only: a crate stands below another that stands in an earlier line, or it is no layering.
    #[test]
    fn the_table_has_no_circle() {
        for (n, (name, below)) in ARROWS.iter().enumerate() {
            for b in *below {
                assert!(ARROWS[..n].iter().any(|(earlier, _)| earlier == b), "{name} → {b} points up");
            }
        }
    }
}

//! The installer on a small synthetic package: what it makes, what it refuses, and what is left when it is killed.

mod faults;
mod fixture;
mod kill;

use std::fs;

use wasmparser::{Parser, Payload};

use super::*;
use beam_toolchain::Silent;
use fixture::{Fixture, OTHER_SOURCES, SOURCES, wasm};

fn fixture() -> (tempfile::TempDir, Fixture) {
    let tmp = tempfile::tempdir().unwrap();
    let fixture = Fixture::make(tmp.path());
    (tmp, fixture)
}

#[test]
fn an_install_makes_a_whole_entry_and_a_second_one_returns_it() {
    let (_tmp, f) = fixture();
    let entry = f.install().unwrap();
    f.assert_clean(&entry);
    assert_eq!(entry.manifest.lean_version, "4.28.0-pre");
    for file in [
        "bin/lean",
        "libexec/host.cjs",
        "libexec/lean.wasm",
        "libexec/meta.json",
        "libexec/symbols.bin",
        "lib/lean/Init.olean",
        "lib/lean/Init.ir",
        "lib/lean/Init/A.ir",
        "ext/Ext/A.olean",
        "ext/Ext/B.olean",
        "ext/LeanBeamWorker.lean",
        "ext/build.log",
    ] {
        assert!(entry.dir.join(file).is_file(), "{file}");
    }
    for file in ["lib/lean/Other.olean", "ext/probe-project", "ext/lean-beam-build.lean"] {
        assert!(!entry.dir.join(file).exists(), "{file}");
    }
    let again = f.install().unwrap();
    assert_eq!(again.manifest, entry.manifest);
    assert_eq!(f.qualified.load(std::sync::atomic::Ordering::Relaxed), 1);
}

/// K1: the key covers package, sources and steps.
#[test]
fn k1_a_changed_extension_is_another_entry_that_shares_the_rest() {
    let (_tmp, f) = fixture();
    let old = f.install().unwrap();
    // Neither a package nor npm is needed: everything but the extension is at hand.
    fs::remove_file(f.dir.join("package.tgz")).unwrap();
    fs::remove_file(f.dir.join("bin/npm")).unwrap();
    let new = f.install_with(&OTHER_SOURCES, &Silent).unwrap();
    assert_ne!(new.id, old.id);
    f.assert_clean(&new);
    assert_eq!(f.store.list().len(), 2);
    assert_eq!(old.manifest.fingerprint, new.manifest.fingerprint);
    use std::os::unix::fs::MetadataExt;
    let inode = |e: &Entry, file: &str| e.dir.join(file).metadata().unwrap().ino();
    for shared in ["libexec/lean.wasm", "libexec/symbols.bin", "lib/lean/Init/A.ir"] {
        assert_eq!(inode(&old, shared), inode(&new, shared), "{shared}");
    }
    // Scripts are this program's own: the older entry may have been made by another version of it.
    for own in ["libexec/host.cjs", "bin/lean"] {
        assert_ne!(inode(&old, own), inode(&new, own), "{own}");
    }
    assert!(!new.dir.join("ext/Ext/B.olean").exists());
    // Removing one leaves the other whole.
    f.store.remove(&old.id).unwrap();
    f.assert_clean(&new);
}

#[test]
fn the_rewritten_module_is_valid_and_its_symbols_lead_to_its_functions() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = AbsPath::canonical(tmp.path()).unwrap();
    let (from, to) = (dir.join("from"), dir.join("to"));
    let original = wasm();
    fs::write(&from, &original).unwrap();
    let out = wasm::rewrite(&from, &to, &Silent).unwrap();
    let new = fs::read(&to).unwrap();

    let bodies = |bytes: &[u8]| -> Vec<Vec<u8>> {
        Parser::new(0)
            .parse_all(bytes)
            .filter_map(|p| match p.unwrap() {
                Payload::CodeSectionEntry(body) => Some(body.as_bytes().to_vec()),
                _ => None,
            })
            .collect()
    };
    assert_eq!(bodies(&new).len(), 4);
    assert!(bodies(&original) == bodies(&new), "code is copied");

    let mut exports = Vec::new();
    let mut table_min = 0;
    let mut slots = std::collections::BTreeMap::new();
    for payload in Parser::new(0).parse_all(&new) {
        match payload.unwrap() {
            Payload::ExportSection(section) => {
                exports.extend(section.into_iter().map(|e| e.unwrap().name.to_owned()));
            }
            Payload::TableSection(section) => {
                table_min = section.into_iter().next().unwrap().unwrap().ty.initial;
            }
            Payload::ElementSection(section) => {
                for (segment, start) in section.into_iter().zip([1u32, 2]) {
                    let wasmparser::ElementItems::Functions(items) = segment.unwrap().items else {
                        panic!("functions");
                    };
                    for (slot, function) in (start..).zip(items) {
                        slots.insert(slot, function.unwrap());
                    }
                }
            }
            Payload::CustomSection(_) => panic!("custom sections are dropped"),
            _ => {}
        }
    }
    assert_eq!(exports, ["malloc", "__indirect_function_table"]);
    // Function 3 keeps its place; malloc, g and the imported `exit` are appended in order of their export.
    assert_eq!(slots, [(1, 3), (2, 2), (3, 4), (4, 1)].into());
    assert_eq!(table_min, 5);
    let value = |name| out.symbols.get(name);
    assert_eq!(value("lean_f"), Some(1));
    assert_eq!(value("malloc"), Some(2));
    assert_eq!(value("lean_g"), Some(3));
    assert_eq!(value("alias_of_g"), Some(3));
    assert_eq!(value("l_System_Platform_isEmscripten"), Some(1024));
    assert_eq!(value("high"), Some(0xffff_fff0));
    assert_eq!(value("plain"), None);
    assert_eq!(out.got, [("exit".to_owned(), 4), ("absent".to_owned(), 0)]);
    assert_eq!((out.memory_min, out.memory_max), (2, 16));
}

#[test]
fn other_modules_are_refused_by_name_of_what_is_wrong() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = AbsPath::canonical(tmp.path()).unwrap();
    let (from, to) = (dir.join("from"), dir.join("to"));
    let refuse = |bytes: &[u8]| {
        fs::write(&from, bytes).unwrap();
        wasm::rewrite(&from, &to, &Silent).unwrap_err().to_string()
    };
    assert!(refuse(b"\0asm\x01\0\0\0").contains("no section 2"));
    assert!(refuse(b"\x7fELF\0\0\0\0\0").contains("no WebAssembly module"));
    let whole = wasm();
    assert!(refuse(&whole[..whole.len() - 1]).contains("is cut off"));
    // Every cut and every damaged byte near the beginning is an error or a module, never a panic.
    for n in 8..200 {
        let mut bytes = whole.clone();
        bytes[n] ^= 0x55;
        fs::write(&from, &bytes).unwrap();
        let _ignored = wasm::rewrite(&from, &to, &Silent);
    }
}

#[test]
fn the_launcher_follows_links_and_passes_arguments() {
    let (_tmp, f) = fixture();
    let entry = f.install().unwrap();
    let link = f.dir.join("link to lean");
    std::os::unix::fs::symlink(entry.lean(), &link).unwrap();
    let done = beam_process::Run::new(&link, &f.dir).args(["--version"]).capture(&f.env).unwrap();
    assert_eq!(done.stdout.trim(), fixture::BANNER, "{}", done.stderr);
    assert_eq!(SOURCES.modules.len(), 2);
}

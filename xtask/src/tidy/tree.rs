//! The repository's files, as the checks see them.

use std::path::Path;

/// A file of the repository.
#[derive(Debug)]
pub struct File {
    /// Path relative to the repository, with forward slashes.
    pub path: String,
    /// Content.
    pub text: String,
}

/// Every text file below the root, by path; what is built or fetched is left out.
pub(super) fn read(root: &Path) -> Vec<File> {
    let mut out = Vec::new();
    let mut queue = vec![root.to_path_buf()];
    while let Some(dir) = queue.pop() {
        let Ok(entries) = std::fs::read_dir(&dir) else {
            continue;
        };
        for entry in entries.flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if matches!(name.as_str(), "target" | ".git" | ".beam" | "node_modules" | "mutants.out" | "mutants.out.old")
            {
                continue;
            }
            if path.is_dir() {
                queue.push(path);
            } else if let (Ok(text), Ok(rel)) = (std::fs::read_to_string(&path), path.strip_prefix(root)) {
                out.push(File { path: rel.to_string_lossy().into_owned(), text });
            }
        }
    }
    out.sort_by(|a, b| a.path.cmp(&b.path));
    out
}

/// A file that a test plants.
#[cfg(test)]
pub(super) fn file(path: &str, text: &str) -> File {
    File { path: path.into(), text: text.into() }
}

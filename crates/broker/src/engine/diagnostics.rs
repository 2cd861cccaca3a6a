//! Lean's diagnostics: reading them, recognising the ones that mean something, counting and filtering (sync and save sections 2, 3, 5).
//!
//! Recognition of Lake's texts is the one place where wording decides anything: Lean gives these facts in no other form, and the spec lists the texts.

use beam_base::{AbsPath, Utf16Pos, Utf16Range, uri};
use beam_wire::StreamDiagnostic;
use beam_wire::document::DiagnosticScope;
use beam_wire::sync::Counts;
use serde::Deserialize;
use serde_json::Value;

use super::artifacts::target::FAILED_TO_BUILD;

/// Where Lean puts what it has to say about the imports.
pub(super) const FIRST_LINE: Utf16Range =
    Utf16Range { start: Utf16Pos { line: 0, character: 0 }, end: Utf16Pos { line: 1, character: 0 } };

/// Texts with which Lean and Lake say that a file was judged against imports that are not there or out of date.
const INCOMPLETE: [&str; 3] = [
    FAILED_TO_BUILD,
    "error: target is out-of-date and needs to be rebuilt",
    "Imports are out of date and should be rebuilt",
];

/// An LSP diagnostic, as much of it as we look at.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LspDiagnostic {
    range: Utf16Range,
    #[serde(default)]
    full_range: Option<Utf16Range>,
    #[serde(default)]
    pub(crate) severity: Option<u8>,
    pub(crate) message: String,
    #[serde(default)]
    is_silent: Option<bool>,
}

impl LspDiagnostic {
    /// The untruncated range where Lean gives one.
    pub(crate) fn full(&self) -> Utf16Range {
        self.full_range.unwrap_or(self.range)
    }
}

/// How documents are named to the outside.
#[derive(Debug, Clone)]
pub(crate) struct DocumentName {
    pub(crate) uri: String,
    pub(crate) path: String,
}

impl DocumentName {
    /// The names of the document at `path`.
    pub(crate) fn of(root: &AbsPath, path: &AbsPath) -> Self {
        Self { uri: uri::from_path(path), path: path.display_in(root) }
    }
}

/// Reads a publish or a reply's list: silent ones dropped, sorted by full range then message, unreadable ones reported as an error by the caller.
pub(crate) fn read(
    items: &[Value],
    version: Option<u64>,
    name: &DocumentName,
) -> Result<Vec<StreamDiagnostic>, serde_json::Error> {
    let mut out = Vec::with_capacity(items.len());
    for item in items {
        let d = LspDiagnostic::deserialize(item)?;
        if d.is_silent == Some(true) {
            continue;
        }
        out.push(StreamDiagnostic {
            path: name.path.clone(),
            uri: name.uri.clone(),
            version: version.and_then(|v| i64::try_from(v).ok()),
            severity: d.severity,
            range: d.full(),
            completion_blocking: is_incomplete(&d.message),
            save_blocking: None,
            message: d.message,
        });
    }
    out.sort_by(|a, b| (a.range, &a.message).cmp(&(b.range, &b.message)));
    Ok(out)
}

/// Whether the text says that the file could not be judged.
pub(crate) fn is_incomplete(message: &str) -> bool {
    INCOMPLETE.iter().any(|text| message.contains(text))
}

/// A line of Lake's build log, which Lean publishes as a diagnostic of the first line (section 5).
pub fn is_setup_line(d: &StreamDiagnostic) -> bool {
    const MARKS: [&str; 4] = ["✔ [", "✖ [", "⚠ [", "ℹ ["];
    const VERBS: [&str; 12] = [
        "Ran",
        "Running",
        "Reused",
        "Reusing",
        "Replayed",
        "Replaying",
        "Unpacked",
        "Unpacking",
        "Fetched",
        "Fetching",
        "Built",
        "Building",
    ];
    let text = d.message.trim();
    d.severity == Some(3)
        && d.range == FIRST_LINE
        && MARKS.iter().any(|m| text.starts_with(m))
        && VERBS.iter().any(|v| text.contains(&format!(" {v} ")))
}

/// What a scope shows of a list. The list decides: one incomplete text hides everything else under `errors`.
pub(crate) fn in_scope(scope: DiagnosticScope, all: &[StreamDiagnostic]) -> Vec<&StreamDiagnostic> {
    match scope {
        DiagnosticScope::All => all.iter().collect(),
        DiagnosticScope::Errors if all.iter().any(|d| d.completion_blocking) => {
            all.iter().filter(|d| d.completion_blocking).collect()
        }
        DiagnosticScope::Errors => all.iter().filter(|d| d.severity == Some(1) || is_setup_line(d)).collect(),
    }
}

/// Counts by severity; a text that says the barrier is incomplete counts as an error.
pub(crate) fn count(all: &[StreamDiagnostic]) -> Counts {
    let mut c = Counts::default();
    for d in all {
        let place = match d.severity {
            _ if d.completion_blocking => &mut c.error,
            Some(1) => &mut c.error,
            Some(2) => &mut c.warning,
            Some(3) => &mut c.information,
            Some(4) => &mut c.hint,
            _ => &mut c.unknown,
        };
        *place += 1;
    }
    c
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn diags(items: &[Value]) -> Vec<StreamDiagnostic> {
        let root = AbsPath::new("/r").unwrap();
        read(items, Some(3), &DocumentName::of(&root, &root.join("A.lean"))).unwrap()
    }

    fn diag(line: u32, severity: Option<u8>, message: &str) -> Value {
        let mut d = json!({"range": {"start": {"line": line, "character": 0}, "end": {"line": line + 1, "character": 0}}, "message": message});
        if let Some(s) = severity {
            d["severity"] = s.into();
        }
        d
    }

    #[test]
    fn silent_ones_exist_nowhere_and_full_ranges_win() {
        let mut silent = diag(0, Some(3), "Goals accomplished!");
        silent["isSilent"] = true.into();
        let mut long = diag(5, Some(1), "long");
        long["fullRange"] = json!({"start": {"line": 5, "character": 0}, "end": {"line": 9, "character": 2}});
        let all = diags(&[long, silent, diag(1, Some(2), "w")]);
        assert_eq!(all.iter().map(|d| d.message.as_str()).collect::<Vec<_>>(), ["w", "long"]);
        assert_eq!(all[1].range.end, Utf16Pos { line: 9, character: 2 });
        assert_eq!(all[0].path, "A.lean");
        assert_eq!(all[0].version, Some(3));
    }

    #[test]
    fn counts_do_not_depend_on_scope() {
        let all = diags(&[
            diag(0, Some(1), "e"),
            diag(1, Some(2), "w"),
            diag(2, Some(3), "i"),
            diag(3, Some(4), "h"),
            diag(4, None, "u"),
        ]);
        let c = count(&all);
        assert_eq!((c.error, c.warning, c.information, c.hint, c.unknown, c.total()), (1, 1, 1, 1, 1, 5));
        assert_eq!(in_scope(DiagnosticScope::Errors, &all).len(), 1);
        assert_eq!(in_scope(DiagnosticScope::All, &all).len(), 5);
    }

    #[test]
    fn an_incomplete_text_counts_as_error_and_hides_the_rest() {
        let all = diags(&[
            diag(0, Some(3), "x\nImports are out of date and should be rebuilt; use …"),
            diag(1, Some(1), "e"),
        ]);
        assert_eq!(count(&all).error, 2);
        let shown = in_scope(DiagnosticScope::Errors, &all);
        assert_eq!(shown.len(), 1);
        assert!(shown[0].completion_blocking);
    }

    #[test]
    fn setup_lines_are_recognised_exactly() {
        let yes = diags(&[diag(0, Some(3), "ℹ [2/7] Replayed Foo.Bar"), diag(0, Some(3), "  ✔ [1/1] Built A (1s)")]);
        assert!(yes.iter().all(is_setup_line));
        for no in [
            diag(0, Some(2), "ℹ [2/7] Replayed Foo"),
            diag(1, Some(3), "ℹ [2/7] Replayed Foo"),
            diag(0, Some(3), "x ℹ [2/7] Replayed Foo"),
            diag(0, Some(3), "ℹ [2/7] Rebuilt Foo"),
            diag(0, Some(3), "ℹ [2/7] Replayed"),
        ] {
            assert!(!is_setup_line(&diags(&[no])[0]));
        }
    }
}

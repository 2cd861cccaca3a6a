//! Notifications of a worker as a closed enum. Pure; knows shapes, not consequences.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::progress::LineRange;

/// A module named in a file's header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectImport {
    /// Module name, `Foo.Bar`.
    pub module: String,
}

/// What a worker tells by itself.
#[derive(Debug)]
pub(crate) enum WorkerMessage {
    Progress {
        version: Option<u64>,
        processing: Vec<LineRange>,
    },
    /// The list as it came; thousands of them follow each other while a long file is elaborated, and few are ever read.
    Diagnostics {
        version: Option<u64>,
        /// Only what is new since the last ones of this version (Lean 4.32 and later, to those who ask for it).
        is_incremental: bool,
        list: Box<RawValue>,
    },
    /// `ileanHeaderInfo` or `ileanHeaderSetupInfo`; not every release puts the imports in the same one.
    Header {
        imports: Option<Vec<DirectImport>>,
    },
    /// Reference data for one version, raw: a part of it (`is_final` false) or all.
    Ilean {
        version: u64,
        is_final: bool,
        raw: Box<RawValue>,
    },
    ImportClosure(Vec<String>),
    /// A method we do not know; newer Lean releases may add some.
    Unknown,
}

#[derive(Deserialize)]
struct Pos {
    line: u64,
    character: u64,
}
#[derive(Deserialize)]
struct Range {
    start: Pos,
    end: Pos,
}
#[derive(Deserialize)]
struct Processing {
    range: Range,
    #[serde(default)]
    kind: Option<u64>,
}

/// `LeanFileProgressKind.fatalError`: the range is not being processed and never will be.
const FATAL_ERROR: u64 = 2;
#[derive(Deserialize)]
struct VersionedUri {
    #[serde(default)]
    version: Option<u64>,
}
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProgressParams {
    text_document: VersionedUri,
    processing: Vec<Processing>,
}
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DiagnosticsParams<'a> {
    #[serde(default)]
    version: Option<u64>,
    #[serde(default)]
    is_incremental: Option<bool>,
    #[serde(borrow)]
    diagnostics: &'a RawValue,
}
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HeaderParams {
    #[serde(default)]
    direct_imports: Option<Vec<Value>>,
}
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClosureParams {
    import_closure: Vec<String>,
}
#[derive(Deserialize)]
struct VersionOnly {
    version: u64,
}

/// Reads a notification. An error means that a method we know came in a shape we do not.
pub(crate) fn parse(method: &str, params: Option<Box<RawValue>>) -> Result<WorkerMessage, serde_json::Error> {
    let text = params.as_deref().map_or("null", RawValue::get);
    Ok(match method {
        "$/lean/fileProgress" => {
            let p: ProgressParams = serde_json::from_str(text)?;
            // A file whose header is broken ends with all of it marked as a fatal error, behind the empty list that says that
            // nothing is being processed. Counting the mark as work would make such a file unfinished for ever.
            let working = p.processing.iter().filter(|it| it.kind != Some(FATAL_ERROR));
            WorkerMessage::Progress {
                version: p.text_document.version,
                processing: working.map(|it| line_range(&it.range)).collect(),
            }
        }
        "textDocument/publishDiagnostics" => {
            let p: DiagnosticsParams<'_> = serde_json::from_str(text)?;
            let (is_incremental, list) = (p.is_incremental.unwrap_or(false), p.diagnostics.to_owned());
            WorkerMessage::Diagnostics { version: p.version, is_incremental, list }
        }
        "$/lean/ileanHeaderInfo" | "$/lean/ileanHeaderSetupInfo" => {
            let p: HeaderParams = serde_json::from_str(text)?;
            WorkerMessage::Header {
                imports: p.direct_imports.map(|list| list.iter().filter_map(direct_import).collect()),
            }
        }
        "$/lean/ileanInfoUpdate" | "$/lean/ileanInfoFinal" => {
            let version = serde_json::from_str::<VersionOnly>(text)?.version;
            // The parse above succeeded on the same text, so there was one.
            let Some(raw) = params else { return Ok(WorkerMessage::Unknown) };
            WorkerMessage::Ilean { version, is_final: method.ends_with("Final"), raw }
        }
        "$/lean/importClosure" => {
            WorkerMessage::ImportClosure(serde_json::from_str::<ClosureParams>(text)?.import_closure)
        }
        _ => WorkerMessage::Unknown,
    })
}

fn line_range(range: &Range) -> LineRange {
    LineRange { start_line: range.start.line, end_line: range.end.line, end_character: range.end.character }
}

/// One import as Lean writes it: an array whose first element is the name (4.28 and later), or an object with `module`.
fn direct_import(value: &Value) -> Option<DirectImport> {
    let name = match value {
        Value::String(name) => Some(name.as_str()),
        Value::Array(parts) => parts.first().and_then(Value::as_str),
        Value::Object(map) => map.get("module").and_then(Value::as_str),
        _ => None,
    };
    name.map(|module| DirectImport { module: module.to_owned() })
}

/// Whether a diagnostic is one Lean marks as not for users (run-at-semantics section 5).
pub(crate) fn is_silent(item: &Value) -> bool {
    item.get("isSilent").and_then(Value::as_bool) == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(method: &str, params: &Value) -> Result<WorkerMessage, serde_json::Error> {
        parse(method, Some(RawValue::from_string(params.to_string()).unwrap()))
    }

    fn imports(method: &str, params: &Value) -> Option<Vec<String>> {
        match read(method, params).unwrap() {
            WorkerMessage::Header { imports, .. } => imports.map(|list| list.into_iter().map(|it| it.module).collect()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_fatal_error_is_no_work() {
        let range = json!({"start": {"line": 0, "character": 0}, "end": {"line": 3, "character": 0}});
        let params =
            |kind| json!({"textDocument": {"uri": "u", "version": 1}, "processing": [{"range": range, "kind": kind}]});
        let working = |kind| match read("$/lean/fileProgress", &params(kind)).unwrap() {
            WorkerMessage::Progress { processing, .. } => processing.len(),
            other => panic!("{other:?}"),
        };
        assert_eq!((working(1), working(2)), (1, 0));
    }

    /// The shapes seen on different releases.
    #[test]
    fn direct_imports_in_every_known_shape() {
        let expected = Some(vec!["Init".to_owned(), "A.B".to_owned()]);
        for list in [
            json!([["Init", false, false, false], ["A.B", true, false, false]]),
            json!([{"module": "Init", "importAll": false}, {"module": "A.B"}]),
            json!(["Init", "A.B"]),
        ] {
            assert_eq!(imports("$/lean/ileanHeaderInfo", &json!({"version": 1, "directImports": list})), expected);
        }
        assert_eq!(imports("$/lean/ileanHeaderSetupInfo", &json!({"version": 1, "isSetupFailure": true})), None);
    }

    #[test]
    fn ilean_data_stays_as_it_came() {
        let params = json!({"version": 3, "decls": {}, "references": {"k": 1}});
        match read("$/lean/ileanInfoFinal", &params).unwrap() {
            WorkerMessage::Ilean { version: 3, is_final: true, raw } => assert_eq!(raw.get(), params.to_string()),
            other => panic!("{other:?}"),
        }
        assert!(matches!(
            read("$/lean/ileanInfoUpdate", &params).unwrap(),
            WorkerMessage::Ilean { is_final: false, .. }
        ));
    }

    #[test]
    fn known_methods_in_unknown_shapes_are_errors_and_unknown_methods_are_not() {
        assert!(read("$/lean/fileProgress", &json!({"processing": 1})).is_err());
        assert!(parse("$/lean/importClosure", None).is_err());
        assert!(read("$/lean/ileanInfoFinal", &json!({})).is_err());
        assert!(matches!(read("$/lean/new", &json!([1])), Ok(WorkerMessage::Unknown)));
        assert!(matches!(parse("$/lean/new", None), Ok(WorkerMessage::Unknown)));
    }

    #[test]
    fn only_a_true_flag_is_silent() {
        assert!(is_silent(&json!({"isSilent": true})));
        assert!(
            !is_silent(&json!({"isSilent": false})) && !is_silent(&json!({})) && !is_silent(&json!({"isSilent": 1}))
        );
    }
}

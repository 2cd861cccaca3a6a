//! `docs/schema/`: JSON Schemas of every request and answer, as the types give them. `UPDATE_SCHEMA=1 cargo test -p beam-wire` writes
//! them anew; then read the diff, for it is a change of what we promise.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use beam_wire::answer::AnswerType;
use beam_wire::operation::{OPERATIONS, OpSpec};
use serde_json::{Map, Value, json};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema")
}

/// The request as a whole: envelope and own fields, closed.
fn request(spec: &OpSpec) -> Value {
    let mut properties = Map::new();
    properties.insert("op".to_owned(), json!({ "const": spec.name }));
    for field in spec.fields() {
        let mut schema = field.schema();
        schema.insert("description".to_owned(), field.doc.into());
        properties.insert(field.name.to_owned(), Value::Object(schema));
    }
    let required: Vec<&str> = std::iter::once("op").chain(spec.required().map(|f| f.name)).collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": spec.name,
        "description": spec.summary,
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
        "x-answer": spec.answer.name(),
    })
}

fn wanted() -> BTreeMap<String, String> {
    let text = |value: &Value| format!("{}\n", serde_json::to_string_pretty(value).unwrap());
    let requests = OPERATIONS.iter().map(|spec| (format!("request-{}.json", spec.name), text(&request(spec))));
    let answers = AnswerType::ALL.iter().map(|answer| {
        let schema = serde_json::to_value(answer.schema()).unwrap();
        (format!("answer-{}.json", answer.name()), text(&schema))
    });
    requests.chain(answers).collect()
}

#[test]
fn w3_the_schemas_on_disk_are_those_of_the_types() {
    let wanted = wanted();
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        let _absent = std::fs::remove_dir_all(folder());
        std::fs::create_dir_all(folder()).unwrap();
        for (name, text) in &wanted {
            std::fs::write(folder().join(name), text).unwrap();
        }
    }
    let found: BTreeMap<String, String> = std::fs::read_dir(folder())
        .expect("docs/schema; make it with UPDATE_SCHEMA=1")
        .map(|entry| {
            let entry = entry.unwrap();
            (entry.file_name().into_string().unwrap(), std::fs::read_to_string(entry.path()).unwrap())
        })
        .collect();
    let names = |map: &BTreeMap<String, String>| map.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&found), names(&wanted), "UPDATE_SCHEMA=1 writes them anew");
    for (name, text) in &wanted {
        assert_eq!(&found[name], text, "{name}: UPDATE_SCHEMA=1 writes it anew");
    }
}

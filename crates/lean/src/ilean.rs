//! Reference data as Lean writes it, in `.ilean` files and in a worker's `ileanInfo…` notifications.
//!
//! Only what navigation needs is kept: for each identifier where it is defined and where it is used. Parent declarations, which
//! releases write differently (a fifth element, or nothing), are skipped.

use std::collections::HashMap;

use beam_base::{Utf16Pos, Utf16Range};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// What a name in a file stands for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ident {
    /// A constant, wherever it is used.
    Const {
        /// The module that defines it.
        module: String,
        /// Its full name.
        name: String,
    },
    /// A local of one module.
    Local {
        /// That module.
        module: String,
        /// Its id there.
        id: String,
    },
}

#[derive(Deserialize)]
struct Key {
    #[serde(default)]
    c: Option<ConstKey>,
    #[serde(default)]
    f: Option<LocalKey>,
}
#[derive(Deserialize)]
struct ConstKey {
    m: String,
    n: String,
}
#[derive(Deserialize)]
struct LocalKey {
    m: String,
    i: String,
}

impl Ident {
    /// Reads a key of `references`, which is JSON in a string. `None` for a kind we do not know.
    fn parse(key: &str) -> Option<Self> {
        match serde_json::from_str(key).ok()? {
            Key { c: Some(c), .. } => Some(Self::Const { module: c.m, name: c.n }),
            Key { f: Some(f), .. } => Some(Self::Local { module: f.m, id: f.i }),
            Key { c: None, f: None } => None,
        }
    }

    fn renamed(self, rename: Option<&Rename>) -> Self {
        let Some(rename) = rename else { return self };
        match self {
            Self::Const { module, name } => {
                Self::Const { module: rename.apply(&module), name: rename.apply_in_private(name) }
            }
            Self::Local { module, id } => Self::Local { module: rename.apply(&module), id },
        }
    }
}

/// A module name to be replaced by another wherever it stands.
///
/// A worker that was not told which module it serves calls its file `«external:<uri>»`, while files that import it use the real
/// name. The two must meet.
#[derive(Debug, Clone)]
pub struct Rename {
    from: String,
    to: String,
}

impl Rename {
    /// From the name under which a worker without module knows the document at `uri`, to `module`.
    #[must_use]
    pub fn external(uri: &str, module: String) -> Self {
        Self { from: format!("«external:{uri}»"), to: module }
    }

    /// The module's name after it.
    #[must_use]
    pub fn apply(&self, module: &str) -> String {
        if module == self.from { self.to.clone() } else { module.to_owned() }
    }

    /// A declaration's name after it: private ones carry their module, `_private.<module>.0.<name>`.
    #[must_use]
    pub fn apply_in_private(&self, name: String) -> String {
        match name.strip_prefix("_private.").and_then(|rest| rest.strip_prefix(&self.from)) {
            Some(rest) => format!("_private.{}{rest}", self.to),
            None => name,
        }
    }
}

/// Where one identifier stands in one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// Where it is defined, if that is in this file.
    pub definition: Option<Utf16Range>,
    /// Where it is used, in the file's own order; the definition is not among them.
    pub usages: Vec<Utf16Range>,
}

/// The identifiers of one file.
#[derive(Debug, Clone, Default)]
pub struct Refs(HashMap<Ident, Places>);

/// A range as `[line, character, line, character, …]`.
struct Span(Utf16Range);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let parts = Vec::<Value>::deserialize(d)?;
        let number = |n: usize| {
            let found = parts.get(n).and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok());
            found.ok_or_else(|| serde::de::Error::custom("a range starts with four numbers"))
        };
        let (start, end) = (
            Utf16Pos { line: number(0)?, character: number(1)? },
            Utf16Pos { line: number(2)?, character: number(3)? },
        );
        Ok(Self(Utf16Range { start, end }))
    }
}

#[derive(Deserialize)]
struct RawPlaces {
    definition: Option<Span>,
    usages: Vec<Span>,
}

#[derive(Deserialize)]
struct RawReferences {
    #[serde(default)]
    module: Option<String>,
    #[serde(default)]
    references: HashMap<String, RawPlaces>,
}

/// What an `.ilean` file or a notification says.
#[derive(Debug)]
pub struct References {
    /// The file's module; written in `.ilean` files only.
    pub module: Option<String>,
    /// Its identifiers.
    pub refs: Refs,
}

/// Reads the JSON of a file or of a notification's parameters; `rename` is applied to every module in it.
///
/// # Errors
/// If it is no JSON, or not of that shape. Identifiers of an unknown kind are no error; they are left out.
pub fn parse(json: &str, rename: Option<&Rename>) -> Result<References, serde_json::Error> {
    let raw: RawReferences = serde_json::from_str(json)?;
    let mut refs = Refs::default();
    for (key, places) in raw.references {
        if let Some(ident) = Ident::parse(&key) {
            refs.add(
                ident.renamed(rename),
                places.definition.map(|span| span.0),
                places.usages.into_iter().map(|span| span.0),
            );
        }
    }
    Ok(References { module: raw.module, refs })
}

impl Refs {
    fn add(&mut self, ident: Ident, definition: Option<Utf16Range>, usages: impl IntoIterator<Item = Utf16Range>) {
        let places = self.0.entry(ident).or_default();
        places.definition = places.definition.or(definition);
        places.usages.extend(usages);
    }

    /// Adds what another part of the same file says; a definition that is known stays.
    pub fn merge(&mut self, more: Self) {
        for (ident, places) in more.0 {
            self.add(ident, places.definition, places.usages);
        }
    }

    /// Whether nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Where this identifier stands, if the file mentions it.
    #[must_use]
    pub fn places(&self, ident: &Ident) -> Option<&Places> {
        self.0.get(ident)
    }

    /// Identifiers defined or used at a position; touching the end of one counts, as for a cursor behind it. Ordered.
    #[must_use]
    pub fn at(&self, pos: Utf16Pos) -> Vec<Ident> {
        let holds = |range: &Utf16Range| range.start <= pos && pos <= range.end;
        let mut found: Vec<_> = self
            .0
            .iter()
            .filter(|(_, places)| places.definition.iter().chain(&places.usages).any(holds))
            .map(|(ident, _)| ident.clone())
            .collect();
        found.sort();
        found
    }

    /// The constants it defines: module, full name, place.
    pub fn definitions(&self) -> impl Iterator<Item = (&str, &str, Utf16Range)> {
        self.0.iter().filter_map(|(ident, places)| match ident {
            Ident::Const { module, name } => places.definition.map(|range| (module.as_str(), name.as_str(), range)),
            Ident::Local { .. } => None,
        })
    }

    /// The module whose file this is, judging by what it defines.
    #[must_use]
    pub fn own_module(&self) -> Option<&str> {
        self.definitions().map(|(module, _, _)| module).next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn range(a: u32, b: u32, c: u32, d: u32) -> Utf16Range {
        Utf16Range { start: Utf16Pos { line: a, character: b }, end: Utf16Pos { line: c, character: d } }
    }

    fn constant(module: &str, name: &str) -> Ident {
        Ident::Const { module: module.into(), name: name.into() }
    }

    /// As 4.28 writes it, plus a kind of identifier nobody has invented yet.
    const FILE: &str = r#"{"decls":{"N.inner":[4,0,4,16,4,4,4,9]},"directImports":[],"module":"Low","version":5,"references":{
        "{\"c\":{\"m\":\"Init.Prelude\",\"n\":\"Nat\"}}":{"definition":null,"usages":[[2,6,2,9,"S"]]},
        "{\"c\":{\"m\":\"Low\",\"n\":\"low\"}}":{"definition":[0,4,0,7],"usages":[[4,13,4,16,"N.inner"]]},
        "{\"f\":{\"i\":\"_uniq.40\",\"m\":\"Low\"}}":{"definition":[4,9,4,10,"loc"],"usages":[[4,30,4,31,"loc"]]},
        "{\"x\":{}}":{"definition":null,"usages":[]}}}"#;

    #[test]
    fn an_ilean_file() {
        let data = parse(FILE, None).unwrap();
        assert_eq!(data.module.as_deref(), Some("Low"));
        let low = constant("Low", "low");
        assert_eq!(
            data.refs.places(&low),
            Some(&Places { definition: Some(range(0, 4, 0, 7)), usages: vec![range(4, 13, 4, 16)] })
        );
        for (line, character) in [(0, 4), (4, 16)] {
            assert_eq!(data.refs.at(Utf16Pos { line, character }), std::slice::from_ref(&low));
        }
        assert_eq!(data.refs.at(Utf16Pos { line: 0, character: 8 }), []);
        let local = Ident::Local { module: "Low".into(), id: "_uniq.40".into() };
        assert_eq!(data.refs.at(Utf16Pos { line: 4, character: 30 }), [local]);
        assert_eq!(data.refs.own_module(), Some("Low"));
        assert!(parse(r#"{"references":{"{}":{"definition":[1],"usages":[]}}}"#, None).is_err());
    }

    #[test]
    fn a_file_without_module_gets_its_name_everywhere() {
        let uri = "file:///p/Top.lean";
        let external = format!("«external:{uri}»");
        let key = |name: &str| json!({"c": {"m": external, "n": name}}).to_string();
        let text = json!({"references": {
            key("top"): {"definition": [1, 4, 1, 7], "usages": []},
            key(&format!("_private.{external}.0.hid")): {"definition": [2, 4, 2, 7], "usages": []},
        }});
        let rename = Rename::external(uri, "Top".into());
        let refs = parse(&text.to_string(), Some(&rename)).unwrap().refs;
        assert!(refs.places(&constant("Top", "top")).is_some());
        assert!(refs.places(&constant("Top", "_private.Top.0.hid")).is_some());
    }
}

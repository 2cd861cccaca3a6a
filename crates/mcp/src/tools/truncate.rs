//! Results have a size limit. What is too large is cut where a reader loses least, and every cut is stated.
//!
//! Rules: a message or trace keeps its first [`MESSAGE_CHARS`] characters unless the caller wants it whole. Beyond that nothing is cut when
//! the result fits. Long arrays, and the statistics' table of workspaces, lose elements, errors last; long
//! strings lose their end. Paths, ranges, handles
//! and code actions are never cut: half of one is worse than none. `truncated` at the end of the result lists
//! `{field, unit: "items" | "characters", shown, total}`; a result that cannot be made to fit becomes the error `outputTooLarge`.

use serde_json::{Map, Value, json};

use super::output::{ToolError, ToolOutput};

/// OutputLimits of what a tool returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutputLimits {
    /// Bytes of `structuredContent` as JSON. The frame has it twice, the second time quoted: up to three times as much.
    pub max_output_bytes: usize,
    /// Messages and traces are not cut for their own length.
    pub full_messages: bool,
}

impl OutputLimits {
    /// The variable that sets the limit.
    pub(crate) const VARIABLE: &str = "LEAN_BEAM_MCP_MAX_OUTPUT_BYTES";
    /// The least that may be asked for.
    pub(crate) const LOWEST: usize = 4 * 1024;
    /// The most: three times this is below the 10 MiB at which clients give up on a frame.
    pub(crate) const HIGHEST: usize = 3 * 1024 * 1024;
    /// What may be asked for.
    pub(crate) const RANGE: std::ops::RangeInclusive<usize> = Self::LOWEST..=Self::HIGHEST;

    /// Reads [`OutputLimits::VARIABLE`]'s value.
    pub(crate) fn parse(text: Option<&str>) -> Result<Self, String> {
        let Some(text) = text.map(str::trim).filter(|t| !t.is_empty()) else {
            return Ok(Self::default());
        };
        match text.parse() {
            Ok(bytes) if Self::RANGE.contains(&bytes) => Ok(Self { max_output_bytes: bytes, ..Self::default() }),
            _ => Err(format!(
                "{} must be a whole number of bytes from {} to {}, not {text:?}",
                Self::VARIABLE,
                Self::LOWEST,
                Self::HIGHEST
            )),
        }
    }
}

impl Default for OutputLimits {
    fn default() -> Self {
        Self { max_output_bytes: 64 * 1024, full_messages: false }
    }
}

/// What is whole or nothing.
const WHOLE: [&str; 11] = [
    "workspace",
    "next_handle",
    "code_action",
    "path",
    "uri",
    "targetUri",
    "range",
    "module",
    "code",
    "truncated",
    "counts",
];
/// A list whose elements are whole or left out.
const ACTIONS: &str = "actions";
/// Characters that a message or trace keeps.
const MESSAGE_CHARS: usize = 6000;
/// Strings up to this many bytes are left alone.
const SHORT: usize = 200;
/// Marks the place where a string was cut.
const ELLIPSIS: &str = "…";

/// The output, cut if it is too large.
pub(crate) fn to_limit(mut output: ToolOutput, limits: &OutputLimits) -> ToolOutput {
    let limit = limits.max_output_bytes;
    let before = size(&output.structured);
    let mut first_cuts = Vec::new();
    if !limits.full_messages && before > MESSAGE_CHARS {
        shorten_messages(&mut output.structured, "", &mut first_cuts);
        state_cuts(&mut output.structured, &first_cuts);
    }
    if size(&output.structured) <= limit {
        return output;
    }
    // What the statement itself takes is known only afterwards.
    let mut reserve = 256;
    while reserve < limit {
        let mut cut = output.structured.clone();
        if let Value::Object(map) = &mut cut {
            map.remove("truncated");
        }
        let mut cuts = Vec::new();
        if fit(&mut cut, limit - reserve, "", &mut cuts) {
            state_cuts(&mut cut, &both(&first_cuts, cuts));
            if size(&cut) <= limit {
                return ToolOutput { structured: cut, is_error: output.is_error };
            }
        }
        reserve *= 2;
    }
    ToolError::output_too_large(format!(
        "the result has {before} bytes, the limit is {limit}, and it cannot be cut sensibly; ask for a smaller range, or for more with \
         max_output_bytes"
    ))
    .into()
}

/// What was shortened first and what was cut then; a text of which both are true has its first length.
fn both(first: &[Truncation], mut cuts: Vec<Truncation>) -> Vec<Truncation> {
    let mut all = Vec::new();
    for earlier in first {
        match cuts.iter_mut().find(|c| c.field == earlier.field) {
            Some(later) => later.total = earlier.total,
            None => all.push(earlier.clone()),
        }
    }
    all.extend(cuts);
    all
}

/// A value outside of a result (a log), its long messages cut.
pub(crate) fn shortened(mut value: Value) -> Value {
    let mut cuts = Vec::new();
    shorten_messages(&mut value, "", &mut cuts);
    state_cuts(&mut value, &cuts);
    value
}

fn state_cuts(structured: &mut Value, cuts: &[Truncation]) {
    if let Value::Object(map) = structured
        && !cuts.is_empty()
    {
        map.insert("truncated".into(), cuts.iter().map(Truncation::to_value).collect());
    }
}

/// Cuts messages and traces that are too long for themselves: one of them says little more in half a megabyte than in its beginning.
fn shorten_messages(value: &mut Value, field: &str, cuts: &mut Vec<Truncation>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map.iter_mut().filter(|(key, _)| !WHOLE.contains(&key.as_str()) && *key != ACTIONS) {
                let name = if field.is_empty() { key.clone() } else { format!("{field}.{key}") };
                match value {
                    Value::String(text) if key == "text" || key == "message" => shorten(text, &name, cuts),
                    Value::Array(traces) if key == "traces" => {
                        for (n, trace) in traces.iter_mut().enumerate() {
                            if let Value::String(text) = trace {
                                shorten(text, &format!("{name}[{n}]"), cuts);
                            }
                        }
                    }
                    value => shorten_messages(value, &name, cuts),
                }
            }
        }
        Value::Array(items) => {
            for (n, item) in items.iter_mut().enumerate() {
                shorten_messages(item, &format!("{field}[{n}]"), cuts);
            }
        }
        _ => {}
    }
}

fn shorten(text: &mut String, field: &str, cuts: &mut Vec<Truncation>) {
    let Some((end, _)) = text.char_indices().nth(MESSAGE_CHARS) else { return };
    let total = text.chars().count();
    text.truncate(end);
    text.push_str(ELLIPSIS);
    cuts.push(Truncation { field: field.to_owned(), unit: "characters", shown: MESSAGE_CHARS, total });
}

#[derive(Clone)]
struct Truncation {
    field: String,
    unit: &'static str,
    shown: usize,
    total: usize,
}

impl Truncation {
    fn to_value(&self) -> Value {
        json!({ "field": self.field, "unit": self.unit, "shown": self.shown, "total": self.total })
    }
}

/// Makes the value's JSON at most `budget` bytes; false if that cannot be done.
fn fit(value: &mut Value, budget: usize, field: &str, cuts: &mut Vec<Truncation>) -> bool {
    if size(value) <= budget {
        return true;
    }
    match value {
        Value::String(text) => {
            let (total, kept) = (text.chars().count(), prefix(text, budget.saturating_sub(2 + ELLIPSIS.len())));
            if text.len() <= SHORT || kept == 0 {
                return false;
            }
            let shown = text[..kept].chars().count();
            text.truncate(kept);
            text.push_str(ELLIPSIS);
            cuts.push(Truncation { field: field.to_owned(), unit: "characters", shown, total });
            true
        }
        Value::Array(items) => fit_array(items, budget, field, cuts),
        // A list with names.
        Value::Object(map) if field == "workspaces" => fit_members(map, budget, field, cuts),
        Value::Object(map) => fit_object(map, budget, field, cuts),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn fit_array(items: &mut Vec<Value>, budget: usize, field: &str, cuts: &mut Vec<Truncation>) -> bool {
    let total = items.len();
    // Errors first: the last message of a failed text is the one that says why.
    let mut order: Vec<usize> = (0..total).collect();
    order.sort_by_key(|&i| items[i]["severity"] != "error");
    let mut left = budget.saturating_sub(2);
    let mut keep = vec![false; total];
    let mut shown = 0;
    for i in order {
        let need = size(&items[i]) + 1;
        if need <= left {
            left -= need;
        } else if shown == 0
            && field != ACTIONS
            && fit(&mut items[i], left.saturating_sub(1), &format!("{field}[{i}]"), cuts)
        {
            left = 0;
        } else {
            break;
        }
        keep[i] = true;
        shown += 1;
    }
    let mut flags = keep.into_iter();
    items.retain(|_| flags.next().unwrap_or(false));
    if shown < total {
        cuts.push(Truncation { field: field.to_owned(), unit: "items", shown, total });
    }
    size_of_items(items) <= budget
}

fn fit_members(map: &mut Map<String, Value>, budget: usize, field: &str, cuts: &mut Vec<Truncation>) -> bool {
    let total = map.len();
    let mut left = budget.saturating_sub(2);
    let mut shown = 0;
    map.retain(|key, value| {
        let need = quoted(key) + 2 + size(value);
        // The first that is too large ends the list, as in an array.
        left = left.saturating_sub(need);
        shown += usize::from(left > 0);
        left > 0
    });
    cuts.push(Truncation { field: field.to_owned(), unit: "items", shown, total });
    true
}

/// Members that may be cut share what the others leave, the small ones first, so that one long text does not cost the rest.
fn fit_object(map: &mut Map<String, Value>, budget: usize, field: &str, cuts: &mut Vec<Truncation>) -> bool {
    let cuttable = |key: &str, value: &Value| {
        !WHOLE.contains(&key)
            && match value {
                Value::String(s) => s.len() > SHORT,
                Value::Array(a) => !a.is_empty(),
                Value::Object(o) => !o.is_empty(),
                Value::Null | Value::Bool(_) | Value::Number(_) => false,
            }
    };
    let mut fixed = 2;
    let mut open = Vec::new();
    for (key, value) in map.iter() {
        // The key, its colon and a comma.
        fixed += quoted(key) + 2;
        if cuttable(key, value) {
            open.push((size(value), key.clone()));
        } else {
            fixed += size(value);
        }
    }
    let Some(mut left) = budget.checked_sub(fixed) else { return false };
    open.sort();
    let mut waiting = open.len();
    for (need, key) in open {
        let share = left / waiting;
        waiting -= 1;
        let Some(value) = map.get_mut(&key) else { continue };
        if need > share {
            let name = if field.is_empty() { key.clone() } else { format!("{field}.{key}") };
            if !fit(value, share, &name, cuts) {
                return false;
            }
        }
        left = left.saturating_sub(size(value));
    }
    true
}

/// Bytes of `text` that fit into `budget` bytes of JSON.
fn prefix(text: &str, budget: usize) -> usize {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += match c {
            '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
            c if c < ' ' => 6,
            c => c.len_utf8(),
        };
        if used > budget {
            return at;
        }
    }
    text.len()
}

fn quoted(text: &str) -> usize {
    size(&Value::from(text))
}

fn size_of_items(items: &[Value]) -> usize {
    2 + items.iter().map(|v| size(v) + 1).sum::<usize>().saturating_sub(1)
}

/// Bytes of the value's compact JSON.
fn size(value: &Value) -> usize {
    struct Counter(usize);
    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    // A value has string keys, and the counter takes everything.
    match serde_json::to_writer(&mut counter, value) {
        Ok(()) => counter.0,
        Err(e) => unreachable!("a value serialises: {e}"),
    }
}

#[cfg(test)]
#[path = "truncate_tests.rs"]
mod tests;

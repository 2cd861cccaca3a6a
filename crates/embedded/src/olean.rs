//! Completing a library module's table of constants, so that code generation works.
//!
//! Why. The package ships only the public part of each module. That part still lists, in `extraConstNames`, the names that the
//! compiler made (private helpers, `f._redArg`, specialisations, `_boxed` wrappers) and still carries their compiler records; the
//! machine code is in the WebAssembly module. But this build of Lean does not enter those names into its table from constants to
//! modules, so every look-up of one fails ("Unknown constant …") and no code that needs it is generated.
//!
//! What. Each name of `extraConstNames` that no earlier module was given is added to `constNames`, with an unsafe placeholder axiom
//! in `constants`. The table then knows the module, the records are found, code is generated, and the interpreter calls the
//! compiled function. The placeholders are unsafe and their names internal, so proofs cannot use them. Names `…._closed_N` are
//! skipped: nothing asks for them.
//!
//! Format (32-bit, version 2): `olean`, 2, a flag byte, 33 bytes of Lean version, 40 of git hash; at 0x50 the base address, at 0x54
//! the root pointer, objects from 0x58, aligned to 4. A pointer is the base address plus a file offset; an odd word is a boxed
//! scalar. An object begins with i32 reference count (0), u16 size in bytes (constructors) or element size, u8 number of pointer
//! fields, u8 tag (to 244 constructor, 246 array, 248 scalar array, 249 string, 250 big number). The root is
//! `ModuleData {imports, constNames, constants, extraConstNames, entries; isModule}`.
//!
//! Nothing that exists is moved: new objects are appended and the root pointer is changed.

use std::collections::HashSet;

/// Offset of the base address.
const BASE: usize = 0x50;
/// Offset of the root pointer.
pub(crate) const ROOT: usize = 0x54;
const FIRST_OBJECT: usize = 0x58;
/// Deepest name; a longer chain is a broken file.
const MAX_DEPTH: usize = 256;

mod tag {
    pub const LAST_CONSTRUCTOR: u8 = 244;
    pub const ARRAY: u8 = 246;
    pub const STRING: u8 = 249;
    pub const BIG_NUMBER: u8 = 250;
}

/// A module file that is not as described above.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("not a module file of this Lean: {0}")]
pub struct BadModule(String);

fn bad<T>(what: impl Into<String>) -> Result<T, BadModule> {
    Err(BadModule(what.into()))
}

/// What to do to the file: append these bytes, and set the word at [`ROOT`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Patch {
    pub root: u32,
    pub tail: Vec<u8>,
    pub added: usize,
}

/// The patch for one module; `None` when nothing is missing. `seen` holds the names given to earlier modules and gets this one's.
pub(crate) fn repair(data: &[u8], seen: &mut HashSet<String>) -> Result<Option<Patch>, BadModule> {
    let file = Olean::new(data)?;
    let root = file.constructor(file.root)?;
    let &[imports, names, constants, extra, entries] = root.fields.as_slice() else {
        return bad(format!("its root has {} fields", root.fields.len()));
    };
    let mut add = Vec::new();
    for pointer in file.array(extra)? {
        let name = file.name(pointer)?;
        if !name.contains("._closed_") && seen.insert(name) {
            add.push(pointer);
        }
    }
    let mut names = file.array(names)?;
    let mut constants = file.array(constants)?;
    let Some(&first) = constants.first() else {
        return Ok(None);
    };
    if add.is_empty() {
        return Ok(None);
    }
    // Any expression will do as a placeholder's type; the first constant's is at hand: ConstantInfo → XVal → ConstantVal → type.
    let value = file.field(first, 0)?;
    let some_type = file.field(file.field(value, 0)?, 2)?;
    let mut tail = Tail { start: file.base.wrapping_add(file.len()?), bytes: Vec::new() };
    for &name in &add {
        const NIL: u32 = 1;
        let constant = tail.constructor(0, &[name, NIL, some_type], &[]);
        // AxiomVal with `isUnsafe := true`.
        let axiom = tail.constructor(0, &[constant], &[1]);
        constants.push(tail.constructor(0, &[axiom], &[]));
    }
    names.extend_from_slice(&add);
    let names = tail.array(&names);
    let constants = tail.array(&constants);
    let is_module = root.scalars.first().copied().unwrap_or(0);
    let root = tail.constructor(0, &[imports, names, constants, extra, entries], &[is_module]);
    Ok(Some(Patch { root, tail: tail.bytes, added: add.len() }))
}

/// A reader that answers every malformed file with an error.
struct Olean<'a> {
    data: &'a [u8],
    base: u32,
    root: u32,
}

struct Constructor<'a> {
    fields: Vec<u32>,
    scalars: &'a [u8],
}

impl<'a> Olean<'a> {
    fn new(data: &'a [u8]) -> Result<Self, BadModule> {
        if data.get(..6) != Some(b"olean\x02") || data.len() < FIRST_OBJECT {
            return bad("its head is another one");
        }
        if !data.len().is_multiple_of(4) {
            return bad("its length is no multiple of 4");
        }
        let mut file = Self { data, base: 0, root: 0 };
        file.base = file.word(BASE)?;
        file.root = file.word(ROOT)?;
        Ok(file)
    }

    fn len(&self) -> Result<u32, BadModule> {
        u32::try_from(self.data.len()).or_else(|_| bad("it is too long"))
    }

    fn bytes(&self, at: usize, len: usize) -> Result<&'a [u8], BadModule> {
        at.checked_add(len).and_then(|end| self.data.get(at..end)).map_or_else(|| bad("a pointer leads out of it"), Ok)
    }

    fn word(&self, at: usize) -> Result<u32, BadModule> {
        let mut word = [0; 4];
        word.copy_from_slice(self.bytes(at, 4)?);
        Ok(u32::from_le_bytes(word))
    }

    fn words(&self, at: usize, n: usize) -> Result<Vec<u32>, BadModule> {
        let Some(len) = n.checked_mul(4) else {
            return bad("an array is too long");
        };
        let bytes = self.bytes(at, len)?;
        Ok(bytes.chunks_exact(4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect())
    }

    fn offset(&self, pointer: u32) -> Result<usize, BadModule> {
        let offset = pointer.wrapping_sub(self.base) as usize;
        if pointer & 1 == 1 || offset < FIRST_OBJECT {
            return bad("a scalar stands where an object should");
        }
        Ok(offset)
    }

    fn tag(&self, at: usize) -> Result<u8, BadModule> {
        Ok(self.bytes(at, 8)?[7])
    }

    fn constructor(&self, pointer: u32) -> Result<Constructor<'a>, BadModule> {
        let at = self.offset(pointer)?;
        let head = self.bytes(at, 8)?;
        if head[7] > tag::LAST_CONSTRUCTOR {
            return bad("no constructor where one should be");
        }
        let size = usize::from(u16::from_le_bytes([head[4], head[5]]));
        let n = usize::from(head[6]);
        let Some(scalars) = size.checked_sub(8 + 4 * n) else {
            return bad("a constructor is shorter than its fields");
        };
        Ok(Constructor { fields: self.words(at + 8, n)?, scalars: self.bytes(at + 8 + 4 * n, scalars)? })
    }

    fn field(&self, pointer: u32, n: usize) -> Result<u32, BadModule> {
        match self.constructor(pointer)?.fields.get(n) {
            Some(&field) => Ok(field),
            None => bad(format!("a constructor has no field {n}")),
        }
    }

    fn array(&self, pointer: u32) -> Result<Vec<u32>, BadModule> {
        let at = self.offset(pointer)?;
        if self.tag(at)? != tag::ARRAY {
            return bad("no array where one should be");
        }
        let n = self.word(at + 8)?;
        self.words(at + 16, n as usize)
    }

    /// A `Lean.Name`, its parts joined by dots.
    fn name(&self, mut pointer: u32) -> Result<String, BadModule> {
        let mut parts = Vec::new();
        while pointer & 1 == 0 {
            if parts.len() == MAX_DEPTH {
                return bad("a name has no end");
            }
            let fields = self.constructor(pointer)?.fields;
            let &[prefix, last] = fields.as_slice() else {
                return bad("a name has not two fields");
            };
            parts.push(self.part(last)?);
            pointer = prefix;
        }
        parts.reverse();
        Ok(parts.join("."))
    }

    fn part(&self, pointer: u32) -> Result<String, BadModule> {
        if pointer & 1 == 1 {
            return Ok((pointer >> 1).to_string());
        }
        let at = self.offset(pointer)?;
        match self.tag(at)? {
            tag::STRING => {
                // The size counts the final zero.
                let size = self.word(at + 8)? as usize;
                let bytes = self.bytes(at + 20, size.saturating_sub(1))?;
                match std::str::from_utf8(bytes) {
                    Ok(text) => Ok(text.to_owned()),
                    Err(_) => bad("a name is not UTF-8"),
                }
            }
            tag::BIG_NUMBER => {
                // Too large to be boxed (hashes in names of specialisations): 32-bit digits, the least first. Only equality
                // matters here, so hexadecimal is as good as decimal, if it cannot be taken for it.
                let digits = self.word(at + 12)? as usize;
                let words = self.words(at + 20, digits)?;
                let digits = words.iter().rev().map(|w| format!("{w:08x}"));
                Ok(std::iter::once("x".to_owned()).chain(digits).collect())
            }
            _ => bad("a name's part is neither text nor number"),
        }
    }
}

/// New objects behind the end of a file.
struct Tail {
    start: u32,
    bytes: Vec<u8>,
}

impl Tail {
    fn object(&mut self, bytes: &[u8]) -> u32 {
        // A file and its tail stay far below 4 GB.
        let at = self.start.wrapping_add(u32::try_from(self.bytes.len()).unwrap_or(u32::MAX));
        self.bytes.extend_from_slice(bytes);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        at
    }

    fn constructor(&mut self, tag: u8, fields: &[u32], scalars: &[u8]) -> u32 {
        let size = (8 + 4 * fields.len() + scalars.len()).next_multiple_of(4);
        let mut object = vec![0; 4];
        // Both are small: at most five fields and a byte.
        object.extend_from_slice(&u16::try_from(size).unwrap_or(u16::MAX).to_le_bytes());
        object.push(u8::try_from(fields.len()).unwrap_or(u8::MAX));
        object.push(tag);
        object.extend(fields.iter().flat_map(|f| f.to_le_bytes()));
        object.extend_from_slice(scalars);
        self.object(&object)
    }

    fn array(&mut self, items: &[u32]) -> u32 {
        let n = u32::try_from(items.len()).unwrap_or(u32::MAX).to_le_bytes();
        let mut object = vec![0, 0, 0, 0, 1, 0, 0, tag::ARRAY];
        object.extend_from_slice(&n);
        object.extend_from_slice(&n);
        object.extend(items.iter().flat_map(|i| i.to_le_bytes()));
        self.object(&object)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A module file with one constant `c` and these extra names (a part that is all digits becomes a number).
    pub(crate) fn module(extra: &[&str]) -> Vec<u8> {
        const BASE_ADDRESS: u32 = 0x1234_0000;
        let mut data = b"olean\x02\0".to_vec();
        data.resize(BASE, 0);
        data.extend_from_slice(&BASE_ADDRESS.to_le_bytes());
        data.extend_from_slice(&[0; 4]);
        let mut tail = Tail { start: BASE_ADDRESS + FIRST_OBJECT as u32, bytes: Vec::new() };
        let c = name(&mut tail, "c");
        let ty = tail.constructor(3, &[c], &[]);
        let constant = tail.constructor(0, &[c, 1, ty], &[]);
        let axiom = tail.constructor(0, &[constant], &[0]);
        let info = tail.constructor(0, &[axiom], &[]);
        let extra: Vec<u32> = extra.iter().map(|n| name(&mut tail, n)).collect();
        let fields = [tail.array(&[]), tail.array(&[c]), tail.array(&[info]), tail.array(&extra), tail.array(&[])];
        let root = tail.constructor(0, &fields, &[1]);
        data[ROOT..FIRST_OBJECT].copy_from_slice(&root.to_le_bytes());
        data.extend_from_slice(&tail.bytes);
        data
    }

    fn name(tail: &mut Tail, name: &str) -> u32 {
        name.split('.').fold(1, |prefix, part| {
            let (tag, last) = match part.parse::<u32>() {
                Ok(n) => (2, 2 * n + 1),
                Err(_) => {
                    let size = part.len() as u32 + 1;
                    let mut s = vec![0, 0, 0, 0, 1, 0, 0, super::tag::STRING];
                    for n in [size, size, part.chars().count() as u32] {
                        s.extend_from_slice(&n.to_le_bytes());
                    }
                    s.extend_from_slice(part.as_bytes());
                    s.push(0);
                    (1, tail.object(&s))
                }
            };
            tail.constructor(tag, &[prefix, last], &[0; 8])
        })
    }

    fn apply(data: &[u8], patch: &Patch) -> Vec<u8> {
        let mut out = data.to_vec();
        out[ROOT..FIRST_OBJECT].copy_from_slice(&patch.root.to_le_bytes());
        out.extend_from_slice(&patch.tail);
        out
    }

    fn constants(data: &[u8]) -> Vec<(String, bool)> {
        let file = Olean::new(data).unwrap();
        let root = file.constructor(file.root).unwrap();
        let names = file.array(root.fields[1]).unwrap();
        let infos = file.array(root.fields[2]).unwrap();
        names
            .into_iter()
            .zip(infos)
            .map(|(name, info)| {
                let axiom = file.constructor(file.field(info, 0).unwrap()).unwrap();
                let own = file.field(axiom.fields[0], 0).unwrap();
                assert_eq!(file.name(own), file.name(name));
                (file.name(name).unwrap(), axiom.scalars[0] == 1)
            })
            .collect()
    }

    #[test]
    fn missing_names_are_added_once_as_unsafe_axioms() {
        let one = module(&["f._redArg", "_private.M.0.g", "f._closed_3", "f._redArg"]);
        let mut seen = HashSet::new();
        let patch = repair(&one, &mut seen).unwrap().unwrap();
        assert_eq!(patch.added, 2);
        let repaired = apply(&one, &patch);
        let want = [("c", false), ("f._redArg", true), ("_private.M.0.g", true)];
        assert_eq!(constants(&repaired), want.map(|(n, u)| (n.to_owned(), u)));
        let root = Olean::new(&repaired).unwrap();
        assert_eq!(root.constructor(root.root).unwrap().scalars[0], 1, "isModule is kept");
        // Names given away are not given again, and a repaired module has all it needs.
        let two = module(&["f._redArg"]);
        assert_eq!(repair(&two, &mut seen).unwrap(), None);
        assert_eq!(repair(&repaired, &mut seen).unwrap(), None);
    }

    #[test]
    fn other_files_are_refused() {
        for data in [&b""[..], b"olean\x01", b"\x7fELF", &[0; 400]] {
            assert!(repair(data, &mut HashSet::new()).is_err());
        }
    }

    proptest! {
        /// A damaged file gives an error or a patch, never a panic or an endless loop.
        #[test]
        fn damage_never_panics(at in 0usize..600, byte: u8, cut in 0usize..600) {
            let mut data = module(&["a.b", "c.7"]);
            let n = at % data.len();
            data[n] = byte;
            data.truncate(data.len() - cut % data.len());
            let _ignored = repair(&data, &mut HashSet::new());
        }
    }
}

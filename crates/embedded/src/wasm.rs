//! Rewriting the package's WebAssembly module, section by section. The code section is copied byte for byte.
//!
//! As published the module exports some 200,000 functions: above the limit of engines before Node 26, and the reason for its slow
//! start. Here nearly all exports become entries of the function table, and a symbol file says which index a name has. So Lean's
//! `dlsym`, by which its interpreter finds compiled code, is a look-up that every thread can do without asking another one.
//!
//! Memory: the code and data sections are copied from file to file; only the small ones are held, the export section (some 13 MB)
//! being the largest.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::Range;

use beam_base::AbsPath;
use wasm_encoder::{ConstExpr, ElementSection, Elements, Encode, Section, TableSection};
use wasmparser::{
    BinaryReader, ConstExpr as Initialiser, ElementItems, ElementKind, ExternalKind, Imports, Operator, SectionLimited,
    TypeRef, ValType,
};

use crate::symbols::Symbols;
use beam_toolchain::fs::FsError;
use beam_toolchain::progress::Progress;

/// What the host calls from JavaScript. Everything else is reached through the table.
const KEEP: &[&str] = &[
    "__indirect_function_table",
    "__wasm_call_ctors",
    "_emscripten_tls_init",
    "__main_argc_argv",
    "malloc",
    "free",
    "emscripten_builtin_memalign",
    "fflush",
    "setThrew",
    "pthread_self",
    "pthread_create",
    "pthread_attr_init",
    "pthread_attr_setstacksize",
    "pthread_attr_setdetachstate",
    "__funcs_on_exit",
    "_emscripten_thread_init",
    "_emscripten_thread_exit",
    "_emscripten_thread_free_data",
    "_emscripten_thread_crashed",
    "_emscripten_check_mailbox",
    "_emscripten_tempret_set",
    "_emscripten_tempret_get",
    "emscripten_stack_get_current",
    "emscripten_stack_set_limits",
    "_emscripten_stack_restore",
    "_emscripten_stack_alloc",
    "__cxa_increment_exception_refcount",
    "__cxa_decrement_exception_refcount",
    "__cxa_can_catch",
    "__cxa_get_exception_ptr",
    "emscripten_get_sbrk_ptr",
    "mi_thread_done",
];

/// Section numbers of the binary format.
mod section {
    pub const CUSTOM: u8 = 0;
    pub const IMPORT: u8 = 2;
    pub const TABLE: u8 = 4;
    pub const GLOBAL: u8 = 6;
    pub const EXPORT: u8 = 7;
    pub const ELEMENT: u8 = 9;
}

/// Why a module was not rewritten.
#[derive(Debug, thiserror::Error)]
pub enum ModuleError {
    /// The file is not the module we know how to edit.
    #[error("lean.wasm is not what it should be: {0}")]
    Shape(String),
    /// Not WebAssembly.
    #[error("lean.wasm cannot be read as WebAssembly: {0}")]
    Parse(#[from] wasmparser::Error),
    /// A file operation failed.
    #[error(transparent)]
    Fs(#[from] FsError),
}

/// What the host needs to know of the module.
#[derive(Debug)]
pub(crate) struct Rewritten {
    /// Names to table indices (functions) and addresses (data).
    pub symbols: Symbols,
    /// Functions that the module takes from its global offset table, in order; the value is the table index, 0 if there is none.
    pub got: Vec<(String, u32)>,
    /// Pages of 64 KB.
    pub memory_min: u64,
    /// Pages of 64 KB.
    pub memory_max: u64,
}

/// A section's number and where its body lies in the file.
struct Place {
    id: u8,
    body: Range<u64>,
}

/// Reads the module `from`, writes the edited one to `to`. Progress counts bytes of `from`.
pub(crate) fn rewrite(from: &AbsPath, to: &AbsPath, progress: &dyn Progress) -> Result<Rewritten, ModuleError> {
    let read = |e| FsError::at("read", from)(e);
    let mut file = BufReader::new(File::open(from).map_err(read)?);
    let places = scan(&mut file, from)?;
    let mut body = |id: u8| -> Result<(Vec<u8>, u64), ModuleError> {
        let place =
            places.iter().find(|p| p.id == id).ok_or_else(|| ModuleError::Shape(format!("it has no section {id}")))?;
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(place.body.start)).map_err(read)?;
        file.by_ref().take(place.body.end - place.body.start).read_to_end(&mut bytes).map_err(read)?;
        Ok((bytes, place.body.start))
    };
    let imports = Imported::read(&body(section::IMPORT)?)?;
    let globals = read_globals(&body(section::GLOBAL)?)?;
    let mut table = Table::read(&body(section::TABLE)?, &body(section::ELEMENT)?)?;
    let (symbols, kept) = read_exports(&body(section::EXPORT)?, &imports, &globals, &mut table)?;
    let got = imports.got.iter().map(|name| (name.clone(), symbols.get(name).unwrap_or(0))).collect();
    let sections = NewSections { table: table.table_section()?, export: kept, element: table.element_section() };
    write(&mut file, from, to, &places, &sections, progress)?;
    Ok(Rewritten { symbols, got, memory_min: imports.memory_min, memory_max: imports.memory_max })
}

fn scan(file: &mut BufReader<File>, path: &AbsPath) -> Result<Vec<Place>, ModuleError> {
    let read = |e| FsError::at("read", path)(e);
    let end = file.seek(SeekFrom::End(0)).map_err(read)?;
    file.rewind().map_err(read)?;
    let mut magic = [0; 8];
    file.read_exact(&mut magic).map_err(read)?;
    if magic != *b"\0asm\x01\0\0\0" {
        return Err(ModuleError::Shape("it is no WebAssembly module of version 1".into()));
    }
    let mut places = Vec::new();
    let mut at = 8;
    while at < end {
        // A section number and a length of at most five bytes.
        let mut head = Vec::new();
        file.by_ref().take(6).read_to_end(&mut head).map_err(read)?;
        let mut reader = BinaryReader::new(&head, at);
        let id = reader.read_u8()?;
        let len = u64::from(reader.read_var_u32()?);
        let start = reader.original_position();
        if start + len > end {
            return Err(ModuleError::Shape(format!("section {id} is cut off")));
        }
        places.push(Place { id, body: start..start + len });
        at = start + len;
        file.seek(SeekFrom::Start(at)).map_err(read)?;
    }
    Ok(places)
}

/// Imports, as far as they matter.
struct Imported {
    functions: HashMap<String, u32>,
    globals: u32,
    got: Vec<String>,
    memory_min: u64,
    memory_max: u64,
}

impl Imported {
    fn read((bytes, at): &(Vec<u8>, u64)) -> Result<Self, ModuleError> {
        let mut out = Self { functions: HashMap::new(), globals: 0, got: Vec::new(), memory_min: 0, memory_max: 0 };
        let mut count = 0;
        for group in SectionLimited::<Imports<'_>>::new(BinaryReader::new(bytes, *at))? {
            let Imports::Single(_, import) = group? else {
                return Err(ModuleError::Shape("it has compact imports".into()));
            };
            match import.ty {
                TypeRef::Func(_) => {
                    out.functions.insert(import.name.to_owned(), count);
                    count += 1;
                }
                TypeRef::Memory(memory) => {
                    out.memory_min = memory.initial;
                    out.memory_max =
                        memory.maximum.ok_or_else(|| ModuleError::Shape("its memory has no upper limit".into()))?;
                }
                TypeRef::Global(_) if import.module == "GOT.func" => {
                    out.globals += 1;
                    out.got.push(import.name.to_owned());
                }
                TypeRef::Table(_) => {}
                other => {
                    return Err(ModuleError::Shape(format!(
                        "it imports {}.{} as {other:?}",
                        import.module, import.name
                    )));
                }
            }
        }
        Ok(out)
    }
}

/// The value of every global that a constant initialises. Exported ones are addresses of data: the memory base is 0.
fn read_globals((bytes, at): &(Vec<u8>, u64)) -> Result<Vec<Option<u32>>, ModuleError> {
    let mut out = Vec::new();
    for global in SectionLimited::<wasmparser::Global<'_>>::new(BinaryReader::new(bytes, *at))? {
        let global = global?;
        let value = constant(&global.init_expr)?;
        out.push(value.filter(|_| global.ty.content_type == ValType::I32));
    }
    Ok(out)
}

/// The value of an `i32.const` initialiser.
fn constant(init: &Initialiser<'_>) -> Result<Option<u32>, ModuleError> {
    let mut reader = init.get_operators_reader();
    Ok(match reader.read()? {
        // Addresses are unsigned.
        Operator::I32Const { value } => Some(value.cast_unsigned()),
        _ => None,
    })
}

/// The function table: what it holds already, and what is appended.
struct Table {
    ty: wasmparser::TableType,
    index_of: HashMap<u32, u32>,
    old_segment: Vec<u8>,
    minimum: u32,
    extra: Vec<u32>,
}

impl Table {
    fn read(table: &(Vec<u8>, u64), element: &(Vec<u8>, u64)) -> Result<Self, ModuleError> {
        let shape = |what: &str| ModuleError::Shape(what.to_owned());
        let mut tables =
            SectionLimited::<wasmparser::Table<'_>>::new(BinaryReader::new(&table.0, table.1))?.into_iter();
        let (Some(ty), None) = (tables.next(), tables.next()) else {
            return Err(shape("it has not exactly one table"));
        };
        let ty = ty?.ty;
        let mut segments =
            SectionLimited::<wasmparser::Element<'_>>::new(BinaryReader::new(&element.0, element.1))?.into_iter();
        let (Some(segment), None) = (segments.next(), segments.next()) else {
            return Err(shape("it has not exactly one element segment"));
        };
        let segment = segment?;
        let (ElementKind::Active { table_index: None | Some(0), offset_expr }, ElementItems::Functions(functions)) =
            (segment.kind, segment.items)
        else {
            return Err(shape("its element segment is of an unknown kind"));
        };
        let offset = constant(&offset_expr)?.ok_or_else(|| shape("its element segment has no fixed place"))?;
        let mut index_of = HashMap::with_capacity(functions.count() as usize);
        for (n, function) in (offset..).zip(functions) {
            index_of.entry(function?).or_insert(n);
        }
        let minimum = u32::try_from(ty.initial).map_err(|_| shape("its table is too long"))?;
        // The segment without the count before it.
        let count_len = BinaryReader::new(&element.0, 0);
        let mut count_len = count_len;
        count_len.read_var_u32()?;
        let skip = usize::try_from(count_len.original_position()).unwrap_or(1);
        Ok(Self { ty, index_of, old_segment: element.0[skip..].to_vec(), minimum, extra: Vec::new() })
    }

    /// The table index of a function; it gets one if it has none.
    fn slot(&mut self, function: u32) -> u32 {
        // There are far fewer than 2^32 functions.
        let next = self.minimum + u32::try_from(self.extra.len()).unwrap_or(u32::MAX);
        *self.index_of.entry(function).or_insert_with(|| {
            self.extra.push(function);
            next
        })
    }

    fn table_section(&self) -> Result<TableSection, ModuleError> {
        if !self.ty.element_type.is_func_ref() {
            return Err(ModuleError::Shape("its table holds no functions".into()));
        }
        let mut out = TableSection::new();
        out.table(wasm_encoder::TableType {
            element_type: wasm_encoder::RefType::FUNCREF,
            table64: false,
            minimum: u64::from(self.minimum) + self.extra.len() as u64,
            maximum: None,
            shared: false,
        });
        Ok(out)
    }

    fn element_section(&self) -> ElementSection {
        let mut out = ElementSection::new();
        out.raw(&self.old_segment);
        let offset = ConstExpr::i32_const(self.minimum.cast_signed());
        out.active(None, &offset, Elements::Functions(self.extra.as_slice().into()));
        out
    }
}

/// Turns exports into symbols; what the host calls stays exported. The order of the file is kept throughout.
fn read_exports(
    (bytes, at): &(Vec<u8>, u64),
    imports: &Imported,
    globals: &[Option<u32>],
    table: &mut Table,
) -> Result<(Symbols, wasm_encoder::ExportSection), ModuleError> {
    let keep: HashSet<&str> = KEEP.iter().copied().collect();
    let mut kept = wasm_encoder::ExportSection::new();
    let mut symbols = Symbols::default();
    for export in SectionLimited::<wasmparser::Export<'_>>::new(BinaryReader::new(bytes, *at))? {
        let export = export?;
        if keep.contains(export.name) {
            kept.export(export.name, kind(export.kind)?, export.index);
        }
        match export.kind {
            ExternalKind::Func => symbols.set(export.name, table.slot(export.index)),
            ExternalKind::Global => {
                let own = export.index.checked_sub(imports.globals).and_then(|n| globals.get(n as usize));
                if let Some(&Some(address)) = own {
                    symbols.set(export.name, address);
                }
            }
            _ => {}
        }
    }
    // Functions of the host that the module takes addresses of.
    for name in &imports.got {
        if symbols.get(name).is_none()
            && let Some(&function) = imports.functions.get(name)
        {
            symbols.set(name, table.slot(function));
        }
    }
    if kept.is_empty() {
        return Err(ModuleError::Shape("it exports nothing that the host calls".into()));
    }
    Ok((symbols, kept))
}

fn kind(kind: ExternalKind) -> Result<wasm_encoder::ExportKind, ModuleError> {
    Ok(match kind {
        ExternalKind::Func => wasm_encoder::ExportKind::Func,
        ExternalKind::Table => wasm_encoder::ExportKind::Table,
        ExternalKind::Memory => wasm_encoder::ExportKind::Memory,
        ExternalKind::Global => wasm_encoder::ExportKind::Global,
        other => return Err(ModuleError::Shape(format!("it exports a {other:?}"))),
    })
}

struct NewSections {
    table: TableSection,
    export: wasm_encoder::ExportSection,
    element: ElementSection,
}

fn write(
    file: &mut BufReader<File>,
    from: &AbsPath,
    to: &AbsPath,
    places: &[Place],
    new: &NewSections,
    progress: &dyn Progress,
) -> Result<(), FsError> {
    let write = |e| FsError::at("write", to)(e);
    let mut out = BufWriter::with_capacity(1 << 20, File::create(to).map_err(write)?);
    out.write_all(b"\0asm\x01\0\0\0").map_err(write)?;
    for place in places {
        match place.id {
            // Names for debuggers and the like.
            section::CUSTOM => {}
            section::TABLE => put(&mut out, &new.table).map_err(write)?,
            section::EXPORT => put(&mut out, &new.export).map_err(write)?,
            section::ELEMENT => put(&mut out, &new.element).map_err(write)?,
            id => {
                let len = place.body.end - place.body.start;
                let mut head = vec![id];
                u32::try_from(len).map_err(io::Error::other).map_err(write)?.encode(&mut head);
                out.write_all(&head).map_err(write)?;
                file.seek(SeekFrom::Start(place.body.start)).map_err(FsError::at("read", from))?;
                io::copy(&mut file.by_ref().take(len), &mut out).map_err(write)?;
            }
        }
        progress.advance(place.body.end - place.body.start);
    }
    out.into_inner().map_err(io::IntoInnerError::into_error).map_err(write).map(drop)
}

fn put(out: &mut impl Write, section: &impl Section) -> io::Result<()> {
    let mut bytes = Vec::new();
    section.append_to(&mut bytes);
    out.write_all(&bytes)
}

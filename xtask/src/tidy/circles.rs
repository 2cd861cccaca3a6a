//! No circle of files: the graph of what each file of a crate names, and the shortest way round each of its circles.
//!
//! **The rule.** A node is a file under `src`; an inline `mod x { .. }` belongs to its file. A file has an edge to each file that
//! *defines* an item which it names: in a private `use`, in a path in its code, in a path inside of a macro's arguments or of an
//! attribute's string (`with = "super::x"`). What stands under `#[cfg(test)]` does not count. A name is followed through `use`,
//! `pub use` and globs to its definition, so that
//! * `mod x;` is no edge: the parent says where the file is, not that it needs it;
//! * `pub use x::Y;` is an address and by itself no edge: who names `super::Y` has an edge to `x.rs`. Only if the code beside it
//!   uses `Y` does the file need `x.rs`;
//! * a path that ends at a module is no edge, the paths that go on from there are;
//! * a path into the crate whose item is not found (a macro made it) is an edge to the last file on its way.
//!
//! Not seen: methods and traits' implementations, which are called without naming their file. An `impl` that stands in another
//! file than its type therefore makes an edge from the `impl` to the type only, which is the direction that the reader needs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::Visit;

use super::source;
use super::tree::File;

/// Why one file needs another: the path as written, and its line.
type Reason = (String, usize);

/// Which file needs which, and by what it shows. The files are named relative to `src`.
type Graph = BTreeMap<String, BTreeMap<String, Reason>>;

/// Complaints about circles in any crate.
pub(super) fn check(files: &[File]) -> Vec<String> {
    let mut out = Vec::new();
    for root in files.iter().filter(|f| is_root(&f.path)) {
        let crate_of = root.path.split("/src/").next().unwrap_or_default();
        match Crate::read(files, &root.path) {
            Ok(it) => out.extend(circles(&it.graph()).iter().map(|c| format!("{crate_of}: {c}"))),
            Err(complaint) => out.push(complaint),
        }
    }
    out
}

/// `src/lib.rs`, `src/main.rs`, and the executables in `src/bin`.
fn is_root(path: &str) -> bool {
    path.split_once("/src/").is_some_and(|(_, rest)| {
        matches!(rest, "lib.rs" | "main.rs")
            || rest.strip_prefix("bin/").is_some_and(|name| name.ends_with(".rs") && !name.contains('/'))
    })
}

/// One line for each knot of files that need each other: how many they are, and the shortest circle among them.
fn circles(graph: &Graph) -> Vec<String> {
    let reach: BTreeMap<&str, BTreeMap<&str, &str>> = graph.keys().map(|f| (f.as_str(), walk(graph, f))).collect();
    let mut left: BTreeSet<&str> = graph.keys().map(String::as_str).filter(|f| reach[f].contains_key(f)).collect();
    let mut out = Vec::new();
    while let Some(first) = left.first().copied() {
        let knot: Vec<&str> = left
            .iter()
            .copied()
            .filter(|f| *f == first || (reach[first].contains_key(f) && reach[f].contains_key(first)))
            .collect();
        left.retain(|f| !knot.contains(f));
        let shortest = knot.iter().map(|f| way_round(&reach[f], f)).min_by_key(Vec::len).unwrap_or_default();
        let steps: Vec<String> = shortest
            .windows(2)
            .map(|pair| {
                let (path, line) = &graph[pair[0]][pair[1]];
                format!("{} → {} (`{path}`, line {line})", pair[0], pair[1])
            })
            .collect();
        out.push(format!("a circle of {} files; the shortest way round: {}", knot.len(), steps.join(", ")));
    }
    out
}

/// From where each file was first reached, breadth first; a file reaches itself only by a circle.
fn walk<'a>(graph: &'a Graph, from: &'a str) -> BTreeMap<&'a str, &'a str> {
    let mut came_from = BTreeMap::new();
    let mut queue = VecDeque::from([from]);
    while let Some(at) = queue.pop_front() {
        for next in graph.get(at).into_iter().flat_map(BTreeMap::keys) {
            if !came_from.contains_key(next.as_str()) {
                came_from.insert(next.as_str(), at);
                queue.push_back(next);
            }
        }
    }
    came_from
}

/// The circle that `walk` from `file` found, first and last the same.
fn way_round<'a>(came_from: &BTreeMap<&'a str, &'a str>, file: &'a str) -> Vec<&'a str> {
    let mut way = vec![file];
    let mut at = file;
    while let Some(before) = came_from.get(at) {
        way.push(before);
        at = before;
        if at == file {
            break;
        }
    }
    way.reverse();
    way
}

type ModuleId = usize;

/// What a module's names mean.
#[derive(Default)]
struct Module {
    file: String,
    parent: Option<ModuleId>,
    children: BTreeMap<String, ModuleId>,
    items: BTreeSet<String>,
    /// Imported names and where they lead; a name can stand for an item and for a module.
    imports: Vec<(String, Vec<String>)>,
    globs: Vec<Vec<String>>,
    /// Paths that the module's code names.
    named: Vec<(Vec<String>, usize)>,
}

/// Where a path ends.
#[derive(Clone, Copy)]
enum End {
    /// At an item of this module.
    Item(ModuleId),
    /// At this module itself.
    Module(ModuleId),
}

struct Crate<'a> {
    files: &'a [File],
    modules: Vec<Module>,
    /// `macro_rules!` are found by name wherever they stand.
    macros: BTreeMap<String, ModuleId>,
}

impl<'a> Crate<'a> {
    fn read(files: &'a [File], root: &str) -> Result<Self, String> {
        let mut it = Self { files, modules: Vec::new(), macros: BTreeMap::new() };
        it.module(root, None)?;
        Ok(it)
    }

    fn module(&mut self, path: &str, parent: Option<ModuleId>) -> Result<Option<ModuleId>, String> {
        let Some(file) = self.files.iter().find(|f| f.path == path) else {
            return Ok(None);
        };
        let parsed = source::product(file)?;
        let name = path.split_once("/src/").map_or(path, |(_, rest)| rest).to_owned();
        let (dir, base) = path.rsplit_once('/').unwrap_or(("", path));
        let below = match base {
            _ if parent.is_none() => dir.to_owned(),
            "mod.rs" => dir.to_owned(),
            _ => format!("{dir}/{}", base.trim_end_matches(".rs")),
        };
        let id = self.add(name, parent);
        self.items(id, &parsed.items, dir, &below)?;
        Ok(Some(id))
    }

    fn add(&mut self, file: String, parent: Option<ModuleId>) -> ModuleId {
        self.modules.push(Module { file, parent, ..Module::default() });
        self.modules.len() - 1
    }

    fn items(&mut self, id: ModuleId, items: &[syn::Item], dir: &str, below: &str) -> Result<(), String> {
        for item in items {
            match item {
                syn::Item::Mod(module) => {
                    let name = module.ident.to_string();
                    let child = match &module.content {
                        Some((_, content)) => {
                            let child = self.add(self.modules[id].file.clone(), Some(id));
                            self.items(child, content, dir, &format!("{below}/{name}"))?;
                            Some(child)
                        }
                        None => match elsewhere(&module.attrs) {
                            Some(path) => self.module(&format!("{dir}/{path}"), Some(id))?,
                            None => match self.module(&format!("{below}/{name}.rs"), Some(id))? {
                                Some(child) => Some(child),
                                None => self.module(&format!("{below}/{name}/mod.rs"), Some(id))?,
                            },
                        },
                    };
                    if let Some(child) = child {
                        self.modules[id].children.insert(name, child);
                    }
                }
                syn::Item::Use(item) => self.import(id, item),
                _ => {
                    for name in defined(item) {
                        self.modules[id].items.insert(name);
                    }
                    if let syn::Item::Macro(m) = item
                        && let Some(name) = &m.ident
                    {
                        self.macros.insert(name.to_string(), id);
                    }
                    let mut names = Names::default();
                    names.visit_item(item);
                    self.modules[id].named.extend(names.paths);
                    for inner in names.uses {
                        self.import(id, &inner);
                    }
                }
            }
        }
        Ok(())
    }

    fn import(&mut self, id: ModuleId, item: &syn::ItemUse) {
        // A path from outside of the crate leads nowhere in it.
        if item.leading_colon.is_some() {
            return;
        }
        let mut found = Vec::new();
        flatten(&item.tree, &mut Vec::new(), &mut found);
        let line = source::line_of(item);
        let private = matches!(item.vis, syn::Visibility::Inherited);
        for (name, path) in found {
            if private {
                self.modules[id].named.push((path.clone(), line));
            }
            match name {
                Some(name) => self.modules[id].imports.push((name, path)),
                None => self.modules[id].globs.push(path),
            }
        }
    }

    fn graph(&self) -> Graph {
        let mut graph: Graph = self.modules.iter().map(|m| (m.file.clone(), BTreeMap::new())).collect();
        for (id, module) in self.modules.iter().enumerate() {
            for (path, line) in &module.named {
                let end = match path.as_slice() {
                    [name] if name.ends_with('!') => self.macros.get(name.trim_end_matches('!')).map(|m| End::Item(*m)),
                    _ => self.resolve(id, path, &mut Vec::new()),
                };
                let Some(End::Item(at)) = end else {
                    continue;
                };
                let to = &self.modules[at].file;
                if *to != module.file
                    && let Some(edges) = graph.get_mut(&module.file)
                {
                    edges.entry(to.clone()).or_insert_with(|| (path.join("::"), *line));
                }
            }
        }
        graph
    }

    /// Follows a path from a module. `seen` are the names under way, so that imports that name each other come to an end.
    fn resolve(&self, from: ModuleId, path: &[String], seen: &mut Vec<(ModuleId, String)>) -> Option<End> {
        let mut at = from;
        let mut rest = path;
        let mut anchored = false;
        while let [first, tail @ ..] = rest {
            match first.as_str() {
                "crate" => at = 0,
                "self" => {}
                "super" => at = self.modules[at].parent?,
                _ => break,
            }
            anchored = true;
            rest = tail;
        }
        while let [name, tail @ ..] = rest {
            match self.lookup(at, name, !tail.is_empty(), seen) {
                Some(End::Module(next)) => at = next,
                Some(End::Item(owner)) => return Some(End::Item(owner)),
                // Made by a macro, if the path leads into this crate at all.
                None => return anchored.then_some(End::Item(at)),
            }
            anchored = true;
            rest = tail;
        }
        Some(End::Module(at))
    }

    /// What a name means in a module. If the path goes on behind it, a module is meant rather than an item of the same name.
    fn lookup(&self, at: ModuleId, name: &str, goes_on: bool, seen: &mut Vec<(ModuleId, String)>) -> Option<End> {
        let module = &self.modules[at];
        let child = module.children.get(name).map(|c| End::Module(*c));
        let item = module.items.contains(name).then_some(End::Item(at));
        let own = if goes_on { child.or(item) } else { item.or(child) };
        if own.is_some() {
            return own;
        }
        let key = (at, name.to_owned());
        if seen.contains(&key) {
            return None;
        }
        seen.push(key);
        let mut found = None;
        for (_, path) in module.imports.iter().filter(|(n, _)| n == name) {
            match (self.resolve(at, path, seen), goes_on) {
                (Some(End::Module(m)), true) => return Some(End::Module(m)),
                (Some(End::Item(m)), false) => return Some(End::Item(m)),
                (end, _) => found = found.or(end),
            }
        }
        for path in &module.globs {
            if found.is_none()
                && let Some(End::Module(m)) = self.resolve(at, path, seen)
            {
                found = self.lookup(m, name, goes_on, seen);
            }
        }
        seen.pop();
        found
    }
}

/// `#[path = ".."]` of a module.
pub(super) fn elsewhere(attributes: &[syn::Attribute]) -> Option<String> {
    attributes.iter().find_map(|a| match &a.meta {
        syn::Meta::NameValue(syn::MetaNameValue {
            path,
            value: syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(s), .. }),
            ..
        }) if path.is_ident("path") => Some(s.value()),
        _ => None,
    })
}

/// The names that an item brings into its module. A macro's call may define anything: each name behind a defining word counts.
fn defined(item: &syn::Item) -> Vec<String> {
    use syn::Item as I;
    let ident = match item {
        I::Const(i) => &i.ident,
        I::Enum(i) => &i.ident,
        I::Fn(i) => &i.sig.ident,
        I::Static(i) => &i.ident,
        I::Struct(i) => &i.ident,
        I::Trait(i) => &i.ident,
        I::TraitAlias(i) => &i.ident,
        I::Type(i) => &i.ident,
        I::Union(i) => &i.ident,
        I::Macro(i) => {
            let mut out = Vec::new();
            defined_by_tokens(i.mac.tokens.clone(), &mut out);
            out.extend(i.ident.iter().map(ToString::to_string));
            return out;
        }
        _ => return Vec::new(),
    };
    vec![ident.to_string()]
}

fn defined_by_tokens(tokens: TokenStream, out: &mut Vec<String>) {
    let mut word = String::new();
    for token in tokens {
        match token {
            TokenTree::Ident(name) => {
                let name = name.to_string();
                if ["const", "enum", "fn", "static", "struct", "trait", "type"].contains(&word.as_str()) {
                    out.push(name.clone());
                }
                word = name;
            }
            TokenTree::Group(group) => {
                defined_by_tokens(group.stream(), out);
                word.clear();
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => word.clear(),
        }
    }
}

/// The paths of a `use`, each with the name that it gives; no name for a glob.
fn flatten(tree: &syn::UseTree, path: &mut Vec<String>, out: &mut Vec<(Option<String>, Vec<String>)>) {
    let with = |path: &[String], name: &syn::Ident| {
        let mut whole = path.to_vec();
        if name != "self" || path.is_empty() {
            whole.push(name.to_string());
        }
        whole
    };
    match tree {
        syn::UseTree::Path(p) => {
            path.push(p.ident.to_string());
            flatten(&p.tree, path, out);
            path.pop();
        }
        syn::UseTree::Name(n) => {
            let whole = with(path, &n.ident);
            out.push((whole.last().cloned(), whole));
        }
        syn::UseTree::Rename(r) => out.push((Some(r.rename.to_string()), with(path, &r.ident))),
        syn::UseTree::Glob(_) => out.push((None, path.clone())),
        syn::UseTree::Group(g) => g.items.iter().for_each(|t| flatten(t, path, out)),
    }
}

/// Every path that an item's code names, and the `use`s inside of it.
#[derive(Default)]
struct Names {
    paths: Vec<(Vec<String>, usize)>,
    uses: Vec<syn::ItemUse>,
}

impl<'a> Visit<'a> for Names {
    fn visit_path(&mut self, path: &'a syn::Path) {
        if path.leading_colon.is_none() {
            self.paths.push((path.segments.iter().map(|s| s.ident.to_string()).collect(), source::line_of(path)));
        }
        syn::visit::visit_path(self, path);
    }

    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        self.uses.push(item.clone());
    }

    fn visit_macro(&mut self, call: &'a syn::Macro) {
        let line = source::line_of(&call.path);
        let segments: Vec<String> = call.path.segments.iter().map(|s| s.ident.to_string()).collect();
        if let Some(name) = segments.last() {
            self.paths.push((vec![format!("{name}!")], line));
        }
        self.tokens(call.tokens.clone());
    }

    fn visit_attribute(&mut self, attribute: &'a syn::Attribute) {
        if let syn::Meta::List(list) = &attribute.meta {
            self.strings(list.tokens.clone());
        }
    }
}

impl Names {
    /// Paths in a macro's arguments: names joined by `::`.
    fn tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let colon = |n: usize| matches!(tokens.get(n), Some(TokenTree::Punct(p)) if p.as_char() == ':');
        let mut n = 0;
        while n < tokens.len() {
            match &tokens[n] {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Ident(first) => {
                    let member = n > 0 && matches!(&tokens[n - 1], TokenTree::Punct(p) if p.as_char() == '.');
                    let mut path = vec![first.to_string()];
                    while colon(n + 1)
                        && colon(n + 2)
                        && let Some(TokenTree::Ident(next)) = tokens.get(n + 3)
                    {
                        path.push(next.to_string());
                        n += 3;
                    }
                    let line = first.span().start().line;
                    let call = matches!(tokens.get(n + 1), Some(TokenTree::Punct(p)) if p.as_char() == '!');
                    if call && let Some(name) = path.last() {
                        self.paths.push((vec![format!("{name}!")], line));
                    }
                    if !member {
                        self.paths.push((path, line));
                    }
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
            n += 1;
        }
    }

    /// Paths in an attribute's strings, as `serde` takes them.
    fn strings(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.strings(group.stream()),
                TokenTree::Literal(literal) => {
                    let line = literal.span().start().line;
                    if let Ok(syn::Lit::Str(text)) = syn::parse_str(&literal.to_string())
                        && let Ok(path) = text.parse::<syn::Path>()
                        && path.leading_colon.is_none()
                    {
                        self.paths.push((path.segments.iter().map(|s| s.ident.to_string()).collect(), line));
                    }
                }
                TokenTree::Ident(_) | TokenTree::Punct(_) => {}
            }
        }
    }
}

#[cfg(test)]
#[path = "circles_tests.rs"]
mod tests;

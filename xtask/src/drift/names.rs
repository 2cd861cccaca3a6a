//! From a symbol back to the Lean name it was made of.
//!
//! Lean writes a name's components with `_` between them. In a component letters and digits stand for themselves, `__` for `_`,
//! `_x`, `_u` and `_U` with two, four and eight hexadecimal digits for other characters; a number is `_n_`; and `00` in front of a
//! component keeps it from being read as one of these.

/// The Lean name of a symbol, for people. What is no mangled name stays as it is.
#[must_use]
pub fn demangle(symbol: &str) -> String {
    symbol.strip_prefix("l_").and_then(name).unwrap_or_else(|| symbol.to_owned())
}

fn name(mangled: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = mangled.strip_prefix("00").unwrap_or(mangled);
    // Whether a component has just ended, so that the next one needs a point.
    let mut ended = false;
    while let Some(c) = rest.chars().next() {
        if c != '_' {
            point(&mut out, &mut ended);
            out.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        }
        // A run of them: pairs are underscores, and an odd one belongs to what follows. If that is a plain separator, it stands in
        // front of the pairs, since a component that *ends* in an underscore is followed by `_00`.
        let run = rest.len() - rest.trim_start_matches('_').len();
        let pairs = "_".repeat(run / 2);
        rest = &rest[run..];
        if run.is_multiple_of(2) {
            point(&mut out, &mut ended);
            out.push_str(&pairs);
        } else if let Some((c, more)) = escaped(rest) {
            point(&mut out, &mut ended);
            out.push_str(&pairs);
            out.push(c);
            rest = more;
        } else if let Some(more) = rest.strip_prefix("00") {
            out.push_str(&pairs);
            ended = true;
            rest = more;
        } else if let Some((number, more)) = number(rest) {
            out.push_str(&pairs);
            out.push('.');
            out.push_str(number);
            ended = true;
            rest = more.strip_prefix("_00").or_else(|| separator(more)).unwrap_or(more);
        } else {
            ended = true;
            point(&mut out, &mut ended);
            out.push_str(&pairs);
        }
    }
    (!out.is_empty()).then_some(out)
}

fn point(out: &mut String, ended: &mut bool) {
    if std::mem::take(ended) && !out.is_empty() {
        out.push('.');
    }
}

/// A single `_` in front of a component that begins with a letter.
fn separator(rest: &str) -> Option<&str> {
    rest.strip_prefix('_')
        .filter(|after| after.starts_with(|c: char| c.is_ascii_alphabetic()) && escaped(after).is_none())
}

fn escaped(rest: &str) -> Option<(char, &str)> {
    let digits = match rest.bytes().next()? {
        b'x' => 2,
        b'u' => 4,
        b'U' => 8,
        _ => return None,
    };
    let hex = rest.get(1..=digits)?;
    let lower = hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    let c = char::from_u32(u32::from_str_radix(hex, 16).ok().filter(|_| lower)?)?;
    Some((c, &rest[1 + digits..]))
}

fn number(rest: &str) -> Option<(&str, &str)> {
    let end = rest.find(|c: char| !c.is_ascii_digit())?;
    (end > 0 && rest[end..].starts_with('_')).then(|| (&rest[..end], &rest[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_as_lean_writes_them() {
        for (symbol, want) in [
            ("l_Lean_Name_isAnonymous", "Lean.Name.isAnonymous"),
            ("l_Lean_Server_FileWorker_findGoalsAt_x3f", "Lean.Server.FileWorker.findGoalsAt?"),
            ("l_IO_AsyncList_waitAll___redArg", "IO.AsyncList.waitAll._redArg"),
            ("l_Lean_Language_inst___lam__0___boxed", "Lean.Language.inst._lam_0._boxed"),
            (
                "l___private_Init_Data_Array_Basic_0__Array_mapMUnsafe_map",
                "_private.Init.Data.Array.Basic.0.Array.mapMUnsafe.map",
            ),
            ("l_List_foldr___at___00Lean_AsyncList_ofList_spec__0", "List.foldr._at_.Lean.AsyncList.ofList.spec_0"),
            ("l_WellFounded_opaqueFix_u2083", "WellFounded.opaqueFix₃"),
            ("lean_nat_add", "lean_nat_add"),
            ("initialize_Init", "initialize_Init"),
        ] {
            assert_eq!(demangle(symbol), want);
        }
    }
}

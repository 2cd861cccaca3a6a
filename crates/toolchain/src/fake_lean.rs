//! Tests only: a folder that looks like a native toolchain, its programs being shell scripts.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use beam_base::AbsPath;

/// Answers what discovery asks, and "compiles" by copying. A source that contains `ERROR` does not compile, one with `CRASH` kills
/// the process, one with `ENDLESS` takes ten minutes; a source that is compiled before what it imports fails too.
const LEAN: &str = r#"#!/bin/sh
prefix=$(cd "$(dirname "$0")/.." && pwd)
case $1 in
--version) cat "$prefix/banner" ;;
--print-prefix) echo "$prefix" ;;
--print-libdir) echo "$prefix/lib/lean" ;;
-o)
  echo "compiling $3 with LEAN_PATH=$LEAN_PATH"
  grep -q ERROR "$3" && { echo "$3:1:0: error: it says ERROR"; exit 1; }
  grep -q CRASH "$3" && kill -9 $$
  grep -q ENDLESS "$3" && { echo $$ >"$prefix/pid.new"; mv "$prefix/pid.new" "$prefix/pid"; sleep 600; }
  for m in $(sed -n 's/^import //p' "$3"); do
    [ "$m" = Lean ] || [ -f "$(echo "$m" | tr . /).olean" ] || { echo "no $m"; exit 1; }
  done
  cp "$3" "$2" ;;
*) echo "unexpected: $*" >&2; exit 9 ;;
esac
"#;

/// `lake env` prints what it would set, after a line that is no variable.
const LAKE: &str = r#"#!/bin/sh
prefix=$(cd "$(dirname "$0")/.." && pwd)
case $1 in
--version) echo "Lake version 5.0.0" ;;
env)
  [ -f broken ] && { echo "error: lakefile is broken" >&2; exit 1; }
  echo "info: x=y"
  echo "LEAN_SYSROOT=$prefix"
  echo "LEAN_PATH=$PWD/.lake/build/lib/lean"
  echo "LAKE_NO_CACHE="
  echo "ELAN_HOME=$ELAN_HOME"
  echo "ELAN_TOOLCHAIN=$ELAN_TOOLCHAIN"
  echo "LEAN_GITHASH=${LEAN_GITHASH-own}" ;;
esac
"#;

/// Makes the toolchain; `version` is as in the banner, e.g. `4.28.0`.
pub(crate) fn make(prefix: &AbsPath, version: &str) {
    fs::create_dir_all(prefix.join("bin")).unwrap();
    fs::create_dir_all(prefix.join("lib/lean")).unwrap();
    fs::write(
        prefix.join("banner"),
        format!("Lean (version {version}, x86_64-unknown-linux-gnu, commit 0123abcd, Release)\n"),
    )
    .unwrap();
    for (name, script) in [("lean", LEAN), ("lake", LAKE)] {
        let path = prefix.join("bin").join(name);
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    }
}

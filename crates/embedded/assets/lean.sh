#!/bin/sh
# Lean as WebAssembly under Node. LEAN_NODE picks the node, LEAN_NODE_FLAGS are given to it.
# Links are followed to the real folder; `exec` makes this process node's, so signals and the pid are its own.
f=$0
while [ -L "$f" ]; do
  l=$(readlink "$f")
  case $l in
  /*) f=$l ;;
  *) f=$(dirname "$f")/$l ;;
  esac
done
d=$(cd "$(dirname "$f")/.." && pwd) || exit 1
# LEAN_NODE_FLAGS is a list of words.
# shellcheck disable=SC2086
exec "${LEAN_NODE:-node}" ${LEAN_NODE_FLAGS-} "$d/libexec/host.cjs" "$@"

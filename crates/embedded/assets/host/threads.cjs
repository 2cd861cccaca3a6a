'use strict';
// A thread of Lean: its instance of the module, and its run from start to end.
const fs = require('node:fs');
const {
  ERRNO, my, readString, newString, asSyscall, asWasi, failed, tellMain, exit, crash,
} = require('./state.cjs');
const { exceptions, call, findCatch, makeInvoke } = require('./exceptions.cjs');
const { syscalls, wasiCalls, flushStderr } = require('./files.cjs');
const { misc } = require('./system.cjs');

/** Given up by the module on purpose: the thread lives on in its event loop. */
class Unwind extends Error {}

const threads = {
  exit,
  proc_exit: exit,
  _abort_js: () => crash('aborted'),
  __assert_fail: (condition, file, line) => crash(`assertion failed: ${readString(condition)} at ${readString(file)}:${line}`),
  __pthread_create_js: (ptr, _attr, start, arg) => { tellMain({ cmd: 'spawn', ptr, start, arg }); return 0; },
  _emscripten_thread_cleanup: ptr => { tellMain({ cmd: 'cleanup', ptr }); },
  _emscripten_thread_exit_joinable: () => {},
  _emscripten_thread_set_strongref: () => {},
  _emscripten_thread_mailbox_await: () => {},
  _emscripten_notify_mailbox_postmessage: () => {},
  _emscripten_receive_on_main_thread_js: () => 0,
  _emscripten_runtime_keepalive_clear: () => {},
  _emscripten_init_main_thread_js: block => {
    my.exported._emscripten_thread_init(block, 1, 1, 1, 65536, 0);
    my.exported._emscripten_tls_init();
  },
  emscripten_exit_with_live_runtime: () => { throw new Unwind(); },
  emscripten_unwind_to_js_event_loop: () => { throw new Unwind(); },
};

/** Makes this thread's instance of the module. */
function instantiate() {
  const env = { memory: my.shared.memory };
  const add = (functions, wrap = f => f) => { for (const name in functions) env[name] = wrap(functions[name]); };
  add(syscalls, asSyscall);
  add(wasiCalls, asWasi);
  for (const functions of [misc, exceptions, threads]) add(functions);
  const provide = name => env[name]
    ?? (name.startsWith('invoke_') ? makeInvoke(name.slice('invoke_'.length))
      : name.startsWith('__cxa_find_matching_catch_') ? findCatch
      : name.startsWith('__syscall_') ? () => -ERRNO.ENOSYS
      : () => crash(`the module called ${name}, which this host does not provide`));
  const trace = my.shared.options.trace && new RegExp(my.shared.options.trace);
  const imports = {};
  for (const { module, name, kind } of WebAssembly.Module.imports(my.shared.module)) {
    imports[module] ??= {};
    if (module === 'GOT.func') {
      imports[module][name] = new WebAssembly.Global({ value: 'i32', mutable: true }, my.shared.meta.got[name] ?? 0);
    } else if (kind === 'function') {
      const f = provide(name);
      imports[module][name] = trace && trace.test(name) ? traced(name, f) : f;
    } else {
      imports[module][name] = env[name];
    }
  }
  my.exported = new WebAssembly.Instance(my.shared.module, imports).exports;
  my.table = my.exported.__indirect_function_table;
}

const traced = (name, f) => (...args) => {
  const result = f(...args);
  fs.writeSync(2, `~ ${name}(${args.join(',')}) = ${result}\n`);
  return result;
};

/** Runs a thread of Lean to its end, in a worker. */
function runThread({ ptr, start, arg, main }) {
  try {
    const top = my.U32[(ptr + 52) >> 2], size = my.U32[(ptr + 56) >> 2];
    my.exported.emscripten_stack_set_limits(top, top - size);
    my.exported._emscripten_stack_restore(top);
    my.exported._emscripten_thread_init(ptr, 0, 0, 1, 0, 0);
    my.exported._emscripten_tls_init();
    if (main) {
      const args = my.shared.argv.map(newString);
      const argv = my.exported.malloc(4 * (args.length + 1)) >>> 0;
      [...args, 0].forEach((p, i) => { my.U32[(argv >> 2) + i] = p; });
      const code = my.exported.__main_argc_argv(args.length, argv);
      // Where it means 0, this build may return anything.
      exit(failed() ? 1 : code >= 0 && code < 256 ? code : 0);
    } else {
      const result = call(start)(arg);
      flushStderr();
      // This build's allocator does not notice the end of a thread by itself and would leak the thread's whole heap.
      my.exported.mi_thread_done?.();
      my.exported._emscripten_thread_exit(result);
    }
  } catch (e) {
    if (e instanceof Unwind) return;
    if (typeof e === 'number') crash('uncaught C++ exception');
    else if (e instanceof RangeError && /stack/i.test(e.message)) crash('Stack overflow detected. Aborting.');
    else crash((e && e.stack) || String(e));
  }
}

module.exports = { instantiate, runThread };

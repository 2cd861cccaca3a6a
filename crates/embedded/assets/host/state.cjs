'use strict';
// What all parts of the host share: this thread's views of the module's memory, the state shared by all threads, and the ways to
// end the process.
const { isMainThread, parentPort } = require('node:worker_threads');
const fs = require('node:fs');

/** Indices of the shared 32-bit words `ctl`. */
const STDIN_STATE = 0, STDIN_HEAD = 1, STDIN_TAIL = 2, STDIN_EOF = 3, FAILED = 4, EXITING = 5, SHELL_DONE = 6;
const RING = 1 << 20; // bytes of the ring through which stdin goes
const MAX_FD = 4096; // file positions are kept for this many descriptors
const PAGE = 65536;

/** This thread's view of everything. Fields are set by `useShared` and by whoever makes the instance. */
const my = {
  /** {module, memory, ctl, ring, positions, symbols, meta, options, argv, env, appPath}, the same in every thread. */
  shared: undefined,
  ctl: undefined, ring: undefined, positions: undefined, symbols: undefined,
  /** Exports and function table of this thread's instance. */
  exported: undefined, table: undefined,
  /** Views of the module's memory. */
  HEAP8: undefined, U8: undefined, I16: undefined, I32: undefined, U32: undefined, I64: undefined, BUF: undefined,
  /** The main thread's handler of what threads tell it. */
  onMessage: () => {},
};

function useShared(state) {
  my.shared = state;
  my.ctl = new Int32Array(state.ctl);
  my.ring = new Uint8Array(state.ring);
  my.positions = new Float64Array(state.positions);
  my.symbols = new Uint32Array(state.symbols);
  viewMemory();
}

function viewMemory() {
  const memory = my.shared.memory.buffer;
  my.HEAP8 = new Int8Array(memory);
  my.U8 = new Uint8Array(memory);
  my.I16 = new Int16Array(memory);
  my.I32 = new Int32Array(memory);
  my.U32 = new Uint32Array(memory);
  my.I64 = new BigInt64Array(memory);
  my.BUF = Buffer.from(memory);
}

const sleeper = new Int32Array(new SharedArrayBuffer(4));
const sleep = ms => Atomics.wait(sleeper, 0, 0, ms);
function sleepForEver() {
  for (;;) Atomics.wait(sleeper, 0, 0);
}

// -------------------------------------------------------------------------------------------------- strings and symbols

const readString = p => my.BUF.toString('utf8', p, my.BUF.indexOf(0, p));

/** Writes a zero-terminated string of at most `room` bytes. */
function putString(text, p, room) {
  const bytes = Buffer.from(text, 'utf8');
  const n = Math.min(bytes.length, room - 1);
  my.U8.set(bytes.subarray(0, n), p);
  my.U8[p + n] = 0;
}

function newString(text) {
  const room = Buffer.byteLength(text) + 1;
  const p = my.exported.malloc(room) >>> 0;
  putString(text, p, room);
  return p;
}

/** `dlsym`: the value of a name in the symbol table, 0 if it has none. The installer writes the table; both must hash alike. */
function lookUp(p) {
  let a = 0x811c9dc5, b = 5381, c;
  while ((c = my.U8[p++])) {
    a = Math.imul(a ^ c, 0x01000193);
    b = (Math.imul(b, 33) + c) | 0;
  }
  a = a >>> 0 || 1;
  b >>>= 0;
  const mask = (1 << my.shared.meta.symbolBits) - 1;
  for (let i = (a ^ (a >>> 15)) & mask; my.symbols[3 * i]; i = (i + 1) & mask) {
    if (my.symbols[3 * i] === a && my.symbols[3 * i + 1] === b) return my.symbols[3 * i + 2];
  }
  return 0;
}

// --------------------------------------------------------------------------------------------------------------- errors

/** WASI's numbers, which this port uses for everything. */
const ERRNO = {
  E2BIG: 1, EACCES: 2, EAGAIN: 6, EBADF: 8, EBUSY: 10, EEXIST: 20, EFAULT: 21, EFBIG: 22, EINTR: 27, EINVAL: 28, EIO: 29, EISDIR: 31,
  ELOOP: 32, EMFILE: 33, EMLINK: 34, ENAMETOOLONG: 37, ENFILE: 41, ENODEV: 43, ENOENT: 44, ENOMEM: 48, ENOSPC: 51, ENOSYS: 52,
  ENOTDIR: 54, ENOTEMPTY: 55, ENOTTY: 59, ENXIO: 60, EPERM: 63, EPIPE: 64, ERANGE: 68, EROFS: 69, ESPIPE: 70, ETXTBSY: 74, EXDEV: 75,
  EOPNOTSUPP: 138, ENOTSUP: 138,
};

/** The number for an error that a system call of Node threw; any other error is a bug here and goes on. */
function errnoOf(error) {
  if (error && error.code && error.syscall) return ERRNO[error.code] ?? ERRNO.EIO;
  throw error;
}

const systemError = (code, syscall) => Object.assign(new Error(code), { code, syscall });

/** `__syscall_*` answer a negative error number, WASI's functions a positive one. */
const asSyscall = f => (...args) => { try { return f(...args) | 0; } catch (e) { return -errnoOf(e); } };
const asWasi = f => (...args) => { try { return f(...args) | 0; } catch (e) { return errnoOf(e); } };

// ----------------------------------------------------------------------------------------------- the end of the process

/** Lean has reported an error: the exit code of this build cannot be trusted to say so. */
const setFailed = () => Atomics.store(my.ctl, FAILED, 1);
const failed = () => Atomics.load(my.ctl, FAILED);
const exiting = () => Atomics.load(my.ctl, EXITING);
/** Lean's main has done its work; only tear-down is left, which in this build may fault or hang, in any thread. */
const setShellDone = () => Atomics.store(my.ctl, SHELL_DONE, 1);
const shellDone = () => my.ctl !== undefined && Atomics.load(my.ctl, SHELL_DONE) === 1;

const tellMain = message => (isMainThread ? my.onMessage(message) : parentPort.postMessage(message));
let ending = false;

/** Ends the process at once; from here on the other threads stay silent. */
function endProcess(code) {
  Atomics.store(my.ctl, EXITING, 1);
  tellMain({ cmd: 'exit', code });
  if (!isMainThread) sleepForEver(); // the main thread ends the process
}

function exit(code) {
  if (!ending) {
    ending = true;
    try { my.exported.fflush(0); } catch { /* what can be flushed has been */ }
    endProcess(code);
  }
  if (!isMainThread) sleepForEver();
}

function crash(what) {
  if (shellDone()) exit(failed());
  if (!exiting()) {
    try { fs.writeSync(2, `lean (wasm): ${what}\n`); } catch { /* nobody listens */ }
  }
  exit(134);
}

module.exports = {
  STDIN_STATE, STDIN_HEAD, STDIN_TAIL, STDIN_EOF, RING, MAX_FD, PAGE, ERRNO,
  my, useShared, viewMemory, sleep, readString, putString, newString, lookUp, errnoOf, systemError, asSyscall, asWasi,
  setFailed, failed, exiting, setShellDone, shellDone, tellMain, endProcess, exit, crash,
};

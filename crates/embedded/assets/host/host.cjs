'use strict';
// Runs Lean's WebAssembly module under Node 20 or newer: what an operating system does for a program, done with Node.
//
// Roles. The main thread owns the event loop and nothing else: it starts threads, feeds stdin, ends the process. Lean's own `main`
// runs in a worker thread like every other thread of Lean, so nothing that Lean does can hold up the start or the end of a thread.
// System calls are served in whichever thread makes them (file descriptors belong to the process); none goes through the main
// thread, so none can wait for it.
//
// The module was rewritten at installation: its functions are entries of one table, complete from the start in every thread, and
// `symbols.bin` says which entry or address a name has. The memory is created at its full size (address space only), so it never
// grows and no thread has a stale view of it.
//
// Environment: LEAN_WASM_LEVEL=exported keeps the port's own import level; LEAN_WASM_DEBUG=1 shows its debug prints;
// LEAN_WASM_TIMING=1|2 reports times, threads and memory on stderr; LEAN_WASM_TRACE=REGEX traces host calls; LEAN_WASM_STACK_MB is the
// native stack of a thread (64); LEAN_WASM_POOL the number of threads started ahead (2); LEAN_WASM_PAGES the memory in 64 KB pages.
//
// Parts: `state.cjs` what all share, `files.cjs`, `system.cjs`, `exceptions.cjs` what the module imports, `threads.cjs` a thread of
// Lean; here is the main thread.
const { Worker, isMainThread, parentPort, workerData } = require('node:worker_threads');
const fs = require('node:fs');
const path = require('node:path');
const v8 = require('node:v8');
const vm = require('node:vm');
const {
  STDIN_HEAD, STDIN_TAIL, STDIN_EOF, RING, MAX_FD, my, useShared, failed, shellDone, crash,
} = require('./state.cjs');
const { instantiate, runThread } = require('./threads.cjs');

/** The main thread's side: from process.stdin into the ring. */
class StdinPump {
  constructor() {
    this.backlog = [];
  }

  start() {
    process.stdin.on('data', bytes => { this.backlog.push(bytes); this.fill(); });
    process.stdin.on('end', () => this.end());
    process.stdin.on('error', () => this.end());
  }

  /** Moves what fits; stdin is paused while something does not. */
  fill() {
    while (this.backlog.length) {
      const bytes = this.backlog[0];
      const tail = Atomics.load(my.ctl, STDIN_TAIL);
      const free = RING - (tail - Atomics.load(my.ctl, STDIN_HEAD));
      const at = tail & (RING - 1);
      const k = Math.min(free, bytes.length, RING - at);
      if (k <= 0) {
        process.stdin.pause();
        return;
      }
      my.ring.set(bytes.subarray(0, k), at);
      Atomics.store(my.ctl, STDIN_TAIL, (tail + k) | 0);
      Atomics.notify(my.ctl, STDIN_TAIL);
      if (k < bytes.length) this.backlog[0] = bytes.subarray(k);
      else this.backlog.shift();
    }
    process.stdin.resume();
  }

  end() {
    if (this.backlog.length) {
      setTimeout(() => this.end(), 2);
      return;
    }
    Atomics.store(my.ctl, STDIN_EOF, 1);
    // A reader between its look at the flag and its wait would miss one call, so it is woken again and again: without new data
    // it looks at the flag once more.
    const wake = () => Atomics.notify(my.ctl, STDIN_TAIL);
    setInterval(wake, 20).unref();
    wake();
  }
}

/** Reports times on stderr if asked to. */
function stopwatch() {
  if (!process.env.LEAN_WASM_TIMING) return () => {};
  return label => fs.writeSync(2, `# ${label} ${performance.now().toFixed(0)} ms\n`);
}

/** The threads: idle ones, which have an instance already, and those that run a thread of Lean. */
class Pool {
  constructor() {
    this.idle = [];
    this.running = new Map();
    this.started = 0;
    this.state = null;
    this.nextIsMain = false;
  }

  add() {
    this.idle.push(this.make());
  }

  make() {
    const stackSizeMb = +(process.env.LEAN_WASM_STACK_MB || 64);
    const worker = new Worker(__filename, { workerData: 'lean-thread', env: {}, resourceLimits: { stackSizeMb } });
    worker.on('message', m => my.onMessage(m));
    worker.on('error', e => {
      fs.writeSync(2, `lean (wasm): thread died: ${e && e.stack}\n`);
      process.exit(134);
    });
    if (this.state) worker.postMessage({ cmd: 'load', shared: this.state });
    this.started++;
    return worker;
  }

  /** Threads started before there was a module get it now. */
  load(state) {
    this.state = state;
    for (const worker of this.idle) worker.postMessage({ cmd: 'load', shared: state });
  }

  spawn({ ptr, start, arg }) {
    const worker = this.idle.pop() ?? this.make();
    this.running.set(ptr, worker);
    worker.postMessage({ cmd: 'run', ptr, start, arg, main: this.nextIsMain });
    this.nextIsMain = false;
  }

  release(ptr) {
    const worker = this.running.get(ptr);
    if (!worker) return;
    this.running.delete(ptr);
    this.idle.push(worker);
    // During tear-down the main thread stays out of the module: it could block there, and nobody would be left to end the process.
    if (!shellDone()) my.exported._emscripten_thread_free_data(ptr);
  }

  toString() {
    const heap = my.U32[my.exported.emscripten_get_sbrk_ptr() >> 2] >>> 20;
    const rss = (process.memoryUsage.rss() / 1e6).toFixed(0);
    return `${this.started} threads (${this.running.size} in use), heap ${heap} MB, rss ${rss} MB`;
  }
}

/** Collects garbage now. The collector by itself sees no reason to hurry, and 116 MB would stay for the life of the process. */
function collectGarbage() {
  v8.setFlagsFromString('--expose-gc'); // for contexts made from here on
  vm.runInNewContext('gc')();
}

/** The compiled module. In a function of its own, so that nothing refers to the file's bytes afterwards: V8 has its own copy. */
function compile() {
  return new WebAssembly.Module(fs.readFileSync(path.join(__dirname, 'lean.wasm')));
}

/** Compiles the module and makes the memory. */
function loadModule(tick) {
  const meta = JSON.parse(fs.readFileSync(path.join(__dirname, 'meta.json'), 'utf8'));
  const module = compile();
  collectGarbage();
  tick('compiled');
  const symbolBytes = fs.readFileSync(path.join(__dirname, 'symbols.bin'));
  const symbolTable = new SharedArrayBuffer(symbolBytes.length);
  new Uint8Array(symbolTable).set(symbolBytes);
  const pages = Math.min(meta.memoryMax, +(process.env.LEAN_WASM_PAGES || meta.memoryMax));
  const env = { ...process.env };
  delete env.NODE_OPTIONS;
  env.LLVM_PROFILE_FILE = '/dev/null'; // the build is instrumented and would write default.profraw
  return {
    module,
    memory: new WebAssembly.Memory({ initial: Math.max(meta.memoryMin, pages), maximum: meta.memoryMax, shared: true }),
    ctl: new SharedArrayBuffer(64),
    ring: new SharedArrayBuffer(RING),
    positions: new SharedArrayBuffer(8 * MAX_FD),
    symbols: symbolTable,
    meta,
    options: {
      keepDebug: !!process.env.LEAN_WASM_DEBUG,
      trace: process.env.LEAN_WASM_TRACE,
      level: process.env.LEAN_WASM_LEVEL ?? 'private',
      isRun: process.argv.includes('--run'),
    },
    argv: ['lean', ...process.argv.slice(2)],
    env,
    appPath: path.join(path.dirname(__dirname), 'bin', 'lean'),
  };
}

/** Starts Lean's main in a thread of its own, with a stack of 8 MB in the module's memory. */
function startLean(pool) {
  const attr = my.exported.malloc(64) >>> 0, tid = my.exported.malloc(4) >>> 0;
  my.exported.pthread_attr_init(attr);
  my.exported.pthread_attr_setstacksize(attr, 8 << 20);
  pool.nextIsMain = true;
  if (my.exported.pthread_create(tid, attr, 1, 0)) crash('cannot start the main thread');
}

function main() {
  // Most of the 147,000 functions are never called: they are validated and compiled when they first are. And few are called often
  // enough to be worth the optimising compiler: with the default budget it takes two thirds of a short run's processor time
  // (10.6 s against 3.6 s for a file of 140 lines), with this one a long run is faster as well.
  v8.setFlagsFromString('--wasm-lazy-validation');
  v8.setFlagsFromString('--wasm-tiering-budget=200000000');
  const tick = stopwatch();
  tick('start');
  const pool = new Pool();
  for (let i = +(process.env.LEAN_WASM_POOL ?? 2); i > 0; i--) pool.add();
  const state = loadModule(tick);
  useShared(state);
  pool.load(state);
  instantiate();
  tick('instantiated');
  const stdin = new StdinPump();
  let exiting = false;
  const handlers = {
    spawn: m => pool.spawn(m),
    cleanup: m => pool.release(m.ptr),
    stdin: () => stdin.start(),
    'stdin-drained': () => stdin.fill(),
    // The exit code comes with the end of Lean's main, usually at once. Its tear-down sometimes never ends: it gets two seconds.
    'shell-done': () => setTimeout(() => my.onMessage({ cmd: 'exit', code: failed() }), 2000),
    exit: m => {
      exiting = true;
      tick(`exit, ${pool}`);
      process.exit(m.code & 255);
    },
  };
  my.onMessage = m => { if (!exiting) handlers[m.cmd](m); };
  if (process.env.LEAN_WASM_TIMING > 1) setInterval(() => tick(pool), 200).unref();
  my.exported.__wasm_call_ctors();
  tick('constructors');
  startLean(pool);
}

if (isMainThread) {
  // A fault of the module in this thread, at the start or while it serves another one.
  process.on('uncaughtException', e => {
    if (shellDone()) process.exit(failed());
    fs.writeSync(2, `lean (wasm): ${e && e.stack}\n`);
    process.exit(134);
  });
  main();
} else if (workerData === 'lean-thread') {
  parentPort.on('message', m => {
    if (m.cmd === 'run') {
      runThread(m);
    } else {
      useShared(m.shared);
      try { instantiate(); } catch (e) { crash(e.stack); }
    }
  });
}

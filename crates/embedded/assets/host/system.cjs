'use strict';
// What is neither a file nor a thread: environment, clock, memory, the module's own calls into JavaScript.
const crypto = require('node:crypto');
const fs = require('node:fs');
const os = require('node:os');
const {
  PAGE, ERRNO, my, viewMemory, readString, putString, newString, lookUp, errnoOf, setFailed, failed, setShellDone, tellMain, exit,
} = require('./state.cjs');
const { call } = require('./exceptions.cjs');
const { writeStderr } = require('./files.cjs');

let envStrings;
const environment = () => (envStrings ??= Object.entries(my.shared.env).map(([k, v]) => Buffer.from(`${k}=${v}\0`)));

/** Fills a `struct tm` with the local or (`utc`) universal time. */
function putTime(date, p, utc) {
  const get = name => date[`get${utc ? 'UTC' : ''}${name}`]();
  const year = get('FullYear');
  const yearDay = (Date.UTC(year, get('Month'), get('Date')) - Date.UTC(year, 0, 1)) / 86400000;
  const fields = [get('Seconds'), get('Minutes'), get('Hours'), get('Date'), get('Month'), year - 1900, get('Day'), yearDay, 0];
  fields.forEach((value, i) => { my.I32[(p >> 2) + i] = value; });
  my.I32[(p + 36) >> 2] = utc ? 0 : -date.getTimezoneOffset() * 60;
}

/** Seconds since 1970 of the date in a `struct tm`, made by `Date.UTC` or a local constructor. */
function fromTime(p, make) {
  const [second, minute, hour, day, month, year] = my.I32.subarray(p >> 2, (p >> 2) + 6);
  return BigInt(Math.floor(make(year + 1900, month, day, hour, minute, second) / 1000));
}

/** There is no mapping: memory is allocated and the file is read into it. Lean's C library frees it on munmap. */
function mapFile(length, fd, offset, allocated, address) {
  const room = (length + PAGE - 1) & ~(PAGE - 1);
  const p = my.exported.emscripten_builtin_memalign(PAGE, room) >>> 0;
  if (!p) return -ERRNO.ENOMEM;
  let done = 0;
  try {
    while (done < length) {
      const k = fs.readSync(fd, my.U8, p + done, length - done, Number(offset) + done);
      if (!k) break;
      done += k;
    }
  } catch (e) {
    my.exported.free(p);
    return -errnoOf(e);
  }
  my.U8.fill(0, p + done, p + room);
  my.I32[allocated >> 2] = 1;
  my.U32[address >> 2] = p;
  return 0;
}

function growMemory(want) {
  want >>>= 0;
  const old = my.shared.memory.buffer.byteLength;
  const max = my.shared.meta.memoryMax * PAGE;
  if (want <= old || want > max) return 0;
  const target = Math.min(max, Math.max(want, old + (64 << 20)));
  try {
    my.shared.memory.grow((target - old + PAGE - 1) >>> 16);
    viewMemory();
    return 1;
  } catch {
    return 0;
  }
}

/** The module's own calls into JavaScript, known by their addresses. All but these are debug prints. */
function snippet(code, _signature, args) {
  const { meta, options } = my.shared;
  if (code === meta.asmGetenv) {
    const value = my.shared.env[readString(my.U32[args >> 2])];
    return value === undefined ? 0 : newString(value);
  }
  if (code === meta.asmAppPath) return newString(my.shared.appPath);
  if (code === meta.asmInitDone) {
    // A Lean that knows it runs under Emscripten imports at level `exported` and so treats every file as a `module`: definitions
    // become private and importing files do not see them. With the flag off, files behave as everywhere else.
    if (options.level === 'private' && meta.isEmscripten) my.U8[meta.isEmscripten] = 0;
  } else if (code === meta.asmShellDone) {
    setShellDone();
    // The exit code of `--run` is lost in this build, so there is nothing to wait for.
    if (options.isRun) exit(failed());
    my.exported.fflush(0);
    tellMain({ cmd: 'shell-done' });
  } else if (code === meta.asmAssert) {
    setFailed();
    tellMain({ cmd: 'shell-done' }); // Lean prints the assertion and may hang then
  } else if (code === meta.asmIoError || meta.asmThrew.includes(code)) {
    setFailed();
  }
  return 0;
}

const misc = {
  environ_sizes_get: (count, size) => {
    my.U32[count >> 2] = environment().length;
    my.U32[size >> 2] = environment().reduce((sum, s) => sum + s.length, 0);
    return 0;
  },
  environ_get: (vector, buffer) => {
    for (const s of environment()) {
      my.U32[vector >> 2] = buffer;
      my.U8.set(s, buffer);
      vector += 4;
      buffer += s.length;
    }
    return 0;
  },
  emscripten_get_now: () => performance.timeOrigin + performance.now(),
  emscripten_date_now: () => Date.now(),
  clock_time_get: (id, _precision, p) => {
    my.I64[p >> 3] = id === 0 ? BigInt(Date.now()) * 1000000n : process.hrtime.bigint();
    return 0;
  },
  clock_res_get: (id, p) => { my.I64[p >> 3] = id === 0 ? 1000000n : 1000n; return 0; },
  uv__hrtime: () => process.hrtime.bigint(),
  random_get: (p, n) => { my.U8.set(crypto.randomBytes(n), p); return 0; },
  emscripten_num_logical_cores: () => os.availableParallelism?.() ?? os.cpus().length,
  emscripten_get_heap_max: () => my.shared.meta.memoryMax * PAGE,
  emscripten_resize_heap: growMemory,
  _tzset_js: (timezone, daylight, standard, summer) => {
    my.I32[timezone >> 2] = 0;
    my.I32[daylight >> 2] = 0;
    putString('UTC', standard, 16);
    putString('UTC', summer, 16);
  },
  _gmtime_js: (t, p) => putTime(new Date(Number(t) * 1000), p, true),
  _localtime_js: (t, p) => putTime(new Date(Number(t) * 1000), p, false),
  _timegm_js: p => fromTime(p, Date.UTC),
  _mktime_js: p => fromTime(p, (...fields) => new Date(...fields).getTime()),
  _mmap_js: (length, _prot, _flags, fd, offset, allocated, address) => mapFile(length, fd, offset, allocated, address),
  _munmap_js: () => 0,
  _msync_js: () => 0,
  emscripten_asm_const_int: snippet,
  _emscripten_get_progname: (p, room) => putString('lean', p, room),
  // There are no dynamic libraries, sockets, child processes or event loops in this host.
  _dlopen_js: () => 0,
  _dlsym_js: (_handle, name) => lookUp(name),
  _dlsym_catchup_js: () => 0,
  _emscripten_dlsync_threads: () => {},
  _emscripten_dlsync_threads_async: () => {},
  uv__platform_loop_init: () => 0,
  uv__platform_loop_delete: () => {},
  uv__io_poll: () => {},
  uv__io_fork: () => 0,
  uv__io_check_fd: () => -ERRNO.ENOSYS,
  uv__platform_invalidate_fd: () => {},
  uv__fs_event_close: () => {},
  _emscripten_system: () => -1,
  _setitimer_js: () => 0,
  emscripten_check_blocking_allowed: () => {},
  _emscripten_log_formatted: (_flags, p) => { writeStderr(Buffer.from(`${readString(p)}\n`)); },
  __call_sighandler: (f, signal) => call(f)(signal),
};

module.exports = { misc };

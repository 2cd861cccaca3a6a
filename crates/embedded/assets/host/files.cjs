'use strict';
// Standard streams and files: the system calls for them, served with Node's `fs` in the thread that makes them.
const fs = require('node:fs');
const path = require('node:path');
const {
  STDIN_STATE, STDIN_HEAD, STDIN_TAIL, STDIN_EOF, RING, MAX_FD, ERRNO,
  my, sleep, readString, putString, systemError, setFailed, exiting, tellMain, endProcess,
} = require('./state.cjs');

// --------------------------------------------------------------------------------------------------------------- output

/** Writes all of it, also to a pipe that is full now. */
function writeAll(fd, bytes) {
  for (let done = 0; done < bytes.length; ) {
    try {
      done += fs.writeSync(fd, bytes, done, bytes.length - done);
    } catch (e) {
      if (e.code === 'EAGAIN') {
        sleep(1);
      } else if (e.code === 'EPIPE') {
        endProcess(141); // Node ignores SIGPIPE; this is how a shell shows it
        return ERRNO.EPIPE;
      } else {
        throw e;
      }
    }
  }
  return 0;
}

// This build prints lines that begin with "[DEBUG" on stderr, some in pieces, some with continuation lines. Each thread holds a
// line back only as long as it may still turn out to be one of those.
const DEBUG = ['[DEBUG'];
const AFTER_DEBUG = ['[DEBUG', '  - ', '  mainModule? = '];
const stderr = { held: Buffer.alloc(0), dropping: false, afterDrop: false, atLineStart: true };

function writeStderr(bytes) {
  if (my.shared.options.keepDebug) return writeAll(2, bytes);
  if (stderr.held.length) bytes = Buffer.concat([stderr.held, bytes]);
  stderr.held = Buffer.alloc(0);
  const out = [];
  for (let i = 0; i < bytes.length; ) {
    const newline = bytes.indexOf(10, i);
    const end = newline < 0 ? bytes.length : newline + 1;
    if (!stderr.dropping && stderr.atLineStart) {
      const head = bytes.toString('latin1', i, Math.min(end, i + 20));
      const prefixes = stderr.afterDrop ? AFTER_DEBUG : DEBUG;
      if (prefixes.some(p => head.startsWith(p))) {
        stderr.dropping = true;
      } else if (newline < 0 && prefixes.some(p => p.startsWith(head))) {
        stderr.held = Buffer.from(bytes.subarray(i));
        break;
      }
    }
    if (!stderr.dropping) {
      out.push(bytes.subarray(i, end));
      stderr.afterDrop = false;
    }
    if (newline >= 0) {
      if (stderr.dropping) stderr.afterDrop = true;
      stderr.dropping = false;
    }
    stderr.atLineStart = newline >= 0;
    i = end;
  }
  return out.length ? writeAll(2, Buffer.concat(out)) : 0;
}

function flushStderr() {
  if (stderr.held.length) writeAll(2, stderr.held);
  stderr.held = Buffer.alloc(0);
}

// ---------------------------------------------------------------------------------------------------------------- stdin

// The main thread pumps stdin into a ring and the reading thread waits on the ring. So no thread ever sits in a blocking read(2),
// and the end of the process is never held up by one.
function readStdin(max) {
  if (Atomics.compareExchange(my.ctl, STDIN_STATE, 0, 1) === 0) tellMain({ cmd: 'stdin' });
  for (;;) {
    const tail = Atomics.load(my.ctl, STDIN_TAIL), head = Atomics.load(my.ctl, STDIN_HEAD);
    const n = Math.min(max, tail - head);
    if (n > 0) {
      const at = head & (RING - 1);
      const k = Math.min(n, RING - at);
      const bytes = Buffer.allocUnsafe(k);
      bytes.set(my.ring.subarray(at, at + k));
      Atomics.store(my.ctl, STDIN_HEAD, (head + k) | 0);
      if (tail - head > RING / 2) tellMain({ cmd: 'stdin-drained' });
      return bytes;
    }
    if (Atomics.load(my.ctl, STDIN_EOF)) return Buffer.alloc(0);
    Atomics.wait(my.ctl, STDIN_TAIL, tail);
  }
}

// ---------------------------------------------------------------------------------------------------------------- files

const AT_FDCWD = -100;
/** Directories this thread has opened: path, and the listing being read. */
const directories = new Map();
const BIG = { bigint: true };
const O = fs.constants;

function pathAt(dirfd, p) {
  const name = readString(p);
  if (dirfd === AT_FDCWD || path.isAbsolute(name)) return name;
  const dir = directories.get(dirfd);
  if (dir === undefined) throw systemError('EBADF', 'openat');
  return path.join(dir.path, name);
}

/** The module uses Linux's numbers. */
function openFlags(flags) {
  let f = [O.O_RDONLY, O.O_WRONLY, O.O_RDWR][flags & 3] ?? O.O_RDONLY;
  if (flags & 0o100) f |= O.O_CREAT;
  if (flags & 0o200) f |= O.O_EXCL;
  if (flags & 0o1000) f |= O.O_TRUNC;
  if (flags & 0o2000) f |= O.O_APPEND;
  if (flags & 0o200000) f |= O.O_DIRECTORY ?? 0;
  return f;
}

function openAt(dirfd, p, flags, varargs) {
  const name = pathAt(dirfd, p);
  if (name === '') throw systemError('ENOENT', 'open');
  const mode = varargs ? my.U32[varargs >> 2] : 0o666;
  const fd = fs.openSync(name, openFlags(flags), flags & 0o100 ? mode : undefined);
  if (fd >= MAX_FD) {
    fs.closeSync(fd);
    return -ERRNO.EMFILE;
  }
  const stat = fs.fstatSync(fd);
  // Of anything but a plain regular file the kernel keeps the position.
  my.positions[fd] = stat.isFile() && !(flags & 0o2000) ? 0 : -1;
  if (stat.isDirectory()) directories.set(fd, { path: path.resolve(name), entries: null, next: 0 });
  return fd;
}

function close(fd) {
  if (fd > 2) {
    directories.delete(fd);
    fs.closeSync(fd);
  }
  return 0;
}

function putStat(p, s) {
  my.U32[p >> 2] = Number(s.dev & 0xffffffffn);
  my.U32[(p + 4) >> 2] = Number(s.mode);
  my.U32[(p + 8) >> 2] = Number(s.nlink);
  my.U32[(p + 12) >> 2] = Number(s.uid);
  my.U32[(p + 16) >> 2] = Number(s.gid);
  my.U32[(p + 20) >> 2] = Number(s.rdev & 0xffffffffn);
  my.I64[(p + 24) >> 3] = s.size;
  my.I32[(p + 32) >> 2] = 4096;
  my.U32[(p + 36) >> 2] = Number(s.blocks & 0xffffffffn);
  const time = (at, ns) => {
    my.I64[(p + at) >> 3] = ns / 1000000000n;
    my.U32[(p + at + 8) >> 2] = Number(ns % 1000000000n);
  };
  time(40, s.atimeNs);
  time(56, s.mtimeNs);
  time(72, s.ctimeNs);
  my.I64[(p + 88) >> 3] = s.ino;
  return 0;
}

function statAt(dirfd, p, buffer, flags) {
  if (flags & 0x1000 && my.U8[p] === 0) return putStat(buffer, fs.fstatSync(dirfd, BIG)); // AT_EMPTY_PATH
  const name = pathAt(dirfd, p);
  return putStat(buffer, flags & 0x100 ? fs.lstatSync(name, BIG) : fs.statSync(name, BIG)); // AT_SYMLINK_NOFOLLOW
}

function listDirectory(fd, p, room) {
  const dir = directories.get(fd);
  if (dir === undefined) return -ERRNO.EBADF;
  const typeOf = d => (d.isDirectory() ? 4 : d.isSymbolicLink() ? 10 : d.isFile() ? 8 : 0);
  if (!dir.entries) {
    const found = fs.readdirSync(dir.path, { withFileTypes: true });
    dir.entries = [['.', 4], ['..', 4], ...found.map(d => [d.name, typeOf(d)])];
  }
  const RECORD = 280;
  let used = 0;
  for (; dir.next < dir.entries.length && used + RECORD <= room; dir.next++, used += RECORD) {
    const [name, type] = dir.entries[dir.next];
    const at = p + used;
    my.I64[at >> 3] = BigInt(dir.next + 1);
    my.I64[(at + 8) >> 3] = BigInt(dir.next + 1);
    my.I16[(at + 16) >> 1] = RECORD;
    my.U8[at + 18] = type;
    putString(name, at + 19, 256);
  }
  return used;
}

function setTimes(dirfd, p, times) {
  const now = Date.now() / 1000;
  const UTIME_NOW = 0x3fffffff;
  const at = o => {
    const ns = my.U32[(times + o + 8) >> 2];
    return ns === UTIME_NOW ? now : Number(my.I64[(times + o) >> 3]) + ns / 1e9;
  };
  fs.utimesSync(pathAt(dirfd, p), times ? at(0) : now, times ? at(16) : now);
  return 0;
}

/** Everything is ready always: there are no sockets, and stdin is waited for in its read. */
function poll(fds, n) {
  let ready = 0;
  for (let i = 0; i < n; i++) {
    const p = fds + 8 * i;
    const events = my.I16[(p + 4) >> 1] & 5;
    my.I16[(p + 6) >> 1] = events;
    if (events) ready++;
  }
  return ready;
}

function fcntl(fd, cmd) {
  if (cmd === 3) return 2; // F_GETFL: read and write
  return [1, 2, 4, 6, 7, 13, 14].includes(cmd) ? 0 : -ERRNO.EINVAL;
}

const syscalls = {
  __syscall_openat: openAt,
  __syscall_fcntl64: fcntl,
  __syscall_ioctl: () => -ERRNO.ENOTTY,
  __syscall_faccessat: (d, p, mode) => { fs.accessSync(pathAt(d, p), mode & 7); return 0; },
  __syscall_stat64: (p, b) => putStat(b, fs.statSync(readString(p), BIG)),
  __syscall_lstat64: (p, b) => putStat(b, fs.lstatSync(readString(p), BIG)),
  __syscall_fstat64: (fd, b) => putStat(b, fs.fstatSync(fd, BIG)),
  __syscall_newfstatat: statAt,
  __syscall_getcwd: (b, size) => {
    const cwd = process.cwd();
    const n = Buffer.byteLength(cwd) + 1;
    if (size < n) return -ERRNO.ERANGE;
    putString(cwd, b, n);
    return n;
  },
  __syscall_getdents64: listDirectory,
  __syscall_mkdirat: (d, p, mode) => { fs.mkdirSync(pathAt(d, p), mode); return 0; },
  __syscall_unlinkat: (d, p, flags) => {
    const name = pathAt(d, p);
    if (flags & 0x200) fs.rmdirSync(name); // AT_REMOVEDIR
    else fs.unlinkSync(name);
    return 0;
  },
  __syscall_rmdir: p => { fs.rmdirSync(readString(p)); return 0; },
  __syscall_renameat: (d1, p1, d2, p2) => { fs.renameSync(pathAt(d1, p1), pathAt(d2, p2)); return 0; },
  __syscall_symlinkat: (target, d, p) => { fs.symlinkSync(readString(target), pathAt(d, p)); return 0; },
  __syscall_readlinkat: (d, p, b, room) => {
    const target = Buffer.from(fs.readlinkSync(pathAt(d, p)));
    const n = Math.min(room, target.length);
    my.U8.set(target.subarray(0, n), b);
    return n;
  },
  __syscall_chmod: (p, mode) => { fs.chmodSync(readString(p), mode); return 0; },
  __syscall_fchmod: (fd, mode) => { fs.fchmodSync(fd, mode); return 0; },
  __syscall_fchmodat2: (d, p, mode) => { fs.chmodSync(pathAt(d, p), mode); return 0; },
  __syscall_ftruncate64: (fd, n) => { fs.ftruncateSync(fd, Number(n)); return 0; },
  __syscall_truncate64: (p, n) => { fs.truncateSync(readString(p), Number(n)); return 0; },
  __syscall_fdatasync: fd => { fs.fdatasyncSync(fd); return 0; },
  __syscall_fadvise64: () => 0,
  __syscall_fallocate: () => -ERRNO.ENOTSUP,
  __syscall_utimensat: setTimes,
  __syscall_poll: poll,
};

/** The pairs [address, length] of an iovec array. */
function iovec(p, n) {
  const parts = [];
  for (let i = 0; i < n; i++) {
    const length = my.U32[(p >> 2) + 2 * i + 1];
    if (length) parts.push([my.U32[(p >> 2) + 2 * i], length]);
  }
  return parts;
}

/** Where to read or write next: `offset` if given, else our own position, or null for the kernel's. */
const placeOf = (fd, offset, done) => (offset !== undefined ? offset + done : my.positions[fd] < 0 ? null : my.positions[fd]);

function transfer(fd, parts, offset, one) {
  let total = 0;
  for (const [p, length] of parts) {
    const at = placeOf(fd, offset, total);
    const k = one(p, length, at);
    if (offset === undefined && at !== null) my.positions[fd] = at + k;
    total += k;
    if (k < length) break;
  }
  return total;
}

function read(fd, iov, n, offset) {
  if (fd === 0) {
    return transfer(fd, iovec(iov, n), 0, (p, length) => {
      const bytes = readStdin(length);
      my.U8.set(bytes, p);
      return bytes.length;
    });
  }
  return transfer(fd, iovec(iov, n), offset, (p, length, at) => fs.readSync(fd, my.U8, p, length, at));
}

/** Lines by which Lean reports what its exit code does not: usage errors, and the error that ended `--run`. */
const FAILURE = /^(uncaught exception|Lean \(version|Expected exactly)/;

function write(fd, iov, n, offset) {
  const parts = iovec(iov, n);
  if (fd !== 1 && fd !== 2) return transfer(fd, parts, offset, (p, length, at) => fs.writeSync(fd, my.U8, p, length, at));
  if (exiting()) return parts.reduce((sum, part) => sum + part[1], 0);
  const bytes = Buffer.concat(parts.map(([p, length]) => my.BUF.subarray(p, p + length)));
  if (fd === 2 && FAILURE.test(bytes.toString('latin1', 0, 30))) setFailed();
  const error = fd === 2 ? writeStderr(bytes) : writeAll(1, bytes);
  return error ? -error : bytes.length;
}

/** Stores a count at `p`, or answers the error that a negative one is. */
function storeCount(p, count) {
  if (count < 0) return -count;
  my.U32[p >> 2] = count;
  return 0;
}

function seek(fd, offset, whence, p) {
  if (fd <= 2 || my.positions[fd] < 0) return ERRNO.ESPIPE;
  const base = [0, my.positions[fd], null][whence] ?? fs.fstatSync(fd).size;
  const at = Number(offset) + base;
  if (at < 0) return ERRNO.EINVAL;
  my.positions[fd] = at;
  my.I64[p >> 3] = BigInt(at);
  return 0;
}

const wasiCalls = {
  fd_close: close,
  fd_read: (fd, iov, n, p) => storeCount(p, read(fd, iov, n)),
  fd_write: (fd, iov, n, p) => storeCount(p, write(fd, iov, n)),
  fd_pread: (fd, iov, n, offset, p) => storeCount(p, read(fd, iov, n, Number(offset))),
  fd_pwrite: (fd, iov, n, offset, p) => storeCount(p, write(fd, iov, n, Number(offset))),
  fd_seek: seek,
  fd_sync: fd => { fs.fsyncSync(fd); return 0; },
  fd_fdstat_get: (fd, p) => {
    my.U8[p] = fd <= 2 ? 2 : 4; // character device, regular file
    my.I16[(p + 2) >> 1] = 0;
    my.I64[(p + 8) >> 3] = 0n;
    my.I64[(p + 16) >> 3] = 0n;
    return 0;
  },
};

module.exports = { syscalls, wasiCalls, writeStderr, flushStderr };

'use strict';
// C++ exceptions, which this module throws through JavaScript.
const { my } = require('./state.cjs');

// The module's exceptions are JavaScript ones: a thrown number is the address of the C++ object, with a header before it.
const tableCache = [];
const call = i => (tableCache[i] ??= my.table.get(i));
let lastThrown = 0, uncaught = 0;
const caught = [];
const ADJUSTED = -8, RETHROWN = -11, CAUGHT = -12, DESTRUCTOR = -16, TYPE = -20; // fields of the header

function findCatch(...types) {
  const p = lastThrown;
  const answer = (type, result) => { my.exported._emscripten_tempret_set(type); return result; };
  if (!p) return answer(0, 0);
  my.U32[(p + ADJUSTED) >> 2] = p;
  const thrown = my.U32[(p + TYPE) >> 2];
  if (!thrown) return answer(0, p);
  for (const type of types) {
    if (type === 0 || type === thrown) break;
    if (my.exported.__cxa_can_catch(type, thrown, p + ADJUSTED)) return answer(type, p);
  }
  return answer(thrown, p);
}

function rethrow() {
  const p = caught.pop();
  if (!p) throw new Error('the module rethrows, but there is no exception');
  if (!my.HEAP8[p + RETHROWN]) {
    caught.push(p);
    my.HEAP8[p + RETHROWN] = 1;
    my.HEAP8[p + CAUGHT] = 0;
    uncaught++;
  }
  lastThrown = p;
  throw p;
}

const exceptions = {
  __cxa_throw: (p, type, destructor) => {
    p >>>= 0;
    my.U32[(p + ADJUSTED) >> 2] = 0;
    my.U32[(p + TYPE) >> 2] = type;
    my.U32[(p + DESTRUCTOR) >> 2] = destructor;
    lastThrown = p;
    uncaught++;
    throw p;
  },
  __cxa_rethrow: rethrow,
  __resumeException: p => {
    if (!lastThrown) lastThrown = p >>> 0;
    throw lastThrown;
  },
  __cxa_begin_catch: p => {
    p >>>= 0;
    if (!my.HEAP8[p + CAUGHT]) {
      my.HEAP8[p + CAUGHT] = 1;
      uncaught--;
    }
    my.HEAP8[p + RETHROWN] = 0;
    caught.push(p);
    my.exported.__cxa_increment_exception_refcount(p);
    return my.exported.__cxa_get_exception_ptr(p);
  },
  __cxa_end_catch: () => {
    my.exported.setThrew(0, 0);
    my.exported.__cxa_decrement_exception_refcount(caught.pop());
    lastThrown = 0;
  },
  __cxa_uncaught_exceptions: () => uncaught,
  __cxa_current_primary_exception: () => {
    const p = caught[caught.length - 1];
    if (!p) return 0;
    my.exported.__cxa_increment_exception_refcount(p);
    return p;
  },
  __cxa_rethrow_primary_exception: p => {
    if (!p) return;
    caught.push(p >>> 0);
    my.HEAP8[p + RETHROWN] = 1;
    rethrow();
  },
  llvm_eh_typeid_for: type => type,
  _emscripten_throw_longjmp: () => { throw Infinity; },
};

/** `invoke_<signature>`: calls a table entry; a C++ exception (a number) becomes a flag that the module looks at. */
function makeInvoke(signature) {
  const zero = signature[0] === 'j' ? 0n : undefined;
  const fail = (sp, e) => {
    my.exported._emscripten_stack_restore(sp);
    if (typeof e !== 'number') throw e;
    my.exported.setThrew(1, 0);
    return zero;
  };
  const stack = () => my.exported.emscripten_stack_get_current();
  // The short ones are hot, and a rest parameter costs an array for each call.
  switch (signature.length - 1) {
    case 0: return i => { const sp = stack(); try { return call(i)(); } catch (e) { return fail(sp, e); } };
    case 1: return (i, a) => { const sp = stack(); try { return call(i)(a); } catch (e) { return fail(sp, e); } };
    case 2: return (i, a, b) => { const sp = stack(); try { return call(i)(a, b); } catch (e) { return fail(sp, e); } };
    case 3: return (i, a, b, c) => { const sp = stack(); try { return call(i)(a, b, c); } catch (e) { return fail(sp, e); } };
    default: return (i, ...args) => { const sp = stack(); try { return call(i)(...args); } catch (e) { return fail(sp, e); } };
  }
}

module.exports = { exceptions, call, findCatch, makeInvoke };

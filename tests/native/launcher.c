/* A `lean` for tests: loads Lean's shared library, which lies where a toolchain has it, and runs its `main`.
 *
 * Loaded and not linked, so that no Lean header or import library is needed; globally, because Lean's interpreter looks up
 * compiled functions among the process's symbols. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* `<prefix>/bin/lean` -> `<prefix>/lib/lean/libleanshared.so` */
static int library(char *path, size_t size) {
  char self[PATH_MAX];
  ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
  if (len < 0) return 0;
  self[len] = 0;
  for (int up = 0; up < 2; up++) {
    char *slash = strrchr(self, '/');
    if (!slash) return 0;
    *slash = 0;
  }
  int written = snprintf(path, size, "%s/lib/lean/libleanshared.so", self);
  return written > 0 && (size_t)written < size;
}

int main(int argc, char **argv) {
  char path[PATH_MAX + 64];
  if (!library(path, sizeof path)) {
    fputs("the launcher does not know where it is\n", stderr);
    return 127;
  }
  void *lean = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  int (*lean_main)(int, char **) = NULL;
  if (lean) *(void **)&lean_main = dlsym(lean, "lean_main");
  if (!lean_main) {
    fprintf(stderr, "%s\n", dlerror());
    return 127;
  }
  return lean_main(argc, argv);
}

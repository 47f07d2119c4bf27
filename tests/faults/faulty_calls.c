/* A library for LD_PRELOAD that counts the system calls which touch a store, and makes one fail.

   FAULT_STORE   the path below which a call is counted
   FAULT_COUNT   a file of eight bytes, which all processes map: how many calls there were
   FAULT_AT      the number of the call that fails; 0 counts alone
   FAULT_ERRNO   what it fails with; 0 kills the process before the call */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *store;
static long *count, at;
static int fault;

__attribute__((constructor)) static void begin(void) {
  const char *counted = getenv("FAULT_COUNT"), *number = getenv("FAULT_AT");
  const char *error = getenv("FAULT_ERRNO");
  store = getenv("FAULT_STORE");
  if (!store || !counted) return;
  at = number ? atol(number) : 0;
  fault = error ? atoi(error) : 0;
  int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
  int fd = real(counted, O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  count = mmap(NULL, sizeof *count, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (count == MAP_FAILED) count = NULL;
}

/* Whether the call that is about to be made shall fail. */
static int fails(void) {
  long number = __atomic_add_fetch(count, 1, __ATOMIC_SEQ_CST);
  if (number != at) return 0;
  if (!fault) kill(getpid(), SIGKILL);
  errno = fault;
  return 1;
}

static int inside(int folder, const char *path) {
  char absolute[PATH_MAX], of_folder[PATH_MAX], link[64];
  if (!count || !path) return 0;
  if (path[0] != '/') {
    ssize_t length;
    if (folder == AT_FDCWD) {
      if (!getcwd(of_folder, sizeof of_folder)) return 0;
    } else {
      snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
      length = readlink(link, of_folder, sizeof of_folder - 1);
      if (length < 0) return 0;
      of_folder[length] = 0;
    }
    if (snprintf(absolute, sizeof absolute, "%s/%s", of_folder, path) >= (int)sizeof absolute)
      return 0;
    path = absolute;
  }
  return !strncmp(path, store, strlen(store));
}

static int holds(int fd) {
  char path[PATH_MAX], link[64];
  if (!count) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return !strncmp(path, store, strlen(store));
}

#define REAL(name, ...) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))(__VA_ARGS__)
#define OPENING(name)                                            \
  int name(const char *path, int flags, ...) {                   \
    va_list rest;                                                \
    va_start(rest, flags);                                       \
    mode_t mode = va_arg(rest, mode_t);                          \
    va_end(rest);                                                \
    if (inside(AT_FDCWD, path) && fails()) return -1;            \
    return REAL(name, path, flags, mode);                        \
  }
#define OPENING_AT(name)                                         \
  int name(int folder, const char *path, int flags, ...) {       \
    va_list rest;                                                \
    va_start(rest, flags);                                       \
    mode_t mode = va_arg(rest, mode_t);                          \
    va_end(rest);                                                \
    if (inside(folder, path) && fails()) return -1;              \
    return REAL(name, folder, path, flags, mode);                \
  }
#define OF_FD(type, name, declared, ...)                         \
  type name declared {                                           \
    if (holds(fd) && fails()) return -1;                         \
    return REAL(name, __VA_ARGS__);                              \
  }

OPENING(open)
OPENING(open64)
OPENING_AT(openat)
OPENING_AT(openat64)

int rename(const char *path, const char *target) {
  if (inside(AT_FDCWD, path) && fails()) return -1;
  return REAL(rename, path, target);
}
int mkdir(const char *path, mode_t mode) {
  if (inside(AT_FDCWD, path) && fails()) return -1;
  return REAL(mkdir, path, mode);
}
int unlink(const char *path) {
  if (inside(AT_FDCWD, path) && fails()) return -1;
  return REAL(unlink, path);
}
int rmdir(const char *path) {
  if (inside(AT_FDCWD, path) && fails()) return -1;
  return REAL(rmdir, path);
}
int chmod(const char *path, mode_t mode) {
  if (inside(AT_FDCWD, path) && fails()) return -1;
  return REAL(chmod, path, mode);
}
OF_FD(ssize_t, write, (int fd, const void *buffer, size_t size), fd, buffer, size)
OF_FD(ssize_t, read, (int fd, void *buffer, size_t size), fd, buffer, size)
OF_FD(ssize_t, pwrite, (int fd, const void *buffer, size_t size, off_t place), fd, buffer, size, place)
OF_FD(ssize_t, pwrite64, (int fd, const void *buffer, size_t size, off64_t place), fd, buffer, size, place)
OF_FD(int, fsync, (int fd), fd)
OF_FD(int, ftruncate64, (int fd, off64_t size), fd, size)
OF_FD(int, flock, (int fd, int operation), fd, operation)

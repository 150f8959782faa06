/* Loaded before libc: makes the N-th call of one kind fail in the process that the variables name.
   UMBENCH_FAULT="WHO CALL N HOW": WHO is parent or cell (what the parent forks), CALL one of the
   names below or any, HOW the name of an error, short (a part of the bytes is moved), end (a read meets
   the end of its file), or the number of a signal that
   the process gets instead. UMBENCH_FAULT_COUNT=FILE: nothing fails; the parent's calls are counted there. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum call { c_read, c_write, c_open, c_sync, c_cut, c_rename, c_poll, c_spawn, c_pipe, c_malloc, calls };
static const char* const names[calls] = {"read", "write", "open", "sync", "cut", "rename", "poll", "spawn", "pipe", "malloc"};

static atomic_long seen[calls], all_seen;
static int wanted = -2, how_errno, how_signal, how_short, how_end; /* wanted: -2 none, -1 any */
static long at;
static const char* count_into;
static int counting;

static int error_named(const char* name) {
  static const struct { const char* name; int number; } known[] = {
      {"EIO", EIO}, {"ENOSPC", ENOSPC}, {"EINTR", EINTR}, {"ENOMEM", ENOMEM}, {"EMFILE", EMFILE}, {"EAGAIN", EAGAIN}};
  for (size_t i = 0; i < sizeof known / sizeof *known; ++i)
    if (strcmp(known[i].name, name) == 0) return known[i].number;
  return 0;
}

static void begin_as(int cell) {
  char who[16], call[16], how[16];
  const char* asked = getenv("UMBENCH_FAULT");
  counting = 0;
  wanted = -2;
  count_into = cell ? NULL : getenv("UMBENCH_FAULT_COUNT");
  long number = 0;
  if (asked != NULL && sscanf(asked, "%15s %15s %ld %15s", who, call, &number, how) == 4 &&
      (strcmp(who, "cell") == 0) == cell) {
    at = number;
    how_errno = error_named(how);
    how_short = strcmp(how, "short") == 0;
    how_end = strcmp(how, "end") == 0;
    how_signal = atoi(how);
    wanted = -1;
    for (int c = 0; c < calls; ++c)
      if (strcmp(call, names[c]) == 0) wanted = c;
  }
  for (int c = 0; c < calls; ++c) seen[c] = 0;
  all_seen = 0;
  counting = 1;
}

__attribute__((constructor)) static void begin(void) { begin_as(0); }

__attribute__((destructor)) static void end(void) {
  counting = 0;
  if (count_into == NULL) return;
  char text[1024];
  int n = 0;
  for (int c = 0; c < calls; ++c) n += snprintf(text + n, sizeof text - (size_t)n, "%s %ld\n", names[c], (long)seen[c]);
  const int to = openat(AT_FDCWD, count_into, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (to >= 0 && write(to, text, (size_t)n) < 0) return;
  if (to >= 0) close(to);
}

/* 0: go on; 1: fails with errno; 2: do a part of it; 3: there is no more. */
static int struck(enum call c) {
  if (!counting) return 0;
  const long mine = ++seen[c], any = ++all_seen;
  if (wanted == -2 || (wanted != -1 && wanted != (int)c) || (wanted == -1 ? any : mine) != at) return 0;
  if (how_signal > 0) {
    kill(getpid(), how_signal);
    return 0;
  }
  if (how_short) return 2;
  if (how_end) return 3;
  errno = how_errno;
  return 1;
}

#define next(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t read(int fd, void* to, size_t n) {
  const int s = struck(c_read);
  if (s == 3) return 0;
  return s == 1 ? -1 : next(read)(fd, to, s == 2 && n > 1 ? n / 2 : n);
}
ssize_t pread64(int fd, void* to, size_t n, off_t from) {
  const int s = struck(c_read);
  if (s == 3) return 0;
  return s == 1 ? -1 : next(pread64)(fd, to, s == 2 ? 1 + n / 4096 : n, from);
}
ssize_t pread(int fd, void* to, size_t n, off_t from) { return pread64(fd, to, n, from); }
ssize_t write(int fd, const void* from, size_t n) {
  const int s = struck(c_write);
  return s == 1 ? -1 : next(write)(fd, from, s == 2 && n > 1 ? n / 2 : n);
}
int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const int mode = flags & O_CREAT ? va_arg(rest, int) : 0;
  va_end(rest);
  return struck(c_open) == 1 ? -1 : next(open64)(path, flags, mode);
}
int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const int mode = flags & O_CREAT ? va_arg(rest, int) : 0;
  va_end(rest);
  return open64(path, flags, mode);
}
int fdatasync(int fd) { return struck(c_sync) == 1 ? -1 : next(fdatasync)(fd); }
int fsync(int fd) { return struck(c_sync) == 1 ? -1 : next(fsync)(fd); }
int ftruncate64(int fd, off_t size) { return struck(c_cut) == 1 ? -1 : next(ftruncate64)(fd, size); }
int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }
int rename(const char* a, const char* b) { return struck(c_rename) == 1 ? -1 : next(rename)(a, b); }
int poll(struct pollfd* all, nfds_t n, int wait) { return struck(c_poll) == 1 ? -1 : next(poll)(all, n, wait); }
int pipe2(int ends[2], int flags) { return struck(c_pipe) == 1 ? -1 : next(pipe2)(ends, flags); }
pid_t fork(void) {
  if (struck(c_spawn) == 1) return -1;
  const pid_t child = next(fork)();
  if (child == 0) begin_as(1);
  return child;
}

extern void* __libc_malloc(size_t);
void* malloc(size_t n) { return struck(c_malloc) == 1 ? NULL : __libc_malloc(n); }

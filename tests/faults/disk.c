/* A disk for one process (LD_PRELOAD): it fails from a chosen operation on, and it records what would reach it.
 *
 * DISK_UNDER    the folder whose files are watched; the -shm files of SQLite, which no crash outlives, are not
 * DISK_CONTROL  a file of four 32-bit numbers, mapped: operations so far; how many more succeed; errno of those after
 *               (0: none fails); whether a write that fails has written its first half
 * DISK_RECORD   a file that gets a record per operation (see power_loss.py); none without it
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { FILES = 4096 };
enum kind { WRITE = 'w', TRUNCATE = 't', SYNC = 's', UNLINK = 'u', RENAME = 'r', OPEN = 'o' };
struct control { int32_t done, left, error, half; };

static struct control nothing = {0, 0, 0, 0}, *control = &nothing;
static const char *under;
static int record_to = -1;
static char *paths[FILES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define REAL(name) ((__typeof__(&name))real(#name))
static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

__attribute__((constructor)) static void begin(void) {
  under = getenv("DISK_UNDER");
  const char *at = getenv("DISK_CONTROL");
  int fd = at ? REAL(open)(at, O_RDWR) : -1;
  if (fd >= 0) {
    void *mapped = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped != MAP_FAILED) control = mapped;
    REAL(close)(fd);
  }
  at = getenv("DISK_RECORD");
  if (at) record_to = REAL(open)(at, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static int watched(const char *path) {
  if (!under || !path || strncmp(path, under, strlen(under))) return 0;
  size_t length = strlen(path);
  return length < 4 || strcmp(path + length - 4, "-shm");
}

static const char *path_of(int fd) { return fd >= 0 && fd < FILES ? paths[fd] : NULL; }

static void record(enum kind kind, const char *path, uint64_t at, const void *data, uint64_t size) {
  if (record_to < 0) return;
  struct { uint32_t kind, path; uint64_t at, size; } head = {kind, (uint32_t)strlen(path), at, size};
  struct iovec parts[3] = {{&head, sizeof head}, {(void *)path, head.path}, {(void *)data, data ? size : 0}};
  if (REAL(writev)(record_to, parts, 3) < 0) abort();
}

/* Whether the next operation fails; the lock is held. */
static int fails(void) {
  control->done++;
  if (!control->error) return 0;
  if (control->left > 0) { control->left--; return 0; }
  errno = control->error;
  return 1;
}

static int opened(int fd, const char *path) {
  if (fd >= 0 && fd < FILES) {
    free(paths[fd]);
    paths[fd] = watched(path) ? strdup(path) : NULL;
  }
  return fd;
}

static int may_open(const char *path, int flags) {
  if (!watched(path) || !(flags & (O_WRONLY | O_RDWR | O_CREAT))) return 1;
  int makes = (flags & O_CREAT) && access(path, F_OK);
  if (!makes && control->error != EROFS) return 1;
  if (fails()) return 0;
  if (makes) record(OPEN, path, 0, NULL, 0);
  return 1;
}

#define OPENING(name)                                             \
  int name(const char *path, int flags, ...) {                    \
    va_list more;                                                 \
    va_start(more, flags);                                        \
    mode_t mode = va_arg(more, mode_t);                           \
    va_end(more);                                                 \
    pthread_mutex_lock(&lock);                                    \
    int fd = may_open(path, flags) ? opened(REAL(name)(path, flags, mode), path) : -1; \
    pthread_mutex_unlock(&lock);                                  \
    return fd;                                                    \
  }
OPENING(open)
OPENING(open64)

int close(int fd) {
  pthread_mutex_lock(&lock);
  if (path_of(fd)) { free(paths[fd]); paths[fd] = NULL; }
  pthread_mutex_unlock(&lock);
  return REAL(close)(fd);
}

static ssize_t written(int fd, const void *data, size_t size, off64_t at, int moves) {
  const char *path = path_of(fd);
  if (!path) return moves ? REAL(write)(fd, data, size) : REAL(pwrite64)(fd, data, size, at);
  pthread_mutex_lock(&lock);
  ssize_t done = -1;
  if (moves) at = lseek64(fd, 0, SEEK_CUR);
  if (!fails()) done = size;
  else if (control->half && control->error == ENOSPC && size > 1) { done = size / 2; control->half = 0; }
  int error = errno;
  if (done >= 0) {
    record(WRITE, path, at, data, done);
    done = moves ? REAL(write)(fd, data, done) : REAL(pwrite64)(fd, data, done, at);
    error = errno;
  }
  pthread_mutex_unlock(&lock);
  errno = error;
  return done;
}

ssize_t write(int fd, const void *data, size_t size) { return written(fd, data, size, 0, 1); }
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { return written(fd, data, size, at, 0); }
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) { return written(fd, data, size, at, 0); }

#define ON_FILE(kind, size, call)                            \
  const char *path = path_of(fd);                            \
  if (!path) return call;                                    \
  pthread_mutex_lock(&lock);                                 \
  int result = -1, failing = (kind) == SYNC && control->error != EIO ? 0 : fails(), error = errno; \
  if (!failing) {                                            \
    record(kind, path, size, NULL, 0);                       \
    result = call;                                           \
    error = errno;                                           \
  }                                                          \
  pthread_mutex_unlock(&lock);                               \
  errno = error;                                             \
  return result;

int ftruncate(int fd, off_t size) { ON_FILE(TRUNCATE, size, REAL(ftruncate)(fd, size)) }
int ftruncate64(int fd, off64_t size) { ON_FILE(TRUNCATE, size, REAL(ftruncate64)(fd, size)) }
int fsync(int fd) { ON_FILE(SYNC, 0, REAL(fsync)(fd)) }
int fdatasync(int fd) { ON_FILE(SYNC, 0, REAL(fdatasync)(fd)) }

int unlink(const char *path) {
  if (!watched(path)) return REAL(unlink)(path);
  pthread_mutex_lock(&lock);
  int failing = fails(), error = errno, result = -1;
  if (!failing) {
    record(UNLINK, path, 0, NULL, 0);
    result = REAL(unlink)(path);
    error = errno;
  }
  pthread_mutex_unlock(&lock);
  errno = error;
  return result;
}

int rename(const char *from, const char *to) {
  if (!watched(from)) return REAL(rename)(from, to);
  pthread_mutex_lock(&lock);
  int failing = fails(), error = errno, result = -1;
  if (!failing) {
    record(RENAME, from, 0, to, strlen(to));
    result = REAL(rename)(from, to);
    error = errno;
  }
  pthread_mutex_unlock(&lock);
  errno = error;
  return result;
}

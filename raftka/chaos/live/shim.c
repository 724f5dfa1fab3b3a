/* Between a node and its disk and clock, by LD_PRELOAD: what a page shared with the harness says is done to it.
 *
 * RAFTKA_SHIM_PAGE is that page's file (its layout is in shim.py as well), RAFTKA_SHIM_BELOW the directory whose files can fail. Flushes by io_submit
 * and syncfs are refused while flushes are to fail, so that they come by fdatasync, and are let through otherwise. The page's ledger has, by inode,
 * how many bytes of a file a flush has brought to the disk: all that a power loss leaves.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { HONEST, FAILING, LYING };
enum { SLOTS = 1 << 16, REMEMBERED = 4096 };

struct page {
    _Atomic int64_t flush;         /* HONEST, FAILING, LYING */
    _Atomic int64_t flush_delay_us;
    _Atomic int64_t write_error;   /* errno of every write, 0: none */
    _Atomic int64_t write_delay_us;
    _Atomic int64_t wall_offset_ms;
    _Atomic int64_t flushes_failed, flushes_lied, flushes_slow, writes_refused, writes_slow, clock_skewed, flushes;
    char rest[4096 - 12 * 8];
    struct { _Atomic uint64_t inode; _Atomic int64_t bytes; } ledger[SLOTS];
};

static struct page *page;
static char below[4096];
static struct { uint64_t number, inode; int64_t bytes; } submitted[REMEMBERED];

#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) real = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("RAFTKA_SHIM_PAGE"), *where = getenv("RAFTKA_SHIM_BELOW");
    int fd = path && where ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0) return;
    void *found = mmap(NULL, sizeof(struct page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (found == MAP_FAILED || !realpath(where, below)) return;
    page = found;
}

static int ours(int fd) {
    char link[64], target[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, target, sizeof target - 1);
    size_t prefix = strlen(below);
    return length > (ssize_t)prefix && !memcmp(target, below, prefix) && target[prefix] == '/';
}

static void pause_us(int64_t us) {
    struct timespec left = {us / 1000000, us % 1000000 * 1000};
    while (nanosleep(&left, &left) && errno == EINTR) {}
}

/* the ledger */

static _Atomic int64_t *slot(uint64_t inode) {
    uint64_t at = inode * 0x9E3779B97F4A7C15u >> 48;
    for (int i = 0; i < SLOTS; i++, at++) {
        uint64_t none = 0, found = atomic_load(&page->ledger[at % SLOTS].inode);
        if (found == inode) return &page->ledger[at % SLOTS].bytes;
        if (!found && (atomic_compare_exchange_strong(&page->ledger[at % SLOTS].inode, &none, inode) || none == inode))
            return &page->ledger[at % SLOTS].bytes;
    }
    return NULL;
}

static void flushed(uint64_t inode, int64_t bytes) {
    _Atomic int64_t *known = slot(inode);
    int64_t before = known ? atomic_load(known) : bytes;
    while (before < bytes && !atomic_compare_exchange_weak(known, &before, bytes)) {}
    atomic_fetch_add(&page->flushes, 1);
}

static void cut(uint64_t inode, int64_t bytes) {
    _Atomic int64_t *known = slot(inode);
    int64_t before = known ? atomic_load(known) : bytes;
    while (before > bytes && !atomic_compare_exchange_weak(known, &before, bytes)) {}
}

/* flushes */

static int flush(int fd, int (*real)(int)) {
    struct stat file;
    if (!page || fstat(fd, &file) || !ours(fd)) return real(fd);
    int64_t delay_us = atomic_load(&page->flush_delay_us), kind = atomic_load(&page->flush);
    if (delay_us) {
        atomic_fetch_add(&page->flushes_slow, 1);
        pause_us(delay_us);
    }
    if (kind == FAILING) {
        atomic_fetch_add(&page->flushes_failed, 1);
        errno = EIO;
        return -1;
    }
    if (kind == LYING) {
        atomic_fetch_add(&page->flushes_lied, 1);
        return 0;
    }
    int result = real(fd);
    if (!result && S_ISREG(file.st_mode)) flushed(file.st_ino, file.st_size);
    return result;
}

int fdatasync(int fd) {
    REAL(int, "fdatasync", int);
    return flush(fd, real);
}

int fsync(int fd) {
    REAL(int, "fsync", int);
    return flush(fd, real);
}

static int flushes_suffer(void) {
    return atomic_load(&page->flush) != HONEST || atomic_load(&page->flush_delay_us);
}

int syncfs(int fd) {
    REAL(int, "syncfs", int);
    if (page && flushes_suffer()) {
        errno = ENOSYS;
        return -1;
    }
    struct { uint64_t inode; int64_t bytes; } open_before[REMEMBERED];
    int count = 0;
    for (int each = 0; page && each < REMEMBERED; each++) {
        struct stat file;
        if (!fcntl(each, F_GETFD) && !fstat(each, &file) && S_ISREG(file.st_mode) && ours(each)) {
            open_before[count].inode = file.st_ino;
            open_before[count++].bytes = file.st_size;
        }
    }
    int result = real(fd);
    for (int each = 0; !result && each < count; each++) flushed(open_before[each].inode, open_before[each].bytes);
    return result;
}

long syscall(long number, ...) {
    REAL(long, "syscall", long, ...);
    va_list list;
    va_start(list, number);
    long a = va_arg(list, long), b = va_arg(list, long), c = va_arg(list, long), d = va_arg(list, long), e = va_arg(list, long), f = va_arg(list, long);
    va_end(list);
    if (page && number == SYS_io_submit) {
        if (flushes_suffer()) {
            errno = EINVAL;
            return -1;
        }
        struct iocb **blocks = (struct iocb **)c;
        for (long i = 0; i < b; i++) {
            struct stat file;
            int at = blocks[i]->aio_data % REMEMBERED;
            submitted[at].inode = 0;
            if (fstat(blocks[i]->aio_fildes, &file)) continue;
            submitted[at].number = blocks[i]->aio_data;
            submitted[at].bytes = file.st_size;
            submitted[at].inode = file.st_ino;
        }
    }
    long result = real(number, a, b, c, d, e, f);
    if (page && number == SYS_io_getevents) {
        struct io_event *events = (struct io_event *)d;
        for (long i = 0; i < result; i++) {
            int at = events[i].data % REMEMBERED;
            if (events[i].res >= 0 && submitted[at].inode && submitted[at].number == events[i].data) flushed(submitted[at].inode, submitted[at].bytes);
        }
    }
    return result;
}

/* writes */

static int refused(int fd) {
    if (!page) return 0;
    int64_t error = atomic_load(&page->write_error), delay_us = atomic_load(&page->write_delay_us);
    if ((!error && !delay_us) || !ours(fd)) return 0;
    if (delay_us) {
        atomic_fetch_add(&page->writes_slow, 1);
        pause_us(delay_us);
    }
    if (error) atomic_fetch_add(&page->writes_refused, 1);
    errno = (int)error;
    return error != 0;
}

ssize_t write(int fd, const void *data, size_t size) {
    REAL(ssize_t, "write", int, const void *, size_t);
    return refused(fd) ? -1 : real(fd, data, size);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    REAL(ssize_t, "writev", int, const struct iovec *, int);
    return refused(fd) ? -1 : real(fd, parts, count);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    REAL(ssize_t, "pwrite64", int, const void *, size_t, off64_t);
    return refused(fd) ? -1 : real(fd, data, size, at);
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t at) {
    REAL(ssize_t, "pwritev64", int, const struct iovec *, int, off64_t);
    return refused(fd) ? -1 : real(fd, parts, count, at);
}

ssize_t pwritev64v2(int fd, const struct iovec *parts, int count, off64_t at, int flags) {
    REAL(ssize_t, "pwritev64v2", int, const struct iovec *, int, off64_t, int);
    return refused(fd) ? -1 : real(fd, parts, count, at, flags);
}

int ftruncate64(int fd, off64_t size) {
    REAL(int, "ftruncate64", int, off64_t);
    struct stat file;
    int result = real(fd, size);
    if (page && !result && !fstat(fd, &file)) cut(file.st_ino, size);
    return result;
}

/* the clock on the wall: it jumps, the monotonic one never does */

int clock_gettime(clockid_t clock, struct timespec *now) {
    REAL(int, "clock_gettime", clockid_t, struct timespec *);
    int result = real(clock, now);
    int64_t offset_ms = page && clock == CLOCK_REALTIME ? atomic_load(&page->wall_offset_ms) : 0;
    if (result || !offset_ms) return result;
    atomic_fetch_add(&page->clock_skewed, 1);
    int64_t told = (int64_t)now->tv_sec * 1000000000 + now->tv_nsec + offset_ms * 1000000;
    now->tv_sec = told / 1000000000;
    now->tv_nsec = told % 1000000000;
    return 0;
}

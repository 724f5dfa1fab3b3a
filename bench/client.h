// What txn and share have in common: times, blocking connections, the brokers' CPU clocks, flexible fields.
#ifndef RAFTKA_BENCH_CLIENT_H
#define RAFTKA_BENCH_CLIENT_H
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#include "kafka.h"

enum { LATCAP = 4000000 };

typedef struct {
    int64_t *at, count;  // nanoseconds
} Times;

static int pids[64], npids;

static inline void die(const char *what) {
    perror(what);
    exit(1);
}

static inline int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static inline void note(Times *times, int64_t ns) {
    if (!times->at) times->at = malloc(LATCAP * 8);
    if (times->count < LATCAP) times->at[times->count++] = ns;
}

static inline int by_value(const void *a, const void *b) {
    int64_t x = *(int64_t *)a, y = *(int64_t *)b;
    return x < y ? -1 : x > y;
}

static inline void sort(Times *times) { qsort(times->at, times->count, 8, by_value); }

static inline double percentile(Times *times, double q) {  // us; they are sorted
    return times->count ? times->at[(int64_t)(times->count * q)] / 1e3 : 0;
}

static inline void read_pids(char *text) {
    for (char *x = strtok(text, ","); x && npids < 64; x = strtok(0, ",")) pids[npids++] = atoi(x);
}

static inline double broker_cpu(void) {
    double s = 0;
    struct timespec t;
    clockid_t c;
    for (int i = 0; i < npids; i++)
        if (!clock_getcpuclockid(pids[i], &c) && !clock_gettime(c, &t)) s += t.tv_sec + t.tv_nsec * 1e-9;
    return s;
}

static inline double own_cpu(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

static inline struct sockaddr_in address(char *text) {
    char host[64];
    int port;
    if (sscanf(text, "%63[^:]:%d", host, &port) != 2) die("HOST:PORT");
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
    inet_pton(AF_INET, host, &a.sin_addr);
    return a;
}

static inline int dial(struct sockaddr_in *a) {
    int s = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    if (connect(s, (void *)a, sizeof *a)) die("connect");
    setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, 4);
    return s;
}

static inline void all(int s, u8 *p, size_t n, int out) {
    while (n) {
        ssize_t k = out ? send(s, p, n, MSG_NOSIGNAL) : recv(s, p, n, 0);
        if (k <= 0) die("socket");
        p += k;
        n -= k;
    }
}

// ---- flexible fields: lengths are varints of one more, each struct ends with its tags
static inline u8 *wuvar(u8 *p, uint32_t v) {
    for (; v > 127; v >>= 7) *p++ = v | 128;
    *p++ = v;
    return p;
}

static inline u8 *wcstr(u8 *p, const char *s) {
    size_t n = strlen(s);
    p = wuvar(p, n + 1);
    memcpy(p, s, n);
    return p + n;
}

static inline uint32_t ruvar(u8 **p) {
    uint32_t v = 0;
    for (int shift = 0;; shift += 7) {
        u8 b = *(*p)++;
        v |= (uint32_t)(b & 127) << shift;
        if (b < 128) return v;
    }
}

static inline void skip_string(u8 **p) {
    uint32_t n = ruvar(p);
    if (n > 1) *p += n - 1;
}

static inline void skip_tags(u8 **p) {
    for (uint32_t n = ruvar(p); n; n--) {
        ruvar(p);
        uint32_t size = ruvar(p);
        *p += size;
    }
}
#endif

// floor: the least a broker can do in C for one partition, so that figures can be told as ratios. One thread, epoll.
//
// It takes Produce v7 and Fetch v11 for one topic and partition whose name it does not look at: checks a batch's CRC32C, patches offset and
// epoch in place, appends it to a segment; finds a fetch's offset by bisection and answers by sendfile. It recovers nothing, replicates
// nothing, keeps two segments of 64 MiB, and trusts every byte it is sent. Never show it to a network.
//
//   floor DIRECTORY PORT      prints "ready"
// Build: cc -O2 -msse4.2 -o floor floor.c
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kafka.h"

enum { SEGMENT_BYTES = 64 << 20, INDEX_ENTRIES = 1 << 22, CONNECTION_BYTES = 3 << 20, OUTPUT_BYTES = 1 << 16 };

typedef struct {
    int fd, blocked;
    u8 *in;  // bytes that came and are not handled yet
    size_t held;
    off_t file_position;  // of what a fetch still has to send
    size_t file_left;
} Conn;

static void die(const char *what) {
    perror(what);
    exit(1);
}

// ---- CRC32C of large batches in three streams: the instruction takes three cycles and can be issued each cycle

enum { STREAM_BYTES = 4096 };

static uint32_t shift_table[4][256];  // what STREAM_BYTES zero bytes make of a CRC

static uint32_t multiply(const uint32_t *matrix, uint32_t vector) {
    uint32_t sum = 0;
    for (int i = 0; vector; i++, vector >>= 1)
        if (vector & 1) sum ^= matrix[i];
    return sum;
}

static void square(uint32_t *to, const uint32_t *from) {
    for (int i = 0; i < 32; i++) to[i] = multiply(from, from[i]);
}

static void make_shift_table(void) {
    uint32_t a[32], b[32], *power = a;  // matrices over GF(2): first one zero bit, squared until it is STREAM_BYTES zero bytes
    a[0] = 0x82f63b78;
    for (int i = 1; i < 32; i++) a[i] = 1u << (i - 1);
    for (size_t bits = 1; bits < STREAM_BYTES * 8; bits *= 2) {
        uint32_t *next = power == a ? b : a;
        square(next, power);
        power = next;
    }
    for (uint32_t n = 0; n < 256; n++)
        for (int i = 0; i < 4; i++) shift_table[i][n] = multiply(power, n << (8 * i));
}

static uint32_t shift(uint32_t crc) {
    return shift_table[0][crc & 255] ^ shift_table[1][(crc >> 8) & 255] ^ shift_table[2][(crc >> 16) & 255] ^ shift_table[3][crc >> 24];
}

static uint64_t word(const u8 *p) {
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

static uint32_t crc32c(const u8 *p, size_t n) {
    uint64_t c = 0xffffffff;
    for (; n >= 3 * STREAM_BYTES; n -= 3 * STREAM_BYTES, p += 2 * STREAM_BYTES) {
        uint64_t c1 = 0, c2 = 0;
        for (const u8 *end = p + STREAM_BYTES; p < end; p += 8) {
            c = _mm_crc32_u64(c, word(p));
            c1 = _mm_crc32_u64(c1, word(p + STREAM_BYTES));
            c2 = _mm_crc32_u64(c2, word(p + 2 * STREAM_BYTES));
        }
        c = shift(shift(c) ^ c1) ^ c2;
    }
    return ~crc32c_update(c, p, n);
}

// ---- the log

static const char *directory;
static int segment = -1, segments;
static size_t segment_size;
static int64_t next_offset;

static struct {
    int64_t offset;
    size_t position;
} *entries;  // of every batch in the segment that is written to

static size_t entry_count;

static void segment_path(char *path, int number) { snprintf(path, 256, "%s/floor-%d.log", directory, number); }

static void roll(void) {
    static int before = -1;
    char path[256];
    if (before >= 0) {
        close(before);
        segment_path(path, segments - 2);
        unlink(path);
    }
    before = segment;
    segment_path(path, segments++);
    segment = open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600);
    if (segment < 0) die(path);
    segment_size = entry_count = 0;
}

static int64_t append(u8 *batch, size_t size) {
    int64_t offset = next_offset;
    if (crc32c(batch + BATCH_ATTRIBUTES, size - BATCH_ATTRIBUTES) != (uint32_t)r32(batch + BATCH_CRC)) {
        fprintf(stderr, "floor: bad crc\n");
        exit(1);
    }
    if (segment_size + size > SEGMENT_BYTES || entry_count == INDEX_ENTRIES) roll();
    w64(batch, offset);
    w32(batch + BATCH_EPOCH, 0);
    if (write(segment, batch, size) != (ssize_t)size) die("write");
    entries[entry_count].offset = offset;
    entries[entry_count++].position = segment_size;
    segment_size += size;
    next_offset += r32(batch + BATCH_COUNT);
    return offset;
}

static size_t position_of(int64_t offset) {
    size_t low = 0, high = entry_count;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (entries[middle].offset <= offset) low = middle;
        else high = middle;
    }
    return entry_count ? entries[low].position : 0;
}

// ---- requests

static int epoll;

static void watch(Conn *c, int events) {
    struct epoll_event e = {.events = events, .data.ptr = c};
    epoll_ctl(epoll, EPOLL_CTL_MOD, c->fd, &e);
}

static void pump(Conn *c) {
    while (c->file_left) {
        ssize_t n = sendfile(c->fd, segment, &c->file_position, c->file_left);
        if (n < 0) {
            if (errno != EAGAIN) die("sendfile");
            if (!c->blocked) watch(c, EPOLLOUT);
            c->blocked = 1;
            return;
        }
        c->file_left -= n;
    }
    if (c->blocked) watch(c, EPOLLIN);
    c->blocked = 0;
}

static u8 *name_and_partition(u8 *reply, const u8 *name, int name_bytes, int32_t partition) {
    memcpy(reply, name, name_bytes);
    return w32(w32(reply + name_bytes, 1), partition);
}

// Writes the reply to `reply` and returns its end.
static u8 *produce(u8 *p, int32_t correlation, u8 *reply) {
    int transactional_bytes = r16(p) > 0 ? r16(p) : 0;
    p += 2 + transactional_bytes + 6 + 4;  // acks, timeout, number of topics
    const u8 *name = p;
    int name_bytes = 2 + r16(p);
    p += name_bytes + 4;
    int32_t partition = r32(p), size = r32(p + 4);
    int64_t offset = append(p + 8, size);

    u8 *end = name_and_partition(w32(w32(reply + 4, correlation), 1), name, name_bytes, partition);
    end = w32(w64(w64(w64(w16(end, 0), offset), -1), 0), 0);  // error, append time, log start offset, throttle time
    w32(reply, end - reply - 4);
    return end;
}

static void fetch(Conn *c, u8 *p, int32_t correlation) {
    u8 reply[512];
    size_t max_bytes = r32(p + 12);
    p += 25 + 4;  // up to the session's epoch, number of topics
    const u8 *name = p;
    int name_bytes = 2 + r16(p);
    p += name_bytes + 4;
    int32_t partition = r32(p);
    c->file_position = position_of(r64(p + 8));  // behind the partition stands the leader epoch
    c->file_left = segment_size - c->file_position < max_bytes ? segment_size - c->file_position : max_bytes;

    u8 *end = w32(w32(w16(w32(w32(reply + 4, correlation), 0), 0), 0), 1);  // throttle time, error, session, number of topics
    end = name_and_partition(end, name, name_bytes, partition);
    end = w64(w64(w64(w16(end, 0), next_offset), next_offset), 0);  // error, high watermark, last stable offset, log start offset
    end = w32(w32(w32(end, -1), -1), c->file_left);                 // aborted transactions, preferred replica
    w32(reply, end - reply - 4 + c->file_left);
    send(c->fd, reply, end - reply, MSG_MORE | MSG_NOSIGNAL);
    pump(c);
}

static void on_read(Conn *c) {
    static u8 output[OUTPUT_BYTES];
    ssize_t n = recv(c->fd, c->in + c->held, CONNECTION_BYTES - c->held, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
        close(c->fd);
        free(c->in);
        free(c);
        return;
    }
    c->held += n;
    size_t handled = 0;
    u8 *out = output;
    while (c->held - handled >= 4) {
        size_t size = r32(c->in + handled);
        if (c->held - handled < size + 4) break;
        u8 *frame = c->in + handled + 4;
        int32_t correlation = r32(frame + 4);
        u8 *body = frame + 10 + r16(frame + 8);
        if (r16(frame) == PRODUCE) out = produce(body, correlation, out);
        else if (r16(frame) == FETCH) fetch(c, body, correlation);
        handled += size + 4;
    }
    if (out > output) send(c->fd, output, out - output, MSG_NOSIGNAL);
    c->held -= handled;
    if (c->held && handled) memmove(c->in, c->in + handled, c->held);
}

static void on_connect(int listener) {
    int fd = accept(listener, 0, 0), one = 1;
    if (fd < 0) return;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    Conn *c = calloc(1, sizeof *c);
    c->fd = fd;
    c->in = malloc(CONNECTION_BYTES);
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e);
}

static int listen_on(int port) {
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (void *)&address, sizeof address) || listen(fd, 512)) die("listen");
    return fd;
}

int main(int count, char **arguments) {
    if (count != 3) {
        fprintf(stderr, "floor DIRECTORY PORT\n");
        return 2;
    }
    directory = arguments[1];
    make_shift_table();
    if (crc32c((const u8 *)"123456789", 9) != 0xe3069283) return 3;
    entries = malloc(sizeof *entries * INDEX_ENTRIES);
    roll();
    int listener = listen_on(atoi(arguments[2]));
    epoll = epoll_create1(0);
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = 0}, events[256];
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &e);
    puts("ready");
    fflush(stdout);
    for (;;) {
        int n = epoll_wait(epoll, events, 256, -1);
        for (int i = 0; i < n; i++) {
            Conn *c = events[i].data.ptr;
            if (!c) on_connect(listener);
            else if (events[i].events & EPOLLOUT) pump(c);
            else on_read(c);
        }
    }
}

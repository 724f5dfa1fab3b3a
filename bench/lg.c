// lg: a load generator for any broker that speaks Kafka's protocol. One thread, epoll. It makes its own frames (Produce v7, Fetch v11,
// OffsetCommit v8), looks at the error code of every reply, and reads the brokers' CPU time from their process clocks.
//
//   lg produce|fetch|commit|e2e|wide -T HOST:PORT/PARTITION[,HOST:PORT/PARTITION...] [options]
//     -n NAME    topic (t)
//     -g NAME    group, for commit (g)
//     -b BYTES   batch size aimed at; 1: one record (1)
//     -s BYTES   value size of each record (100)
//     -c CONNS   connections in all, dealt over the targets (1)
//     -d DEPTH   requests in flight on each (1)
//     -t SECONDS (2)
//     -m MAX     requests in all
//     -r RATE    requests a second in all, open loop: latency counts from when a request was due
//     -a ACKS    1 or -1 (1)
//     -k COUNT   fetch: cycle through the first COUNT batches (32)
//     -p PID,... broker processes whose CPU is summed
//     -v         each second's MB/s on stderr
//   wide: rounds of one record to every target, one request to each broker; latency is a round's, from the first byte sent to the last answer.
//   e2e: one record at RATE and one long-polling fetcher; latency from before the produce is sent until the record is fetched.
//
// Prints one JSON object: done, errors, short (fetches with less than a batch), secs, rps, MBps, latencies in us, cpu (s), us_req, s_GB.
// Build: cc -O2 -msse4.2 -pthread -o lg lg.c
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "kafka.h"

enum { HEADMAX = 320, LATCAP = 4000000 };

typedef struct {
    int fd, writing, inflight, first, last;  // first, last: a ring of start times
    u8 *frame;
    size_t frame_len, buffer_len, pos, left;  // buffer_len: frame repeated, so that many small requests leave in one send
    u8 head[HEADMAX];                         // the first bytes of the reply
    size_t reply_got, reply_len;              // response being read: bytes so far, bytes in all (0: not known yet)
    int64_t *started;
    uint64_t fetches;
} Conn;

static const char *topic = "t", *group = "g", *mode;
static int connections = 1, depth = 1, acks = 1, cycle = 32, verbose, epoll, stopping, is_fetch;
static size_t batch_size = 1, value_size = 100, head_len, error_at, batch_len, offset_at;
static int records;
static int64_t max_requests = -1, issued, done, errors, short_fetches, in_bytes, out_bytes;
static int first_error;
static double seconds = 2, rate;
static int64_t *latency, latencies;
static int pids[64], npids;

static struct {
    struct sockaddr_in a;
    int partition;
} target[1024];

static int ntargets;

static void die(const char *what) {
    perror(what);
    exit(1);
}

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static uint32_t crc32c(const u8 *p, size_t n) { return ~crc32c_update(0xffffffff, p, n); }

static double broker_cpu(void) {
    double s = 0;
    struct timespec t;
    clockid_t c;
    for (int i = 0; i < npids; i++)
        if (!clock_getcpuclockid(pids[i], &c) && !clock_gettime(c, &t)) s += t.tv_sec + t.tv_nsec * 1e-9;
    return s;
}

// ---- frames
static u8 *header(u8 *p, int api, int version) { return wstr(w32(w16(w16(p + 4, api), version), 7), "lg"); }

static size_t finish(u8 *f, u8 *end) {
    w32(f, end - f - 4);
    return end - f;
}

static u8 *batch(u8 *p) {  // one uncompressed v2 batch of `records` records with random values
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    int64_t ts = t.tv_sec * 1000LL + t.tv_nsec / 1000000;
    u8 *b = p, body[32];
    static u8 *value;
    if (!value) {
        FILE *f = fopen("/dev/urandom", "r");
        value = malloc(value_size);
        if (fread(value, 1, value_size, f) != value_size) die("urandom");
        fclose(f);
    }
    p += BATCH_HEADER;
    int n = 0;
    do {
        u8 *e = wvar(wvar(wvar(wvar(w8(body, 0), 0), n), -1), value_size);
        p = wvar(p, e - body + value_size + 1);
        memcpy(p, body, e - body);
        p += e - body;
        memcpy(p, value, value_size);
        p = w8(p + value_size, 0);
        n++;
    } while (p - b + value_size + 16 <= batch_size);
    records = n;
    batch_len = p - b;
    w32(w64(b, 0), batch_len - 12);
    w8(w32(b + BATCH_EPOCH, -1), 2);
    w32(w32(w16(w64(w64(w64(w32(w16(b + BATCH_ATTRIBUTES, 0), n - 1), ts), ts), -1), -1), -1), n);
    w32(b + BATCH_CRC, crc32c(b + BATCH_ATTRIBUTES, batch_len - BATCH_ATTRIBUTES));
    return p;
}

static size_t produce_frame(u8 *f, int partition) {
    u8 *p = w32(wstr(w32(w32(w16(w16(header(f, PRODUCE, 7), -1), acks), 30000), 1), topic), 1);
    p = w32(p, partition);
    u8 *e = batch(p + 4);
    w32(p, batch_len);
    head_len = 64 + strlen(topic);
    error_at = 4 + 4 + 4 + 2 + strlen(topic) + 4 + 4;
    return finish(f, e);
}

static size_t wide_frame(u8 *f, const int *partitions, int count) {
    u8 *p = w32(wstr(w32(w32(w16(w16(header(f, PRODUCE, 7), -1), acks), 30000), 1), topic), count);
    for (int i = 0; i < count; i++) {
        u8 *size = w32(p, partitions[i]);
        p = batch(size + 4);
        w32(size, batch_len);
    }
    error_at = 4 + 4 + 4 + 2 + strlen(topic) + 4 + 4;  // of the first partition, the others follow every 30 bytes
    return finish(f, p);
}

static size_t fetch_frame(u8 *f, int partition, int64_t offset, int max_bytes) {
    u8 *p = w32(w32(w8(w32(w32(w32(w32(header(f, FETCH, 11), -1), 500), 1), max_bytes), 0), 0), -1);
    p = w32(w32(w32(wstr(w32(p, 1), topic), 1), partition), -1);
    offset_at = p - f;
    p = wstr(w32(w32(w64(w64(p, offset), -1), max_bytes), 0), "");
    head_len = 4 + 4 + 4 + 2 + 4 + 4 + 2 + strlen(topic) + 4 + 4 + 2 + 8 * 3 + 4 + 4 + 4;
    error_at = 4 + 4 + 4 + 2 + 4 + 4 + 2 + strlen(topic) + 8;
    return finish(f, p);
}

static u8 *wcompact(u8 *p, const char *s) {  // shorter than 127 bytes
    size_t n = strlen(s);
    p = w8(p, n + 1);
    memcpy(p, s, n);
    return p + n;
}

static size_t commit_frame(u8 *f, int partition) {  // of no member
    u8 *p = wcompact(w32(wcompact(w8(header(f, OFFSET_COMMIT, 8), 0), group), -1), "");
    p = w32(w8(wcompact(w8(w8(p, 0), 2), topic), 2), partition);
    p = w8(w8(w8(wcompact(w32(w64(p, 42), -1), ""), 0), 0), 0);
    head_len = 4 + 4 + 1 + 4 + 1 + 1 + strlen(topic) + 1 + 4 + 2 + 3;
    error_at = head_len - 5;
    return finish(f, p);
}

static size_t build(u8 *f, int partition) {
    if (is_fetch) {
        produce_frame(f, partition);
        return fetch_frame(f, partition, 0, batch_size);
    }
    return strcmp(mode, "commit") ? produce_frame(f, partition) : commit_frame(f, partition);
}

// ---- closed and open loop
static int may_issue(Conn *c) { return !stopping && (max_requests < 0 || issued < max_requests) && c->inflight < depth; }

static void issue(Conn *c, int64_t t) {
    if (is_fetch) w64(c->frame + offset_at, (int64_t)(c->fetches++ % cycle) * records);
    c->started[c->last] = t;
    c->last = (c->last + 1) % (depth + 1);
    c->inflight++;
    issued++;
    c->left += c->frame_len;
}

static void want_write(Conn *c, int w) {
    if (w == c->writing) return;
    struct epoll_event e = {EPOLLIN | (w ? EPOLLOUT : 0), {.ptr = c}};
    epoll_ctl(epoll, EPOLL_CTL_MOD, c->fd, &e);
    c->writing = w;
}

static void pump(Conn *c) {
    for (;;) {
        if (!rate)
            while (may_issue(c) && (!c->left || (c->buffer_len > c->frame_len))) issue(c, now());
        if (!c->left) return want_write(c, 0);
        size_t n = c->left < c->buffer_len - c->pos ? c->left : c->buffer_len - c->pos;
        ssize_t s = send(c->fd, c->frame + c->pos, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (s < 0) {
            if (errno == EAGAIN) return want_write(c, 1);
            die("send");
        }
        c->left -= s;
        out_bytes += s;
        c->pos = (c->pos + s) % c->frame_len;
    }
}

static void complete(Conn *c, int64_t t) {
    size_t n = c->reply_len;
    int e = n >= error_at + 2 ? r16(c->head + error_at) : -1;
    if (e) {
        errors++;
        if (!first_error) first_error = e;
    }
    if (is_fetch && !e && n < head_len + batch_len) short_fetches++;
    if (latencies < LATCAP) latency[latencies++] = t - c->started[c->first];
    c->first = (c->first + 1) % (depth + 1);
    c->inflight--;
    done++;
    c->reply_got = c->reply_len = 0;
}

static u8 receive_buffer[1 << 20];

static void on_read(Conn *c) {
    for (;;) {
        int skip = is_fetch && c->reply_len && c->reply_got >= head_len;  // the body of a fetch is dropped in the kernel
        size_t want = is_fetch ? (c->reply_len ? (skip                      ? c->reply_len
                                                  : head_len < c->reply_len ? head_len
                                                                            : c->reply_len)
                                               : 4) -
                                     c->reply_got
                               : sizeof receive_buffer;
        ssize_t n = recv(c->fd, skip ? NULL : receive_buffer, want > (4 << 20) ? 4 << 20 : want, MSG_DONTWAIT | (skip ? MSG_TRUNC : 0));
        if (n < 0) {
            if (errno == EAGAIN) return;
            die("recv");
        }
        if (n == 0) {
            fprintf(stderr, "the broker closed the connection\n");
            exit(1);
        }
        in_bytes += n;
        int64_t t = now();
        int fin = 0;
        for (ssize_t i = 0; i < n;) {
            size_t m = (c->reply_len ? c->reply_len : 4) - c->reply_got;
            if (m > (size_t)(n - i)) m = n - i;
            if (!skip && c->reply_got < HEADMAX)
                memcpy(c->head + c->reply_got, receive_buffer + i, m < HEADMAX - c->reply_got ? m : HEADMAX - c->reply_got);
            c->reply_got += m;
            i += m;
            if (!c->reply_len && c->reply_got == 4) c->reply_len = 4 + r32(c->head);
            if (c->reply_len && c->reply_got == c->reply_len) {
                complete(c, t);
                fin = 1;
            }
        }
        if (fin) pump(c);
        if (!is_fetch && (size_t)n < sizeof receive_buffer) return;
    }
}

static int dial(int i) {
    int s = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    if (connect(s, (void *)&target[i].a, sizeof target[i].a)) die("connect");
    setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, 4);
    return s;
}

static void loop(void) {
    Conn *all_connections = calloc(connections, sizeof *all_connections);
    struct epoll_event ev[256];
    epoll = epoll_create1(0);
    for (int i = 0; i < connections; i++) {
        Conn *c = all_connections + i;
        c->fd = dial(i % ntargets);
        c->started = calloc(depth + 1, 8);
        u8 *f = malloc(batch_size + value_size + 4096);
        c->frame_len = build(f, target[i % ntargets].partition);
        int copies = !is_fetch && c->frame_len <= 4096 && depth > 1 ? depth + 1 : 1;
        c->frame = malloc(copies * c->frame_len);
        c->buffer_len = copies * c->frame_len;
        for (int k = 0; k < copies; k++) memcpy(c->frame + k * c->frame_len, f, c->frame_len);
        free(f);
        struct epoll_event e = {EPOLLIN, {.ptr = c}};
        epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &e);
    }
    int64_t t0 = now(), end = t0 + seconds * 1e9, due = t0, tick = t0, tick_done = 0;
    int turn = 0;
    if (!rate)
        for (int i = 0; i < connections; i++) pump(all_connections + i);
    for (;;) {
        int64_t t = now();
        if (t >= end) stopping = 1;
        if (max_requests >= 0 && done >= max_requests) break;
        if (stopping) {
            int busy = 0;
            for (int i = 0; i < connections; i++) busy += all_connections[i].inflight;
            if (!busy || t > end + 10000000000LL) break;
        }
        if (verbose && t - tick >= 1000000000LL) {
            fprintf(stderr, "%.1f %.1f\n", (t - t0) * 1e-9, (done - tick_done) * (double)batch_len / ((t - tick) * 1e-3));
            tick = t;
            tick_done = done;
        }
        struct timespec w = {0, 100000000};
        if (rate && !stopping) {
            while (t >= due) {
                Conn *c = all_connections + turn++ % connections;
                if (may_issue(c)) {
                    issue(c, due);
                    pump(c);
                }
                due += 1e9 / rate;
            }
            int64_t d = due - now();
            w.tv_nsec = d > 0 ? (d < 100000000 ? d : 100000000) : 0;
        }
        int n = epoll_pwait2(epoll, ev, 256, &w, NULL);
        for (int i = 0; i < n; i++) {
            Conn *c = ev[i].data.ptr;
            if (ev[i].events & EPOLLOUT) pump(c);
            if (ev[i].events & ~EPOLLOUT) on_read(c);
        }
    }
}

// ---- wide
static void all(int s, void *b, size_t n, int out);
static size_t frame_in(int s, u8 *b);

static void wide(void) {
    int sockets[64], counts[64], brokers = 0;
    u8 *frames[64], *reply = malloc(1 << 20);
    size_t sizes[64];
    for (int i = 0; i < ntargets; i++) {
        int chosen[1024], count = 0, known = 0;
        for (int j = 0; j < ntargets; j++)
            if (!memcmp(&target[i].a, &target[j].a, sizeof target[i].a)) {
                if (j < i) known = 1;
                chosen[count++] = target[j].partition;
            }
        if (known || brokers == 64) continue;
        frames[brokers] = malloc(4096 + count * (value_size + 4096));
        sizes[brokers] = wide_frame(frames[brokers], chosen, count);
        counts[brokers] = count;
        sockets[brokers++] = dial(i);
    }
    for (int64_t end = now() + seconds * 1e9; now() < end && (max_requests < 0 || done < max_requests);) {
        int64_t t = now();
        for (int i = 0; i < brokers; i++) all(sockets[i], frames[i], sizes[i], 1);
        for (int i = 0; i < brokers; i++) {
            frame_in(sockets[i], reply);
            for (int k = 0; k < counts[i]; k++) {
                int e = r16(reply + error_at + 30 * k);
                if (e) errors++, first_error = e;
            }
        }
        latency[latencies++] = now() - t;
        done++;
    }
}

// ---- end to end
static void all(int s, void *b, size_t n, int out) {
    for (u8 *p = b; n;) {
        ssize_t k = out ? send(s, p, n, MSG_NOSIGNAL) : recv(s, p, n, 0);
        if (k <= 0) die("socket");
        p += k;
        n -= k;
    }
}

static size_t frame_in(int s, u8 *b) {
    all(s, b, 4, 0);
    size_t n = r32(b);
    all(s, b + 4, n, 0);
    return n + 4;
}

static u8 *produce;
static size_t produce_len;
static int produce_socket, produce_err_at;
static u8 produce_reply[4096];

static int64_t produce_one(void) {  // the record's value begins with the time it was sent
    u8 *b = produce + produce_len - batch_len, *value = produce + produce_len - 1 - value_size;
    int64_t t = now();
    memcpy(value, &t, 8);
    w32(b + BATCH_CRC, crc32c(b + BATCH_ATTRIBUTES, batch_len - BATCH_ATTRIBUTES));
    all(produce_socket, produce, produce_len, 1);
    frame_in(produce_socket, produce_reply);
    if (r16(produce_reply + produce_err_at)) {
        errors++;
        first_error = r16(produce_reply + produce_err_at);
    }
    return r64(produce_reply + produce_err_at + 2);
}

static void *producer(void *x) {
    int64_t due = now();
    for (int64_t i = 0; i < max_requests; i++, due += 1e9 / rate) {
        int64_t d = due - now();
        if (d > 0) {
            struct timespec w = {d / 1000000000, d % 1000000000};
            nanosleep(&w, 0);
        }
        produce_one();
    }
    return x;
}

static void end_to_end(void) {
    batch_size = 1;
    if (!rate) rate = 200;
    if (max_requests < 0) max_requests = rate * seconds;
    produce_socket = dial(0);
    produce = malloc(value_size + 4096);
    produce_len = produce_frame(produce, target[0].partition);
    produce_err_at = error_at;
    int64_t next = produce_one() + 1, last = next + max_requests;
    int s = dial(0);
    u8 *f = malloc(4096), *r = malloc(4 << 20);
    pthread_t th;
    pthread_create(&th, 0, producer, 0);
    while (next < last) {
        size_t n = fetch_frame(f, target[0].partition, next, 1 << 20);
        all(s, f, n, 1);
        n = frame_in(s, r);
        int64_t t = now();
        if (r16(r + error_at)) {
            errors++;
            first_error = r16(r + error_at);
            break;
        }
        for (u8 *p = r + head_len; p + BATCH_HEADER < r + n; p += BATCH_EPOCH + r32(p + BATCH_LENGTH)) {
            if (r64(p) < next) continue;
            int64_t sent;
            memcpy(&sent, p + batch_len - 1 - value_size, 8);
            latency[latencies++] = t - sent;
            next = r64(p) + 1;
            done++;
        }
    }
    pthread_join(th, 0);
}

static int by_value(const void *a, const void *b) {
    int64_t x = *(int64_t *)a, y = *(int64_t *)b;
    return x < y ? -1 : x > y;
}

static double percentile(double q) { return latencies ? latency[(int64_t)(latencies * q)] / 1e3 : 0; }

int main(int n, char **v) {
    if (n < 3) {
        fprintf(stderr, "what it takes stands at the head of lg.c\n");
        return 2;
    }
    mode = v[1];
    is_fetch = !strcmp(mode, "fetch");
    optind = 2;
    for (int o; (o = getopt(n, v, "T:n:g:b:s:c:d:t:m:r:a:k:p:v")) != -1;) switch (o) {
        case 'T':
            for (char *x = strtok(optarg, ","); x; x = strtok(0, ",")) {
                char h[64];
                int port, part;
                if (sscanf(x, "%63[^:]:%d/%d", h, &port, &part) != 3) die("-T HOST:PORT/PARTITION");
                target[ntargets].a = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
                inet_pton(AF_INET, h, &target[ntargets].a.sin_addr);
                target[ntargets++].partition = part;
            }
            break;
        case 'p':
            for (char *x = strtok(optarg, ","); x; x = strtok(0, ",")) pids[npids++] = atoi(x);
            break;
        case 'n': topic = optarg; break;
        case 'g': group = optarg; break;
        case 'b': batch_size = atol(optarg); break;
        case 's': value_size = atol(optarg); break;
        case 'c': connections = atoi(optarg); break;
        case 'd': depth = atoi(optarg); break;
        case 't': seconds = atof(optarg); break;
        case 'm': max_requests = atol(optarg); break;
        case 'r': rate = atof(optarg); break;
        case 'a': acks = atoi(optarg); break;
        case 'k': cycle = atoi(optarg); break;
        case 'v': verbose = 1; break;
        default: return 2;
        }
    latency = malloc(LATCAP * 8);
    double c0 = broker_cpu();
    int64_t t0 = now();
    if (!strcmp(mode, "e2e")) end_to_end();
    else if (!strcmp(mode, "wide")) wide();
    else loop();
    double elapsed = (now() - t0) * 1e-9, cpu = broker_cpu() - c0;
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    qsort(latency, latencies, 8, by_value);
    double gb = (is_fetch ? in_bytes : out_bytes) / 1e9;
    printf("{\"done\":%ld,\"errors\":%ld,\"first_error\":%d,\"short\":%ld,\"secs\":%.3f,\"rps\":%.1f,\"MBps\":%.2f,\"records\":%"
           "d,\"rec_s\":%.0f,\"p50us\":%.1f,\"p99us\":%.1f,\"p999us\":%.1f,"
           "\"cpu\":%.4f,\"us_req\":%.3f,\"s_GB\":%.4f,\"client_cpu\":%.3f}\n",
           (long)done, (long)errors, first_error, (long)short_fetches, elapsed, done / elapsed, gb * 1000 / elapsed, records,
           (double)done * records / elapsed, percentile(.5), percentile(.99), percentile(.999), cpu, done ? cpu * 1e6 / done : 0,
           gb > 0 ? cpu / gb : 0, u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6);
    return 0;
}

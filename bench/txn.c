// txn: producers of transactions, or a reader of what is committed, for any broker that speaks Kafka's protocol. One thread, epoll. Frames are
// made once and patched (AddPartitionsToTxn v3, Produce v11 and v12, EndTxn v4 and v5, Fetch v11); the brokers' CPU time is read from their clocks.
//
//   txn write|read -T HOST:PORT/PARTITION[,...] [options]
//     -n NAME    topic (t)
//     -B HOST:PORT,...  brokers, by which the producers' coordinators are named
//     -w COUNT   partitions that each transaction writes to (1)
//     -r COUNT   records of a batch (1)
//     -s BYTES   value size of each record (100)
//     -b COUNT   batches to each partition in a transaction (1)
//     -d DEPTH   requests in flight to each broker (1)
//     -v VERSION of the transactions: 1 (the client adds partitions), 2 (the leader does); 0: none, the producers are idempotent alone (2)
//     -x COUNT   each so many'th transaction is aborted (0: none)
//     -i 0|1     read: isolation level (0)
//     -k BYTES   read: of one Fetch at most (1000000)
//     -t SECONDS (2)
//     -m MAX     transactions in all
//     -p PID,... broker processes whose CPU is summed
//
// write takes its producers from standard input, one a line: transactional id, producer id, epoch, place of its coordinator in -B.
// What is refused for a time is sent again after 20 ms, as Java's producer does it while markers of its last transaction are written.
// Prints one JSON object; commit is the time from EndTxn to its answer, txn that from the first request to the last answer of a transaction.
#define _GNU_SOURCE
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "client.h"

enum { ADD_PARTITIONS = 24, END = 26, BROKERS = 16, WIDTH = 64, REPLY = 1 << 16, RETRY_NS = 20000000 };

enum { NOT_LEADER = 6, TIMED_OUT = 7, LOADING = 14, NO_COORDINATOR = 15, ELSEWHERE = 16, FEW_REPLICAS = 19, FEW_AFTER = 20, CONCURRENT = 51 };

typedef struct {
    struct Producer *owner;
    int fd, partitions[WIDTH], count, sent, acked, inflight, again;  // sent, acked: batches of this transaction
    u8 *frame, *batch[WIDTH];
    size_t frame_len, batch_len;
    u8 *in;
    size_t got;
} Link;  // to one broker

typedef struct Producer {
    char id[64];
    int64_t producer, began, ending, due, number;  // due: when what was refused is sent again
    int epoch, sequence, coordinator, busy;
    enum { ADDING, SENDING, ENDING, STOPPED } phase;
    Link links[BROKERS];
} Producer;

static const char *topic = "t";
static int width = 1, records = 1, value_size = 100, batches = 1, depth = 1, version = 2, abort_each, isolation, fetch_bytes = 1000000;
static int epoll, stopping, first_error, ntargets, nbrokers, nproducers;
static int64_t max_transactions = -1, begun, done, aborted, errors, retries, out_bytes, in_bytes, fetches;
static double seconds = 2;

static struct {
    struct sockaddr_in a;
    int partition, broker;
} target[1024];

static struct sockaddr_in brokers[BROKERS];
static Producer *producers;

static Times commit_times, txn_times;

static u8 *header(u8 *p, int api, int v) { return w8(wstr(w32(w16(w16(p + 4, api), v), 7), "txn"), 0); }

static void send_frame(Link *l, u8 *f, size_t n) {
    w32(f, n - 4);
    all(l->fd, f, n, 1);
    out_bytes += n;
    l->inflight++;
    l->owner->busy++;
}

// ---- a batch, and the Produce of all partitions that one broker leads
static u8 *batch(u8 *p) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    int64_t ts = t.tv_sec * 1000LL + t.tv_nsec / 1000000;
    static u8 *value;
    if (!value) {
        FILE *f = fopen("/dev/urandom", "r");
        value = malloc(value_size);
        if (fread(value, 1, value_size, f) != (size_t)value_size) die("urandom");
        fclose(f);
    }
    u8 *b = p, body[32];
    p += BATCH_HEADER;
    for (int i = 0; i < records; i++) {
        u8 *e = wvar(wvar(wvar(wvar(w8(body, 0), 0), i), -1), value_size);
        p = wvar(p, e - body + value_size + 1);
        memcpy(p, body, e - body);
        p += e - body;
        memcpy(p, value, value_size);
        p = w8(p + value_size, 0);
    }
    w32(w64(b, 0), p - b - 12);
    w8(w32(b + BATCH_EPOCH, -1), 2);
    w32(w32(w16(w64(w64(w64(w32(w16(b + BATCH_ATTRIBUTES, version ? 16 : 0), records - 1), ts), ts), -1), -1), -1), records);
    return p;
}

static void build(Producer *p, Link *l) {
    l->frame = malloc(1024 + l->count * (64 + BATCH_HEADER + (size_t)records * (value_size + 16)));
    u8 *f = header(l->frame, PRODUCE, version == 2 ? 12 : 11);
    f = version ? wcstr(f, p->id) : w8(f, 0);
    f = wuvar(wcstr(wuvar(w32(w16(f, -1), 30000), 2), topic), l->count + 1);
    u8 *scratch = malloc(BATCH_HEADER + (size_t)records * (value_size + 16));
    l->batch_len = batch(scratch) - scratch;
    for (int i = 0; i < l->count; i++) {
        f = wuvar(w32(f, l->partitions[i]), l->batch_len + 1);
        l->batch[i] = f;
        memcpy(f, scratch, l->batch_len);
        f = w8(f + l->batch_len, 0);
    }
    free(scratch);
    l->frame_len = w8(w8(f, 0), 0) - l->frame;
}

static void produce(Producer *p, Link *l) {
    for (int i = 0; i < l->count; i++) {
        u8 *b = l->batch[i];
        w32(w16(w64(b + 43, p->producer), p->epoch), (p->sequence + l->sent * records) & 0x7fffffff);
        w32(b + BATCH_CRC, ~crc32c_update(0xffffffff, b + BATCH_ATTRIBUTES, l->batch_len - BATCH_ATTRIBUTES));
    }
    l->sent++;
    send_frame(l, l->frame, l->frame_len);
}

// ---- one transaction after the other
static void add_partitions(Producer *p) {
    u8 f[1024 + 4 * WIDTH], *e = wuvar(wcstr(wuvar(w16(w64(wcstr(header(f, ADD_PARTITIONS, 3), p->id), p->producer), p->epoch), 2), topic), width + 1);
    for (int i = 0; i < nbrokers; i++)
        for (int k = 0; k < p->links[i].count; k++) e = w32(e, p->links[i].partitions[k]);
    send_frame(p->links + p->coordinator, f, w8(w8(e, 0), 0) - f);
}

static void end(Producer *p) {
    int commit = !abort_each || p->number % abort_each;
    u8 f[256], *e = w8(w8(w16(w64(wcstr(header(f, END, version == 2 ? 5 : 4), p->id), p->producer), p->epoch), commit), 0);
    send_frame(p->links + p->coordinator, f, e - f);
}

static int may_send(Link *l) { return l->count && !l->again && l->sent < batches && l->inflight < depth; }

static void step(Producer *p) {
    if (p->due) return;
    if (p->phase == ADDING && !p->busy) add_partitions(p);
    if (p->phase == SENDING) {
        int left = 0;
        for (int i = 0; i < nbrokers; i++) {
            Link *l = p->links + i;
            while (may_send(l)) produce(p, l);
            left += l->count && l->acked < batches;
        }
        if (!left && version) {
            p->phase = ENDING;
            p->ending = now();
        }
    }
    if (p->phase == ENDING && !p->busy) end(p);
}

static void begin(Producer *p) {
    if (stopping || (max_transactions >= 0 && begun >= max_transactions)) {
        p->phase = STOPPED;
        return;
    }
    p->number = ++begun;
    p->began = now();
    p->phase = version == 1 ? ADDING : SENDING;
    for (int i = 0; i < nbrokers; i++) p->links[i].sent = p->links[i].acked = 0;
    step(p);
}

static int passes(int code) {
    switch (code) {
        case NOT_LEADER: case TIMED_OUT: case LOADING: case NO_COORDINATOR: case ELSEWHERE: case FEW_REPLICAS: case FEW_AFTER: case CONCURRENT: return 1;
        default: return 0;
    }
}

static int refused(Producer *p, int code) {  // whether it was; then it is tried again, or the producer stops
    if (!code) return 0;
    if (passes(code)) {
        retries++;
        p->due = now() + RETRY_NS;
    } else {
        errors++;
        if (!first_error) first_error = code;
        p->phase = STOPPED;
    }
    return 1;
}

static int produced(u8 *r) {  // the first code that is not 0
    int code = 0;
    for (uint32_t topics = ruvar(&r) - 1; topics; topics--) {
        skip_string(&r);
        for (uint32_t n = ruvar(&r) - 1; n; n--) {
            int c = r16(r + 4);
            if (c && !code) code = c;
            r += 4 + 2 + 8 * 3;
            for (uint32_t k = ruvar(&r); k > 1; k--) {
                r += 4;
                skip_string(&r);
                skip_tags(&r);
            }
            skip_string(&r);
            skip_tags(&r);
        }
        skip_tags(&r);
    }
    return code;
}

static int added(u8 *r) {
    int code = 0;
    r += 4;
    for (uint32_t topics = ruvar(&r) - 1; topics; topics--) {
        skip_string(&r);
        for (uint32_t n = ruvar(&r) - 1; n; n--) {
            int c = r16(r + 4);
            if (c && c != 55 && !code) code = c;
            r += 6;
            skip_tags(&r);
        }
        skip_tags(&r);
    }
    return code;
}

static void ended(Producer *p, u8 *r) {
    if (refused(p, r16(r + 4))) return;
    int64_t t = now();
    note(&commit_times, t - p->ending);
    note(&txn_times, t - p->began);
    done++;
    if (abort_each && p->number % abort_each == 0) aborted++;
    if (version == 2) {
        p->producer = r64(r + 6);
        p->epoch = r16(r + 14);
        p->sequence = 0;
    } else p->sequence = (p->sequence + batches * records) & 0x7fffffff;
    begin(p);
}

static void answered(Producer *p, Link *l, u8 *r) {  // r: behind the size
    l->inflight--;
    p->busy--;
    r += 4;
    skip_tags(&r);
    if (p->phase == ENDING) ended(p, r);
    else if (p->phase == ADDING) {
        if (!refused(p, added(r))) p->phase = SENDING;
    } else if (p->phase == SENDING) {
        if (l->again || refused(p, produced(r))) l->again = 1;
        else l->acked++;
        if (!version && !l->again) done++;
        if (!version && l->acked == batches) {
            p->sequence = (p->sequence + batches * records) & 0x7fffffff;
            begin(p);
        }
        if (l->again && !l->inflight && !p->due) l->sent = l->acked, l->again = 0;
    }
    step(p);
}

static void on_read(Link *l) {
    ssize_t n = recv(l->fd, l->in + l->got, REPLY - l->got, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
        fprintf(stderr, "a broker closed the connection\n");
        exit(1);
    }
    l->got += n;
    in_bytes += n;
    while (l->got >= 4) {
        size_t size = 4 + r32(l->in);
        if (size > REPLY) die("an answer is too long");
        if (l->got < size) return;
        answered(l->owner, l, l->in + 4);
        memmove(l->in, l->in + size, l->got -= size);
    }
}

static void wake(Producer *p) {
    p->due = 0;
    for (int i = 0; i < nbrokers; i++) {
        Link *l = p->links + i;
        if (l->again && !l->inflight) l->sent = l->acked, l->again = 0;
    }
    step(p);
}

static void read_producers(void) {
    char line[256];
    producers = calloc(4096, sizeof *producers);
    while (nproducers < 4096 && fgets(line, sizeof line, stdin)) {
        Producer *p = producers + nproducers;
        if (sscanf(line, "%63s %ld %d %d", p->id, &p->producer, &p->epoch, &p->coordinator) != 4) die("a producer");
        for (int k = 0; k < width; k++) {
            int i = (nproducers + k) % ntargets;
            Link *l = p->links + target[i].broker;
            l->partitions[l->count++] = target[i].partition;
        }
        for (int i = 0; i < nbrokers; i++) {
            Link *l = p->links + i;
            if (!l->count && i != p->coordinator) continue;
            l->owner = p;
            l->fd = dial(brokers + i);
            l->in = malloc(REPLY);
            if (l->count) build(p, l);
            struct epoll_event e = {EPOLLIN, {.ptr = l}};
            epoll_ctl(epoll, EPOLL_CTL_ADD, l->fd, &e);
        }
        nproducers++;
    }
}

static void write_all(void) {
    int64_t limit = now() + seconds * 1e9;
    for (int i = 0; i < nproducers; i++) begin(producers + i);
    for (;;) {
        int64_t t = now(), next = t + 100000000;
        if (t >= limit) stopping = 1;
        int running = 0;
        for (int i = 0; i < nproducers; i++) {
            Producer *p = producers + i;
            if (p->due && p->due <= t) wake(p);
            if (p->due && p->due < next) next = p->due;
            running += p->phase != STOPPED;
        }
        if (!running || t > limit + 20000000000LL) break;
        struct timespec w = {0, next > t ? next - t : 0};
        struct epoll_event ev[256];
        int n = epoll_pwait2(epoll, ev, 256, &w, NULL);
        for (int i = 0; i < n; i++) on_read(ev[i].data.ptr);
    }
}

// ---- a reader: from the log's start to its end, again and again
static void read_all(void) {
    int s = dial(brokers + target[0].broker);
    u8 f[512], *r = malloc((size_t)fetch_bytes + (4 << 20));
    for (int64_t limit = now() + seconds * 1e9, offset = 0; now() < limit;) {
        u8 *p = wstr(w32(w16(w16(f + 4, FETCH), 11), 7), "txn");
        p = w32(w32(w8(w32(w32(w32(w32(p, -1), 0), 1), fetch_bytes), isolation), 0), -1);
        p = w32(w64(w64(w32(w32(w32(wstr(w32(p, 1), topic), 1), target[0].partition), -1), offset), -1), fetch_bytes);
        p = wstr(w32(p, 0), "");
        w32(f, p - f - 4);
        all(s, f, p - f, 1);
        all(s, r, 4, 0);
        size_t size = r32(r);
        all(s, r, size, 0);
        in_bytes += size;
        fetches++;
        p = r + 4 + 4 + 2 + 4 + 4 + 2 + strlen(topic) + 4 + 4;
        if ((first_error = r16(p))) {
            errors++;
            return;
        }
        p += 2 + 8 * 3;
        int count = r32(p);
        p += 4;
        if (count > 0) aborted += count, p += 16 * count;
        p += 4;
        u8 *limit_of = p + 4 + r32(p);
        int64_t next = offset;
        for (p += 4; p + BATCH_HEADER <= limit_of && p + 12 + r32(p + BATCH_LENGTH) <= limit_of; p += 12 + r32(p + BATCH_LENGTH)) {
            next = r64(p) + r32(p + BATCH_ATTRIBUTES + 2) + 1;
            done += !(r16(p + BATCH_ATTRIBUTES) & 32);
        }
        offset = next > offset ? next : 0;
    }
}

int main(int n, char **v) {
    if (n < 3) {
        fprintf(stderr, "what it takes stands at the head of txn.c\n");
        return 2;
    }
    char *targets = NULL;
    optind = 2;
    for (int o; (o = getopt(n, v, "T:B:n:w:r:s:b:d:v:x:i:k:t:m:p:")) != -1;) switch (o) {
        case 'T': targets = optarg; break;
        case 'B':
            for (char *x = strtok(optarg, ","); x && nbrokers < BROKERS; x = strtok(0, ",")) brokers[nbrokers++] = address(x);
            break;
        case 'p': read_pids(optarg); break;
        case 'n': topic = optarg; break;
        case 'w': width = atoi(optarg); break;
        case 'r': records = atoi(optarg); break;
        case 's': value_size = atoi(optarg); break;
        case 'b': batches = atoi(optarg); break;
        case 'd': depth = atoi(optarg); break;
        case 'v': version = atoi(optarg); break;
        case 'x': abort_each = atoi(optarg); break;
        case 'i': isolation = atoi(optarg); break;
        case 'k': fetch_bytes = atoi(optarg); break;
        case 't': seconds = atof(optarg); break;
        case 'm': max_transactions = atol(optarg); break;
        default: return 2;
        }
    for (char *x = targets ? strtok(targets, ",") : NULL; x && ntargets < 1024; x = strtok(0, ",")) {
        target[ntargets].a = address(x);
        target[ntargets].partition = atoi(strchr(x, '/') + 1);
        while (target[ntargets].broker < nbrokers && memcmp(brokers + target[ntargets].broker, &target[ntargets].a, sizeof *brokers)) target[ntargets].broker++;
        if (target[ntargets++].broker == nbrokers) die("-T: a broker that is not in -B");
    }
    if (!ntargets || width > WIDTH || width > ntargets) die("-T, -w");
    epoll = epoll_create1(0);
    int reads = !strcmp(v[1], "read");
    if (!reads) read_producers();
    double c0 = broker_cpu();
    int64_t t0 = now();
    if (reads) read_all();
    else write_all();
    double elapsed = (now() - t0) * 1e-9, cpu = broker_cpu() - c0;
    sort(&commit_times);
    sort(&txn_times);
    double gb = (reads ? in_bytes : out_bytes) / 1e9;
    printf("{\"done\":%ld,\"aborted\":%ld,\"errors\":%ld,\"first_error\":%d,\"retries\":%ld,\"fetches\":%ld,\"secs\":%.3f,\"rate\":%.1f,\"MBps\":%.2f,"
           "\"commit_p50us\":%.1f,\"commit_p99us\":%.1f,\"txn_p50us\":%.1f,\"txn_p99us\":%.1f,\"cpu\":%.4f,\"us_each\":%.2f,\"s_GB\":%.4f,"
           "\"client_cpu\":%.3f}\n",
           (long)done, (long)aborted, (long)errors, first_error, (long)retries, (long)fetches, elapsed, done / elapsed, gb * 1000 / elapsed,
           percentile(&commit_times, .5), percentile(&commit_times, .99), percentile(&txn_times, .5), percentile(&txn_times, .99), cpu,
           done ? cpu * 1e6 / done : 0, gb > 0 ? cpu / gb : 0, own_cpu());
    return 0;
}

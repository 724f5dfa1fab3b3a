// share: members of a share group, for any broker that speaks Kafka's protocol. One thread, epoll. All join and send heartbeats; once each has
// a partition they take records (ShareFetch v2), and accept them with a ShareAcknowledge v2 of its own, which is timed, until all are accepted.
// The CRC of each batch is checked, that it has the acquired records, and that no offset is accepted twice.
//
//   share -T HOST:PORT/PARTITION/END[,...] -C HOST:PORT -i ID [options]
//     -T         the leader of each partition, and the offset behind its last record; all from 0 on are wanted
//     -C         the group's coordinator
//     -i ID      the topic's, in hexadecimal digits
//     -n NAME    topic (t)
//     -g NAME    group (g)
//     -c COUNT   members, dealt over the partitions (100)
//     -r COUNT   records of a fetch, about (500)
//     -k BYTES   of a fetch, about (1048576)
//     -w LOW,HIGH  the shares of all records between which is measured (0.25,0.95)
//     -t SECONDS after which it gives up (120)
//     -p PID,... broker processes whose CPU is summed
//
// Prints one JSON object: ack is the time from a ShareAcknowledge to its answer; rate, ack, cpu and client_cpu are of what is measured.
#define _GNU_SOURCE
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "client.h"

enum { SHARE_HEARTBEAT = 76, SHARE_FETCH = 78, SHARE_ACKNOWLEDGE = 79, ACCEPT = 1, RANGES = 4096, SMALL = 1 << 16, RETRY_NS = 100000000, PARTITIONS = 1024 };

enum { LOADING = 14, NO_COORDINATOR = 15, ELSEWHERE = 16 };

typedef struct {
    struct Member *owner;
    int fd;
    u8 *in;
    size_t got, room;
} Link;

typedef struct {
    struct sockaddr_in leader;
    int index;
    int64_t end;
    uint64_t *accepted;  // a bit for each offset
} Partition;

typedef struct Member {
    char id[37];
    Partition *partition;
    Link coordinator, leader;
    int has_partition, member_epoch, session_epoch, nranges;
    int64_t due, asked;  // the next heartbeat is due (0: one is under way); the acknowledgement was sent
    enum { JOINING, FETCHING, ACCEPTING } phase;
    struct {
        int64_t first, last;
    } ranges[RANGES];
} Member;

static const char *topic = "t", *group = "g";
static int max_records = 500, max_bytes = 1 << 20, nmembers = 100, npartitions, joined, epoll;
static double low = .25, high = .95, seconds = 120;
static u8 topic_id[16];
static Partition partitions[PARTITIONS];
static Member *members;
static int64_t wanted, accepted;
static Times acks;

static struct {
    int64_t at, accepted;
    double cpu, own;
} began, ended;  // what is measured

static void fail(const char *what, int code) {
    fprintf(stderr, "%s: %d; %ld of %ld records were accepted\n", what, code, (long)accepted, (long)wanted);
    exit(1);
}

static u8 *header(u8 *p, int api, int v) { return w8(wstr(w32(w16(w16(p + 4, api), v), 7), "share"), 0); }

static void send_frame(Link *l, u8 *f, u8 *end) {
    w32(f, end - f - 4);
    all(l->fd, f, end - f, 1);
}

static u8 *wid(u8 *p) {
    memcpy(p, topic_id, 16);
    return p + 16;
}

// ---- requests
static void heartbeat(Member *m) {
    u8 f[512], *p = w8(w32(wcstr(wcstr(header(f, SHARE_HEARTBEAT, 1), group), m->id), m->member_epoch), 0);
    p = m->member_epoch ? w8(p, 0) : wcstr(wuvar(p, 2), topic);
    m->due = 0;
    send_frame(&m->coordinator, f, w8(p, 0));
}

static void fetch(Member *m) {
    u8 f[512], *p = w32(wcstr(wcstr(header(f, SHARE_FETCH, 2), group), m->id), m->session_epoch);
    p = w8(w8(w32(w32(w32(w32(w32(p, 500), 1), max_bytes), max_records), max_records), 0), 0);
    if (m->session_epoch) p = wuvar(p, 1);
    else p = w8(w8(wuvar(w32(wuvar(wid(wuvar(p, 2)), 2), m->partition->index), 1), 0), 0);
    m->phase = FETCHING;
    send_frame(&m->leader, f, w8(wuvar(p, 1), 0));
}

static void accept_ranges(Member *m) {
    static u8 f[512 + 20 * RANGES];
    u8 *p = w8(w32(wcstr(wcstr(header(f, SHARE_ACKNOWLEDGE, 2), group), m->id), m->session_epoch), 0);
    p = wuvar(w32(wuvar(wid(wuvar(p, 2)), 2), m->partition->index), m->nranges + 1);
    for (int i = 0; i < m->nranges; i++) p = w8(w8(wuvar(w64(w64(p, m->ranges[i].first), m->ranges[i].last), 2), ACCEPT), 0);
    m->phase = ACCEPTING;
    m->asked = now();
    send_frame(&m->leader, f, w8(w8(w8(p, 0), 0), 0));
}

// ---- answers; r: behind the header
static void on_heartbeat(Member *m, u8 *r) {
    int code = r16(r + 4);
    r += 6;
    if (code == LOADING || code == NO_COORDINATOR || code == ELSEWHERE) {
        m->due = now() + RETRY_NS;
        return;
    }
    if (code) fail("ShareGroupHeartbeat was refused", code);
    skip_string(&r);
    skip_string(&r);
    m->member_epoch = r32(r);
    int interval_ms = r32(r + 4);
    r += 8;
    if ((signed char)*r++ >= 0 && ruvar(&r) > 1 && !m->has_partition) {
        m->has_partition = 1;
        if (++joined == nmembers)
            for (int i = 0; i < nmembers; i++) fetch(members + i);
    }
    m->due = now() + (m->has_partition ? interval_ms : 500) * 1000000LL;
}

static void check_records(Member *m, u8 *p, u8 *end) {
    int i = 0;
    int64_t next = m->nranges ? m->ranges[0].first : 0;
    while (i < m->nranges && p + BATCH_HEADER <= end) {
        size_t size = 12 + r32(p + BATCH_LENGTH);
        if (size > (size_t)(end - p)) break;
        if (~crc32c_update(0xffffffff, p + BATCH_ATTRIBUTES, size - BATCH_ATTRIBUTES) != (uint32_t)r32(p + BATCH_CRC)) fail("the CRC of a batch is wrong", 0);
        int64_t first = r64(p), last = first + r32(p + BATCH_ATTRIBUTES + 2);
        while (i < m->nranges && first <= next && next <= last) {
            if (m->ranges[i].last > last) next = last + 1;
            else if (++i < m->nranges) next = m->ranges[i].first;
        }
        p += size;
    }
    if (i < m->nranges) fail("an answer lacks acquired records", m->partition->index);
}

static void on_partition(Member *m, u8 **r) {
    int code = r16(*r + 4);
    *r += 6;
    skip_string(r);
    if (code) fail("ShareFetch was refused", code);
    *r += 2;
    skip_string(r);
    *r += 8;
    skip_tags(r);
    uint32_t size = ruvar(r);
    u8 *records = *r;
    *r += size ? size - 1 : 0;
    for (uint32_t n = ruvar(r); n > 1; n--) {
        if (m->nranges == RANGES) fail("an answer has too many ranges", RANGES);
        m->ranges[m->nranges].first = r64(*r);
        m->ranges[m->nranges++].last = r64(*r + 8);
        *r += 18;
        skip_tags(r);
    }
    skip_tags(r);
    check_records(m, records, records + (size ? size - 1 : 0));
}

static void on_fetch(Member *m, u8 *r) {
    if (r16(r + 4)) fail("ShareFetch was refused", r16(r + 4));
    r += 6;
    skip_string(&r);
    r += 4;
    m->session_epoch++;
    m->nranges = 0;
    for (uint32_t topics = ruvar(&r); topics > 1; topics--) {
        r += 16;
        for (uint32_t n = ruvar(&r); n > 1; n--) on_partition(m, &r);
        skip_tags(&r);
    }
    if (m->nranges) accept_ranges(m);
    else fetch(m);
}

static void count(Member *m) {
    Partition *p = m->partition;
    for (int i = 0; i < m->nranges; i++)
        for (int64_t at = m->ranges[i].first; at <= m->ranges[i].last; at++) {
            if (at < 0 || at >= p->end) fail("an offset that was not written was accepted", p->index);
            if (p->accepted[at >> 6] >> (at & 63) & 1) fail("an offset was accepted twice", p->index);
            p->accepted[at >> 6] |= 1ULL << (at & 63);
            accepted++;
        }
}

static void on_acknowledge(Member *m, u8 *r) {
    int64_t t = now();
    if (r16(r + 4)) fail("ShareAcknowledge was refused", r16(r + 4));
    r += 6;
    skip_string(&r);
    r += 4;
    m->session_epoch++;
    int rows = 0;
    for (uint32_t topics = ruvar(&r); topics > 1; topics--) {
        r += 16;
        for (uint32_t n = ruvar(&r); n > 1; n--, rows++) {
            if (r16(r + 4)) fail("ShareAcknowledge was refused", r16(r + 4));
            r += 6;
            skip_string(&r);
            r += 8;
            skip_tags(&r);
            skip_tags(&r);
        }
        skip_tags(&r);
    }
    if (rows != 1) fail("an acknowledgement was not answered", m->partition->index);
    if (began.at && !ended.at) note(&acks, t - m->asked);
    count(m);
    fetch(m);
}

static void note_time(void) {
    if (!began.at && accepted >= low * wanted) began.at = now(), began.accepted = accepted, began.cpu = broker_cpu(), began.own = own_cpu();
    if (!ended.at && accepted >= high * wanted) ended.at = now(), ended.accepted = accepted, ended.cpu = broker_cpu(), ended.own = own_cpu();
}

static void answered(Link *l, u8 *r) {
    Member *m = l->owner;
    r += 4;
    skip_tags(&r);
    if (l == &m->coordinator) on_heartbeat(m, r);
    else if (m->phase == ACCEPTING) {
        on_acknowledge(m, r);
        note_time();
    } else on_fetch(m, r);
}

static void on_read(Link *l) {
    ssize_t n = recv(l->fd, l->in + l->got, l->room - l->got, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) fail("a broker closed the connection", errno);
    l->got += n;
    while (l->got >= 4) {
        size_t size = 4 + r32(l->in);
        if (size > l->room) fail("an answer is too long", size);
        if (l->got < size) return;
        answered(l, l->in + 4);
        memmove(l->in, l->in + size, l->got -= size);
    }
}

static void open_link(Link *l, Member *m, struct sockaddr_in *a, size_t room) {
    *l = (Link){.owner = m, .fd = dial(a), .in = malloc(room), .room = room};
    struct epoll_event e = {EPOLLIN, {.ptr = l}};
    epoll_ctl(epoll, EPOLL_CTL_ADD, l->fd, &e);
}

static void run(void) {
    int64_t limit = now() + seconds * 1e9;
    while (accepted < wanted) {
        int64_t t = now(), next = t + 500000000;
        if (t > limit) fail("it takes too long", seconds);
        for (Member *m = members; m < members + nmembers; m++) {
            if (m->due && m->due <= t) heartbeat(m);
            if (m->due && m->due < next) next = m->due;
        }
        struct epoll_event ev[256];
        int n = epoll_wait(epoll, ev, 256, (next - t) / 1000000 + 1);
        for (int i = 0; i < n; i++) on_read(ev[i].data.ptr);
    }
}

static void read_targets(char *text) {
    for (char *x = strtok(text, ","); x && npartitions < PARTITIONS; x = strtok(0, ",")) {
        Partition *p = partitions + npartitions++;
        p->leader = address(x);
        if (sscanf(strchr(x, '/'), "/%d/%ld", &p->index, &p->end) != 2) die("-T");
        p->accepted = calloc(p->end / 64 + 1, 8);
        wanted += p->end;
    }
}

int main(int n, char **v) {
    struct sockaddr_in coordinator = {0};
    int has_id = 0;
    for (int o; (o = getopt(n, v, "T:C:i:n:g:c:r:k:w:t:p:")) != -1;) switch (o) {
        case 'T': read_targets(optarg); break;
        case 'C': coordinator = address(optarg); break;
        case 'i':
            for (char *x = optarg; has_id < 16 && sscanf(x, "%2hhx", topic_id + has_id) == 1; x += 2) has_id++;
            break;
        case 'n': topic = optarg; break;
        case 'g': group = optarg; break;
        case 'c': nmembers = atoi(optarg); break;
        case 'r': max_records = atoi(optarg); break;
        case 'k': max_bytes = atoi(optarg); break;
        case 'w':
            if (sscanf(optarg, "%lf,%lf", &low, &high) != 2) die("-w");
            break;
        case 't': seconds = atof(optarg); break;
        case 'p': read_pids(optarg); break;
        default: return 2;
        }
    if (!wanted || !coordinator.sin_port || has_id < 16) {
        fprintf(stderr, "what it takes stands at the head of share.c\n");
        return 2;
    }
    epoll = epoll_create1(0);
    members = calloc(nmembers, sizeof *members);
    for (int i = 0; i < nmembers; i++) {
        Member *m = members + i;
        snprintf(m->id, sizeof m->id, "bench-%d", i);
        m->partition = partitions + i % npartitions;
        open_link(&m->coordinator, m, &coordinator, SMALL);
        open_link(&m->leader, m, &m->partition->leader, 2 * (size_t)max_bytes + SMALL);
        heartbeat(m);
    }
    run();
    sort(&acks);
    double took = (ended.at - began.at) * 1e-9, cpu = ended.cpu - began.cpu;
    int64_t done = ended.accepted - began.accepted;
    printf("{\"accepted\":%ld,\"produced\":%ld,\"secs\":%.3f,\"rate\":%.1f,\"acks\":%ld,\"ack_p50us\":%.1f,\"ack_p99us\":%.1f,\"cpu\":%.4f,\"us_each\":%.4f,"
           "\"client_cpu\":%.3f}\n",
           (long)accepted, (long)wanted, took, done / took, (long)acks.count, percentile(&acks, .5), percentile(&acks, .99), cpu, cpu * 1e6 / done,
           ended.own - began.own);
    return 0;
}

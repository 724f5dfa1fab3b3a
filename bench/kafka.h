// What the load generator and the floor share: big-endian numbers, CRC32C in hardware, the places of a record batch's fields.
// Knows no socket. x86-64 with SSE 4.2, as cc -msse4.2 says.
#ifndef RAFTKA_BENCH_KAFKA_H
#define RAFTKA_BENCH_KAFKA_H
#include <arpa/inet.h>
#include <endian.h>
#include <nmmintrin.h>
#include <stdint.h>
#include <string.h>

typedef unsigned char u8;

enum { PRODUCE = 0, FETCH = 1, OFFSET_COMMIT = 8 };

// A record batch, version 2.
enum { BATCH_LENGTH = 8, BATCH_EPOCH = 12, BATCH_CRC = 17, BATCH_ATTRIBUTES = 21, BATCH_COUNT = 57, BATCH_HEADER = 61 };

// Without the inversion at begin and end, so that it can go on where it stopped.
static inline uint32_t crc32c_update(uint64_t crc, const u8 *p, size_t n) {
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t v;
        memcpy(&v, p, 8);
        crc = _mm_crc32_u64(crc, v);
    }
    while (n--) crc = _mm_crc32_u8(crc, *p++);
    return crc;
}

// w: write at p and return the place behind it; r: read.
static inline u8 *w8(u8 *p, int v) {
    *p = v;
    return p + 1;
}

static inline u8 *w16(u8 *p, int v) {
    uint16_t x = htons(v);
    memcpy(p, &x, 2);
    return p + 2;
}

static inline u8 *w32(u8 *p, int32_t v) {
    uint32_t x = htonl(v);
    memcpy(p, &x, 4);
    return p + 4;
}

static inline u8 *w64(u8 *p, int64_t v) {
    uint64_t x = htobe64(v);
    memcpy(p, &x, 8);
    return p + 8;
}

static inline u8 *wstr(u8 *p, const char *s) {
    size_t n = strlen(s);
    p = w16(p, n);
    memcpy(p, s, n);
    return p + n;
}

static inline u8 *wvar(u8 *p, int64_t v) {
    uint64_t z = ((uint64_t)v << 1) ^ (v >> 63);
    while (z > 127) {
        *p++ = z | 128;
        z >>= 7;
    }
    *p++ = z;
    return p;
}

static inline int32_t r32(const u8 *p) {
    uint32_t x;
    memcpy(&x, p, 4);
    return ntohl(x);
}

static inline int16_t r16(const u8 *p) {
    uint16_t x;
    memcpy(&x, p, 2);
    return ntohs(x);
}

static inline int64_t r64(const u8 *p) {
    uint64_t x;
    memcpy(&x, p, 8);
    return be64toh(x);
}
#endif

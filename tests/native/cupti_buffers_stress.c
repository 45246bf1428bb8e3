/* Copyright The gpuviz authors. Licensed under the Apache License, Version 2.0.
 *
 * Plays CUPTI against the pool from several threads, and Python from others, for the sanitizers: every record that was
 * written must be read once, or be counted as lost. Built and run by sanitize_cupti_buffers.sh.
 */

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void gpuviz_buffer_requested(uint8_t **buffer, size_t *size, size_t *most_records);
void gpuviz_buffer_completed(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid);
int gpuviz_pool_open(size_t slot_bytes, size_t most_slots, int never_refuse, const uint32_t *size_of_kind);
void gpuviz_pool_use_reserve(void);
void gpuviz_pool_close(void);
uint8_t *gpuviz_pool_take(size_t *valid);
int gpuviz_pool_release(uint8_t *bytes);
void gpuviz_pool_trim(void);
int gpuviz_pool_stats(uint64_t *answer);
size_t gpuviz_records_count(const uint8_t *bytes, size_t length, const uint32_t *size_of_kind, uint64_t *counts);
void gpuviz_records_gather(const uint8_t *bytes, size_t length, const uint32_t *size_of_kind,
                           const uint32_t *copy_of_kind, uint8_t **targets, uint64_t *room);
uint64_t gpuviz_records_find(const uint8_t *bytes, size_t length, const uint32_t *size_of_kind, uint32_t wanted,
                             uint64_t *offsets, uint64_t capacity);

enum { KINDS = 256, WRITERS = 6, READERS = 2, BUFFERS = 400, SLOT_BYTES = 16384, MOST_SLOTS = 24 };
enum { STATS = 14, WITH_CUPTI = 0, OVERWRITTEN_RECORDS = 9, NOT_OURS = 11 };

static uint32_t sizes[KINDS];
static atomic_ullong written, refused, read_back;
static atomic_bool writing, is_read;

static void check(bool holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "broken: %s\n", what);
        exit(2);
    }
}

static size_t fill(uint8_t *buffer, size_t size, unsigned *seed, uint64_t *records) {
    static const uint32_t kinds[] = {5, 10, 39, 1, 12};
    size_t at = 0;
    *records = 0;
    for (;;) {
        const uint32_t kind = kinds[(unsigned)rand_r(seed) % 5];
        if (at + sizes[kind] > size) {
            return at;
        }
        memset(buffer + at, (int)(*records & 0x7f), sizes[kind]);
        memcpy(buffer + at, &kind, sizeof kind);
        at += sizes[kind];
        (*records)++;
    }
}

/* A thread of CUPTI: asks, writes, returns; sometimes empty-handed, sometimes twice, sometimes a foreign buffer. */
static void *writer(void *argument) {
    unsigned seed = (unsigned)(uintptr_t)argument;
    uint8_t foreign[64];
    for (int i = 0; i < BUFFERS; i++) {
        uint8_t *buffer;
        size_t size, most;
        gpuviz_buffer_requested(&buffer, &size, &most);
        if (buffer == NULL) {
            check(size == 0, "a refused buffer has no size");
            atomic_fetch_add(&refused, 1);
            if (atomic_load(&is_read)) {
                i--; /* until a reader has given one back */
                sched_yield();
            }
            continue;
        }
        check(size == SLOT_BYTES && (uintptr_t)buffer % 64 == 0, "a buffer is whole and aligned");
        uint64_t records = 0;
        const size_t valid = rand_r(&seed) % 8 == 0 ? 0 : fill(buffer, size, &seed, &records);
        atomic_fetch_add(&written, records);
        gpuviz_buffer_completed(NULL, 0, buffer, size, valid);
        if (i % 50 == 0) {
            gpuviz_buffer_completed(NULL, 0, foreign, sizeof foreign, 8);
            gpuviz_buffer_completed(NULL, 0, buffer + 8, size, 8); /* never one of ours: not where a buffer starts */
        }
    }
    return NULL;
}

static const uint32_t copied[KINDS] = {[5] = 40, [10] = 208, [39] = 24, [1] = 96};

/* A buffer that ends in half a record, and arrays with room for one record less than there are: memory of exactly
 * these sizes, so that a byte too far is seen. */
static void walk_cut_off(const uint8_t *buffer, size_t valid) {
    for (size_t cut = 4; cut <= 36 && cut < valid; cut += 8) {
        const size_t length = valid - cut;
        uint8_t *exact = malloc(length);
        memcpy(exact, buffer, length);
        uint64_t counts[KINDS] = {0}, room[KINDS] = {0};
        check(gpuviz_records_count(exact, length, sizes, counts) <= length, "a walk ends inside");
        uint8_t *arrays[KINDS] = {NULL}, *targets[KINDS];
        for (int kind = 0; kind < KINDS; kind++) {
            if (copied[kind] != 0 && counts[kind] > 1) {
                room[kind] = counts[kind] - 1;
                arrays[kind] = malloc(room[kind] * copied[kind]);
            }
            targets[kind] = arrays[kind];
        }
        gpuviz_records_gather(exact, length, sizes, copied, targets, room);
        gpuviz_records_find(exact, length, sizes, 5, NULL, 0);
        for (int kind = 0; kind < KINDS; kind++) {
            free(arrays[kind]);
        }
        free(exact);
    }
}

/* Python: takes, walks, copies, gives back. */
static void *reader(void *argument) {
    (void)argument;
    for (bool last = false;;) {
        size_t valid;
        uint8_t *buffer = gpuviz_pool_take(&valid);
        if (buffer == NULL) {
            if (last) {
                return NULL;
            }
            last = !atomic_load(&writing);
            continue;
        }
        walk_cut_off(buffer, valid);
        uint64_t counts[KINDS] = {0}, room[KINDS] = {0}, total = 0;
        uint8_t *arrays[KINDS] = {NULL}, *targets[KINDS];
        check(gpuviz_records_count(buffer, valid, sizes, counts) == valid, "every byte is a record's");
        for (int kind = 0; kind < KINDS; kind++) {
            total += counts[kind];
            if (copied[kind] != 0 && counts[kind] != 0) {
                arrays[kind] = malloc(counts[kind] * copied[kind]); /* exact: one byte more would be caught */
                room[kind] = counts[kind];
            }
            targets[kind] = arrays[kind];
        }
        gpuviz_records_gather(buffer, valid, sizes, copied, targets, room);
        uint64_t *offsets = malloc((counts[10] + 1) * sizeof *offsets);
        check(gpuviz_records_find(buffer, valid, sizes, 10, offsets, counts[10]) == counts[10], "kernels are found");
        free(offsets);
        for (int kind = 0; kind < KINDS; kind++) {
            check(room[kind] == 0, "every record has been copied");
            free(arrays[kind]);
        }
        atomic_fetch_add(&read_back, total);
        check(gpuviz_pool_release(buffer) == 0, "a taken buffer can be given back");
    }
}

static void *trimmer(void *argument) {
    (void)argument;
    uint64_t stats[STATS];
    while (atomic_load(&writing)) {
        gpuviz_pool_trim();
        gpuviz_pool_stats(stats);
    }
    return NULL;
}

static void run(int never_refuse, size_t readers) {
    atomic_store(&written, 0);
    atomic_store(&refused, 0);
    atomic_store(&read_back, 0);
    atomic_store(&writing, true);
    atomic_store(&is_read, readers > 0);
    check(gpuviz_pool_open(SLOT_BYTES, MOST_SLOTS, never_refuse, sizes) == 0, "the pool opens");
    pthread_t writers[WRITERS], readings[READERS], trimming;
    for (uintptr_t i = 0; i < WRITERS; i++) {
        pthread_create(&writers[i], NULL, writer, (void *)(i + 1));
    }
    for (size_t i = 0; i < readers; i++) {
        pthread_create(&readings[i], NULL, reader, NULL);
    }
    pthread_create(&trimming, NULL, trimmer, NULL);
    for (int i = 0; i < WRITERS; i++) {
        pthread_join(writers[i], NULL);
    }
    gpuviz_pool_use_reserve();
    atomic_store(&writing, false);
    for (size_t i = 0; i < readers; i++) {
        pthread_join(readings[i], NULL);
    }
    pthread_join(trimming, NULL);
    if (readers == 0) {
        reader(NULL);
    }
    gpuviz_pool_close();
    gpuviz_pool_trim();
    uint64_t stats[STATS];
    check(gpuviz_pool_stats(stats) == 0, "there are counters");
    check(read_back + stats[OVERWRITTEN_RECORDS] == written, "every record was read once or counted as lost");
    check(stats[WITH_CUPTI] == 0, "no buffer is out");
    check(!never_refuse || refused == 0, "a request that must not be refused is not");
    check(stats[NOT_OURS] > 0, "foreign buffers are told from ours");
    printf("%llu written, %llu read, %llu overwritten, %llu requests refused\n", (unsigned long long)written,
           (unsigned long long)read_back, (unsigned long long)stats[OVERWRITTEN_RECORDS],
           (unsigned long long)refused);
}

/* A forked child gets nothing, and waits for nothing. */
static void fork_run(void) {
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        uint8_t *buffer = (uint8_t *)1;
        size_t size, most;
        gpuviz_buffer_requested(&buffer, &size, &most);
        _exit(buffer == NULL && gpuviz_pool_open(SLOT_BYTES, 1, 0, sizes) == -1 ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    check(status == 0, "a child is refused");
}

int main(void) {
    sizes[5] = 40;
    sizes[10] = 216;
    sizes[39] = 24;
    sizes[1] = 96;
    sizes[12] = 56;
    run(0, READERS);
    run(1, READERS);
    run(0, 0); /* nobody reads meanwhile: the bound */
    run(1, 0);
    fork_run();
    puts("ok");
    return 0;
}

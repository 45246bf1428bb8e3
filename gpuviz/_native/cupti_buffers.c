/* Copyright The gpuviz authors. Licensed under the Apache License, Version 2.0.
 *
 * The buffers that CUPTI writes its activity records into.
 *
 * CUPTI asks for buffers and returns them on its own threads while it holds a lock of its own; a callback that waits
 * for Python's GIL can therefore wait for ever (pytorch/pytorch#186295). The two callbacks here know no Python: they
 * move pointers between lists, and Python takes filled buffers from the other end. No cupti.h either: the two
 * signatures are all of it that is used.
 *
 * The rules, each for a reported failure:
 *  - A buffer has one owner at a time, written in its slot. What comes back from elsewhere, or twice, is counted and
 *    left alone (NVIDIA/Fuser#5402: one static buffer, records twice).
 *  - Memory is never unmapped while the process lives, only its pages are given back, so that a late write by CUPTI
 *    meets memory that is still there (pytorch/pytorch#195207).
 *  - Memory is bounded. At the bound a request is refused, which CUPTI counts as dropped records; where it must not
 *    be refused (before CUDA 12.9 that can crash), the oldest unread buffer is given instead and its records counted.
 *  - After a fork the child touches nothing: the lock may have been held by a thread that the child does not have.
 */

#define _DEFAULT_SOURCE   /* MAP_ANONYMOUS, madvise */
#define _DARWIN_C_SOURCE

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif

enum { KINDS = 256, ARENAS = 16, RESERVE = 8, BEYOND = 256 };
enum { OK = 0, FORKED = -1, NO_MEMORY = -2, TOO_MANY_ARENAS = -3, BAD_ARGUMENT = -4 };

size_t gpuviz_records_count(const uint8_t *bytes, size_t length, const uint32_t *size_of_kind, uint64_t *counts);

typedef enum { FREE, WITH_CUPTI, FILLED, WITH_READER } owner;

typedef struct slot {
    struct slot *next; /* in the list of free or of filled slots */
    uint8_t *bytes;
    size_t valid;
    struct arena *home;
    owner owner;
    bool resident; /* may hold pages */
} slot;

/* A range of address space, cut into slots of one size. Pages come when they are written. */
typedef struct arena {
    uint8_t *bytes;
    size_t slot_bytes;
    size_t count;
    size_t touched; /* slots handed out at least once; those after it are free too */
    slot *slots;
    slot *free;
} arena;

/* What `gpuviz_pool_stats` writes, in this order. */
typedef struct {
    uint64_t with_cupti, filled, with_reader, resident; /* buffers now */
    uint64_t requested, completed, empty;               /* since the pool was opened */
    uint64_t refused, overwritten, overwritten_records, overwritten_bytes, not_ours;
    uint64_t completed_bytes, most_out;
} pool_stats;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int64_t home_process; /* 0 until the pool is first opened */

static arena arenas[ARENAS];
static size_t arena_count;
static arena *current;
static slot *filled_first, *filled_last;
static size_t out, limit; /* of `current`: slots that are not free, and how many may be */
static bool is_open, must_serve;
static uint32_t sizes[KINDS];
static pool_stats stats;

static bool in_home_process(void) {
    return atomic_load(&home_process) == (int64_t)getpid();
}

static void make_free(slot *it) {
    it->owner = FREE;
    it->next = it->home->free;
    it->home->free = it;
    out -= it->home == current;
}

static slot *take_free(void) {
    slot *it = current->free;
    if (it != NULL) {
        current->free = it->next;
    } else if (current->touched < current->count) {
        it = &current->slots[current->touched];
        it->bytes = current->bytes + current->touched * current->slot_bytes;
        it->home = current;
        current->touched++;
    } else {
        return NULL;
    }
    if (!it->resident) {
        it->resident = true;
        stats.resident++;
    }
    out++;
    if (out > stats.most_out) {
        stats.most_out = out;
    }
    return it;
}

static slot *take_filled(void) {
    slot *it = filled_first;
    if (it != NULL) {
        filled_first = it->next;
        if (filled_first == NULL) {
            filled_last = NULL;
        }
        stats.filled--;
    }
    return it;
}

/* Give the oldest unread buffer to CUPTI again; its records are lost, and counted. */
static slot *overwrite_oldest(void) {
    while (filled_first != NULL) {
        slot *it = take_filled();
        if (it->home != current) { /* of an earlier capture, of another size */
            make_free(it);
            continue;
        }
        uint64_t counts[KINDS] = {0};
        gpuviz_records_count(it->bytes, it->valid, sizes, counts);
        for (int kind = 0; kind < KINDS; kind++) {
            stats.overwritten_records += counts[kind];
        }
        stats.overwritten++;
        stats.overwritten_bytes += it->valid;
        return it;
    }
    return NULL;
}

static slot *slot_of(const uint8_t *bytes) {
    const uintptr_t address = (uintptr_t)bytes;
    for (size_t i = 0; i < arena_count; i++) {
        const arena *in = &arenas[i];
        const uintptr_t first = (uintptr_t)in->bytes;
        if (address >= first && address - first < in->touched * in->slot_bytes) {
            return (address - first) % in->slot_bytes == 0 ? &in->slots[(address - first) / in->slot_bytes] : NULL;
        }
    }
    return NULL;
}

/* CUPTI's CUpti_BuffersCallbackRequestFunc. */
void gpuviz_buffer_requested(uint8_t **buffer, size_t *size, size_t *most_records) {
    *buffer = NULL;
    *size = 0;
    *most_records = 0; /* as many as fit */
    if (!in_home_process()) {
        return;
    }
    pthread_mutex_lock(&lock);
    slot *it = NULL;
    stats.requested++;
    if (is_open && out < limit) {
        it = take_free();
    }
    if (it == NULL && must_serve) {
        it = overwrite_oldest();
        if (it == NULL) {
            it = take_free(); /* every buffer is being written: as many threads as buffers */
        }
    }
    if (it != NULL) {
        it->owner = WITH_CUPTI;
        stats.with_cupti++;
        *buffer = it->bytes;
        *size = it->home->slot_bytes;
    } else {
        stats.refused++;
    }
    pthread_mutex_unlock(&lock);
}

/* CUPTI's CUpti_BuffersCallbackCompleteFunc; the first two have been unused since CUDA 6. */
void gpuviz_buffer_completed(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
    (void)context;
    (void)stream;
    (void)size;
    if (buffer == NULL || !in_home_process()) {
        return;
    }
    pthread_mutex_lock(&lock);
    slot *it = slot_of(buffer);
    if (it == NULL || it->owner != WITH_CUPTI) {
        stats.not_ours++;
    } else {
        stats.with_cupti--;
        stats.completed++;
        if (valid == 0) {
            stats.empty++;
            make_free(it);
        } else {
            it->valid = valid < it->home->slot_bytes ? valid : it->home->slot_bytes;
            stats.completed_bytes += it->valid;
            it->owner = FILLED;
            it->next = NULL;
            if (filled_last != NULL) {
                filled_last->next = it;
            } else {
                filled_first = it;
            }
            filled_last = it;
            stats.filled++;
        }
    }
    pthread_mutex_unlock(&lock);
}

/* An arena of `count` slots; the slots' pages come when they are used. */
static int add_arena(size_t slot_bytes, size_t count) {
    if (arena_count == ARENAS) {
        return TOO_MANY_ARENAS;
    }
    if (count > SIZE_MAX / slot_bytes) {
        return NO_MEMORY;
    }
    slot *slots = calloc(count, sizeof *slots);
    void *bytes = mmap(NULL, slot_bytes * count, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (slots == NULL || bytes == MAP_FAILED) {
        free(slots);
        if (bytes != MAP_FAILED) {
            munmap(bytes, slot_bytes * count); /* CUPTI has never seen it */
        }
        return NO_MEMORY;
    }
    arenas[arena_count] = (arena){.bytes = bytes, .slot_bytes = slot_bytes, .count = count, .slots = slots};
    arena_count++;
    return OK;
}

/* The first arena that fits, or a new one. A few slots are always kept beyond the bound: RESERVE for the end of the
 * capture (gpuviz_pool_use_reserve), BEYOND where a request must never be refused. */
static int choose_arena(size_t slot_bytes, size_t most_slots, bool never_refuse) {
    const size_t wanted = most_slots + RESERVE + (never_refuse ? BEYOND : 0);
    for (size_t i = 0; i < arena_count; i++) {
        if (arenas[i].slot_bytes == slot_bytes && arenas[i].count >= wanted) {
            current = &arenas[i];
            return OK;
        }
    }
    const int status = add_arena(slot_bytes, wanted);
    if (status == OK) {
        current = &arenas[arena_count - 1];
    }
    return status;
}

/* Serve buffers from now on, at most `most_slots` of `slot_bytes` each. What an earlier capture has left unread is
 * forgotten; counters start at 0. `size_of_kind`: KINDS elements, to count the records of overwritten buffers. */
int gpuviz_pool_open(size_t slot_bytes, size_t most_slots, int never_refuse, const uint32_t *size_of_kind) {
    int64_t nobody = 0;
    if (!atomic_compare_exchange_strong(&home_process, &nobody, (int64_t)getpid()) && !in_home_process()) {
        return FORKED;
    }
    if (slot_bytes == 0 || slot_bytes % 4096 != 0 || most_slots == 0) {
        return BAD_ARGUMENT; /* whole pages keep every buffer aligned, and let pages be given back */
    }
    pthread_mutex_lock(&lock);
    const int status = choose_arena(slot_bytes, most_slots, never_refuse != 0);
    if (status == OK) {
        must_serve = never_refuse != 0;
        for (slot *it; (it = take_filled()) != NULL;) {
            make_free(it);
        }
        const pool_stats before = stats;
        stats = (pool_stats){.with_cupti = before.with_cupti, .with_reader = before.with_reader,
                             .resident = before.resident};
        out = 0; /* counted anew: the arena may be another one than before */
        for (size_t i = 0; i < current->touched; i++) {
            out += current->slots[i].owner != FREE;
        }
        stats.most_out = out;
        limit = most_slots;
        memcpy(sizes, size_of_kind, sizeof sizes);
        is_open = true;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

/* Let a full pool hand out a few more buffers: the records of the calls that end a capture must fit. */
void gpuviz_pool_use_reserve(void) {
    if (in_home_process()) {
        pthread_mutex_lock(&lock);
        limit += RESERVE;
        pthread_mutex_unlock(&lock);
    }
}

/* Refuse requests from now on; what CUPTI still returns is kept until the next opening. */
void gpuviz_pool_close(void) {
    if (in_home_process()) {
        pthread_mutex_lock(&lock);
        is_open = false;
        pthread_mutex_unlock(&lock);
    }
}

/* The oldest filled buffer and how many of its bytes are valid; NULL where there is none. It is the reader's until
 * gpuviz_pool_release. */
uint8_t *gpuviz_pool_take(size_t *valid) {
    *valid = 0;
    if (!in_home_process()) {
        return NULL;
    }
    pthread_mutex_lock(&lock);
    slot *it = take_filled();
    uint8_t *bytes = NULL;
    if (it != NULL) {
        it->owner = WITH_READER;
        stats.with_reader++;
        bytes = it->bytes;
        *valid = it->valid;
    }
    pthread_mutex_unlock(&lock);
    return bytes;
}

/* Returns OK, or BAD_ARGUMENT for what the reader does not own. */
int gpuviz_pool_release(uint8_t *bytes) {
    if (!in_home_process()) {
        return FORKED;
    }
    pthread_mutex_lock(&lock);
    slot *it = slot_of(bytes);
    const bool owned = it != NULL && it->owner == WITH_READER;
    if (owned) {
        stats.with_reader--;
        make_free(it);
    }
    pthread_mutex_unlock(&lock);
    return owned ? OK : BAD_ARGUMENT;
}

/* Give the pages of free buffers back to the system; their addresses stay. The lock is held for one buffer at a time,
 * and not while the system works, so that CUPTI never waits for it. */
void gpuviz_pool_trim(void) {
    for (size_t i = 0; in_home_process(); i++) {
        pthread_mutex_lock(&lock);
        if (i >= arena_count) {
            pthread_mutex_unlock(&lock);
            return;
        }
        arena *in = &arenas[i];
        slot *all = in->free, *it = all;
        in->free = NULL; /* nobody can be given them meanwhile */
        pthread_mutex_unlock(&lock);
        size_t given = 0;
        slot *last = NULL;
        for (; it != NULL; last = it, it = it->next) {
            if (it->resident && madvise(it->bytes, in->slot_bytes, MADV_DONTNEED) == 0) {
                it->resident = false;
                given++;
            }
        }
        pthread_mutex_lock(&lock);
        if (last != NULL) {
            last->next = in->free;
            in->free = all;
        }
        stats.resident -= given;
        pthread_mutex_unlock(&lock);
    }
}

/* Returns OK, or FORKED in a child. `answer`: as many elements as pool_stats has. */
int gpuviz_pool_stats(uint64_t *answer) {
    if (atomic_load(&home_process) != 0 && !in_home_process()) {
        return FORKED;
    }
    pthread_mutex_lock(&lock);
    memcpy(answer, &stats, sizeof stats);
    pthread_mutex_unlock(&lock);
    return OK;
}

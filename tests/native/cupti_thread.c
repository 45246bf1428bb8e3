/* Copyright The gpuviz authors. Licensed under the Apache License, Version 2.0.
 *
 * A thread that calls the buffer callbacks as CUPTI's worker does, and a wait that can be called with the GIL held.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

typedef void (*request)(uint8_t **, size_t *, size_t *);
typedef void (*complete)(void *, uint32_t, uint8_t *, size_t, size_t);

static request on_request;
static complete on_complete;
static int rounds;
static atomic_int done;

static void *worker(void *unused) {
    (void)unused;
    for (int i = 0; i < rounds; i++) {
        uint8_t *buffer = NULL;
        size_t size = 0, most = 0;
        on_request(&buffer, &size, &most);
        if (buffer != NULL) {
            memset(buffer, 0, 64);
            on_complete(NULL, 0, buffer, size, 0);
        }
    }
    atomic_store(&done, 1);
    return NULL;
}

void start(void *requested, void *completed, int count) {
    pthread_t thread;
    memcpy(&on_request, &requested, sizeof requested);
    memcpy(&on_complete, &completed, sizeof completed);
    rounds = count;
    atomic_store(&done, 0);
    pthread_create(&thread, NULL, worker, NULL);
    pthread_detach(thread);
}

/* Whether the thread has finished within so many milliseconds. */
int finished(int milliseconds) {
    for (int i = 0; i < milliseconds && !atomic_load(&done); i++) {
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    return atomic_load(&done);
}

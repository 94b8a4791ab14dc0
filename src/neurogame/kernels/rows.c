#include "rows.h"

#include <pthread.h>
#include <stdlib.h>

/* The OpenMP runtime that torch has loaded, if it is one: its threads are awake and spinning, and a second pool
 * would fight them for the cores. Weak: where there is none, plain threads do. */
extern void GOMP_parallel(void (*work)(void *), void *data, unsigned threads, unsigned flags) __attribute__((weak));

typedef struct {
    void (*row)(const void *, long, float *);
    const void *job;
    long rows, floats, next;
    int failed;
} Team;

float *neurogame_room(long floats)
{
    const size_t line = 64, bytes = sizeof(float) * (floats > 0 ? floats : 1);
    return aligned_alloc(line, (bytes + line - 1) / line * line);
}

/* One member: takes the next row until there is none. */
static void member(void *argument)
{
    Team *team = argument;
    float *scratch = neurogame_room(team->floats);
    if (!scratch) {
        __atomic_store_n(&team->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    for (;;) {
        const long row = __atomic_fetch_add(&team->next, 1, __ATOMIC_RELAXED);
        if (row >= team->rows) break;
        team->row(team->job, row, scratch);
    }
    free(scratch);
}

static void *member_thread(void *argument)
{
    member(argument);
    return NULL;
}

int neurogame_share(void (*row)(const void *job, long row, float *scratch), const void *job, long rows,
                    long threads, long floats)
{
    Team team = {.row = row, .job = job, .rows = rows, .floats = floats};
    if (threads > rows) threads = rows;
    if (threads <= 1) {
        member(&team);
    } else if (GOMP_parallel) {
        GOMP_parallel(member, &team, (unsigned)threads, 0);
    } else {
        pthread_t *ids = malloc(sizeof(pthread_t) * threads);
        long started = 0;
        while (ids && started < threads - 1 && !pthread_create(&ids[started], NULL, member_thread, &team)) started++;
        member(&team);
        for (long t = 0; t < started; t++) pthread_join(ids[t], NULL);
        free(ids);
    }
    return team.failed;
}

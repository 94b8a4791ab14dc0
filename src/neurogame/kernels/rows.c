#include "rows.h"

#include <pthread.h>
#include <stdlib.h>

typedef struct {
    void (*row)(const void *, long, float *);
    const void *job;
    long first, last, floats;
} Share;

static void *work(void *argument)
{
    Share *p = argument;
    float *scratch = malloc(sizeof(float) * (p->floats > 0 ? p->floats : 1));
    if (!scratch) return (void *)1;
    for (long row = p->first; row < p->last; row++) p->row(p->job, row, scratch);
    free(scratch);
    return NULL;
}

int neurogame_share(void (*row)(const void *job, long row, float *scratch), const void *job, long rows,
                    long threads, long floats)
{
    if (threads > rows) threads = rows;
    if (threads < 1) threads = 1;
    Share *shares = malloc(sizeof(Share) * threads);
    pthread_t *ids = malloc(sizeof(pthread_t) * threads);
    int failed = !shares || !ids;
    long started = 0;
    for (long t = 0; !failed && t < threads; t++) {
        shares[t] = (Share){row, job, rows * t / threads, rows * (t + 1) / threads, floats};
        /* the last share, and any that cannot get a thread, run here */
        if (t == threads - 1 || pthread_create(&ids[started], NULL, work, &shares[t])) {
            failed |= work(&shares[t]) != NULL;
        } else {
            started++;
        }
    }
    for (long t = 0; t < started; t++) {
        void *status = NULL;
        pthread_join(ids[t], &status);
        failed |= status != NULL;
    }
    free(shares);
    free(ids);
    return failed;
}

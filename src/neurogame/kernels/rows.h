/* Rows (one per batch and head) are independent: the threads of a team take them one after the other. */
#ifndef NEUROGAME_ROWS_H
#define NEUROGAME_ROWS_H

/* Room for so many numbers, at the start of a cache line: a vector across two of them takes twice as long. NULL where
 * there is no memory; to be freed. */
float *neurogame_room(long floats);

/* `row` does one row with `scratch`, room for `floats` numbers of its thread's own. 0 on success. */
int neurogame_share(void (*row)(const void *job, long row, float *scratch), const void *job, long rows,
                    long threads, long floats);

#endif

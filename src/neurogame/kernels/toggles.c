/* The marginal contributions of neurogame/marginals.py (`toggle`), for f = identity and without a gradient.
 * float32, row-major, one row per (batch, head); coalitions are shared by the batch: row r uses those of head
 * r % heads. For each coalition C_k (sum S = a + sum_{i in C} V_i, u = ||S||) and token i, s = +1 outside, -1 inside:
 *
 *   step = 2 S.V_i + s ||V_i||^2,   w_i = sqrt(u^2 + s step),   delta_i = step / (w_i + u)
 *
 * A coalition that loses its only member has norm ||a||, by its size and not by arithmetic.
 */
#include <math.h>
#include <string.h>

#include "linear.h"
#include "rows.h"

typedef struct {
    long n, dim, samples, heads;
    const float *V;       /* (n, dim) per row */
    const unsigned char *inside; /* (samples, n) per head: 1 or 0 */
    const float *mask;    /* (n) per row, or NULL */
    const float *anchor;  /* (dim) per row, or NULL */
    float *norm, *delta, *size, *origin; /* (samples), (samples, n), (samples), () per row: out */
    float *toggled, *sign;               /* (samples, n) per row: out, or NULL if nobody wants them */
} Toggle;

static inline float norm_of(float r) { return r <= 0.0f ? 0.0f : sqrtf(r); } /* NaN stays NaN */

static void toggle_tokens(long n, float q, float u, float size, float origin, const unsigned char *restrict inside,
                          const float *restrict mask, const float *restrict A, const float *restrict g,
                          float *restrict w, float *restrict delta, float *restrict sign)
{
    for (long i = 0; i < n; i++) {
        const float s = (1.0f - 2.0f * (float)inside[i]) * mask[i];
        const float step = 2.0f * A[i] + s * g[i];
        const float w_i = size + s == 0.0f ? origin : norm_of(q + s * step);
        const float both = w_i + u, d = step / both;
        sign[i] = s;
        w[i] = w_i;
        delta[i] = both <= 0.0f ? 0.0f : d * mask[i];
    }
}

#define BLOCK 64 /* tokens whose vectors stay in the first-level cache while all coalitions pass over them */

/* Four coalitions from `first` on, token by token: here[i][k] = 1 if token `from` + i is a real member of k. */
static void members(const Toggle *p, const unsigned char *all, const float *mask, long first, long from, long count,
                    float *here)
{
    for (long k = 0; k < 4; k++)
        for (long i = 0; i < count; i++)
            here[4 * i + k] = first + k < p->samples ? (float)all[(first + k) * p->n + from + i] * mask[i] : 0.0f;
}

static void toggle_row(const void *job, long row, float *scratch)
{
    const Toggle *p = job;
    const long n = p->n, dim = p->dim, K = p->samples, groups = (K + 3) / 4;
    const float *V = p->V + row * n * dim, *anchor = p->anchor ? p->anchor + row * dim : NULL;
    const unsigned char *all = p->inside + (row % p->heads) * K * n;
    float *S = scratch, *size = S + 4 * groups * dim, *A = size + 4 * groups, *here = A + 4 * BLOCK;
    float *g = here + 4 * BLOCK, *mask = g + BLOCK, *spare = mask + BLOCK;
    const float origin = anchor ? norm_of(neurogame_dot(anchor, anchor, dim)) : 0.0f;
    p->origin[row] = origin;
    for (long k = 0; k < 4 * groups; k++) {
        size[k] = 0.0f;
        if (anchor) memcpy(S + k * dim, anchor, sizeof(float) * dim);
        else memset(S + k * dim, 0, sizeof(float) * dim);
    }
    for (long from = 0; from < n; from += BLOCK) { /* the sum and the size of every coalition */
        const long count = n - from < BLOCK ? n - from : BLOCK;
        for (long i = 0; i < count; i++) mask[i] = p->mask ? p->mask[row * n + from + i] : 1.0f;
        for (long first = 0; first < K; first += 4) {
            members(p, all, mask, first, from, count, here);
            for (long i = 0; i < count; i++)
                for (long k = 0; k < 4; k++) size[first + k] += here[4 * i + k];
            neurogame_add_transposed4(V + from * dim, count, dim, here, S + first * dim);
        }
    }
    for (long k = 0; k < K; k++) {
        p->norm[row * K + k] = norm_of(neurogame_dot(S + k * dim, S + k * dim, dim));
        p->size[row * K + k] = size[k];
    }
    for (long from = 0; from < n; from += BLOCK) { /* the contribution of every token to every coalition */
        const long count = n - from < BLOCK ? n - from : BLOCK;
        for (long i = 0; i < count; i++) {
            mask[i] = p->mask ? p->mask[row * n + from + i] : 1.0f;
            g[i] = neurogame_dot(V + (from + i) * dim, V + (from + i) * dim, dim);
        }
        for (long first = 0; first < K; first += 4) {
            neurogame_times4(V + from * dim, count, dim, S + first * dim, A);
            for (long k = first; k < K && k < first + 4; k++) {
                const long at = (row * K + k) * n + from;
                const float u = p->norm[row * K + k], q = neurogame_dot(S + k * dim, S + k * dim, dim);
                float *w = p->toggled ? p->toggled + at : spare, *sign = p->sign ? p->sign + at : spare + BLOCK;
                toggle_tokens(count, q, u, size[k], origin, all + k * n + from, mask, A + (k - first) * count, g, w,
                              p->delta + at, sign);
            }
        }
    }
}

int neurogame_toggle(long rows, long heads, long samples, long n, long dim, long masked, long anchored, long lean,
                     long threads, const float *V, const unsigned char *inside, const float *mask,
                     const float *anchor, float *norm, float *delta, float *size, float *origin, float *toggled,
                     float *sign)
{
    Toggle job = {.n = n, .dim = dim, .samples = samples, .heads = heads, .V = V, .inside = inside,
                  .mask = masked ? mask : NULL, .anchor = anchored ? anchor : NULL, .norm = norm, .delta = delta,
                  .size = size, .origin = origin, .toggled = lean ? NULL : toggled, .sign = lean ? NULL : sign};
    return neurogame_share(toggle_row, &job, rows, threads, (samples + 3) * (dim + 1) + 12 * BLOCK);
}

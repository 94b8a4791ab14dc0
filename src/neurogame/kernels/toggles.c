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

static void toggle_row(const void *job, long row, float *scratch)
{
    const Toggle *p = job;
    const long n = p->n, dim = p->dim, K = p->samples;
    const float *V = p->V + row * n * dim;
    const unsigned char *all = p->inside + (row % p->heads) * K * n;
    const float *anchor = p->anchor ? p->anchor + row * dim : NULL;
    float *g = scratch, *A = g + n, *S = A + 4 * n, *mask = S + 4 * dim, *here = mask + n, *spare = here + 4 * n;
    for (long i = 0; i < n; i++) {
        g[i] = neurogame_dot(V + i * dim, V + i * dim, dim);
        mask[i] = p->mask ? p->mask[row * n + i] : 1.0f;
    }
    const float origin = anchor ? norm_of(neurogame_dot(anchor, anchor, dim)) : 0.0f;
    p->origin[row] = origin;
    for (long first = 0; first < K; first += 4) { /* four coalitions share each reading of V */
        const long count = K - first < 4 ? K - first : 4;
        for (long k = 0; k < 4; k++) {
            for (long i = 0; i < n; i++) here[i * 4 + k] = k < count ? all[(first + k) * n + i] * mask[i] : 0.0f;
            if (anchor) memcpy(S + k * dim, anchor, sizeof(float) * dim);
            else memset(S + k * dim, 0, sizeof(float) * dim);
        }
        neurogame_add_transposed4(V, n, dim, here, S);
        neurogame_times4(V, n, dim, S, A);
        for (long k = 0; k < count; k++) {
            const long at = row * K + first + k;
            float size = 0.0f;
            for (long i = 0; i < n; i++) size += here[i * 4 + k];
            const float q = neurogame_dot(S + k * dim, S + k * dim, dim), u = norm_of(q);
            p->norm[at] = u;
            p->size[at] = size;
            float *w = p->toggled ? p->toggled + at * n : spare, *sign = p->sign ? p->sign + at * n : spare + n;
            toggle_tokens(n, q, u, size, origin, all + (first + k) * n, mask, A + k * n, g, w, p->delta + at * n, sign);
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
    return neurogame_share(toggle_row, &job, rows, threads, 12 * n + 4 * dim);
}

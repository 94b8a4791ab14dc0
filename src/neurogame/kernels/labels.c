/* What the players of one text do to each label, from sampled coalitions: `_sampled` of neurogame/readout.py without a
 * gradient. The norm games of many heads with few numbers per player share their coalitions, and only sums over heads,
 * weighted by the readout R, are wanted. So nothing is kept per head, and the loops run over coalitions, of which there
 * are more than numbers per player. float32, row-major; the formulas are those of toggles.c and pairs.c:
 *
 *   delta_i = step / (w_i + u),   step = 2 S.V_i + s ||V_i||^2,   w_i = sqrt(u^2 + s step),   u = ||S||
 *   D_ij    = 2 (G_ij - d_i d_j) / (u_ij + w_i + w_j - u),        u_ij^2 = w_i^2 + w_j^2 - u^2 + 2 s_i s_j G_ij
 *
 * Heads are dealt to PARTS partial sums, whatever the number of threads, so that results do not depend on it.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "linear.h"
#include "rows.h"

#define PARTS 4

typedef struct {
    long heads, labels, samples, n, dim;
    const float *V, *anchor, *R;   /* (heads, n, dim), (heads, dim), (labels, heads) */
    const float *inside, *size;    /* per law: (n, samples), 1 or 0, and (samples) */
    float *phi, *beta, *J;         /* per part: (labels, n, samples) twice, and (labels, n, n): out */
} Labels;

static inline float norm_of(float r) { return r <= 0.0f ? 0.0f : sqrtf(r); } /* NaN stays NaN */

static inline void add_scaled(long count, float x, const float *restrict from, float *restrict to)
{
    for (long k = 0; k < count; k++) to[k] += x * from[k];
}

/* One player in every coalition: A = S.V_i comes in. */
static inline void toggle_player(long K, float g, float origin, const float *restrict A, const float *restrict q,
                                 const float *restrict u, const float *restrict size, const float *restrict inside,
                                 float *restrict w, float *restrict delta, float *restrict sign)
{
    for (long k = 0; k < K; k++) {
        const float s = 1.0f - 2.0f * inside[k], step = 2.0f * A[k] + s * g;
        const float w_k = size[k] + s == 0.0f ? origin : norm_of(q[k] + s * step), both = w_k + u[k], d = step / both;
        w[k] = w_k;
        delta[k] = both <= 0.0f ? 0.0f : d;
        sign[k] = s;
    }
}

/* The sum of D_ij over all coalitions. */
static inline float pair(long K, float G, float origin, const float *restrict u, const float *restrict size,
                         const float *restrict w_i, const float *restrict d_i, const float *restrict s_i,
                         const float *restrict w_j, const float *restrict d_j, const float *restrict s_j)
{
    float sum = 0.0f;
    for (long k = 0; k < K; k++) {
        const float ss = s_i[k] * s_j[k], square = w_i[k] * w_i[k] + w_j[k] * w_j[k] - u[k] * u[k];
        const float root = norm_of(square + 2.0f * ss * G), u_ij = size[k] + s_i[k] + s_j[k] == 0.0f ? origin : root;
        const float both = w_i[k] + w_j[k], total = u_ij + both, D = total - u[k];
        const float stable = 2.0f * (G - d_i[k] * d_j[k]) / D, plain = ss * (u_ij - both + u[k]);
        sum += D > 0.25f * total ? stable : plain;
    }
    return sum;
}

/* The contributions of all players of one head under one law, each (n, samples), added up by label; ||a||. */
static float players(const Labels *p, long h, long law, float *deltas, float *scratch, float *w, float *delta, float *sign)
{
    const long n = p->n, dim = p->dim, K = p->samples;
    const float *V = p->V + h * n * dim, *a = p->anchor + h * dim;
    const float *inside = p->inside + law * n * K, *size = p->size + law * K;
    const float origin = norm_of(neurogame_dot(a, a, dim));
    float *S = scratch, *q = S + dim * K, *A = q + K, *u = A + K; /* u is read again by the pairs */
    for (long d = 0; d < dim; d++)
        for (long k = 0; k < K; k++) S[d * K + k] = a[d];
    for (long i = 0; i < n; i++)
        for (long d = 0; d < dim; d++) add_scaled(K, V[i * dim + d], inside + i * K, S + d * K);
    memset(q, 0, sizeof(float) * K);
    for (long d = 0; d < dim; d++)
        for (long k = 0; k < K; k++) q[k] += S[d * K + k] * S[d * K + k];
    for (long k = 0; k < K; k++) u[k] = norm_of(q[k]);
    for (long i = 0; i < n; i++) {
        const float *V_i = V + i * dim;
        memset(A, 0, sizeof(float) * K);
        for (long d = 0; d < dim; d++) add_scaled(K, V_i[d], S + d * K, A);
        toggle_player(K, neurogame_dot(V_i, V_i, dim), origin, A, q, u, size, inside + i * K, w + i * K, delta + i * K,
                      sign + i * K);
        for (long c = 0; c < p->labels; c++)
            add_scaled(K, p->R[c * p->heads + h], delta + i * K, deltas + (c * n + i) * K);
    }
    return origin;
}

static void labels_part(const void *job, long part, float *scratch)
{
    const Labels *p = job;
    const long n = p->n, dim = p->dim, K = p->samples;
    float *w = scratch, *delta = w + n * K, *sign = delta + n * K, *rest = sign + n * K, *u = rest + (dim + 2) * K;
    float *phi = p->phi + part * p->labels * n * K, *beta = p->beta + part * p->labels * n * K;
    float *J = p->J + part * p->labels * n * n;
    const float *size = p->size + K;
    for (long h = part; h < p->heads; h += PARTS) {
        players(p, h, 0, phi, rest, w, delta, sign);
        const float origin = players(p, h, 1, beta, rest, w, delta, sign), *V = p->V + h * n * dim;
        for (long i = 0; i < n; i++)
            for (long j = i + 1; j < n; j++) {
                const long at = i * K, to = j * K;
                const float sum = pair(K, neurogame_dot(V + i * dim, V + j * dim, dim), origin, u, size, w + at,
                                       delta + at, sign + at, w + to, delta + to, sign + to);
                for (long c = 0; c < p->labels; c++) J[(c * n + i) * n + j] += p->R[c * p->heads + h] * sum / (float)K;
            }
    }
    for (long c = 0; c < p->labels; c++)
        for (long i = 0; i < n; i++)
            for (long j = i + 1; j < n; j++) J[(c * n + j) * n + i] = J[(c * n + i) * n + j];
}

/* `members` is (2, samples, n): the coalitions of Shapley's law, then those of Banzhaf's. What goes out is (PARTS, ...),
 * zeros before, and is added up by the caller. */
int neurogame_labels(long parts, long heads, long labels, long samples, long n, long dim, long threads, const float *V,
                     const float *anchor, const float *R, const unsigned char *members, float *phi, float *beta, float *J)
{
    if (parts != PARTS) return 1;
    float *inside = neurogame_room(2 * samples * (n + 1)), *size = inside + 2 * samples * n;
    if (!inside) return 1;
    memset(size, 0, sizeof(float) * 2 * samples);
    for (long law = 0; law < 2; law++)
        for (long i = 0; i < n; i++)
            for (long k = 0; k < samples; k++) {
                const float in = (float)members[(law * samples + k) * n + i];
                inside[(law * n + i) * samples + k] = in;
                size[law * samples + k] += in;
            }
    Labels job = {.heads = heads, .labels = labels, .samples = samples, .n = n, .dim = dim, .V = V, .anchor = anchor,
                  .R = R, .inside = inside, .size = size, .phi = phi, .beta = beta, .J = J};
    const int failed = neurogame_share(labels_part, &job, PARTS, threads, samples * (3 * n + dim + 3));
    free(inside);
    return failed;
}

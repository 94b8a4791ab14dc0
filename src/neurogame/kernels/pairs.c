/* Pair couplings J_ij = 1/K sum_k D_ij(C_k \ ij) of the norm game, and their gradient: the loops of
 * neurogame/interactions.py (`_PairMean`) with everything in registers and cache. float32, row-major,
 * one row per (batch, head). The formulas are in that file's docstrings; this file adds nothing to them.
 *
 *   u_ij^2 = w_i^2 + w_j^2 - u^2 + 2 s_i s_j G_ij
 *   D_ij   = 2 (G_ij - d_i d_j) / (u_ij + w_i + w_j - u)      where that denominator is not small,
 *            s_i s_j (u_ij - w_i - w_j + u)                    elsewhere
 *
 * A coalition that toggling both tokens empties (size + s_i + s_j = 0) has norm ||a||; that can only
 * happen for sizes up to 2, so larger coalitions skip the test.
 */
#include <math.h>
#include <string.h>

#include "rows.h"

typedef struct {
    long samples, n;
    const float *G, *u, *w, *delta, *origin, *sign, *size; /* inputs, see _Block */
    float *J;                                              /* forward: out */
    const float *grad;                                     /* backward: incoming, divided by K */
    float *g_G, *g_u, *g_w, *g_delta, *g_origin;           /* backward: out */
} Job;

static inline float norm_of(float r) { return r <= 0.0f ? 0.0f : sqrtf(r); } /* NaN stays NaN */

/* J_ij += D_ij for all j > i of one sample; `may_empty` is a constant at each call. */
static inline void forward_pairs(long i, long n, float u, float origin, float size, const int may_empty,
                                 const float *restrict G, const float *restrict w, const float *restrict d,
                                 const float *restrict s, float *restrict J)
{
    const float w_i = w[i], d_i = d[i], s_i = s[i], base = w_i * w_i - u * u, empty_at = -(size + s_i);
    for (long j = i + 1; j < n; j++) {
        const float ss = s_i * s[j], w_j = w[j], root = norm_of(base + w_j * w_j + 2.0f * ss * G[j]);
        const float u_ij = may_empty && s[j] == empty_at ? origin : root;
        const float total = u_ij + w_i + w_j, D = total - u;
        const float stable = 2.0f * (G[j] - d_i * d[j]) / D, plain = ss * (u_ij - w_i - w_j + u);
        J[j] += D > 0.25f * total ? stable : plain;
    }
}

static void forward_row(const void *job, long row, float *scratch)
{
    const Job *p = job;
    (void)scratch;
    const long n = p->n, K = p->samples;
    float *J = p->J + row * n * n;
    memset(J, 0, sizeof(float) * n * n);
    for (long i = 0; i < n; i++)
        for (long k = 0; k < K; k++) {
            const long at = (row * K + k) * n;
            const float *w = p->w + at, *d = p->delta + at, *s = p->sign + at, *G = p->G + (row * n + i) * n;
            const float u = p->u[row * K + k], size = p->size[row * K + k], origin = p->origin[row];
            if (size > 2.0f) {
                forward_pairs(i, n, u, origin, size, 0, G, w, d, s, J + i * n);
            } else {
                forward_pairs(i, n, u, origin, size, 1, G, w, d, s, J + i * n);
            }
        }
    for (long i = 0; i < n; i++)
        for (long j = i + 1; j < n; j++) J[j * n + i] = J[i * n + j] /= (float)K;
}

/* What one (row, sample, token i) shares with every j, and what it collects from them. */
typedef struct {
    float u, w, d, s, origin, empty_at;
    float direct, through, h_d, to_origin;
} Token;

/* All pairs (i, j > i) of one sample; `may_empty` is a constant at each call, so the test costs nothing where
 * the coalition is too large to be emptied. */
static inline void backward_pairs(long first, long n, Token *t, const int may_empty, const float *restrict G,
                                  const float *restrict H, const float *restrict w, const float *restrict d,
                                  const float *restrict s, float *restrict F, float *restrict g_w,
                                  float *restrict g_d)
{
    const float u = t->u, w_i = t->w, d_i = t->d, s_i = t->s, origin = t->origin, empty_at = t->empty_at;
    const float base = w_i * w_i - u * u;
    float sum_direct = 0.0f, sum_through = 0.0f, sum_d = 0.0f, sum_origin = 0.0f;
    for (long j = first; j < n; j++) {
        const float ss = s_i * s[j], w_j = w[j], r = base + w_j * w_j + 2.0f * ss * G[j];
        const float there = may_empty && s[j] == empty_at ? 0.0f : 1.0f; /* somebody is left */
        const float root = norm_of(r), u_ij = may_empty && s[j] == empty_at ? origin : root;
        const float total = u_ij + w_i + w_j, D = total - u;
        const float sigma = D > 0.25f * total ? 1.0f : -1.0f;
        const float two_D = D > 0.25f * total ? 2.0f / D : 0.0f;
        const float c = D > 0.25f * total ? -(G[j] - d_i * d[j]) * two_D / D : ss;
        const float ce = u_ij <= 0.0f ? 0.0f : there * c / u_ij;
        const float direct = H[j] * sigma * c, through = H[j] * ce, h = H[j] * two_D;
        F[j] += two_D + ss * ce;
        g_w[j] += direct + w_j * through;
        g_d[j] -= h * d_i;
        sum_direct += direct;
        sum_through += through;
        sum_d += h * d[j];
        sum_origin += (1.0f - there) * H[j] * c;
    }
    t->direct = sum_direct;
    t->through = sum_through;
    t->h_d = sum_d;
    t->to_origin = sum_origin;
}

static void backward_row(const void *job, long row, float *H)
{
    const Job *p = job;
    const long n = p->n, K = p->samples;
    const float *G = p->G + row * n * n, *grad = p->grad + row * n * n, origin = p->origin[row];
    float *g_G = p->g_G + row * n * n, g_origin = 0.0f;
    memset(g_G, 0, sizeof(float) * n * n);
    memset(p->g_w + row * K * n, 0, sizeof(float) * K * n);
    memset(p->g_delta + row * K * n, 0, sizeof(float) * K * n);
    memset(p->g_u + row * K, 0, sizeof(float) * K);
    for (long i = 0; i < n; i++) {
        float *F_i = g_G + i * n; /* sum_k of dD_ij/dG_ij, multiplied by the gradient at the end */
        for (long j = i + 1; j < n; j++) H[j] = grad[i * n + j] + grad[j * n + i];
        for (long k = 0; k < K; k++) {
            const long at = (row * K + k) * n;
            const float *w = p->w + at, *d = p->delta + at, *s = p->sign + at, size = p->size[row * K + k];
            Token t = {.u = p->u[row * K + k], .w = w[i], .d = d[i], .s = s[i], .origin = origin,
                       .empty_at = -(size + s[i])};
            if (size > 2.0f) {
                backward_pairs(i + 1, n, &t, 0, G + i * n, H, w, d, s, F_i, p->g_w + at, p->g_delta + at);
            } else {
                backward_pairs(i + 1, n, &t, 1, G + i * n, H, w, d, s, F_i, p->g_w + at, p->g_delta + at);
            }
            p->g_w[at + i] += t.direct + t.w * t.through;
            p->g_delta[at + i] -= t.h_d;
            p->g_u[row * K + k] -= t.direct + t.u * t.through;
            g_origin += t.to_origin;
        }
    }
    for (long i = 0; i < n; i++)
        for (long j = i + 1; j < n; j++) {
            const float F = g_G[i * n + j];
            g_G[i * n + j] = F * grad[i * n + j];
            g_G[j * n + i] = F * grad[j * n + i];
        }
    p->g_origin[row] = g_origin;
}

int neurogame_pairs_forward(long rows, long samples, long n, long threads, const float *G, const float *u,
                            const float *w, const float *delta, const float *origin, const float *sign,
                            const float *size, float *J)
{
    Job job = {.samples = samples, .n = n, .G = G, .u = u, .w = w, .delta = delta, .origin = origin,
               .sign = sign, .size = size, .J = J};
    return neurogame_share(forward_row, &job, rows, threads, 0);
}

int neurogame_pairs_backward(long rows, long samples, long n, long threads, const float *G, const float *u,
                             const float *w, const float *delta, const float *origin, const float *sign,
                             const float *size, const float *grad, float *g_G, float *g_u, float *g_w,
                             float *g_delta, float *g_origin)
{
    Job job = {.samples = samples, .n = n, .G = G, .u = u, .w = w, .delta = delta, .origin = origin,
               .sign = sign, .size = size, .grad = grad, .g_G = g_G, .g_u = g_u, .g_w = g_w,
               .g_delta = g_delta, .g_origin = g_origin};
    return neurogame_share(backward_row, &job, rows, threads, n);
}

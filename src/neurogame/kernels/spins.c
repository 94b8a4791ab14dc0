/* The mean-field iteration and the power iteration of neurogame/ising.py, row by row in cache: each row stops
 * when it has converged, and its couplings are read from memory once. float32, row-major, one row per
 * (batch, head). Couplings are a matrix (J), or the factors of LinearCoupling:
 *
 *   J x = scale V (V^T x) - delta^T (weight (delta x)) - diag x
 */
#include <math.h>
#include <string.h>

#include "linear.h"
#include "rows.h"

typedef struct {
    long n, dim, samples;
    const float *J;                                  /* (rows, n, n), or NULL for the factors: */
    const float *V, *scale, *delta, *weight, *diag;  /* (n, dim), (), (samples, n), (samples), (n) per row */
} Coupling;

typedef struct {
    Coupling coupling;
    const float *field, *gamma, *mask; /* (n), (), (n) or NULL, per row */
    float damping, tol;
    long max_iter;
    float *spins, *residual, *iterations; /* out */
} Solve;

typedef struct {
    Coupling coupling;
    long probes, steps;
    const float *start; /* (probes, n) per row */
    float *norms, *iterates;       /* (steps) per row, out */
} Power;

/* y = J x for one row; `scratch` has room for dim + samples numbers. */
static void product(const Coupling *c, long row, const float *x, float *y, float *scratch)
{
    const long n = c->n, dim = c->dim, K = c->samples;
    if (c->J) {
        neurogame_times(c->J + row * n * n, n, n, x, y);
        return;
    }
    const float *V = c->V + row * n * dim, *delta = c->delta + row * K * n, *diag = c->diag + row * n;
    float *in_V = scratch, *in_delta = scratch + dim; /* x seen from the two factors */
    memset(in_V, 0, sizeof(float) * dim);
    neurogame_add_transposed(V, n, dim, x, in_V);
    for (long j = 0; j < dim; j++) in_V[j] *= c->scale[row];
    neurogame_times(delta, K, n, x, in_delta);
    for (long k = 0; k < K; k++) in_delta[k] *= -c->weight[row * K + k];
    neurogame_times(V, n, dim, in_V, y);
    for (long i = 0; i < n; i++) y[i] -= diag[i] * x[i];
    neurogame_add_transposed(delta, K, n, in_delta, y);
}

/* The same for four vectors at once: x and y are (4, n); `scratch` has room for 4 n + 4 dim + 8 samples numbers. */
static void product4(const Coupling *c, long row, const float *x, float *y, float *scratch)
{
    const long n = c->n, dim = c->dim, K = c->samples;
    if (c->J) {
        neurogame_times4(c->J + row * n * n, n, n, x, y);
        return;
    }
    const float *V = c->V + row * n * dim, *delta = c->delta + row * K * n, *diag = c->diag + row * n;
    float *by_token = scratch, *in_V = by_token + 4 * n, *in_delta = in_V + 4 * dim, *by_sample = in_delta + 4 * K;
    for (long i = 0; i < n; i++)
        for (long k = 0; k < 4; k++) by_token[4 * i + k] = x[k * n + i];
    memset(in_V, 0, sizeof(float) * 4 * dim);
    neurogame_add_transposed4(V, n, dim, by_token, in_V);
    for (long j = 0; j < 4 * dim; j++) in_V[j] *= c->scale[row];
    neurogame_times4(delta, K, n, x, in_delta);
    for (long k = 0; k < K; k++)
        for (long j = 0; j < 4; j++) by_sample[4 * k + j] = -c->weight[row * K + k] * in_delta[j * K + k];
    neurogame_times4(V, n, dim, in_V, y);
    for (long k = 0; k < 4; k++)
        for (long i = 0; i < n; i++) y[k * n + i] -= diag[i] * x[k * n + i];
    neurogame_add_transposed4(delta, K, n, by_sample, y);
}

/* exp(x) for x <= 0, to a few ulp: 2^q times a polynomial of degree 6 on [-ln2/2, ln2/2]; vectorises. */
static inline float exp_negative(float x)
{
    x = x < -87.0f ? -87.0f : x; /* NaN stays NaN */
    const float q = rintf(x * 1.44269504f);
    const float r = (x - q * 0.693359375f) + q * 2.12194440e-4f;
    float p = 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    union {
        int bits;
        float value;
    } power = {((int)q + 127) << 23};
    return p * power.value;
}

static inline float tanh_of(float x)
{
    const float e = exp_negative(-2.0f * fabsf(x));
    return copysignf((1.0f - e) / (1.0f + e), x);
}

static void solve_row(const void *job, long row, float *scratch)
{
    const Solve *p = job;
    const long n = p->coupling.n;
    const float *field = p->field + row * n, *mask = p->mask ? p->mask + row * n : NULL;
    const float beta = 1.0f / p->gamma[row];
    float *restrict s = p->spins + row * n, *restrict h = scratch, *work = scratch + n, residual;
    long t = 0;
    memset(s, 0, sizeof(float) * n);
    memset(h, 0, sizeof(float) * n); /* J s at s = 0 */
    for (;;) {
        for (long i = 0; i < n; i++) h[i] = tanh_of((field[i] + h[i]) * beta);
        if (mask)
            for (long i = 0; i < n; i++) h[i] *= mask[i];
        float largest = 0.0f, poison = 0.0f; /* a maximum forgets NaN, a sum of 0·x does not */
        for (long i = 0; i < n; i++) {
            const float change = fabsf(h[i] - s[i]);
            largest = change > largest ? change : largest;
            poison += 0.0f * change;
        }
        residual = largest + poison;
        if (!(residual >= p->tol) || t == p->max_iter) break;
        for (long i = 0; i < n; i++) s[i] += p->damping * (h[i] - s[i]);
        t++;
        product(&p->coupling, row, s, h, work);
    }
    p->residual[row] = residual;
    p->iterations[row] = (float)t;
}

static void power_row(const void *job, long row, float *scratch)
{
    const Power *p = job;
    const long n = p->coupling.n, all = p->probes * n;
    float *x = scratch, *y = scratch + all, *work = scratch + 2 * all;
    memcpy(x, p->start + row * all, sizeof(float) * all);
    float square = neurogame_dot(x, x, all);
    for (long t = 0; t < p->steps; t++) {
        const float inverse = square <= 0.0f ? 0.0f : 1.0f / sqrtf(square);
        for (long i = 0; i < all; i++) x[i] *= inverse;
        if (p->iterates) memcpy(p->iterates + (row * p->steps + t) * all, x, sizeof(float) * all);
        if (p->probes == 4) product4(&p->coupling, row, x, y, work);
        else
            for (long j = 0; j < p->probes; j++) product(&p->coupling, row, x + j * n, y + j * n, work);
        square = neurogame_dot(y, y, all);
        p->norms[row * p->steps + t] = square <= 0.0f ? 0.0f : sqrtf(square);
        float *swap = x;
        x = y;
        y = swap;
    }
}

static Coupling coupling_of(long n, long dim, long samples, const float *const *factors)
{
    if (samples < 0) return (Coupling){.n = n, .J = factors[0]};
    return (Coupling){.n = n, .dim = dim, .samples = samples, .V = factors[0], .scale = factors[1],
                      .delta = factors[2], .weight = factors[3], .diag = factors[4]};
}

/* `samples` < 0: the first factor is the matrix J, the others are not read. `options`: damping, tol. */
int neurogame_solve(long rows, long n, long dim, long samples, long max_iter, long masked, long threads,
                    const float *V, const float *scale, const float *delta, const float *weight, const float *diag,
                    const float *field, const float *gamma, const float *mask, const float *options, float *spins,
                    float *residual, float *iterations)
{
    const float *factors[] = {V, scale, delta, weight, diag};
    Solve job = {.coupling = coupling_of(n, dim, samples, factors), .field = field, .gamma = gamma,
                 .mask = masked ? mask : NULL, .damping = options[0], .tol = options[1], .max_iter = max_iter,
                 .spins = spins, .residual = residual, .iterations = iterations};
    return neurogame_share(solve_row, &job, rows, threads, n + dim + (samples > 0 ? samples : 0));
}

int neurogame_power(long rows, long n, long dim, long samples, long probes, long steps, long keep, long threads,
                    const float *V, const float *scale, const float *delta, const float *weight, const float *diag,
                    const float *start, float *norms, float *iterates)
{
    const float *factors[] = {V, scale, delta, weight, diag};
    Power job = {.coupling = coupling_of(n, dim, samples, factors), .probes = probes, .steps = steps,
                 .start = start, .norms = norms, .iterates = keep ? iterates : NULL};
    return neurogame_share(power_row, &job, rows, threads, (2 * probes + 4) * n + 4 * dim + (samples > 0 ? 8 * samples : 0));
}

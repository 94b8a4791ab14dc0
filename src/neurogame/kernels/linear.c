#include "linear.h"

#define TILE 16 /* columns of A whose four sums stay in registers */

float neurogame_dot(const float *a, const float *b, long n)
{
    float sum = 0.0f;
    for (long i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* Four rows at a time: four independent sums keep the multipliers busy. */
void neurogame_times(const float *restrict A, long rows, long width, const float *restrict x, float *restrict y)
{
    long i = 0;
    for (; i + 4 <= rows; i += 4) {
        const float *a = A + i * width, *b = a + width, *c = b + width, *d = c + width;
        float sum_a = 0.0f, sum_b = 0.0f, sum_c = 0.0f, sum_d = 0.0f;
        for (long j = 0; j < width; j++) {
            sum_a += a[j] * x[j];
            sum_b += b[j] * x[j];
            sum_c += c[j] * x[j];
            sum_d += d[j] * x[j];
        }
        y[i] = sum_a;
        y[i + 1] = sum_b;
        y[i + 2] = sum_c;
        y[i + 3] = sum_d;
    }
    for (; i < rows; i++) y[i] = neurogame_dot(A + i * width, x, width);
}

/* Four rows at a time: y is read and written once for four. */
void neurogame_add_transposed(const float *restrict A, long rows, long width, const float *restrict x,
                              float *restrict y)
{
    long i = 0;
    for (; i + 4 <= rows; i += 4) {
        const float *a = A + i * width, *b = a + width, *c = b + width, *d = c + width;
        const float x_a = x[i], x_b = x[i + 1], x_c = x[i + 2], x_d = x[i + 3];
        for (long j = 0; j < width; j++) y[j] += x_a * a[j] + x_b * b[j] + x_c * c[j] + x_d * d[j];
    }
    for (; i < rows; i++)
        for (long j = 0; j < width; j++) y[j] += x[i] * A[i * width + j];
}

void neurogame_times4(const float *restrict A, long rows, long width, const float *restrict x, float *restrict y)
{
    const float *x0 = x, *x1 = x + width, *x2 = x + 2 * width, *x3 = x + 3 * width;
    for (long i = 0; i < rows; i++) {
        const float *a = A + i * width;
        float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
        for (long j = 0; j < width; j++) {
            s0 += a[j] * x0[j];
            s1 += a[j] * x1[j];
            s2 += a[j] * x2[j];
            s3 += a[j] * x3[j];
        }
        y[i] = s0;
        y[rows + i] = s1;
        y[2 * rows + i] = s2;
        y[3 * rows + i] = s3;
    }
}

void neurogame_add_transposed4(const float *restrict A, long rows, long width, const float *restrict x,
                               float *restrict y)
{
    long j = 0;
    for (; j + TILE <= width; j += TILE) {
        float s0[TILE] = {0}, s1[TILE] = {0}, s2[TILE] = {0}, s3[TILE] = {0};
        for (long i = 0; i < rows; i++) {
            const float *a = A + i * width + j, *c = x + 4 * i;
            for (int t = 0; t < TILE; t++) s0[t] += c[0] * a[t];
            for (int t = 0; t < TILE; t++) s1[t] += c[1] * a[t];
            for (int t = 0; t < TILE; t++) s2[t] += c[2] * a[t];
            for (int t = 0; t < TILE; t++) s3[t] += c[3] * a[t];
        }
        for (int t = 0; t < TILE; t++) {
            y[j + t] += s0[t];
            y[width + j + t] += s1[t];
            y[2 * width + j + t] += s2[t];
            y[3 * width + j + t] += s3[t];
        }
    }
    for (; j < width; j++)
        for (long i = 0; i < rows; i++)
            for (int k = 0; k < 4; k++) y[k * width + j] += x[4 * i + k] * A[i * width + j];
}

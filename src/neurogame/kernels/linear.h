/* Products of a row-major matrix with one vector or four, arranged so that the compiler keeps sums in registers. */
#ifndef NEUROGAME_LINEAR_H
#define NEUROGAME_LINEAR_H

float neurogame_dot(const float *a, const float *b, long n);

/* y = A x */
void neurogame_times(const float *A, long rows, long width, const float *x, float *y);

/* y += A^T x */
void neurogame_add_transposed(const float *A, long rows, long width, const float *x, float *y);

/* y[k][i] = sum_j A[i][j] x[k][j], k < 4: x is (4, width), y is (4, rows) */
void neurogame_times4(const float *A, long rows, long width, const float *x, float *y);

/* y[k][j] += sum_i A[i][j] x[i][k], k < 4: x is (rows, 4), y is (4, width) */
void neurogame_add_transposed4(const float *A, long rows, long width, const float *x, float *y);

#endif

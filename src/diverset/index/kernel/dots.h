/* Inner products of float32 vectors in float64. */
#pragma once
#include <stdint.h>
#include <string.h>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

/* The many independent sums let the compiler use vectors. */
static double dot(const float *a, const float *b, int64_t dim) {
    enum { PARALLEL = 32 };
    double sums[PARALLEL] = {0}, total = 0;
    int64_t n = 0;
    for (; n + PARALLEL <= dim; n += PARALLEL)
        for (int m = 0; m < PARALLEL; m++) sums[m] += (double)a[n + m] * (double)b[n + m];
    for (; n < dim; n++) total += (double)a[n] * (double)b[n];
    for (int half = PARALLEL / 2; half; half /= 2)
        for (int m = 0; m < half; m++) sums[m] += sums[m + half];
    return total + sums[0];
}

enum { WIDE = 8, ROWS = 4, COLUMNS = 4 };
typedef float Floats __attribute__((vector_size(4 * WIDE)));
typedef double Doubles __attribute__((vector_size(8 * WIDE)));

static inline Doubles widen(const float *numbers) {
#ifdef __AVX512F__
    return (Doubles)_mm512_cvtps_pd(_mm256_loadu_ps(numbers)); /* gcc 12 converts in halves */
#else
    Floats values;
    memcpy(&values, numbers, sizeof values);
    return __builtin_convertvector(values, Doubles);
#endif
}

/* Inner products of four by four vectors: out[row * stride + column]. */
static void dot_fours(const float *rows, const float *columns, int64_t dim, double *out,
                      int64_t stride) {
    Doubles sums[ROWS][COLUMNS] = {0};
    for (int64_t n = 0; n + WIDE <= dim; n += WIDE) {
        Doubles a[ROWS], b[COLUMNS];
        for (int m = 0; m < 4; m++) {
            a[m] = widen(rows + m * dim + n);
            b[m] = widen(columns + m * dim + n);
        }
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < COLUMNS; j++) sums[i][j] += a[i] * b[j];
    }
    const int64_t rest = dim / WIDE * WIDE;
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++) {
            double total = dot(rows + i * dim + rest, columns + j * dim + rest, dim - rest);
            for (int m = 0; m < WIDE; m++) total += sums[i][j][m];
            out[i * stride + j] = total;
        }
}

/* Inner products of all vectors of two sets: out[row][column]. */
static void multiply_sets(const float *rows, int64_t row_count, const float *columns,
                          int64_t column_count, int64_t dim, double *out) {
    for (int64_t i = 0; i < row_count; i += ROWS)
        for (int64_t j = 0; j < column_count; j += COLUMNS) {
            if (i + ROWS <= row_count && j + COLUMNS <= column_count) {
                dot_fours(rows + i * dim, columns + j * dim, dim, out + i * column_count + j,
                          column_count);
                continue;
            }
            for (int64_t n = i; n < i + ROWS && n < row_count; n++)
                for (int64_t m = j; m < j + COLUMNS && m < column_count; m++)
                    out[n * column_count + m] = dot(rows + n * dim, columns + m * dim, dim);
        }
}

/* What smooth-Chamfer (Eq. 6) adds to Chamfer, in float32. */
#pragma once
#include <math.h>
#include <stdint.h>

#include "products.h"

enum { LOGS = 8 }; /* sums that share a logarithm */

/* e^x for x <= 0; relative error below 1e-6. */
static INLINE Vector exp_negative(Vector x) {
    const Vector lowest = (Vector){0} - 87.0f;
    const float shift = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    Integers small = x < lowest;
    x = (Vector)(((Integers)x & ~small) | ((Integers)lowest & small));
    Vector t = x * 1.44269504f, rounded = t + shift, f = t - (rounded - shift);
    Vector p = 1.0f + f * (0.693147181f + f * (0.240226507f + f * (0.0555041087f +
               f * (0.00961812911f + f * (0.00133335581f + f * 0.000154035304f)))));
    return (Vector)((Integers)p + ((Integers)rounded << 23));
}

static INLINE Vector larger_of(Vector a, Vector b) {
    Integers mask = a > b;
    return (Vector)(((Integers)a & mask) | ((Integers)b & ~mask));
}

#ifdef __clang__
#define LANES_OF(a, ...) __builtin_shufflevector(a, a, __VA_ARGS__)
#else
#define LANES_OF(a, ...) __builtin_shuffle(a, (Integers){__VA_ARGS__})
#endif
#define IN_PAIRS(a) LANES_OF(a, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14)
#define IN_QUADS(a) LANES_OF(a, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13)
#define BY_QUADS(a) LANES_OF(a, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11)
#define BY_HALVES(a) LANES_OF(a, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7)

/* The product over j of sum_i e^(c_ij - max_i) and over i of sum_j e^(c_ij - max_j), four by four. */
static INLINE float smoothing_of_fours(Vector pairs) {
    Vector most = larger_of(pairs, IN_PAIRS(pairs)), nearest = larger_of(pairs, BY_QUADS(pairs));
    Vector by_column = exp_negative(pairs - larger_of(most, IN_QUADS(most)));
    Vector by_row = exp_negative(pairs - larger_of(nearest, BY_HALVES(nearest)));
    by_column += IN_PAIRS(by_column);
    by_row += BY_QUADS(by_row);
    Vector sums = (by_column + IN_QUADS(by_column)) * (by_row + BY_HALVES(by_row));
    return sums[0] * sums[5] * sums[10] * sums[15]; /* each sum is from 1 to 4 */
}

/* sum over rows of log sum over columns of e^(pair - largest of the row). `memory` (columns). */
static float sum_of_logs(const float *pairs, int64_t rows, int64_t row_stride, int64_t columns,
                         int64_t column_stride, Vector *memory) {
    float product = 1, logs = 0, *exponents = (float *)memory;
    for (int64_t i = 0; i < rows; i++) {
        const float *row = pairs + i * row_stride;
        float largest = row[0], sum = 0;
        for (int64_t j = 1; j < columns; j++) largest = fmaxf(largest, row[j * column_stride]);
        for (int64_t j = 0; j < columns; j++) exponents[j] = row[j * column_stride] - largest;
        for (int64_t n = 0; n * LANES < columns; n++) memory[n] = exp_negative(memory[n]);
        for (int64_t j = 0; j < columns; j++) sum += exponents[j];
        product *= sum; /* sums are from 1 to the number of columns */
        if (i % LOGS == LOGS - 1 || i == rows - 1) {
            logs += logf(product);
            product = 1;
        }
    }
    return logs;
}

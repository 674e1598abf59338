/* Sums of exponentials and of logarithms in float32, for smooth-Chamfer (Eq. 6). */
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

static INLINE void exp_all(Vector *values, int64_t count) {
    for (int64_t n = 0; n * LANES < count; n++) values[n] = exp_negative(values[n]);
}

/* log(sum) of sums from 1 to `count`, added up; one logarithm for several sums. */
typedef struct {
    float product, logs;
    int factors;
} Logs;

static inline void add_log(Logs *logs, float sum) {
    logs->product *= sum;
    if (++logs->factors == LOGS) {
        logs->logs += logf(logs->product);
        logs->product = 1;
        logs->factors = 0;
    }
}

static inline float sum_of_logs(const Logs *logs) { return logs->logs + logf(logs->product); }

/* Vectors of gcc and clang, which become whatever registers the processor has. */
#pragma once
#include <stdint.h>
#include <string.h>

typedef float Vector __attribute__((vector_size(64)));
typedef int32_t Integers __attribute__((vector_size(64)));
typedef uint16_t Halves __attribute__((vector_size(32)));
enum { LANES = sizeof(Vector) / sizeof(float) };

#define INLINE inline __attribute__((always_inline))

/* 2^t for |t| < 126; relative error below 2e-7. */
static INLINE Vector power_of_two(Vector t) {
    const float shift = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    Vector rounded = t + shift, f = t - (rounded - shift);
    Vector p = 1.0f + f * (0.693147181f + f * (0.240226507f + f * (0.0555041087f +
               f * (0.00961812911f + f * (0.00133335581f + f * 0.000154035304f)))));
    return (Vector)((Integers)p + ((Integers)rounded << 23));
}

/* ln x for normal x > 0: the exponent, and a series of the mantissa between sqrt(1/2) and sqrt(2). */
static INLINE Vector logarithm(Vector x) {
    Integers exponent = ((Integers)x - 0x3f3504f3) >> 23;
    Vector f = (Vector)((Integers)x - (exponent << 23)) - 1.0f, s = f / (2.0f + f), z = s * s;
    Vector series = s * (2.0f + z * (0.666666667f + z * (0.4f + z * (0.285714286f + z * 0.222222222f))));
    return __builtin_convertvector(exponent, Vector) * 0.693147181f + series;
}

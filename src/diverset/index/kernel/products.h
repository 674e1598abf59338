/* Vectors, and inner products of 8-bit codes. */
#pragma once
#include <stdint.h>
#include <string.h>

#ifdef __AVX512VNNI__
#include <immintrin.h>
#endif

enum {
    ALIGN = 64, /* dimensions of a query are padded to a multiple of this */
    GROUP = 4,  /* query elements that are multiplied together; their number is padded */
};

/* Vectors of gcc and clang, which become whatever registers the processor has. */
typedef float Vector __attribute__((vector_size(64)));
typedef int32_t Integers __attribute__((vector_size(64)));
typedef int32_t Quad __attribute__((vector_size(16)));
enum { LANES = sizeof(Vector) / sizeof(float) };

#define INLINE inline __attribute__((always_inline))

static inline int64_t padded(int64_t value, int64_t unit) {
    return (value + unit - 1) / unit * unit;
}

#ifdef __AVX512VNNI__
/* Add products of 64 codes with those of `GROUP` query elements. The instruction multiplies
 * unsigned by signed numbers, so it takes the codes plus 128; `offsets` corrects that. */
static INLINE void multiply_vector(__m512i codes, const int8_t *query, int64_t width,
                                   __m512i sums[GROUP]) {
    codes = _mm512_xor_si512(codes, _mm512_set1_epi8((char)0x80));
    for (int n = 0; n < GROUP; n++)
        sums[n] = _mm512_dpbusd_epi32(sums[n], codes, _mm512_loadu_si512(query + n * width));
}

static INLINE __m512i add_pairs(__m512i a, __m512i b) {
    return _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
}

/* The sum of all lanes of each of four vectors. */
static INLINE __m128i add_lanes(const __m512i sums[GROUP]) {
    __m512i ab = add_pairs(sums[0], sums[1]), cd = add_pairs(sums[2], sums[3]);
    __m512i abcd = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
    __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(abcd),
                                    _mm512_extracti64x4_epi64(abcd, 1));
    return _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}
#endif

static INLINE Quad larger(Quad a, Quad b) {
    Quad mask = a > b;
    return (a & mask) | (b & ~mask);
}

static INLINE int32_t largest_of(Quad a) {
    a = larger(a, (Quad){a[2], a[3], a[0], a[1]});
    return a[0] > a[1] ? a[0] : a[1];
}

/* Inner products of one vector of codes with all elements of a query. */
static INLINE void multiply(const int8_t *restrict codes, const int8_t *restrict query,
                     const int32_t *restrict offsets, int64_t rows, int64_t dim, int64_t width,
                     Quad *restrict out) {
#ifdef __AVX512VNNI__
    const int64_t whole = dim / ALIGN * ALIGN;
    const __mmask64 rest = (1ULL << (dim - whole)) - 1;
    for (int64_t row = 0; row < rows; row += GROUP, query += GROUP * width) {
        __m512i sums[GROUP] = {_mm512_setzero_si512(), _mm512_setzero_si512(),
                               _mm512_setzero_si512(), _mm512_setzero_si512()};
#pragma GCC unroll 4
        for (int64_t n = 0; n < whole; n += ALIGN)
            multiply_vector(_mm512_loadu_si512(codes + n), query + n, width, sums);
        if (rest)
            multiply_vector(_mm512_maskz_loadu_epi8(rest, codes + whole), query + whole, width,
                            sums);
        __m128i total = _mm_sub_epi32(add_lanes(sums), _mm_loadu_si128((const void *)(offsets + row)));
        out[row / GROUP] = (Quad)total;
    }
#else
    (void)offsets;
    for (int64_t row = 0; row < rows; row++, query += width) {
        int32_t sum = 0;
        for (int64_t n = 0; n < dim; n++) sum += (int32_t)codes[n] * query[n];
        out[row / GROUP][row % GROUP] = sum;
    }
#endif
}

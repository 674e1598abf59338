/* Vectors, and inner products of 8-bit codes. */
#pragma once
#include <stdint.h>
#include <string.h>

#ifdef __SSE4_1__
#include <immintrin.h>
#endif

enum {
    ALIGN = 64, /* dimensions of a query are padded to a multiple of this */
    GROUP = 4,  /* query elements that are multiplied together; their number is padded */
    LINE = 64,  /* bytes that are fetched together */
    AHEAD = 32, /* vectors whose codes are fetched before they are needed */
};

/* Vectors of gcc and clang, which become whatever registers the processor has. */
typedef float Vector __attribute__((vector_size(64)));
typedef int32_t Integers __attribute__((vector_size(64)));
typedef int32_t Quad __attribute__((vector_size(16)));
enum { LANES = sizeof(Vector) / sizeof(float) };

#define INLINE inline __attribute__((always_inline))
#ifdef __clang__
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (Quad){__VA_ARGS__})
#endif

static inline int64_t padded(int64_t value, int64_t unit) {
    return (value + unit - 1) / unit * unit;
}

#ifdef __AVX512VNNI__
/* The instruction multiplies unsigned by signed numbers, so it takes codes plus 128; `offsets`
 * corrects that. */
static INLINE __m512i unsigned_codes(__m512i codes) {
    return _mm512_xor_si512(codes, _mm512_set1_epi8((char)0x80));
}

/* As an instruction: gcc 12 copies most registers in a loop over `_mm512_dpbusd_epi32`. */
static INLINE __m512i add_products(__m512i sum, __m512i codes, __m512i query) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(codes), "v"(query));
    return sum;
}

static INLINE __m512i add_pairs(__m512i a, __m512i b) {
    return _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
}

/* In each quarter of the result, one number per vector: the sum of that quarter of it. */
static INLINE __m512i add_quarters(const __m512i sums[GROUP]) {
    __m512i ab = add_pairs(sums[0], sums[1]), cd = add_pairs(sums[2], sums[3]);
    return _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
}

static INLINE __m512i add_halves(__m512i a, __m512i b) {
    return _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd));
}

/* Add products of 64 codes of `GROUP` vectors with those of `GROUP` query elements. */
static INLINE void multiply_lines(const __m512i lines[GROUP], const int8_t *query, int64_t width,
                                  __m512i sums[GROUP * GROUP]) {
    __m512i elements[GROUP];
#pragma GCC unroll 4
    for (int i = 0; i < GROUP; i++) elements[i] = _mm512_loadu_si512(query + i * width);
#pragma GCC unroll 4
    for (int j = 0; j < GROUP; j++) {
        __m512i line = unsigned_codes(lines[j]);
#pragma GCC unroll 4
        for (int i = 0; i < GROUP; i++)
            sums[j * GROUP + i] = add_products(sums[j * GROUP + i], line, elements[i]);
    }
}
#endif

#if defined(__AVX2__) && !defined(__AVX512VNNI__)
static INLINE __m256i widen_codes(const int8_t *codes) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)codes));
}

/* The sum of all lanes of each of four vectors. */
static INLINE Quad add_lanes(const __m256i sums[GROUP]) {
    __m256i four = _mm256_hadd_epi32(_mm256_hadd_epi32(sums[0], sums[1]),
                                     _mm256_hadd_epi32(sums[2], sums[3]));
    return (Quad)_mm_add_epi32(_mm256_castsi256_si128(four), _mm256_extracti128_si256(four, 1));
}

/* Inner products of two vectors of codes with `GROUP` query elements, up to a multiple of 16
 * dimensions; more vectors would need more registers than there are. */
static INLINE void multiply_two(const int8_t *const codes[2], const int8_t *query, int64_t whole,
                                int64_t width, Quad out[2]) {
    __m256i a[GROUP], b[GROUP];
    for (int i = 0; i < GROUP; i++) a[i] = b[i] = _mm256_setzero_si256();
    for (int64_t n = 0; n < whole; n += 16) {
        __m256i x = widen_codes(codes[0] + n), y = widen_codes(codes[1] + n);
        for (int i = 0; i < GROUP; i++) {
            __m256i element = widen_codes(query + i * width + n);
            a[i] = _mm256_add_epi32(a[i], _mm256_madd_epi16(x, element));
            b[i] = _mm256_add_epi32(b[i], _mm256_madd_epi16(y, element));
        }
    }
    out[0] = add_lanes(a);
    out[1] = add_lanes(b);
}
#endif

/* Inner products of `GROUP` vectors of codes with `GROUP` query elements: out[vector][element].
 * The vectors `AHEAD` places later in the list are fetched meanwhile. */
static INLINE void multiply(const int8_t *const codes[GROUP], const int8_t *restrict query,
                            const int32_t *restrict offsets, int64_t dim, int64_t width,
                            Quad out[GROUP]) {
#ifdef __AVX512VNNI__
    const int64_t whole = dim / ALIGN * ALIGN;
    __m512i sums[GROUP * GROUP];
#pragma GCC unroll 16
    for (int n = 0; n < GROUP * GROUP; n++) sums[n] = _mm512_setzero_si512();
    __m512i lines[GROUP];
#pragma GCC unroll 8
    for (int64_t n = 0; n < whole; n += ALIGN) {
        for (int j = 0; j < GROUP; j++) {
            __builtin_prefetch(codes[AHEAD + j] + n);
            lines[j] = _mm512_loadu_si512(codes[j] + n);
        }
        multiply_lines(lines, query + n, width, sums);
    }
    if (whole < dim) {
        const __mmask64 rest = (1ULL << (dim - whole)) - 1;
        for (int j = 0; j < GROUP; j++) lines[j] = _mm512_maskz_loadu_epi8(rest, codes[j] + whole);
        multiply_lines(lines, query + whole, width, sums);
    }
    __m512i total = add_halves(add_halves(add_quarters(sums), add_quarters(sums + 4)),
                               add_halves(add_quarters(sums + 8), add_quarters(sums + 12)));
    __m128i offset = _mm_loadu_si128((const void *)offsets);
    _mm512_storeu_si512(out, _mm512_sub_epi32(total, _mm512_broadcast_i32x4(offset)));
#else
    (void)offsets;
    int64_t done = 0;
#ifdef __AVX2__
    done = dim / 16 * 16;
    for (int j = 0; j < GROUP; j += 2) multiply_two(codes + j, query, done, width, out + j);
#else
    for (int j = 0; j < GROUP; j++) out[j] = (Quad){0};
#endif
    for (int j = 0; j < GROUP; j++) {
        const int8_t *restrict vector = codes[j];
        for (int64_t n = 0; n < dim; n += LINE) __builtin_prefetch(codes[AHEAD + j] + n);
        for (int i = 0; i < GROUP; i++) {
            const int8_t *restrict element = query + i * width;
            int32_t sum = 0;
            for (int64_t n = done; n < dim; n++) sum += (int32_t)vector[n] * element[n];
            out[j][i] += sum;
        }
    }
#endif
}

static INLINE Quad larger(Quad a, Quad b) {
#ifdef __SSE4_1__
    return (Quad)_mm_max_epi32((__m128i)a, (__m128i)b);
#else
    Quad mask = a > b;
    return (a & mask) | (b & ~mask);
#endif
}

static INLINE int32_t largest_of(Quad a) {
    a = larger(a, SHUFFLE(a, a, 2, 3, 0, 1));
    return a[0] > a[1] ? a[0] : a[1];
}

/* The sum of each of four vectors. */
static INLINE Quad sum_of_each(const Quad v[4]) {
    Quad ab = SHUFFLE(v[0], v[1], 0, 4, 1, 5) + SHUFFLE(v[0], v[1], 2, 6, 3, 7);
    Quad cd = SHUFFLE(v[2], v[3], 0, 4, 1, 5) + SHUFFLE(v[2], v[3], 2, 6, 3, 7);
    return SHUFFLE(ab, cd, 0, 1, 4, 5) + SHUFFLE(ab, cd, 2, 3, 6, 7);
}

/* The largest number of each of four vectors. */
static INLINE Quad largest_of_each(const Quad v[4]) {
    Quad ab = larger(SHUFFLE(v[0], v[1], 0, 4, 1, 5), SHUFFLE(v[0], v[1], 2, 6, 3, 7));
    Quad cd = larger(SHUFFLE(v[2], v[3], 0, 4, 1, 5), SHUFFLE(v[2], v[3], 2, 6, 3, 7));
    return larger(SHUFFLE(ab, cd, 0, 1, 4, 5), SHUFFLE(ab, cd, 2, 3, 6, 7));
}

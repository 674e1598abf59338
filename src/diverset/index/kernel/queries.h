/* Quantized queries, and the numbers that bounds need of them (docs/exact-search.md). */
#pragma once
#include <math.h>
#include <string.h>

#include "collection.h"
#include "dots.h"
#include "products.h"

enum { MAX_CODE = 127 };

typedef struct {
    float scale, norm;       /* of the codes; the largest norm of an element */
    float deviation;         /* the largest distance of an element to their mean */
    float margin;            /* how far the score of an item's codes can be off, besides its error */
    float element_constant;  /* what the bound by elements adds to Chamfer and the item's error */
    float mean_constant;     /* what the bound by means adds to products, spread and radius */
} Query;

/* An upper bound of the norm of a vector whose numbers were rounded to float32. */
static double norm_above(const float *vector, int64_t dim) {
    return sqrt(dot(vector, vector, dim)) * (1 + 0x1p-20);
}

/* Quantize one element; returns an upper bound of the norm of its error. `rest` is memory. */
static double quantize_element(const float *element, int64_t dim, float scale, int8_t *codes,
                               float *rest) {
    const float shift = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    for (int64_t d = 0; d < dim; d++) {
        float code = element[d] / scale + shift - shift;
        code = code > MAX_CODE ? MAX_CODE : code < -MAX_CODE ? -MAX_CODE : code;
        rest[d] = element[d] - code * scale;
        codes[d] = (int8_t)code;
    }
    return norm_above(rest, dim);
}

/* Quantize a query with one scale. `codes` (rows, width) and `offsets` (rows) are zero before;
 * rows beyond the elements repeat the last one. `memory` has room for two vectors. */
static Query quantize(const Collection *collection, const float *set, int64_t elements,
                      int64_t rows, int64_t width, int8_t *codes, int32_t *offsets, float *memory) {
    const int64_t dim = collection->dim;
    const double alpha = collection->alpha;
    float largest = 1e-30f, *mean = memory, *rest = memory + dim;
    for (int64_t n = 0; n < elements * dim; n++) largest = fmaxf(largest, fabsf(set[n]));
    memset(mean, 0, dim * sizeof *mean);
    for (int64_t i = 0; i < elements; i++)
        for (int64_t d = 0; d < dim; d++) mean[d] += set[i * dim + d] / (float)elements;
    Query query = {.scale = largest / MAX_CODE};
    double norm = 0, error = 0, deviation = 0;
    for (int64_t i = 0; i < elements; i++) {
        const float *element = set + i * dim;
        error = fmax(error, quantize_element(element, dim, query.scale, codes + i * width, rest));
        norm = fmax(norm, norm_above(element, dim));
        for (int64_t d = 0; d < dim; d++) rest[d] = element[d] - mean[d];
        deviation = fmax(deviation, norm_above(rest, dim));
    }
    for (int64_t i = 0; i < rows; i++) {
        if (i >= elements) memcpy(codes + i * width, codes + (elements - 1) * width, dim);
        for (int64_t d = 0; d < dim; d++) offsets[i] += 128 * codes[i * width + d];
    }
    error += 0x1p-22 * norm; /* float32 rounds the error and the deviation, too */
    deviation += 0x1p-22 * norm;
    double margin = error * collection->code_norm + collection->rounding;
    double above_unit = fmax(norm - 1, 0) * 2 * collection->code_norm;
    query.norm = (float)norm;
    query.deviation = (float)deviation;
    query.margin = (float)margin;
    query.mean_constant = (float)(above_unit + margin + log((double)elements) / (2 * alpha));
    query.element_constant =
        (float)(margin + log((double)(elements * collection->elements)) / (2 * alpha));
    return query;
}

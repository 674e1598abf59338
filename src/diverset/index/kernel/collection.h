/* What the kernel searches, and for what; compiled.py describes the same structures. */
#pragma once
#include <stdint.h>

typedef struct {
    int64_t first, items; /* position of its first item, number of items */
    const int8_t *means, *elements; /* (items, dim), (elements, items, dim) */
    const float *mean_scale, *spread, *radius, *scale, *error, *sets;
    const uint8_t *checked_sets;   /* (items): 1 if the checksum was compared; NULL: nothing to check */
    const uint8_t *checked_blocks; /* the same for blocks of `block` items' elements */
    uint8_t *used_blocks;          /* set to 1 for unchecked blocks that were read */
} Part;

typedef struct {
    int64_t parts, elements, dim, block;
    float alpha, rounding; /* `rounding`: more than float32 loses in any score */
    float code_norm;       /* more than the norm of any dequantized element */
    const Part *part;
    const uint8_t *allowed; /* 1 for items that may be found; NULL: all */
} Collection;

typedef struct {
    int64_t count, elements;
    const float *sets; /* (count, elements, dim) */
} Queries;

/* The k best items of each query, best first. */
typedef struct {
    int64_t *counts, *positions; /* (queries), (queries, k) */
    double *scores, *cosines;    /* (queries, k), (queries, k, query elements, elements) */
} Found;

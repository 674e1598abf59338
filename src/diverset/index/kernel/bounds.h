/* Upper bounds of the scores of some items for a query (docs/exact-search.md). */
#pragma once
#include "lists.h"
#include "queries.h"
#include "smooth.h"

enum { BLOCK = 128 }; /* items that are bounded together */

/* What the threads of a call share. */
typedef struct {
    const Collection *collection;
    const Queries *queries;
    int64_t rows, width;      /* query elements and dimensions with padding */
    Query *query;             /* (queries) */
    int8_t *codes;            /* (queries, rows, width) */
    int32_t *offsets;         /* (queries, rows): 128 * the sum of a query element's codes */
    _Atomic float *threshold; /* (queries): a score that k items reach */
    atomic_llong next;        /* the next block, later the next query */
    int64_t blocks, claim, k;
    List *survivors;          /* (queries) */
    uint8_t *scanned;         /* (queries): 1 if all survivors have been found before the scan */
    const int64_t *candidates; /* (queries, candidate_count), -1 for none; NULL: scan all items */
    int64_t candidate_count;
    Found *found;
    atomic_int out_of_memory;
} Job;

/* Memory for a block of items. */
typedef struct {
    const int8_t **vectors; /* (items, elements) and padding */
    Quad *products;         /* (items, elements, rows): with the elements of the query */
    float *pairs;           /* (elements, rows): cosines of an item times alpha */
    Vector *exponents;      /* (elements) or (rows) and padding */
} Scratch;

typedef struct {
    Job *job;
    List *found;          /* (queries) */
    Heap *best;           /* (queries): lower bounds of scores */
    List unchecked;       /* sets that were read and have not been checked */
    Scratch scratch;
    int64_t pause, since; /* blocks until means are tried again, and blocks since they were */
} Worker;

/* Some items, by their numbers in a part, and a query. */
typedef struct {
    const Part *part;
    int64_t query;
    int count;
    int32_t items[BLOCK];
} Block;

/* Products of vectors of codes with all elements of a query, (count, rows). The list of vectors
 * continues with `AHEAD` of those that are needed next, or repetitions. */
static INLINE void multiply_all(const Job *job, int64_t query, const int8_t **vectors,
                                int64_t count, int64_t rows, int64_t dim, Quad *products) {
    const int64_t groups = rows / GROUP;
    const int8_t *codes = job->codes + query * rows * job->width;
    const int32_t *offsets = job->offsets + query * rows;
    for (int64_t n = 0; n < count; n += GROUP)
        for (int64_t group = 0; group < groups; group++) {
            Quad tile[GROUP], *out = groups == 1 ? products + n : tile;
            multiply(vectors + n, codes + group * GROUP * job->width, offsets + group * GROUP, dim,
                     job->width, out);
            for (int m = 0; m < GROUP && out == tile; m++)
                products[(n + m) * groups + group] = tile[m];
        }
}

/* The vectors of a block's items and of the items that follow in the part. `stride` is the distance
 * of an item's vectors; returns the list. */
static INLINE const int8_t **list_vectors(const Worker *worker, const Block *block,
                                          const int8_t *codes, int64_t elements, int64_t stride) {
    const int8_t **vectors = worker->scratch.vectors;
    const int64_t dim = worker->job->collection->dim, last = block->part->items - 1;
    const int ahead = (int)((AHEAD + GROUP) / elements) + 1;
    int64_t next = block->items[block->count - 1];
    for (int n = 0; n < block->count + ahead; n++) {
        int64_t item = n < block->count ? block->items[n] : next < last ? ++next : last;
        for (int64_t j = 0; j < elements; j++)
            vectors[n * elements + j] = codes + j * stride + item * dim;
    }
    return vectors;
}

/* Bound the items of a block by their means. `similarity` receives the part of a bound that depends
 * on the query, an estimate of the score. */
static INLINE void bound_dims(const Worker *worker, const Block *block, int64_t elements,
                              int64_t rows, int64_t dim, float *bounds, float *similarity) {
    const Job *job = worker->job;
    const Part *part = block->part;
    const Query query = job->query[block->query];
    const int64_t groups = rows / GROUP;
    const float factor = query.scale / (2 * (float)elements);
    Quad *products = worker->scratch.products;
    const int8_t **vectors = list_vectors(worker, block, part->means, 1, 0);
    multiply_all(job, block->query, vectors, block->count, rows, dim, products);
    for (int n = 0; n < block->count; n += GROUP) {
        Quad total = {0}, largest = {0};
        for (int64_t i = 0; i < elements; i++) {
            Quad column;
            for (int m = 0; m < GROUP; m++) column[m] = ((int32_t *)(products + (n + m) * groups))[i];
            largest = i ? larger(largest, column) : column;
            total += column;
        }
        for (int m = 0; m < GROUP; m++)
            similarity[n + m] = (float)total[m] + (float)elements * (float)largest[m];
    }
    for (int n = 0; n < block->count; n++) {
        int32_t item = block->items[n];
        similarity[n] *= factor * part->mean_scale[item];
        bounds[n] = similarity[n] + part->spread[item] + query.deviation * part->radius[item]
                    + query.mean_constant;
    }
}

static void bound_by_means(const Worker *worker, const Block *block, float *bounds,
                           float *similarity) {
    const int64_t elements = worker->job->queries->elements, dim = worker->job->collection->dim;
    const int64_t rows = worker->job->rows;
    if (elements != 4) bound_dims(worker, block, elements, rows, dim, bounds, similarity);
    else if (dim == 256) bound_dims(worker, block, 4, 4, 256, bounds, similarity);
    else if (dim == 384) bound_dims(worker, block, 4, 4, 384, bounds, similarity);
    else if (dim == 512) bound_dims(worker, block, 4, 4, 512, bounds, similarity);
    else bound_dims(worker, block, 4, 4, dim, bounds, similarity);
}

/* Chamfer of the codes of an item from its products, divided by both scales. */
static INLINE float chamfer(const Quad *products, int64_t elements, int64_t query_elements) {
    const int64_t groups = padded(query_elements, GROUP) / GROUP;
    int64_t to_query = 0, to_item = 0;
    for (int64_t j = 0; j < elements; j++) {
        Quad most = products[j * groups];
        for (int64_t i = 1; i < groups; i++) most = larger(most, products[j * groups + i]);
        to_query += largest_of(most); /* the padding repeats an element */
    }
    for (int64_t i = 0; i < groups; i++) {
        Quad nearest = products[i];
        for (int64_t j = 1; j < elements; j++) nearest = larger(nearest, products[j * groups + i]);
        for (int64_t n = 0; n < GROUP && i * GROUP + n < query_elements; n++) to_item += nearest[n];
    }
    return (float)to_item / (2 * (float)query_elements) + (float)to_query / (2 * (float)elements);
}

/* The same for `count` items and padding; for four by four elements, four items at once. */
static INLINE void chamfer_of_all(const Quad *products, int count, int64_t elements,
                                  int64_t query_elements, float *values) {
    if (elements != GROUP || query_elements != GROUP) {
        const int64_t quads = elements * padded(query_elements, GROUP) / GROUP;
        for (int n = 0; n < count; n++)
            values[n] = chamfer(products + n * quads, elements, query_elements);
        return;
    }
    for (int n = 0; n < count; n += GROUP) {
        Quad largest[GROUP];
        for (int m = 0; m < GROUP; m++) {
            const Quad *v = products + (n + m) * GROUP;
            Quad nearest = larger(larger(v[0], v[1]), larger(v[2], v[3]));
            largest[m] = nearest + largest_of_each(v);
        }
        Quad total = sum_of_each(largest);
        for (int m = 0; m < GROUP; m++) values[n + m] = (float)total[m] / (2 * GROUP);
    }
}

/* What smooth-Chamfer adds to Chamfer, from the products of an item; `unit` is their scale. May
 * return 0 if it is less than `least`. */
static INLINE float smoothing(const Job *job, const Scratch *scratch, const Quad *products,
                              float unit, int64_t elements, int64_t query_elements, float least) {
    const float alpha = job->collection->alpha;
    if (elements == GROUP && query_elements == GROUP) {
        const float factor = 2 * GROUP * alpha, x = least * factor;
        Integers pairs;
        memcpy(&pairs, products, sizeof pairs);
        float product = smoothing_of_fours(__builtin_convertvector(pairs, Vector) * (alpha * unit));
        if (x > 0 && product < 1 + x * (1 + x * (0.5f + x * 0.166f))) return 0; /* below e^x */
        return logf(product) / factor;
    }
    const int64_t rows = padded(query_elements, GROUP);
    const int32_t *numbers = (const int32_t *)products;
    float *pairs = scratch->pairs;
    for (int64_t n = 0; n < elements * rows; n++) pairs[n] = alpha * unit * (float)numbers[n];
    float to_query = sum_of_logs(pairs, elements, rows, query_elements, 1, scratch->exponents);
    float to_item = sum_of_logs(pairs, query_elements, 1, elements, rows, scratch->exponents);
    return (to_query / (float)elements + to_item / (float)query_elements) / (2 * alpha);
}

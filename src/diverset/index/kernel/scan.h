/* Upper bounds of all items, and the items that can be among the k best (docs/index.md).
 *
 * Threads claim runs of blocks. For every block and query: (1) bound the items by their means,
 * while that prunes; (2) bound the rest by Chamfer of their element codes; (3) estimate the rest by
 * smooth-Chamfer of the codes. An item survives if its upper bound reaches the threshold.
 */
#pragma once
#include "exponentials.h"
#include "lists.h"
#include "products.h"

enum {
    BLOCK = 128,     /* items that are bounded together */
    LINE = 64,      /* bytes that are fetched together */
    AHEAD = 8,      /* items whose codes are fetched before they are needed */
    MAX_PAUSE = 32, /* blocks until means are tried again where they did not prune */
};
static const double MIN_SAVED = 2.4; /* means are used while they save this many times their cost */

typedef struct {
    int64_t first, items; /* position of its first item, number of items */
    const int8_t *means, *elements; /* (items, dim), (elements, items, dim) */
    const float *mean_scale, *spread, *scale, *error, *sets;
    const uint8_t *checked_sets;   /* (items): 1 if the checksum was compared; NULL: nothing to check */
    const uint8_t *checked_blocks; /* the same for blocks of `block` items' elements */
    uint8_t *used_blocks;          /* set to 1 for unchecked blocks that were read */
} Part;

typedef struct {
    int64_t parts, elements, dim, block;
    float alpha, rounding; /* `rounding`: more than float32 loses in any score */
    const Part *part;
    const uint8_t *allowed; /* 1 for items that may be found; NULL: all */
} Collection;

typedef struct {
    int64_t count, elements;
    const float *exact;  /* (count, elements, dim) */
    const int8_t *codes; /* the same in 8 bits; like the rest, not needed to rank candidates */
    const float *scale, *norm, *mean_constant, *element_constant, *margin; /* (count) */
} Queries;

/* The k best items of each query, best first. */
typedef struct {
    int64_t *counts, *positions; /* (queries), (queries, k) */
    double *scores, *cosines;    /* (queries, k), (queries, k, query elements, elements) */
} Found;

/* What the threads of a call share. */
typedef struct {
    const Collection *collection;
    const Queries *queries;
    int64_t rows, width;      /* query elements and dimensions with padding */
    int8_t *codes;            /* (queries, rows, width) */
    int32_t *offsets;         /* (queries, rows): 128 * the sum of a query element's codes */
    _Atomic float *threshold; /* (queries): a score that k items reach */
    atomic_llong next;        /* the next block, later the next query */
    int64_t blocks, claim, k;
    List *survivors;          /* (queries) */
    const int64_t *candidates; /* (queries, candidate_count), -1 for none; NULL: scan all items */
    int64_t candidate_count;
    Found *found;
    atomic_int out_of_memory;
} Job;

/* Memory for one pair of sets. */
typedef struct {
    Quad *products;    /* (elements, rows) */
    Quad *nearest;     /* (rows): the largest product of each query element */
    int32_t *largest;  /* (elements): the largest product of each element */
    Vector *by_row;    /* (elements, rows) and padding */
    Vector *by_column; /* the same */
} Scratch;

typedef struct {
    Job *job;
    List *found;          /* (queries) */
    Heap *best;           /* (queries): lower bounds of scores */
    List unchecked;       /* sets that were read and have not been checked */
    Scratch scratch;
    int64_t pause, since; /* blocks until means are tried again, and blocks since they were */
} Worker;

/* Keep the items of a block whose bound by means reaches the threshold; returns how many. */
static int prune_by_means(Worker *worker, const Part *part, int64_t query, uint8_t *items,
                          int count, int64_t first) {
    const Job *job = worker->job;
    const Queries *queries = job->queries;
    int64_t elements = queries->elements, dim = job->collection->dim;
    float threshold = get(job->threshold + query);
    float factor = queries->scale[query] / (2 * (float)elements);
    Quad *products = worker->scratch.products;
    int kept = 0;
    for (int n = 0; n < count; n++) {
        int64_t item = first + items[n];
        multiply(part->means + item * dim, job->codes + query * job->rows * job->width,
                 job->offsets + query * job->rows, job->rows, dim, job->width, products);
        int64_t total = 0;
        int32_t largest = INT32_MIN;
        for (int64_t i = 0; i < elements; i++) {
            int32_t product = products[i / GROUP][i % GROUP];
            total += product;
            largest = product > largest ? product : largest;
        }
        float bound = (float)(total + elements * largest) * factor * part->mean_scale[item]
                      + part->spread[item] + queries->mean_constant[query];
        items[kept] = items[n];
        kept += bound >= threshold;
    }
    return kept;
}

/* Products of all pairs of elements; returns Chamfer of the codes, divided by both scales. */
static INLINE float chamfer(const Job *job, const Part *part, int64_t query, int64_t item,
                            Scratch scratch, int64_t elements, int64_t query_elements) {
    const int64_t groups = padded(query_elements, GROUP) / GROUP, dim = job->collection->dim;
    const int64_t rows = groups * GROUP;
    int64_t to_query = 0, to_item = 0;
    for (int64_t j = 0; j < elements; j++) {
        Quad *products = scratch.products + j * groups, most = {0};
        multiply(part->elements + (j * part->items + item) * dim,
                 job->codes + query * rows * job->width, job->offsets + query * rows, rows, dim,
                 job->width, products);
        for (int64_t i = 0; i < groups; i++) {
            most = i == 0 ? products[i] : larger(most, products[i]);
            scratch.nearest[i] = j == 0 ? products[i] : larger(scratch.nearest[i], products[i]);
        }
        scratch.largest[j] = largest_of(most); /* the padding repeats an element */
        to_query += scratch.largest[j];
    }
    for (int64_t i = 0; i < query_elements; i++) to_item += scratch.nearest[i / GROUP][i % GROUP];
    return (float)to_item / (2 * (float)query_elements) + (float)to_query / (2 * (float)elements);
}

/* What smooth-Chamfer adds to Chamfer, times 2 alpha, from what `chamfer` left in `scratch`. */
static INLINE float smoothing(float alpha_unit, Scratch scratch, int64_t elements,
                              int64_t query_elements) {
    const int64_t rows = padded(query_elements, GROUP), groups = rows / GROUP;
    float *by_row = (float *)scratch.by_row, *by_column = (float *)scratch.by_column;
    for (int64_t j = 0; j < elements; j++)
        for (int64_t i = 0; i < groups; i++) {
            Quad product = scratch.products[j * groups + i];
            Quad to_nearest = product - scratch.nearest[i], to_largest = product - scratch.largest[j];
            for (int n = 0; n < GROUP; n++) {
                by_row[j * rows + i * GROUP + n] = alpha_unit * (float)to_nearest[n];
                by_column[j * rows + i * GROUP + n] = alpha_unit * (float)to_largest[n];
            }
        }
    exp_all(scratch.by_row, elements * rows);
    exp_all(scratch.by_column, elements * rows);
    Logs to_item = {1, 0, 0}, to_query = {1, 0, 0};
    for (int64_t j = 0; j < elements; j++) {
        float sum = 0;
        for (int64_t i = 0; i < query_elements; i++) sum += by_column[j * rows + i];
        add_log(&to_query, sum);
    }
    for (int64_t i = 0; i < query_elements; i++) {
        float sum = 0;
        for (int64_t j = 0; j < elements; j++) sum += by_row[j * rows + i];
        add_log(&to_item, sum);
    }
    return sum_of_logs(&to_item) / (float)query_elements
           + sum_of_logs(&to_query) / (float)elements;
}

/* Ask for the codes of an item before they are needed. */
static INLINE void prefetch(const Part *part, int64_t item, int64_t elements, int64_t dim) {
    for (int64_t j = 0; j < elements; j++) {
        const int8_t *codes = part->elements + (j * part->items + item) * dim;
        for (int64_t n = 0; n < dim; n += LINE) __builtin_prefetch(codes + n);
    }
}

/* Append the items of a block whose bounds by elements reach the threshold. */
static INLINE void prune(Worker *worker, const Part *part, int64_t query, const uint8_t *items,
                         int count, int64_t first, Scratch scratch, int64_t elements,
                         int64_t query_elements) {
    Job *job = worker->job;
    const Queries *queries = job->queries;
    const float alpha = job->collection->alpha, query_scale = queries->scale[query];
    const float norm = queries->norm[query], constant = queries->element_constant[query];
    const int64_t dim = job->collection->dim;
    float threshold = get(job->threshold + query);
    for (int n = 0; n < count && n < AHEAD; n++) prefetch(part, first + items[n], elements, dim);
    for (int n = 0; n < count; n++) {
        int64_t item = first + items[n];
        if (n + AHEAD < count) prefetch(part, first + items[n + AHEAD], elements, dim);
        float unit = part->scale[item] * query_scale, error = part->error[item] * norm;
        float value = unit * chamfer(job, part, query, item, scratch, elements, query_elements);
        if (value + error + constant < threshold) continue;
        value += smoothing(alpha * unit, scratch, elements, query_elements) / (2 * alpha);
        float margin = error + queries->margin[query];
        if (value + margin < threshold) continue;
        push(worker->best + query, value - margin);
        threshold = raise(job->threshold + query, kth(worker->best + query));
        Item survivor = {part->first + item, value, value + margin};
        if (!append(worker->found + query, &survivor, 1)) atomic_store(&job->out_of_memory, 1);
    }
}

static void prune_by_elements(Worker *worker, const Part *part, int64_t query,
                              const uint8_t *items, int count, int64_t first) {
    int64_t elements = worker->job->collection->elements;
    int64_t query_elements = worker->job->queries->elements;
    if (elements == 4 && query_elements == 4) { /* constants: the compiler unrolls the loops */
        Quad products[4], nearest[1] = {{0}};
        int32_t largest[4];
        Vector by_row[1], by_column[1];
        Scratch scratch = {products, nearest, largest, by_row, by_column};
        prune(worker, part, query, items, count, first, scratch, 4, 4);
    } else {
        prune(worker, part, query, items, count, first, worker->scratch, elements, query_elements);
    }
}

static void scan_block(Worker *worker, const Part *part, int64_t first) {
    const Job *job = worker->job;
    uint8_t items[BLOCK], kept[BLOCK];
    int64_t end = part->items - first < BLOCK ? part->items - first : BLOCK, left = 0;
    const uint8_t *allowed = job->collection->allowed;
    if (allowed) {
        allowed += part->first + first;
        if (!memchr(allowed, 1, end)) return;
    }
    int count = 0;
    for (int64_t n = 0; n < end; n++) {
        items[count] = (uint8_t)n;
        count += !allowed || allowed[n];
    }
    int with_means = worker->since >= worker->pause;
    for (int64_t query = 0; query < job->queries->count; query++) {
        memcpy(kept, items, sizeof kept);
        int keep = with_means ? prune_by_means(worker, part, query, kept, count, first) : count;
        left += keep;
        if (!keep) continue;
        int64_t block = first / job->collection->block;
        if (part->checked_blocks && !part->checked_blocks[block]) part->used_blocks[block] = 1;
        prune_by_elements(worker, part, query, kept, keep, first);
    }
    worker->since = with_means ? 0 : worker->since + 1;
    if (with_means) { /* reading a mean costs a K-th of reading a set */
        double saved = 1 - (double)left / (double)(count * job->queries->count);
        int64_t longer = worker->pause ? 2 * worker->pause : 1;
        worker->pause = saved * (double)job->collection->elements > MIN_SAVED ? 0
                        : longer > MAX_PAUSE ? MAX_PAUSE : longer;
    }
}

static void *scan(void *argument) {
    Worker *worker = argument;
    Job *job = worker->job;
    const Collection *collection = job->collection;
    for (;;) {
        int64_t block = atomic_fetch_add(&job->next, job->claim), end = block + job->claim;
        if (block >= job->blocks) return NULL;
        int64_t skipped = 0;
        for (int64_t p = 0; p < collection->parts && block < end; p++) {
            const Part *part = collection->part + p;
            int64_t own = (part->items + BLOCK - 1) / BLOCK;
            for (; block < end && block < skipped + own; block++)
                scan_block(worker, part, (block - skipped) * BLOCK);
            skipped += own;
        }
    }
}

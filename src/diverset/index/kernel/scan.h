/* A scan over all items for those that can be among the k best (docs/exact-search.md).
 *
 * Threads claim runs of blocks. For every block and query: (1) bound the items by their means,
 * while that prunes; (2) bound the rest by Chamfer of their element codes; (3) estimate the rest by
 * smooth-Chamfer of the codes. An item survives if its upper bound reaches the threshold.
 */
#pragma once
#include "bounds.h"

enum { MAX_PAUSE = 32 }; /* blocks until means are tried again where they did not prune */
static const double MIN_SAVED = 1.6; /* means are used while they save this many times their cost */

/* Whether bounds by means that leave this share of items cost less than they save: reading a mean
 * costs a K-th of reading a set. */
static int means_pay(const Job *job, double left) {
    return (1 - left) * (double)job->collection->elements > MIN_SAVED;
}

/* Keep the items of a block whose bound by means reaches the threshold. */
static void prune_by_means(const Worker *worker, Block *block) {
    const float threshold = get(worker->job->threshold + block->query);
    float bounds[BLOCK], similarity[BLOCK];
    bound_by_means(worker, block, bounds, similarity);
    int kept = 0;
    for (int n = 0; n < block->count; n++) {
        block->items[kept] = block->items[n];
        kept += bounds[n] >= threshold;
    }
    block->count = kept;
}

/* Ask for the first vectors of a list; those of whole blocks were asked for by the block before. */
static INLINE void fetch_first(const int8_t **vectors, int64_t count, int64_t dim) {
    for (int64_t n = 0; n < AHEAD && n < count; n++)
        for (int64_t d = 0; d < dim; d += LINE) __builtin_prefetch(vectors[n] + d);
}

/* Append the items of a block whose bounds by elements reach the threshold. */
static INLINE void prune_by_elements(Worker *worker, const Block *block, int64_t elements,
                                     int64_t query_elements, int64_t dim) {
    Job *job = worker->job;
    const Part *part = block->part;
    const Query query = job->query[block->query];
    const int64_t rows = padded(query_elements, GROUP);
    const int64_t quads = elements * rows / GROUP;
    const Quad *products = worker->scratch.products;
    const int8_t **vectors =
        list_vectors(worker, block, part->elements, elements, part->items * dim);
    Heap *best = worker->best + block->query;
    float threshold = get(job->threshold + block->query);
    float values[BLOCK], units[BLOCK], errors[BLOCK];
    uint8_t kept[BLOCK];
    if (block->count < BLOCK) fetch_first(vectors, block->count * elements, dim);
    multiply_all(job, block->query, vectors, block->count * elements, rows, dim,
                 worker->scratch.products);
    chamfer_of_all(products, block->count, elements, query_elements, values);
    int count = 0;
    for (int n = 0; n < block->count; n++) {
        units[n] = part->scale[block->items[n]] * query.scale;
        errors[n] = part->error[block->items[n]] * query.norm;
        values[n] *= units[n];
        kept[count] = (uint8_t)n; /* without a branch: it would be predicted badly */
        count += values[n] + errors[n] + query.element_constant >= threshold;
    }
    for (int m = 0; m < count; m++) {
        int n = kept[m];
        float margin = errors[n] + query.margin;
        float value = values[n] + smoothing(job, &worker->scratch, products + n * quads, units[n],
                                            elements, query_elements, threshold - values[n] - margin);
        if (value + margin < threshold) continue;
        push(best, value - margin);
        threshold = raise(job->threshold + block->query, kth(best));
        Item survivor = {part->first + block->items[n], value, value + margin};
        if (!append(worker->found + block->query, &survivor, 1))
            atomic_store(&job->out_of_memory, 1);
    }
}

/* Note which unchecked blocks of elements are read. */
static void mark_blocks(const Job *job, const Block *block) {
    const Part *part = block->part;
    int64_t next = 0; /* the first item that is in none of the blocks looked at */
    for (int n = 0; part->checked_blocks && n < block->count; n++) {
        if (block->items[n] < next) continue;
        int64_t check = block->items[n] / job->collection->block;
        if (!part->checked_blocks[check]) part->used_blocks[check] = 1;
        next = (check + 1) * job->collection->block;
    }
}

/* Append the items of a block that can be among the k best. */
static void scan_items(Worker *worker, Block *block, int with_means) {
    const int64_t elements = worker->job->collection->elements, dim = worker->job->collection->dim;
    const int64_t query_elements = worker->job->queries->elements;
    if (with_means) prune_by_means(worker, block);
    if (!block->count) return;
    mark_blocks(worker->job, block);
    if (elements != 4 || query_elements != 4) /* with constants, the compiler unrolls the loops */
        prune_by_elements(worker, block, elements, query_elements, dim);
    else if (dim == 256) prune_by_elements(worker, block, 4, 4, 256);
    else if (dim == 384) prune_by_elements(worker, block, 4, 4, 384);
    else if (dim == 512) prune_by_elements(worker, block, 4, 4, 512);
    else prune_by_elements(worker, block, 4, 4, dim);
}

/* The items of a part from `first` on that may be found. */
static void fill(const Job *job, const Part *part, int64_t first, Block *block) {
    int64_t end = part->items - first < BLOCK ? part->items : first + BLOCK;
    const uint8_t *allowed = job->collection->allowed;
    block->part = part;
    block->count = 0;
    if (allowed && !memchr(allowed + part->first + first, 1, end - first)) return;
    for (int64_t n = first; n < end; n++) {
        block->items[block->count] = (int32_t)n;
        block->count += !allowed || allowed[part->first + n];
    }
}

static void scan_block(Worker *worker, const Part *part, int64_t first) {
    const Job *job = worker->job;
    Block all, block;
    int64_t left = 0, scanned = 0;
    fill(job, part, first, &all);
    if (!all.count) return;
    int with_means = worker->since >= worker->pause;
    for (int64_t query = 0; query < job->queries->count; query++) {
        if (job->scanned[query]) continue;
        scanned++;
        block = all;
        block.query = query;
        scan_items(worker, &block, with_means);
        left += block.count;
    }
    worker->since = with_means ? 0 : worker->since + 1;
    if (with_means && scanned) {
        int64_t longer = worker->pause ? 2 * worker->pause : 1;
        worker->pause = means_pay(job, (double)left / (double)(all.count * scanned)) ? 0
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

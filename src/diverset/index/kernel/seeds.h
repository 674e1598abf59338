/* Before the scan: a first threshold for each query, and whether bounds by means are worth it.
 *
 * The items of a sample whose means are most similar to the query are estimated by their elements.
 * In a small collection whose means prune, the sample then grows to all items, and what its bounds
 * leave is all that has to be scanned.
 */
#pragma once
#include "scan.h"

enum {
    SAMPLED = 4096, /* items in a sample */
    SPACING = 8,    /* at least; of the sampled blocks */
    SEEDS = 2,      /* items per hit that are estimated by their elements */
    SMALL = 32768,  /* items; memory for the bounds of larger collections is out of the cache */
};

/* Bounds of some items of all parts. */
typedef struct {
    int64_t capacity, parts;
    int64_t *ends; /* (parts): number of items up to the end of a part */
    int32_t *items;
    float *bounds, *similarity;
    Heap highest; /* similarities */
} Sample;

/* Memory of the last sample: new pages would cost as much as filling them. */
static _Atomic(Sample *) kept_sample;

static void free_sample(Sample *sample) {
    if (!sample) return;
    free(sample->ends);
    free(sample->items);
    free(sample->bounds);
    free(sample->similarity);
    free(sample->highest.values);
    free(sample);
}

/* Keep a sample for the next call. */
static void keep_sample(Sample *sample) { free_sample(atomic_exchange(&kept_sample, sample)); }

/* Memory for `count` items; NULL if there is not enough. */
static Sample *new_sample(const Job *job, int64_t count) {
    const int64_t parts = job->collection->parts, k = SEEDS * job->k;
    Sample *sample = atomic_exchange(&kept_sample, NULL);
    if (sample && sample->capacity >= count && sample->parts >= parts && sample->highest.k == k)
        return sample;
    free_sample(sample);
    sample = calloc(1, sizeof *sample);
    if (!sample) return NULL;
    *sample = (Sample){.capacity = count, .parts = parts, .highest.k = k};
    sample->ends = malloc(parts * sizeof *sample->ends);
    sample->items = malloc((count + BLOCK) * sizeof *sample->items);
    sample->bounds = malloc((count + BLOCK) * sizeof(float));
    sample->similarity = malloc((count + BLOCK) * sizeof(float));
    sample->highest.values = malloc(k * sizeof(float));
    if (sample->ends && sample->items && sample->bounds && sample->similarity
        && sample->highest.values)
        return sample;
    free_sample(sample);
    return NULL;
}

/* Bound every `step`-th block by its means; returns the number of items. */
static int64_t draw(const Worker *worker, int64_t query, int64_t step, Sample *sample) {
    const Job *job = worker->job;
    const Collection *collection = job->collection;
    int64_t count = 0;
    Block block;
    for (int64_t p = 0; p < collection->parts; p++) {
        const Part *part = collection->part + p;
        for (int64_t first = 0; first < part->items; first += step * BLOCK) {
            fill(job, part, first, &block);
            block.query = query;
            if (!block.count) continue;
            bound_by_means(worker, &block, sample->bounds + count, sample->similarity + count);
            memcpy(sample->items + count, block.items, block.count * sizeof *block.items);
            count += block.count;
        }
        sample->ends[p] = count;
    }
    return count;
}

/* Scan the items of a sample whose values reach a limit. */
static void scan_sample(Worker *worker, int64_t query, const Sample *sample, const float *values,
                        float limit) {
    const Collection *collection = worker->job->collection;
    Block block = {.query = query};
    int64_t n = 0;
    for (int64_t p = 0; p < collection->parts; p++) {
        block.part = collection->part + p;
        while (n < sample->ends[p]) {
            for (block.count = 0; n < sample->ends[p] && block.count < BLOCK; n++) {
                block.items[block.count] = sample->items[n];
                block.count += values[n] >= limit;
            }
            if (block.count) scan_items(worker, &block, 0);
        }
    }
}

/* Raise the threshold of a query to a score that k items of the sample reach; returns the highest
 * estimate of a score. */
static float estimate_seeds(Worker *worker, int64_t query, Sample *sample, int64_t count) {
    Heap *best = worker->best + query;
    float highest = -INFINITY;
    sample->highest.count = 0;
    for (int64_t n = 0; n < count; n++)
        if (sample->similarity[n] > kth(&sample->highest)) push(&sample->highest, sample->similarity[n]);
    scan_sample(worker, query, sample, sample->similarity, kth(&sample->highest));
    for (int64_t n = 0; n < best->count; n++) highest = fmaxf(highest, best->values[n]);
    best->count = worker->found[query].count = 0; /* the scan finds these items again */
    return highest;
}

/* Seeds of one query; in small collections whose means prune, all of its survivors. */
static void find_seeds(Worker *worker, int64_t query, int64_t items, int64_t step, Sample *sample) {
    Job *job = worker->job;
    int64_t count = draw(worker, query, step, sample), left = 0;
    if (count < sample->highest.k) return;
    float highest = estimate_seeds(worker, query, sample, count);
    for (int64_t n = 0; n < count; n++) left += sample->bounds[n] >= highest;
    if (!means_pay(job, (double)left / (double)count)) {
        worker->pause = MAX_PAUSE;
    } else if (items <= SMALL) {
        count = draw(worker, query, 1, sample);
        estimate_seeds(worker, query, sample, count);
        scan_sample(worker, query, sample, sample->bounds, get(job->threshold + query));
        job->scanned[query] = 1;
    }
}

/* Find seeds, query by query. */
static void *seed(void *argument) {
    Worker *worker = argument;
    Job *job = worker->job;
    int64_t items = 0;
    for (int64_t p = 0; p < job->collection->parts; p++) items += job->collection->part[p].items;
    int64_t step = items / SAMPLED > SPACING ? items / SAMPLED : SPACING;
    int64_t most = items <= SMALL ? items : SAMPLED + items / step + BLOCK * job->collection->parts;
    Sample *sample = new_sample(job, most);
    if (!sample) return NULL;
    for (int64_t query; (query = atomic_fetch_add(&job->next, 1)) < job->queries->count;)
        find_seeds(worker, query, items, step, sample);
    keep_sample(sample);
    return NULL;
}

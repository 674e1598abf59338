/* Scores from the original sets, and the k best items of each query. */
#pragma once
#include "seeds.h"

static const double MAX_PLAIN_ALPHA = 600; /* up to this, e^(alpha c) is a normal double */

/* An item and the number of its cosines among those computed for the query. */
typedef struct {
    double score;
    int64_t position, slot;
} Candidate;

/* The scored items of a query. */
typedef struct {
    Candidate *items;
    double *cosines; /* (capacity, query elements, elements) */
    int64_t count, capacity;
} Ranking;

/* sum_i log sum_j e^(alpha c_ij) / alpha over the rows or columns of a matrix. */
static double sum_of_log_sums(const double *pairs, int64_t rows, int64_t row_stride,
                              int64_t columns, int64_t column_stride, double alpha) {
    double total = 0;
    for (int64_t i = 0; i < rows; i++) {
        const double *row = pairs + i * row_stride;
        double largest = row[0], sum = 0;
        for (int64_t j = 1; j < columns; j++) largest = fmax(largest, row[j * column_stride]);
        for (int64_t j = 0; j < columns; j++) sum += exp(alpha * (row[j * column_stride] - largest));
        total += largest + log(sum) / alpha;
    }
    return total;
}

/* Smooth-Chamfer (Eq. 6) of cosines (query elements, elements). */
static double smooth_chamfer(const double *pairs, int64_t rows, int64_t columns, double alpha) {
    enum { FEW = 16 };
    if (rows > FEW || columns > FEW || alpha > MAX_PLAIN_ALPHA)
        return sum_of_log_sums(pairs, rows, columns, columns, 1, alpha) / (double)(2 * rows)
               + sum_of_log_sums(pairs, columns, 1, rows, columns, alpha) / (double)(2 * columns);
    double row_sums[FEW] = {0}, column_sums[FEW] = {0}, row_logs = 0, column_logs = 0;
    for (int64_t i = 0; i < rows; i++) /* one exponential serves both sums */
        for (int64_t j = 0; j < columns; j++) {
            double exponential = exp(alpha * pairs[i * columns + j]);
            row_sums[i] += exponential;
            column_sums[j] += exponential;
        }
    if (alpha * (double)(rows > columns ? rows : columns) < MAX_PLAIN_ALPHA) {
        double row_product = 1, column_product = 1; /* one logarithm for all */
        for (int64_t i = 0; i < rows; i++) row_product *= row_sums[i];
        for (int64_t j = 0; j < columns; j++) column_product *= column_sums[j];
        row_logs = log(row_product);
        column_logs = log(column_product);
    } else {
        for (int64_t i = 0; i < rows; i++) row_logs += log(row_sums[i]);
        for (int64_t j = 0; j < columns; j++) column_logs += log(column_sums[j]);
    }
    return (row_logs / (double)rows + column_logs / (double)columns) / (2 * alpha);
}

static const Part *part_at(const Collection *collection, int64_t position) {
    const Part *part = collection->part;
    while (position >= part->first + part->items) part++;
    return part;
}

static int reserve(Ranking *ranking, int64_t pairs) {
    if (ranking->count < ranking->capacity) return 1;
    int64_t capacity = 2 * ranking->capacity + 64;
    Candidate *items = realloc(ranking->items, capacity * sizeof *items);
    if (items) ranking->items = items;
    double *cosines = realloc(ranking->cosines, capacity * pairs * sizeof *cosines);
    if (cosines) ranking->cosines = cosines;
    if (!items || !cosines) return 0;
    ranking->capacity = capacity;
    return 1;
}

/* Ask for the set of an item before it is needed. */
static void fetch_set(const Collection *collection, int64_t position) {
    if (position < 0) return;
    const Part *part = part_at(collection, position);
    const int64_t numbers = collection->elements * collection->dim, step = LINE / sizeof(float);
    const float *set = part->sets + (position - part->first) * numbers;
    for (int64_t n = 0; n < numbers; n += step) __builtin_prefetch(set + n, 0, 0);
}

/* Score one item in float64. */
static double score_item(Worker *worker, Ranking *ranking, int64_t query, int64_t position) {
    const Job *job = worker->job;
    const Collection *collection = job->collection;
    const int64_t rows = job->queries->elements, columns = collection->elements;
    const int64_t dim = collection->dim;
    const Part *part = part_at(collection, position);
    const int64_t item = position - part->first;
    if (!reserve(ranking, rows * columns)) {
        atomic_store(&worker->job->out_of_memory, 1);
        return 0;
    }
    if (part->checked_sets && !part->checked_sets[item]
        && !append(&worker->unchecked, &(Item){.position = position}, 1))
        atomic_store(&worker->job->out_of_memory, 1);
    double *cosines = ranking->cosines + ranking->count * rows * columns;
    multiply_sets(job->queries->sets + query * rows * dim, rows,
                  part->sets + item * columns * dim, columns, dim, cosines);
    double score = smooth_chamfer(cosines, rows, columns, collection->alpha);
    if (!(score > -2)) score = -2; /* not a number: a damaged set, which is noticed later */
    ranking->items[ranking->count] = (Candidate){score, position, ranking->count};
    ranking->count++;
    return score;
}

static int by_score(const void *a, const void *b) {
    const Candidate *x = a, *y = b;
    if (x->score != y->score) return x->score < y->score ? 1 : -1;
    return x->position < y->position ? -1 : 1; /* ties: the older item first */
}

/* Copy the k best items to the results. */
static void finish(const Job *job, Ranking *ranking, int64_t query) {
    const Found *found = job->found;
    int64_t pairs = job->queries->elements * job->collection->elements;
    if (ranking->count) qsort(ranking->items, ranking->count, sizeof *ranking->items, by_score);
    int64_t count = ranking->count < job->k ? ranking->count : job->k;
    found->counts[query] = count;
    for (int64_t n = 0; n < count; n++) {
        const Candidate *item = ranking->items + n;
        found->positions[query * job->k + n] = item->position;
        found->scores[query * job->k + n] = item->score;
        memcpy(found->cosines + (query * job->k + n) * pairs,
               ranking->cosines + item->slot * pairs, pairs * sizeof *found->cosines);
    }
}

static int by_upper(const void *a, const void *b) {
    float x = ((const Item *)a)->upper, y = ((const Item *)b)->upper;
    return (x < y) - (x > y);
}

/* Score the survivors of a query, highest bound first, until no other can be among the k best. */
static void score_survivors(Worker *worker, Ranking *ranking, int64_t query) {
    Job *job = worker->job;
    List *list = job->survivors + query;
    Heap *best = worker->best + query;
    best->count = 0;
    if (list->count) qsort(list->items, list->count, sizeof *list->items, by_upper);
    for (int64_t n = 0; n < list->count && list->items[n].upper >= kth(best); n++) {
        if (n + 1 < list->count) fetch_set(job->collection, list->items[n + 1].position);
        double score = score_item(worker, ranking, query, list->items[n].position);
        push(best, (float)score - job->collection->rounding);
    }
}

/* Rank the survivors of a scan, or the given candidates, query by query. */
static void *rank(void *argument) {
    Worker *worker = argument;
    Job *job = worker->job;
    Ranking ranking = {0};
    for (int64_t query; (query = atomic_fetch_add(&job->next, 1)) < job->queries->count;) {
        ranking.count = 0;
        if (!job->candidates) score_survivors(worker, &ranking, query);
        const int64_t *candidates = job->candidates + query * job->candidate_count;
        for (int64_t n = 0; n < job->candidate_count && n < 2; n++) fetch_set(job->collection, candidates[n]);
        for (int64_t n = 0; n < job->candidate_count; n++) {
            if (n + 2 < job->candidate_count) fetch_set(job->collection, candidates[n + 2]);
            if (candidates[n] >= 0) score_item(worker, &ranking, query, candidates[n]);
        }
        if (!atomic_load(&job->out_of_memory)) finish(job, &ranking, query);
    }
    free(ranking.items);
    free(ranking.cosines);
    return NULL;
}

/* Search over embedding sets, called by compiled.py.
 *
 * It finds the k best of all items exactly: a scan over 8-bit codes leaves a few survivors, which
 * are scored from their original sets. Given candidates, it ranks only those.
 *
 * Compiled once per instruction set (hatch_build.py): products of codes have intrinsics for AVX-512
 * VNNI, everything else is left to the compiler. Threads are started per call and end with it, so
 * nothing spins, and a fork between calls is safe.
 */
#include <pthread.h>

#include "score.h"

enum { MAX_CLAIM = 16 }; /* blocks that a thread claims at once */

/* Run a function in `threads` threads, this one among them; fewer if the system refuses more. */
static void run(void *(*function)(void *), Worker *workers, int64_t threads, pthread_t *handles) {
    int64_t started = 1;
    for (; started < threads; started++)
        if (pthread_create(handles + started, NULL, function, workers + started)) break;
    function(workers);
    for (int64_t n = 1; n < started; n++) pthread_join(handles[n], NULL);
}

/* Copy the codes of all queries with padding: zeros, and repetitions of the last element. */
static void pad_codes(Job *job) {
    const Queries *queries = job->queries;
    int64_t dim = job->collection->dim;
    for (int64_t n = 0; n < queries->count * job->rows; n++) {
        int64_t query = n / job->rows, element = n % job->rows;
        if (element >= queries->elements) element = queries->elements - 1;
        const int8_t *codes = queries->codes + (query * queries->elements + element) * dim;
        memcpy(job->codes + n * job->width, codes, dim);
        for (int64_t d = 0; d < dim; d++) job->offsets[n] += 128 * codes[d];
    }
}

static void *allocate(int64_t bytes) {
    return aligned_alloc(ALIGN, padded(bytes > 0 ? bytes : 1, ALIGN));
}

/* Memory of a worker; returns 0 if there is not enough. */
static int prepare(Worker *worker, Job *job) {
    int64_t count = job->queries->count, elements = job->collection->elements;
    int64_t pairs = padded(elements * job->rows, LANES) * (int64_t)sizeof(float);
    worker->job = job;
    worker->found = calloc(count, sizeof *worker->found);
    worker->best = calloc(count, sizeof *worker->best);
    Scratch *scratch = &worker->scratch;
    scratch->products = allocate(pairs);
    scratch->nearest = allocate(job->rows * (int64_t)sizeof(int32_t));
    scratch->largest = allocate(elements * (int64_t)sizeof(int32_t));
    scratch->by_row = allocate(pairs);
    scratch->by_column = allocate(pairs);
    if (!worker->found || !worker->best || !scratch->products || !scratch->nearest
        || !scratch->largest || !scratch->by_row || !scratch->by_column)
        return 0;
    for (int64_t n = 0; n < count; n++) {
        worker->best[n].k = job->k;
        worker->best[n].values = malloc(job->k * sizeof(float));
        if (!worker->best[n].values) return 0;
    }
    return 1;
}

static void release(Worker *worker, int64_t count) {
    for (int64_t n = 0; n < count; n++) {
        if (worker->found) free(worker->found[n].items);
        if (worker->best) free(worker->best[n].values);
    }
    free(worker->found);
    free(worker->best);
    free(worker->unchecked.items);
    free(worker->scratch.products);
    free(worker->scratch.nearest);
    free(worker->scratch.largest);
    free(worker->scratch.by_row);
    free(worker->scratch.by_column);
}

/* Scan all items for the survivors of each query. */
static void find_survivors(Job *job, Worker *workers, int64_t threads, pthread_t *handles) {
    for (int64_t p = 0; p < job->collection->parts; p++)
        job->blocks += (job->collection->part[p].items + BLOCK - 1) / BLOCK;
    job->claim = job->blocks / (threads * 16) + 1;
    job->claim = job->claim > MAX_CLAIM ? MAX_CLAIM : job->claim;
    for (int64_t n = 0; n < job->queries->count; n++) atomic_init(job->threshold + n, -INFINITY);
    pad_codes(job);
    run(scan, workers, threads, handles);
    for (int64_t n = 0; n < job->queries->count; n++)
        for (int64_t worker = 0; worker < threads; worker++) {
            const List *found = workers[worker].found + n;
            if (!append(job->survivors + n, found->items, found->count))
                atomic_store(&job->out_of_memory, 1);
        }
    atomic_store(&job->next, 0);
}

/* Positions of unchecked sets that were read; the caller frees them by `diverset_free`. */
static int64_t *unchecked_sets(const Worker *workers, int64_t threads, int64_t *count) {
    *count = 0;
    for (int64_t n = 0; n < threads; n++) *count += workers[n].unchecked.count;
    if (!*count) return NULL;
    int64_t *positions = malloc(*count * sizeof *positions), to = 0;
    for (int64_t n = 0; positions && n < threads; n++)
        for (int64_t m = 0; m < workers[n].unchecked.count; m++)
            positions[to++] = workers[n].unchecked.items[m].position;
    return positions;
}

/* Find the k best of all items, or of `candidates` if they are given. `unchecked` receives the sets
 * that were read and are not checked yet. Returns 0 if there is not enough memory. */
int diverset_search(const Collection *collection, const Queries *queries, int64_t k,
                    int64_t threads, const int64_t *candidates, int64_t candidate_count,
                    Found *found, int64_t **unchecked, int64_t *unchecked_count) {
    Job job = {.collection = collection, .queries = queries, .k = k, .found = found,
               .candidates = candidates, .candidate_count = candidate_count};
    int64_t count = queries->count;
    job.rows = padded(queries->elements, GROUP);
    job.width = padded(collection->dim, ALIGN);
    job.codes = calloc(count * job.rows, job.width);
    job.offsets = calloc(count * job.rows, sizeof *job.offsets);
    job.threshold = malloc(count * sizeof *job.threshold);
    job.survivors = calloc(count, sizeof *job.survivors);
    Worker *workers = calloc(threads, sizeof *workers);
    pthread_t *handles = calloc(threads, sizeof *handles);
    int ready = job.codes && job.offsets && job.threshold && job.survivors && workers && handles;
    for (int64_t n = 0; ready && n < threads; n++) ready = prepare(workers + n, &job);
    if (ready) {
        if (!candidates) find_survivors(&job, workers, threads, handles);
        if (!atomic_load(&job.out_of_memory))
            run(rank, workers, threads < count ? threads : count, handles);
        *unchecked = unchecked_sets(workers, threads, unchecked_count);
        ready = !atomic_load(&job.out_of_memory) && (*unchecked || !*unchecked_count);
    }
    for (int64_t n = 0; job.survivors && n < count; n++) free(job.survivors[n].items);
    for (int64_t n = 0; workers && n < threads; n++) release(workers + n, count);
    free(job.codes);
    free(job.offsets);
    free(job.threshold);
    free(job.survivors);
    free(workers);
    free(handles);
    return ready;
}

void diverset_free(void *memory) { free(memory); }

/* Whether this processor has the instructions that this file was compiled for. */
int diverset_supported(void) {
#if defined(__AVX512VNNI__)
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw")
           && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
#elif defined(__AVX2__)
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return 1;
#endif
}

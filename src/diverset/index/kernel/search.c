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

static void *allocate(int64_t bytes) {
    return aligned_alloc(ALIGN, padded(bytes > 0 ? bytes : 1, ALIGN));
}

/* Memory of a worker; returns 0 if there is not enough. */
static int prepare(Worker *worker, Job *job) {
    int64_t count = job->queries->count, elements = job->collection->elements;
    int64_t vectors = (BLOCK + 1) * elements + GROUP + AHEAD; /* with those that follow */
    Scratch *scratch = &worker->scratch;
    worker->job = job;
    worker->found = calloc(count, sizeof *worker->found);
    worker->best = calloc(count, sizeof *worker->best);
    scratch->vectors = allocate(vectors * (int64_t)sizeof *scratch->vectors);
    scratch->products = allocate(vectors * job->rows * (int64_t)sizeof(int32_t));
    scratch->pairs = allocate(elements * job->rows * (int64_t)sizeof *scratch->pairs);
    scratch->exponents = allocate((elements + job->rows + LANES) * (int64_t)sizeof(float));
    if (!worker->found || !worker->best || !scratch->vectors || !scratch->products
        || !scratch->pairs || !scratch->exponents)
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
    free(worker->scratch.vectors);
    free(worker->scratch.products);
    free(worker->scratch.pairs);
    free(worker->scratch.exponents);
}

/* Quantize all queries; returns 0 if there is not enough memory. */
static int quantize_queries(Job *job) {
    int64_t count = job->queries->count, elements = job->queries->elements, rows = job->rows;
    int64_t dim = job->collection->dim;
    float *memory = malloc(2 * dim * sizeof *memory);
    job->query = malloc(count * sizeof *job->query);
    job->codes = allocate(count * rows * job->width);
    job->offsets = calloc(count * rows, sizeof *job->offsets);
    job->threshold = malloc(count * sizeof *job->threshold);
    job->scanned = calloc(count, 1);
    int ready = memory && job->query && job->codes && job->offsets && job->threshold && job->scanned;
    if (ready) memset(job->codes, 0, count * rows * job->width);
    for (int64_t n = 0; ready && n < count; n++) {
        job->query[n] = quantize(job->collection, job->queries->sets + n * elements * dim, elements,
                                 rows, job->width, job->codes + n * rows * job->width,
                                 job->offsets + n * rows, memory);
        atomic_init(job->threshold + n, -INFINITY);
    }
    free(memory);
    return ready;
}

/* Scan all items for the survivors of each query. */
static void find_survivors(Job *job, Worker *workers, int64_t threads, pthread_t *handles) {
    for (int64_t p = 0; p < job->collection->parts; p++)
        job->blocks += (job->collection->part[p].items + BLOCK - 1) / BLOCK;
    job->claim = job->blocks / (threads * 16) + 1;
    job->claim = job->claim > MAX_CLAIM ? MAX_CLAIM : job->claim;
    run(seed, workers, threads < job->queries->count ? threads : job->queries->count, handles);
    int64_t pause = 0; /* if one worker has found that means do not prune, all begin without them */
    for (int64_t n = 0; n < threads; n++) pause = workers[n].pause ? workers[n].pause : pause;
    for (int64_t n = 0; n < threads; n++) workers[n].pause = pause;
    atomic_store(&job->next, 0);
    if (memchr(job->scanned, 0, job->queries->count)) run(scan, workers, threads, handles);
    for (int64_t n = 0; n < job->queries->count; n++)
        for (int64_t worker = 0; worker < threads; worker++) {
            List *found = workers[worker].found + n;
            drop_below(found, get(job->threshold + n));
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
    job.survivors = calloc(count, sizeof *job.survivors);
    Worker *workers = calloc(threads, sizeof *workers);
    pthread_t *handles = calloc(threads, sizeof *handles);
    int ready = job.survivors && workers && handles && (candidates || quantize_queries(&job));
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
    free(job.query);
    free(job.codes);
    free(job.offsets);
    free(job.threshold);
    free(job.scanned);
    free(job.survivors);
    free(workers);
    free(handles);
    return ready;
}

/* Changes with the structures in collection.h: compiled.py looks for it by name. */
const int diverset_interface_2 = 1;

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

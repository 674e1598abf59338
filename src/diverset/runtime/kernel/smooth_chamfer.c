/* Smooth-Chamfer (Eq. 6) of a block of cosines, called by similarity/compiled.py.
 *
 * Cosines are (images, slots, text slots, texts) in float32 or bfloat16. They are read once, and
 * nothing but the scores is written. The threads are those of OpenMP, which torch uses as well.
 */
#include "vectors.h"

enum { MAX_SLOTS = 32 };

typedef struct {
    int64_t images, slots, text_slots, texts;
    int32_t is_bfloat16;
    float alpha;
} Shape;

/* `count` numbers of a row, and zeros up to a whole vector. */
static INLINE Vector read(const void *numbers, int64_t first, int64_t count, int is_bfloat16) {
    if (is_bfloat16) {
        Halves halves = {0};
        const uint16_t *from = (const uint16_t *)numbers + first;
        if (count == LANES) memcpy(&halves, from, sizeof halves);
        else memcpy(&halves, from, count * sizeof *from);
        return (Vector)(__builtin_convertvector(halves, Integers) << 16);
    }
    Vector vector = {0};
    const float *from = (const float *)numbers + first;
    if (count == LANES) memcpy(&vector, from, sizeof vector);
    else memcpy(&vector, from, count * sizeof *from);
    return vector;
}

/* The scores of one image and up to LANES texts. The sums of a set are multiplied first, so that
 * it takes one logarithm; the caller makes sure that the product is a normal number. */
static INLINE Vector score(const Shape *shape, const void *cosines, int64_t first, int64_t count,
                           int64_t slots, int64_t text_slots, int is_bfloat16) {
    const float rate = shape->alpha * 1.44269504f;
    Vector over_x[MAX_SLOTS] = {{0}}, product_x = (Vector){0} + 1.0f, product_y = product_x;
    for (int64_t x = 0; x < slots; x++) {
        Vector over_y = {0};
        for (int64_t y = 0; y < text_slots; y++) {
            int64_t row = (x * text_slots + y) * shape->texts;
            Vector e = power_of_two(read(cosines, first + row, count, is_bfloat16) * rate);
            over_y += e;
            over_x[y] += e;
        }
        product_y *= over_y;
    }
    for (int64_t y = 0; y < text_slots; y++) product_x *= over_x[y];
    float half = 0.5f / shape->alpha;
    return logarithm(product_y) * (half / slots) + logarithm(product_x) * (half / text_slots);
}

static INLINE void score_image(const Shape *shape, const void *cosines, int64_t image,
                               int64_t slots, int64_t text_slots, int is_bfloat16, float *scores) {
    int64_t start = image * slots * text_slots * shape->texts;
    for (int64_t text = 0; text < shape->texts; text += LANES) {
        int64_t count = shape->texts - text < LANES ? shape->texts - text : LANES;
        Vector found = score(shape, cosines, start + text, count, slots, text_slots, is_bfloat16);
        memcpy(scores + image * shape->texts + text, &found, count * sizeof(float));
    }
}

/* 0 if there are more slots than it has memory for. */
int diverset_smooth_chamfer(const Shape *shape, const void *cosines, float *scores, int threads) {
    int64_t slots = shape->slots, text_slots = shape->text_slots;
    int four = slots == 4 && text_slots == 4, half = shape->is_bfloat16;
    if (text_slots > MAX_SLOTS) return 0;
#pragma omp parallel for schedule(dynamic, 4) num_threads(threads) if (threads > 1)
    for (int64_t image = 0; image < shape->images; image++) {
        /* With constants, the compiler unrolls the loops. */
        if (four && half) score_image(shape, cosines, image, 4, 4, 1, scores);
        else if (four) score_image(shape, cosines, image, 4, 4, 0, scores);
        else if (half) score_image(shape, cosines, image, slots, text_slots, 1, scores);
        else score_image(shape, cosines, image, slots, text_slots, 0, scores);
    }
    return 1;
}

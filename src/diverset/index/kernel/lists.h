/* The k largest of some numbers, a threshold that threads share, and a list that grows. */
#pragma once
#include <math.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    int64_t position;
    float score, upper; /* an estimate, later the score; a bound of the true score */
} Item;

typedef struct {
    Item *items;
    int64_t count, capacity;
} List;

/* The k largest numbers seen, the smallest of them first. */
typedef struct {
    float *values;
    int64_t count, k;
} Heap;

static void push(Heap *heap, float value) {
    float *values = heap->values;
    int64_t n = 0;
    if (heap->count < heap->k) {
        n = heap->count++;
        for (; n > 0 && values[(n - 1) / 2] > value; n = (n - 1) / 2)
            values[n] = values[(n - 1) / 2];
    } else {
        if (!(value > values[0])) return;
        for (int64_t child; (child = 2 * n + 1) < heap->k; n = child) {
            if (child + 1 < heap->k && values[child + 1] < values[child]) child++;
            if (values[child] >= value) break;
            values[n] = values[child];
        }
    }
    values[n] = value;
}

/* The k-th largest number; -infinity before there are k. */
static float kth(const Heap *heap) {
    return heap->count == heap->k ? heap->values[0] : -INFINITY;
}

static float get(_Atomic float *threshold) {
    return atomic_load_explicit(threshold, memory_order_relaxed);
}

/* Raise a threshold to a value; returns the larger one. */
static float raise(_Atomic float *threshold, float value) {
    float old = get(threshold);
    while (value > old && !atomic_compare_exchange_weak(threshold, &old, value)) {}
    return value > old ? value : old;
}

/* Returns 0 if there is not enough memory. */
static int append(List *list, const Item *items, int64_t count) {
    if (list->count + count > list->capacity) {
        int64_t capacity = 2 * list->capacity + count + 64;
        Item *larger = realloc(list->items, capacity * sizeof *larger);
        if (!larger) return 0;
        list->items = larger;
        list->capacity = capacity;
    }
    memcpy(list->items + list->count, items, count * sizeof *items);
    list->count += count;
    return 1;
}

/* Drop the items whose bound is below a threshold. */
static void drop_below(List *list, float threshold) {
    int64_t kept = 0;
    for (int64_t n = 0; n < list->count; n++) {
        list->items[kept] = list->items[n];
        kept += list->items[n].upper >= threshold;
    }
    list->count = kept;
}

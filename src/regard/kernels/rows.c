/* Operations on each row of a table: norms, and the largest numbers of a row with the logarithm of the sum. */

#include "row.h"

struct table {
    const float *from, *scale, *shift;
    float *to;
    long rows, width, best;
    float eps;
    int rms;
    int64_t *index;
};

static int norm_part(void *task) {
    const struct table *t = task;
    long first, last;
    for (share(t->rows, 1, &first, &last); first < last; first++)
        norm_row(t->from + first * t->width, t->width, t->scale, t->shift, t->eps, t->rms, t->to + first * t->width);
    return DONE;
}

int norm(const float *x, long rows, long width, const float *scale, const float *shift, float eps, int rms, float *y,
          long threads) {
    struct table task = {.from = x, .scale = scale, .shift = shift, .to = y, .rows = rows, .width = width, .eps = eps, .rms = rms};
    return in_parallel(norm_part, &task, rows * width < 65536 ? 1 : threads);
}

/* log Σ exp a = max a + log Σ exp(a - max a). Two passes over a row while it is in the cache. */
static int normalizer_part(void *task) {
    const struct table *t = task;
    long first, last, width = t->width, whole = width / LANES * LANES;
    for (share(t->rows, 1, &first, &last); first < last; first++) {
        const float *a = t->from + first * width;
        vec most = all(-__builtin_inff()), total = {0};
        for (long i = 0; i < whole; i += LANES) most = larger(load(a + i), most);
        float peak = largest(most), rest[LANES];
        for (int i = 0; i < LANES; i++) rest[i] = -__builtin_inff();
        for (long i = whole; i < width; i++) peak = a[i] > peak ? a[i] : peak, rest[i - whole] = a[i];
        for (long i = 0; i < whole; i += LANES) total += exponential(load(a + i) - peak);
        total += exponential(load(rest) - peak);
        t->to[first] = peak + __builtin_logf(sum(total));
        if (!__builtin_isinf(peak)) continue;
        t->to[first] = peak; /* as in torch: the sum of infinities is defined, that of NaN is not */
        for (long i = 0; i < width; i++)
            if (a[i] != a[i]) t->to[first] = a[i];
    }
    return DONE;
}

int normalizer(const float *logits, long rows, long width, float *out, long threads) {
    struct table task = {.from = logits, .to = out, .rows = rows, .width = width};
    return in_parallel(normalizer_part, &task, rows == 1 ? 1 : threads);
}

/* The n best of a row, best first, NaN before all numbers as in torch. Of G = 4 · LANES groups (every G-th word), the
   n-th best maximum is a number that n words reach: only words that reach it, which are few, are put in order. n is at
   most G. */
#define GROUPS (4 * LANES)

static inline int is_above(float x, float y) { return x > y || (x != x && y == y); }

/* Insert x into `count` sorted numbers; return the new count, at most n. */
static long put(float *value, int64_t *index, long count, long n, float x, int64_t place) {
    if (count == n && !is_above(x, value[n - 1])) return n;
    long i = count < n ? count : n - 1;
    for (; i > 0 && is_above(x, value[i - 1]); i--) value[i] = value[i - 1], index[i] = index[i - 1];
    value[i] = x, index[i] = place;
    return count < n ? count + 1 : n;
}

static int best_part(void *task) {
    const struct table *t = task;
    long first, last, width = t->width, n = t->best, whole = width / GROUPS * GROUPS;
    for (share(t->rows, 1, &first, &last); first < last; first++) {
        const float *a = t->from + first * width;
        float *value = t->to + first * n, tops[GROUPS], floor = -__builtin_inff();
        int64_t *index = t->index + first * n, ignored[GROUPS];
        for (long j = 0; j < n; j++) tops[j] = floor;
        if (whole) {
            vec most[4];
            for (int g = 0; g < 4; g++) most[g] = load(a + g * LANES);
            for (long i = GROUPS; i < whole; i += GROUPS)
                for (int g = 0; g < 4; g++) most[g] = larger(load(a + i + g * LANES), most[g]);
            for (int g = 0; g < GROUPS; g++) put(tops, ignored, n, n, most[g / LANES][g % LANES], g);
            floor = tops[n - 1];
        }
        long count = 0;
        for (long i = 0; i < whole; i += LANES) {
            ivec reach = (load(a + i) < floor) == 0; /* NaN passes any floor */
            int64_t any[LANES / 2], found = 0;
            memcpy(any, &reach, sizeof reach);
            for (int j = 0; j < LANES / 2; j++) found |= any[j];
            if (found)
                for (long j = i; j < i + LANES; j++)
                    if (!(a[j] < floor)) count = put(value, index, count, n, a[j], j);
        }
        for (long j = whole; j < width; j++) count = put(value, index, count, n, a[j], j);
    }
    return DONE;
}

long most_best(void) { return GROUPS; }

int best(const float *logits, long rows, long width, long n, float *value, int64_t *index, long threads) {
    struct table task = {.from = logits, .to = value, .rows = rows, .width = width, .best = n, .index = index};
    return in_parallel(best_part, &task, rows == 1 ? 1 : threads);
}

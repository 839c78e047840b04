/* Fused passes over large tables in training. */

#include "vectors.h"

/* A table of logits becomes the gradient of its cross-entropy, except for the part that all words share (see layers/loss.py):

       loss_n = log Σ_v exp a_nv − (1 − ε) a_n[y_n]        a_n ← softmax(a_n) − (1 − ε) onehot(y_n) */
struct entropy {
    float *table, *loss, smoothing;
    const int64_t *target;
    int64_t *right;
    long rows, words;
};

static int entropy_part(void *task) {
    const struct entropy *e = task;
    long first, last, words = e->words, whole = words / LANES * LANES;
    for (share(e->rows, 1, &first, &last); first < last; first++) {
        float *a = e->table + first * words, rest[LANES];
        vec most = all(-__builtin_inff()), total = {0};
        for (int i = 0; i < LANES; i++) rest[i] = whole + i < words ? a[whole + i] : -__builtin_inff();
        for (long i = 0; i <= whole; i += LANES) most = larger(load(i < whole ? a + i : rest), most);
        if (e->target[first] < 0 || e->target[first] >= words) return NO_SUCH_TARGET;
        float peak = largest(most);
        float wanted = a[e->target[first]];
        for (long i = 0; i < whole; i += LANES) {
            vec power = exponential(load(a + i) - peak);
            total += power;
            store(a + i, power);
        }
        vec power = exponential(load(rest) - peak);
        store(rest, power);
        float sum_of = sum(total + power), factor = 1.0f / sum_of;
        for (long i = 0; i < whole; i += LANES) store(a + i, load(a + i) * factor);
        for (long i = whole; i < words; i++) a[i] = rest[i - whole] * factor;
        a[e->target[first]] += e->smoothing - 1.0f;
        e->loss[first] = peak + __builtin_logf(sum_of) - (1.0f - e->smoothing) * wanted;
        e->right[first] = wanted >= peak;
    }
    return DONE;
}

int training_entropy(float *table, long rows, long words, const int64_t *target, float smoothing, float *loss,
                      int64_t *right, long threads) {
    struct entropy task = {table, loss, smoothing, target, right, rows, words};
    return in_parallel(entropy_part, &task, threads);
}

/* out = y m / (1 − p), or x + y m / (1 − p): m is 0 with probability p, drawn for each element by its place and a seed.
   32 bits are mixed from the place, twice, since the first time the seed has 32 bits of its own (the mixer: Wellons 2018,
   "Prospecting for hash functions", nullprogram.com); each half of them decides over one element. Whoever has the seed
   draws the same m again. */
typedef uint32_t uvec __attribute__((vector_size(4 * LANES)));

static inline uvec mixed(uvec x) {
    x ^= x >> 16;
    x *= 0x7feb352dU;
    x ^= x >> 15;
    x *= 0x846ca68bU;
    return x ^ x >> 16;
}

struct dropping {
    const float *x, *y;
    float *out, factor;
    long count;
    uint32_t seed[2], dropped;
};

static int dropping_part(void *task) {
    const struct dropping *d = task;
    long first, last;
    uvec lane;
    for (int i = 0; i < LANES; i++) lane[i] = (uint32_t)i;
    for (share(d->count, 32, &first, &last); first < last; first += 32) {
        float kept[32];
        for (int i = 0; i < 16; i += LANES) {
            uvec bits = mixed(mixed((lane + (uint32_t)(first / 2 + i)) ^ d->seed[0]) ^ d->seed[1]);
            store(kept + i, (vec)((ivec)all(d->factor) & (ivec)((bits & 0xffffU) >= d->dropped)));
            store(kept + 16 + i, (vec)((ivec)all(d->factor) & (ivec)((bits >> 16) >= d->dropped)));
        }
        long here = last - first < 32 ? last - first : 32;
        const float *x = d->x ? d->x + first : 0, *y = d->y + first;
        float *out = d->out + first;
        if (here == 32)
            for (int i = 0; i < 32; i += LANES) {
                vec v = load(y + i) * load(kept + i);
                store(out + i, x ? load(x + i) + v : v);
            }
        else
            for (long i = 0; i < here; i++) out[i] = (x ? x[i] : 0.0f) + y[i] * kept[i];
    }
    return DONE;
}

int training_dropout(const float *x, const float *y, long count, int64_t seed, long dropped, float factor, float *out,
                      long threads) {
    struct dropping task = {x, y, out, factor, count, {(uint32_t)seed, (uint32_t)((uint64_t)seed >> 32)}, (uint32_t)dropped};
    return in_parallel(dropping_part, &task, count < 65536 ? 1 : threads);
}

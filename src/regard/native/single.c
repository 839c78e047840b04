/* One step of one text through all blocks of a decoder, in one call:

       x ← x + W_o attention(norm(x))        q, k, v = W norm(x), of which k and v join those of the steps before
       x ← x + W_2 f(W_1 norm(x))            f: relu, gelu, swish, or gated: silu(first half) · second half

   Every matrix is read from memory for one row of numbers, so nothing else may cost time: the threads are called once
   a step, and wait for each other, turning on the spot, between two products. */

#include <sched.h>

#include "panels.h"

enum { RELU, GELU, GELU_TANH, SWISH, GATED };

struct norm {
    const float *scale, *shift;
    float eps;
    int rms;
};

struct layer {
    struct norm before_attention, before_wide;
    struct matrix project, out, widen, narrow;
};

struct step {
    const struct layer *layers;
    float *const *keys, *const *values; /* a layer's: heads, then places, then numbers of a head */
    const float *cosine, *sine;         /* by which halves of queries and keys are turned, or none */
    float *x;
    long count, width, heads, kv_heads, key_width, value_width, places, place, activation;
    float *row, *context, *wide; /* for all threads */
    int waiting, turns;
};

static void wait_for_all(struct step *s) {
    int threads = omp_get_num_threads ? omp_get_num_threads() : 1;
    if (threads == 1) return;
    int turn = __atomic_load_n(&s->turns, __ATOMIC_ACQUIRE);
    if (__atomic_add_fetch(&s->waiting, 1, __ATOMIC_ACQ_REL) == threads) {
        __atomic_store_n(&s->waiting, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&s->turns, turn + 1, __ATOMIC_RELEASE);
        return;
    }
    for (long tries = 0; __atomic_load_n(&s->turns, __ATOMIC_ACQUIRE) == turn; tries++)
        if (tries > 10000) sched_yield(); /* somebody else has the processor of the other thread */
}

/* Queries and keys are turned by their position, keys and values put to their place. */
static void turn_and_keep(const struct step *s, long layer) {
    long first, last, half = s->key_width / 2;
    for (share(s->heads + s->kv_heads, 1, &first, &last); first < last; first++) {
        float *part = s->row + first * s->key_width;
        for (long i = 0; s->cosine && i < half; i++) {
            float a = part[i], b = part[i + half];
            part[i] = a * s->cosine[i] - b * s->sine[i];
            part[i + half] = a * s->sine[i] + b * s->cosine[i];
        }
        if (first < s->heads) continue;
        long head = first - s->heads, at = head * s->places + s->place;
        const float *value = s->row + (s->heads + s->kv_heads) * s->key_width + head * s->value_width;
        memcpy(s->keys[layer] + at * s->key_width, part, sizeof(float) * (size_t)s->key_width);
        memcpy(s->values[layer] + at * s->value_width, value, sizeof(float) * (size_t)s->value_width);
    }
}

/* Σ_j weight_j v_j, four vectors of it at a time, which stay in registers. */
static void weighted_sum(const float *weight, const float *value, long count, long width, float *to) {
    long c = 0;
    for (; c + 4 * LANES <= width; c += 4 * LANES) {
        vec s[4] = {0};
        for (long j = 0; j < count; j++)
            for (int u = 0; u < 4; u++) s[u] += weight[j] * load(value + j * width + c + u * LANES);
        for (int u = 0; u < 4; u++) store(to + c + u * LANES, s[u]);
    }
    memset(to + c, 0, sizeof(float) * (size_t)(width - c));
    for (long j = 0; c < width && j < count; j++) add_scaled(to + c, value + j * width + c, weight[j], width - c);
}

static void attention(const struct step *s, long layer, float *scores) {
    long first, last, count = s->place + 1, group = s->heads / s->kv_heads;
    float scale = 1.0f / __builtin_sqrtf(s->key_width);
    for (share(s->heads, 1, &first, &last); first < last; first++) {
        const float *key = s->keys[layer] + first / group * s->places * s->key_width;
        const float *value = s->values[layer] + first / group * s->places * s->value_width;
        for (long j = 0; j < count; j++)
            scores[j] = scale * dot(s->row + first * s->key_width, key + j * s->key_width, s->key_width);
        softmax(scores, count);
        weighted_sum(scores, value, count, s->value_width, s->context + first * s->value_width);
    }
}

/* x σ(x); below -87, where e^-x has no float, it is as good as 0. */
static inline vec swish(vec x, vec inside) { return x / (1.0f + exponential(-larger(inside, all(-87.0f)))); }

static void activate(const struct step *s, long hidden) {
    long first, last;
    for (share(hidden, LANES, &first, &last); first < last; first += LANES) { /* there is room for a whole vector */
        vec x = load(s->wide + first);
        if (s->activation == GATED) x = swish(x, x) * load(s->wide + hidden + first);
        else if (s->activation == RELU) x = larger(x, (vec){0});
        else if (s->activation == SWISH) x = swish(x, x);
        else if (s->activation == GELU_TANH) /* x (1 + tanh u) / 2 = x σ(2u) */
            x = swish(x, 1.59576912f * (x + 0.044715f * x * x * x));
        else for (int i = 0; i < LANES; i++) x[i] *= 0.5f * (1.0f + __builtin_erff(x[i] * 0.70710678f));
        if (last - first >= LANES) store(s->wide + first, x);
        else for (int i = 0; i < last - first; i++) s->wide[first + i] = x[i];
    }
}

static void step_part(void *task) {
    struct step *s = task;
    float *own = malloc(sizeof(float) * (size_t)(s->width + s->place + 1 + LANES)), *scores = own + s->width;
    for (long n = 0; n < s->count; n++) {
        const struct layer *l = s->layers + n;
        const struct norm *a = &l->before_attention, *b = &l->before_wide;
        norm_row(s->x, s->width, a->scale, a->shift, a->eps, a->rms, own);
        row_product(&l->project, own, s->row, 0), wait_for_all(s);
        turn_and_keep(s, n), wait_for_all(s);
        attention(s, n, scores), wait_for_all(s);
        row_product(&l->out, s->context, s->x, 1), wait_for_all(s);
        norm_row(s->x, s->width, b->scale, b->shift, b->eps, b->rms, own);
        row_product(&l->widen, own, s->wide, 0), wait_for_all(s);
        activate(s, l->narrow.inputs), wait_for_all(s);
        row_product(&l->narrow, s->wide, s->x, 1), wait_for_all(s);
    }
    free(own);
}

void single_step(const struct layer *layers, long count, long width, long heads, long kv_heads, long key_width,
                 long value_width, long hidden, long activation, float *const *keys, float *const *values, long places,
                 long place, const float *cosine, const float *sine, float *x, long threads) {
    long row = (heads + kv_heads) * key_width + kv_heads * value_width, context = heads * value_width;
    float *room = malloc(sizeof(float) * (size_t)(row + context + 2 * hidden + LANES));
    struct step task = {.layers = layers, .keys = keys, .values = values, .cosine = cosine, .sine = sine, .x = x,
        .count = count, .width = width, .heads = heads, .kv_heads = kv_heads, .key_width = key_width,
        .value_width = value_width, .places = places, .place = place, .activation = activation,
        .row = room, .context = room + row, .wide = room + row + context};
    in_parallel(step_part, &task, width * hidden < 65536 ? 1 : threads);
    free(room);
}

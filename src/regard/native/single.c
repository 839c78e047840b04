/* One step of one text through all blocks of a decoder, in one call:

       x ← x + W_o attention(norm(x))        q, k, v = W norm(x), of which k and v join those of the steps before
       x ← x + W_2 f(W_1 norm(x))            f: relu, gelu, swish, or gated: silu(first half) · second half

   Every matrix is read from memory for one row of numbers, so nothing else may cost time. Threads are called once a
   step. A layer has seven stages, each of many pieces. A thread has a part of the pieces, which lie side by side in
   memory, and when that is done it helps the others; the next stage begins when all pieces are done. So a thread that
   waits for a processor, which another program has, holds nobody up but with the piece that it is at. */

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
    long *taken;                 /* of a stage: pieces of each thread's part that are taken, and all that are done */
};

/* A query or a key is turned by its position; a key and its value are put to their place. */
static void turn_and_keep(const struct step *s, long layer, long head) {
    long half = s->key_width / 2;
    float *part = s->row + head * s->key_width;
    for (long i = 0; s->cosine && i < half; i++) {
        float a = part[i], b = part[i + half];
        part[i] = a * s->cosine[i] - b * s->sine[i];
        part[i + half] = a * s->sine[i] + b * s->cosine[i];
    }
    if (head < s->heads) return;
    head -= s->heads;
    const float *value = s->row + (s->heads + s->kv_heads) * s->key_width + head * s->value_width;
    long at = head * s->places + s->place;
    memcpy(s->keys[layer] + at * s->key_width, part, sizeof(float) * (size_t)s->key_width);
    memcpy(s->values[layer] + at * s->value_width, value, sizeof(float) * (size_t)s->value_width);
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

static void attention(const struct step *s, long layer, long head, float *scores) {
    long count = s->place + 1, shared = head / (s->heads / s->kv_heads) * s->places;
    const float *query = s->row + head * s->key_width, *key = s->keys[layer] + shared * s->key_width;
    float scale = 1.0f / __builtin_sqrtf(s->key_width);
    for (long j = 0; j < count; j++) scores[j] = scale * dot(query, key + j * s->key_width, s->key_width);
    softmax(scores, count);
    weighted_sum(scores, s->values[layer] + shared * s->value_width, count, s->value_width,
                 s->context + head * s->value_width);
}

/* x σ(x); below -87, where e^-x has no float, it is as good as 0. */
static inline vec swish(vec x, vec inside) { return x / (1.0f + exponential(-larger(inside, all(-87.0f)))); }

static void activate(const struct step *s, long hidden, long piece) {
    for (long i = piece * COLUMNS; i < hidden && i < (piece + 1) * COLUMNS; i += LANES) {
        vec x = load(s->wide + i); /* there is room for a whole vector */
        if (s->activation == GATED) x = swish(x, x) * load(s->wide + hidden + i);
        else if (s->activation == RELU) x = larger(x, (vec){0});
        else if (s->activation == SWISH) x = swish(x, x);
        else if (s->activation == GELU_TANH) /* x (1 + tanh u) / 2 = x σ(2u) */
            x = swish(x, 1.59576912f * (x + 0.044715f * x * x * x));
        else for (int j = 0; j < LANES; j++) x[j] *= 0.5f * (1.0f + __builtin_erff(x[j] * 0.70710678f));
        for (int j = 0; j < LANES && i + j < hidden; j++) s->wide[i + j] = x[j];
    }
}

enum { PROJECT, TURN, ATTEND, OUT, WIDEN, ACTIVATE, NARROW, STAGES };

static long pieces(const struct step *s, const struct layer *l, long stage) {
    switch (stage) {
    case PROJECT: return pieces_of(&l->project);
    case TURN: return s->heads + s->kv_heads;
    case ATTEND: return s->heads;
    case OUT: return pieces_of(&l->out);
    case WIDEN: return pieces_of(&l->widen);
    case ACTIVATE: return (l->narrow.inputs + COLUMNS - 1) / COLUMNS;
    default: return pieces_of(&l->narrow);
    }
}

static void one_piece(const struct step *s, long n, long stage, long piece, float *normed, float *scores) {
    const struct layer *l = s->layers + n;
    switch (stage) {
    case PROJECT: row_product(&l->project, piece, normed, s->row, 0); break;
    case TURN: turn_and_keep(s, n, piece); break;
    case ATTEND: attention(s, n, piece, scores); break;
    case OUT: row_product(&l->out, piece, s->context, s->x, 1); break;
    case WIDEN: row_product(&l->widen, piece, normed, s->wide, 0); break;
    case ACTIVATE: activate(s, l->narrow.inputs, piece); break;
    default: row_product(&l->narrow, piece, s->wide, s->x, 1);
    }
}

static void step_part(void *task) {
    struct step *s = task;
    long threads = omp_get_num_threads ? omp_get_num_threads() : 1, mine = threads > 1 ? omp_get_thread_num() : 0;
    float *normed = malloc(sizeof(float) * (size_t)(s->width + s->place + 1 + LANES)), *scores = normed + s->width;
    for (long at = 0; at < s->count * STAGES; at++) {
        long layer = at / STAGES, stage = at % STAGES, whole = pieces(s, s->layers + layer, stage), number = 0;
        long *taken = s->taken + at * (threads + 1), *done = taken + threads;
        const struct layer *l = s->layers + layer;
        const struct norm *norm = stage == PROJECT ? &l->before_attention : &l->before_wide;
        if (stage == PROJECT || stage == WIDEN) /* each for itself, which is quicker than to wait for one that does */
            norm_row(s->x, s->width, norm->scale, norm->shift, norm->eps, norm->rms, normed);
        for (long t = 0; t < threads; t++) {
            long whose = (mine + t) % threads, first = whole * whose / threads, last = whole * (whose + 1) / threads;
            for (long piece; (piece = first + __atomic_fetch_add(&taken[whose], 1, __ATOMIC_RELAXED)) < last; number++)
                one_piece(s, layer, stage, piece, normed, scores);
        }
        __atomic_add_fetch(done, number, __ATOMIC_ACQ_REL);
        for (long tries = 0; __atomic_load_n(done, __ATOMIC_ACQUIRE) < whole; tries++)
            if (tries > 100000) sched_yield();
    }
    free(normed);
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
    if (width * hidden < 65536) threads = 1;
    task.taken = calloc((size_t)(count * STAGES * (threads + 1)), sizeof(long));
    in_parallel(step_part, &task, threads);
    free(task.taken);
    free(room);
}

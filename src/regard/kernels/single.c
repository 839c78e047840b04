/* One step of one text through all blocks of a decoder, in one call:

       x ← x + W_o attention(norm(x))        q, k, v = W norm(x), of which k and v join those of the steps before
       x ← x + W_2 f(W_1 norm(x))            f: relu, gelu, swish, or gated: silu(first half) · second half
       x ← norm(x)                           after the last block, if there is such a norm

   Every matrix is read from memory for one row of numbers, so nothing else may cost time. Threads are called once a
   step. A layer has five stages, each of many pieces. A thread has a part of the pieces, which lie side by side in
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
    float *const *keys, *const *values; /* of a layer: heads × positions × width of a head */
    const float *cosine, *sine;         /* rotation of halves of queries and keys, or NULL */
    float *x;
    long count, width, heads, kv_heads, key_width, value_width, places, place, activation;
    long widest;                 /* row that comes into a stage */
    float *row, *context, *wide; /* for all threads */
    long *taken;                 /* of a stage: pieces of each thread's part that are taken, and all that are done */
};

/* Rotate queries and keys by their position. */
static void turn(const struct step *s, float *to) {
    long width = s->key_width, half = width / 2;
    memcpy(to, s->row, sizeof(float) * (size_t)((s->heads + s->kv_heads) * width));
    for (long head = 0; s->cosine && head < s->heads + s->kv_heads; head++, to += width)
        for (long i = 0; i < half; i++) {
            float a = to[i], b = to[i + half];
            to[i] = a * s->cosine[i] - b * s->sine[i];
            to[i + half] = a * s->sine[i] + b * s->cosine[i];
        }
}

/* Σ_j weight_j v_j, four vectors of the result at a time, in registers. */
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

/* Scores of one query with `count` keys, four at a time, so that their sums are independent. */
static void scores_of(const float *query, const float *keys, long count, long width, float scale, float *scores) {
    long j = 0;
    for (; j + 4 <= count; j += 4, keys += 4 * width) {
        vec s[4] = {0};
        long i = 0;
        for (; i + LANES <= width; i += LANES)
            for (int u = 0; u < 4; u++) s[u] += load(query + i) * load(keys + u * width + i);
        for (int u = 0; u < 4; u++) {
            float total = sum(s[u]);
            for (long rest = i; rest < width; rest++) total += query[rest] * keys[u * width + rest];
            scores[j + u] = scale * total;
        }
    }
    for (; j < count; j++, keys += width) scores[j] = scale * dot(query, keys, width);
}

/* The steps before are where they were kept. The key and the value of this one are in its row; the first head that asks
   for them puts them to their place, for the steps to come. */
static void attention(const struct step *s, long layer, long head, const float *turned, float *scores) {
    long count = s->place, group = s->heads / s->kv_heads, shared = head / group, kept = shared * s->places;
    const float *query = turned + head * s->key_width, *now = turned + (s->heads + shared) * s->key_width;
    const float *value = s->row + (s->heads + s->kv_heads) * s->key_width + shared * s->value_width;
    float *keys = s->keys[layer] + kept * s->key_width, *values = s->values[layer] + kept * s->value_width;
    float scale = 1.0f / __builtin_sqrtf(s->key_width), *context = s->context + head * s->value_width;
    scores_of(query, keys, count, s->key_width, scale, scores);
    scores[count] = scale * dot(query, now, s->key_width);
    softmax(scores, count + 1);
    weighted_sum(scores, values, count, s->value_width, context);
    add_scaled(context, value, scores[count], s->value_width);
    if (head % group) return;
    memcpy(keys + count * s->key_width, now, sizeof(float) * (size_t)s->key_width);
    memcpy(values + count * s->value_width, value, sizeof(float) * (size_t)s->value_width);
}

/* x σ(x); below -87, where e^-x has no float, the result is 0. */
static inline vec swish(vec x, vec inside) { return x / (1.0f + exponential(-larger(inside, all(-87.0f)))); }

/* Buffers are padded to whole vectors. */
static void activate(const struct step *s, long hidden, float *to) {
    for (long i = 0; i < hidden; i += LANES) {
        vec x = load(s->wide + i);
        if (s->activation == GATED) x = swish(x, x) * load(s->wide + hidden + i);
        else if (s->activation == RELU) x = larger((vec){0}, x); /* in this order NaN stays NaN */
        else if (s->activation == SWISH) x = swish(x, x);
        else if (s->activation == GELU_TANH) /* x (1 + tanh u) / 2 = x σ(2u) */
            x = swish(x, 1.59576912f * (x + 0.044715f * x * x * x));
        else for (int j = 0; j < LANES; j++) x[j] *= 0.5f * (1.0f + __builtin_erff(x[j] * 0.70710678f));
        store(to + i, x);
    }
}

enum { PROJECT, ATTEND, OUT, WIDEN, NARROW, STAGES };

/* The matrix of a stage; NULL: attention. */
static const struct matrix *matrix_of(const struct step *s, long at) {
    const struct layer *l = s->layers + at / STAGES;
    const struct matrix *of[STAGES] = {&l->project, 0, &l->out, &l->widen, &l->narrow};
    return of[at % STAGES];
}

/* What a thread has for itself: `row` is what comes into a stage, which each works out, quicker than to wait for one
   that does. */
struct own {
    float *row, *scores;
    int32_t *input;
};

static struct input ready(const struct step *s, long at, const struct own *own) {
    long layer = at / STAGES, stage = at % STAGES;
    const struct layer *l = s->layers + layer;
    const struct norm *norm = stage == PROJECT ? &l->before_attention : &l->before_wide;
    if (stage == PROJECT || stage == WIDEN) norm_row(s->x, s->width, norm->scale, norm->shift, norm->eps, norm->rms, own->row);
    else if (stage == ATTEND) turn(s, own->row);
    else if (stage == NARROW) activate(s, l->narrow.inputs, own->row);
    if (stage == ATTEND) return (struct input){.x = own->row};
    return input_of(matrix_of(s, at), stage == OUT ? s->context : own->row, own->input);
}

#define LINE 64
#define FETCHED 65536 /* bytes of a head's keys or values at most: they go to the second cache */

/* Keys and values of the heads that a thread will have, while it would wait for the others: they are nowhere near, after
   all weights have come by. They are read, since processors leave out some of what is only asked for ahead. */
static void fetch_past(const struct step *s, long layer, long mine, long threads) {
    long group = s->heads / s->kv_heads, first = s->heads * mine / threads, last = s->heads * (mine + 1) / threads;
    const float *parts[] = {s->keys[layer], s->values[layer]};
    long widths[] = {s->key_width, s->value_width};
    for (long shared = first / group; shared * group < last; shared++)
        for (int i = 0; i < 2; i++) {
            long size = (long)sizeof(float) * s->place * widths[i];
            const char *from = (const char *)(parts[i] + shared * s->places * widths[i]);
            for (long b = 0; b < size && b < FETCHED; b += LINE) (void)*(const volatile char *)(from + b);
        }
}

/* The first piece of a thread in the matrix of the next stage; after the last comes the first. */
static const char *after(const struct step *s, long at, long mine, long threads) {
    const struct matrix *m = matrix_of(s, (at + (at % STAGES == PROJECT ? 2 : 1)) % (s->count * STAGES));
    return piece_of(m, pieces_of(m) * mine / threads);
}

static void one_piece(const struct step *s, long at, long piece, const struct input *in, const char *next, float *scores) {
    const struct matrix *m = matrix_of(s, at);
    switch (at % STAGES) {
    case PROJECT: row_product(m, piece, in, s->row, 0, next); break;
    case ATTEND: attention(s, at / STAGES, piece, in->x, scores); break;
    case WIDEN: row_product(m, piece, in, s->wide, 0, next); break;
    default: row_product(m, piece, in, s->x, 1, next);
    }
}

static int step_part(void *task) {
    struct step *s = task;
    long threads = omp_get_num_threads ? omp_get_num_threads() : 1, mine = threads > 1 ? omp_get_thread_num() : 0;
    long size = s->widest + 2 * LANES, places = s->place + 1 + LANES;
    float *room = malloc(sizeof(float) * (size_t)(size + places + input_room(s->widest)));
    if (!room) return NO_MEMORY; /* other threads compute its pieces */
    struct own own = {room, room + size, (int32_t *)(room + size + places)};
    for (long at = 0; at < s->count * STAGES; at++) {
        const struct matrix *m = matrix_of(s, at);
        long whole = m ? pieces_of(m) : s->heads, number = 0;
        long *taken = s->taken + at * (threads + 1), *done = taken + threads;
        struct input in = ready(s, at, &own);
        const char *later = m ? after(s, at, mine, threads) : 0;
        for (long t = 0; t < threads; t++) {
            long whose = (mine + t) % threads, first = whole * whose / threads, last = whole * (whose + 1) / threads;
            for (long piece; (piece = first + __atomic_fetch_add(&taken[whose], 1, __ATOMIC_RELAXED)) < last; number++)
                one_piece(s, at, piece, &in, t || !m || piece + 1 == last ? later : piece_of(m, piece + 1), own.scores);
        }
        __atomic_add_fetch(done, number, __ATOMIC_ACQ_REL);
        if (at % STAGES == PROJECT) fetch_past(s, at / STAGES, mine, threads);
        for (long tries = 0; __atomic_load_n(done, __ATOMIC_ACQUIRE) < whole; tries++)
            if (tries > 100000) sched_yield();
    }
    free(room);
    return DONE;
}

int single_step(const struct layer *layers, long count, const struct norm *last, long width, long heads, long kv_heads, long key_width,
                 long value_width, long hidden, long activation, float *const *keys, float *const *values, long places,
                 long place, const float *cosine, const float *sine, float *x, long threads) {
    long row = (heads + kv_heads) * key_width + kv_heads * value_width, context = heads * value_width;
    long parts[] = {row, context, hidden}, widest = width;
    for (int i = 0; i < 3; i++) widest = parts[i] > widest ? parts[i] : widest;
    float *room = malloc(sizeof(float) * (size_t)(row + context + 2 * hidden + 2 * LANES));
    struct step task = {.layers = layers, .keys = keys, .values = values, .cosine = cosine, .sine = sine, .x = x,
        .count = count, .width = width, .heads = heads, .kv_heads = kv_heads, .key_width = key_width,
        .value_width = value_width, .places = places, .place = place, .activation = activation,
        .widest = widest, .row = room, .context = room + row, .wide = room + row + context};
    if (width * hidden < 65536) threads = 1;
    task.taken = calloc((size_t)(count * STAGES * (threads + 1)), sizeof(long));
    int result = room && task.taken ? in_parallel(step_part, &task, threads) : NO_MEMORY;
    if (last && result == DONE) norm_row(x, width, last->scale, last->shift, last->eps, last->rms, x);
    free(task.taken);
    free(room);
    return result;
}

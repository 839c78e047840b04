/* Attention of rows, each to separate keys and values:

       context = Σ_j softmax_j(q · k_j / √d) v_j        for each head

   A row without keys gives zeros. The keys of a row lie in one of two ways.

   places  Keys of all rows lie in one table, and row r has those at places[r, 0], places[r, 1], ...: the steps it has
           taken. So nothing is copied when rows are chosen, dropped or repeated (as Kwon et al. 2023, section 4.1,
           arXiv:2309.06180, with pages of one key).
   tiles   Keys that many rows, or many steps, ask: those of a memory, or of a sentence. LANES keys make a tile, whose
           keys are turned round, so that one vector has a number of each key, and all scores of a tile are summed at
           once. Row r has count[r] keys, from tile first[r] on. */

#include "row.h"

struct attention {
    const float *query, *key, *value;
    float *context;
    const int32_t *places, *first, *count;
    long rows, heads, width, query_stride, key_stride, place_stride;
};

/* Σ_j weights[j] · (row j of values), where row j is at `places[j]`, or at j. */
static void mean_of(const float *weights, const float *values, long stride, const int32_t *places, long count,
                    long width, float *mean) {
    long i = 0;
#define ROW(j) (values + (places ? places[j] : (j)) * stride + i)
    for (; i + 2 * LANES <= width; i += 2 * LANES) {
        vec left = {0}, right = {0};
        for (long j = 0; j < count; j++) left += weights[j] * load(ROW(j)), right += weights[j] * load(ROW(j) + LANES);
        store(mean + i, left), store(mean + i + LANES, right);
    }
    for (; i + LANES <= width; i += LANES) {
        vec s = {0};
        for (long j = 0; j < count; j++) s += weights[j] * load(ROW(j));
        store(mean + i, s);
    }
    for (; i < width; i++) {
        float s = 0.0f;
        for (long j = 0; j < count; j++) s += weights[j] * *ROW(j);
        mean[i] = s;
    }
#undef ROW
}

/* Scores of one query with all keys of its tiles. */
static void tile_scores(const float *query, const float *tiles, long stride, long count, long width, float scale,
                        float *scores) {
    for (long j = 0; j < count; j += LANES, tiles += stride) {
        vec s[4] = {{0}};
        long i = 0;
        for (; i + 4 <= width; i += 4)
            for (int k = 0; k < 4; k++) s[k] += query[i + k] * load(tiles + (i + k) * LANES);
        for (; i < width; i++) s[0] += query[i] * load(tiles + i * LANES);
        store(scores + j, ((s[0] + s[1]) + (s[2] + s[3])) * scale);
    }
}

static int attend_part(void *task) {
    const struct attention *a = task;
    long first, last, most = LANES, whole = a->heads * a->width;
    share(a->rows, 1, &first, &last);
    for (long r = first; r < last; r++) most = a->count[r] > most ? a->count[r] : most;
    float *scores = malloc(sizeof(float) * (size_t)(most + LANES)), scale = 1.0f / __builtin_sqrtf(a->width);
    if (!scores) return NO_MEMORY;
    for (long r = first; r < last; r++) {
        long count = a->count[r];
        const int32_t *places = a->places ? a->places + r * a->place_stride : 0;
        const float *tiles = a->places ? 0 : a->key + a->first[r] * a->key_stride;
        for (long h = 0; h < a->heads; h++) {
            const float *query = a->query + r * a->query_stride + h * a->width;
            /* the values of a tile follow its keys, a row each */
            const float *values = (places ? a->value : tiles + LANES * whole) + h * a->width;
            float *context = a->context + r * whole + h * a->width;
            if (places) {
                for (long j = 0; j < count; j++)
                    scores[j] = scale * dot(query, a->key + places[j] * a->key_stride + h * a->width, a->width);
            } else
                tile_scores(query, tiles + h * a->width * LANES, a->key_stride, count, a->width, scale, scores);
            if (count) softmax(scores, count);
            if (places)
                mean_of(scores, values, a->key_stride, places, count, a->width, context);
            else { /* sum over tiles */
                mean_of(scores, values, whole, 0, count < LANES ? count : LANES, a->width, context);
                for (long j = LANES; j < count; j += LANES) {
                    float more[a->width];
                    mean_of(scores + j, values + j / LANES * a->key_stride, whole, 0,
                            count - j < LANES ? count - j : LANES, a->width, more);
                    for (long i = 0; i < a->width; i++) context[i] += more[i];
                }
            }
        }
    }
    free(scores);
    return DONE;
}

int attend_places(const float *query, long query_stride, long rows, long heads, long width, const float *key,
                   const float *value, long key_stride, const int32_t *places, long place_stride, const int32_t *count,
                   float *context, long threads) {
    struct attention task = {.query = query, .key = key, .value = value, .context = context, .places = places,
                             .count = count, .rows = rows, .heads = heads, .width = width,
                             .query_stride = query_stride, .key_stride = key_stride, .place_stride = place_stride};
    return in_parallel(attend_part, &task, threads);
}

int attend_tiles(const float *query, long query_stride, long rows, long heads, long width, const float *tiles,
                  const int32_t *first, const int32_t *count, float *context, long threads) {
    struct attention task = {.query = query, .key = tiles, .context = context, .first = first, .count = count,
                             .rows = rows, .heads = heads, .width = width, .query_stride = query_stride,
                             .key_stride = 2 * LANES * heads * width};
    return in_parallel(attend_part, &task, threads);
}

long lanes(void) { return LANES; }

/* Pack concatenated keys and values of sentences into tiles; the last tile is padded with zeros. */
struct tiling {
    const float *key, *value;
    float *tiles;
    const int32_t *count;
    long sentences, whole, stride;
};

static int tile_part(void *task) {
    const struct tiling *t = task;
    long first, last, whole = t->whole, row = 0, tile = 0;
    share(t->sentences, 1, &first, &last);
    for (long s = 0; s < last; row += t->count[s], tile += (t->count[s] + LANES - 1) / LANES, s++) {
        if (s < first) continue;
        float *to = t->tiles + tile * 2 * LANES * whole;
        for (long j = 0; j < t->count[s]; j += LANES, to += 2 * LANES * whole) {
            long real = t->count[s] - j < LANES ? t->count[s] - j : LANES;
            const float *key = t->key + (row + j) * t->stride, *value = t->value + (row + j) * t->stride;
            for (long i = 0; i < whole; i++)
                for (long k = 0; k < LANES; k++) to[i * LANES + k] = k < real ? key[k * t->stride + i] : 0.0f;
            for (long k = 0; k < real; k++)
                memcpy(to + (LANES + k) * whole, value + k * t->stride, sizeof(float) * (size_t)whole);
            memset(to + (LANES + real) * whole, 0, sizeof(float) * (size_t)((LANES - real) * whole));
        }
    }
    return DONE;
}

int tile(const float *key, const float *value, long stride, long whole, const int32_t *count, long sentences,
          float *tiles, long threads) {
    struct tiling task = {key, value, tiles, count, sentences, whole, stride};
    return in_parallel(tile_part, &task, threads);
}

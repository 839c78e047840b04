/* Attention of short texts, and its gradient, with its table of weights P kept (as it is small), heads side by side:

       P = softmax(Q Kᵀ / √d)        C = P V
       dV = Pᵀ dC        dP = dC Vᵀ        dS = P ∘ (dP − Σ_j P ∘ dP) / √d        dQ = dS K        dK = dSᵀ Q

   Vaswani et al. 2017, section 3.2.1 (arXiv:1706.03762). Each text and each head is a matter of its own, of a few dozen
   rows, which lie in the first cache. A query sees the keys whose byte in `real` is not 0; with `causal`, none that is
   later than it. A query that sees none has weights of zero. Widths of heads are multiples of LANES. */

#include "vectors.h"

struct attention {
    const float *query, *key, *value, *context_gradient;
    const uint8_t *real;
    float *weights, *context, *query_gradient, *key_gradient, *value_gradient;
    long texts, queries, keys, heads, width, query_stride, key_stride;
    int causal;
};

/* C[rows × columns] = A B: A(r, k) = a[r * row + k * step], B's rows are b_row apart; columns are a multiple of LANES. */
static inline __attribute__((always_inline)) void block(int R, int V, const float *a, long row, long step, long depth,
                                                        const float *b, long b_row, float *c, long c_row) {
    vec s[6][2];
    _Pragma("GCC unroll 6") for (int r = 0; r < R; r++) s[r][0] = s[r][1] = (vec){0};
    for (long k = 0; k < depth; k++, a += step, b += b_row) {
        vec left = load(b), right = V > 1 ? load(b + LANES) : left;
        _Pragma("GCC unroll 6") for (int r = 0; r < R; r++) {
            s[r][0] += a[r * row] * left;
            if (V > 1) s[r][1] += a[r * row] * right;
        }
    }
    _Pragma("GCC unroll 6") for (int r = 0; r < R; r++, c += c_row) {
        store(c, s[r][0]);
        if (V > 1) store(c + LANES, s[r][1]);
    }
}

static inline __attribute__((always_inline)) void product(const float *a, long row, long step, long rows, long depth,
                                                          const float *b, long b_row, long columns, float *c, long c_row) {
    for (long j = 0; j < columns; j += 2 * LANES) {
        int both = columns - j > LANES;
        long r = 0;
#define BLOCK(R)                                                                                           \
    for (; r + R <= rows; r += R)                                                                          \
        if (both) block(R, 2, a + r * row, row, step, depth, b + j, b_row, c + r * c_row + j, c_row);      \
        else block(R, 1, a + r * row, row, step, depth, b + j, b_row, c + r * c_row + j, c_row);
        BLOCK(6) BLOCK(2) BLOCK(1)
    }
}

static __attribute__((noinline)) void rows_times(const float *a, long row, long rows, long depth, const float *b,
                                                 long b_row, long columns, float *c, long c_row) {
    product(a, row, 1, rows, depth, b, b_row, columns, c, c_row);
}

static __attribute__((noinline)) void columns_times(const float *a, long step, long rows, long depth, const float *b,
                                                    long b_row, long columns, float *c, long c_row) {
    product(a, 1, step, rows, depth, b, b_row, columns, c, c_row);
}

static void turned(const float *from, long stride, long rows, long width, float *to, long room) {
    for (long j = 0; j < rows; j++)
        for (long i = 0; i < width; i++) to[i * room + j] = from[j * stride + i];
}

static inline long padded(long keys) { return (keys + LANES - 1) / LANES * LANES; }

/* Scores of a query become its weights: it sees the first `seen` keys, if hidden[j] is 0 and not −∞. */
static void softmax(float *scores, const float *hidden, long seen, long room, float scale) {
    const float none = -__builtin_inff();
    vec most = all(none), total = {0}, lane;
    ivec wrong = {0}; /* what is no number is not larger than anything, and would be lost */
    for (int i = 0; i < LANES; i++) lane[i] = (float)i;
    for (long j = 0; j < room; j += LANES) {
        vec s = load(scores + j) * scale + load(hidden + j);
        ivec ahead = lane + (float)j >= all((float)seen);
        s = (vec)(((ivec)s & ~ahead) | ((ivec)all(none) & ahead));
        most = larger(s, most);
        wrong |= s != s;
        store(scores + j, s);
    }
    float peak = none;
    int lost = 0;
    for (int i = 0; i < LANES; i++) peak = most[i] > peak ? most[i] : peak, lost |= wrong[i];
    if (peak == none && !lost) { /* it sees nothing */
        memset(scores, 0, sizeof(float) * (size_t)room);
        return;
    }
    for (long j = 0; j < room; j += LANES) {
        vec e = exponential(load(scores + j) - peak);
        total += e;
        store(scores + j, e);
    }
    float share_of = lost ? __builtin_nanf("") : 1.0f / sum(total);
    for (long j = 0; j < room; j += LANES) store(scores + j, load(scores + j) * share_of);
}

static void attend_part(void *task) {
    const struct attention *a = task;
    long first, last, room = padded(a->keys), wide = a->heads * a->width;
    float *turned_key = malloc(sizeof(float) * (size_t)(room * (a->width + 1))), *hidden = turned_key + room * a->width;
    float scale = 1.0f / __builtin_sqrtf((float)a->width);
    memset(turned_key, 0, sizeof(float) * (size_t)(room * a->width));
    for (share(a->texts, 1, &first, &last); first < last; first++) {
        for (long j = 0; j < room; j++)
            hidden[j] = j < a->keys && (!a->real || a->real[first * a->keys + j]) ? 0.0f : -__builtin_inff();
        for (long h = 0; h < a->heads; h++) {
            const float *query = a->query + first * a->queries * a->query_stride + h * a->width;
            const float *key = a->key + first * a->keys * a->key_stride + h * a->width;
            const float *value = a->value + first * a->keys * a->key_stride + h * a->width;
            float *weights = a->weights + (first * a->heads + h) * a->queries * room;
            float *context = a->context + first * a->queries * wide + h * a->width;
            turned(key, a->key_stride, a->keys, a->width, turned_key, room);
            rows_times(query, a->query_stride, a->queries, a->width, turned_key, room, room, weights, room);
            for (long q = 0; q < a->queries; q++)
                softmax(weights + q * room, hidden, a->causal ? q + 1 : a->keys, room, scale);
            rows_times(weights, room, a->queries, a->keys, value, a->key_stride, a->width, context, wide);
        }
    }
    free(turned_key);
}

static void gradient_part(void *task) {
    const struct attention *a = task;
    long first, last, room = padded(a->keys), wide = a->heads * a->width;
    float *turned_value = malloc(sizeof(float) * (size_t)(room * (a->width + a->queries)));
    float *scores = turned_value + room * a->width, scale = 1.0f / __builtin_sqrtf((float)a->width);
    memset(turned_value, 0, sizeof(float) * (size_t)(room * a->width));
    for (share(a->texts, 1, &first, &last); first < last; first++)
        for (long h = 0; h < a->heads; h++) {
            long from_query = first * a->queries * a->query_stride + h * a->width;
            long from_key = first * a->keys * a->key_stride + h * a->width;
            const float *weights = a->weights + (first * a->heads + h) * a->queries * room;
            const float *gradient = a->context_gradient + first * a->queries * wide + h * a->width;
            columns_times(weights, room, a->keys, a->queries, gradient, wide, a->width, a->value_gradient + from_key, a->key_stride);
            turned(a->value + from_key, a->key_stride, a->keys, a->width, turned_value, room);
            rows_times(gradient, wide, a->queries, a->width, turned_value, room, room, scores, room);
            for (long q = 0; q < a->queries; q++) {
                const float *p = weights + q * room;
                float *s = scores + q * room;
                vec total = {0};
                for (long j = 0; j < room; j += LANES) total += load(p + j) * load(s + j);
                float mean = sum(total);
                for (long j = 0; j < room; j += LANES) store(s + j, load(p + j) * (load(s + j) - mean) * scale);
            }
            rows_times(scores, room, a->queries, a->keys, a->key + from_key, a->key_stride, a->width,
                       a->query_gradient + from_query, a->query_stride);
            columns_times(scores, room, a->keys, a->queries, a->query + from_query, a->query_stride, a->width,
                          a->key_gradient + from_key, a->key_stride);
        }
    free(turned_value);
}

/* Rows of queries lie query_stride apart, those of keys and values key_stride, those of contexts heads · width. */
void training_attend(const float *query, const float *key, const float *value, const uint8_t *real, int causal, long texts,
                     long queries, long keys, long heads, long width, long query_stride, long key_stride, float *weights,
                     float *context, long threads) {
    struct attention task = {.query = query, .key = key, .value = value, .real = real, .weights = weights, .context = context,
                             .texts = texts, .queries = queries, .keys = keys, .heads = heads, .width = width,
                             .query_stride = query_stride, .key_stride = key_stride, .causal = causal};
    in_parallel(attend_part, &task, threads);
}

/* Gradients lie as what they are gradients of. */
void training_attend_gradient(const float *query, const float *key, const float *value, const float *weights,
                              const float *context_gradient, long texts, long queries, long keys, long heads, long width,
                              long query_stride, long key_stride, float *query_gradient, float *key_gradient,
                              float *value_gradient, long threads) {
    struct attention task = {.query = query, .key = key, .value = value, .context_gradient = context_gradient,
                             .weights = (float *)weights, .query_gradient = query_gradient, .key_gradient = key_gradient,
                             .value_gradient = value_gradient, .texts = texts, .queries = queries, .keys = keys,
                             .heads = heads, .width = width, .query_stride = query_stride, .key_stride = key_stride};
    in_parallel(gradient_part, &task, threads);
}

/* Attention of short texts, and its gradient, with its table of weights P kept (as it is small), heads side by side:

       P = softmax(Q Kᵀ / √d)        C = P V
       dV = Pᵀ dC        dP = dC Vᵀ        dS = P ∘ (dP − Σ_j P ∘ dP) / √d        dQ = dS K        dK = dSᵀ Q

   Vaswani et al. 2017, section 3.2.1 (arXiv:1706.03762). Each text and each head is a matter of its own, of a few dozen
   rows, which lie in the first cache. With `first` and `count`, text t attends to itself: rows first[t], ... of one table, so
   many as count[t] says, at most as many as `queries`. A query sees the keys whose byte in `real` is not 0; with `causal`, none that is
   later than it. A query that sees none has weights of zero. Widths of heads are multiples of LANES. */

#include "turned.h"

struct attention {
    const float *query, *key, *value, *context_gradient;
    const uint8_t *real;
    const int32_t *first, *count;
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

static inline long padded(long keys) { return (keys + LANES - 1) / LANES * LANES; }

/* Of text t: where its queries and keys begin, how many there are, and where its weights lie. */
struct text {
    long query, key, queries, keys, room;
    float *weights;
};

static inline struct text text_of(const struct attention *a, long t) {
    float *weights = a->weights + t * a->heads * a->queries * padded(a->keys);
    if (!a->first) return (struct text){t * a->queries, t * a->keys, a->queries, a->keys, padded(a->keys), weights};
    return (struct text){a->first[t], a->first[t], a->count[t], a->count[t], padded(a->count[t]), weights};
}

/* Scores of a query become its weights: it sees the first `seen` keys, if hidden[j] is 0 and not −∞. What is no number is
   not larger than anything, and would be lost: `check` has it. */
static void softmax(float *scores, const float *hidden, long seen, long room, float scale) {
    const float none = -__builtin_inff();
    vec most = all(none), total = {0}, check = {0}, lane;
    for (int i = 0; i < LANES; i++) lane[i] = (float)i;
    for (long j = 0; j < room; j += LANES) {
        vec s = load(scores + j) * scale;
        check += s - s;
        s += load(hidden + j);
        ivec ahead = lane + (float)j >= all((float)seen);
        s = (vec)(((ivec)s & ~ahead) | ((ivec)all(none) & ahead));
        most = larger(s, most);
        store(scores + j, s);
    }
    float peak = largest(most);
    if (peak == none) { /* no visible keys */
        for (long j = 0; j < room; j += LANES) store(scores + j, all(sum(check)));
        return;
    }
    for (long j = 0; j < room; j += LANES) {
        vec e = exponential(load(scores + j) - peak);
        total += e;
        store(scores + j, e);
    }
    float share_of = 1.0f / sum(total + check);
    for (long j = 0; j < room; j += LANES) store(scores + j, load(scores + j) * share_of);
}

static int attend_part(void *task) {
    const struct attention *a = task;
    long first, last, most = padded(a->keys), width = a->width, wide = a->heads * width;
    float *turned_key = calloc((size_t)(most * (width + 1)), sizeof(float)), *hidden = turned_key + most * width;
    if (!turned_key) return NO_MEMORY;
    float scale = 1.0f / __builtin_sqrtf((float)width);
    for (share(a->texts, 1, &first, &last); first < last; first++) {
        struct text t = text_of(a, first);
        for (long j = 0; j < t.room; j++)
            hidden[j] = j < t.keys && (!a->real || a->real[first * a->keys + j]) ? 0.0f : -__builtin_inff();
        for (long h = 0; h < a->heads; h++) {
            const float *query = a->query + t.query * a->query_stride + h * width;
            const float *key = a->key + t.key * a->key_stride + h * width, *value = a->value + t.key * a->key_stride + h * width;
            float *weights = t.weights + h * t.queries * t.room, *context = a->context + t.query * wide + h * width;
            turned(key, a->key_stride, t.keys, width, turned_key, t.room);
            rows_times(query, a->query_stride, t.queries, width, turned_key, t.room, t.room, weights, t.room);
            for (long q = 0; q < t.queries; q++)
                softmax(weights + q * t.room, hidden, a->causal ? q + 1 : t.keys, t.room, scale);
            rows_times(weights, t.room, t.queries, t.keys, value, a->key_stride, width, context, wide);
        }
    }
    free(turned_key);
    return DONE;
}

static int gradient_part(void *task) {
    const struct attention *a = task;
    long first, last, width = a->width, wide = a->heads * width;
    float *turned_value = calloc((size_t)(padded(a->keys) * (width + a->queries)), sizeof(float));
    float *scores = turned_value + padded(a->keys) * width, scale = 1.0f / __builtin_sqrtf((float)width);
    if (!turned_value) return NO_MEMORY;
    for (share(a->texts, 1, &first, &last); first < last; first++) {
        struct text t = text_of(a, first);
        for (long h = 0; h < a->heads; h++) {
            long query = t.query * a->query_stride + h * width, key = t.key * a->key_stride + h * width;
            const float *weights = t.weights + h * t.queries * t.room, *gradient = a->context_gradient + t.query * wide + h * width;
            columns_times(weights, t.room, t.keys, t.queries, gradient, wide, width, a->value_gradient + key, a->key_stride);
            turned(a->value + key, a->key_stride, t.keys, width, turned_value, t.room);
            rows_times(gradient, wide, t.queries, width, turned_value, t.room, t.room, scores, t.room);
            for (long q = 0; q < t.queries; q++) {
                const float *p = weights + q * t.room;
                float *s = scores + q * t.room;
                vec total = {0};
                for (long j = 0; j < t.room; j += LANES) total += load(p + j) * load(s + j);
                float mean = sum(total);
                for (long j = 0; j < t.room; j += LANES) store(s + j, load(p + j) * (load(s + j) - mean) * scale);
            }
            rows_times(scores, t.room, t.queries, t.keys, a->key + key, a->key_stride, width, a->query_gradient + query, a->query_stride);
            columns_times(scores, t.room, t.keys, t.queries, a->query + query, a->query_stride, width, a->key_gradient + key, a->key_stride);
        }
    }
    free(turned_value);
    return DONE;
}

/* Strides of rows: query_stride for queries, key_stride for keys and values, heads · width for contexts. */
int training_attend(const float *query, const float *key, const float *value, const uint8_t *real, int causal,
                     const int32_t *first, const int32_t *count, long texts, long queries, long keys, long heads,
                     long width, long query_stride, long key_stride, float *weights, float *context, long threads) {
    struct attention task = {.query = query, .key = key, .value = value, .real = real, .weights = weights, .context = context,
                             .texts = texts, .queries = queries, .keys = keys, .heads = heads, .width = width,
                             .query_stride = query_stride, .key_stride = key_stride, .causal = causal, .first = first, .count = count};
    return in_parallel(attend_part, &task, threads);
}

/* Gradients have the layout of their tensors. */
int training_attend_gradient(const float *query, const float *key, const float *value, const float *weights,
                              const float *context_gradient, const int32_t *first, const int32_t *count, long texts,
                              long queries, long keys, long heads, long width, long query_stride, long key_stride,
                              float *query_gradient, float *key_gradient, float *value_gradient, long threads) {
    struct attention task = {.query = query, .key = key, .value = value, .context_gradient = context_gradient,
                             .weights = (float *)weights, .query_gradient = query_gradient, .key_gradient = key_gradient,
                             .value_gradient = value_gradient, .texts = texts, .queries = queries, .keys = keys,
                             .heads = heads, .width = width, .query_stride = query_stride, .key_stride = key_stride,
                             .first = first, .count = count};
    return in_parallel(gradient_part, &task, threads);
}

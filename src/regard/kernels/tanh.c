/* Scores of the tanh form: e_ij = Σ_d w_d tanh(q_id + k_jd), for each query of a sentence with each of its keys.

   tanh x = 1 - 2 / (1 + exp 2x), so with W = Σ_d w_d,

       e_ij = W - 2 Σ_d w_d / (1 + exp 2(q_id + k_jd))

   and nothing of size Q·K·D is ever written down. 2x is cut at MOST, where tanh x is 1 already. */

#include "row.h"

#define MOST 40.0f /* of 2x */

struct scores {
    const float *query, *key, *weight;
    float *table, total;
    long rows, queries, keys, width;
};

/* w / (1 + exp 2x); NaN for NaN. */
static inline vec quotient(vec weight, vec x) {
    vec twice = -larger(all(-MOST), x * -2.0f);
    return weight / (exponential(twice) + 1.0f);
}

static int tanh_part(void *task) {
    const struct scores *t = task;
    long first, last, width = t->width, whole = width / LANES * LANES;
    for (share(t->rows, 1, &first, &last); first < last; first++) {
        const float *query = t->query + first * width, *key = t->key + first / t->queries * t->keys * width;
        float *table = t->table + first * t->keys;
        for (long j = 0; j < t->keys; j++, key += width) {
            vec sums = {0};
            for (long i = 0; i < whole; i += LANES)
                sums += quotient(load(t->weight + i), load(query + i) + load(key + i));
            if (whole < width) {
                float weight[LANES] = {0}, x[LANES] = {0};
                for (long i = whole; i < width; i++) weight[i - whole] = t->weight[i], x[i - whole] = query[i] + key[i];
                sums += quotient(load(weight), load(x));
            }
            table[j] = t->total - 2.0f * sum(sums);
        }
    }
    return DONE;
}

int tanh_scores(const float *query, const float *key, const float *weight, long rows, long queries, long keys,
                 long width, float *table, long threads) {
    struct scores task = {query, key, weight, table, 0.0f, rows, queries, keys, width};
    for (long i = 0; i < width; i++) task.total += weight[i];
    return in_parallel(tanh_part, &task, rows * keys * width < 16384 ? 1 : threads);
}

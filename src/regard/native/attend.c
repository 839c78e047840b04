/* One query a row, each with keys and values of its own choice: those of the steps that it has taken, or of the memory.

       context = Σ_j softmax_j(q · k_j / √d) v_j        for each head

   Keys of all rows lie in one table. Row r has count[r] of them: those at places[r, 0], places[r, 1], ..., or, where
   there are no places, at first[r], first[r] + 1, .... So nothing is copied when rows are chosen, dropped or repeated
   (as Kwon et al. 2023, section 4.1, arXiv:2309.06180, with pages of one key). A row without keys gives zeros. */

#include "row.h"

struct attention {
    const float *query, *key, *value;
    float *context;
    const int32_t *places, *first, *count;
    long rows, heads, width, query_stride, key_stride, place_stride;
};

static void attend_part(void *task) {
    const struct attention *a = task;
    long first, last, most = 0, whole = a->heads * a->width;
    share(a->rows, 1, &first, &last);
    for (long r = first; r < last; r++) most = a->count[r] > most ? a->count[r] : most;
    long room = (most + LANES - 1) / LANES * LANES;
    float *scores = malloc(sizeof(float) * (size_t)(room * a->heads + 1)), scale = 1.0f / __builtin_sqrtf(a->width);
    for (long r = first; r < last; r++) {
        const int32_t *places = a->places ? a->places + r * a->place_stride : 0;
        const float *query = a->query + r * a->query_stride;
        float *context = a->context + r * whole;
        memset(context, 0, sizeof(float) * (size_t)whole);
        for (long j = 0; j < a->count[r]; j++) {
            const float *key = a->key + (places ? places[j] : a->first[r] + j) * a->key_stride;
            for (long h = 0; h < a->heads; h++)
                scores[h * room + j] = scale * dot(query + h * a->width, key + h * a->width, a->width);
        }
        if (a->count[r])
            for (long h = 0; h < a->heads; h++) softmax(scores + h * room, a->count[r]);
        for (long j = 0; j < a->count[r]; j++) {
            const float *value = a->value + (places ? places[j] : a->first[r] + j) * a->key_stride;
            for (long h = 0; h < a->heads; h++)
                add_scaled(context + h * a->width, value + h * a->width, scores[h * room + j], a->width);
        }
    }
    free(scores);
}

void attend(const float *query, long query_stride, long rows, long heads, long width, const float *key,
            const float *value, long key_stride, const int32_t *places, long place_stride, const int32_t *first,
            const int32_t *count, float *context, long threads) {
    struct attention task = {query, key,  value, context, places,       first,      count,
                             rows,  heads, width, query_stride, key_stride, place_stride};
    in_parallel(attend_part, &task, threads);
}

/* Matrices as they are kept, and the product of one row with them: y_e = s_e Σ_i x_i W_ei + b_e.

   FLOATS   row by row, as torch has them: each y is a sum along a row
   HALVES   numbers of 16 bits
   BYTES    integers from -127 to 127, with a scale s for each output

   HALVES and BYTES lie in panels of COLUMNS outputs, in the order in which they are read: four inputs after four
   inputs, for HALVES each with its COLUMNS numbers, for BYTES with the four integers of each output beside each
   other, so that they are one number of 32 bits. Rows are filled up with zeros to whole panels and fours.

   With one row, W comes from memory, once, and that takes all the time. Panels are read from one end to the other;
   processors see that, and fetch what comes next. Rows, with a sum at the end of each, are asked for AHEAD of use. */

#include "row.h"
#ifdef __F16C__
#include <immintrin.h>
#endif

#define COLUMNS (2 * LANES)
#define AHEAD 4096 /* bytes, into the second cache */

enum { FLOATS, HALVES, BYTES };

struct matrix {
    const void *numbers;
    const float *scale, *bias; /* scale has COLUMNS numbers for each panel */
    long outputs, inputs, kind;
};

static inline vec from_halves(const uint16_t *from) {
#if defined(__F16C__) && LANES == 16
    return (vec)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)from));
#elif defined(__F16C__) && LANES == 8
    return (vec)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from));
#else
    typedef _Float16 halves __attribute__((vector_size(2 * LANES)));
    halves h;
    memcpy(&h, from, sizeof h);
    return __builtin_convertvector(h, vec);
#endif
}

static inline long four_bytes(long kind) { return 4 * COLUMNS * (kind == HALVES ? 2 : 1); }
static inline long fours(long inputs) { return (inputs + 3) / 4; }
static inline const void *panel_of(const struct matrix *m, long output) {
    return (const char *)m->numbers + output / COLUMNS * fours(m->inputs) * four_bytes(m->kind);
}

/* Four inputs of a panel as floats. An integer is left in the upper 8 bits of 32, which makes it 2^24 times larger. */
static inline __attribute__((always_inline)) void four_inputs(const void *from, long kind, vec w[4][2]) {
    for (int half = 0; half < 2; half++)
        if (kind == HALVES)
            for (int i = 0; i < 4; i++) w[i][half] = from_halves((const uint16_t *)from + i * COLUMNS + half * LANES);
        else {
            const ivec upper = (ivec){0} + (int32_t)0xff000000;
            ivec four;
            memcpy(&four, (const char *)from + half * sizeof four, sizeof four);
            w[0][half] = __builtin_convertvector(four << 24, vec);
            w[1][half] = __builtin_convertvector((four << 16) & upper, vec);
            w[2][half] = __builtin_convertvector((four << 8) & upper, vec);
            w[3][half] = __builtin_convertvector(four & upper, vec);
        }
}
#define UNIT (1.0f / (1 << 24))

/* A panel as products.c has them: input by input, scaled. There is room for whole fours. */
static inline void expand(const struct matrix *m, long output, float *to) {
    const char *from = panel_of(m, output);
    vec scale[2] = {all(1.0f), all(1.0f)}, w[4][2];
    if (m->kind == BYTES)
        for (int half = 0; half < 2; half++) scale[half] = load(m->scale + output + half * LANES) * UNIT;
    for (long i = 0; i < fours(m->inputs); i++, from += four_bytes(m->kind)) {
        if (m->kind == HALVES) four_inputs(from, HALVES, w);
        else four_inputs(from, BYTES, w);
        for (int u = 0; u < 4; u++, to += COLUMNS)
            store(to, w[u][0] * scale[0]), store(to + LANES, w[u][1] * scale[1]);
    }
}

static inline __attribute__((always_inline)) void panel_sums(const char *from, const float *x, long inputs, long kind,
                                                             float *sums) {
    vec s[4][2] = {0}, w[4][2];
    float rest[4] = {0};
    memcpy(rest, x + inputs / 4 * 4, sizeof(float) * (size_t)(inputs % 4));
    for (long i = 0; i < inputs; i += 4, from += four_bytes(kind)) {
        const float *four = i + 4 <= inputs ? x + i : rest;
        four_inputs(from, kind, w);
        for (int u = 0; u < 4; u++) s[u][0] += four[u] * w[u][0], s[u][1] += four[u] * w[u][1];
    }
    for (int half = 0; half < 2; half++)
        store(sums + half * LANES, (s[0][half] + s[1][half]) + (s[2][half] + s[3][half]));
}

/* Of so many rows. A function of its own: inlined into what follows, it has too few registers, and half the speed. */
static __attribute__((noinline)) void row_sums(const float *w, const float *x, long inputs, long count, float *sums) {
    for (long e = 0; e < count; e++, w += inputs) {
        vec s[4] = {0};
        long i = 0;
        for (; i + 4 * LANES <= inputs; i += 4 * LANES) {
            for (long b = 0; b < 16 * LANES; b += 64) __builtin_prefetch((const char *)(w + i) + AHEAD + b, 0, 2);
            for (int u = 0; u < 4; u++) s[u] += load(w + i + u * LANES) * load(x + i + u * LANES);
        }
        for (; i + LANES <= inputs; i += LANES) s[0] += load(w + i) * load(x + i);
        sums[e] = sum((s[0] + s[1]) + (s[2] + s[3]));
        for (; i < inputs; i++) sums[e] += w[i] * x[i];
    }
}

static inline long pieces_of(const struct matrix *m) { return (m->outputs + COLUMNS - 1) / COLUMNS; }

/* COLUMNS of the outputs; added to what y holds, or in its place. */
static inline void row_product(const struct matrix *m, long piece, const float *x, float *y, int add) {
    long first = piece * COLUMNS, count = m->outputs - first < COLUMNS ? m->outputs - first : COLUMNS;
    float sums[COLUMNS];
    if (m->kind == HALVES) panel_sums(panel_of(m, first), x, m->inputs, HALVES, sums);
    else if (m->kind == BYTES) panel_sums(panel_of(m, first), x, m->inputs, BYTES, sums);
    else row_sums((const float *)m->numbers + first * m->inputs, x, m->inputs, count, sums);
    for (long e = 0; e < count; e++) {
        float value = m->kind == BYTES ? sums[e] * (m->scale[first + e] * UNIT) : sums[e];
        if (m->bias) value += m->bias[first + e];
        y[first + e] = add ? y[first + e] + value : value;
    }
}

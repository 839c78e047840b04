/* Packed matrices, and the product of one row with them: y_e = s_e Σ_i x_i W_ei + b_e.

   FLOATS   row by row, as torch has them: each y is a sum along a row
   TWELVES  bf16 in 12 bits: its sign, 4 bits of its exponent, its 7 bits; s is a power of two for each output
   BYTES    integers from -127 to 127, with a scale s for each output

   TWELVES and BYTES lie in panels of COLUMNS outputs, in the order in which they are read, four inputs after four: those
   of an output are one number of 32 bits for BYTES; those of two outputs, LANES apart, three such numbers for TWELVES.
   Rows are filled up with zeros to whole panels and fours.

   A bf16 has 8 bits of exponent, and weights of one output use few of their values. Twelve bits are a float as soon as
   they stand at its sign and at the lower end of its exponent: one of 2^-126 to 2^-111, or 0. So x is made as much larger.

   With one row, W comes from memory, once, and that takes all the time. Panels are read from one end to the other;
   processors see that, and fetch what comes next, some of them soon enough, others only if it is asked for ahead (which
   slows down the first): `ahead` says how far, 0 for not at all. At the end of a thread's part that is the beginning of
   what it reads next, which no processor can guess. Rows, with a sum at the end of each, are asked for AHEAD.

   To make BYTES floats takes longer than to read them. A processor that multiplies bytes (VNNI) need not: a row x is
   written down with three digits of base 256, each from -128 to 127,

       x_i ≈ u (65536 a_i + 256 b_i + c_i)        u = max |x| / LARGEST

   which keeps as much of it as a float's 24 bits do of the largest; sums of bytes are exact, Σ x W = u (65536 Σ a W + ...).
   The instruction wants one factor without a sign: W + 128, so 128 Σ a is taken off. */

#include "row.h"

#if defined(__AVX512VNNI__) && LANES == 16
#include <immintrin.h>
#define BY_DIGITS 1
#else
#define BY_DIGITS 0
#endif
#define DIGITS 3
#define LARGEST 8355000.0f /* below 127 · 65536 + 127 · 256 + 127, so that nothing is rounded beyond it */
#define MOST_INPUTS 65536L /* the sum of their bytes fits into 32 bits */
#define COLUMNS (2 * LANES)
#define AHEAD 4096 /* bytes */

enum { FLOATS, TWELVES, BYTES };

struct matrix {
    const void *numbers;
    const float *scale, *bias; /* scale has COLUMNS numbers for each panel */
    long outputs, inputs, kind, ahead;
};

static inline long four_bytes(long kind) { return COLUMNS * (kind == TWELVES ? 6 : 4); }
static inline long fours(long inputs) { return (inputs + 3) / 4; }
static inline const void *panel_of(const struct matrix *m, long output) {
    return (const char *)m->numbers + output / COLUMNS * fours(m->inputs) * four_bytes(m->kind);
}

#define TWELVE 0x87ff0000 /* where the bits of a TWELVES are in a float */
#define RAISED 0x1p112f   /* by which these floats are too small */
#define UNIT 0x1p-24f     /* by which those of BYTES are too large: an integer is left in the upper 8 bits of 32 */

/* What is asked for while a panel is read: what lies so many bytes ahead in it, and after its end in the next. */
struct ahead {
    long bytes;
    const char *end, *next;
};

static inline void ask_into_second_cache(const char *from, long bytes) {
    for (long b = 0; b < bytes; b += 64) __builtin_prefetch(from + b, 0, 2);
}

static inline void ask_for(const struct ahead *a, const char *from, long bytes) {
    long beyond = from + a->bytes - a->end;
    ask_into_second_cache(beyond < 0 ? from + a->bytes : a->next + beyond, bytes);
}

/* Four inputs of a panel as floats, up to a factor. */
static inline __attribute__((always_inline)) void four_inputs(const void *from, long kind, vec w[4][2]) {
    if (kind == TWELVES) {
        uvec a, b, c;
        memcpy(&a, from, sizeof a);
        memcpy(&b, (const char *)from + sizeof a, sizeof b);
        memcpy(&c, (const char *)from + 2 * sizeof a, sizeof c);
        const uvec upper[8] = {a, a << 12, a << 24 | b >> 8, b << 4, b << 16, b << 28 | c >> 4, c << 8, c << 20};
        for (int i = 0; i < 8; i++) w[i / 2][i % 2] = (vec)((ivec)upper[i] >> 4 & (int32_t)TWELVE);
        return;
    }
    for (int half = 0; half < 2; half++) {
        const ivec upper = (ivec){0} + (int32_t)0xff000000;
        ivec four;
        memcpy(&four, (const char *)from + half * sizeof four, sizeof four);
        w[0][half] = __builtin_convertvector(four << 24, vec);
        w[1][half] = __builtin_convertvector((four << 16) & upper, vec);
        w[2][half] = __builtin_convertvector((four << 8) & upper, vec);
        w[3][half] = __builtin_convertvector(four & upper, vec);
    }
}

/* Convert a panel for products.c: input by input, scaled. Buffers are padded to multiples of four. */
static inline void expand(const struct matrix *m, long output, float *to) {
    const char *from = panel_of(m, output);
    vec scale[2] = {load(m->scale + output), load(m->scale + output + LANES)}, w[4][2];
    for (long i = 0; i < fours(m->inputs); i++, from += four_bytes(m->kind)) {
        if (m->kind == TWELVES) four_inputs(from, TWELVES, w);
        else four_inputs(from, BYTES, w);
        for (int u = 0; u < 4; u++, to += COLUMNS)
            for (int half = 0; half < 2; half++)
                store(to + half * LANES, w[u][half] * (m->kind == TWELVES ? RAISED : UNIT) * scale[half]);
    }
}

static inline __attribute__((always_inline)) void panel_sums(const char *from, const float *x, long inputs, long kind,
                                                             const struct ahead *ahead, float *sums) {
    vec s[4][2] = {0}, w[4][2];
    float rest[4] = {0};
    memcpy(rest, x + inputs / 4 * 4, sizeof(float) * (size_t)(inputs % 4));
    for (long i = 0; i < inputs; i += 4, from += four_bytes(kind)) {
        const float *four = i + 4 <= inputs ? x + i : rest;
        if (ahead->bytes) ask_for(ahead, from, four_bytes(kind));
        four_inputs(from, kind, w);
        for (int u = 0; u < 4; u++) s[u][0] += four[u] * w[u][0], s[u][1] += four[u] * w[u][1];
    }
    for (int half = 0; half < 2; half++)
        store(sums + half * LANES, (s[0][half] + s[1][half]) + (s[2][half] + s[3][half]));
}

/* One row as a product reads it. */
struct input {
    const float *x;
    const int32_t *digits;  /* four of a kind in a number: all a, all b, all c. None: floats are read */
    int32_t surplus[DIGITS]; /* 128 Σ of each */
    float unit;              /* by which sums are too small */
};

static inline long input_room(long inputs) { return inputs + 5 * DIGITS; } /* for all inputs, or DIGITS fourths */

#if BY_DIGITS
static inline struct input with_digits(const float *x, long inputs, int32_t *room) {
    struct input made = {x, 0, {0}, UNIT};
    vec most = {0}, odd = {0};
    long whole = inputs / LANES * LANES, count = fours(inputs);
    float rest[LANES] = {0};
    memcpy(rest, x + whole, sizeof(float) * (size_t)(inputs - whole));
    for (long i = 0; i < inputs; i += LANES) {
        vec v = load(i < whole ? x + i : rest);
        most = larger((vec)_mm512_abs_ps((__m512)v), most);
        odd += v - v; /* 0, except for NaN and infinities */
    }
    float peak = largest(most);
    if (sum(odd) != 0.0f || peak < 1e-30f || peak > 1e30f || inputs > MOST_INPUTS) return made; /* by floats */
    ivec sums[DIGITS] = {0};
    for (long i = 0; i < inputs; i += LANES) {
        ivec left = (ivec)_mm512_cvtps_epi32((__m512)(load(i < whole ? x + i : rest) * (LARGEST / peak)));
        for (int d = DIGITS - 1; d >= 0; d--) {
            ivec digit = (left << 24) >> 24;
            left = (left - digit) >> 8;
            sums[d] += digit;
            _mm_storeu_si128((__m128i *)(room + d * (count + 4) + i / 4), _mm512_cvtepi32_epi8((__m512i)digit));
        }
    }
    for (int d = 0; d < DIGITS; d++) made.surplus[d] = 128 * _mm512_reduce_add_epi32((__m512i)sums[d]);
    made.digits = room;
    made.unit = peak / LARGEST;
    return made;
}

static __attribute__((noinline)) void digit_sums(const char *from, const struct input *in, long inputs,
                                                 const struct ahead *ahead, float *sums) {
    const __m512i sign = _mm512_set1_epi8((char)0x80);
    long count = fours(inputs);
    const int32_t *a = in->digits, *b = a + count + 4, *c = b + count + 4;
    __m512i s[DIGITS][2];
    for (int d = 0; d < DIGITS; d++) s[d][0] = s[d][1] = _mm512_set1_epi32(-in->surplus[d]);
    for (long i = 0; i < count; i++, from += 4 * COLUMNS) {
        if (ahead->bytes) ask_for(ahead, from, 4 * COLUMNS);
        for (int half = 0; half < 2; half++) {
            __m512i w = _mm512_xor_si512(_mm512_loadu_si512(from + half * 64), sign);
            s[0][half] = _mm512_dpbusd_epi32(s[0][half], w, _mm512_set1_epi32(a[i]));
            s[1][half] = _mm512_dpbusd_epi32(s[1][half], w, _mm512_set1_epi32(b[i]));
            s[2][half] = _mm512_dpbusd_epi32(s[2][half], w, _mm512_set1_epi32(c[i]));
        }
    }
    for (int half = 0; half < 2; half++) {
        vec total = __builtin_convertvector((ivec)s[0][half], vec);
        total = total * 256.0f + __builtin_convertvector((ivec)s[1][half], vec);
        total = total * 256.0f + __builtin_convertvector((ivec)s[2][half], vec);
        store(sums + half * LANES, total);
    }
}
#endif

/* As floats that TWELVES can be multiplied with: neither the largest nor what is much smaller leaves the numbers that
   floats have. */
static inline struct input raised(const float *x, long inputs, float *room) {
    float most = 0.0f;
    for (long i = 0; i < inputs; i++) most = __builtin_fabsf(x[i]) > most ? __builtin_fabsf(x[i]) : most;
    int usual = most < 0x1p20f;
    for (long i = 0; i < inputs; i++) room[i] = x[i] * (usual ? 0x1p100f : 0x1p-15f);
    return (struct input){room, 0, {0}, usual ? RAISED * 0x1p-100f : RAISED * 0x1p15f};
}

/* x for products with this matrix; `room` has input_room(inputs) numbers. */
static inline struct input input_of(const struct matrix *m, const float *x, int32_t *room) {
    if (m->kind == TWELVES) return raised(x, m->inputs, (float *)room);
#if BY_DIGITS
    if (m->kind == BYTES) return with_digits(x, m->inputs, room);
#endif
    return (struct input){x, 0, {0}, m->kind == BYTES ? UNIT : 1.0f};
}

/* Of so many rows. A function of its own: inlined into what follows, it has too few registers, and half the speed. */
static __attribute__((noinline)) void row_sums(const float *w, const float *x, long inputs, long count, float *sums) {
    for (long e = 0; e < count; e++, w += inputs) {
        vec s[4] = {0};
        long i = 0;
        for (; i + 4 * LANES <= inputs; i += 4 * LANES) {
            ask_into_second_cache((const char *)(w + i) + AHEAD, 16 * LANES);
            for (int u = 0; u < 4; u++) s[u] += load(w + i + u * LANES) * load(x + i + u * LANES);
        }
        for (; i + LANES <= inputs; i += LANES) s[0] += load(w + i) * load(x + i);
        sums[e] = sum((s[0] + s[1]) + (s[2] + s[3]));
        for (; i < inputs; i++) sums[e] += w[i] * x[i];
    }
}

static inline long pieces_of(const struct matrix *m) { return (m->outputs + COLUMNS - 1) / COLUMNS; }

static inline const char *piece_of(const struct matrix *m, long piece) { return panel_of(m, piece * COLUMNS); }

/* COLUMNS of the outputs; added to what y holds, or in its place. `next`: the panel that is read after this one. */
static inline void row_product(const struct matrix *m, long piece, const struct input *in, float *y, int add,
                               const char *next) {
    const float *x = in->x;
    long first = piece * COLUMNS, count = m->outputs - first < COLUMNS ? m->outputs - first : COLUMNS;
    const char *panel = piece_of(m, piece);
    const struct ahead ahead = {m->ahead, piece_of(m, piece + 1), next};
    float sums[COLUMNS];
#if BY_DIGITS
    if (in->digits) digit_sums(panel, in, m->inputs, &ahead, sums);
    else
#endif
    if (m->kind == TWELVES) panel_sums(panel, x, m->inputs, TWELVES, &ahead, sums);
    else if (m->kind == BYTES) panel_sums(panel, x, m->inputs, BYTES, &ahead, sums);
    else row_sums((const float *)m->numbers + first * m->inputs, x, m->inputs, count, sums);
    for (long e = 0; e < count; e++) {
        float value = m->scale ? sums[e] * in->unit * m->scale[first + e] : sums[e];
        if (m->bias) value += m->bias[first + e];
        y[first + e] = add ? y[first + e] + value : value;
    }
}

/* The transpose of a table. */

#pragma once

#include "vectors.h"

/* Interleave two vectors: their lower halves, and their upper halves. */
#ifdef __clang__
#define LOWER(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define UPPER(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#else
#define LOWER(a, b) __builtin_shuffle(a, b, (iquad){0, 4, 1, 5})
#define UPPER(a, b) __builtin_shuffle(a, b, (iquad){2, 6, 3, 7})
#endif

/* to[i * room + j] = from[j * stride + i]: four rows and four columns at a time, in registers. */
static inline void turned(const float *from, long stride, long rows, long width, float *to, long room) {
    long j = 0, whole = width / 4 * 4;
    for (; j + 4 <= rows; j += 4)
        for (long i = 0; i < whole; i += 4) {
            quad r[4];
            for (int n = 0; n < 4; n++) memcpy(r + n, from + (j + n) * stride + i, sizeof(quad));
            quad even_low = LOWER(r[0], r[2]), even_high = UPPER(r[0], r[2]), odd_low = LOWER(r[1], r[3]), odd_high = UPPER(r[1], r[3]);
            r[0] = LOWER(even_low, odd_low), r[1] = UPPER(even_low, odd_low);
            r[2] = LOWER(even_high, odd_high), r[3] = UPPER(even_high, odd_high);
            for (int n = 0; n < 4; n++) memcpy(to + (i + n) * room + j, r + n, sizeof(quad));
        }
    for (long r = 0; r < rows; r++) /* the last columns of those, and the last rows */
        for (long i = r < j ? whole : 0; i < width; i++) to[i * room + r] = from[r * stride + i];
}

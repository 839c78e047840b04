/* Operations on one row of numbers. */

#include "vectors.h"

static inline float dot(const float *a, const float *b, long width) {
    vec s = {0};
    long i = 0;
    for (; i + LANES <= width; i += LANES) s += load(a + i) * load(b + i);
    float total = sum(s);
    for (; i < width; i++) total += a[i] * b[i];
    return total;
}

static inline void add_scaled(float *to, const float *from, float factor, long width) {
    long i = 0;
    for (; i + LANES <= width; i += LANES) store(to + i, load(to + i) + factor * load(from + i));
    for (; i < width; i++) to[i] += factor * from[i];
}

/* In place; the row is padded to a whole vector. */
static inline void softmax(float *scores, long count) {
    long whole = count / LANES * LANES;
    vec most = all(-__builtin_inff()), total = {0}, rest = most;
    for (long j = 0; j < whole; j += LANES) most = larger(load(scores + j), most);
    if (count > whole) rest = first_of(count - whole, load(scores + whole)), most = larger(rest, most);
    vec peak = all(largest(most));
    for (long j = 0; j < whole; j += LANES) {
        vec e = exponential(load(scores + j) - peak);
        total += e;
        store(scores + j, e);
    }
    rest = exponential(rest - peak); /* of -inf, this is 0 */
    vec share_of = all(1.0f / sum(total + rest));
    for (long j = 0; j < whole; j += LANES) store(scores + j, load(scores + j) * share_of);
    if (count > whole) store(scores + whole, rest * share_of);
}

/* (x - mean) / √(variance + ε) · scale + shift, or, by RMS, x / √(mean of x² + ε) · scale */
static inline void norm_row(const float *x, long width, const float *scale, const float *shift, float eps, int rms,
                            float *y) {
    long whole = width / LANES * LANES;
    float mean = 0.0f, square = 0.0f;
    vec s = {0};
    if (!rms) {
        for (long i = 0; i < whole; i += LANES) s += load(x + i);
        mean = sum(s);
        for (long i = whole; i < width; i++) mean += x[i];
        mean /= width;
    }
    s = (vec){0};
    for (long i = 0; i < whole; i += LANES) {
        vec d = load(x + i) - mean;
        s += d * d;
    }
    square = sum(s);
    for (long i = whole; i < width; i++) square += (x[i] - mean) * (x[i] - mean);
    float factor = 1.0f / __builtin_sqrtf(square / width + eps);
    for (long i = 0; i < width; i++) {
        float value = (x[i] - mean) * factor * (scale ? scale[i] : 1.0f);
        y[i] = shift ? value + shift[i] : value;
    }
}

/* What is done to one row of numbers by itself. */

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

/* There is room for scores up to a whole vector. */
static inline void softmax(float *scores, long count) {
    const float none = -__builtin_inff();
    for (long j = count; j % LANES; j++) scores[j] = none;
    vec most = all(none), total = {0};
    for (long j = 0; j < count; j += LANES) most = larger(load(scores + j), most);
    float peak = none;
    for (int i = 0; i < LANES; i++) peak = most[i] > peak ? most[i] : peak;
    for (long j = 0; j < count; j += LANES) {
        vec e = exponential(load(scores + j) - peak);
        total += e;
        store(scores + j, e);
    }
    float share_of = 1.0f / sum(total);
    for (long j = 0; j < count; j += LANES) store(scores + j, load(scores + j) * share_of);
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

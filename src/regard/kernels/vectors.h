/* Vectors of the width of the processor, by an extension of gcc and clang, so that one source serves all processors;
   and work that is split among the threads of torch. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX__)
#define LANES 8
#else
#define LANES 4
#endif

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef int32_t ivec __attribute__((vector_size(4 * LANES)));
typedef uint32_t uvec __attribute__((vector_size(4 * LANES)));

static inline vec load(const float *from) { vec v; memcpy(&v, from, sizeof v); return v; }
static inline void store(float *to, vec v) { memcpy(to, &v, sizeof v); }
static inline vec all(float x) { return x - (vec){0}; }
/* b if one of them is NaN. */
static inline vec larger(vec a, vec b) { ivec m = a > b; return (vec)((m & (ivec)a) | (~m & (ivec)b)); }

/* The first `count` numbers, and -inf in place of the others. */
static inline vec first_of(long count, vec v) {
    ivec number = {0, 1, 2, 3
#if LANES > 4
        , 4, 5, 6, 7
#endif
#if LANES > 8
        , 8, 9, 10, 11, 12, 13, 14, 15
#endif
    };
    ivec m = number < (int32_t)count;
    return (vec)((m & (ivec)v) | (~m & (ivec)all(-__builtin_inff())));
}

typedef float quad __attribute__((vector_size(16)));

/* Halves are combined until four numbers are left. */
#define FOUR_OF(v, together)                                                                      \
    quad parts[LANES / 4], four;                                                                  \
    memcpy(parts, &v, sizeof v);                                                                  \
    for (int half = LANES / 8; half; half /= 2)                                                   \
        for (int i = 0; i < half; i++) parts[i] = together(parts[i], parts[i + half]);            \
    four = parts[0]

static inline quad both(quad a, quad b) { return a + b; }
typedef int32_t iquad __attribute__((vector_size(16)));
static inline quad larger_four(quad a, quad b) { iquad m = a > b; return (quad)((m & (iquad)a) | (~m & (iquad)b)); }

static inline float sum(vec v) {
    FOUR_OF(v, both);
    return (four[0] + four[1]) + (four[2] + four[3]);
}

static inline float largest(vec v) {
    FOUR_OF(v, larger_four);
    float left = four[0] > four[1] ? four[0] : four[1], right = four[2] > four[3] ? four[2] : four[3];
    return left > right ? left : right;
}

/* exp x = 2^n exp r with n whole and |r| <= ln 2 / 2, where a polynomial of degree 6 is right to the last bit or two.
   Below -87, where floats end, it is 0. */
static inline vec exponential(vec x) {
    const vec lowest = all(-87.0f);
    ivec tiny = x < lowest;
    x = larger(lowest, x); /* in this order NaN stays NaN */
    vec shifted = x * 1.44269504f + 12582912.0f; /* 1.5 * 2^23: what is added rounds to a whole number */
    vec n = shifted - 12582912.0f;
    vec r = x - n * 0.693359375f + n * 2.12194440e-4f; /* ln 2 in two parts, without rounding loss */
    vec p = r * 1.3888889e-3f + 8.3333333e-3f;
    p = p * r + 4.16666667e-2f;
    p = p * r + 1.66666667e-1f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    ivec power = (__builtin_convertvector(n, ivec) + 127) << 23;
    return (vec)((ivec)(p * (vec)power) & ~tiny);
}

/* torch brings the library of OpenMP with its pool of threads. Where its symbols are not to be found, one thread works. */
extern void GOMP_parallel(void (*)(void *), void *, unsigned, unsigned) __attribute__((weak));
extern int omp_get_thread_num(void) __attribute__((weak));
extern int omp_get_num_threads(void) __attribute__((weak));

/* Return codes of all kernels; compiled.py raises an exception for all but DONE. */
enum { DONE, NO_MEMORY, NO_SUCH_TARGET };

struct shared_work {
    int (*work)(void *);
    void *task;
    int result;
};

static inline void work_of_a_thread(void *of) {
    struct shared_work *shared = of;
    int result = shared->work(shared->task);
    if (result != DONE) __atomic_store_n(&shared->result, result, __ATOMIC_RELAXED);
}

static inline int in_parallel(int (*work)(void *), void *task, long threads) {
    struct shared_work shared = {work, task, DONE};
    if (threads > 1 && GOMP_parallel && omp_get_thread_num && omp_get_num_threads)
        GOMP_parallel(work_of_a_thread, &shared, (unsigned)threads, 0);
    else
        work_of_a_thread(&shared);
    return shared.result;
}

/* The part of 0 ... count of this thread, which starts at a multiple of `unit`. */
static inline void share(long count, long unit, long *first, long *last) {
    long threads = 1, mine = 0;
    if (omp_get_thread_num && omp_get_num_threads) threads = omp_get_num_threads(), mine = omp_get_thread_num();
    long units = (count + unit - 1) / unit;
    *first = units * mine / threads * unit;
    *last = units * (mine + 1) / threads * unit;
    if (*last > count) *last = count;
}

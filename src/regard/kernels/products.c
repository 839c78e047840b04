/* y = f(x Wᵀ + b), or y + f(x Wᵀ + b), f = relu or nothing: many rows of x with a W that is packed once and used many times.

   W is kept in panels of COLUMNS outputs, whose numbers lie as they are read: input by input. ROWS rows of x meet a
   panel in registers, ROWS · COLUMNS sums at a time (Goto and van de Geijn 2008, "Anatomy of high-performance matrix
   multiplication", section 4). A panel of a few hundred inputs stays in the first cache for all rows of x, so neither
   x nor W is copied. */

#include "panels.h"

#if LANES == 16
#define ROWS 12 /* of 32 registers, 24 are sums */
#else
#define ROWS 6 /* 12 of 16 */
#endif

enum { RELU = 1, ADD = 2 };

long panel_width(void) { return COLUMNS; }

int pack(const float *w, long outputs, long inputs, float *panels) {
    for (long first = 0; first < outputs; first += COLUMNS)
        for (long i = 0; i < inputs; i++)
            for (long j = 0; j < COLUMNS; j++)
                *panels++ = first + j < outputs ? w[(first + j) * inputs + i] : 0.0f;
    return DONE;
}

#define KERNEL(R)                                                                                                  \
    static void kernel_##R(const float *x, long stride, long inputs, const float *panel, float *sums) {            \
        vec s[R][2];                                                                                               \
        for (int r = 0; r < R; r++) s[r][0] = s[r][1] = (vec){0};                                                  \
        for (long i = 0; i < inputs; i++, panel += COLUMNS) {                                                      \
            vec left = load(panel), right = load(panel + LANES);                                                   \
            _Pragma("GCC unroll 16") for (int r = 0; r < R; r++) {                                                 \
                float one = x[r * stride + i];                                                                     \
                s[r][0] += one * left;                                                                             \
                s[r][1] += one * right;                                                                            \
            }                                                                                                      \
        }                                                                                                          \
        for (int r = 0; r < R; r++) store(sums + r * COLUMNS, s[r][0]), store(sums + r * COLUMNS + LANES, s[r][1]); \
    }
#if ROWS == 12
KERNEL(12)
#endif
KERNEL(6) KERNEL(3) KERNEL(2) KERNEL(1)

static long sums_of(const float *x, long stride, long rows, long inputs, const float *panel, float *sums) {
#if ROWS == 12
    if (rows >= 12) return kernel_12(x, stride, inputs, panel, sums), 12;
#endif
    if (rows >= 6) return kernel_6(x, stride, inputs, panel, sums), 6;
    if (rows >= 3) return kernel_3(x, stride, inputs, panel, sums), 3;
    if (rows >= 2) return kernel_2(x, stride, inputs, panel, sums), 2;
    return kernel_1(x, stride, inputs, panel, sums), 1;
}

static void finish(const float *sums, long rows, long columns, const float *bias, int how, float *y, long stride) {
    for (long r = 0; r < rows; r++, y += stride, sums += COLUMNS)
        for (long c = 0; c < columns; c++) {
            float value = sums[c] + (bias ? bias[c] : 0.0f);
            if (how & RELU) value = value < 0.0f ? 0.0f : value;
            y[c] = how & ADD ? y[c] + value : value;
        }
}

struct product {
    const float *x, *panels, *bias;
    float *y;
    long rows, inputs, outputs, x_stride, y_stride;
    int how;
    const struct matrix *kept; /* quantized: panels are dequantized one at a time */
};

static int product_part(void *task) {
    const struct product *p = task;
    float sums[ROWS * COLUMNS];
    long first, last;
    float *floats = p->kept ? aligned_alloc(64, sizeof(float) * 4 * COLUMNS * (size_t)fours(p->inputs)) : 0;
    if (p->kept && !floats) return NO_MEMORY;
    for (share(p->outputs, COLUMNS, &first, &last); first < last; first += COLUMNS) {
        const float *panel = floats ? floats : p->panels + first * p->inputs;
        if (floats) expand(p->kept, first, floats);
        long columns = p->outputs - first < COLUMNS ? p->outputs - first : COLUMNS;
        const float *bias = p->bias ? p->bias + first : 0;
        for (long row = 0, rows; row < p->rows; row += rows) {
            rows = sums_of(p->x + row * p->x_stride, p->x_stride, p->rows - row, p->inputs, panel, sums);
            finish(sums, rows, columns, bias, p->how, p->y + row * p->y_stride + first, p->y_stride);
        }
    }
    free(floats);
    return DONE;
}

int linear(const float *x, long x_stride, long rows, long inputs, const float *panels, long outputs, const float *bias,
            int how, float *y, long y_stride, long threads) {
    struct product task = {x, panels, bias, y, rows, inputs, outputs, x_stride, y_stride, how, 0};
    return in_parallel(product_part, &task, rows * inputs * outputs < 100000 ? 1 : threads);
}

static int one_row_part(void *task) {
    const struct product *p = task;
    long first, last;
    int32_t *room = malloc(sizeof(int32_t) * (size_t)input_room(p->inputs));
    if (!room) return NO_MEMORY;
    struct input in = input_of(p->kept, p->x, room); /* in each thread, which is faster than waiting for one */
    for (share(pieces_of(p->kept), 1, &first, &last); first < last; first++)
        row_product(p->kept, first, &in, p->y, 0, piece_of(p->kept, first + 1));
    free(room);
    return DONE;
}

/* Product with a matrix of panels.h: float for one row only, quantized for any number of rows. */
int linear_kept(const float *x, long x_stride, long rows, const struct matrix *w, float *y, long threads) {
    struct product task = {x, 0, w->bias, y, rows, w->inputs, w->outputs, x_stride, w->outputs, 0, w};
    return in_parallel(rows == 1 ? one_row_part : product_part, &task, rows * w->inputs * w->outputs < 100000 ? 1 : threads);
}

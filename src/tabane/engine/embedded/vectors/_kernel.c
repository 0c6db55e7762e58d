/* The loops of the vector index: counting different bits of codes, and dot products of selected vectors.

   vector_kernel.py has the same in numpy, and says what both compute. numpy needs copies for it. Here, words
   and vectors are read where they are, in one pass. Other threads run meanwhile, and may change the arrays,
   so slots are copied before they are checked. By the limited API, one binary is for all versions of CPython
   from 3.11 on.
*/

#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <string.h>

#if defined(__GNUC__) || defined(__clang__)
#define INLINE static inline __attribute__((always_inline))
#define PREFETCH(address) __builtin_prefetch(address)
#if defined(__x86_64__)
#define X86_VARIANTS 1
#endif
#else
#define INLINE static __inline
#define PREFETCH(address) ((void)(address))
#endif
#ifndef X86_VARIANTS
#define X86_VARIANTS 0
#endif

enum {
    BLOCK = 4096,       /* codes whose counts stay in the nearest caches: memory is read in long runs */
    SUMMED = 24,        /* words whose bits fit in bytes of 8 bits each: 24 * 8 < 256 */
    LANES = 32,         /* sums of a dot product that are independent of each other */
    AHEAD = 2,          /* vectors that are fetched before they are needed */
    LINE = 64,          /* bytes that are fetched at once */
    EXACT_LANES = 8,    /* sums of an exact dot product, up to so many products in a row: as in numpy */
    IN_A_ROW = 128,
    MOST_HALVED = 64,   /* times that any length can be halved */
    WORTH_RELEASING = 1 << 15 /* words or floats: less is done before another thread would run */
};

/* Bits */

typedef struct {
    const char *words; /* word w of code v is at words + w * stride + v * 8 */
    Py_ssize_t stride, codes;
    const uint64_t *wanted;
    const int64_t *numbers; /* words to be counted */
    Py_ssize_t counted;
} Codes;

/* Copy the part of a word for some codes that differs from the wanted one. */
#define FOR_EACH_DIFFERENCE(difference, statement)                                  \
    do {                                                                            \
        const uint64_t *row = (const uint64_t *)(of->words + number * of->stride);  \
        const uint64_t wanted = of->wanted[number];                                 \
        Py_ssize_t i;                                                               \
        if (slots == NULL) {                                                        \
            row += first;                                                           \
            for (i = 0; i < size; i++) {                                            \
                const uint64_t difference = row[i] ^ wanted;                        \
                statement;                                                          \
            }                                                                       \
        } else {                                                                    \
            for (i = 0; i < size; i++) {                                            \
                const uint64_t difference = row[slots[i]] ^ wanted;                 \
                statement;                                                          \
            }                                                                       \
        }                                                                           \
    } while (0)

#if X86_VARIANTS
/* Add the bits of up to BLOCK codes, by an instruction that counts them. */
INLINE void add_by_instruction(const Codes *of, Py_ssize_t first, const int64_t *slots, Py_ssize_t size,
                               uint16_t *counts)
{
    uint64_t sums[BLOCK];
    Py_ssize_t place, end;
    memset(sums, 0, sizeof sums);
    for (place = 0; place < of->counted; place++) {
        const int64_t number = of->numbers[place];
        FOR_EACH_DIFFERENCE(bits, sums[i] += (uint64_t)__builtin_popcountll(bits));
    }
    for (end = size, place = 0; place < end; place++)
        counts[place] = (uint16_t)(counts[place] + sums[place]);
}
#endif

/* The same by arithmetic, which compilers turn into vector instructions of any processor. */
INLINE void add_by_arithmetic(const Codes *of, Py_ssize_t first, const int64_t *slots, Py_ssize_t size,
                              uint16_t *counts)
{
    uint64_t sums[BLOCK]; /* eight sums of bytes in each */
    Py_ssize_t begin, place;
    for (begin = 0; begin < of->counted; begin += SUMMED) {
        const Py_ssize_t end = begin + SUMMED < of->counted ? begin + SUMMED : of->counted;
        memset(sums, 0, sizeof sums);
        for (place = begin; place < end; place++) {
            const int64_t number = of->numbers[place];
            FOR_EACH_DIFFERENCE(bits, {
                uint64_t pairs = bits - ((bits >> 1) & 0x5555555555555555u);
                pairs = (pairs & 0x3333333333333333u) + ((pairs >> 2) & 0x3333333333333333u);
                sums[i] += (pairs + (pairs >> 4)) & 0x0f0f0f0f0f0f0f0fu;
            });
        }
        for (place = 0; place < size; place++) {
            uint64_t sum = (sums[place] & 0x00ff00ff00ff00ffu) + ((sums[place] >> 8) & 0x00ff00ff00ff00ffu);
            sum += sum >> 32;
            counts[place] = (uint16_t)(counts[place] + sum + (sum >> 16));
        }
    }
}

/* Dot products */

typedef struct {
    const char *rows; /* row r is at rows + r * stride */
    Py_ssize_t stride, count, dimension;
    const float *query;
} Rows;

/* With the query, and of the row with itself: the row is read once. NULL: not with itself. */
INLINE void dot(const float *row, const float *query, Py_ssize_t dimension, float *product, float *square)
{
    float sums[LANES], squares[LANES];
    Py_ssize_t i = 0;
    int lane, half;
    memset(sums, 0, sizeof sums);
    memset(squares, 0, sizeof squares);
    for (; i + LANES <= dimension; i += LANES)
        for (lane = 0; lane < LANES; lane++) {
            sums[lane] += row[i + lane] * query[i + lane];
            if (square != NULL)
                squares[lane] += row[i + lane] * row[i + lane];
        }
    for (lane = 0; i < dimension; i++, lane++) {
        sums[lane] += row[i] * query[i];
        if (square != NULL)
            squares[lane] += row[i] * row[i];
    }
    for (half = LANES / 2; half; half /= 2)
        for (lane = 0; lane < half; lane++) {
            sums[lane] += sums[lane + half];
            squares[lane] += squares[lane + half];
        }
    *product = sums[0];
    if (square != NULL)
        *square = squares[0];
}

INLINE void dot_block(const Rows *of, const int64_t *slots, Py_ssize_t size, float *products, float *squares)
{
    const Py_ssize_t bytes = of->dimension * (Py_ssize_t)sizeof(float);
    Py_ssize_t i, at;
    for (i = 0; i < size; i++) {
        if (i + AHEAD < size) {
            const char *next = of->rows + slots[i + AHEAD] * of->stride;
            for (at = 0; at < bytes; at += LINE)
                PREFETCH(next + at);
        }
        dot((const float *)(of->rows + slots[i] * of->stride), of->query, of->dimension, products + i,
            squares == NULL ? NULL : squares + i);
    }
}

/* The sum of products that are exact, in the order in which numpy adds numbers in a row. */
INLINE double some_products(const float *row, const float *query, Py_ssize_t size)
{
    double sums[EXACT_LANES], sum = 0;
    Py_ssize_t i = 0;
    int lane;
    if (size >= EXACT_LANES) {
        memset(sums, 0, sizeof sums);
        for (; i + EXACT_LANES <= size; i += EXACT_LANES)
            for (lane = 0; lane < EXACT_LANES; lane++)
                sums[lane] += (double)row[i + lane] * (double)query[i + lane];
        sum = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
    }
    for (; i < size; i++)
        sum += (double)row[i] * (double)query[i];
    return sum;
}

/* Halves of long rows are added first: without recursion, which no compiler would inline. */
INLINE double exact_dot(const float *row, const float *query, Py_ssize_t dimension)
{
    Py_ssize_t ends[MOST_HALVED]; /* of the halves that are begun */
    double sums[MOST_HALVED];     /* of their first halves */
    int seconds[MOST_HALVED];     /* whether these are complete */
    Py_ssize_t begin = 0, end = dimension;
    int depth = 0;
    for (;;) {
        double sum;
        while (end - begin > IN_A_ROW) {
            Py_ssize_t half = (end - begin) / 2;
            ends[depth] = end;
            seconds[depth++] = 0;
            end = begin + half - half % EXACT_LANES;
        }
        sum = some_products(row + begin, query + begin, end - begin);
        begin = end;
        while (depth && seconds[depth - 1])
            sum = sums[--depth] + sum;
        if (!depth)
            return sum;
        sums[depth - 1] = sum;
        seconds[depth - 1] = 1;
        end = ends[depth - 1];
    }
}

INLINE void exact_block(const Rows *of, const int64_t *slots, Py_ssize_t size, double *products,
                        double *squares)
{
    Py_ssize_t i;
    for (i = 0; i < size; i++) {
        const float *row = (const float *)(of->rows + slots[i] * of->stride);
        products[i] = exact_dot(row, of->query, of->dimension);
        squares[i] = exact_dot(row, row, of->dimension);
    }
}

/* Variants by instruction set */

typedef void (*AddBits)(const Codes *, Py_ssize_t, const int64_t *, Py_ssize_t, uint16_t *);
typedef void (*DotBlock)(const Rows *, const int64_t *, Py_ssize_t, float *, float *);
typedef void (*ExactBlock)(const Rows *, const int64_t *, Py_ssize_t, double *, double *);

#define VARIANT(name, attributes, adding)                                                              \
    attributes static void add_##name(const Codes *of, Py_ssize_t first, const int64_t *slots,         \
                                      Py_ssize_t size, uint16_t *counts)                               \
    {                                                                                                  \
        if (slots == NULL) /* told apart here, so that each case is compiled by itself */              \
            adding(of, first, NULL, size, counts);                                                     \
        else                                                                                           \
            adding(of, first, slots, size, counts);                                                    \
    }                                                                                                  \
    attributes static void dot_##name(const Rows *of, const int64_t *slots, Py_ssize_t size,           \
                                      float *products, float *squares)                                 \
    {                                                                                                  \
        if (squares == NULL) /* told apart here, so that each case is compiled by itself */            \
            dot_block(of, slots, size, products, NULL);                                                \
        else                                                                                           \
            dot_block(of, slots, size, products, squares);                                             \
    }                                                                                                  \
    attributes static void exact_##name(const Rows *of, const int64_t *slots, Py_ssize_t size,         \
                                        double *products, double *squares)                             \
    {                                                                                                  \
        exact_block(of, slots, size, products, squares);                                               \
    }

VARIANT(plain, , add_by_arithmetic)
#if X86_VARIANTS
VARIANT(avx2, __attribute__((target("avx2,fma"))), add_by_arithmetic)
VARIANT(avx512, __attribute__((target("avx2,fma,avx512f,avx512vl,avx512vpopcntdq"))), add_by_instruction)
#endif

typedef struct {
    const char *name;
    AddBits add;
    DotBlock dot;
    ExactBlock exact;
} Variant;

static const Variant VARIANTS[] = {
    {"plain", add_plain, dot_plain, exact_plain},
#if X86_VARIANTS
    {"avx2", add_avx2, dot_avx2, exact_avx2},
    {"avx512", add_avx512, dot_avx512, exact_avx512},
#endif
};

/* The best variant for this processor. */
static const Variant *chosen(void)
{
#if X86_VARIANTS
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
            __builtin_cpu_supports("avx512vpopcntdq"))
            return &VARIANTS[2];
        return &VARIANTS[1];
    }
#endif
    return &VARIANTS[0];
}

/* Arguments */

enum { FLOAT32 = 'f', FLOAT64 = 'd', UINT16 = 'H', INT64 = 'q', UINT64 = 'Q' };

static int has_type(const Py_buffer *view, char type)
{
    const char *format = view->format;
    if (format == NULL || format[0] == '\0' || format[1] != '\0')
        return 0;
    switch (type) {
    case INT64:
        return view->itemsize == 8 && (format[0] == 'q' || format[0] == 'l');
    case UINT64:
        return view->itemsize == 8 && (format[0] == 'Q' || format[0] == 'L');
    case UINT16:
        return view->itemsize == 2 && format[0] == 'H';
    case FLOAT64:
        return view->itemsize == 8 && format[0] == 'd';
    default:
        return view->itemsize == 4 && format[0] == 'f';
    }
}

/* Fill the view of an array whose last axis has no gaps. Returns 0, or -1 with an exception and no view. */
static int take(PyObject *array, Py_buffer *view, const char *name, char type, int dimensions, int flags)
{
    const char *problem = NULL;
    int axis;
    if (PyObject_GetBuffer(array, view, PyBUF_STRIDES | PyBUF_FORMAT | flags) < 0)
        return -1;
    if (!has_type(view, type))
        problem = "has elements of another type";
    else if (view->ndim != dimensions)
        problem = "has another number of dimensions";
    else if (view->shape[dimensions - 1] > 1 && view->strides[dimensions - 1] != view->itemsize)
        problem = "has gaps between elements";
    else if ((uintptr_t)view->buf % (size_t)view->itemsize)
        problem = "is not aligned";
    for (axis = 0; problem == NULL && axis < dimensions; axis++)
        if (view->strides[axis] % view->itemsize)
            problem = "is not aligned";
    if (problem == NULL)
        return 0;
    PyErr_Format(PyExc_ValueError, "%s %s", name, problem);
    PyBuffer_Release(view);
    return -1;
}

/* Copy some slots into ``copy``. Returns whether each is below ``count``. */
static int copied(const int64_t *slots, Py_ssize_t size, Py_ssize_t count, int64_t *copy)
{
    uint64_t highest = 0; /* a negative one is very high */
    Py_ssize_t i;
    memcpy(copy, slots, (size_t)size * sizeof *copy);
    for (i = 0; i < size; i++)
        highest = (uint64_t)copy[i] > highest ? (uint64_t)copy[i] : highest;
    return size == 0 || highest < (uint64_t)count;
}

/* Release the views from ``first`` to before ``end``. */
static void release(Py_buffer *first, Py_buffer *end)
{
    while (end > first)
        PyBuffer_Release(--end);
}

/* Functions of the module */

/* Do the work with a variant. Returns 0, or -1 if a slot or the number of a word is out of range. */
static int add_all(const Variant *variant, const Codes *of, const int64_t *slots, Py_ssize_t size,
                   uint16_t *counts)
{
    int64_t copy[BLOCK];
    Py_ssize_t first;
    for (first = 0; first < size; first += BLOCK) {
        const Py_ssize_t part = size - first < BLOCK ? size - first : BLOCK;
        if (slots != NULL && !copied(slots + first, part, of->codes, copy))
            return -1;
        variant->add(of, first, slots == NULL ? NULL : copy, part, counts + first);
    }
    return 0;
}

static int dot_all(const Variant *variant, const Rows *of, const int64_t *slots, Py_ssize_t size,
                   void *products, void *squares, int exact)
{
    int64_t copy[BLOCK];
    Py_ssize_t first;
    for (first = 0; first < size; first += BLOCK) {
        const Py_ssize_t part = size - first < BLOCK ? size - first : BLOCK;
        if (!copied(slots + first, part, of->count, copy))
            return -1;
        if (exact)
            variant->exact(of, copy, part, (double *)products + first, (double *)squares + first);
        else
            variant->dot(of, copy, part, (float *)products + first,
                         squares == NULL ? NULL : (float *)squares + first);
    }
    return 0;
}

/* Return the variant of that name, NULL with an exception if this processor has not got it. */
static const Variant *variant_named(const char *name)
{
    const Variant *best = chosen(), *variant;
    if (name == NULL)
        return best;
    for (variant = VARIANTS; variant <= best; variant++)
        if (!strcmp(variant->name, name))
            return variant;
    PyErr_Format(PyExc_ValueError, "no variant %s on this processor", name);
    return NULL;
}

enum { MOST_WORDS = 1024 }; /* 65,536 bits, which are counted in 16 */

static PyObject *add_differing_bits(PyObject *module, PyObject *arguments)
{
    PyObject *objects[5], *answer = NULL;
    Py_buffer views[5];
    Py_buffer *words = &views[0], *wanted = &views[1], *numbers = &views[2], *counts = &views[3],
              *slots = NULL, *end = views;
    int64_t checked[MOST_WORDS];
    const char *name = NULL;
    const Variant *variant;
    Codes of;
    Py_ssize_t size;
    int failed;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OOOOO|z:add_differing_bits", &objects[0], &objects[1], &objects[2],
                          &objects[3], &objects[4], &name) ||
        (variant = variant_named(name)) == NULL)
        return NULL;
    if (take(objects[0], end, "words", UINT64, 2, 0) < 0 || (end++, 0) ||
        take(objects[1], end, "wanted", UINT64, 1, 0) < 0 || (end++, 0) ||
        take(objects[2], end, "numbers", INT64, 1, 0) < 0 || (end++, 0) ||
        take(objects[3], end, "counts", UINT16, 1, PyBUF_WRITABLE) < 0 || (end++, 0))
        goto done;
    if (objects[4] != Py_None) {
        if (take(objects[4], end, "slots", INT64, 1, 0) < 0)
            goto done;
        slots = end++;
    }
    of.words = words->buf;
    of.stride = words->strides[0];
    of.codes = words->shape[1];
    of.wanted = wanted->buf;
    of.numbers = checked;
    of.counted = numbers->shape[0];
    size = counts->shape[0];
    if (wanted->shape[0] != words->shape[0] || size != (slots == NULL ? of.codes : slots->shape[0])) {
        PyErr_SetString(PyExc_ValueError, "arrays do not fit together");
        goto done;
    }
    if (of.counted > MOST_WORDS || !copied(numbers->buf, of.counted, words->shape[0], checked)) {
        PyErr_SetString(PyExc_IndexError, "a word is out of range");
        goto done;
    }
    if (size < WORTH_RELEASING / (of.counted + 1))
        failed = add_all(variant, &of, slots == NULL ? NULL : slots->buf, size, counts->buf);
    else {
        PyThreadState *state = PyEval_SaveThread();
        failed = add_all(variant, &of, slots == NULL ? NULL : slots->buf, size, counts->buf);
        PyEval_RestoreThread(state);
    }
    if (failed)
        PyErr_SetString(PyExc_IndexError, "a slot is out of range");
    else
        answer = Py_NewRef(Py_None);
done:
    release(views, end);
    return answer;
}

/* Products of rows with the query and with themselves: of type float32, or exact ones of type float64. */
static PyObject *products_of_rows(PyObject *arguments, int exact)
{
    PyObject *objects[5], *answer = NULL;
    Py_buffer views[5];
    Py_buffer *rows = &views[0], *slots = &views[1], *query = &views[2], *products = &views[3],
              *squares = NULL, *end = views;
    const char *name = NULL;
    const Variant *variant;
    Rows of;
    Py_ssize_t size;
    int failed;
    if (!PyArg_ParseTuple(arguments, "OOOOO|z", &objects[0], &objects[1], &objects[2], &objects[3],
                          &objects[4], &name) ||
        (variant = variant_named(name)) == NULL)
        return NULL;
    if (take(objects[0], end, "rows", FLOAT32, 2, 0) < 0 || (end++, 0) ||
        take(objects[1], end, "slots", INT64, 1, 0) < 0 || (end++, 0) ||
        take(objects[2], end, "query", FLOAT32, 1, 0) < 0 || (end++, 0) ||
        take(objects[3], end, "products", exact ? FLOAT64 : FLOAT32, 1, PyBUF_WRITABLE) < 0 || (end++, 0))
        goto done;
    if (exact || objects[4] != Py_None) {
        if (take(objects[4], end, "squares", exact ? FLOAT64 : FLOAT32, 1, PyBUF_WRITABLE) < 0)
            goto done;
        squares = end++;
    }
    of.rows = rows->buf;
    of.stride = rows->strides[0];
    of.count = rows->shape[0];
    of.dimension = rows->shape[1];
    of.query = query->buf;
    size = slots->shape[0];
    if (query->shape[0] != of.dimension || products->shape[0] != size ||
        (squares != NULL && squares->shape[0] != size)) {
        PyErr_SetString(PyExc_ValueError, "arrays do not fit together");
        goto done;
    }
    if (size < WORTH_RELEASING / (of.dimension + 1))
        failed = dot_all(variant, &of, slots->buf, size, products->buf, squares == NULL ? NULL : squares->buf, exact);
    else {
        PyThreadState *state = PyEval_SaveThread();
        failed = dot_all(variant, &of, slots->buf, size, products->buf, squares == NULL ? NULL : squares->buf, exact);
        PyEval_RestoreThread(state);
    }
    if (failed)
        PyErr_SetString(PyExc_IndexError, "a slot is out of range");
    else
        answer = Py_NewRef(Py_None);
done:
    release(views, end);
    return answer;
}

static PyObject *dot_rows(PyObject *module, PyObject *arguments)
{
    (void)module;
    return products_of_rows(arguments, 0);
}

static PyObject *exact_dot_rows(PyObject *module, PyObject *arguments)
{
    (void)module;
    return products_of_rows(arguments, 1);
}

static PyObject *variants(PyObject *module, PyObject *nothing)
{
    const Variant *best = chosen(), *variant;
    PyObject *names = PyList_New(0);
    (void)module;
    (void)nothing;
    for (variant = VARIANTS; names != NULL && variant <= best; variant++) {
        PyObject *name = PyUnicode_FromString(variant->name);
        if (name == NULL || PyList_Append(names, name) < 0)
            Py_CLEAR(names);
        Py_XDECREF(name);
    }
    return names;
}

static PyMethodDef METHODS[] = {
    {"add_differing_bits", add_differing_bits, METH_VARARGS,
     "add_differing_bits(words, wanted, numbers, counts, slots, variant=None)\n\n"
     "Add to counts how many bits of the numbered words differ from the wanted ones, code by code."},
    {"dot_rows", dot_rows, METH_VARARGS,
     "dot_rows(rows, slots, query, products, squares, variant=None)\n\n"
     "Put the dot product of each selected row and the query into products, and that with itself into "
     "squares, if they are not None."},
    {"exact_dot_rows", exact_dot_rows, METH_VARARGS,
     "exact_dot_rows(rows, slots, query, products, squares, variant=None)\n\n"
     "Do the same with numbers of 64 bits, added in the order of numpy."},
    {"variants", variants, METH_NOARGS, "Return the names of variants for this processor, the best one last."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "_kernel", "Loops of the vector index in C: see vector_kernel.py.", 0, METHODS,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__kernel(void)
{
    return PyModuleDef_Init(&MODULE);
}

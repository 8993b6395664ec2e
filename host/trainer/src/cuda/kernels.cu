// Kernels of passes that libtorch would compute as several operations, each reading and writing all numbers. NVRTC
// compiles this file when a GPU is opened, for that GPU; it includes no headers.
//
// Numbers are float32 or bfloat16. Unless a comment says otherwise, a block of THREADS threads computes one row.

#define THREADS 512
#define WARPS (THREADS / 32)
#define WHOLE 0xffffffffu
// Logit of a probability of 0.
#define NONE __int_as_float(0xff800000)

typedef unsigned short bfloat16;

static __device__ float number(float x) { return x; }
static __device__ float number(bfloat16 x) { return __uint_as_float((unsigned)x << 16); }

static __device__ void set(float *place, float x) { *place = x; }
static __device__ void set(bfloat16 *place, float x) {
    unsigned bits = __float_as_uint(x);
    // Rounds to the nearest, ties to even. What is not a number stays so.
    *place = x != x ? 0x7fc0 : (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
}

// Numbers of a row that a thread loads at once: 16 bytes.
template <typename T> struct Chunk {
    static const int SIZE = 16 / sizeof(T);
    union {
        uint4 bytes;
        T numbers[SIZE];
    };
};

// Calls `visit(index, number)` for this thread's share of a row.
template <typename T, typename Visit> static __device__ void each(const T *row, long long size, Visit visit) {
    const int SIZE = Chunk<T>::SIZE;
    long long chunks = (unsigned long long)row % 16 == 0 ? size / SIZE : 0;
    for (long long chunk = threadIdx.x; chunk < chunks; chunk += THREADS) {
        Chunk<T> loaded;
        loaded.bytes = ((const uint4 *)row)[chunk];
#pragma unroll
        for (int at = 0; at < SIZE; at++)
            visit(chunk * SIZE + at, number(loaded.numbers[at]));
    }
    for (long long index = chunks * SIZE + threadIdx.x; index < size; index += THREADS)
        visit(index, number(row[index]));
}

// Calls `place(index, number)` for this thread's share of a row and replaces each number by the result.
template <typename T, typename Place> static __device__ void replace(T *row, long long size, Place place) {
    const int SIZE = Chunk<T>::SIZE;
    long long chunks = (unsigned long long)row % 16 == 0 ? size / SIZE : 0;
    for (long long chunk = threadIdx.x; chunk < chunks; chunk += THREADS) {
        Chunk<T> loaded;
        loaded.bytes = ((const uint4 *)row)[chunk];
#pragma unroll
        for (int at = 0; at < SIZE; at++)
            set(&loaded.numbers[at], place(chunk * SIZE + at, number(loaded.numbers[at])));
        ((uint4 *)row)[chunk] = loaded.bytes;
    }
    for (long long index = chunks * SIZE + threadIdx.x; index < size; index += THREADS)
        set(&row[index], place(index, number(row[index])));
}

// Moments of a softmax over some logits: the largest logit and its least index; the sums of e^(x - most), and of
// e^(x - most) (x - most).
struct Softmax {
    float most;
    long long at;
    float sum;
    float weighted;
};

static __device__ Softmax nothing() {
    Softmax none = {NONE, 0x7fffffffffffffffLL, 0.0f, 0.0f};
    return none;
}

static __device__ Softmax joined(Softmax one, Softmax other) {
    if (other.most > one.most || (other.most == one.most && other.at < one.at)) {
        Softmax swapped = one;
        one = other;
        other = swapped;
    }
    float apart = other.most - one.most;
    // Of two empty sums, the difference is not a number; so is 0 · -infinity.
    if (other.sum > 0.0f && apart > NONE) {
        float share = expf(apart);
        one.weighted += share * (other.weighted + apart * other.sum);
        one.sum += share * other.sum;
    } else if (other.sum != other.sum) {
        one.sum = other.sum;
    }
    return one;
}

static __device__ void add(Softmax *to, float x, long long at) {
    if (x > to->most) {
        Softmax own = {x, at, 1.0f, 0.0f};
        *to = joined(own, *to);
    } else if (x > NONE || x != x) {
        float apart = x - to->most, share = expf(apart);
        to->sum += share;
        to->weighted += share * apart;
    } else if (at < to->at && to->most == NONE) {
        to->at = at;
    }
}

static __device__ Softmax from_lane(Softmax own, int lane) {
    Softmax other;
    other.most = __shfl_xor_sync(WHOLE, own.most, lane);
    other.at = __shfl_xor_sync(WHOLE, own.at, lane);
    other.sum = __shfl_xor_sync(WHOLE, own.sum, lane);
    other.weighted = __shfl_xor_sync(WHOLE, own.weighted, lane);
    return other;
}

// Softmax of a row of logits times `scale`; every thread gets it.
template <typename T> static __device__ Softmax softmax(const T *row, long long size, float scale) {
    __shared__ Softmax warps[WARPS];
    Softmax own = nothing();
    each(row, size, [&](long long at, float x) { add(&own, __fmul_rn(x, scale), at); });
    for (int lane = 16; lane > 0; lane /= 2)
        own = joined(own, from_lane(own, lane));
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = own;
    __syncthreads();
    Softmax all = warps[0];
    for (int warp = 1; warp < WARPS; warp++)
        all = joined(all, warps[warp]);
    return all;
}

// Log-probability of a logit. The largest logit is subtracted first, so that near-certain tokens keep their digits, and
// products are rounded, so that none is positive.
template <typename T> static __device__ float log_prob(T logit, float scale, Softmax of) {
    return __fmul_rn(number(logit), scale) - of.most - logf(of.sum);
}

static __device__ float entropy(Softmax of) { return logf(of.sum) - of.weighted / of.sum; }

// Log-probability of each row's target, logarithm of its sum of exponentials, and entropy, `[N]` each, in nats, of the
// logits `[N, V]` times `scale`.
template <typename T>
static __device__ void log_probs(const T *logits, long long size, float scale, const long long *targets, float *numbers) {
    long long rows = gridDim.x, row = blockIdx.x;
    Softmax all = softmax(logits + row * size, size, scale);
    if (threadIdx.x == 0) {
        // What is not a number makes the trainer skip the step; the caller has checked all targets.
        long long target = targets[row];
        bool known = target >= 0 && target < size;
        numbers[row] = known ? log_prob(logits[row * size + target], scale, all) : __int_as_float(0x7fc00000);
        numbers[rows + row] = all.most + logf(all.sum);
        numbers[2 * rows + row] = entropy(all);
    }
}

// Replaces logits `[N, V]` by the gradient of a function of the targets' log-probabilities and of the entropies, given
// its gradient by them, `[N]` each; that by the entropies may be null. `numbers` are those of `log_probs`.
template <typename T>
static __device__ void gradient(T *logits, long long size, float scale, const long long *targets, const float *numbers,
                                const float *by_log_probs, const float *by_entropies) {
    long long rows = gridDim.x, row = blockIdx.x, target = targets[row];
    float log_sum = numbers[rows + row], entropy = numbers[2 * rows + row];
    float by_log_prob = by_log_probs[row], by_entropy = by_entropies ? by_entropies[row] : 0.0f;
    replace(logits + row * size, size, [=](long long at, float x) {
        float log_prob = __fmul_rn(x, scale) - log_sum, share = expf(log_prob);
        float own = by_log_prob * ((at == target ? 1.0f : 0.0f) - share);
        // A token of probability 0 has no part in the entropy.
        if (by_entropies && share > 0.0f)
            own -= by_entropy * share * (log_prob + entropy);
        return own * scale;
    });
}

// Token of each row, its log-probability and the entropy in nats of the row's distribution, `[3, N]`, from logits
// `[N, V]`. `choices` are, `[3, N]`: factors of the logits; numbers in [0, 1), which the inverse of the cumulative
// distribution maps to tokens; and 1 for rows that take the most probable token.
template <typename T>
static __device__ void sample(const T *logits, long long size, const double *choices, double *chosen) {
    __shared__ double sums[WARPS];
    __shared__ long long found;
    long long rows = gridDim.x, row = blockIdx.x;
    const T *own = logits + row * size;
    float scale = (float)choices[row];
    Softmax all = softmax(own, size, scale);
    long long token = all.at < size ? all.at : 0;
    if (choices[2 * rows + row] == 0.0) {
        double goal = choices[rows + row] * (double)all.sum, before = 0.0;
        // Rounding may make the goal larger than the sum of all parts.
        if (threadIdx.x == 0)
            found = token;
        // A part of the row at a time: each thread sums a few neighbours, then the threads add up in their order.
        const int FEW = 8;
        int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        for (long long start = 0; start < size; start += THREADS * FEW) {
            long long first = start + threadIdx.x * FEW;
            double mine = 0.0;
            for (int at = 0; at < FEW; at++)
                if (first + at < size)
                    mine += expf(__fmul_rn(number(own[first + at]), scale) - all.most);
            double upto = mine;
            for (int step = 1; step < 32; step *= 2) {
                double left = __shfl_up_sync(WHOLE, upto, step);
                if (lane >= step)
                    upto += left;
            }
            double below = __shfl_up_sync(WHOLE, upto, 1);
            if (lane == 0)
                below = 0.0;
            if (lane == 31)
                sums[warp] = upto;
            __syncthreads();
            double part = before, base = 0.0;
            for (int other = 0; other < WARPS; other++) {
                if (other == warp)
                    base = part;
                part += sums[other];
            }
            // Each sum is the next thread's `below`, so that exactly one thread finds the token among its own.
            if (base + upto > goal && !(base + below > goal)) {
                double sum = base + below;
                long long at = first, last = first;
                for (; at < first + FEW && at < size; at++) {
                    float share = expf(__fmul_rn(number(own[at]), scale) - all.most);
                    sum += share;
                    if (share > 0.0f)
                        last = at;
                    if (sum > goal)
                        break;
                }
                found = sum > goal ? at : last;
            }
            // Also protects `sums` until every thread has read them.
            if (__syncthreads_or(part > goal))
                break;
            before = part;
        }
        __syncthreads();
        token = found;
    }
    if (threadIdx.x == 0) {
        chosen[row] = (double)token;
        chosen[rows + row] = log_prob(own[token], scale, all);
        chosen[2 * rows + row] = entropy(all);
    }
}

// Sum over the threads of a block; every thread gets it. Blocks may call it again only after `__syncthreads`.
static __device__ float block_sum(float own) {
    __shared__ float warps[WARPS];
    for (int lane = 16; lane > 0; lane /= 2)
        own += __shfl_xor_sync(WHOLE, own, lane);
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = own;
    __syncthreads();
    float all = 0.0f;
    for (int warp = 0; warp < WARPS; warp++)
        all += warps[warp];
    return all;
}

// A number in the number format T.
template <typename T> static __device__ float rounded(float x) {
    T place;
    set(&place, x);
    return number(place);
}

// Adds `more` to the rows `[R, C]` of the residual stream, unless it is null, and writes the rows' root mean square norm
// times `weight` `[C]`.
template <typename T>
static __device__ void add_norm(T *stream, const T *more, const T *weight, long long width, float epsilon, T *normed) {
    T *own = stream + blockIdx.x * width, *out = normed + blockIdx.x * width;
    float squares = 0.0f;
    for (long long at = threadIdx.x; at < width; at += THREADS) {
        float x = number(own[at]);
        if (more) {
            set(&own[at], x + number(more[blockIdx.x * width + at]));
            x = number(own[at]);
        }
        squares += x * x;
    }
    float share = rsqrtf(block_sum(squares) / width + epsilon);
    for (long long at = threadIdx.x; at < width; at += THREADS)
        set(&out[at], number(own[at]) * share * number(weight[at]));
}

// Feed-forward gate, `[R, F]`, of rows `[R, 2 F]`: the first half through SiLU, times the second.
template <typename T> static __device__ void gated(const T *wide, long long width, T *out) {
    const T *own = wide + 2 * blockIdx.x * width;
    for (long long at = threadIdx.x; at < width; at += THREADS) {
        float x = number(own[at]);
        set(&out[blockIdx.x * width + at], rounded<T>(x / (1.0f + expf(-x))) * number(own[width + at]));
    }
}

// Normalises (unless `norms` is null) and rotates the query and key heads of new tokens, and caches keys and values. Rows
// of `heads` hold H query, K key and K value heads of D numbers. `norms` are those of the query and key heads,
// `[H + K, D]`; `cosines` and signed `sines` `[T, D]` are those of `positions` `[R]`. Queries are written to
// `[R, H, D]`, keys and values to the rows `places` `[R]` of the caches, `[…, K, D]`. A warp computes a head.
template <typename T>
static __device__ void rotate(const T *heads, long long query_heads, long long kv_heads, long long size, const T *norms,
                              float epsilon, const float *cosines, const float *sines, const long long *positions,
                              const long long *places, T *queries, T *keys, T *values) {
    long long row = blockIdx.x, all = query_heads + 2 * kv_heads;
    const float *cosine = cosines + positions[row] * size, *sine = sines + positions[row] * size;
    for (long long head = threadIdx.x / 32; head < all; head += WARPS) {
        const T *own = heads + (row * all + head) * size;
        long long key = head - query_heads, value = key - kv_heads;
        T *out = key < 0     ? queries + (row * query_heads + head) * size
                 : value < 0 ? keys + (places[row] * kv_heads + key) * size
                             : values + (places[row] * kv_heads + value) * size;
        float share = 1.0f;
        if (norms && value < 0) {
            float squares = 0.0f;
            for (int at = threadIdx.x % 32; at < size; at += 32)
                squares += number(own[at]) * number(own[at]);
            for (int lane = 16; lane > 0; lane /= 2)
                squares += __shfl_xor_sync(WHOLE, squares, lane);
            share = rsqrtf(squares / size + epsilon);
        }
        for (int at = threadIdx.x % 32; at < size; at += 32) {
            if (value >= 0) {
                out[at] = own[at];
                continue;
            }
            int other = at < size / 2 ? at + size / 2 : at - size / 2;
            float x = number(own[at]), y = number(own[other]);
            if (norms) {
                x = rounded<T>(rounded<T>(x * share) * number(norms[head * size + at]));
                y = rounded<T>(rounded<T>(y * share) * number(norms[head * size + other]));
            }
            set(&out[at], x * cosine[at] + y * sine[at]);
        }
    }
}

// Bounds of the attention below: query heads of a group, numbers of their heads, and cached positions at a time.
#define GROUP 16
#define NUMBERS 2048
#define TILE 256
// Numbers of the result that a thread sums.
#define OWN (NUMBERS / THREADS)

// Attention of new tokens, `[R, H, D]`, over the cached positions of their conversations up to their own. A block
// computes a row's G heads that share keys and values. The first cached row is `places[row] - positions[row]`.
template <typename T>
static __device__ void attend(const T *queries, const T *keys, const T *values, const long long *positions,
                              const long long *places, long long kv_heads, long long group, long long size,
                              T *attended) {
    __shared__ float query[NUMBERS], scores[GROUP][TILE], most[GROUP], sums[GROUP], shrink[GROUP];
    long long row = blockIdx.x / kv_heads, head = blockIdx.x % kv_heads, count = positions[row] + 1;
    long long first = ((places[row] - positions[row]) * kv_heads + head) * size, stride = kv_heads * size;
    long long mine = (row * kv_heads + head) * group * size;
    int width = group * size, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int at = threadIdx.x; at < width; at += THREADS)
        query[at] = number(queries[mine + at]);
    if (threadIdx.x < GROUP) {
        most[threadIdx.x] = NONE;
        sums[threadIdx.x] = 0.0f;
    }
    float own[OWN] = {};
    float scale = rsqrtf((float)size);
    __syncthreads();
    for (long long start = 0; start < count; start += TILE) {
        int here = count - start < TILE ? (int)(count - start) : TILE;
        // Eight threads compute a position's scores, each over an eighth of the head.
        int eighth = threadIdx.x % 8, part = size / 8;
        for (int at = threadIdx.x / 8; at < TILE; at += THREADS / 8) {
            const T *key = keys + first + (start + (at < here ? at : 0)) * stride + eighth * part;
            for (int member = 0; member < group; member++) {
                float sum = 0.0f;
                for (int index = 0; index < part; index++)
                    sum += query[member * size + eighth * part + index] * number(key[index]);
                for (int other = 4; other > 0; other /= 2)
                    sum += __shfl_xor_sync(WHOLE, sum, other);
                if (eighth == 0)
                    scores[member][at] = at < here ? sum * scale : NONE;
            }
        }
        __syncthreads();
        // A warp computes a head's softmax, as far as it goes.
        if (warp < group) {
            float largest = most[warp];
            for (int at = lane; at < here; at += 32)
                largest = fmaxf(largest, scores[warp][at]);
            for (int other = 16; other > 0; other /= 2)
                largest = fmaxf(largest, __shfl_xor_sync(WHOLE, largest, other));
            float sum = 0.0f;
            for (int at = lane; at < here; at += 32) {
                scores[warp][at] = expf(scores[warp][at] - largest);
                sum += scores[warp][at];
            }
            for (int other = 16; other > 0; other /= 2)
                sum += __shfl_xor_sync(WHOLE, sum, other);
            if (lane == 0) {
                shrink[warp] = expf(most[warp] - largest);
                sums[warp] = sums[warp] * shrink[warp] + sum;
                most[warp] = largest;
            }
        }
        __syncthreads();
#pragma unroll
        for (int index = 0; index < OWN; index++) {
            int at = threadIdx.x + index * THREADS;
            if (at >= width)
                break;
            int member = at / size;
            const T *value = values + first + start * stride + at % size;
            float sum = own[index] * shrink[member];
#pragma unroll 8
            for (int position = 0; position < here; position++)
                sum += scores[member][position] * number(value[position * stride]);
            own[index] = sum;
        }
        __syncthreads();
    }
#pragma unroll
    for (int index = 0; index < OWN; index++) {
        int at = threadIdx.x + index * THREADS;
        if (at < width)
            set(&attended[mine + at], own[index] / sums[at / size]);
    }
}

// The kernels of both number formats.
#define KERNELS(FORMAT, T)                                                                                             \
    extern "C" __global__ void log_probs_##FORMAT(const T *logits, long long size, float scale,                        \
                                                  const long long *targets, float *numbers) {                          \
        log_probs(logits, size, scale, targets, numbers);                                                              \
    }                                                                                                                  \
    extern "C" __global__ void gradient_##FORMAT(T *logits, long long size, float scale, const long long *targets,     \
                                                 const float *numbers, const float *by_log_probs,                      \
                                                 const float *by_entropies) {                                          \
        gradient(logits, size, scale, targets, numbers, by_log_probs, by_entropies);                                   \
    }                                                                                                                  \
    extern "C" __global__ void sample_##FORMAT(const T *logits, long long size, const double *choices,                 \
                                               double *chosen) {                                                       \
        sample(logits, size, choices, chosen);                                                                         \
    }                                                                                                                  \
    extern "C" __global__ void add_norm_##FORMAT(T *stream, const T *more, const T *weight, long long width,           \
                                                 float epsilon, T *normed) {                                           \
        add_norm(stream, more, weight, width, epsilon, normed);                                                        \
    }                                                                                                                  \
    extern "C" __global__ void gated_##FORMAT(const T *wide, long long width, T *out) { gated(wide, width, out); }     \
    extern "C" __global__ void rotate_##FORMAT(                                                                        \
        const T *heads, long long query_heads, long long kv_heads, long long size, const T *norms, float epsilon,      \
        const float *cosines, const float *sines, const long long *positions, const long long *places, T *queries,     \
        T *keys, T *values) {                                                                                          \
        rotate(heads, query_heads, kv_heads, size, norms, epsilon, cosines, sines, positions, places, queries, keys,   \
               values);                                                                                                \
    }                                                                                                                  \
    extern "C" __global__ void attend_##FORMAT(const T *queries, const T *keys, const T *values,                       \
                                               const long long *positions, const long long *places,                    \
                                               long long kv_heads, long long group, long long size, T *attended) {     \
        attend(queries, keys, values, positions, places, kv_heads, group, size, attended);                             \
    }

KERNELS(float, float)
KERNELS(bfloat16, bfloat16)

// Adds the sum of the squares of `count` numbers to `sum`.
extern "C" __global__ void squares(const float *numbers, long long count, double *sum) {
    __shared__ double warps[WARPS];
    double own = 0.0;
    long long all = (long long)gridDim.x * THREADS;
    for (long long at = (long long)blockIdx.x * THREADS + threadIdx.x; at < count; at += all)
        own += (double)numbers[at] * numbers[at];
    for (int lane = 16; lane > 0; lane /= 2)
        own += __shfl_xor_sync(WHOLE, own, lane);
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = own;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int warp = 1; warp < WARPS; warp++)
            own += warps[warp];
        atomicAdd(sum, own);
    }
}

// One step of AdamW for `count` parameters, one per thread: `new_mean` and `new_square` are 1 - beta, `keep` is 1 minus the
// decay, `rate` includes the correction of the mean's bias, and `deviation` is the square root of the correction of the
// square's.
extern "C" __global__ void adamw(float *parameters, const float *gradients, float *means, float *squares,
                                 long long count, float shorten, float new_mean, float new_square, float epsilon,
                                 float keep, float rate, float deviation) {
    long long at = (long long)blockIdx.x * THREADS + threadIdx.x;
    if (at >= count)
        return;
    float gradient = gradients[at] * shorten;
    float mean = means[at] + new_mean * (gradient - means[at]);
    float square = squares[at] + new_square * (gradient * gradient - squares[at]);
    means[at] = mean;
    squares[at] = square;
    parameters[at] = parameters[at] * keep - rate * mean / (sqrtf(square) / deviation + epsilon);
}

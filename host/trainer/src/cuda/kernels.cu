// Kernels of passes that libtorch would compute as several operations, each reading and writing all numbers. NVRTC
// compiles this file when a GPU is opened, for that GPU; it includes no headers.
//
// A block computes one row of logits, `[V]`, of float32 or bfloat16 numbers, except for the optimiser, whose threads
// compute one parameter each. Blocks have THREADS threads.

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
    each(row, size, [&](long long at, float x) { add(&own, x * scale, at); });
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

static __device__ float entropy(Softmax of) { return logf(of.sum) - of.weighted / of.sum; }

// Log-probability of each row's target, logarithm of its sum of exponentials, and entropy, `[N]` each, in nats, of the
// logits `[N, V]` times `scale`.
template <typename T>
static __device__ void log_probs(const T *logits, long long size, float scale, const long long *targets, float *numbers) {
    long long rows = gridDim.x, row = blockIdx.x;
    Softmax all = softmax(logits + row * size, size, scale);
    if (threadIdx.x == 0) {
        float log_sum = all.most + logf(all.sum);
        numbers[row] = number(logits[row * size + targets[row]]) * scale - log_sum;
        numbers[rows + row] = log_sum;
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
        float log_prob = x * scale - log_sum, share = expf(log_prob);
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
                    mine += expf(number(own[first + at]) * scale - all.most);
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
                    float share = expf(number(own[at]) * scale - all.most);
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
        chosen[rows + row] = number(own[token]) * scale - (all.most + logf(all.sum));
        chosen[2 * rows + row] = entropy(all);
    }
}

extern "C" __global__ void log_probs_float(const float *logits, long long size, float scale, const long long *targets,
                                           float *numbers) {
    log_probs(logits, size, scale, targets, numbers);
}

extern "C" __global__ void log_probs_bfloat16(const bfloat16 *logits, long long size, float scale,
                                              const long long *targets, float *numbers) {
    log_probs(logits, size, scale, targets, numbers);
}

extern "C" __global__ void gradient_float(float *logits, long long size, float scale, const long long *targets,
                                          const float *numbers, const float *by_log_probs, const float *by_entropies) {
    gradient(logits, size, scale, targets, numbers, by_log_probs, by_entropies);
}

extern "C" __global__ void gradient_bfloat16(bfloat16 *logits, long long size, float scale, const long long *targets,
                                             const float *numbers, const float *by_log_probs,
                                             const float *by_entropies) {
    gradient(logits, size, scale, targets, numbers, by_log_probs, by_entropies);
}

extern "C" __global__ void sample_float(const float *logits, long long size, const double *choices, double *chosen) {
    sample(logits, size, choices, chosen);
}

extern "C" __global__ void sample_bfloat16(const bfloat16 *logits, long long size, const double *choices,
                                           double *chosen) {
    sample(logits, size, choices, chosen);
}

// One step of AdamW for `count` parameters: `keep` is 1 minus the decay, `rate` includes the correction of the mean's
// bias, and `deviation` is the square root of the correction of the square's.
extern "C" __global__ void adamw(float *parameters, const float *gradients, float *means, float *squares,
                                 long long count, float shorten, float beta1, float beta2, float epsilon, float keep,
                                 float rate, float deviation) {
    long long at = (long long)blockIdx.x * THREADS + threadIdx.x;
    if (at >= count)
        return;
    float gradient = gradients[at] * shorten;
    float mean = means[at] + (1.0f - beta1) * (gradient - means[at]);
    float square = squares[at] + (1.0f - beta2) * (gradient * gradient - squares[at]);
    means[at] = mean;
    squares[at] = square;
    parameters[at] = parameters[at] * keep - rate * mean / (sqrtf(square) / deviation + epsilon);
}

// Runs CUDA kernels on the processor: one block at a time, its threads as fibers that switch at barriers and shuffles.
#pragma once
#include <ucontext.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#define __device__
#define __global__
#define __shared__ static

struct Dim {
    unsigned x;
};
static Dim threadIdx, blockIdx, gridDim;

struct uint4 {
    unsigned x, y, z, w;
};

static float __uint_as_float(unsigned bits) {
    float x;
    memcpy(&x, &bits, 4);
    return x;
}
static float __int_as_float(unsigned bits) { return __uint_as_float(bits); }
static unsigned __float_as_uint(float x) {
    unsigned bits;
    memcpy(&bits, &x, 4);
    return bits;
}
static float __fmul_rn(float x, float y) {
    volatile float product = x * y;
    return product;
}
static float rsqrtf(float x) { return 1.0f / sqrtf(x); }

namespace emulator {
const unsigned MOST = 1024;
struct Barrier {
    unsigned size, arrived, passed;
};
static ucontext_t scheduler, fibers[MOST];
static bool ended[MOST];
static char stacks[MOST][1 << 16];
static unsigned current, running;
static Barrier block, warps[MOST / 32];
static const std::function<void()> *body;
static char slots[MOST][16];
static int any;

static void leave() { swapcontext(&fibers[current], &scheduler); }

static void wait(Barrier &barrier) {
    unsigned passed = barrier.passed;
    if (++barrier.arrived == barrier.size) {
        barrier.arrived = 0;
        barrier.passed++;
        return;
    }
    while (barrier.passed == passed)
        leave();
}

static void start() {
    (*body)();
    ended[current] = true;
    leave();
}

// Runs a kernel with this many blocks of threads. Ends the program if threads wait for each other for ever.
static void launch(unsigned blocks, unsigned threads, const std::function<void()> &kernel) {
    body = &kernel;
    gridDim.x = blocks;
    for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++) {
        block = {threads, 0, 0};
        for (unsigned warp = 0; warp < threads / 32; warp++)
            warps[warp] = {32, 0, 0};
        for (unsigned thread = 0; thread < threads; thread++) {
            ended[thread] = false;
            getcontext(&fibers[thread]);
            fibers[thread].uc_stack = {stacks[thread], 0, sizeof stacks[thread]};
            fibers[thread].uc_link = nullptr;
            makecontext(&fibers[thread], start, 0);
        }
        unsigned passes = 0;
        do {
            running = 0;
            for (current = 0; current < threads; current++) {
                if (ended[current])
                    continue;
                threadIdx.x = current;
                swapcontext(&scheduler, &fibers[current]);
                running += !ended[current];
            }
            if (++passes > 1000000) {
                printf("threads of block %u wait for ever\n", blockIdx.x);
                exit(1);
            }
        } while (running > 0);
    }
}

// The value that another thread of the warp passes.
template <typename T> static T exchanged(T own, int other) {
    Barrier &warp = warps[current / 32];
    memcpy(slots[current], &own, sizeof own);
    wait(warp);
    T found = own;
    if (other >= 0 && other < 32)
        memcpy(&found, slots[current / 32 * 32 + other], sizeof found);
    wait(warp);
    return found;
}
} // namespace emulator

static void __syncthreads() { emulator::wait(emulator::block); }

static void atomicAdd(double *place, double more) { *place += more; }

static int __syncthreads_or(int own) {
    emulator::any |= own;
    __syncthreads();
    int found = emulator::any;
    __syncthreads();
    emulator::any = 0;
    return found;
}

template <typename T> static T __shfl_xor_sync(unsigned, T own, int lane) {
    return emulator::exchanged(own, (int)(emulator::current % 32) ^ lane);
}

template <typename T> static T __shfl_up_sync(unsigned, T own, int step) {
    int other = (int)(emulator::current % 32) - step;
    return emulator::exchanged(own, other);
}

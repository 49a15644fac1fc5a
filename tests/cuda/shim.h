// Runs CUDA kernels on the CPU: every thread of a block is a fiber that runs until it waits for others. Wrong use of
// barriers and warp operations ends the process with a message, so that a test fails instead of passing by luck: a
// thread that returns while others wait, lanes that wait for different things, a warp operation without a whole warp.
//
// Shared memory is filled with NaN before every block. Threads take turns in rising or falling order (block by block
// in turn), so that what lacks a barrier goes wrong in one of the two.

#pragma once
#define SPECTOP_SIMULATED

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#ifndef __x86_64__
#include <ucontext.h>
#endif

struct uint3 {
    unsigned x, y, z;
};
struct uint2 {
    unsigned x, y;
};
struct uint4 {
    unsigned x, y, z, w;
};
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
    return uint4{x, y, z, w};
}

#define __device__
#define __global__
#define __forceinline__ inline
#define __restrict__
#define KERNEL extern "C" void
#define SHARED_FLOATS(name) float *name = simulated::shared_floats()

namespace simulated {

[[noreturn]] inline void fail(const char *what) {
    fprintf(stderr, "simulated device: %s\n", what);
    fflush(stderr);
    abort();
}

constexpr int STACK = 64 * 1024;
constexpr int MOST = 1024;

enum State { READY, AT_BARRIER, IN_WARP, DONE };

struct Fiber {
    State state;
    void *stack;
#ifdef __x86_64__
    void *top;
#else
    ucontext_t context;
#endif
    uint3 thread;
};

struct Warp {
    // Two sets: a lane may be in the next operation while others still read the last one's.
    uint64_t value[2][32][8];
    int turn;
    int arrived;
    int kind;
};

inline Fiber fibers[MOST];
inline Warp warps[MOST / 32];
inline int current;
inline int count;
inline bool falling;
inline std::vector<float> memory;
inline void (*body)(void *);
inline void *argument;
inline uint3 block_index, block_size, grid_size;

inline float *shared_floats() {
    return memory.data();
}

#ifdef __x86_64__
inline void *scheduler;
// Saves what a call must keep, swaps stacks.
extern "C" void spectop_switch(void **from, void *to);
asm(R"(
.text
.globl spectop_switch
.type spectop_switch,@function
spectop_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size spectop_switch,.-spectop_switch
)");
inline void leave() {
    spectop_switch(&fibers[current].top, scheduler);
}
inline void enter(int i) {
    current = i;
    spectop_switch(&scheduler, fibers[i].top);
}
#else
inline ucontext_t scheduler;
inline void leave() {
    swapcontext(&fibers[current].context, &scheduler);
}
inline void enter(int i) {
    current = i;
    swapcontext(&scheduler, &fibers[i].context);
}
#endif

inline void run_fiber() {
    body(argument);
    fibers[current].state = DONE;
    leave();
    fail("a finished thread ran on");
}

inline void prepare(Fiber &fiber) {
    if (!fiber.stack) fiber.stack = aligned_alloc(64, STACK);
    fiber.state = READY;
#ifdef __x86_64__
    void **top = (void **)((char *)fiber.stack + STACK);
    *--top = nullptr; // keeps the stack aligned as after a call
    *--top = (void *)run_fiber;
    for (int i = 0; i < 6; i++) *--top = nullptr;
    fiber.top = top;
#else
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack;
    fiber.context.uc_stack.ss_size = STACK;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, run_fiber, 0);
#endif
}

inline void barrier() {
    fibers[current].state = AT_BARRIER;
    leave();
}

// Puts this lane's values where the others of the warp see them and waits for all lanes. Returns the set.
inline uint64_t (*exchange(int kind, const uint64_t *values, int n))[8] {
    Warp &warp = warps[current / 32];
    if (warp.arrived == 0) warp.kind = kind;
    if (warp.kind != kind) fail("the lanes of a warp are in different operations");
    int turn = warp.turn;
    memcpy(warp.value[turn][current % 32], values, n * sizeof(uint64_t));
    if (++warp.arrived == 32) {
        warp.arrived = 0;
        warp.turn ^= 1;
        int first = current / 32 * 32;
        for (int i = first; i < first + 32; i++) {
            if (i != current) fibers[i].state = READY;
        }
    } else {
        fibers[current].state = IN_WARP;
        leave();
    }
    return warp.value[turn];
}

inline void run_block() {
    static unsigned blocks = 0;
    falling = blocks++ % 2 == 1;
    for (float &f : memory) f = NAN;
    int at = 0;
    for (unsigned z = 0; z < block_size.z; z++)
        for (unsigned y = 0; y < block_size.y; y++)
            for (unsigned x = 0; x < block_size.x; x++) {
                prepare(fibers[at]);
                fibers[at++].thread = uint3{x, y, z};
            }
    count = at;
    for (int i = 0; i < (count + 31) / 32; i++) warps[i].arrived = warps[i].turn = 0;
    for (;;) {
        bool moved = false;
        for (int n = 0; n < count; n++) {
            int i = falling ? count - 1 - n : n;
            if (fibers[i].state == READY) {
                enter(i);
                moved = true;
            }
        }
        if (moved) continue;
        int waiting = 0, done = 0;
        for (int i = 0; i < count; i++) {
            waiting += fibers[i].state == AT_BARRIER;
            done += fibers[i].state == DONE;
        }
        if (done == count) return;
        if (waiting == 0) fail("lanes wait for the rest of their warp, which does not come");
        if (waiting != count) fail("threads wait at a barrier that others do not reach");
        for (int i = 0; i < count; i++) fibers[i].state = READY;
    }
}

inline void run_grid(const unsigned grid[3], unsigned threads, size_t shared_bytes) {
    if (threads == 0 || threads > MOST) fail("a block has 1 to 1024 threads");
    if (shared_bytes > 48 * 1024) fail("a block has at most 48 KiB of shared memory");
    // More than asked for must not be touched: the end is watched.
    memory.resize((shared_bytes + 3) / 4 + 16);
    grid_size = uint3{grid[0], grid[1], grid[2]};
    block_size = uint3{threads, 1, 1};
    for (unsigned z = 0; z < grid[2]; z++)
        for (unsigned y = 0; y < grid[1]; y++)
            for (unsigned x = 0; x < grid[0]; x++) {
                block_index = uint3{x, y, z};
                run_block();
                for (size_t i = (shared_bytes + 3) / 4; i < memory.size(); i++) {
                    if (memory[i] == memory[i]) fail("a kernel wrote beyond its shared memory");
                }
            }
}

template <class T> T take(void *at) {
    return *(T *)at;
}

template <class... A, size_t... I> void call(void (*kernel)(A...), void **args, std::index_sequence<I...>) {
    kernel(take<A>(args[I])...);
}

template <class... A>
void launch(void (*kernel)(A...), const unsigned *grid, unsigned threads, size_t shared_bytes, void **args) {
    struct Call {
        void (*kernel)(A...);
        void **args;
    } ask{kernel, args};
    argument = &ask;
    body = [](void *p) {
        Call *c = (Call *)p;
        call(c->kernel, c->args, std::index_sequence_for<A...>{});
    };
    run_grid(grid, threads, shared_bytes);
}

template <class T> T shuffle(T value, int from) {
    static_assert(sizeof(T) <= 8, "at most 8 bytes");
    uint64_t word = 0;
    memcpy(&word, &value, sizeof(T));
    auto *set = exchange(1, &word, 1);
    T out;
    memcpy(&out, &set[from][0], sizeof(T));
    return out;
}

} // namespace simulated

#define threadIdx (simulated::fibers[simulated::current].thread)
#define blockIdx (simulated::block_index)
#define blockDim (simulated::block_size)
#define gridDim (simulated::grid_size)
#define __syncthreads() simulated::barrier()

template <class T> T __shfl_xor_sync(unsigned mask, T value, int distance) {
    if (mask != 0xffffffffu) simulated::fail("a part of a warp");
    return simulated::shuffle(value, simulated::current % 32 ^ distance);
}

static inline float __int_as_float(int bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}
static inline float __uint_as_float(unsigned bits) {
    return __int_as_float((int)bits);
}
static inline unsigned __float_as_uint(float value) {
    unsigned bits;
    memcpy(&bits, &value, 4);
    return bits;
}
static inline int __popcll(unsigned long long bits) {
    return __builtin_popcountll(bits);
}
static inline int __ffsll(long long bits) {
    return __builtin_ffsll(bits);
}
static inline int min(int a, int b) {
    return a < b ? a : b;
}
static inline int max(int a, int b) {
    return a > b ? a : b;
}
static inline unsigned atomicAdd(unsigned *at, unsigned value) {
    unsigned before = *at;
    *at += value;
    return before;
}

static inline float half_to_float(uint16_t bits) {
    unsigned sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 31u, mantissa = bits & 0x3ffu;
    if (exponent == 31) return __uint_as_float(sign | 0x7f800000u | mantissa << 13);
    if (exponent == 0) {
        float value = std::ldexp((float)mantissa, -24);
        return sign ? -value : value;
    }
    return __uint_as_float(sign | (exponent + 112) << 23 | mantissa << 13);
}

// To nearest, ties to even.
static inline uint16_t float_to_half(float value) {
    unsigned bits = __float_as_uint(value), sign = bits >> 16 & 0x8000u;
    bits &= 0x7fffffffu;
    if (bits > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
    if (bits >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);
    if (bits < 0x38800000u) {
        // Subnormal: adding 0.5 leaves the rounded multiple of 2^-24 in the low bits.
        float shifted = __uint_as_float(bits) + 0.5f;
        return (uint16_t)(sign | (__float_as_uint(shifted) - 0x3f000000u));
    }
    unsigned rounded = bits + 0xfffu + (bits >> 13 & 1u);
    return (uint16_t)(sign | (rounded - 0x38000000u) >> 13);
}

// m16n8k16 over a warp, by the layouts of the PTX manual.
static inline void multiply_tile(float c[4], const unsigned a[4], const unsigned b[2]) {
    uint64_t mine[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
    auto *all = simulated::exchange(2, mine, 6);
    int lane = simulated::current % 32;
    auto bf = [](uint64_t word, int high) { return __uint_as_float((unsigned)(word >> (16 * high) & 0xffffu) << 16); };
    for (int j = 0; j < 4; j++) {
        int row = lane / 4 + j / 2 * 8, column = lane % 4 * 2 + j % 2;
        float sum = c[j];
        for (int k = 0; k < 16; k++) {
            int owner = k % 8 / 2;
            float x = bf(all[row % 8 * 4 + owner][k / 8 * 2 + row / 8], k % 2);
            float y = bf(all[column * 4 + owner][4 + k / 8], k % 2);
            sum = std::fma(x, y, sum);
        }
        c[j] = sum;
    }
}

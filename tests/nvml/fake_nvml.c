/* A stand-in for the NVML library, for tests/gpu.rs only. Compile-time settings:
 *   GPUS=n           number of GPUs
 *   UNSUPPORTED      every reading but the name answers NOT_SUPPORTED
 *   NO_MEMORY_V2     the second version of the memory call is missing, as in drivers before 510
 *   NO_DRIVER        initialising answers DRIVER_NOT_LOADED
 *   LOST_FILE="path" while this file exists, GPU 0 answers GPU_IS_LOST */
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#ifndef GPUS
#define GPUS 1
#endif

enum { OK = 0, NOT_SUPPORTED = 3, INVALID = 2, DRIVER_NOT_LOADED = 9, LOST = 15 };

typedef struct { int index; } device;
static device devices[16];

int nvmlInit_v2(void) {
#ifdef NO_DRIVER
    return DRIVER_NOT_LOADED;
#else
    for (int i = 0; i < 16; i++) devices[i].index = i;
    return OK;
#endif
}
int nvmlShutdown(void) { return OK; }
int nvmlSystemGetDriverVersion(char *text, unsigned length) {
    snprintf(text, length, "570.00");
    return OK;
}
int nvmlDeviceGetCount_v2(unsigned *count) { *count = GPUS; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, device **out) {
    if (index >= GPUS) return INVALID;
    *out = &devices[index];
    return OK;
}

static int reading(device *d) {
#ifdef LOST_FILE
    if (d->index == 0 && access(LOST_FILE, F_OK) == 0) return LOST;
#endif
    (void)d;
#ifdef UNSUPPORTED
    return NOT_SUPPORTED;
#else
    return OK;
#endif
}
#define GUARD int code = reading(d); if (code != OK) return code

int nvmlDeviceGetName(device *d, char *text, unsigned length) {
    if (reading(d) == LOST) return LOST;
    snprintf(text, length, "Fake GPU %c", 'A' + d->index);
    return OK;
}
int nvmlDeviceGetUUID(device *d, char *text, unsigned length) {
    GUARD;
    snprintf(text, length, "GPU-0000-%d", d->index);
    return OK;
}
int nvmlDeviceGetUtilizationRates(device *d, unsigned *rates) {
    GUARD;
    rates[0] = 40 + d->index;
    rates[1] = 7;
    return OK;
}
int nvmlDeviceGetMemoryInfo(device *d, unsigned long long *memory) {
    GUARD;
    memory[0] = 8000; /* total, free, used */
    memory[1] = 5000;
    memory[2] = 3000;
    return OK;
}
#ifndef NO_MEMORY_V2
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory_v2;
int nvmlDeviceGetMemoryInfo_v2(device *d, memory_v2 *memory) {
    GUARD;
    memory->total = 8000;
    memory->reserved = 500;
    memory->free = 5000;
    memory->used = 2500;
    return OK;
}
#endif
int nvmlDeviceGetPowerUsage(device *d, unsigned *milliwatts) { GUARD; *milliwatts = 123500; return OK; }
int nvmlDeviceGetEnforcedPowerLimit(device *d, unsigned *milliwatts) { GUARD; *milliwatts = 700000; return OK; }
int nvmlDeviceGetTemperature(device *d, int sensor, unsigned *degrees) {
    GUARD;
    if (sensor != 0) return INVALID;
    *degrees = 61;
    return OK;
}
int nvmlDeviceGetClockInfo(device *d, int clock, unsigned *mhz) {
    GUARD;
    *mhz = clock == 1 ? 1980 : 1;
    return OK;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(device *d, unsigned long long *reasons) {
    GUARD;
    *reasons = 0x4 | 0x1 | (1ull << 40); /* power cap, idle, and a bit of the future */
    return OK;
}
int nvmlDeviceGetTotalEnergyConsumption(device *d, unsigned long long *millijoules) {
    GUARD;
    *millijoules = 5000250;
    return OK;
}

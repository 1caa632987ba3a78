/* Devices, contexts, memory, streams and events of a device whose memory is host memory.
 *
 * Prototypes follow the public AscendCL API reference. Every operation is complete when its call
 * returns, so streams have nothing to wait for and synchronising is a no-op.
 *
 * SIMULATED_NPU_DEVICES  how many devices there are (default 2)
 * SIMULATED_NPU_SOC      the name of the chip (default Ascend910B3)
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "unmodelled.h"

typedef int Status;

enum {
    OK = 0,
    INVALID_DEVICE = 107001,
    NO_CONTEXT = 107002,
    OUT_OF_MEMORY = 207001,
};

/* ---------------------------------------------------------------- errors */

static __thread char last_error[256];

long unmodelled(const char *function) {
    snprintf(last_error, sizeof last_error, "the simulated NPU does not model the runtime function %s", function);
    return UNMODELLED;
}

void unmodelled_abort(const char *function) {
    fprintf(stderr, "the simulated NPU does not model the C++ function %s\n", function);
    abort();
}

const char *aclGetRecentErrMsg(void) { return last_error; }

/* ---------------------------------------------------------------- devices and contexts */

/* A context is the device's number plus this, so that it is never the null pointer. */
enum { CONTEXT_BASE = 0x1000 };

static __thread int32_t current_device = -1;

static uint32_t device_count(void) {
    const char *configured = getenv("SIMULATED_NPU_DEVICES");
    return configured ? (uint32_t)atoi(configured) : 2;
}

Status aclInit(const char *config_path) { (void)config_path; return OK; }
Status aclFinalize(void) { return OK; }

const char *aclrtGetSocName(void) {
    const char *configured = getenv("SIMULATED_NPU_SOC");
    return configured ? configured : "Ascend910B3";
}

Status aclrtGetDeviceCount(uint32_t *count) { *count = device_count(); return OK; }

Status aclrtSetDevice(int32_t device) {
    if (device < 0 || (uint32_t)device >= device_count()) return INVALID_DEVICE;
    current_device = device;
    return OK;
}

Status aclrtResetDevice(int32_t device) { (void)device; return OK; }

Status aclrtGetDevice(int32_t *device) {
    if (current_device < 0) return NO_CONTEXT;
    *device = current_device;
    return OK;
}

Status aclrtGetCurrentContext(void **context) {
    if (current_device < 0) return NO_CONTEXT;
    *context = (void *)(intptr_t)(CONTEXT_BASE + current_device);
    return OK;
}

Status aclrtSetCurrentContext(void *context) {
    current_device = (int32_t)((intptr_t)context - CONTEXT_BASE);
    return OK;
}

Status aclrtGetPrimaryCtxState(int32_t device, uint32_t *flags, int32_t *active) {
    (void)device;
    if (flags) *flags = 0;
    *active = 1;
    return OK;
}

Status aclrtDeviceCanAccessPeer(int32_t *possible, int32_t device, int32_t peer) {
    (void)device; (void)peer;
    *possible = 1;
    return OK;
}

/* Core counts: torch_npu shows them as device properties. */
enum { CORE_COUNT = 20 };

Status aclGetDeviceCapability(uint32_t device, int kind, int64_t *value) {
    (void)device; (void)kind;
    *value = CORE_COUNT;
    return OK;
}

Status aclrtGetDeviceInfo(uint32_t device, int kind, int64_t *value) {
    return aclGetDeviceCapability(device, kind, value);
}

Status aclrtGetLogicDevIdByUserDevId(int32_t user_device, int32_t *logical_device) {
    *logical_device = user_device;
    return OK;
}

/* struct aclsysPackageVersion, whose first member is char version[128]. */
Status aclsysGetCANNVersion(int package, char *version) {
    enum { STRUCT_SIZE = 128 + 4 * 64 + 128 };
    (void)package;
    memset(version, 0, STRUCT_SIZE);
    strcpy(version, "8.5.0");
    return OK;
}

Status aclsysGetVersionStr(const char *package, char *version) {
    (void)package;
    strcpy(version, "8.5.0");
    return OK;
}

/* ---------------------------------------------------------------- memory */

static const size_t MEMORY_SIZE = (size_t)64 << 30;

/* Rounds up so that kernels may read a whole vector past the end, as the allocator's contract allows. */
static Status allocate(void **pointer, size_t size, size_t alignment) {
    size_t rounded = (size + 2 * alignment - 1) / alignment * alignment;
    *pointer = aligned_alloc(alignment, rounded);
    return *pointer ? OK : OUT_OF_MEMORY;
}

static Status copy(void *to, const void *from, size_t size) {
    memmove(to, from, size);
    return OK;
}

Status aclrtMalloc(void **pointer, size_t size, int policy) { (void)policy; return allocate(pointer, size, 512); }
Status aclrtMallocAlign32(void **pointer, size_t size, int policy) { return aclrtMalloc(pointer, size, policy); }
Status aclrtFree(void *pointer) { free(pointer); return OK; }

Status aclrtMallocHost(void **pointer, size_t size) { return allocate(pointer, size, 64); }
Status aclrtMallocHostWithCfg(void **pointer, uint64_t size, void *config) {
    (void)config;
    return aclrtMallocHost(pointer, size);
}
Status aclrtFreeHost(void *pointer) { free(pointer); return OK; }

Status aclrtHostRegister(void *pointer, uint64_t size, int kind, void **device_pointer) {
    (void)size; (void)kind;
    *device_pointer = pointer;
    return OK;
}
Status aclrtHostUnregister(void *pointer) { (void)pointer; return OK; }

Status aclrtMemcpy(void *to, size_t capacity, const void *from, size_t size, int direction) {
    (void)capacity; (void)direction;
    return copy(to, from, size);
}
Status aclrtMemcpyAsync(void *to, size_t capacity, const void *from, size_t size, int direction, void *stream) {
    (void)capacity; (void)direction; (void)stream;
    return copy(to, from, size);
}
Status aclrtMemcpyAsyncWithCondition(void *to, size_t capacity, const void *from, size_t size, int direction,
                                     void *stream) {
    return aclrtMemcpyAsync(to, capacity, from, size, direction, stream);
}

Status aclrtMemset(void *pointer, size_t capacity, int32_t value, size_t size) {
    (void)capacity;
    memset(pointer, value, size);
    return OK;
}
Status aclrtMemsetAsync(void *pointer, size_t capacity, int32_t value, size_t size, void *stream) {
    (void)stream;
    return aclrtMemset(pointer, capacity, value, size);
}

Status aclrtGetMemInfo(int kind, size_t *free_size, size_t *total_size) {
    (void)kind;
    *free_size = *total_size = MEMORY_SIZE;
    return OK;
}

/* ---------------------------------------------------------------- streams */

typedef struct {
    int32_t id;
} Stream;

static Status create_stream(void **stream) {
    static int32_t created = 0;
    Stream *made = calloc(1, sizeof *made);
    if (!made) return OUT_OF_MEMORY;
    made->id = __atomic_add_fetch(&created, 1, __ATOMIC_RELAXED);
    *stream = made;
    return OK;
}

Status aclrtCreateStream(void **stream) { return create_stream(stream); }
Status aclrtCreateStreamWithConfig(void **stream, uint32_t priority, uint32_t flags) {
    (void)priority; (void)flags;
    return create_stream(stream);
}
Status aclrtDestroyStream(void *stream) { free(stream); return OK; }
Status aclrtDestroyStreamForce(void *stream) { return aclrtDestroyStream(stream); }

Status aclrtStreamGetId(void *stream, int32_t *id) {
    *id = stream ? ((Stream *)stream)->id : 0;
    return OK;
}

/* ACL_STREAM_STATUS_COMPLETE is 0. */
Status aclrtStreamQuery(void *stream, int *status) { (void)stream; *status = 0; return OK; }
Status aclrtSynchronizeStream(void *stream) { (void)stream; return OK; }
Status aclrtSynchronizeStreamWithTimeout(void *stream, int32_t milliseconds) {
    (void)stream; (void)milliseconds;
    return OK;
}
Status aclrtSynchronizeDevice(void) { return OK; }
Status aclrtSynchronizeDeviceWithTimeout(int32_t milliseconds) { (void)milliseconds; return OK; }
Status aclrtGetStreamOverflowSwitch(void *stream, uint32_t *enabled) { (void)stream; *enabled = 0; return OK; }

/* ---------------------------------------------------------------- events */

typedef struct {
    double milliseconds;
} Event;

static double now_in_milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

static Status create_event(void **event) {
    *event = calloc(1, sizeof(Event));
    return *event ? OK : OUT_OF_MEMORY;
}

Status aclrtCreateEventWithFlag(void **event, uint32_t flags) { (void)flags; return create_event(event); }
Status aclrtCreateEventExWithFlag(void **event, uint32_t flags) { (void)flags; return create_event(event); }
Status aclrtDestroyEvent(void *event) { free(event); return OK; }

Status aclrtRecordEvent(void *event, void *stream) {
    (void)stream;
    ((Event *)event)->milliseconds = now_in_milliseconds();
    return OK;
}

Status aclrtSynchronizeEvent(void *event) { (void)event; return OK; }
Status aclrtResetEvent(void *event, void *stream) { (void)event; (void)stream; return OK; }
Status aclrtStreamWaitEvent(void *stream, void *event) { (void)stream; (void)event; return OK; }

/* ACL_EVENT_RECORDED_STATUS_COMPLETE is 1, ACL_EVENT_WAIT_STATUS_COMPLETE is 0. */
Status aclrtQueryEventStatus(void *event, int *status) { (void)event; *status = 1; return OK; }
Status aclrtQueryEventWaitStatus(void *event, int *status) { (void)event; *status = 0; return OK; }

Status aclrtEventElapsedTime(float *milliseconds, void *start, void *end) {
    *milliseconds = (float)(((Event *)end)->milliseconds - ((Event *)start)->milliseconds);
    return OK;
}

Status aclrtEventGetTimestamp(void *event, uint64_t *microseconds) {
    *microseconds = (uint64_t)(((Event *)event)->milliseconds * 1e3);
    return OK;
}

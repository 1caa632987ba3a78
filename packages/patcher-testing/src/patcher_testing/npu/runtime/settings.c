/* Options that the runtime accepts and whose effect cannot be seen on a device that computes on the host. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef int Status;

enum { OK = 0 };

/* Takes whatever arguments the caller passes (the C calling convention lets the callee ignore them). */
#define ACCEPTED(function) \
    Status function(void) { return OK; }

ACCEPTED(aclSetCompileopt)
ACCEPTED(aclopSetCompileFlag)
ACCEPTED(aclrtSetCompileopt)
ACCEPTED(aclrtSetDeviceSatMode)
ACCEPTED(aclrtSetOpExecuteTimeOut)
ACCEPTED(aclrtSetOpWaitTimeout)
ACCEPTED(aclrtSetStreamAttribute)
ACCEPTED(aclrtSetStreamFailureMode)
ACCEPTED(aclrtSetStreamOverflowSwitch)
ACCEPTED(aclrtPeekAtLastError)
ACCEPTED(aclrtGetLastError)

/* Collective communication: there is one process, and what it asks of others is not modelled. */
ACCEPTED(HcclSetConfig)

/* The callback thread of torch_npu starts and stops with the process and is never given work. */
ACCEPTED(aclrtSubscribeReport)
ACCEPTED(aclrtUnSubscribeReport)
ACCEPTED(aclrtProcessReport)

/* Profiling: sessions start and stop; there is no device timeline to collect. */
ACCEPTED(aclprofInit)
ACCEPTED(aclprofStart)
ACCEPTED(aclprofStop)
ACCEPTED(aclprofFinalize)
ACCEPTED(aclprofDestroyConfig)
ACCEPTED(MsprofRegisterCallback)
ACCEPTED(MsprofReportAdditionalInfo)
ACCEPTED(MsprofReportApi)
ACCEPTED(MsprofReportCompactInfo)
ACCEPTED(aclAppLog)
uint64_t MsprofGetHashId(const char *text, size_t length) { (void)text; return length; }
uint64_t MsprofSysCycleTime(void) { return 0; }

/* Compile options are text of at most 8 bytes; "0" is "off" for each of them. */
enum { COMPILE_OPTION_SIZE = 8 };

size_t aclGetCompileoptSize(int option) { (void)option; return COMPILE_OPTION_SIZE; }

Status aclGetCompileopt(int option, char *value, size_t size) {
    (void)option;
    memset(value, 0, size);
    strncpy(value, "0", size);
    return OK;
}

enum { SYSTEM_OPTION_COUNT = 64 };
static int64_t system_options[SYSTEM_OPTION_COUNT];

static int is_system_option(int option) { return option >= 0 && option < SYSTEM_OPTION_COUNT; }

Status aclrtGetSysParamOpt(int option, int64_t *value) {
    *value = is_system_option(option) ? system_options[option] : 0;
    return OK;
}
Status aclrtSetSysParamOpt(int option, int64_t value) {
    if (is_system_option(option)) system_options[option] = value;
    return OK;
}
Status aclrtCtxGetSysParamOpt(int option, int64_t *value) { return aclrtGetSysParamOpt(option, value); }
Status aclrtCtxSetSysParamOpt(int option, int64_t value) { return aclrtSetSysParamOpt(option, value); }

Status aclGetCannAttributeList(const int **attributes, size_t *count) {
    static const int none = 0;
    *attributes = &none;
    *count = 0;
    return OK;
}
Status aclGetCannAttribute(int attribute, int32_t *value) { (void)attribute; *value = 0; return OK; }

Status aclrtGetDeviceUtilizationRate(int32_t device, void *utilization) {
    enum { STRUCT_SIZE = 24 };
    (void)device;
    memset(utilization, 0, STRUCT_SIZE);
    return OK;
}

Status aclrtDeviceGetBareTgid(int32_t *process) { *process = 1; return OK; }

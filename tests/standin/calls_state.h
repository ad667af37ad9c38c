/* The NVML functions of the stand-in: power, links, health, processes. Part of nvml.c, behind calls.h. */

GETTER(nvmlDeviceGetPowerUsage, "power_w", 1000, uint)
GETTER(nvmlDeviceGetEnforcedPowerLimit, "power_limit_w", 1000, uint)
GETTER(nvmlDeviceGetPowerManagementLimit, "power_limit_w", 1000, uint)
GETTER(nvmlDeviceGetPowerManagementDefaultLimit, "power_default_limit_w", 1000, uint)
GETTER(nvmlDeviceGetTotalEnergyConsumption, "energy_j", 1000, ull)
GETTER(nvmlDeviceGetPerformanceState, "pstate", 1, uint)
GETTER(nvmlDeviceGetCurrPcieLinkGeneration, "pcie_generation", 1, uint)
GETTER(nvmlDeviceGetMaxPcieLinkGeneration, "pcie_generation_max", 1, uint)
GETTER(nvmlDeviceGetGpuMaxPcieLinkGeneration, "pcie_generation_card_max", 1, uint)
GETTER(nvmlDeviceGetCurrPcieLinkWidth, "pcie_width", 1, uint)
GETTER(nvmlDeviceGetMaxPcieLinkWidth, "pcie_width_max", 1, uint)
GETTER(nvmlDeviceGetPcieSpeed, "pcie_speed_mbps", 1, uint)
GETTER(nvmlDeviceGetPcieReplayCounter, "pcie_replay_count", 1, uint)
GETTER(nvmlDeviceGetComputeMode, "compute_mode", 1, uint)
GETTER(nvmlDeviceGetNumaNodeId, "numa_node", 1, int)
GETTER(nvmlDeviceGetArchitecture, "architecture", 1, uint)
GETTER(nvmlDeviceGetFanSpeed, "fan_percent", 1, uint)
int nvmlDeviceGetPcieThroughput(Device d, int which, uint *out) {
    ENTER(d) double x; int code = number(NAME(d), which ? "pcie_rx_kb_per_s" : "pcie_tx_kb_per_s", &x);
    if (!code) *out = (uint)x;
    return code;
}
typedef struct { uint gpu, memory; } Utilisation;
int nvmlDeviceGetUtilizationRates(Device d, Utilisation *out) {
    ENTER(d) double x, y = 0; int code = number(NAME(d), "utilisation_percent", &x);
    number(NAME(d), "memory_utilisation_percent", &y);
    if (!code) { out->gpu = (uint)x; out->memory = (uint)y; }
    return code;
}
int nvmlDeviceGetEccMode(Device d, uint *now, uint *pending) {
    ENTER(d) double x; int code = number(NAME(d), "ecc_mode", &x);
    if (!code) *now = *pending = (uint)x;
    return code;
}
int nvmlDeviceGetTotalEccErrors(Device d, int type, int counter, ull *out) {
    (void)counter;
    ENTER(d) double x; int code = number(NAME(d), type ? "ecc_uncorrected" : "ecc_corrected", &x);
    if (!code) *out = (ull)x;
    return code;
}
int nvmlDeviceGetRemappedRows(Device d, uint *corrected, uint *uncorrected, uint *pending, uint *failed) {
    ENTER(d) Value *x = find(NAME(d), "remapped_rows"); /* list of these four */
    if (!x) return NOT_SUPPORTED;
    *corrected = (uint)x->v[0]; *uncorrected = (uint)x->v[1]; *pending = (uint)x->v[2]; *failed = (uint)x->v[3];
    return OK;
}
typedef struct { ull reference_ns, violation_ns; } Violation;
int nvmlDeviceGetViolationStatus(Device d, int policy, Violation *out) {
    char key[32];
    ENTER(d) double x; snprintf(key, sizeof key, "violation.%d", policy); /* nanoseconds */
    int code = number(NAME(d), key, &x);
    if (!code) { out->violation_ns = (ull)x; out->reference_ns = (ull)(now_s() * 1e9); }
    return code;
}
typedef struct {
    uint id, scope; int64_t time_us, latency_us; uint type; int code; union { double d; ull u; } value;
} Field;
int nvmlDeviceGetFieldValues(Device d, int count, Field *fields) {
    ENTER(d) for (int i = 0; i < count; i++) {
        char key[32], scoped[32]; double x = 0;
        snprintf(key, sizeof key, "field.%u", fields[i].id); /* as the driver gives them: mW, mJ, ns */
        snprintf(scoped, sizeof scoped, "field.%u.%u", fields[i].id, fields[i].scope);
        fields[i].code = number(NAME(d), find(NAME(d), scoped) ? scoped : key, &x);
        double type = 3; /* unsigned long long, unless "field.N.type" says 1: unsigned int */
        snprintf(key, sizeof key, "field.%u.type", fields[i].id);
        number(NAME(d), key, &type);
        fields[i].type = (uint)type;
        fields[i].value.u = (ull)x;
        fields[i].time_us = (int64_t)(now_s() * 1e6);
    }
    return OK;
}
static int link_number(Device d, uint link, const char *what, double *x) {
    char key[32];
    snprintf(key, sizeof key, "nvlink.%u.%s", link, what);
    return number(NAME(d), key, x);
}
int nvmlDeviceGetNvLinkState(Device d, uint link, uint *out) {
    ENTER(d) double x; int code = link_number(d, link, "state", &x);
    if (!code) *out = (uint)x;
    return code;
}
int nvmlDeviceGetNvLinkErrorCounter(Device d, uint link, int which, ull *out) {
    char what[16]; double x;
    ENTER(d) snprintf(what, sizeof what, "errors.%d", which);
    int code = link_number(d, link, what, &x);
    if (!code) *out = (ull)x;
    return code;
}
typedef struct { ull total, free, used; } Memory;
typedef struct { uint version; ull total, reserved, free, used; } Memory2;
static int memory(Device d, Memory *out) {
    double total, used = 0; int code = number(NAME(d), "memory_total_bytes", &total);
    if (code) return code;
    number(NAME(d), "memory_used_bytes", &used);
    out->total = (ull)total; out->used = (ull)used; out->free = out->total - out->used;
    return OK;
}
int nvmlDeviceGetMemoryInfo(Device d, Memory *out) { ENTER(d) return memory(d, out); }
int nvmlDeviceGetMemoryInfo_v2(Device d, Memory2 *out) {
    Memory m;
    ENTER(d) int code = memory(d, &m);
    if (!code) { out->total = m.total; out->free = m.free; out->used = m.used; out->reserved = 0; }
    return code;
}
typedef struct { uint pid; ull bytes; uint gpu_instance, compute_instance; } ProcessInfo;
static int list_processes(Device d, uint *count, ProcessInfo *out) {
    uint n = 0, room = out ? *count : 0; double now = now_s();
    for (int i = 0; i < num_processes; i++) {
        Process *p = &processes[i];
        if (strcmp(p->device, NAME(d)) || now < p->from || now >= p->until) continue;
        if (n < room) out[n] = (ProcessInfo){p->pid, p->bytes, ~0u, ~0u};
        n++;
    }
    *count = n;
    return n > room ? TOO_SMALL : OK;
}
int nvmlDeviceGetComputeRunningProcesses_v2(Device d, uint *n, ProcessInfo *out) {
    ENTER(d) return list_processes(d, n, out);
}
int nvmlDeviceGetComputeRunningProcesses_v3(Device d, uint *n, ProcessInfo *out) {
    ENTER(d) return list_processes(d, n, out);
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(Device d, uint *n, ProcessInfo *out) {
    ENTER(d) (void)out; *n = 0; return OK;
}
int nvmlDeviceGetTopologyCommonAncestor(Device d, Device e, int *out) {
    ENTER(d) for (int i = 0; i < num_topologies; i++) {
        Topology *t = &topologies[i];
        int same = !strcmp(t->a, NAME(d)) && !strcmp(t->b, NAME(e));
        int swapped = !strcmp(t->b, NAME(d)) && !strcmp(t->a, NAME(e));
        if (same || swapped) { *out = t->level; return OK; }
    }
    return NOT_SUPPORTED;
}
int nvmlDeviceGetP2PStatus(Device d, Device e, int what, uint *out) {
    char key[24];
    ENTER(d) double x; snprintf(key, sizeof key, "p2p.%d.%s", what, NAME(e)); /* 0 is OK */
    int code = number(NAME(d), key, &x);
    if (!code) *out = (uint)x;
    return code;
}
int nvmlDeviceGetAPIRestriction(Device d, int which, uint *out) {
    (void)which;
    ENTER(d) double x; int code = number(NAME(d), "is_restricted", &x);
    if (!code) *out = (uint)x;
    return code;
}

/* The NVML functions of the stand-in, as the bindings call them: sessions, cards, clocks, events. Part of nvml.c. */

#define NAME(handle) devices[(uintptr_t)(handle) - 1]
#define ENTER(handle)                                                                              \
    if (!(handle)) return BAD_ARGUMENT;                                                            \
    { int code_ = enter(__func__, NAME(handle)); if (code_) return code_; }
#define ENTER_SYSTEM { int code_ = enter(__func__, "-"); if (code_) return code_; }
#define SETTINGS(handle) (&state->settings[(uintptr_t)(handle) - 1])
typedef void *Device;

/* A function that answers one scripted number, times a factor, in the type of its out parameter. */
#define GETTER(function, key, factor, type)                                                        \
    int function(Device d, type *out) {                                                            \
        ENTER(d) double x; int code = number(NAME(d), key, &x);                                    \
        if (!code) *out = (type)(x * (factor) + 0.5);                                              \
        return code; }
#define TEXT(function, key)                                                                        \
    int function(Device d, char *out, uint size) {                                                 \
        ENTER(d) Value *x = find(NAME(d), key);                                                    \
        if (!x) return NOT_SUPPORTED;                                                              \
        if (!strcmp(x->kind, "error")) return (int)x->v[0];                                        \
        snprintf(out, size, "%s", x->text); return OK; }

int nvmlInitWithFlags(uint flags) { (void)flags; ENTER_SYSTEM return OK; }
int nvmlInit_v2(void) { ENTER_SYSTEM return OK; }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { return code == 18 ? "Driver/library version mismatch" : "stand-in error"; }
int nvmlSystemGetDriverVersion(char *out, uint size) { ENTER_SYSTEM snprintf(out, size, "%s", driver); return OK; }
int nvmlSystemGetNVMLVersion(char *out, uint size) { ENTER_SYSTEM snprintf(out, size, "stand-in"); return OK; }
int nvmlSystemGetCudaDriverVersion(int *out) { ENTER_SYSTEM *out = cuda; return OK; }
int nvmlSystemGetCudaDriverVersion_v2(int *out) { ENTER_SYSTEM *out = cuda; return OK; }

int nvmlDeviceGetCount_v2(uint *out) {
    ENTER_SYSTEM *out = 0;
    for (int i = 0; i < num_devices; i++) *out += !strchr(devices[i], '.');
    return OK;
}

static int by_name(const char *name, Device *out) {
    for (int i = 0; i < num_devices; i++)
        if (!strcmp(devices[i], name)) { *out = (Device)(uintptr_t)(i + 1); return OK; }
    return NOT_FOUND;
}

static int by_text(const char *key, const char *text, Device *out) {
    for (int i = 0; i < num_values; i++)
        if (!strcmp(values[i].key, key) && !strcmp(values[i].text, text)) return by_name(values[i].device, out);
    return NOT_FOUND;
}

int nvmlDeviceGetHandleByIndex_v2(uint index, Device *out) {
    char name[16];
    ENTER_SYSTEM snprintf(name, sizeof name, "%u", index);
    int code = by_name(name, out);
    return code ? code : enter(__func__, name);
}
int nvmlDeviceGetHandleByUUID(const char *uuid, Device *out) {
    ENTER_SYSTEM int code = by_text("uuid", uuid, out);
    return code ? code : enter(__func__, NAME(*out));
}
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, Device *out) {
    ENTER_SYSTEM return by_text("pci_bus_id", bus, out);
}
int nvmlDeviceGetIndex(Device d, uint *out) { ENTER(d) *out = atoi(NAME(d)); return OK; }

int nvmlDeviceGetMigDeviceHandleByIndex(Device d, uint index, Device *out) {
    char name[16];
    ENTER(d) snprintf(name, sizeof name, "%s.%u", NAME(d), index);
    return by_name(name, out);
}
int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Device d, Device *out) {
    char name[8];
    ENTER(d) if (!strchr(NAME(d), '.')) return BAD_ARGUMENT;
    snprintf(name, sizeof name, "%s", NAME(d));
    *strchr(name, '.') = 0;
    return by_name(name, out);
}
int nvmlDeviceIsMigDeviceHandle(Device d, uint *out) { ENTER(d) *out = strchr(NAME(d), '.') != NULL; return OK; }
GETTER(nvmlDeviceGetMaxMigDeviceCount, "max_slices", 1, uint)
int nvmlDeviceGetMigMode(Device d, uint *now, uint *pending) {
    ENTER(d) double x; int code = number(NAME(d), "mig_mode", &x);
    if (!code) *now = *pending = (uint)x;
    return code;
}

TEXT(nvmlDeviceGetName, "name")
TEXT(nvmlDeviceGetUUID, "uuid")
TEXT(nvmlDeviceGetVbiosVersion, "vbios")
TEXT(nvmlDeviceGetBoardPartNumber, "board")
TEXT(nvmlDeviceGetSerial, "serial")

typedef struct { char legacy[16]; uint domain, bus, device, id, subsystem; char bus_id[32]; } PciInfo;
int nvmlDeviceGetPciInfo_v3(Device d, PciInfo *out) {
    ENTER(d) Value *x = find(NAME(d), "pci_bus_id");
    if (!x) return NOT_SUPPORTED;
    if (!strcmp(x->kind, "error")) return (int)x->v[0];
    memset(out, 0, sizeof *out);
    sscanf(x->text, "%x:%x:%x", &out->domain, &out->bus, &out->device);
    snprintf(out->bus_id, sizeof out->bus_id, "%.31s", x->text);
    return OK;
}

/* Clocks: what is scripted, held down by what was set; `sm_hold_mhz` is what the power limit lets a locked card do. */
static int clock_now(Device d, int type, uint *out) {
    Settings *s = SETTINGS(d);
    int memory = type == 2;
    double x, hold;
    int code = number(NAME(d), memory ? "memory_clock_mhz" : "sm_clock_mhz", &x);
    if (code) return code;
    uint locked = memory ? s->memory_max : s->sm_max, app = memory ? s->app_memory : s->app_sm;
    if (locked) x = locked;
    else if (app && app < x) x = app;
    if ((locked || app) && !number(NAME(d), memory ? "memory_hold_mhz" : "sm_hold_mhz", &hold) && hold < x) x = hold;
    *out = (uint)x;
    return OK;
}
static int app_clock(Device d, int type, int is_default, uint *out) {
    double x; uint set = type == 2 ? SETTINGS(d)->app_memory : SETTINGS(d)->app_sm;
    int code = number(NAME(d), type == 2 ? "app_memory_mhz" : "app_sm_mhz", &x);
    if (!code) *out = set && !is_default ? set : (uint)x;
    return code;
}
int nvmlDeviceGetClockInfo(Device d, int type, uint *out) { ENTER(d) return clock_now(d, type, out); }
int nvmlDeviceGetMaxClockInfo(Device d, int type, uint *out) {
    ENTER(d) double x; int code = number(NAME(d), type == 2 ? "memory_clock_max_mhz" : "sm_clock_max_mhz", &x);
    if (!code) *out = (uint)x;
    return code;
}
int nvmlDeviceGetApplicationsClock(Device d, int type, uint *out) { ENTER(d) return app_clock(d, type, 0, out); }
int nvmlDeviceGetDefaultApplicationsClock(Device d, int type, uint *out) { ENTER(d) return app_clock(d, type, 1, out); }
int nvmlDeviceGetClock(Device d, int type, int id, uint *out) {
    ENTER(d) return id == 0 ? clock_now(d, type, out) : id <= 2 ? app_clock(d, type, id == 2, out) : NOT_SUPPORTED;
}

static int clock_list(Device d, const char *key, uint *count, uint *out) {
    Value *x = find(NAME(d), key);
    if (!x) return NOT_SUPPORTED;
    if (!strcmp(x->kind, "error")) return (int)x->v[0];
    int fits = out && *count >= (uint)x->n;
    for (int i = 0; fits && i < x->n; i++) out[i] = (uint)x->v[i];
    *count = x->n;
    return fits ? OK : TOO_SMALL;
}
int nvmlDeviceGetSupportedMemoryClocks(Device d, uint *count, uint *out) {
    ENTER(d) return clock_list(d, "supported_memory_mhz", count, out);
}
int nvmlDeviceGetSupportedGraphicsClocks(Device d, uint memory, uint *count, uint *out) {
    (void)memory;
    ENTER(d) return clock_list(d, "supported_sm_mhz", count, out);
}

/* Setters: every call is logged, refused ones too. */
#define SETTER(function, parameters, format, ...)                                                  \
    int function parameters {                                                                      \
        char arguments[64];                                                                        \
        if (!d) return BAD_ARGUMENT;                                                               \
        int code = enter(__func__, NAME(d)); Settings *s = state ? SETTINGS(d) : NULL;             \
        snprintf(arguments, sizeof arguments, format, ##__VA_ARGS__);                              \
        if (state) log_call(__func__, NAME(d), arguments, code);                                   \
        if (code) return code;
SETTER(nvmlDeviceSetGpuLockedClocks, (Device d, uint low, uint high), "%u %u ", low, high)
    s->sm_min = low; s->sm_max = high; return OK; }
SETTER(nvmlDeviceResetGpuLockedClocks, (Device d), " ") s->sm_min = s->sm_max = 0; return OK; }
SETTER(nvmlDeviceSetMemoryLockedClocks, (Device d, uint low, uint high), "%u %u ", low, high)
    s->memory_min = low; s->memory_max = high; return OK; }
SETTER(nvmlDeviceResetMemoryLockedClocks, (Device d), " ") s->memory_min = s->memory_max = 0; return OK; }
SETTER(nvmlDeviceSetApplicationsClocks, (Device d, uint memory, uint sm), "%u %u ", memory, sm)
    s->app_memory = memory; s->app_sm = sm; return OK; }
SETTER(nvmlDeviceResetApplicationsClocks, (Device d), " ") s->app_memory = s->app_sm = 0; return OK; }
SETTER(nvmlDeviceSetPersistenceMode, (Device d, int mode), "%d ", mode) s->persistence = mode + 1; return OK; }

/* State. Event reasons gain bit 0x2 while clocks are held by a setting. */
static int reasons(Device d, ull *out) {
    double x; int code = number(NAME(d), "event_reasons", &x);
    Settings *s = SETTINGS(d);
    if (!code) *out = (ull)x | (s->sm_max || s->app_sm ? 2 : 0);
    return code;
}
int nvmlDeviceGetCurrentClocksEventReasons(Device d, ull *out) { ENTER(d) return reasons(d, out); }
int nvmlDeviceGetCurrentClocksThrottleReasons(Device d, ull *out) { ENTER(d) return reasons(d, out); }
int nvmlDeviceGetPersistenceMode(Device d, uint *out) {
    ENTER(d) double x; int code = number(NAME(d), "persistence", &x);
    if (!code) *out = SETTINGS(d)->persistence ? SETTINGS(d)->persistence - 1 : (uint)x;
    return code;
}
typedef struct { uint version; int sensor, celsius; } Temperature;
int nvmlDeviceGetTemperatureV(Device d, Temperature *out) {
    ENTER(d) double x; int code = number(NAME(d), "temperature_c", &x);
    if (!code) out->celsius = (int)x;
    return code;
}
int nvmlDeviceGetTemperature(Device d, int sensor, uint *out) {
    (void)sensor;
    ENTER(d) double x; int code = number(NAME(d), "temperature_c", &x);
    if (!code) *out = (uint)x;
    return code;
}
typedef struct { uint version; int celsius; } Margin;
int nvmlDeviceGetMarginTemperature(Device d, Margin *out) {
    ENTER(d) double x; int code = number(NAME(d), "temperature_margin_c", &x);
    if (!code) out->celsius = (int)x;
    return code;
}
int nvmlDeviceGetTemperatureThreshold(Device d, int which, uint *out) {
    static const char *keys[] = {
        "shutdown_temperature_c", "slowdown_temperature_c", "memory_max_temperature_c", "max_temperature_c"};
    ENTER(d) double x; int code = which < 4 ? number(NAME(d), keys[which], &x) : NOT_SUPPORTED;
    if (!code) *out = (uint)x;
    return code;
}

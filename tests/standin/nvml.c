/* A stand-in for libnvidia-ml.so.1 that plays scripted GPUs to the real bindings. Tests only.
 *
 * $PERFGUARD_STANDIN names the script; FILE.state (mapped) holds what setters changed, so that several processes see
 * one machine; FILE.calls gets a line per setter call (with "log all": per call); while FILE.load exists the GPUs are
 * under load. The script is read again whenever it changes. Lines:
 *   driver TEXT | cuda NUMBER | now SECONDS (stops the script's time) | log all
 *   gpu DEVICE KEY VALUE            DEVICE: 0, 1, ... for cards, 0.1 for slice 1 of card 0
 *   process DEVICE PID BYTES|- [from=S] [until=S]
 *   topology DEVICE DEVICE LEVEL
 *   fault FUNCTION|* CODE|hang|crash|sleep=S [gpu=DEVICE] [from=S] [until=S] [after=CALLS] [calls=CALLS]
 * VALUE: NUMBER | text TEXT | list N N ... | error CODE | ramp S:N S:N ... (linear) | step S:N S:N ... |
 *        cycle S N N ... (each for S seconds, for ever) | load IDLE LOADED
 * A key that is not there answers NOT_SUPPORTED. Struct layouts are those of the public NVML ABI. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { OK = 0, BAD_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, NOT_LOADED = 9 };
enum { MAX_DEVICES = 32, MAX_LINES = 2048, MAX_POINTS = 64, MAX_FAULTS = 64 };
typedef unsigned int uint;
typedef unsigned long long ull;
typedef struct { char device[8], key[48], kind[8], text[128]; int n; double t[MAX_POINTS], v[MAX_POINTS]; } Value;
typedef struct { char device[8]; uint pid; ull bytes; double from, until; } Process;
typedef struct { char function[64], action[24], device[8]; double from, until; long after, calls; } Fault;
typedef struct { char a[8], b[8]; int level; } Topology;
/* 0: unset */
typedef struct { uint sm_min, sm_max, memory_min, memory_max, app_memory, app_sm, persistence; } Settings;
typedef struct { int64_t started_ns; Settings settings[MAX_DEVICES]; int64_t hits[MAX_FAULTS]; } State;

static Value values[MAX_LINES]; static int num_values;
static Process processes[256]; static int num_processes;
static Fault faults[MAX_FAULTS]; static int num_faults;
static Topology topologies[256]; static int num_topologies;
static char devices[MAX_DEVICES][8]; static int num_devices;
static char driver[80]; static int cuda, log_all; static double fixed_now = -1;
static struct timespec script_time; static ino_t script_inode; static State *state;
static char played[4096]; /* the script that `state` belongs to: a test process may change to another */
static pthread_mutex_t reading = PTHREAD_MUTEX_INITIALIZER;

static const char *beside(const char *suffix, char *path) {
    snprintf(path, 4096, "%s%s", getenv("PERFGUARD_STANDIN"), suffix);
    return path;
}

static double now_s(void) {
    struct timespec t;
    if (fixed_now >= 0) return fixed_now;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (t.tv_sec * 1000000000LL + t.tv_nsec - state->started_ns) / 1e9;
}

static int device_number(const char *name) {
    for (int i = 0; i < num_devices; i++) if (!strcmp(devices[i], name)) return i;
    if (num_devices == MAX_DEVICES) abort();
    snprintf(devices[num_devices], sizeof devices[0], "%.7s", name);
    return num_devices++;
}

static void read_value(const char *device, const char *key, char *rest) {
    Value *x = &values[num_values++];
    if (num_values == MAX_LINES) abort();
    memset(x, 0, sizeof *x);
    device_number(device);
    snprintf(x->device, sizeof x->device, "%.7s", device);
    snprintf(x->key, sizeof x->key, "%.47s", key);
    if (sscanf(rest, "text %127[^\n]", x->text) == 1) { strcpy(x->kind, "text"); return; }
    char *word = strtok(rest, " ");
    if (strspn(word, "-0123456789")) strcpy(x->kind, "number");
    else { snprintf(x->kind, sizeof x->kind, "%s", word); word = strtok(NULL, " "); }
    for (; word && x->n < MAX_POINTS; word = strtok(NULL, " "), x->n++) {
        char *colon = strchr(word, ':');
        if (colon) x->t[x->n] = atof(word);
        x->v[x->n] = strtod(colon ? colon + 1 : word, NULL);
    }
}

static double option(const char *line, const char *name, double otherwise) {
    const char *found = strstr(line, name);
    return found ? atof(found + strlen(name)) : otherwise;
}

static void read_line(char *line) {
    char a[64], b[64], c[64]; int at = 0;
    line[strcspn(line, "\n")] = 0;
    if (sscanf(line, "driver %79[^\n]", driver) == 1 || sscanf(line, "cuda %d", &cuda) == 1) return;
    if (sscanf(line, "now %lf", &fixed_now) == 1) return;
    if (!strcmp(line, "log all")) log_all = 1;
    else if (sscanf(line, "gpu %63s %63s %n", a, b, &at) == 2 && at) read_value(a, b, line + at);
    else if (sscanf(line, "process %7s %63s %63s", a, b, c) == 3) {
        Process *p = &processes[num_processes++];
        snprintf(p->device, sizeof p->device, "%.7s", a);
        p->pid = atoi(b); p->bytes = *c == '-' ? ~0ULL : strtoull(c, NULL, 10);
        p->from = option(line, "from=", 0); p->until = option(line, "until=", 1e18);
    } else if (sscanf(line, "fault %63s %23s", a, b) == 2) {
        Fault *f = &faults[num_faults++];
        snprintf(f->function, sizeof f->function, "%s", a); snprintf(f->action, sizeof f->action, "%.23s", b);
        f->device[0] = 0;
        char *gpu = strstr(line, "gpu=");
        if (gpu) sscanf(gpu, "gpu=%7s", f->device);
        f->from = option(line, "from=", -1); f->until = option(line, "until=", 1e18);
        f->after = (long)option(line, "after=", 0); f->calls = (long)option(line, "calls=", 1e18);
    } else if (sscanf(line, "topology %63s %63s %63s", a, b, c) == 3) {
        Topology *p = &topologies[num_topologies++];
        snprintf(p->a, sizeof p->a, "%.7s", a); snprintf(p->b, sizeof p->b, "%.7s", b); p->level = atoi(c);
    } else if (*line && *line != '#') { fprintf(stderr, "stand-in: bad line: %s\n", line); abort(); }
}

static int read_script(void) {
    struct stat s; char line[4096];
    const char *path = getenv("PERFGUARD_STANDIN");
    if (!path || stat(path, &s)) return NOT_LOADED;
    int is_new = strcmp(played, path) || s.st_ino != script_inode || memcmp(&s.st_mtim, &script_time, sizeof script_time);
    if (!is_new) return OK;
    if (strcmp(played, path)) {
        if (state) munmap(state, sizeof(State));
        state = NULL; num_devices = 0;
        snprintf(played, sizeof played, "%s", path);
    }
    script_inode = s.st_ino; script_time = s.st_mtim;
    num_values = num_processes = num_faults = num_topologies = 0; fixed_now = -1; log_all = 0;
    FILE *file = fopen(path, "r");
    if (!file) return NOT_LOADED;
    while (fgets(line, sizeof line, file)) read_line(line);
    fclose(file);
    return OK;
}

static int map_state(void) {
    char path[4096]; struct stat s; struct timespec t;
    int handle = open(beside(".state", path), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (handle < 0) return NOT_LOADED;
    flock(handle, LOCK_EX);
    fstat(handle, &s);
    if (s.st_size < (off_t)sizeof(State) && ftruncate(handle, sizeof(State))) return NOT_LOADED;
    state = mmap(NULL, sizeof(State), PROT_READ | PROT_WRITE, MAP_SHARED, handle, 0);
    clock_gettime(CLOCK_MONOTONIC, &t);
    if (!state->started_ns) state->started_ns = t.tv_sec * 1000000000LL + t.tv_nsec;
    flock(handle, LOCK_UN);
    close(handle);
    return OK;
}

static int loaded(void) { char path[4096]; return access(beside(".load", path), F_OK) == 0; }

static void log_call(const char *function, const char *device, const char *arguments, int code) {
    char path[4096], line[512];
    int n = snprintf(line, sizeof line, "%.6f %d %s %s %s-> %d\n", now_s(), (int)getpid(), function, device,
                     arguments, code);
    int handle = open(beside(".calls", path), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (handle >= 0) { if (write(handle, line, n) < 0) abort(); close(handle); }
}

static int act(const char *action) {
    if (!strcmp(action, "hang")) for (;;) pause();
    if (!strcmp(action, "crash")) { signal(SIGSEGV, SIG_DFL); raise(SIGSEGV); }
    if (!strncmp(action, "sleep=", 6)) { usleep((useconds_t)(atof(action + 6) * 1e6)); return OK; }
    return atoi(action);
}

/* Every call comes through here: the script is up to date afterwards; what a fault says, else OK. */
static int enter(const char *function, const char *device) {
    pthread_mutex_lock(&reading);
    int code = read_script();
    if (!code && !state) code = map_state();
    pthread_mutex_unlock(&reading);
    for (int i = 0; !code && i < num_faults; i++) {
        Fault *f = &faults[i];
        double now = now_s();
        if (strcmp(f->function, "*") && strcmp(f->function, function)) continue;
        if (*f->device && strcmp(f->device, device)) continue;
        if (now < f->from || now >= f->until) continue;
        int64_t hit = __sync_fetch_and_add(&state->hits[i], 1);
        if (hit >= f->after && hit < f->after + f->calls) code = act(f->action);
    }
    if (state && log_all) log_call(function, device, "", code);
    return code;
}

static Value *find(const char *device, const char *key) {
    for (int i = num_values - 1; i >= 0; i--)
        if (!strcmp(values[i].device, device) && !strcmp(values[i].key, key)) return &values[i];
    return NULL;
}

static double at_time(const Value *x, double now) {
    if (!x->n) return 0;
    if (!strcmp(x->kind, "cycle")) return x->v[1 + (long)(now / x->v[0]) % (x->n - 1)];
    if (!strcmp(x->kind, "load")) return x->v[loaded() ? 1 : 0];
    int last = 0;
    while (last + 1 < x->n && x->t[last + 1] <= now) last++;
    if (strcmp(x->kind, "ramp") || last + 1 == x->n || now < x->t[0]) return x->v[last];
    return x->v[last] + (x->v[last + 1] - x->v[last]) * (now - x->t[last]) / (x->t[last + 1] - x->t[last]);
}

static int number(const char *device, const char *key, double *out) {
    Value *x = find(device, key);
    if (!x) return NOT_SUPPORTED;
    if (!strcmp(x->kind, "error")) return (int)x->v[0];
    *out = at_time(x, now_s());
    return OK;
}

#include "calls.h"
#include "calls_state.h"

/* The only program of reprokit that runs inside a container. Static, without libc: no file, library or variable of an
 * image changes what it does.
 *
 *   helper idle          wait, and reap children, until SIGTERM or SIGINT
 *   helper build FOLDER  be process 1 of a build's container: do what arrives at the socket FOLDER/control, until that
 *                        closes, and carry connections to 127.0.0.1:3128 to the socket FOLDER/gateway
 *
 * It exits with 0 then; 1 is a failure and 2 wrong usage, with one line on stderr.
 *
 * Messages in both directions: one byte of type, four of length (little endian), the content. Requests: see `handle_one`.
 * Answers: 'o' output of a step, 'x' its errors if those are apart, 'e' its wait status, 'y' the first request since the last 'y' that failed (its number
 * from 1, or 0) and the error's number, 's' what a path is, 'g' an error's number and a file's content.
 */
#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/in.h>
#include <linux/net.h>
#include <linux/poll.h>
#include <linux/signal.h>
#include <linux/signalfd.h>
#include <linux/prctl.h>
#include <linux/stat.h>
#include <linux/un.h>
#include <linux/wait.h>

#define CONNECTIONS 128
#define BUFFER 32768
#define PORT 3128 /* the usual one of HTTP proxies */
#define LONGEST (4 << 20) /* bytes of a request or an answer */
#define WORDS 65536       /* arguments, variables and groups of a step */
/* <sys/socket.h> is libc's. */
enum { UNIX = 1, INET = 2, STREAM = 1, STOP_WRITING = 1, NO_DELAY = 1 };
enum { NONBLOCK = 00004000, CLOSE_ON_EXEC = 02000000, REMOVE_FOLDER = 0x200, NO_FOLLOW = 0x100, EMPTY_PATH = 0x1000 };

#if defined(__x86_64__)
__asm__(".globl _start\n_start: xor %ebp, %ebp\n mov %rsp, %rdi\n and $-16, %rsp\n call start\n");

static long call(long number, long a, long b, long c, long d, long e) {
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e;
    __asm__ volatile("syscall"
                     : "+a"(number)
                     : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
    return number;
}
#elif defined(__aarch64__)
__asm__(".globl _start\n_start: mov x29, #0\n mov x30, #0\n mov x0, sp\n b start\n");

static long call(long number, long a, long b, long c, long d, long e) {
    register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d, x4 __asm__("x4") = e;
    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
    return x0;
}
#else
#error "no system calls are known for this architecture"
#endif

#define CALL(name, a, b, c, d, e) call(__NR_##name, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e))

static unsigned long length(const char *text) {
    unsigned long count = 0;
    while (text[count]) count++;
    return count;
}

static int equal(const char *a, const char *b) {
    while (*a && *a == *b) a++, b++;
    return *a == *b;
}

static void print(int file, const char *text) { CALL(write, file, text, length(text), 0, 0); }

static void quit(int code) {
    for (;;) CALL(exit_group, code, 0, 0, 0, 0);
}

static void fail(int code, const char *what) {
    print(2, what);
    quit(code);
}

/* A descriptor that reads SIGTERM, SIGINT and SIGCHLD. Blocked signals reach process 1 too, which drops others that it
 * has no handler for. SIGPIPE is blocked for good: write reports it. */
static int signals(void) {
    unsigned long blocked = 1UL << (SIGTERM - 1) | 1UL << (SIGINT - 1) | 1UL << (SIGCHLD - 1) | 1UL << (SIGPIPE - 1);
    unsigned long read = blocked & ~(1UL << (SIGPIPE - 1));
    CALL(rt_sigprocmask, SIG_SETMASK, &blocked, 0, sizeof blocked, 0);
    long descriptor = CALL(signalfd4, -1, &read, sizeof read, CLOSE_ON_EXEC, 0);
    if (descriptor < 0) fail(1, "helper: no signalfd\n");
    return (int)descriptor;
}

/* Waits for a signal: ends the program, or reaps. */
static void handle(int signal_descriptor) {
    struct signalfd_siginfo signal;
    if (CALL(read, signal_descriptor, &signal, sizeof signal, 0, 0) != sizeof signal) return;
    if (signal.ssi_signo != SIGCHLD) quit(0);
    while (CALL(wait4, -1, 0, WNOHANG, 0, 0) > 0) continue;
}

static void idle(void) {
    int descriptor = signals();
    for (;;) handle(descriptor);
}

/* One direction of a connection; that of the other one is its neighbour in the array (index ^ 1). */
struct flow {
    int from, to;
    unsigned start, end; /* what of `buffer` is still to be written */
    int open, ended;     /* ended: `from` has no more */
    char buffer[BUFFER];
};

static struct flow flows[2 * CONNECTIONS];
static struct pollfd polls[2 * CONNECTIONS + 5];

static int connect_to(const struct sockaddr_un *address) {
    long descriptor = CALL(socket, UNIX, STREAM | NONBLOCK | CLOSE_ON_EXEC, 0, 0, 0);
    if (descriptor < 0) return -1;
    if (CALL(connect, descriptor, address, sizeof *address, 0, 0) == 0) return (int)descriptor;
    CALL(close, descriptor, 0, 0, 0, 0);
    return -1;
}

static void open_flow(struct flow *flow, int from, int to) {
    flow->from = from;
    flow->to = to;
    flow->start = flow->end = 0;
    flow->ended = 0;
    flow->open = 1;
}

static struct flow *free_flows(void) {
    for (int i = 0; i < 2 * CONNECTIONS; i += 2)
        if (!flows[i].open && !flows[i + 1].open) return &flows[i];
    return 0;
}

static void accept_one(int listener, const struct sockaddr_un *address) {
    struct flow *pair = free_flows();
    if (!pair) return;
    int client = (int)CALL(accept4, listener, 0, 0, NONBLOCK | CLOSE_ON_EXEC, 0);
    if (client < 0) return;
    int server = connect_to(address);
    if (server < 0) {
        CALL(close, client, 0, 0, 0, 0);
        return;
    }
    open_flow(&pair[0], client, server);
    open_flow(&pair[1], server, client);
}

/* Whether the other end takes nothing any more: it closed, and did not only stop writing. */
static int is_gone(int descriptor) {
    struct pollfd entry = {.fd = descriptor};
    long now[2] = {0, 0};
    return CALL(ppoll, &entry, 1, now, 0, 8) > 0;
}

/* One read or one write; afterwards the flow may be done, and with its neighbour the connection. */
static void carry(int index) {
    struct flow *flow = &flows[index], *back = &flows[index ^ 1];
    if (flow->start == flow->end) {
        long count = CALL(read, flow->from, flow->buffer, BUFFER, 0, 0);
        if (count == -EAGAIN || count == -EINTR) return;
        flow->start = 0;
        flow->end = count > 0 ? (unsigned)count : 0;
        flow->ended = count <= 0;
    } else {
        long count = CALL(write, flow->to, flow->buffer + flow->start, flow->end - flow->start, 0, 0);
        if (count == -EAGAIN || count == -EINTR) return;
        if (count > 0) flow->start += (unsigned)count;
        else flow->ended = 1, flow->start = flow->end; /* nobody reads */
    }
    if (!flow->ended) return;
    CALL(shutdown, flow->to, STOP_WRITING, 0, 0, 0);
    flow->open = 0;
    if (is_gone(flow->from)) back->open = 0;
    if (back->open) return;
    CALL(close, flow->from, 0, 0, 0, 0);
    CALL(close, flow->to, 0, 0, 0, 0);
}

static void wait_for(struct pollfd *entry, int descriptor, short events) {
    entry->fd = descriptor; /* poll ignores those below 0 */
    entry->events = events;
    entry->revents = 0;
}

static int control; /* the connection to reprokit */

/* Ends with reprokit: nobody is there to answer. */
static void read_all(void *target, unsigned long count) {
    for (char *to = target; count;) {
        long got = CALL(read, control, to, count, 0, 0);
        if (got == -EINTR) continue;
        if (got <= 0) quit(0);
        to += got;
        count -= (unsigned long)got;
    }
}

static void write_all(const void *source, unsigned long count) {
    for (const char *from = source; count;) {
        long put = CALL(write, control, from, count, 0, 0);
        if (put == -EINTR) continue;
        if (put <= 0) quit(0);
        from += put;
        count -= (unsigned long)put;
    }
}

struct message {
    char type;
    unsigned length;
} __attribute__((packed));

static void answer(char type, const void *content, unsigned count) {
    struct message message = {type, count};
    write_all(&message, sizeof message);
    write_all(content, count);
}

/* A path, and what it becomes or is. `target` follows the path's end: a link's, or an attribute's name and value. */
struct entry {
    unsigned mode, user, group, major, minor, nanoseconds;
    long long seconds;
    char path[];
} __attribute__((packed));

struct status {
    int error;
    unsigned mode, user, group;
    unsigned long long size;
    long long seconds;
    unsigned nanoseconds; /* of the last change of its content */
} __attribute__((packed));

struct step {
    unsigned user, group, groups, arguments, variables, apart; /* apart: errors are answers of their own */
    char rest[]; /* the groups, then the folder, arguments and variables, each ended by 0 */
} __attribute__((packed));

static char request[LONGEST + 1];
static char *words[WORDS + 2];
static int written; /* the file that content goes to */
static int output, errors; /* the running step's */
static long running;     /* the step's process, or 0 */
static unsigned count, failed;
static int failure;

static struct status status_of(int descriptor, const char *path, int flags) {
    struct statx found;
    long error = CALL(statx, descriptor, path, flags, STATX_BASIC_STATS, &found);
    struct status status = {.error = (int)-error};
    if (error) return status;
    status.mode = found.stx_mode;
    status.user = found.stx_uid;
    status.group = found.stx_gid;
    status.size = found.stx_size;
    status.seconds = found.stx_mtime.tv_sec;
    status.nanoseconds = found.stx_mtime.tv_nsec;
    return status;
}

static int is_folder(const char *path, int flags) {
    return (status_of(AT_FDCWD, path, flags).mode & S_IFMT) == S_IFDIR;
}

/* Makes or changes one path. Links are not followed in its last part. Returns 0 or an error's number below 0. */
static long change_once(char type, struct entry *entry, unsigned length_of) {
    char *path = entry->path, *target = path + length(path) + 1, *end = (char *)entry + length_of;
    struct { long long seconds, nanoseconds; } times[2] = {
        {entry->seconds, entry->nanoseconds}, {entry->seconds, entry->nanoseconds}
    };
    if (target > end) return -EINVAL;
    switch (type) {
    case 'D': return CALL(mkdirat, AT_FDCWD, path, 0755, 0, 0);
    case 'F':
        if (written >= 0) CALL(close, written, 0, 0, 0, 0);
        written = (int)CALL(openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | CLOSE_ON_EXEC, 0600, 0);
        return written < 0 ? written : 0;
    case 'L': return CALL(symlinkat, target, AT_FDCWD, path, 0, 0);
    case 'H': return CALL(linkat, AT_FDCWD, target, AT_FDCWD, path, 0);
    case 'N':
        return CALL(mknodat, AT_FDCWD, path, entry->mode,
                    (entry->minor & 0xff) | entry->major << 8 | (unsigned long)(entry->minor & ~0xffu) << 12, 0);
    case 'U': {
        long error = CALL(unlinkat, AT_FDCWD, path, 0, 0, 0);
        if (error == -EISDIR) error = CALL(unlinkat, AT_FDCWD, path, REMOVE_FOLDER, 0, 0);
        return error == -ENOENT || error == -ENOTEMPTY ? 0 : error; /* a step may have removed it, or put files there */
    }
    case 'A': {
        if ((entry->mode & S_IFMT) == S_IFDIR && !is_folder(path, NO_FOLLOW)) return 0; /* a link to a folder stays */
        long error = CALL(fchownat, AT_FDCWD, path, entry->user, entry->group, NO_FOLLOW);
        if (!error && (entry->mode & S_IFMT) != S_IFLNK) error = CALL(fchmodat, AT_FDCWD, path, entry->mode & 07777, 0, 0);
        return error ? error : CALL(utimensat, AT_FDCWD, path, times, NO_FOLLOW, 0);
    }
    case 'X': {
        char *value = target + length(target) + 1;
        return value > end ? -EINVAL : CALL(lsetxattr, path, target, value, end - value, 0);
    }
    }
    return -EINVAL;
}

/* As `change_once`. A file replaces another one; a folder stays, also one behind a link. */
static long change(char type, struct entry *entry, unsigned length_of) {
    long error = change_once(type, entry, length_of);
    if (error != -EEXIST) return error;
    if (type == 'D') return is_folder(entry->path, 0) ? 0 : error;
    if (CALL(unlinkat, AT_FDCWD, entry->path, 0, 0, 0)) return error;
    return change_once(type, entry, length_of);
}

static long append(unsigned size) {
    for (unsigned at = 0; at < size;) {
        long put = CALL(write, written, request + at, size - at, 0, 0);
        if (put == -EINTR) continue;
        if (put <= 0) return put ? put : -EIO;
        at += (unsigned)put;
    }
    return 0;
}

/* A regular file of at most LONGEST bytes less the error's number. A fifo or device does not hold it up. */
static void get(const char *path) {
    static char content[LONGEST];
    int *error = (int *)content, file = (int)CALL(openat, AT_FDCWD, path, O_RDONLY | NONBLOCK | CLOSE_ON_EXEC, 0, 0);
    unsigned size = sizeof *error;
    *error = file < 0 ? -file : 0;
    if (file >= 0 && (status_of(file, "", EMPTY_PATH).mode & S_IFMT) != S_IFREG) *error = EINVAL;
    while (!*error) {
        long got = size == sizeof content ? -EFBIG : CALL(read, file, content + size, sizeof content - size, 0, 0);
        if (got == -EINTR) continue;
        if (got <= 0) {
            *error = (int)-got;
            break;
        }
        size += (unsigned)got;
    }
    if (file >= 0) CALL(close, file, 0, 0, 0, 0);
    answer('g', content, *error ? sizeof *error : size);
}

static void say(const char *what, const char *name, long error) {
    char digits[12];
    int at = sizeof digits - 1;
    digits[at] = 0;
    for (error = -error; error > 0 && at; error /= 10) digits[--at] = (char)('0' + error % 10);
    print(2, "reprokit: ");
    print(2, what);
    print(2, name);
    print(2, ": error ");
    print(2, digits + at);
    print(2, "\n");
}

/* Executes the words, the program searched for in PATH. Returns if it cannot. */
static long execute(char **arguments, char **variables) {
    static char path[4096];
    const char *name = arguments[0], *folders = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    for (const char *each = name; *each; each++)
        if (*each == '/') return CALL(execve, name, arguments, variables, 0, 0);
    for (char **each = variables; *each; each++)
        if ((*each)[0] == 'P' && (*each)[1] == 'A' && (*each)[2] == 'T' && (*each)[3] == 'H' && (*each)[4] == '=')
            folders = *each + 5;
    long error = -ENOENT;
    while (*name) {
        unsigned at = 0;
        while (*folders && *folders != ':' && at < sizeof path - 2) path[at++] = *folders++;
        if (!at) path[at++] = '.';
        path[at++] = '/';
        for (const char *from = name; at < sizeof path; from++)
            if (!(path[at++] = *from)) break;
        if (!path[at - 1]) {
            long now = CALL(execve, path, arguments, variables, 0, 0);
            if (now != -ENOENT && now != -ENOTDIR) error = now;
            if (now != -ENOENT && now != -ENOTDIR && now != -EACCES) break;
        }
        while (*folders && *folders != ':') folders++;
        if (!*folders++) break;
    }
    return error;
}

/* The step's own process: a session of its own, no input, its output in a pipe, no privilege beyond its user's. */
static void become(struct step *step, const unsigned *groups, const char *folder, char **arguments, char **variables,
                   int pipe, int other) {
    unsigned long none = 0;
    CALL(setsid, 0, 0, 0, 0, 0);
    int null = (int)CALL(openat, AT_FDCWD, "/dev/null", O_RDONLY | O_NONBLOCK, 0, 0);
    CALL(dup3, null, 0, 0, 0, 0);
    CALL(dup3, pipe, 1, 0, 0, 0);
    CALL(dup3, other, 2, 0, 0, 0);
    if (null > 2) CALL(close, null, 0, 0, 0, 0);
    CALL(umask, 022, 0, 0, 0, 0);
    CALL(rt_sigprocmask, SIG_SETMASK, &none, 0, sizeof none, 0);
    long error = CALL(chdir, folder, 0, 0, 0, 0);
    if (error) {
        say("cannot enter the folder ", folder, error);
        quit(126);
    }
    if (CALL(setgroups, step->groups, groups, 0, 0, 0) || CALL(setresgid, step->group, step->group, step->group, 0, 0) ||
        CALL(setresuid, step->user, step->user, step->user, 0, 0)) {
        say("cannot become the user", "", -EPERM);
        quit(126);
    }
    error = execute(arguments, variables);
    say("cannot execute ", arguments[0], error);
    quit(error == -ENOENT ? 127 : 126);
}

static void run(unsigned size) {
    struct step *step = (struct step *)request;
    static unsigned groups[WORDS];
    char *at = step->rest, *end = request + size, *folder;
    if (size < sizeof *step || step->groups + step->arguments + step->variables > WORDS || !step->arguments ||
        (unsigned long)(end - at) < step->groups * sizeof *groups)
        fail(1, "helper: not a step\n");
    for (unsigned i = 0; i < step->groups; i++, at += sizeof *groups) groups[i] = *(unsigned *)at;
    folder = at;
    char **next = words;
    for (unsigned i = 0; i < step->arguments + step->variables; i++) {
        at += length(at) + 1;
        if (at >= end) fail(1, "helper: not a step\n");
        if (i == step->arguments) *next++ = 0;
        *next++ = at;
    }
    if (!step->variables) *next++ = 0;
    *next = 0;
    int ends[2], others[2] = {-1, -1};
    if (CALL(pipe2, ends, CLOSE_ON_EXEC, 0, 0, 0)) fail(1, "helper: no pipe\n");
    if (step->apart && CALL(pipe2, others, CLOSE_ON_EXEC, 0, 0, 0)) fail(1, "helper: no pipe\n");
    running = CALL(clone, SIGCHLD, 0, 0, 0, 0);
    if (running < 0) fail(1, "helper: no process\n");
    if (!running) become(step, groups, folder, words, words + step->arguments + 1, ends[1],
                         step->apart ? others[1] : ends[1]);
    CALL(close, ends[1], 0, 0, 0, 0);
    if (step->apart) CALL(close, others[1], 0, 0, 0, 0);
    output = ends[0];
    errors = others[0];
}

/* Sends what the step has written to one of its ends, which is -1 once all have closed it: its exit follows. */
static void send_output(char type, int *end) {
    static char block[BUFFER];
    long got = CALL(read, *end, block, sizeof block, 0, 0);
    if (got == -EINTR) return;
    if (got > 0) {
        answer(type, block, (unsigned)got);
        return;
    }
    CALL(close, *end, 0, 0, 0, 0);
    *end = -1;
}

/* Nothing of a step outlives it: what it left would see the next one's secrets, and write while the container is
 * committed. Process 1 itself and its connection to reprokit are out of a step's reach. */
static void end_step(int status) {
    CALL(kill, -1, SIGKILL, 0, 0, 0);
    for (;;) {
        long found = CALL(wait4, -1, 0, 0, 0, 0);
        if (found < 0 && found != -EINTR) break;
    }
    while (output >= 0) send_output('o', &output);
    while (errors >= 0) send_output('x', &errors);
    running = 0;
    for (int i = 0; i < 2 * CONNECTIONS; i += 2) {
        if (!flows[i].open && !flows[i + 1].open) continue;
        flows[i].open = flows[i + 1].open = 0;
        CALL(close, flows[i].from, 0, 0, 0, 0);
        CALL(close, flows[i].to, 0, 0, 0, 0);
    }
    answer('e', &status, sizeof status);
}

/* Waits for a signal: reaps, or ends the program if it came from outside of the container: a step is no reason to. */
static void handle_step(int signal_descriptor) {
    struct signalfd_siginfo signal;
    if (CALL(read, signal_descriptor, &signal, sizeof signal, 0, 0) != sizeof signal) return;
    if (signal.ssi_signo != SIGCHLD && !signal.ssi_pid) quit(0);
    for (;;) {
        int status;
        long found = CALL(wait4, -1, &status, WNOHANG, 0, 0);
        if (found <= 0) return;
        if (found == running) end_step(status);
    }
}

/* Reads and does one request: 'R' runs a step, 'W' appends to the file made last, 'S' asks what a path is ('s' where
 * its last part may be a link), 'G' for a file's content, 'Y' whether all went well since the last 'Y'; the others make
 * or change a path. */
static void handle_one(void) {
    struct message message;
    read_all(&message, sizeof message);
    if (message.length > LONGEST) fail(1, "helper: a message is too long\n");
    read_all(request, message.length);
    request[message.length] = 0;
    struct entry *entry = (struct entry *)request;
    long error = 0;
    switch (message.type) {
    case 'R':
        if (running) fail(1, "helper: a step is running\n");
        run(message.length);
        return;
    case 'G':
        get(request);
        return;
    case 'S':
    case 's': {
        struct status status = status_of(AT_FDCWD, request, message.type == 's' ? NO_FOLLOW : 0);
        answer('s', &status, sizeof status);
        return;
    }
    case 'Y': {
        int result[2] = {(int)failed, failure};
        if (written >= 0) CALL(close, written, 0, 0, 0, 0);
        written = -1;
        count = failed = 0;
        failure = 0;
        answer('y', result, sizeof result);
        return;
    }
    case 'W':
        error = append(message.length);
        break;
    default:
        error = message.length < sizeof *entry ? -EINVAL : change(message.type, entry, message.length);
    }
    count++;
    if (error && !failed) {
        failed = count;
        failure = (int)-error;
    }
}

static void name(struct sockaddr_un *address, const char *folder, const char *file) {
    unsigned at = 0;
    if (length(folder) + length(file) >= sizeof address->sun_path) fail(2, "helper: the folder's path is too long\n");
    address->sun_family = UNIX;
    while (*folder) address->sun_path[at++] = *folder++;
    while (*file) address->sun_path[at++] = *file++;
}

static void build(const char *folder) {
    /* A step can neither read this process's memory and files nor attach to it. */
    CALL(prctl, PR_SET_DUMPABLE, 0, 0, 0, 0);
    CALL(umask, 0, 0, 0, 0, 0);
    written = output = errors = -1;
    static struct sockaddr_un gateway, reprokit; /* without values here the program needs no page for data */
    name(&gateway, folder, "/gateway");
    name(&reprokit, folder, "/control");
    control = (int)CALL(socket, UNIX, STREAM | CLOSE_ON_EXEC, 0, 0, 0);
    if (control < 0 || CALL(connect, control, &reprokit, sizeof reprokit, 0, 0)) fail(1, "helper: nothing answers\n");

    int signal_descriptor = signals();
    struct sockaddr_in local = {.sin_family = INET};
    local.sin_port = __builtin_bswap16(PORT);
    local.sin_addr.s_addr = __builtin_bswap32(0x7f000001);
    int listener = (int)CALL(socket, INET, STREAM | NONBLOCK | CLOSE_ON_EXEC, 0, 0, 0);
    int yes = 1;
    CALL(setsockopt, listener, IPPROTO_TCP, NO_DELAY, &yes, sizeof yes); /* its connections inherit it */
    if (listener < 0 || CALL(bind, listener, &local, sizeof local, 0, 0) || CALL(listen, listener, CONNECTIONS, 0, 0, 0))
        fail(1, "helper: nothing can listen on the port\n");

    for (;;) {
        for (int i = 0; i < 2 * CONNECTIONS; i++) {
            int empty = flows[i].start == flows[i].end;
            wait_for(&polls[i], !flows[i].open ? -1 : empty ? flows[i].from : flows[i].to, empty ? POLLIN : POLLOUT);
        }
        struct pollfd *rest = &polls[2 * CONNECTIONS];
        wait_for(&rest[0], signal_descriptor, POLLIN);
        wait_for(&rest[1], control, POLLIN);
        wait_for(&rest[2], free_flows() ? listener : -1, POLLIN);
        wait_for(&rest[3], output, POLLIN);
        wait_for(&rest[4], errors, POLLIN);
        if (CALL(ppoll, polls, sizeof polls / sizeof *polls, 0, 0, 8) < 0) continue;
        if (rest[1].revents) handle_one();
        for (int i = 0; i < 2 * CONNECTIONS; i++)
            if (polls[i].revents && flows[i].open) carry(i);
        if (rest[2].revents) accept_one(listener, &gateway);
        if (rest[3].revents) send_output('o', &output);
        if (rest[4].revents) send_output('x', &errors);
        if (rest[0].revents) handle_step(signal_descriptor);
    }
}

__attribute__((noreturn, used)) void start(long *stack) {
    long count_of = stack[0];
    char **arguments = (char **)(stack + 1);
    if (count_of == 2 && equal(arguments[1], "idle")) idle();
    if (count_of == 3 && equal(arguments[1], "build")) build(arguments[2]);
    fail(2, "usage: helper idle | helper build FOLDER\n");
    __builtin_unreachable();
}

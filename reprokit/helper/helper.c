/* The only program of reprokit that runs inside a container. Static, without libc: no file, library or variable of an
 * image changes what it does.
 *
 *   helper idle                  wait, and reap children, until SIGTERM or SIGINT
 *   helper forward PORT SOCKET   carry connections to 127.0.0.1:PORT to the unix socket SOCKET, until SIGTERM, SIGINT or
 *                                the end of standard input, by which it ends with whoever holds the other end of that;
 *                                prints "listening" once it accepts connections and SOCKET has answered
 *
 * Both exit with 0 then, also as process 1; 1 is a failure and 2 wrong usage, with one line on stderr.
 */
#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/in.h>
#include <linux/net.h>
#include <linux/poll.h>
#include <linux/signal.h>
#include <linux/signalfd.h>
#include <linux/un.h>
#include <linux/wait.h>

#define CONNECTIONS 128
#define BUFFER 32768
/* <sys/socket.h> is libc's. */
enum { UNIX = 1, INET = 2, STREAM = 1, STOP_WRITING = 1, NO_DELAY = 1 };
enum { NONBLOCK = 00004000, CLOSE_ON_EXEC = 02000000 };

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
static struct pollfd polls[2 * CONNECTIONS + 3];

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

static void end_with_input(void) {
    char ignored[64];
    if (CALL(read, 0, ignored, sizeof ignored, 0, 0) <= 0) quit(0);
}

static void wait_for(struct pollfd *entry, int descriptor, short events) {
    entry->fd = descriptor; /* poll ignores those below 0 */
    entry->events = events;
    entry->revents = 0;
}

static void forward(const char *port_text, const char *path) {
    unsigned port = 0;
    for (const char *digit = port_text; *digit; digit++) {
        if (*digit < '0' || *digit > '9' || port > 65535) fail(2, "helper: not a port\n");
        port = port * 10 + (unsigned)(*digit - '0');
    }
    static struct sockaddr_un address; /* without a value here the program needs no page for data */
    address.sun_family = UNIX;
    if (port < 1 || port > 65535) fail(2, "helper: not a port\n");
    if (!*path || length(path) >= sizeof address.sun_path) fail(2, "helper: the socket's path is too long\n");
    for (unsigned i = 0; path[i]; i++) address.sun_path[i] = path[i];

    int signal_descriptor = signals();
    struct sockaddr_in local = {.sin_family = INET};
    local.sin_port = __builtin_bswap16((unsigned short)port);
    local.sin_addr.s_addr = __builtin_bswap32(0x7f000001);
    int listener = (int)CALL(socket, INET, STREAM | NONBLOCK | CLOSE_ON_EXEC, 0, 0, 0);
    int yes = 1;
    CALL(setsockopt, listener, IPPROTO_TCP, NO_DELAY, &yes, sizeof yes); /* its connections inherit it */
    if (listener < 0 || CALL(bind, listener, &local, sizeof local, 0, 0) || CALL(listen, listener, CONNECTIONS, 0, 0, 0))
        fail(1, "helper: nothing can listen on the port\n");
    int probe = connect_to(&address);
    if (probe < 0) fail(1, "helper: nothing answers at the socket\n");
    CALL(close, probe, 0, 0, 0, 0);
    print(1, "listening\n");

    for (;;) {
        for (int i = 0; i < 2 * CONNECTIONS; i++) {
            int empty = flows[i].start == flows[i].end;
            wait_for(&polls[i], !flows[i].open ? -1 : empty ? flows[i].from : flows[i].to, empty ? POLLIN : POLLOUT);
        }
        wait_for(&polls[2 * CONNECTIONS], signal_descriptor, POLLIN);
        wait_for(&polls[2 * CONNECTIONS + 1], 0, POLLIN);
        wait_for(&polls[2 * CONNECTIONS + 2], free_flows() ? listener : -1, POLLIN);
        if (CALL(ppoll, polls, sizeof polls / sizeof *polls, 0, 0, 8) < 0) continue;
        if (polls[2 * CONNECTIONS].revents) handle(signal_descriptor);
        if (polls[2 * CONNECTIONS + 1].revents) end_with_input();
        for (int i = 0; i < 2 * CONNECTIONS; i++)
            if (polls[i].revents && flows[i].open) carry(i);
        if (polls[2 * CONNECTIONS + 2].revents) accept_one(listener, &address);
    }
}

__attribute__((noreturn, used)) void start(long *stack) {
    long count = stack[0];
    char **arguments = (char **)(stack + 1);
    if (count == 2 && equal(arguments[1], "idle")) idle();
    if (count == 4 && equal(arguments[1], "forward")) forward(arguments[2], arguments[3]);
    fail(2, "usage: helper idle | helper forward PORT SOCKET\n");
    __builtin_unreachable();
}

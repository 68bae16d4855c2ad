// Counts instructions of an emulated program between two calls of `getppid`: a plug-in of qemu-user,
// version 1 of its interface (qemu 4.2 to 8.2). Writes the last count as a word of 64 bits into the
// file `into=PATH`.
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

// The part of qemu's qemu-plugin.h that is used: Debian packages no header for qemu-user.
typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
typedef void (*Translated)(qemu_plugin_id_t, struct qemu_plugin_tb *);
typedef void (*Syscall)(qemu_plugin_id_t, unsigned, int64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                        uint64_t);
enum { INLINE_ADD_U64 = 0 };
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, Translated);
void qemu_plugin_register_vcpu_syscall_cb(qemu_plugin_id_t, Syscall);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *, int, void *, uint64_t);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);

// `getppid` of AArch64.
enum { MARK = 173 };

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

static uint64_t executed, before;
static int into = -1, inside;

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *block) {
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_inline(block, INLINE_ADD_U64, &executed, qemu_plugin_tb_n_insns(block));
}

static void called(qemu_plugin_id_t id, unsigned cpu, int64_t number, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,
                   uint64_t f, uint64_t g, uint64_t h) {
    (void)id, (void)cpu, (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g, (void)h;
    if (number != MARK) return;
    if (inside) {
        uint64_t count = executed - before;
        if (pwrite(into, &count, sizeof count, 0) != sizeof count) _exit(1);
    }
    before = executed;
    inside = !inside;
}

__attribute__((visibility("default"))) int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int count, char **arguments) {
    (void)info;
    static const char NAME[] = "into=";
    for (int i = 0; i < count; ++i)
        if (strncmp(arguments[i], NAME, sizeof NAME - 1) == 0)
            into = open(arguments[i] + sizeof NAME - 1, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (into < 0) return 1;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_vcpu_syscall_cb(id, called);
    return 0;
}

"""Faults of the disk: calls that fail, processes killed at each call, and power lost with what was not synced.

A library that stands between the process and the C library (LD_PRELOAD) counts the calls that write, sync and rename, and
injects a fault at one of them; it also writes down what reaches the files of a folder (`tests.campaigns.crashes`). It is
compiled here, where there is a C compiler.
"""

import contextlib
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from online_rank import AdditiveRanker
from online_rank.serving.durable import read_service
from online_rank.serving.protocol import RankingService
from online_rank.storage.files import to_bytes
from tests.campaigns.found import Found
from tests.campaigns.kills import command, learned_in, piped, readable, requests, wait

#: What happens at a call: it fails (a write for want of room), a write fails half way, the process is killed, or power is lost.
FAULTS = ("fails", "fails half way", "killed", "power lost")

#: A write fails as on a broken disk; a sync fails, and only syncs are counted.
BROKEN, SYNC = 4, 5

_SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Calls on regular files are numbered from 1; at number `at` happens `what`. */
static long at = 0, count = 0;
static int what = 0;
enum { FAIL = 0, HALF = 1, KILL = 2, POWER = 3, BROKEN = 4, SYNC = 5 };

/* What happens to the files of a folder, written down: kind, offset, lengths, then path and data. */
static int journal = -1;
static char folder[PATH_MAX];
static const char *const unrecorded = "-shm";

void fault_record(int fd, const char *path) { journal = fd; strcpy(folder, path ? path : ""); }

static void put(char kind, const char *path, long long offset, const void *data, size_t n) {
    ssize_t (*real)(int, const void *, size_t) = dlsym(RTLD_NEXT, "write");
    size_t length = strlen(path);
    if (length > 4 && !strcmp(path + length - 4, unrecorded)) return;
    long long head[4] = {kind, offset, length, n};
    if (real(journal, head, sizeof head) < 0 || real(journal, path, length) < 0 || (n && real(journal, data, n) < 0)) abort();
}

static void record(char kind, int fd, long long offset, const void *data, size_t n) {
    char link[64], path[PATH_MAX];
    if (journal < 0) return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t found = readlink(link, path, sizeof path - 1);
    if (found <= 0) return;
    path[found] = 0;
    if (!strncmp(path, folder, strlen(folder))) put(kind, path, offset, data, n);
}

void fault_acknowledged(long number) { if (journal >= 0) put('A', "", number, 0, 0); }

/* What power loss takes back: sizes since the last sync, and what was overwritten since then. */
struct undo { struct undo *before; off_t at; size_t n; char old[]; };
static off_t synced[1024];
static char known[1024];
static struct undo *undone[1024];

void fault_arm(long number, int kind) { at = number; what = kind; count = 0; }
long fault_count(void) { return count; }

static void forget(int fd) {
    while (undone[fd]) { struct undo *u = undone[fd]; undone[fd] = u->before; free(u); }
}

static int regular(int fd) {
    struct stat s;
    if (fd < 3 || fd >= 1024 || fstat(fd, &s) || !S_ISREG(s.st_mode)) return 0;
    if (!known[fd]) { known[fd] = 1; synced[fd] = s.st_size; forget(fd); }
    return 1;
}

static void keep(int fd, size_t n, off_t o) {
    struct undo *u = malloc(sizeof *u + n);
    ssize_t found = u ? pread(fd, u->old, n, o) : -1;
    if (found <= 0) { free(u); return; }
    u->at = o; u->n = found; u->before = undone[fd]; undone[fd] = u;
}

static void lose_power(void) {
    ssize_t (*real)(int, const void *, size_t, off_t) = dlsym(RTLD_NEXT, "pwrite");
    for (int fd = 3; fd < 1024; fd++) {
        struct stat s;
        if (!known[fd] || fstat(fd, &s)) continue;
        for (struct undo *u = undone[fd]; u; u = u->before) real(fd, u->old, u->n, u->at);
        if (s.st_size > synced[fd] && ftruncate(fd, synced[fd])) {}
    }
}

static int due(int sync) {
    if ((what == SYNC && !sync) || ++count != at) return 0;
    if (what == POWER) lose_power();
    if (what == POWER || what == KILL) kill(getpid(), SIGKILL);
    return 1;
}

static int refused(void) { errno = what == BROKEN ? EIO : ENOSPC; return -1; }

ssize_t write(int fd, const void *b, size_t n) {
    ssize_t (*real)(int, const void *, size_t) = dlsym(RTLD_NEXT, "write");
    if (at && regular(fd) && due(0)) {
        if (what == HALF && n > 1) { at = count + 1; what = FAIL; return real(fd, b, n / 2); }
        return refused();
    }
    return real(fd, b, n);
}

static ssize_t in_place(const char *name, int fd, const void *b, size_t n, off_t o) {
    ssize_t (*real)(int, const void *, size_t, off_t) = dlsym(RTLD_NEXT, name);
    if (at && regular(fd)) {
        if (due(0)) {
            if (what != HALF || n < 2) return refused();
            at = count + 1; what = FAIL; n /= 2;
        }
        keep(fd, n, o);
    }
    ssize_t done = real(fd, b, n, o);
    if (done > 0) record('W', fd, o, b, done);
    return done;
}
ssize_t pwrite(int fd, const void *b, size_t n, off_t o) { return in_place("pwrite", fd, b, n, o); }
ssize_t pwrite64(int fd, const void *b, size_t n, off_t o) { return in_place("pwrite64", fd, b, n, o); }

static int synchronised(const char *name, int fd) {
    int (*real)(int) = dlsym(RTLD_NEXT, name);
    if (at && regular(fd)) {
        if (due(1)) { record('F', fd, 0, 0, 0); errno = EIO; return -1; }
        struct stat s;
        int result = real(fd);
        if (!result && !fstat(fd, &s)) { synced[fd] = s.st_size; forget(fd); }
        record('S', fd, 0, 0, 0);
        return result;
    }
    int result = real(fd);
    if (!result) record('S', fd, 0, 0, 0);
    return result;
}
int fsync(int fd) { return synchronised("fsync", fd); }
int fdatasync(int fd) { return synchronised("fdatasync", fd); }

static int cut(const char *name, int fd, off_t n) {
    int (*real)(int, off_t) = dlsym(RTLD_NEXT, name);
    int result = real(fd, n);
    if (!result) record('T', fd, n, 0, 0);
    return result;
}
int ftruncate(int fd, off_t n) { return cut("ftruncate", fd, n); }
int ftruncate64(int fd, off_t n) { return cut("ftruncate64", fd, n); }

static int opened(const char *name, const char *path, int flags, mode_t mode) {
    int (*real)(const char *, int, mode_t) = dlsym(RTLD_NEXT, name);
    int made = journal >= 0 && (flags & O_CREAT) && !strncmp(path, folder, strlen(folder)) && access(path, F_OK);
    int fd = real(path, flags, mode);
    if (fd >= 0 && made) put('C', path, 0, 0, 0);
    return fd;
}
#define MODE mode_t mode = 0; if (flags & O_CREAT) { va_list a; va_start(a, flags); mode = va_arg(a, mode_t); va_end(a); }
int open(const char *path, int flags, ...) { MODE return opened("open", path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE return opened("open64", path, flags, mode); }

int unlink(const char *path) {
    int (*real)(const char *) = dlsym(RTLD_NEXT, "unlink");
    int result = real(path);
    if (!result && journal >= 0 && !strncmp(path, folder, strlen(folder))) put('U', path, 0, 0, 0);
    return result;
}

int close(int fd) {
    int (*real)(int) = dlsym(RTLD_NEXT, "close");
    if (fd >= 0 && fd < 1024) known[fd] = 0;
    return real(fd);
}

int rename(const char *a, const char *b) {
    int (*real)(const char *, const char *) = dlsym(RTLD_NEXT, "rename");
    if (at && due(0)) { errno = EIO; return -1; }
    return real(a, b);
}
"""


def interpose() -> bool:
    """Start this process again with the library in front, once; whether it is there. Without a C compiler it is not."""
    if "ONLINE_RANK_FAULTS" in os.environ:
        return True
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        return False
    library = Path(tempfile.mkdtemp()) / "faults.so"
    library.with_suffix(".c").write_text(_SOURCE)
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-w", "-o", library, library.with_suffix(".c"), "-ldl"], check=True)
    environment = {**os.environ, "LD_PRELOAD": str(library), "ONLINE_RANK_FAULTS": str(library)}
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)
    return True


def faults(most: int, seed: int = 0) -> Found:
    """Let each kind of fault happen at calls spread over a run of the service; a client sends again what was not answered."""
    lines = requests(12, seed)
    whole = RankingService(AdditiveRanker("ndcg@10"))
    for line in lines:
        whole.handle(line)
    expected = to_bytes(whole.model)
    with tempfile.TemporaryDirectory() as folder:
        n_calls = _calls(Path(folder), lines)
    step = max(1, n_calls * len(FAULTS) // most)
    points = [(number, kind) for number in range(1, n_calls + 1) for kind in range(len(FAULTS))][::step]
    found = Found()
    for number, kind in points:
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            answers, _ = _talk(place, lines, number, kind)
            again, ended = _talk(place, lines[len(answers) :], 0, 0)
            name = f"{FAULTS[kind]} at call {number}, seed {seed}"
            found.count(faults=1)
            found.expect(ended, f"{name}: the service does not start again")
            if not ended:
                continue
            acknowledgements = {line for line in answers + again if b'"learned":' in line}
            state = read_service(place / "state")
            found.count(acknowledged=len(acknowledgements))
            learned = learned_in(place / "state")
            lost = sum(int(line.split(b":")[1].split(b",")[0]) not in learned for line in acknowledgements)
            found.expect(not lost, f"{name}: {lost} acknowledged are lost")
            # Rankings are answered before they are synced: after power loss one may be unknown, as the answer to its grades
            # says.
            told = any(b'"error"' in line for line in answers + again)
            found.expect(told or to_bytes(state.model) == expected, f"{name}: another model")
    return found


def _calls(place: Path, lines: list[bytes]) -> int:
    """How many calls a run makes that nothing happens to."""
    counted = place / "count"
    _talk(place, lines, 2**40, 0, counted)
    return int(counted.read_text())


def _talk(place: Path, lines: list[bytes], number: int, kind: int, counted: Path | None = None) -> tuple[list[bytes], bool]:
    """Send requests to a service with a fault; its answers, and whether it ended well."""

    def serve() -> None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        library = ctypes.CDLL(os.environ["ONLINE_RANK_FAULTS"])
        library.fault_arm(ctypes.c_long(number), kind)
        try:
            command(("stream", "--checkpoint", str(place / "state"), "--every", "8"))
        finally:
            if counted is not None:
                counted.write_text(str(library.fault_count()))

    child, from_parent, to_parent = piped(serve)
    received = b""
    for line in _sent(from_parent, lines):
        until = received.count(b"\n") + 1
        while received.count(b"\n") < until and readable(to_parent, 120.0):
            data = os.read(to_parent, 1 << 16)
            if not data:
                break
            received += data
        if received.count(b"\n") < until:
            break
        del line
    with contextlib.suppress(OSError):
        os.close(from_parent)
    code = wait(child, 300)
    assert code is not None, "the service does not end"
    os.close(to_parent)
    return received[: received.rfind(b"\n") + 1].splitlines(), code == 0


def _sent(pipe: int, lines: list[bytes]) -> Iterator[bytes]:
    for line in lines:
        try:
            os.write(pipe, line + b"\n")
        except BrokenPipeError:
            return
        yield line
        time.sleep(0)

/* Clocks of a program that a test sets: adds to each the seconds that a file names, first those of the wall clock. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static char path[4096];

__attribute__((constructor)) static void begin(void) {
    const char *named = getenv("GYMKHANA_TEST_CLOCK");
    if (named) snprintf(path, sizeof path, "%s", named);
}

int clock_gettime(clockid_t id, struct timespec *at) {
    if (syscall(SYS_clock_gettime, id, at) != 0) return -1;
    if (id != CLOCK_REALTIME && id != CLOCK_MONOTONIC) return 0;
    int before = errno, file = open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        char text[64] = "";
        long wall = 0, monotonic = 0;
        if (read(file, text, sizeof text - 1) > 0) sscanf(text, "%ld %ld", &wall, &monotonic);
        close(file);
        at->tv_sec += id == CLOCK_REALTIME ? wall : monotonic;
    }
    errno = before;
    return 0;
}

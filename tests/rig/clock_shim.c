/* Preloaded into a server: its wall clock is off by the microseconds that stand, as eight bytes of this machine, in the file that
 * DUEWHEEL_TEST_CLOCK names. The monotonic clock stays as it is. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *offset;

__attribute__((constructor)) static void open_offset(void) {
  const char *path = getenv("DUEWHEEL_TEST_CLOCK");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) abort();
  void *page = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (page == MAP_FAILED) abort();
  offset = page;
}

int clock_gettime(clockid_t id, struct timespec *now) {
  int answer = (int)syscall(SYS_clock_gettime, id, now);
  if (answer == 0 && offset && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
    int64_t ns = now->tv_nsec + *offset % 1000000 * 1000;
    now->tv_sec += *offset / 1000000;
    if (ns < 0) { ns += 1000000000; now->tv_sec -= 1; }
    if (ns >= 1000000000) { ns -= 1000000000; now->tv_sec += 1; }
    now->tv_nsec = ns;
  }
  return answer;
}

int gettimeofday(struct timeval *now, void *zone) {
  (void)zone;
  struct timespec precise;
  int answer = clock_gettime(CLOCK_REALTIME, &precise);
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1000;
  return answer;
}

time_t time(time_t *where) {
  struct timespec precise;
  clock_gettime(CLOCK_REALTIME, &precise);
  if (where) *where = precise.tv_sec;
  return precise.tv_sec;
}

// clang's thread-safety annotations; nothing under other compilers.
#pragma once

#include <mutex>

#if defined(__clang__)
#define MUSTER_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define MUSTER_THREAD_ANNOTATION(x)
#endif

#define GUARDED_BY(x) MUSTER_THREAD_ANNOTATION(guarded_by(x))
#define REQUIRES(...) MUSTER_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) MUSTER_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define CAPABILITY(x) MUSTER_THREAD_ANNOTATION(capability(x))
#define SCOPED_CAPABILITY MUSTER_THREAD_ANNOTATION(scoped_lockable)
#define ACQUIRE(...) MUSTER_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define RELEASE(...) MUSTER_THREAD_ANNOTATION(release_capability(__VA_ARGS__))

namespace muster {

// std::mutex that clang's analysis understands; works with std::condition_variable_any.
class CAPABILITY("mutex") Mutex {
 public:
  void lock() ACQUIRE() { mutex_.lock(); }
  void unlock() RELEASE() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

class SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace muster

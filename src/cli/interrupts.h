// Ctrl-C, as something to wait for.
#pragma once

#include <signal.h>

#include "base/fd.h"

namespace muster::cli {

// While it lives, SIGINT does not end the process but is counted here. Make it before the threads
// that are to inherit the blocked signal; use it in the thread that made it.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  int fd() const { return fd_.get(); }  // readable: there is one to take
  bool Take();                          // whether one came since the last call

 private:
  UniqueFd fd_;
  sigset_t previous_mask_{};
};

}  // namespace muster::cli

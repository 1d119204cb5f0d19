// A process beside a test: a forked child that runs a function, and tells and is told single bytes.
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <utility>

namespace ember::test {

class Forked {
 public:
  /// What the child sees of it.
  class Side {
   public:
    Side(int in, int out) noexcept : in_(in), out_(out) {}
    void say(char word) const { (void)!write(out_, &word, 1); }
    /// Blocks; 0 once the other one has ended.
    char hear() const {
      char word = 0;
      return read(in_, &word, 1) == 1 ? word : '\0';
    }
    void close_both() const {
      close(in_);
      close(out_);
    }

   private:
    int in_;
    int out_;
  };

  /// The child ends by _exit when the body does, with what that returns.
  explicit Forked(const std::function<int(const Side&)>& body) : Forked(body, make_pipes()) {}
  Forked(Forked&& other) noexcept
      : process_(std::exchange(other.process_, -1)), side_(other.side_) {}
  Forked(const Forked&) = delete;
  Forked& operator=(const Forked&) = delete;
  ~Forked() {
    if (process_ > 0) {
      end(SIGKILL);
      reap();
    }
  }

  pid_t process() const noexcept { return process_; }
  const Side& side() const noexcept { return side_; }
  void end(int signal) const { (void)kill(process_, signal); }
  /// How it ended: the body's answer, or minus the signal.
  int reap() {
    int status = 0;
    (void)waitpid(std::exchange(process_, -1), &status, 0);
    side_.close_both();
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  struct Pipes {
    int to_child[2];
    int to_parent[2];
  };
  static Pipes make_pipes() {
    Pipes made{};
    if (pipe(made.to_child) != 0 || pipe(made.to_parent) != 0) std::abort();
    return made;
  }
  Forked(const std::function<int(const Side&)>& body, const Pipes& pipes)
      : side_(pipes.to_parent[0], pipes.to_child[1]) {
    process_ = fork();
    if (process_ == 0) {
      (void)prctl(PR_SET_PDEATHSIG, SIGKILL);  // nothing outlives a test that ended early
      side_.close_both();
      _exit(body(Side(pipes.to_child[0], pipes.to_parent[1])));
    }
    close(pipes.to_child[0]);
    close(pipes.to_parent[1]);
  }

  pid_t process_ = -1;
  Side side_;
};

}  // namespace ember::test

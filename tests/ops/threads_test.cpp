// Operations on the CPU with several threads: the same bits as with one, for every number of them,
// and where processes fork or threads nest.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "ember/base/team.h"
#include "tests/ops/support.h"

namespace ember::test {
namespace {

/// A number of threads, for as long as it lives.
class Threads {
 public:
  explicit Threads(int count) : before_(get_num_threads()) { set_num_threads(count); }
  ~Threads() { set_num_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

/// Equal, and NaN where the other is.
bool same(const Tensor& a, const Tensor& b) {
  if (a.sizes() != b.sizes() || a.dtype() != b.dtype()) return false;
  const Tensor x = a.contiguous();
  const Tensor y = b.contiguous();
  return x.nbytes() == 0 || std::memcmp(x.data_ptr(), y.data_ptr(), x.nbytes()) == 0;
}

/// Results of operations large enough to be shared, whose sizes no number of pieces divides.
std::vector<Tensor> results() {
  manual_seed(5);
  const Tensor flat = randn({300'007});
  const Tensor matrix = randn({517, 1031});
  const Tensor narrow = matrix.to(bfloat16);
  const Tensor whole = randint(-50, 50, {517, 1031});
  const Tensor cube = randn({63, 65, 67});
  std::vector<Tensor> list{
      flat + 1, matrix + matrix[3], matrix.t() * 2, matrix.slice(1, 0, {}, 2).exp(),
      narrow * narrow, narrow.slice(0, 1, {}, 3).sin(), whole.floor_divide(7),
      cube.permute({2, 0, 1}) + cube.permute({2, 0, 1}).contiguous(), matrix.to(float64),
      matrix.t().contiguous(), where(matrix > 0, matrix, cube.flatten()[5]),
      // Reductions: of everything, rows, columns, a dimension in the middle, views.
      flat.sum(), flat.prod(), flat.mean(), flat.var(), flat.norm(), flat.amax(), flat.argmin(),
      matrix.t().sum(), matrix.slice(1, 0, {}, 2).sum(), matrix.t().slice(0, 0, {}, 3).argmax(),
      whole.sum(), whole.eq(1000).any(), whole.ne(1000).all(), count_nonzero(whole), matrix.sum(0),
      matrix.sum(1), matrix.var(0), matrix.var(1), matrix.argmax(0), matrix.argmax(1),
      matrix.amin(0), cube.sum(1), cube.amax(0), cube.norm(2.0, {1}), narrow.sum(), narrow.sum(0),
      whole.amax(1), matrix.prod(1),
      // Along a dimension.
      softmax(matrix, 0), softmax(matrix, 1), log_softmax(cube, 1), softmax(narrow, 1),
      cumsum(matrix, 0), cumsum(matrix, 1), cumprod(cube, 1), flip(matrix, {0, 1}), flip(flat, {0}),
      flip(cube, {1})};
  const auto add = [&list](const auto& both) {
    const auto& [values, indices] = both;
    list.push_back(values);
    list.push_back(indices);
  };
  add(sort(matrix, 1));
  add(sort(narrow, 0));
  add(topk(matrix, 7, 1));
  add(max(matrix, 1));
  add(matrix.min(0));
  list.push_back(gather(matrix, 1, randint(0, 1031, {517, 1031})));
  list.push_back(index_select(matrix, 0, randint(0, 517, {900})));
  return list;
}

TEST(Threads, DoNotChangeResults) {
  std::vector<Tensor> alone;
  {
    const Threads one(1);
    alone = results();
  }
  for (const int count : {2, 3, 7}) {
    const Threads several(count);
    const std::vector<Tensor> shared = results();
    ASSERT_EQ(shared.size(), alone.size());
    for (std::size_t i = 0; i < alone.size(); ++i)
      EXPECT_TRUE(same(shared[i], alone[i])) << "result " << i << " with " << count << " threads";
  }
}

TEST(Threads, NumberIsPositive) {
  const int before = get_num_threads();
  EXPECT_GE(before, 1);
  EXPECT_ERROR(set_num_threads(0), ValueError, "expected a positive number, got 0");
  EXPECT_ERROR(set_num_threads(-3), ValueError, "got -3");
  EXPECT_EQ(get_num_threads(), before);
}

TEST(Threads, EveryPieceIsDoneOnce) {
  for (const std::int64_t pieces : {0, 1, 2, 3, 100, 1000}) {
    std::vector<std::atomic<int>> done(static_cast<std::size_t>(pieces));
    share(pieces, 4, [&](std::int64_t i) { done[static_cast<std::size_t>(i)]++; });
    for (const auto& times : done) EXPECT_EQ(times, 1);
  }
}

// Shared work that shares work, from several threads at once, more than can be offered.
TEST(Threads, Nest) {
  std::atomic<int> done{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 6; ++t)
    callers.emplace_back([&] {
      for (int round = 0; round < 50; ++round)
        share(8, 3, [&](std::int64_t) { share(5, 3, [&](std::int64_t) { done++; }); });
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(done, 6 * 50 * 8 * 5);
}

// A helper shares its piece in turn while the caller has nothing left to do but wait for it.
TEST(Threads, AHelperMaySharePieces) {
  for (int round = 0; round < 300; ++round) {
    const std::thread::id caller = std::this_thread::get_id();
    std::atomic<bool> helped{false};
    std::atomic<int> done{0};
    share(2, 2, [&](std::int64_t) {
      if (std::this_thread::get_id() == caller) {
        while (!helped) std::this_thread::yield();
      } else {
        helped = true;
        share(4, 2, [&](std::int64_t) { done++; });
      }
    });
    ASSERT_TRUE(done == 4 || done == 8) << done;  // it may have taken both pieces
  }
  // So do reductions: one thread takes a few outputs, of which each is many elements.
  const Threads several(3);
  const Tensor x = ones({3, 131072});
  for (int round = 0; round < 300; ++round)
    ASSERT_EQ(values<float>(x.sum(1)), std::vector<float>(3, 131072.0F));
}

// Where an input lies in the output, the order in which elements are written shows.
TEST(Threads, DoNotChangeWhatIsWrittenOverItsInput) {
  const auto run = [](int count) {
    const Threads threads(count);
    const Tensor rows = ones({2, 1'000'000});
    rows.sub_(rows.narrow(1, 0, 1));
    const Tensor line = arange(1'000'000).to(float32);
    line.slice(0, 2, {}, 2).add_(line.slice(0, 0, -2, 2));
    return std::pair(rows, line);
  };
  const auto alone = run(1);
  const auto shared = run(4);
  EXPECT_TRUE(same(shared.first, alone.first));
  EXPECT_TRUE(same(shared.second, alone.second));
}

// Sums that are merged in another order would differ in the last place: those whose last block is
// short, and fills the last branch of the tree all the same.
TEST(Threads, DoNotChangeTheTreeOfAReduction) {
  for (const std::int64_t n : {262143, 262144, 261633, 262044, 131073, 200001}) {
    manual_seed(static_cast<std::uint64_t>(n));
    for (int round = 0; round < 8; ++round) {
      const Tensor x = randn({n}, float64) * 3 + 1 + arange(n).to(float64) * 1e-3;
      x.slice(0, n - 2048).add_(77.7);
      std::vector<std::vector<double>> found;
      for (const int count : {1, 2, 4}) {
        const Threads threads(count);
        found.push_back({x.var().item<double>(), x.sum().item<double>(), x.norm().item<double>()});
      }
      EXPECT_EQ(found[1], found[0]) << n;
      EXPECT_EQ(found[2], found[0]) << n;
    }
  }
}

// The helpers of the parent do not exist in the child, which does everything itself.
TEST(Threads, ChildrenOfAForkWorkAlone) {
  const Threads several(4);
  const Tensor x = ones({1'000'000});
  EXPECT_EQ((x + 1).sum().item<float>(), 2e6F);  // starts helpers
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit((x + 2).sum().item<float>() == 3e6F ? 0 : 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace ember::test

// knn: handwritten digits, recognised by their nearest neighbours on all GPUs. knn.py is the same
// program in Python.
//
// Read neighbours.cpp next: it has the streams, events and tensors.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>

#include "csv.h"
#include "ember/ember.h"
#include "examples/support/devices.h"
#include "examples/support/progress.h"
#include "examples/support/report.h"
#include "neighbours.h"
#include "options.h"
#include "report.h"
#include "votes.h"

namespace digits {
namespace {

namespace cuda = ember::cuda;
using ember::Tensor;
using example::UsageError;

constexpr std::int64_t kWidth = kPixels;

/// Rows of the data as a tensor, without copying.
Tensor rows_of(const Digits& digits, std::int64_t first, std::int64_t count) {
  const std::uint8_t* pixels = digits.pixels.data() + first * kWidth;
  return ember::from_blob(const_cast<std::uint8_t*>(pixels), {count, kWidth}, ember::uint8);
}

/// A few batches at least, so that there is something to hide copies behind; small ones stay in a
/// CPU's cache, a real GPU wants large ones.
std::int64_t batch_rows(const Options& options, std::int64_t total, int devices) {
  const std::int64_t most = cuda::is_simulated() ? 1024 : 8192;
  const auto usual = std::clamp<std::int64_t>(total / (4 * devices), 1, most);
  return devices * static_cast<std::int64_t>(options.batch.value_or(usual));
}

/// Rows `from`, from + 1, ... of as many copies of the queries as it takes.
void fill(const Tensor& batch, const Tensor& queries, std::int64_t from) {
  const std::int64_t rows = batch.size(0);
  for (std::int64_t at = 0; at < rows;) {
    const std::int64_t query = (from + at) % queries.size(0);
    const std::int64_t count = std::min(rows - at, queries.size(0) - query);
    batch.narrow(0, at, count).copy_(queries.narrow(0, query, count));
    at += count;
  }
}

/// Has all queries answered, with as many batches under way as there may be.
void run(Neighbours& neighbours, const Load& load, const Tensor& queries, const Digits& digits,
         Answers& answers) {
  example::ProgressBar progress(static_cast<std::uint64_t>(load.total));
  std::int64_t taken = 0;
  while (taken < load.total || neighbours.in_flight() > 0) {
    if (taken < load.total && neighbours.in_flight() < Neighbours::kInFlight) {
      const std::int64_t rows = std::min(load.batch, load.total - taken);
      fill(neighbours.next_batch(rows), queries, taken);
      neighbours.submit();
      taken += rows;
      continue;
    }
    const Tensor found = neighbours.collect();
    const auto k = static_cast<std::size_t>(found.size(1));
    const std::span rows(found.data<std::int64_t>(), static_cast<std::size_t>(found.numel()));
    for (std::size_t at = 0; at < rows.size(); at += k)
      answers.add(vote(rows.subspan(at, k), digits.labels));
    const double rate = static_cast<double>(answers.count()) / progress.time().count();
    progress.draw(answers.count(), std::to_string(std::llround(rate)) + " per second");
  }
}

std::vector<example::DeviceWork> work_of(const Neighbours& neighbours) {
  std::vector<example::DeviceWork> work;
  for (const DeviceLog& log : neighbours.logs())
    work.push_back(
        {static_cast<int>(work.size()), log.bytes, unite(log.copies), unite(log.computations)});
  return work;
}

void write_predictions(const std::string& path, const std::vector<std::uint8_t>& labels) {
  std::ofstream file(path);
  for (const std::uint8_t label : labels) file << static_cast<int>(label) << '\n';
  if (!file.flush())
    throw UsageError("--predictions", path, "cannot be written; expected a file to write");
}

/// A timeline that is written to a file, whose name and place the library knows the rules for.
class RunTimeline {
 public:
  explicit RunTimeline(const std::string& file) : file_(file) {
    if (!file_.empty()) checked([&] { timeline_.emplace(cuda::TimelineOptions{.file = file_}); });
  }
  void finish() {
    if (timeline_) checked([&] { timeline_->finish(); });
  }

 private:
  template <class Call>
  void checked(const Call& call) {
    try {
      call();
    } catch (const ember::Error& error) {
      throw UsageError("--timeline", file_, error.what());
    }
  }
  const std::string file_;
  std::optional<cuda::Timeline> timeline_;
};

int main(const Options& options) {
  const Digits digits = read_csv(options.csv.value_or(DIGITS_DATA));
  const auto rows = static_cast<std::int64_t>(digits.rows());
  Load load;
  load.train = static_cast<std::int64_t>(training_rows(options, digits.rows()));
  load.queries = rows - load.train;
  load.total = load.queries * static_cast<std::int64_t>(options.repeat);
  const int devices = example::choose_devices(options.devices);
  RunTimeline timeline(options.timeline);
  load.batch = batch_rows(options, load.total, devices);

  std::printf("digits: handwriting recognised by its nearest neighbours\n\n");
  print_data(load, options);
  example::print_devices(devices);
  std::fflush(stdout);

  Neighbours neighbours(rows_of(digits, 0, load.train), devices,
                        static_cast<std::int64_t>(options.k), load.batch);
  Answers answers(static_cast<std::size_t>(load.queries));
  const auto start = example::Clock::now();
  run(neighbours, load, rows_of(digits, load.train, load.queries), digits, answers);
  const example::Seconds time = example::Clock::now() - start;

  const auto first = static_cast<std::size_t>(load.train);
  print_wrong(digits, first, answers.labels());
  const auto work = work_of(neighbours);
  example::print_work(work);
  std::printf("\n  speed    %lld queries in %.3f s: %.0f per second\n",
              static_cast<long long>(load.total), time.count(),
              static_cast<double>(load.total) / time.count());
  example::print_overlap(work);
  example::print_memory(devices);
  print_accuracy(digits, first, answers.labels());
  timeline.finish();
  if (!options.predictions.empty()) write_predictions(options.predictions, answers.labels());
  return 0;
}

}  // namespace
}  // namespace digits

int main(int count, char** arguments) {
  try {
    const digits::Options options = digits::parse_options(count, arguments);
    if (options.help) {
      std::fputs(digits::kHelp, stdout);
      return 0;
    }
    return digits::main(options);
  } catch (const digits::DataError& error) {
    std::fprintf(stderr, "knn: %s\n", error.what());
    return 2;
  } catch (const example::UsageError& error) {
    std::fprintf(stderr, "knn: %s\n(--help shows the arguments)\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "knn: %s\n", error.what());
    return 1;
  }
}

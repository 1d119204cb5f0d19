// Logs that `replay:FILE` reads: parse_log.

#include <string>

#include "ember/driver/sim/decision_log.h"
#include "fuzz.h"

namespace {

using ember::Status;
using namespace ember::driver::sim;

constexpr std::string_view kExamples[] = {
    "",
    "ember schedule log 1\nschedule random:5\nend 0\n",
    "ember schedule log 1\nschedule random:5\nsubmit 1 0a1b2c3d host\nwait 2 ffffffff s2.14 "
    "affine\nend 2\n",
    "ember schedule log 1\nschedule pct:5:3\n# pct: n = 3\nquery 1 00000000 s1.1 a name\nnote 0 "
    "00000000 host\nend 2\n",
    "ember schedule log 1\nschedule random:5\nsubmit 1 0a1b2c3d s1.2 x\n",
    "ember schedule log 1\nschedule steps:1:s1.1+s3.2\nsubmit 2 0a1b2c3d s2.1/2 copy\nwait 2 "
    "ffffffff s1.1+s3.2 add\nend 2\n",
    "ember schedule log 2\n",
    "ember schedule log 1\nschedule random:5\nwait 4294967296 00000000 host\nend 1\n",
    "ember schedule log 1\nschedule random:5\nend 18446744073709551616\n"};

}  // namespace

std::span<const std::string_view> fuzz::examples() { return kExamples; }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Recording recording;
  recording.frame.remark = "before";
  const Status status = parse_log(fuzz::text(data, size), recording);
  if (!status.ok()) {
    fuzz::expect(status.code() == ember::Code::invalid_value, "the code is invalid_value");
    fuzz::expect(status.detail().find("line") != std::string::npos, "the error names a line");
    fuzz::expect(recording.frame.remark == "before" && recording.decisions.empty(),
                 "a failure leaves the recording untouched");
    return 0;
  }
  Recording again;
  fuzz::expect(parse_log(log_text(recording.frame, recording.decisions), again).ok() &&
                   again.decisions.size() == recording.decisions.size(),
               "what is accepted can be written and read back");
  for (std::size_t i = 0; i < again.decisions.size(); ++i)
    fuzz::expect(again.decisions[i].same_as(recording.decisions[i]), "each decision, too");
  return 0;
}

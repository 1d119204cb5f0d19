#include "ember/jit/host_compiler.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include "ember/base/env.h"
#include "ember/base/error.h"
#include "ember/base/file.h"
#include "ember/base/file_identity.h"
#include "ember/driver/compiled.h"

namespace ember::inline v0::jit {
namespace {

// The same bits on every machine: a product and a sum are rounded one after the other. Headers and
// the C++ library are not used, so that nothing else than is listed can be called.
constexpr const char* kOptions[] = {
    "-x", "c++", "-std=c++20", "-O3", "-fPIC", "-shared", "-ffp-contract=off", "-fno-math-errno",
    "-fno-trapping-math", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti", "-nostdinc",
    // Every function is to be inlined, whether it says so or not.
    "-Wno-attributes", "-pipe", "-fdiagnostics-color=never",
    // Of constants compilers know these better than the C library, and would give other bits.
    "-fno-builtin-acos", "-fno-builtin-acosf", "-fno-builtin-acosh", "-fno-builtin-acoshf",
    "-fno-builtin-asin", "-fno-builtin-asinf", "-fno-builtin-asinh", "-fno-builtin-asinhf",
    "-fno-builtin-atan", "-fno-builtin-atanf", "-fno-builtin-atanh", "-fno-builtin-atanhf",
    "-fno-builtin-atan2", "-fno-builtin-atan2f", "-fno-builtin-cbrt", "-fno-builtin-cbrtf",
    "-fno-builtin-cos", "-fno-builtin-cosf", "-fno-builtin-cosh", "-fno-builtin-coshf",
    "-fno-builtin-erf", "-fno-builtin-erff", "-fno-builtin-erfc", "-fno-builtin-erfcf",
    "-fno-builtin-exp", "-fno-builtin-expf", "-fno-builtin-exp2", "-fno-builtin-exp2f",
    "-fno-builtin-expm1", "-fno-builtin-expm1f", "-fno-builtin-hypot", "-fno-builtin-hypotf",
    "-fno-builtin-lgamma_r", "-fno-builtin-lgammaf_r", "-fno-builtin-log", "-fno-builtin-logf",
    "-fno-builtin-log10", "-fno-builtin-log10f", "-fno-builtin-log1p", "-fno-builtin-log1pf",
    "-fno-builtin-log2", "-fno-builtin-log2f", "-fno-builtin-pow", "-fno-builtin-powf",
    "-fno-builtin-sin", "-fno-builtin-sinf", "-fno-builtin-sinh", "-fno-builtin-sinhf",
    "-fno-builtin-tan", "-fno-builtin-tanf", "-fno-builtin-tanh", "-fno-builtin-tanhf",
    "-fno-builtin-tgamma", "-fno-builtin-tgammaf"};
// The vector instructions that the library's own loops have, too (ops/host/vector.h), but none of
// those that multiply and add at once: g++ 12 makes complex products of them, whatever
// -ffp-contract says. AVX-512 has them, so it is for kernels without complex numbers, and without
// vectors of unlike statements, which could be products, too.
#if defined(__x86_64__)
constexpr const char* kVectors[] = {"-mavx",  "-mavx2",  "-mbmi",    "-mbmi2",
                                    "-mf16c", "-mlzcnt", "-mpopcnt", "-mno-fma"};
constexpr const char* kWideVectors[] = {"-mavx512f",
                                        "-mavx512dq",
                                        "-mavx512vl",
                                        "-mavx512bw",
                                        "-mprefer-vector-width=512",
                                        "-fno-tree-slp-vectorize"};
#endif
constexpr const char* kLibraries[] = {"-nostdlib", "-Wl,-z,defs", "-lm", "-lc", "-lgcc"};

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : text + " ") {
    if (c != ' ' && c != '\t' && c != '\n') {
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::move(word));
      word.clear();
    }
  }
  return words;
}

/// What this machine's processor is told of.
std::vector<std::string> processor_options(bool wide) {
  std::vector<std::string> made;
#if defined(__x86_64__)
  // What has these two has the others of the list, for which clang has no names.
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("bmi2")) return made;
  made.assign(std::begin(kVectors), std::end(kVectors));
  if (wide && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"))
    made.insert(made.end(), std::begin(kWideVectors), std::end(kWideVectors));
#endif
  return made;
}

bool is_program(const std::string& path) {
  struct stat about {};
  return stat(path.c_str(), &about) == 0 && S_ISREG(about.st_mode) &&
         access(path.c_str(), X_OK) == 0;
}

/// The program that a word names, as a shell would find it; empty if there is none.
std::string program(const std::string& word) {
  if (word.find('/') != std::string::npos) return is_program(word) ? word : "";
  const std::string path = env::get("PATH").value_or("/usr/local/bin:/usr/bin:/bin");
  for (std::size_t from = 0; from <= path.size();) {
    const std::size_t end = std::min(path.find(':', from), path.size());
    std::string found = path.substr(from, end - from) + "/" + word;
    if (end > from && is_program(found)) return found;
    from = end + 1;
  }
  return "";
}

/// A folder that goes with all that is in it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    const auto folder = env::get("TMPDIR");
    path_ = (folder && !folder->empty() ? *folder : "/tmp") + "/ember-kernel-XXXXXX";
    if (mkdtemp(path_.data()) == nullptr)
      throw Error("jiterator: the folder " + path_ +
                  " for what is compiled cannot be made: " + std::strerror(errno));
  }
  ~TemporaryFolder() {
    for (const std::string& file : files_) (void)unlink(file.c_str());
    (void)rmdir(path_.c_str());
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string file(const char* name) {
    files_.push_back(path_ + "/" + name);
    return files_.back();
  }

 private:
  std::string path_;
  std::vector<std::string> files_;
};

void write_file(const std::string& path, std::string_view text) {
  const File file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700));
  bool good = static_cast<bool>(file);
  while (good && !text.empty()) {
    const ssize_t put = write(file.get(), text.data(), text.size());
    good = put > 0 || (put < 0 && errno == EINTR);
    if (put > 0) text.remove_prefix(static_cast<std::size_t>(put));
  }
  if (!good) throw Error("jiterator: cannot write " + path + ": " + std::strerror(errno));
}

std::string read_file(const std::string& path) {
  const File file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  char part[16384];
  for (;;) {
    const ssize_t got = file ? read(file.get(), part, sizeof part) : 0;
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(part, static_cast<std::size_t>(got));
  }
}

/// The environment for the compiler, which is to speak English, in ASCII.
std::vector<std::string> environment() {
  std::vector<std::string> made;
  for (char** each = environ; each != nullptr && *each != nullptr; ++each)
    if (std::strncmp(*each, "LC_ALL=", 7) != 0) made.emplace_back(*each);
  made.emplace_back("LC_ALL=C");
  return made;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> made;
  made.reserve(texts.size() + 1);
  for (std::string& text : texts) made.push_back(text.data());
  made.push_back(nullptr);
  return made;
}

/// Runs a program to its end; what it writes goes to the file `log`. Its status as waitpid has it.
int run(const std::string& path, std::vector<std::string> words, const std::string& log) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  std::vector<std::string> variables = environment();
  pid_t child = 0;
  const int error = posix_spawn(&child, path.c_str(), &actions, nullptr, pointers_to(words).data(),
                                pointers_to(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0)
    throw Error("jiterator: the C++ compiler " + path +
                " cannot be started: " + std::strerror(error));
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) break;  // somebody else has waited for it: what it made says how it ended
  return status;
}

}  // namespace

std::string shortened(const std::string& log) {
  constexpr std::size_t kMost = 8192;
  if (log.size() <= kMost) return log;
  return log.substr(0, kMost) + "\n... (" + std::to_string(log.size() - kMost) + " bytes more)";
}

HostCompiler find_host_compiler(bool wide) {
  const auto named = env::get("CXX");
  HostCompiler made;
  made.words = words_of(named.value_or(""));
  if (made.words.empty()) made.words = {"c++"};
  made.path = program(made.words.front());
  if (made.path.empty())
    throw Error(
        "jiterator: kernels for CPU tensors and simulated devices need a C++ compiler, but '" +
        made.words.front() + "' " + (named ? "(from CXX='" + *named + "') " : "(CXX is not set) ") +
        "was not found. Install one, or name it in CXX");
  for (const std::string& word : made.words) {
    made.identity += word + "\n";
    // A launcher such as ccache has the compiler behind it.
    if (const std::string found = word.starts_with("-") ? "" : program(word); !found.empty())
      made.identity += file_identity(found) + "\n";
  }
  for (const char* option : kOptions) made.identity += std::string(option) + " ";
  made.options = processor_options(wide);
  for (const std::string& option : made.options) made.identity += option + " ";
  for (const char* library : kLibraries) made.identity += std::string(library) + " ";
  return made;
}

std::string compile_for_host(const HostCompiler& compiler, const std::string& source,
                             const std::string& what) {
  TemporaryFolder folder;
  const std::string text = folder.file("kernel.cpp");
  const std::string object = folder.file("kernel.so");
  const std::string log = folder.file("log");
  write_file(text, source);
  std::vector<std::string> words = compiler.words;
  words.insert(words.end(), std::begin(kOptions), std::end(kOptions));
  words.insert(words.end(), compiler.options.begin(), compiler.options.end());
  words.insert(words.end(), {"-o", object, text, "-x", "none"});
  words.insert(words.end(), std::begin(kLibraries), std::end(kLibraries));
  const int status = run(compiler.path, std::move(words), log);
  std::string made = read_file(object);
  if (status == 0 && !made.empty()) return made;
  std::string said = shortened(read_file(log));
  if (said.empty())
    said = WIFSIGNALED(status) ? "it was ended by signal " + std::to_string(WTERMSIG(status))
                               : "it ended with status " + std::to_string(WEXITSTATUS(status));
  throw Error(what + " does not compile (" + compiler.words.front() + "):\n" + said);
}

void* load_for_host(const std::string& path, const std::string& contents) {
  std::unique_ptr<TemporaryFolder> folder;
  std::string file = path;
  if (file.empty()) {
    folder = std::make_unique<TemporaryFolder>();
    file = folder->file("kernel.so");
    write_file(file, contents);
  }
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* entry = library != nullptr ? dlsym(library, driver::kCompiledEntry) : nullptr;
  if (entry != nullptr) return entry;
  const char* error = dlerror();
  throw Error(std::string("jiterator: a compiled kernel cannot be loaded: ") +
              (error != nullptr ? error : "it has no entry"));
}

}  // namespace ember::inline v0::jit

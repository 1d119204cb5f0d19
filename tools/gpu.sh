# shellcheck shell=bash disable=SC2154  # what it uses is set by ./dev
# ./dev gpu: what is run and kept on a machine with GPUs.

# What the numbers were measured on.
machine() {
  say "date: $(date -u +%Y-%m-%d)"
  say "cpu: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | sed -n 1p), $jobs cores"
  say "compiler: $("${CXX:-c++}" --version | sed -n 1p)"
  if has nvcc; then say "cuda: $(nvcc --version | sed -n 's/^Cuda compilation tools, //p')"; fi
  if has nvidia-smi; then
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader | sed 's/^/gpu: /'
  fi
}

cmd_gpu() {
  local results=$root/build/gpu status=0
  if [[ $# -eq 2 && $1 == --results ]]; then
    results=$(cd "$caller" && realpath -m "$2")
  elif [[ $# -gt 0 ]]; then
    die 'gpu: expected nothing or --results DIR'
  fi
  have_gpu || die 'gpu: there is no NVIDIA GPU here; ./dev test uses simulated ones'
  export EMBER_INSTALL=0
  prepare_build "$script_needs"
  build_preset release
  have_cuda_object || die 'gpu: the CUDA object was not built; is nvcc here?'
  mkdir -p "$results"
  machine | tee "$results/machine.txt"
  run_suites release '' 1
  EMBER_DEVICES=cuda run_benchmarks "$results" || status=1
  report release | tee "$results/tests.txt" || status=1
  return "$status"
}

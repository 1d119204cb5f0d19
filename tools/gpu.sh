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

# For ctest: the GPUs that a program would see, in pairs if there are several, and how many tests
# share a pair. Programs that share a GPU wait for each other, but most of a test is the host's.
list_gpus() {
  local ids=${CUDA_VISIBLE_DEVICES:-} gpus=() rows=() i
  gpu_slots=6
  [[ $ids =~ ^[0-9,]+$ ]] || ids=$(nvidia-smi --query-gpu=index --format=csv,noheader | paste -sd, -)
  IFS=, read -ra gpus <<<"$ids"
  if [[ ${#gpus[@]} -eq 1 ]]; then rows=("$(row "${gpus[0]}")"); fi
  for ((i = 0; i + 1 < ${#gpus[@]}; i += 2)); do rows+=("$(row "${gpus[i]}_${gpus[i + 1]}")"); done
  say "{\"version\": {\"major\": 1, \"minor\": 0}, \"local\": [{\"gpus\": [$(joined "${rows[@]}")]}]}" \
    >"$root/build/gpus.json"
}

row() { say "{\"id\": \"$1\", \"slots\": $gpu_slots}"; }

cmd_gpu() {
  local results=$root/build/gpu status=0 suites='' repeat=1 bench=yes
  while [[ $# -gt 0 ]]; do
    case $1 in
      --results) [[ $# -gt 1 ]] || die 'gpu: --results expects a folder'
        results=$(cd "$caller" && realpath -m "$2"); shift ;;
      --repeat) [[ $# -gt 1 ]] && shift; repeat=$1 ;;
      --no-bench) bench='' ;;
      -*) die "gpu: unknown option $1" ;;
      *) suites=$1 ;;
    esac
    shift
  done
  [[ $repeat =~ ^[1-9][0-9]*$ ]] || die 'gpu: --repeat expects a positive number'
  have_gpu || die 'gpu: there is no NVIDIA GPU here; ./dev test uses simulated ones'
  export EMBER_INSTALL=0
  mkdir -p "$root/build" "$results"
  if has nvidia-smi; then list_gpus; fi
  prepare_build "$script_needs"
  build_preset release
  have_cuda_object || die 'gpu: the CUDA object was not built; is nvcc here?'
  machine | tee "$results/machine.txt"
  run_suites release "$suites" "$repeat"
  [[ -z $bench ]] || EMBER_DEVICES=cuda run_benchmarks "$results" || status=1
  report release | tee "$results/tests.txt" || status=1
  return "$status"
}

# shellcheck shell=bash
# Common functions of the project's scripts, which source it in the top folder of the repository.

heading() { printf '\n==> %s\n' "$*"; }
note() { printf '    %s\n' "$*"; }
die() {
  printf '\nERROR: %s\n' "$*" >&2
  exit 1
}

# run_logged LOG COMMAND...: writes the output to LOG, and shows its last lines after a failure.
run_logged() {
  local log=$1 code=0
  shift
  mkdir -p "$(dirname "$log")"
  printf '$ %s\n' "$*" >"$log"
  "$@" >>"$log" 2>&1 || code=$?
  if ((code != 0)); then
    tail -n 60 "$log" >&2
    printf '\nERROR: exit code %d from: %s\n       complete output: %s\n' "$code" "$*" "$log" >&2
  fi
  return "$code"
}

# show_warnings LOG: shows the warnings of CMake, for example about a missing library or CUDA.
show_warnings() {
  awk '/^CMake Warning/ { on = 1; next }
       on && /^  / { sub(/^ +/, ""); text = text (text == "" ? "" : " ") $0; next }
       on && text != "" { print "    WARNING: " text; on = 0; text = "" }
       END { if (text != "") print "    WARNING: " text }' "$1"
}

# The number of parallel compilers: one per core, and 2 GiB of memory for each.
parallel_jobs() {
  local cores memory
  cores=$(nproc)
  memory=$(awk '/^MemAvailable:/ { print int($2 / 2097152) }' /proc/meminfo)
  if ((memory < 1)); then memory=1; fi
  echo $((cores < memory ? cores : memory))
}

# The number of GPUs that are visible to a program. Like CUDA, it ignores the first entry of
# CUDA_VISIBLE_DEVICES that names no GPU, such as -1, and all entries after it.
visible_gpus() {
  local count=0
  if command -v nvidia-smi >/dev/null; then
    count=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ' || true)
  else
    count=$(find /dev -maxdepth 1 -name 'nvidia[0-9]*' | wc -l)
  fi
  if [[ -n ${CUDA_VISIBLE_DEVICES+set} ]]; then
    local entries entry allowed=0
    IFS=, read -ra entries <<<"$CUDA_VISIBLE_DEVICES"
    for entry in "${entries[@]}"; do
      if [[ ! $entry =~ ^[[:space:]]*([0-9]|GPU-|MIG-) ]]; then break; fi
      allowed=$((allowed + 1))
    done
    if ((allowed < count)); then count=$allowed; fi
  fi
  echo "$count"
}

# The architectures of this machine's GPUs in the format of CMake, "80-real;90", or nothing. The
# newest one includes PTX, from which drivers compile code for later GPUs. Building only for these
# takes a fraction of the time.
gpu_architectures() {
  nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null |
    sed -n 's/^\([0-9]*\)\.\([0-9]\)$/\1\2-real/p' | sort -nu | sed '$s/-real$//' |
    paste -sd ';' || true
}

# Prints the path of the CUDA compiler, or nothing. CMake itself only checks PATH and CUDACXX.
find_nvcc() {
  local candidate
  for candidate in "${CUDACXX:-}" "$(command -v nvcc || true)" "${CUDA_HOME:-}/bin/nvcc" \
    /usr/local/cuda/bin/nvcc; do
    if [[ -n $candidate && -x $candidate ]]; then
      echo "$candidate"
      return
    fi
  done
}

# nvcc_problem NVCC: prints the reason why it cannot be used, or nothing.
nvcc_problem() {
  local version
  version=$("$1" --version | sed -n 's/.*release \([0-9.]*\),.*/\1/p')
  if [[ $(printf '%s\n' 12.4 "$version" | sort -V | head -n 1) != 12.4 ]]; then
    echo "CUDA $version ($1) is older than 12.4"
  fi
}

use_ccache() {
  if command -v ccache >/dev/null; then
    export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache \
      CMAKE_CUDA_COMPILER_LAUNCHER=ccache
  fi
}

# run_shown COMMAND...: prints the command, quoted for a shell, and runs it.
run_shown() {
  local word line=
  for word in "$@"; do
    if [[ ! $word =~ ^[A-Za-z0-9_./:=,+@%^-]+$ ]]; then printf -v word %q "$word"; fi
    line+=" $word"
  done
  note "${line# }"
  "$@"
}

# value LOG KEY: prints one value of the output of a run, or "-".
value() {
  local line
  line=$(sed -n "s/^$2=//p" "$1")
  echo "${line:--}"
}

# run_product RANKS RESULT LOG PROGRAM WORKLOAD PRECISION OPTION...: measures a product without
# storing C, unless RESULT is there already. Fails if the run fails.
run_product() {
  local ranks=$1 result=$2 log=$3 program=$4 workload=$5 precision=$6 start=(run_shown)
  shift 6
  if [[ -f $result ]]; then return; fi
  if ((ranks > 1)); then start=(launch "$ranks"); fi
  "${start[@]}" "$program" run "$workload" --product.precision "$precision" \
    --output.store false --measure.warmup 1 --measure.repeat 5 -o "$result" "$@" >"$log" 2>&1
}

# launch RANKS COMMAND...: prints and runs mpirun, also as root and with fewer cores than ranks.
launch() {
  local ranks=$1 flags=() as_root=()
  shift
  if mpirun --version 2>/dev/null | grep -q -E 'Open MPI|OpenRTE|PRRTE'; then
    # -q avoids mpirun's own banner after an error. With binding, all readers of a rank would share
    # one core.
    flags=(-q --oversubscribe --bind-to none)
    if ((EUID == 0)); then
      as_root=(env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1)
    fi
  fi
  run_shown "${as_root[@]}" mpirun "${flags[@]}" -np "$ranks" "$@"
}

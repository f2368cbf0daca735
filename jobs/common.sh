# shellcheck shell=bash
# What the project's scripts share; they source it after `cd` to the repository's top.

heading() { printf '\n==> %s\n' "$*"; }
note() { printf '    %s\n' "$*"; }
die() {
  printf '\nERROR: %s\n' "$*" >&2
  exit 1
}

# run_logged LOG COMMAND...: output goes to LOG; of a failure its last lines are shown.
run_logged() {
  local log=$1 code=0
  shift
  mkdir -p "$(dirname "$log")"
  printf '$ %s\n' "$*" >"$log"
  "$@" >>"$log" 2>&1 || code=$?
  if ((code != 0)); then
    tail -n 60 "$log" >&2
    printf '\nERROR: exit code %d from: %s\n       all of its output: %s\n' "$code" "$*" "$log" >&2
  fi
  return "$code"
}

# show_warnings LOG: what CMake warned of (a library or CUDA left out) must not stay in the log.
show_warnings() {
  awk '/^CMake Warning/ { on = 1; next }
       on && /^  / { sub(/^ +/, ""); text = text (text == "" ? "" : " ") $0; next }
       on && text != "" { print "    WARNING: " text; on = 0; text = "" }
       END { if (text != "") print "    WARNING: " text }' "$1"
}

# One compiler a core, as long as each can have 2 GiB.
parallel_jobs() {
  local cores memory
  cores=$(nproc)
  memory=$(awk '/^MemAvailable:/ { print int($2 / 2097152) }' /proc/meminfo)
  if ((memory < 1)); then memory=1; fi
  echo $((cores < memory ? cores : memory))
}

# GPUs that a program started here would see.
visible_gpus() {
  local count=0
  if command -v nvidia-smi >/dev/null; then
    count=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ' || true)
  else
    count=$(find /dev -maxdepth 1 -name 'nvidia[0-9]*' | wc -l)
  fi
  if [[ -n ${CUDA_VISIBLE_DEVICES+set} ]]; then
    local allowed
    IFS=, read -ra allowed <<<"$CUDA_VISIBLE_DEVICES"
    if ((${#allowed[@]} < count)); then count=${#allowed[@]}; fi
  fi
  echo "$count"
}

# The architectures of this machine's GPUs as CMake wants them, "80-real;90-real", or nothing.
# A build for them alone takes a fraction of the time.
gpu_architectures() {
  nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null |
    sed -n 's/^\([0-9]*\)\.\([0-9]\)$/\1\2-real/p' | sort -u | paste -sd ';' || true
}

# Prints the CUDA compiler's path, or nothing. CMake itself looks on PATH and at CUDACXX alone.
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

# nvcc_problem NVCC: why it can't be used, or nothing.
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

# run_shown COMMAND...: first says it, as a line that can be pasted into a shell.
run_shown() {
  local word line=
  for word in "$@"; do
    if [[ ! $word =~ ^[A-Za-z0-9_./:=,+@%^-]+$ ]]; then printf -v word %q "$word"; fi
    line+=" $word"
  done
  note "${line# }"
  "$@"
}

# launch RANKS COMMAND...: mpirun, also for root and on fewer cores than ranks; shown.
launch() {
  local ranks=$1 flags=() as_root=()
  shift
  if mpirun --version 2>/dev/null | grep -q -E 'Open MPI|OpenRTE|PRRTE'; then
    # -q: no banner of its own on an error. Bound ranks would have one core for all their readers.
    flags=(-q --oversubscribe --bind-to none)
    if ((EUID == 0)); then
      as_root=(env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1)
    fi
  fi
  run_shown "${as_root[@]}" mpirun "${flags[@]}" -np "$ranks" "$@"
}

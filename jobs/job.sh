# shellcheck shell=bash
# What the Slurm jobs share. A job sources it from the folder of its original, since Slurm runs a
# copy of the script; `folder` is that folder.

die() {
  printf 'ERROR: %s\n' "$*" >&2
  exit 2
}

# help_or_check "$0" "$@": prints the script's comment for --help; ends unless this is a job with
# something to do.
help_or_check() {
  local script=$1
  shift
  if [[ ${1:-} == -h || ${1:-} == --help ]]; then
    sed -n '2,/^set /{/^#SBATCH/d;/^#/s/^# \{0,1\}//p}' "$script"
    exit
  fi
  if [[ -z ${SLURM_JOB_ID:-} ]]; then
    die "this is no Slurm job: submit it with sbatch (--help shows how)"
  fi
  if (($# == 0)); then die "what to run is missing (--help shows how)"; fi
}

# Loads SITE_MODULES and finds the program: on PATH, else the build beside jobs/. Sets `program`.
prepare_site() {
  if [[ -n ${SITE_MODULES:-} ]]; then
    if ! type module >/dev/null 2>&1; then
      die "SITE_MODULES is set, but there is no command 'module': submit from a login shell"
    fi
    # shellcheck disable=SC2086  # a list of modules
    module load $SITE_MODULES
  fi
  # shellcheck disable=SC2154  # the job has set `folder`
  program=$(command -v shardstream) || program=$folder/../build/shardstream
  [[ -x $program ]] || die "no shardstream on PATH, nor $program: build it (jobs/quickstart)"
  # Newer versions of srun do not take this over from sbatch.
  export SRUN_CPUS_PER_TASK=${SLURM_CPUS_PER_TASK:-1}
  printf 'job %s: %s nodes (%s), %s tasks, %s CPUs each, %s GPUs on a node, modules: %s\n' \
    "$SLURM_JOB_ID" "$SLURM_JOB_NUM_NODES" "$SLURM_JOB_NODELIST" "${SLURM_NTASKS:-1}" \
    "$SRUN_CPUS_PER_TASK" "${SLURM_GPUS_ON_NODE:-0}" "${SITE_MODULES:-none}" >&2
}

# Starts a run on all tasks of the job; LAUNCHER replaces srun.
run_on_all_tasks() {
  local launcher
  read -ra launcher <<<"${LAUNCHER:-srun --mpi=pmix --gpu-bind=none --kill-on-bad-exit=1}"
  "${launcher[@]}" "$program" run "$@" --launch.expect-ranks "${SLURM_NTASKS:-auto}"
}

# finish CODE: ends the job. With code 75 (interrupted) it is requeued first, at most MAX_RESTARTS
# (50) times; the job's next start does what is left.
finish() {
  if (($1 == 75)); then
    if ((${SLURM_RESTART_COUNT:-0} < ${MAX_RESTARTS:-50})); then
      scontrol requeue "$SLURM_JOB_ID"
    else
      printf 'This was restart %s: the job ends, and what is finished stays.\n' \
        "$SLURM_RESTART_COUNT" >&2
    fi
  fi
  exit "$1"
}

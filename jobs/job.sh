# shellcheck shell=bash
# Common functions of the Slurm jobs. Slurm runs a copy of a job script, so each script finds the
# folder of its original, sets `folder`, and sources this file from there.

die() {
  printf 'ERROR: %s\n' "$*" >&2
  exit 2
}

# The names of launches in `shardstream scale --list`, for sed.
# shellcheck disable=SC2034  # for the scripts that source this file
launch_names='calibration\|p[0-9]*-r[0-9]*\|p[0-9]*-timeline'

# begin_job "$0" "$@": prints the script's comment for --help. Ends with an error unless this is a
# Slurm job with arguments. Loads SITE_MODULES, sets `program`, and prints the job's resources.
begin_job() {
  local script=$1
  shift
  if [[ ${1:-} == -h || ${1:-} == --help ]]; then
    sed -n '2,/^set /{/^#SBATCH/d;/^#/s/^# \{0,1\}//p}' "$script"
    exit
  fi
  if [[ -z ${SLURM_JOB_ID:-} ]]; then
    die "this is not a Slurm job: submit it with sbatch (--help shows how)"
  fi
  if (($# == 0)); then die "there are no arguments: name a workload (--help shows how)"; fi
  load_modules
  find_program
  # Newer versions of srun do not inherit this from sbatch.
  export SRUN_CPUS_PER_TASK=${SLURM_CPUS_PER_TASK:-1}
  printf 'job %s: %s, nodes %s (%s), tasks %s, CPUs of a task %s, GPUs of a node %s, modules %s\n' \
    "$SLURM_JOB_ID" "$program" "$SLURM_JOB_NUM_NODES" "$SLURM_JOB_NODELIST" "${SLURM_NTASKS:-1}" \
    "$SRUN_CPUS_PER_TASK" "${SLURM_GPUS_ON_NODE:-0}" "${SITE_MODULES:-not set}" >&2
}

load_modules() {
  if [[ -z ${SITE_MODULES:-} ]]; then return; fi
  if ! type module >/dev/null 2>&1; then
    die "SITE_MODULES: '$SITE_MODULES' needs the command 'module': submit from a login shell"
  fi
  set +u  # module itself uses unset variables
  # shellcheck disable=SC2086  # a list of modules
  module load $SITE_MODULES || die "module load $SITE_MODULES failed"
  set -u
}

# Sets `program`: shardstream on PATH, else the build in this repository, or the program that was
# installed with this script.
find_program() {
  # shellcheck disable=SC2154  # the script has set `folder`
  program=$(command -v shardstream) || program=${folder%/*}/build/shardstream
  local installed=${folder%/share/shardstream/jobs}/bin/shardstream
  if [[ ! -x $program && -x $installed ]]; then program=$installed; fi
  [[ -x $program ]] || die "no shardstream on PATH, and no $program: build it (jobs/quickstart)"
}

# run_on_all_tasks COMMAND ARGUMENTS...: starts the command of shardstream with one rank per task of
# the job. SITE_LAUNCHER replaces srun.
run_on_all_tasks() {
  local launcher
  read -ra launcher <<<"${SITE_LAUNCHER:-srun --mpi=${SLURM_MPI_TYPE:-pmix} --gpu-bind=none}"
  "${launcher[@]}" "$program" "$@" --launch.expect-ranks "${SLURM_NTASKS:-auto}"
}

# end_job CODE: with code 75 (interrupted), requeues the job, at most MAX_RESTARTS (50) times; its
# next start continues the work. A job that is canceled stays so.
end_job() {
  local state
  if (($1 != 75)); then exit "$1"; fi
  if ! state=$(scontrol show job "$SLURM_JOB_ID" | sed -n 's/^ *JobState=\([A-Z_]*\).*/\1/p'); then
    printf 'scontrol failed: the job is not requeued. Finished work is kept; submit it again.\n' \
      >&2
  elif [[ $state == RUNNING ]]; then
    if ((${SLURM_RESTART_COUNT:-0} < ${MAX_RESTARTS:-50})); then
      scontrol requeue "$SLURM_JOB_ID" ||
        printf 'The job cannot be requeued. Finished work is kept; submit it again.\n' >&2
    else
      printf 'This was restart %s: the job ends. Finished work is kept; submit it again.\n' \
        "${SLURM_RESTART_COUNT:-0}" >&2
    fi
  fi
  exit "$1"
}

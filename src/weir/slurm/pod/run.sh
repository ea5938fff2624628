#!/bin/sh
# Run a job script in a pod: sh -c TEXT weir-sbatch INTERPRETER SCRIPT SRUN SCONTROL QUEUE [ARGUMENTS].
# Variables WEIR_SLURM_... hold the settings of the job, and the names of the variables that a fact of the pod fills.
# Own names begin with w_, since a name from outside would stay exported.

w_fail() { printf 'weir: %s.\n' "$1" >&2; exit "$2"; }

command -v "$1" >/dev/null 2>&1 ||
  w_fail "the image has no $1, which the first line of the script names: use an image that has it" 127

w_place=${TMPDIR:-/tmp}/slurm-job-$WEIR_SLURM_JOB-$$
w_mask=$(umask)
umask 077
mkdir "$w_place" "$w_place/bin" "$w_place/steps" ||
  w_fail "$w_place can't be made: a job script needs a directory to write to, such as an emptyDir at /tmp" 1
w_write() { printf '%s' "$2" >"$1" && chmod 700 "$1" || w_fail "$1 can't be written" 1; }
w_write "$w_place/slurm_script" "$2"
w_write "$w_place/bin/srun" "$3"
w_write "$w_place/bin/scontrol" "$4"
for w_name in squeue sinfo scancel sacct sstat; do w_write "$w_place/bin/$w_name" "$5"; done
umask "$w_mask"
shift 5

# The pod among those of the job: its number, its first task, its host and those of the others.
w_node=0 w_host=$(uname -n)
w_host=${w_host%%.*}
w_hosts=$w_host
if [ "$WEIR_SLURM_PODS" -gt 1 ]; then
  w_node=$JOB_COMPLETION_INDEX w_base=${w_host%-"$JOB_COMPLETION_INDEX"} w_domain=
  case ${MASTER_ADDR:-} in "$w_base-0".*) w_domain=.${MASTER_ADDR#*.} ;; esac
  w_host=$w_base-$w_node$w_domain
  w_hosts="$w_base-[0-$((WEIR_SLURM_PODS - 1))]$w_domain"
  unset RANK NODE_RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE # they count pods, and Slurm sets none of them
fi
w_more=$((WEIR_SLURM_TASKS % WEIR_SLURM_PODS))
w_rank=$((w_node * (WEIR_SLURM_TASKS / WEIR_SLURM_PODS) + (w_node < w_more ? w_node : w_more)))

w_set() { w_value=$1; shift; for w_name in "$@"; do export "$w_name=$w_value"; done; }
w_set "$w_node" ${WEIR_SLURM_NODE_VARIABLES-}
w_set "$w_rank" ${WEIR_SLURM_RANK_VARIABLES-}
w_set "$w_host" ${WEIR_SLURM_HOST_VARIABLES-}
w_set "$w_hosts" ${WEIR_SLURM_HOSTS_VARIABLES-}
w_set "$(id -u)" ${WEIR_SLURM_UID_VARIABLES-}
w_set "$(id -g)" ${WEIR_SLURM_GID_VARIABLES-}
w_set "$(id -un 2>/dev/null || id -u)" ${WEIR_SLURM_USER_VARIABLES-}
w_set "$PWD" ${WEIR_SLURM_DIRECTORY_VARIABLES-}
w_set "$$" ${WEIR_SLURM_PROCESS_VARIABLES-}
w_set "$((WEIR_SLURM_JOB + 1 + ${JOB_COMPLETION_INDEX:-0}))" ${WEIR_SLURM_TASK_VARIABLES-}
w_set "${WEIR_ARRAY_INDEX-}" ${WEIR_SLURM_INDEX_VARIABLES-}
w_value=$(date +%s 2>/dev/null) || w_value=
[ -z "$w_value" ] || export "WEIR_SLURM_STARTED_S=$w_value"
export "PATH=$w_place/bin:${PATH:-/usr/local/bin:/usr/bin:/bin}" "WEIR_SLURM_DIRECTORY=$w_place"
if [ -n "${WEIR_SLURM_CHDIR-}" ]; then
  CDPATH='' cd -- "$WEIR_SLURM_CHDIR" || w_fail "the image has no directory $WEIR_SLURM_CHDIR: check --chdir" 1
fi

# Signals: in a container this is process 1, and all other processes are those of the job.
w_send() {
  if [ $$ = 1 ]; then kill "-$1" -1; else kill -s "$1" "$w_script"; fi 2>/dev/null
}
w_notify() {
  if [ -n "${WEIR_SLURM_SIGNAL_TO_SCRIPT-}" ]; then
    kill -s "$WEIR_SLURM_SIGNAL" "$w_script"
  else
    for w_file in "$w_place"/steps/*.pid; do [ ! -e "$w_file" ] || kill -s "$WEIR_SLURM_SIGNAL" "$(cat "$w_file")"; done
  fi 2>/dev/null
}
w_timers=
w_later() {
  (
    trap 'kill "$w_nap" 2>/dev/null; exit' TERM
    sleep "$1" & w_nap=$!
    wait "$w_nap" && "$2" ${3+"$3"}
  ) &
  w_timers="$w_timers $!"
}
w_told= w_notified= w_script= w_sent=
w_stop() {
  w_told=1
  [ -n "$w_script" ] || return 0
  # A new process has the traps of its parent until it makes this file, and loses a signal.
  w_tries=0
  until [ -e "$w_place/begun" ] || [ "$w_tries" = 100 ]; do
    sleep 0.1 2>/dev/null || sleep 1
    w_tries=$((w_tries + 1))
  done
  w_sent=1
  if [ -z "${WEIR_SLURM_SIGNAL-}" ] || [ -n "$w_notified" ]; then
    w_send TERM
  else
    w_notified=1
    w_notify
    w_later "$WEIR_SLURM_LAST_S" w_send TERM
  fi
}
trap w_stop TERM

{ : >"$w_place/begun"; exec "$w_place/slurm_script" "$@"; } </dev/null &
w_script=$!
[ -z "$w_told" ] || [ -n "$w_sent" ] || w_stop
[ -z "${WEIR_SLURM_NOTICE_AFTER_S-}" ] || w_later "$WEIR_SLURM_NOTICE_AFTER_S" w_notify
wait "$w_script" 2>/dev/null
w_code=$?
w_stopped=
while [ -n "$w_told" ]; do
  w_told= w_stopped=1
  wait "$w_script" 2>/dev/null
  w_again=$?
  [ "$w_again" = 127 ] || w_code=$w_again
done
[ -z "$w_timers" ] || kill $w_timers 2>/dev/null
# Programs that were told to stop may still save their work: the end of process 1 ends them.
if [ $$ = 1 ] && [ -n "$w_stopped" ]; then
  while kill -0 -1 2>/dev/null; do sleep 1; done
fi
exit "$w_code"

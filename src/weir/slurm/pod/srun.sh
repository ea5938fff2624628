#!/bin/sh
# Start the tasks of this pod: srun [OPTIONS] COMMAND. Each pod of a job runs the script, so together they start all.
# Tasks are plain processes. The exit code is the highest of them; a signal counts as 128 and its number.
# Own names begin with w_, since a name of the script would stay exported to the tasks.

w_fail() { printf 'srun: error: %s\n' "$1" >&2; exit 1; }
w_whole() {
  case $2 in '' | *[!0-9]* | 0*) w_fail "$1=$2: write a whole number from 1, such as $1=4" ;; esac
}
w_gpus_of() {
  w_number=${2##*:}
  case $2 in none) w_number=0 ;; *,*) w_fail "$1=$2: write one kind of GPUs, such as $1=gpu:2" ;; esac
  case $w_number in '' | *[!0-9]*) w_number=1 ;; esac
}

w_tasks= w_per_node= w_nodes= w_cpus=1 w_cpus_given= w_exact= w_overlap= w_over= w_gpus= w_gpus_by= w_label= w_output= w_error=
w_input=all w_chdir= w_export=ALL w_kill= w_per_task=${SLURM_GPUS_PER_TASK-}
if [ -n "$w_per_task" ]; then w_gpus_of --gpus-per-task "$w_per_task"; w_per_task=$w_number; fi
set -f
while [ $# -gt 0 ]; do
  w_name=$1 w_value= w_joined=
  case $1 in
    --) shift; break ;;
    --*=*) w_name=${1%%=*} w_value=${1#*=} w_joined=1 ;;
    --* | -?) ;;
    -?*) w_value=${1#-?} w_name=${1%"${1#-?}"} w_joined=1 ;;
    *) break ;;
  esac
  shift
  case $w_name in
    @FLAGS@)
      case $w_name$w_joined in
        --*1) w_fail "$w_name takes no value: write $w_name" ;;
        *1) set -- "-$w_value" "$@" ;;
      esac ;;
    @OPTIONAL@) ;;
    @VALUES@)
      if [ -z "$w_joined" ]; then
        [ $# -gt 0 ] || w_fail "$w_name has no value: write $w_name=VALUE"
        w_value=$1
        shift
      fi ;;
    @REFUSED@
    --version | -V) echo 'slurm (Weir)'; exit ;;
    *) w_fail "$w_name is no option that srun has in a pod: write the whole name of an option of srun" ;;
  esac
  case $w_name in
    -n | --ntasks) w_whole "$w_name" "$w_value"; w_tasks=$w_value ;;
    --ntasks-per-node | --tasks-per-node) w_whole "$w_name" "$w_value"; w_per_node=$w_value ;;
    -N | --nodes) w_whole --nodes "${w_value%%-*}"; w_nodes=${w_value%%-*} ;;
    -c | --cpus-per-task) w_whole "$w_name" "$w_value"; w_cpus=$w_value w_cpus_given=1 w_exact=1 ;;
    --gpus-per-task) w_gpus_of "$w_name" "$w_value"; w_per_task=$w_number ;;
    -G | --gpus | --gpus-per-node | --gres) w_gpus_of "$w_name" "$w_value"; w_gpus=$w_number w_gpus_by=$w_name ;;
    -l | --label) w_label=1 ;;
    -o | --output) w_output=$w_value ;;
    -e | --error) w_error=$w_value ;;
    -i | --input) w_input=$w_value ;;
    -D | --chdir) w_chdir=$w_value ;;
    --export) w_export=${w_value:-ALL} ;;
    --exact | --exclusive) w_exact=1 ;;
    --overlap) w_overlap=1 ;;
    -O | --overcommit) w_over=1 ;;
    -K | --kill-on-bad-exit) [ "$w_value" = 0 ] || w_kill=1 ;;
    -W | --wait) [ "$w_value" = 0 ] || echo "srun: --wait has no effect in a pod" >&2 ;;
    --multi-prog) w_fail "--multi-prog isn't there in a pod: choose the program by \$SLURM_PROCID in a script" ;;
    --mpi)
      case $w_value in none) ;; list) printf 'MPI plugin types are...\n\tnone\n'; exit ;; *)
        w_fail "--mpi=$w_value: this srun starts plain processes and offers no PMI: write mpirun in place of srun" ;; esac ;;
    -w | --nodelist | -x | --exclude | -r | --relative)
      [ "$WEIR_SLURM_PODS" = 1 ] || w_fail "$w_name: a step runs in all pods: test \$SLURM_NODEID before the command" ;;
  esac
done
[ $# -gt 0 ] || w_fail 'no command is named: write it after the options, such as srun python train.py'

# The tasks of the step, and those of this pod.
w_pods=$WEIR_SLURM_PODS w_node=$SLURM_NODEID
if [ -n "$w_nodes" ] && [ "$w_nodes" != "$w_pods" ]; then
  [ "$w_pods" = 1 ] && w_fail "--nodes=$w_nodes: the job has one node: write --nodes=1"
  w_fail "--nodes=$w_nodes: a step runs in all $w_pods pods: write [ \$SLURM_NODEID = 0 ] && COMMAND in place of srun"
fi
[ -n "$w_tasks" ] || w_tasks=${w_per_node:+$((w_per_node * w_pods))}
[ -n "$w_tasks" ] || w_tasks=${SLURM_NTASKS:-1}
if [ "$w_tasks" -lt "$w_pods" ]; then
  w_fail "--ntasks=$w_tasks: a step runs in all $w_pods pods: write [ \$SLURM_NODEID = 0 ] && COMMAND in place of srun"
fi
w_most=$((w_tasks / w_pods)) w_more=$((w_tasks % w_pods))
w_count=$((w_most + (w_node < w_more)))
w_first=$((w_node * w_most + (w_node < w_more ? w_node : w_more)))
w_times() { if [ "$2" = 1 ]; then printf %s "$1"; else printf '%s(x%s)' "$1" "$2"; fi; }
w_layout=$(w_times "$w_most" "$((w_pods - w_more))")
[ "$w_more" = 0 ] || w_layout="$(w_times "$((w_most + 1))" "$w_more"),$w_layout"

# CPUs and GPUs: each is a file that a running step has made. A step gets all that it asks for, or waits.
w_place=$WEIR_SLURM_DIRECTORY
w_steps=$w_place/steps
w_all_cpus=${SLURM_CPUS_ON_NODE:-1}
w_devices=${CUDA_VISIBLE_DEVICES-}
w_all_gpus=0
IFS=,
for w_device in $w_devices; do w_all_gpus=$((w_all_gpus + 1)); done
unset IFS
w_needed=$((w_count * w_cpus))
[ -z "$w_over" ] || [ "$w_needed" -le "$w_all_cpus" ] || w_needed=$w_all_cpus
if [ -z "$w_overlap" ] && [ "$w_needed" -gt "$w_all_cpus" ]; then
  w_fail "the step asks for $w_needed CPUs, and the pod has $w_all_cpus: write --ntasks in the script"
fi
case $w_gpus_by in -G | --gpus) w_gpus=$(((w_gpus + w_pods - 1) / w_pods)) ;; esac
[ -n "$w_gpus" ] || [ -z "$w_per_task" ] || w_gpus=$((w_per_task * w_count))
if [ "${w_gpus:-0}" -gt "$w_all_gpus" ]; then
  w_fail "the step asks for $w_gpus GPUs, and the pod has $w_all_gpus: write --gpus in the script"
fi
w_pause() { sleep 0.1 2>/dev/null || sleep 1; }
w_make() { (set -C; echo $$ >"$1") 2>/dev/null; }
w_lives() { w_owner=$(cat "$1" 2>/dev/null); [ -z "$w_owner" ] || kill -s 0 "$w_owner" 2>/dev/null; }
w_lock() { until w_make "$w_steps/lock"; do w_lives "$w_steps/lock" || rm -f "$w_steps/lock"; w_pause; done; }
w_held=
w_free() { [ -z "$w_held" ] || (cd "$w_steps" && rm -f $w_held); w_held=; }
w_take() {
  w_number=0 w_taken=0 w_positions=
  while [ "$w_number" -lt "$2" ] && [ "$w_taken" -lt "$3" ]; do
    w_lives "$w_steps/$1$w_number" || rm -f "$w_steps/$1$w_number"
    if w_make "$w_steps/$1$w_number"; then
      w_held="$w_held $1$w_number" w_positions="$w_positions $w_number" w_taken=$((w_taken + 1))
    fi
    w_number=$((w_number + 1))
  done
  [ "$w_taken" = "$3" ]
}
trap 'w_free; rm -f "$w_steps/$w_step.pid"' EXIT
w_step=none w_waits=
w_lock
if [ -z "$w_overlap" ]; then
  [ -n "$w_exact" ] || w_needed=$w_all_cpus
  until w_take cpu "$w_all_cpus" "$w_needed" && w_take gpu "$w_all_gpus" "${w_gpus:-0}"; do
    w_free
    rm -f "$w_steps/lock"
    [ -n "$w_waits" ] || echo 'srun: the step waits: other steps use the CPUs or GPUs of the pod' >&2
    w_waits=1
    w_pause
    w_lock
  done
else
  w_positions= w_number=0
  while [ "$w_number" -lt "${w_gpus:-0}" ]; do w_positions="$w_positions $w_number" w_number=$((w_number + 1)); done
fi
w_step=$(cat "$w_steps/next" 2>/dev/null) || w_step=0
echo "$((w_step + 1))" >"$w_steps/next"
echo $$ >"$w_steps/$w_step.pid"
rm -f "$w_steps/lock"

# Print the devices at the positions from the first one on, so many.
w_listed() {
  w_skip=$1 w_left=$2 w_found=
  for w_position in $w_positions; do
    if [ "$w_skip" -gt 0 ]; then w_skip=$((w_skip - 1)); continue; fi
    [ "$w_left" -gt 0 ] || break
    w_left=$((w_left - 1)) w_number=0
    IFS=,
    for w_device in $w_devices; do
      [ "$w_number" != "$w_position" ] || w_found="${w_found:+$w_found,}$w_device"
      w_number=$((w_number + 1))
    done
    unset IFS
  done
}

# Replace the symbols of the name of a file: w_expand PATTERN RANK leaves w_file.
w_expand() {
  w_file= w_rest=$1
  while :; do
    case $w_rest in
      *%*) w_file=$w_file${w_rest%%\%*} w_rest=${w_rest#*%} ;;
      *) break ;;
    esac
    case $w_rest in
      %*) w_file=$w_file% ;;
      t*) w_file=$w_file$2 ;;
      j*) w_file=$w_file$SLURM_JOB_ID ;;
      J*) w_file=$w_file$SLURM_JOB_ID.$w_step ;;
      A*) w_file=$w_file${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID} ;;
      a*) w_file=$w_file${SLURM_ARRAY_TASK_ID:-4294967294} ;;
      x*) w_file=$w_file$SLURM_JOB_NAME ;;
      s*) w_file=$w_file$w_step ;;
      n*) w_file=$w_file$w_node ;;
      N*) w_file=$w_file$SLURMD_NODENAME ;;
      u*) w_file=$w_file$SLURM_JOB_USER ;;
      *) w_fail "$1: write the symbols %j %J %A %a %x %s %t %n %N %u without numbers" ;;
    esac
    w_rest=${w_rest#?}
  done
  w_file=$w_file$w_rest
}

# Turn --output or --error of a task into a file: w_target PATTERN RANK leaves w_file, empty for the own output.
w_target() {
  case $1 in
    '' | all) w_file= ;;
    none) w_file=/dev/null ;;
    *[!0-9]*) w_expand "$1" "$2" ;;
    *) w_file=; [ "$1" = "$2" ] || w_file=/dev/null ;;
  esac
}

# Keep the variables that --export names.
w_keep() {
  case ,$w_export, in *,ALL,*) ;; *)
    for w_name in $(env | sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)=.*/\1/p'); do
      case $w_name in
        PATH | HOME | USER | LOGNAME | SHELL | TMPDIR | PWD | SLURM* | WEIR_* | CUDA_* | GPU_DEVICE_ORDINAL) ;;
        *) case ,$w_export, in *,NONE,*) unset "$w_name" ;; *,"$w_name",*) ;; *) unset "$w_name" ;; esac ;;
      esac
    done ;;
  esac
  case ,$w_export, in *,NONE,*) return ;; esac
  IFS=,
  for w_name in $w_export; do case $w_name in *=*) export "$w_name" ;; esac; done
  unset IFS
}

w_variables() {
  export "SLURM_STEP_ID=$w_step" "SLURM_STEPID=$w_step" "SLURM_STEP_NUM_TASKS=$w_tasks" "SLURM_NTASKS=$w_tasks" \
    "SLURM_NPROCS=$w_tasks" "SLURM_STEP_NUM_NODES=$w_pods" "SLURM_STEP_NODELIST=$SLURM_JOB_NODELIST" \
    "SLURM_STEP_TASKS_PER_NODE=$w_layout" "SLURM_TASKS_PER_NODE=$w_layout" "SLURM_PROCID=$((w_first + $1))" \
    "SLURM_LOCALID=$1" "SLURM_GTIDS=$w_ids" "SLURM_UMASK=$(umask)"
  [ "$w_pods" -gt 1 ] || export SLURM_LAUNCH_NODE_IPADDR=127.0.0.1
  [ -z "$w_cpus_given" ] || export "SLURM_CPUS_PER_TASK=$w_cpus"
  [ -z "$w_label" ] || export SLURM_LABELIO=1
  [ -n "$w_gpus" ] || return 0
  if [ -n "$w_per_task" ]; then w_listed "$(($1 * w_per_task))" "$w_per_task"; else w_listed 0 "$w_gpus"; fi
  export "CUDA_VISIBLE_DEVICES=$w_found" "SLURM_STEP_GPUS=$w_found"
}

w_say() { printf 'srun: error: %s: task %s: %s\n' "$SLURMD_NODENAME" "$1" "$2" >&2; }
# Wait until a new process has made its file: until then it has the traps of its parent, and loses a signal.
w_await() {
  w_tries=0
  until [ -e "$1" ] || [ "$w_tries" = 100 ]; do w_pause; w_tries=$((w_tries + 1)); done
}
w_end() {
  [ -n "$w_task" ] && [ "$w_told" != sent ] || return 0
  w_told=sent
  w_await "$w_begun"
  kill -s TERM "$w_task" 2>/dev/null
}
w_begin() {
  : >"$w_steps/$w_step.begun$w_local"
  w_keep
  w_variables "$w_local"
  [ -z "$w_chdir" ] || CDPATH='' cd -- "$w_chdir" || exit 1
  command -v "$1" >/dev/null 2>&1 || { w_say "$SLURM_PROCID" "$1: No such file or directory"; exit 2; }
  [ -n "$w_kill" ] || exec "$@" <&3 3<&-
  w_told= w_task= w_begun=$w_steps/$w_step.task$w_local
  trap 'w_told=1; w_end' TERM
  { : >"$w_begun"; exec "$@"; } <&3 3<&- & w_task=$!
  [ -z "$w_told" ] || w_end
  wait "$w_task" 2>/dev/null
  w_status=$?
  [ -z "$w_told" ] || { wait "$w_task" 2>/dev/null; w_status=$?; }
  [ "$w_status" = 0 ] || kill -s TERM $$
  exit "$w_status"
}
w_prefix() {
  trap '' TERM INT HUP USR1 USR2
  while IFS= read -r w_line || [ -n "$w_line" ]; do printf "%${w_width}s: %s\n" "$1" "$w_line"; done
}

# Input: a task alone reads that of srun, and each of several reads all of it.
w_chosen=$w_input
case $w_input in
  none) w_chosen=/dev/null ;;
  all) [ "$w_count" = 1 ] || { w_chosen=$w_steps/$w_step.in; cat >"$w_chosen"; } ;;
esac
w_ids= w_number=0 w_highest=$((w_tasks - 1)) w_pids= w_readers=
w_width=${#w_highest}
while [ "$w_number" -lt "$w_count" ]; do
  w_ids="${w_ids:+$w_ids,}$((w_first + w_number))"
  for w_pattern in "$w_output" "$w_error"; do
    w_target "$w_pattern" "$((w_first + w_number))"
    [ -z "$w_file" ] || (cd -- "${w_chdir:-.}" && : >"$w_file") || w_fail "$w_file can't be written"
  done
  w_number=$((w_number + 1))
done
w_passed=
w_pass() {
  w_passed=1 w_passed_to=0
  for w_receiver in $w_pids; do
    w_await "$w_steps/$w_step.begun$w_passed_to"
    kill -s "$1" "$w_receiver" 2>/dev/null
    w_passed_to=$((w_passed_to + 1))
  done
}
for w_name in TERM INT HUP QUIT USR1 USR2 ALRM CONT; do trap "w_pass $w_name" "$w_name"; done
w_base=${w_chdir:-.}
w_at() { case $1 in '' | /*) w_path=$1 ;; *) w_path=$w_base/$1 ;; esac; }
w_local=0
while [ "$w_local" -lt "$w_count" ]; do
  w_rank=$((w_first + w_local))
  w_target "$w_output" "$w_rank"; w_at "$w_file"; w_out=$w_path
  w_target "$w_error" "$w_rank"; w_at "$w_file"; w_err=$w_path
  case $w_chosen in
    all) w_from= ;;
    /*) w_from=$w_chosen ;;
    *[!0-9]*) w_expand "$w_chosen" "$w_rank"; w_at "$w_file"; w_from=$w_path ;;
    *) w_from=; [ "$w_chosen" = "$w_rank" ] || w_from=/dev/null ;;
  esac
  if [ -n "$w_label" ] && [ -z "$w_out" ]; then
    w_out=$w_steps/$w_step.out$w_local
    mkfifo "$w_out"
    w_prefix "$w_rank" <"$w_out" & w_readers="$w_readers $!"
    if [ -z "$w_err" ]; then
      w_err=$w_steps/$w_step.err$w_local
      mkfifo "$w_err"
      w_prefix "$w_rank" <"$w_err" >&2 & w_readers="$w_readers $!"
    fi
  fi
  exec 3<&0
  [ -z "$w_from" ] || exec 3<"$w_from"
  (
    [ -z "$w_out" ] || { exec >>"$w_out"; [ -n "$w_err" ] || exec 2>&1; }
    [ -z "$w_err" ] || exec 2>>"$w_err"
    w_begin "$@"
  ) &
  w_pids="$w_pids $!" w_local=$((w_local + 1))
  exec 3<&-
done

w_code=0 w_rank=$w_first
for w_pid in $w_pids; do
  wait "$w_pid" 2>/dev/null
  w_status=$?
  while [ -n "$w_passed" ]; do
    w_passed=
    wait "$w_pid" 2>/dev/null
    w_again=$?
    [ "$w_again" = 127 ] || w_status=$w_again
  done
  if [ "$w_status" -gt 128 ]; then
    w_say "$w_rank" "ended by signal $((w_status - 128))"
  elif [ "$w_status" -gt 0 ]; then
    w_say "$w_rank" "Exited with exit code $w_status"
  fi
  [ "$w_status" -le "$w_code" ] || w_code=$w_status
  w_rank=$((w_rank + 1))
done
for w_pid in $w_readers; do wait "$w_pid"; done
exit "$w_code"

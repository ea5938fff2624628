#!/bin/sh
# Answer squeue for the own job. The same text is sinfo, scancel, sacct and sstat, which name the command of Weir.
w_program=${0##*/}
w_fail() { printf '%s: error: %s\n' "$w_program" "$1" >&2; exit 1; }
case $w_program in
  scancel) w_fail 'a pod may stop no workload: weir stop NAME ends it' ;;
  sinfo) w_fail 'Weir has no sinfo: weir nodes lists the nodes' ;;
  sacct | sstat) w_fail "Weir has no $w_program: weir describe NAME shows its times and use" ;;
esac

w_span() {
  w_days=$(($1 / 86400)) w_hours=$(($1 / 3600 % 24)) w_minutes=$(($1 / 60 % 60)) w_seconds=$(($1 % 60))
  if [ "$w_days" -gt 0 ]; then
    printf '%d-%02d:%02d:%02d' "$w_days" "$w_hours" "$w_minutes" "$w_seconds"
  elif [ "$w_hours" -gt 0 ]; then
    printf '%d:%02d:%02d' "$w_hours" "$w_minutes" "$w_seconds"
  else
    printf '%d:%02d' "$w_minutes" "$w_seconds"
  fi
}
w_since() {
  w_now=$(date +%s 2>/dev/null)
  [ -n "$w_now" ] && [ -n "${WEIR_SLURM_STARTED_S-}" ] && w_used=$((w_now - WEIR_SLURM_STARTED_S))
}

w_job= w_format='%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R' w_header=1
while [ "$#" -gt 0 ]; do
  case $1 in
    -h | --noheader) w_header= ;;
    -j | --job | --jobs) w_job=${2-}; [ "$#" -lt 2 ] || shift ;;
    -o | --format) w_format=${2-}; [ "$#" -lt 2 ] || shift ;;
    -j?*) w_job=${1#-j} ;;
    -o?*) w_format=${1#-o} ;;
    -hj) w_header= w_job=${2-}; [ "$#" -lt 2 ] || shift ;;
    -ho) w_header= w_format=${2-}; [ "$#" -lt 2 ] || shift ;;
    --job=* | --jobs=*) w_job=${1#*=} ;;
    --format=*) w_format=${1#*=} ;;
    -r | --array | -a | --all) ;;
    *) w_fail "$1 has no answer in a job: weir list lists the workloads" ;;
  esac
  shift
done
w_task=$SLURM_JOB_ID
[ -z "${SLURM_ARRAY_TASK_ID-}" ] || w_task=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID
case $w_job in
  '') w_fail "a job can query only itself, with -j $SLURM_JOB_ID: weir list lists the workloads" ;;
  "$SLURM_JOB_ID" | "$w_task" | "${SLURM_ARRAY_JOB_ID-}") ;;
  *) w_fail "job $w_job is another one: weir describe NAME shows it" ;;
esac

# Set the header and the value of a field.
w_field() {
  case $1 in
    A) w_head=JOBID w_value=$SLURM_JOB_ID ;;
    B) w_head=EXEC_HOST w_value=$SLURMD_NODENAME ;;
    C) w_head=CPUS w_value=$SLURM_CPUS_ON_NODE ;;
    D) w_head=NODES w_value=$SLURM_JOB_NUM_NODES ;;
    i) w_head=JOBID w_value=$w_task ;;
    j) w_head=NAME w_value=$SLURM_JOB_NAME ;;
    L) w_head=TIME_LEFT w_value=UNLIMITED
      [ -z "${WEIR_SLURM_LIMIT_S-}" ] || w_value=INVALID
      if [ -n "${WEIR_SLURM_LIMIT_S-}" ] && w_since; then
        w_used=$((WEIR_SLURM_LIMIT_S - w_used))
        w_value=$(w_span "$((w_used > 0 ? w_used : 0))")
      fi ;;
    l) w_head=TIME_LIMIT w_value=UNLIMITED
      [ -z "${WEIR_SLURM_LIMIT_S-}" ] || w_value=$(w_span "$WEIR_SLURM_LIMIT_S") ;;
    M) w_head=TIME w_value=INVALID
      if w_since; then w_value=$(w_span "$w_used"); fi ;;
    N) w_head=NODELIST w_value=$SLURM_JOB_NODELIST ;;
    P) w_head=PARTITION w_value=$SLURM_JOB_PARTITION ;;
    R) w_head='NODELIST(REASON)' w_value=$SLURM_JOB_NODELIST ;;
    T) w_head=STATE w_value=RUNNING ;;
    t) w_head=ST w_value=R ;;
    u) w_head=USER w_value=$SLURM_JOB_USER ;;
    Z) w_head=WORK_DIR w_value=$SLURM_SUBMIT_DIR ;;
    *) w_fail "%$1 has no answer in a job: weir describe NAME shows more" ;;
  esac
}

w_heads= w_row=
while [ -n "$w_format" ]; do
  w_text=${w_format%%\%*}
  w_heads=$w_heads$w_text w_row=$w_row$w_text w_format=${w_format#"$w_text"}
  [ -n "$w_format" ] || break
  w_format=${w_format#%}
  w_width=${w_format%%[!.0-9]*}
  w_format=${w_format#"$w_width"}
  w_code=${w_format%"${w_format#?}"}
  w_format=${w_format#?}
  w_field "$w_code"
  w_side=-
  case $w_width in .*) w_side= w_width=${w_width#.} ;; esac
  if [ -n "$w_width" ]; then
    w_head=$(printf "%$w_side$w_width.${w_width}s|" "$w_head") w_head=${w_head%|}
    w_value=$(printf "%$w_side$w_width.${w_width}s|" "$w_value") w_value=${w_value%|}
  fi
  w_heads=$w_heads$w_head w_row=$w_row$w_value
done
[ -z "$w_header" ] || printf '%s\n' "$w_heads"
printf '%s\n' "$w_row"

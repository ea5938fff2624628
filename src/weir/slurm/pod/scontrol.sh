#!/bin/sh
# Answer the questions that scripts ask scontrol: names of hosts, and facts of the own job.
w_right='write scontrol show hostnames or scontrol show job'
w_fail() { printf 'scontrol: error: %s\n' "$1" >&2; exit 1; }
w_wrong() { w_fail "'$w_list' is no list of hosts: write one such as n[1-4,7],login"; }

# Print the names of a part such as n[1-3,08]-[0-1].x. A function in brackets has variables of its own.
w_names() (
  case $1 in
    *\[*\]*) ;;
    *\[* | *\]*) exit 1 ;;
    *) printf '%s\n' "$1"; exit ;;
  esac
  w_before=${1%%\[*} w_after=${1#*\]} w_ranges=${1#*\[}
  w_ranges=${w_ranges%%\]*}
  case $w_ranges in '' | *[!0-9,-]* | ,* | *, | *,,*) exit 1 ;; esac
  IFS=,
  for w_range in $w_ranges; do
    w_first=${w_range%%-*} w_last=${w_range#*-}
    w_width=${#w_first}
    case $w_first$w_last in *-*) exit 1 ;; esac
    [ -n "$w_first" ] && [ -n "$w_last" ] && [ "${#w_last}" -le 9 ] || exit 1
    while [ "${#w_first}" -gt 1 ] && [ "${w_first#0}" != "$w_first" ]; do w_first=${w_first#0}; done
    while [ "${#w_last}" -gt 1 ] && [ "${w_last#0}" != "$w_last" ]; do w_last=${w_last#0}; done
    [ "$w_first" -le "$w_last" ] && [ "$((w_last - w_first))" -le 65536 ] || exit 1
    while [ "$w_first" -le "$w_last" ]; do
      w_number=$(printf "%0${w_width}d" "$w_first")
      case $w_after in
        *\[*) w_names "$w_before$w_number$w_after" || exit 1 ;;
        *) printf '%s\n' "$w_before$w_number$w_after" ;;
      esac
      w_first=$((w_first + 1))
    done
  done
)

w_hostnames() {
  w_list=$1 w_rest=$1
  while [ -n "$w_rest" ]; do
    w_part=
    while :; do
      w_text=${w_rest%%[],[]*}
      w_part=$w_part$w_text
      w_rest=${w_rest#"$w_text"}
      case $w_rest in
        \[*\]*) w_text=${w_rest%%\]*}] w_part=$w_part$w_text w_rest=${w_rest#"$w_text"} ;;
        ,?*) w_rest=${w_rest#,}; break ;;
        '') break ;;
        *) w_wrong ;;
      esac
    done
    [ -n "$w_part" ] || w_wrong
    # Names are complete before the first is printed: a reader such as head leaves early, which is no error.
    w_found=$(w_names "$w_part") || w_wrong
    printf '%s\n' "$w_found"
  done
}

w_job() {
  [ "$1" = "$SLURM_JOB_ID" ] || w_fail "job $1 is another one: weir describe NAME shows it"
  printf '%s\n' "JobId=$SLURM_JOB_ID JobName=$SLURM_JOB_NAME" \
    "   UserId=$SLURM_JOB_USER($SLURM_JOB_UID)" '   JobState=RUNNING Reason=None' \
    '   Requeue=1 BatchFlag=1' "   Partition=$SLURM_JOB_PARTITION" "   NodeList=$SLURM_JOB_NODELIST" \
    "   BatchHost=$SLURMD_NODENAME" "   NumNodes=$SLURM_JOB_NUM_NODES NumCPUs=$SLURM_CPUS_ON_NODE" \
    "   Command=$WEIR_SLURM_DIRECTORY/slurm_script" "   WorkDir=$SLURM_SUBMIT_DIR"
}

set -f
while case ${1-} in -*) true ;; *) false ;; esac; do shift; done
case ${1-} in show | sho | sh) ;; *) w_fail "'$*' is no question that a job can ask here: $w_right" ;; esac
case ${2-} in
  hostname | hostnames) w_hostnames "${3-$SLURM_JOB_NODELIST}" ;;
  job | jobs) w_job "${3-$SLURM_JOB_ID}" ;;
  *) w_fail "show ${2-} is no question that a job can ask here: $w_right" ;;
esac

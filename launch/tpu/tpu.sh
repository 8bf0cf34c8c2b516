#!/usr/bin/env bash
# Runs a config on a TPU VM, or on all hosts of a TPU slice: one host is the
# smallest slice. Needs gcloud, logged in; launch/tpu/README.md is the guide.
# For TPU v2 to v6e. The Cloud TPU API serves no later ones: launch/tpu/gke.sh.
#
#   bash launch/tpu/tpu.sh VERB --name=NAME --zone=ZONE [OPTIONS] [-- FLAGS]
#
# Verbs:
#   watch    create, install and run; again after every preemption, to the end
#   create   queues for a TPU
#   install  copies a git revision to all hosts and makes .venv there
#   run      starts `python -m neg_contrast.main FLAGS` on all hosts, detached
#   state    of the queue, of the TPU and of the last run
#   tail     follows the log of the last run
#   stop     ends the last run; it saves first
#   ssh      runs the command FLAGS in the folder of the code
#   delete   gives the TPU back
#
# Options:
#   --type=TYPE      accelerator type, as v3-32 (create, watch)
#   --spot           cheaper, and can be preempted (create, watch)
#   --bucket=gs://B/DIR  takes the place of workdirs/ (run, watch); slices of
#                    several hosts need it, and nothing else
#   --service-account=EMAIL  whose rights the hosts have (create, watch)
#   --revision=REV   git revision (install, watch); HEAD
#   --worker=N       host of tail and ssh: a number, or all; 0
#   --poll=SECONDS   between looks of watch; 60
#   --project=ID     of Google Cloud; the one that gcloud is set to
#   --dry-run        prints the commands and runs none

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# shellcheck source=launch/commands.sh
source launch/commands.sh

tpus() { call gcloud compute tpus "$@" "${where[@]}"; }

on() {  # on WORKERS COMMAND: from the home folder of the hosts.
  # A host that was taken away would leave ssh waiting for it for ever.
  tpus tpu-vm ssh "$name" --worker="$1" --ssh-flag=-oServerAliveInterval=30 \
    --command="$2"
}

hosts() {  # hosts WORD...: what launch/tpu/worker.sh does, on all hosts.
  on all "bash neg_contrast/launch/tpu/worker.sh $(quote "$@")"
}

runtime() {
  case $type in
    v[234]-*) echo tpu-ubuntu2204-base ;;
    v5litepod-*) echo v2-alpha-tpuv5-lite ;;
    v5p-*) echo v2-alpha-tpuv5 ;;
    v6e-*) echo v2-alpha-tpuv6e ;;
  esac
}

check_type() {
  [ -n "$type" ] || die '--type is needed, such as --type=v3-32'
  case $type in
    tpu7x* | v7x*) die "--type=$type: the Cloud TPU API does not serve it; \
launch/tpu/gke.sh does" ;;
  esac
  check --type "$type" '(v[234]|v5litepod|v5p|v6e)-[1-9][0-9]{0,4}' \
    'v3-32, v4-8, v5litepod-16, v5p-8 or v6e-8'
}

has_hosts() {  # Several: of all types, one host has 8 cores or chips at most.
  [ "${type##*-}" -gt 8 ]
}

create() {
  local version
  version=$(runtime)
  tpus queued-resources create "$name" --node-id="$name" \
    --accelerator-type="$type" --runtime-version="$version" ${spot:+--spot} \
    ${service_account:+--service-account="$service_account"}
}

delete() {  # With the TPU that belongs to it.
  tpus queued-resources delete "$name" --force --quiet
}

install() {  # No host can be asked to know a repository: they get a bundle.
  # A commit that no branch or tag leads to, as origin/feature, needs a ref.
  local bundle ref=refs/tpu/$name
  bundle=$(git rev-parse --git-dir)/$name.bundle
  call git update-ref "$ref" "$commit" || return
  if ! call git bundle create --quiet "$bundle" HEAD "$ref" --branches --tags
  then
    call git update-ref -d "$ref"
    return 1
  fi
  call git update-ref -d "$ref" &&
    tpus tpu-vm scp "$bundle" "$name:neg_contrast.bundle" --worker=all &&
    call rm "$bundle" &&
    on all "git init --quiet neg_contrast && cd neg_contrast &&\
 git fetch --quiet ../neg_contrast.bundle HEAD '+refs/*:refs/bundle/*' &&\
 git checkout --quiet --detach $commit &&\
 bash launch/tpu/worker.sh install"
}

queue_state() {
  tpus queued-resources describe "$name" --format='value(state.state)'
}

tpu_state() { tpus tpu-vm describe "$name" --format='value(state)'; }

run_states() {  # A line per host, if all can be reached.
  on all "[ ! -e neg_contrast/launch/tpu/worker.sh ] && echo 'run: none' ||\
 bash neg_contrast/launch/tpu/worker.sh state $(quote "$@")"
}

run_state() {  # Of all hosts in a word: what decides what to do next.
  local lines word
  lines=$(run_states "$@") || lines='run: unreachable'
  for word in unreachable busy running failed killed none finished; do
    if grep -q "^run: $word" <<< "$lines"; then
      echo "$word"
      return
    fi
  done
  echo unreachable
}

watch() {
  local state last='' kills=0
  while true; do
    state=$(queue_state 2> /dev/null) || state=NONE
    if [ "$state" = ACTIVE ]; then
      state=$(tpu_state 2> /dev/null) || state=UNKNOWN
    fi
    if [ "$state" = READY ]; then
      state="READY, run: $(run_state "$@")"
    fi
    [ "$state" = "$last" ] || echo "$(date '+%F %T')  $name: $state"
    last=$state
    case $state in
      NONE)  # Or describe failed: then this fails, and is tried again.
        create || true
        kills=0 ;;
      SUSPENDED | FAILED | PREEMPTED | TERMINATED)
        delete || true ;;
      *none)
        install && hosts run "$@" || true ;;
      *killed)  # By a signal: a lost host, too little memory.
        kills=$((kills + 1))
        [ $kills -lt 3 ] || die "killed three times; see \
bash launch/tpu/tpu.sh tail $(quote "${where[@]}" --name="$name")"
        hosts run "$@" || true ;;
      *failed)
        hosts log || true
        die 'the run failed' ;;
      *busy)
        die 'another run is going on there; stop it first' ;;
      *finished)
        return ;;
    esac
    sleep "$poll"
  done
}

show_watch() {  # The commands of an undisturbed watch, and of a preemption.
  echo '# until it is ACTIVE and READY:'
  queue_state
  create
  tpu_state
  echo '# then:'
  install
  hosts run "$@"
  echo "# every $poll seconds, until it is finished:"
  queue_state
  tpu_state
  run_states "$@"
  echo '# when it is SUSPENDED, FAILED, PREEMPTED or TERMINATED:'
  delete
  echo '# and all of it again'
}

[ $# -gt 0 ] || set -- --help
verb=$1
shift
name='' zone='' type='' spot='' bucket='' service_account='' worker=0
revision=HEAD poll=60 project='' dry_run=''
check_gone nfs '--bucket=gs://BUCKET/FOLDER, on several hosts too' "$@"
read_options "name zone type bucket service-account revision worker poll \
project" spot "$@"
shift "$taken"
if [ "$verb" = --help ]; then
  usage launch/tpu/tpu.sh
  exit
fi
case $verb in
  watch | create | install | run | state | tail | stop | ssh | delete) ;;
  *) die "unknown verb $verb; bash launch/tpu/tpu.sh --help lists them" ;;
esac
[ -n "$name" ] && [ -n "$zone" ] || die '--name and --zone are needed'
check_name --name "$name"
check --zone "$zone" '[a-z][a-z0-9-]*' 'europe-west4-a'
check --worker "$worker" 'all|[0-9]+' '0 or all'
check --poll "$poll" '[0-9]*[.]?[0-9]+' '60'
check_bucket "$bucket"
[ -z "$project" ] ||
  check --project "$project" '[a-z][a-z0-9.:-]*' 'my-project'
[ -z "$service_account" ] ||
  check --service-account "$service_account" \
    '[A-Za-z0-9._-]+@[A-Za-z0-9.-]+' 'name@my-project.iam.gserviceaccount.com'
[ -z "$type" ] || check_type
where=(--zone="$zone" ${project:+--project="$project"})
case $verb in
  watch | run | ssh)
    check_words "$verb" nq_stage2 "$@"
    shift ;;
  *) [ $# -eq 0 ] || die "$verb takes no flags of neg_contrast.main" ;;
esac
commit=$(commit_of "$revision")
case $verb in
  watch | run)
    check_flags "$@"
    set -- ${bucket:+--root="$bucket"} "$@" ;;
esac
case $verb in
  watch)
    check_type
    if has_hosts; then
      [ -n "$bucket" ] || die "--type=$type has several hosts, which need \
--bucket=gs://BUCKET/FOLDER for what they share"
    elif [ -z "$bucket" ]; then
      echo 'note: without --bucket a preemption takes the workdirs with it' >&2
    fi
    if [ -n "$dry_run" ]; then show_watch "$@"; else watch "$@"; fi ;;
  create)
    check_type
    create ;;
  run) hosts run "$@" ;;
  stop) hosts stop ;;
  tail) on "$worker" 'bash neg_contrast/launch/tpu/worker.sh tail' ;;
  ssh) on "$worker" "cd neg_contrast && $(quote "$@")" ;;
  state)
    queue_state
    tpu_state
    hosts state ;;
  *) "$verb" ;;
esac

#!/usr/bin/env bash
# Runs a config on a TPU slice of Google Kubernetes Engine, for what the Cloud
# TPU API does not serve, such as TPU7x. launch/tpu/README.md is the guide.
# Needs gcloud, docker and uv; uvx gets xpk, whose pins don't meet ours.
#
#   bash launch/tpu/gke.sh VERB --cluster=C --zone=ZONE [OPTIONS] [-- FLAGS]
#
# Verbs:
#   cluster  makes a cluster of one slice, or changes it
#   image    builds the image of a git revision, and pushes it
#   run      starts `python -m neg_contrast.main FLAGS` on all hosts of the slice;
#            Kubernetes starts it again after preemptions
#   wait     until the run has ended; its exit status is that of xpk
#   state    of the runs
#   log      the last lines of a run, of all hosts
#   stop     ends a run
#   delete   gives the cluster back
#
# Options:
#   --type=TYPE      accelerator type, as tpu7x-8 (cluster, run)
#   --spot           cheaper, and can be preempted (cluster)
#   --reservation=R  takes the slice from a reservation (cluster)
#   --name=NAME      of the run (run, wait, log, stop)
#   --image=IMAGE    as europe-docker.pkg.dev/PROJECT/REPO/nc (image, run)
#   --bucket=gs://B/DIR  takes the place of workdirs/ (run)
#   --restarts=N     after preemptions and kills (run); 50
#   --revision=REV   git revision, the tag of the image (image, run); HEAD
#   --project=ID     of Google Cloud; the one that gcloud is set to
#   --dry-run        prints the commands and runs none

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# shellcheck source=launch/commands.sh
source launch/commands.sh

xpk() {  # xpk NOUN VERB FLAGS: this version; others may have other flags.
  call uvx xpk@1.16.0 "$@" --cluster="$cluster" "${where[@]}"
}

cluster() {  # --num-slices more than one would be another program.
  local kind=(--on-demand)
  [ -z "$spot" ] || kind=(--spot)
  [ -z "$reservation" ] || kind=(--reservation="$reservation")
  xpk cluster create --tpu-type="$type" --num-slices=1 "${kind[@]}"
}

image() {  # Of the revision; what is not committed stays behind.
  if [ -n "$dry_run" ]; then
    echo "$(quote "${archive[@]}") | $(quote "${build[@]}")"
  else
    "${archive[@]}" | "${build[@]}"
  fi
  call docker push "$image:$commit"
}

# Every host runs the command. Exit status 2, a mistake, ends the run; 127 and
# above starts it again. JAX would find the first host by itself, and listen there
# at all addresses; it listens at one that it is given alone.
run() {
  # shellcheck disable=SC2016  # The shell of the pod puts it in.
  local first='env ${TPU_WORKER_HOSTNAMES:+JAX_COORDINATOR_ADDRESS='
  # shellcheck disable=SC2016
  first+='"${TPU_WORKER_HOSTNAMES%%,*}:8482"}'
  xpk workload create --workload="$name" --tpu-type="$type" --num-slices=1 \
    --docker-image="$image:$commit" --max-restarts="$restarts" \
    --command="$first python -m neg_contrast.main $(quote --root="$bucket" "$@")"
}

log() {
  call gcloud logging read "resource.type=\"k8s_container\" AND \
resource.labels.cluster_name=\"$cluster\" AND \
labels.\"k8s-pod/jobset_sigs_k8s_io/jobset-name\"=\"$name\"" \
    --limit=200 --order=desc ${project:+--project="$project"} \
    --format='value(timestamp,resource.labels.pod_name,textPayload)'
}

[ $# -gt 0 ] || set -- --help
verb=$1
shift
cluster='' zone='' type='' spot='' reservation='' name='' image='' bucket=''
restarts=50 revision=HEAD project='' dry_run=''
read_options "cluster zone type reservation name image bucket restarts \
revision project" spot "$@"
shift "$taken"
if [ "$verb" = --help ]; then
  usage launch/tpu/gke.sh
  exit
fi
case $verb in
  cluster | image | run | wait | state | log | stop | delete) ;;
  *) die "unknown verb $verb; bash launch/tpu/gke.sh --help lists them" ;;
esac
if [ "$verb" != image ]; then
  check_name --cluster "$cluster"
  check --zone "$zone" '[a-z][a-z0-9-]*' 'us-central1-c'
fi
[ -z "$project" ] ||
  check --project "$project" '[a-z][a-z0-9.:-]*' 'my-project'
where=(--zone="$zone" ${project:+--project="$project"})
case $verb in
  run | wait | log | stop) check_name --name "$name" ;;
esac
case $verb in
  cluster | run)
    check --type "$type" \
      '(tpu7x|v6e|v5p|v5litepod)-[1-9][0-9]*(x[1-9][0-9]*){0,2}' \
      'tpu7x-8, tpu7x-2x2x1 or v6e-4' ;;
esac
case $verb in
  image | run)
    check --image "$image" '[a-z0-9.-]+(/[a-z0-9._:-]+)+' \
      'europe-docker.pkg.dev/my-project/images/nc'
    [[ $image != *..* ]] || die "--image=$image: .. names no image"
    commit=$(commit_of "$revision")
    archive=(git archive --format=tar "$commit")
    build=(docker build --file=launch/Dockerfile --build-arg=EXTRA=tpu
           --tag="$image:$commit" -) ;;
esac
case $verb in
  run)
    check_words run nq_stage2 "$@"
    shift
    check_flags "$@"
    [ -n "$bucket" ] || die 'run: needs --bucket=gs://BUCKET/FOLDER; pods \
keep nothing'
    check_bucket "$bucket"
    check --restarts "$restarts" '[0-9]+' '50'
    # xpk puts the command into one line of a yaml file.
    [[ "$*" != *$'\n'* ]] || die 'run: a flag holds a line break' ;;
  *) [ $# -eq 0 ] || die "$verb takes no flags of neg_contrast.main" ;;
esac
[ -z "$reservation" ] ||
  check --reservation "$reservation" '[A-Za-z0-9][A-Za-z0-9_/-]*' 'my-tpus'
case $verb in
  run) run "$@" ;;
  wait) xpk workload list --wait-for-job-completion="$name" ;;
  state) xpk workload list ;;
  stop) xpk workload delete --workload="$name" --force ;;
  delete) xpk cluster delete ;;
  *) "$verb" ;;
esac

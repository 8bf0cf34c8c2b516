#!/usr/bin/env bash
# Runs a config on one GPU that SkyPilot finds, and again after preemptions.
# Needs uv and an account that `sky check` accepts; launch/README.md is the guide.
#
#   bash launch/sky.sh VERB [--name=NAME] [OPTIONS] [-- FLAGS]
#
# Verbs:
#   run    starts `python -m neg_contrast.main FLAGS`, see launch/gpu.yaml
#   state  of all runs
#   log    follows the log of a run
#   stop   ends a run
#
# Options:
#   --name=NAME      of the run (run, log, stop)
#   --bucket=gs://B/DIR  takes the place of workdirs/ (run)
#   --gpu=GPU        as H100:1 (run); the cheapest of the list in gpu.yaml
#   --on-demand      not a spot machine (run)
#   --dry-run        prints the commands and runs none

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# shellcheck source=launch/commands.sh
source launch/commands.sh

sky() {  # This version; others may have other flags.
  call uvx --from='skypilot[gcp]==0.14.1' sky jobs "$@"
}

[ $# -gt 0 ] || set -- --help
verb=$1
shift
name='' bucket='' gpu='' on_demand='' dry_run=''
read_options 'name bucket gpu' on-demand "$@"
shift "$taken"
case $verb in
  run)
    check_words run quickstart "$@"
    shift
    check_flags "$@"
    check_name --name "$name"
    [ -n "$bucket" ] || die 'run: needs --bucket=gs://BUCKET/FOLDER; the \
machine keeps nothing'
    check_bucket "$bucket"
    [ -z "$gpu" ] || check --gpu "$gpu" '[A-Z][A-Za-z0-9-]*(:1)?' 'H100:1'
    sky launch launch/gpu.yaml --name="$name" --yes --detach-run \
      ${gpu:+--gpus="$gpu"} ${on_demand:+--no-use-spot} \
      --env=ROOT="$bucket" --env=FLAGS="$(quote "$@")" ;;
  state) sky queue ;;
  log)
    check_name --name "$name"
    sky logs --name="$name" ;;
  stop)
    check_name --name "$name"
    sky cancel --name="$name" --yes ;;
  --help) usage launch/sky.sh ;;
  *) die "unknown verb $verb; bash launch/sky.sh --help lists them" ;;
esac

# shellcheck shell=bash
# Sourced by the launchers: how they read options, and refuse, print and run
# commands. They set dry_run: empty runs commands, anything else prints them.

die() {
  echo "error: $*" >&2
  exit 2
}

quote() {  # Words, so that a shell reads them back as they are.
  local word out='' mark="'" escaped="'\\''"
  for word in "$@"; do
    case $word in
      '' | *[!A-Za-z0-9_./:=,@%+-]*) word="'${word//$mark/$escaped}'" ;;
    esac
    out+=" $word"
  done
  printf '%s' "${out# }"
}

call() {  # Runs a command; with --dry-run prints it.
  if [ -n "${dry_run-}" ]; then
    quote "$@"
    echo
  else
    "$@"
  fi
}

check_gone() {  # check_gone OPTION INSTEAD WORD...: refuses an old option.
  local option=$1 instead=$2 word
  shift 2
  for word in "$@"; do
    case $word in
      --) return ;;
      --"$option" | --"$option"=*) die "$word: is gone; use $instead" ;;
    esac
  done
}

# read_options NAMES SWITCHES WORD...: reads words up to the first `--`, sets the
# variable NAME for --NAME=VALUE and SWITCH=1 for --SWITCH (`_` for `-`), and
# `taken` to their number.
read_options() {
  local names=" $1 " switches=" $2 dry-run " word option known value
  shift 2
  # shellcheck disable=SC2034  # The launchers shift by it.
  taken=0
  for word in "$@"; do
    [ "$word" != -- ] || return 0
    option=${word#--}
    option=${option%%=*}
    case $word in
      --*=*) known=$names value=${word#*=} ;;
      --*) known=$switches value=1 ;;
      *) known='' value='' ;;
    esac
    [[ $option != *' '* && $known == *" $option "* ]] ||
      die "unknown option $word; flags of neg_contrast.main come after --"
    printf -v "${option//-/_}" %s "$value"
    taken=$((taken + 1))
  done
}

check() {  # check OPTION VALUE PATTERN EXAMPLE: refuses other values.
  local pattern="^($3)\$"
  [[ $2 != *$'\n'* && $2 =~ $pattern ]] ||
    die "$1=$2: does not look like $4"
}

check_name() {  # check_name OPTION VALUE: of Google Cloud and Kubernetes.
  check "$1" "$2" '[a-z]([-a-z0-9]{0,38}[a-z0-9])?' \
    'nc-1 (at most 40 small letters, digits and -, a letter first)'
}

check_bucket() {  # check_bucket VALUE: a place in Cloud Storage, or nothing.
  [ -z "$1" ] || {
    check --bucket "$1" \
      'gs://[a-z0-9][a-z0-9._-]{1,61}[a-z0-9](/[A-Za-z0-9_=.-]+)*/?' \
      'gs://BUCKET/FOLDER'
    [[ $1/ != */../* && $1/ != */./* ]] ||
      die "--bucket=$1: . and .. name no folder in a bucket"
  }
}

check_words() {  # check_words VERB CONFIG WORD...: `--` and more, as flags are.
  [ "${3-}" = -- ] && [ $# -gt 3 ] ||
    die "$1: needs -- and then flags, such as -- --config=configs/$2.py"
}

check_flags() {  # check_flags FLAGS: those of neg_contrast.main.
  local flag
  for flag in "$@"; do
    case $flag in
      --root | --root=*) die "$flag: --bucket sets it" ;;
    esac
  done
}

commit_of() {  # A revision that moves would change the code during a run.
  git rev-parse --verify --quiet --end-of-options "$1^{commit}" ||
    die "--revision=$1: no such revision here"
}

usage() {  # usage SCRIPT: the comment at its head.
  sed -n '2,/^$/s/^# \{0,1\}//p' "$1"
}

#!/usr/bin/env bash
# Builds wheel and sdist into dist/ and uses them as a user would: without extras and with each extra, every time in an
# empty environment and outside this clone. What is used is in scripts/smoke.py.
#
#   scripts/release_check.sh              everything, before a release: each extra on the oldest Python of this machine,
#                                         a sample of them on each newer one
#   scripts/release_check.sh --quick      the share of it that .ci/run has time for, on the oldest and the newest Python
#   scripts/release_check.sh NAME...      only these extras, on each Python
#   scripts/release_check.sh --python 3.13 [NAME...]     only on this Python, also several times: --python 3.12 --python 3.13
#
# A Python is a python3.N in PATH, or one that pyenv has installed. The extras `sql` and `cockroachdb` need the
# PostgreSQL of the tests: see CONTRIBUTING.md.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PYTHONUNBUFFERED=1

clone=$PWD
largest_wheel=2750000 # bytes: 1.74 MB are vocabularies, 0.9 MB code and its words
sample=(cli openai sql crypto mcp langchain)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# The command of each Python that the package supports and that can make environments, from the oldest on.
interpreters() {
  local minor candidate
  for minor in {11..19}; do
    for candidate in "python3.$minor" python3 "${PYENV_ROOT:-$HOME/.pyenv}/versions/3.$minor".*/bin/python; do
      # Within pyenv a python3.N may be there and refuse to start.
      if "$candidate" -c "import ensurepip, sys, venv; sys.exit(sys.version_info[:2] != (3, $minor))" 2>/dev/null; then
        echo "$candidate"
        break
      fi
    done
  done
}

all_extras() {
  "$oldest" -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"], sep="\n")'
}

build() {
  "$oldest" -m venv "$scratch/tools"
  "$scratch/tools/bin/python" -m pip install -q build
  rm -rf dist
  "$scratch/tools/bin/python" -m build --outdir dist . >"$scratch/build.log" 2>&1 || { cat "$scratch/build.log"; return 1; }
  wheel=$(compgen -G "$clone/dist/*.whl")
  sdist=$(compgen -G "$clone/dist/*.tar.gz")
  wc -c "$wheel" "$sdist"
  if [[ $(wc -c <"$wheel") -gt $largest_wheel ]]; then
    echo "the wheel is larger than $largest_wheel bytes" >&2
    return 1
  fi
}

# The package index takes both. The sdist is what git tracks, the wheel the package: no file forgotten, none too many.
contents() {
  "$scratch/tools/bin/python" -m pip install -q twine
  "$scratch/tools/bin/python" -m twine check --strict dist/*
  diff <(git ls-files | sort) <(tar -tzf "$sdist" | cut -d/ -f2- | grep -vx PKG-INFO | sort)
  diff <(git ls-files autocontext | sort) <("$oldest" -m zipfile -l "$wheel" | grep -o '^autocontext/[^ ]*' | sort)
}

# Uses a wheel or an sdist on a Python, with an extra if one is given.
use() {
  local python=$1 artefact=$2 extra=${3:-} environment=$scratch/environment
  echo "$("$python" --version): ${artefact##*/}${extra:+[$extra]} (${SECONDS}s)"
  rm -rf "$environment"
  # Nothing in it, not even pip: what the package needs it must name.
  "$python" -m venv --without-pip "$environment"
  "$scratch/tools/bin/python" -m pip --python "$environment/bin/python" install -q "$artefact${extra:+[$extra]}"
  (cd "$scratch" && "$environment/bin/python" -W error "$clone/scripts/smoke.py" "$extra")
}

use_each() {
  local python=$1 extra
  shift
  use "$python" "$wheel"
  for extra in "$@"; do use "$python" "$wheel" "$extra"; done
}

pythons=() names=() quick=false
while [[ $# -gt 0 ]]; do
  case "$1" in
    --quick) quick=true ;;
    --python)
      found=$(interpreters | while read -r python; do
        if [[ "$("$python" --version)" == "Python ${2:?--python needs a version: 3.13}."* ]]; then echo "$python"; fi
      done)
      pythons+=("${found:?there is no Python $2 that can make environments}")
      shift
      ;;
    -*) sed -n '2,/^set /{/^#/p}' "$0" >&2; exit 2 ;;
    *) names+=("$1") ;;
  esac
  shift
done
if [[ ${#pythons[@]} -eq 0 ]]; then mapfile -t pythons < <(interpreters); fi
oldest=${pythons[0]:?there is no Python 3.11 or newer that can make environments}
newer=("${pythons[@]:1}")

build
use "$oldest" "$sdist"
if $quick; then
  use_each "$oldest" cli pydantic-ai agent-framework # small ones
  if [[ ${#newer[@]} -gt 0 ]]; then use "${newer[-1]}" "$wheel"; fi
elif [[ ${#names[@]} -gt 0 ]]; then
  for python in "${pythons[@]}"; do use_each "$python" "${names[@]}"; done
else
  contents
  mapfile -t extras < <(all_extras)
  use_each "$oldest" "${extras[@]}"
  for python in "${newer[@]}"; do use_each "$python" "${sample[@]}"; done
fi
echo "all of it works (${SECONDS}s)"

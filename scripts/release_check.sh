#!/usr/bin/env bash
# Builds wheel and sdist into dist/ and uses them as a user would: without extras and with each extra, every time in an
# empty environment and outside this clone. What is used is in scripts/smoke.py.
#
#   scripts/release_check.sh          everything, before a release
#   scripts/release_check.sh --quick  the share of it that .ci/run has time for
#   scripts/release_check.sh NAME...  of the extras only these
#
# The extra `sql` needs the PostgreSQL of the tests: see CONTRIBUTING.md.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PYTHONUNBUFFERED=1

clone=$PWD
largest_wheel=2500000 # bytes
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

all_extras() {
  python3 -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"], sep="\n")'
}

build() {
  python3 -m venv "$scratch/tools"
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
  diff <(git ls-files autocontext | sort) <(python3 -m zipfile -l "$wheel" | grep -o '^autocontext/[^ ]*' | sort)
}

# Uses a wheel or an sdist, with an extra if one is given.
use() {
  local artefact=$1 extra=${2:-} environment=$scratch/environment
  echo "${artefact##*/}${extra:+[$extra]} (${SECONDS}s)"
  rm -rf "$environment"
  # Nothing in it, not even pip: what the package needs it must name.
  python3 -m venv --without-pip "$environment"
  "$scratch/tools/bin/python" -m pip --python "$environment/bin/python" install -q "$artefact${extra:+[$extra]}"
  (cd "$scratch" && "$environment/bin/python" -W error "$clone/scripts/smoke.py" "$extra")
}

case "${1:-}" in
  "") mapfile -t extras < <(all_extras) ;;
  --quick) extras=(cli pydantic-ai agent-framework) ;; # small ones
  *) extras=("$@") ;;
esac
build
if [[ $# -eq 0 ]]; then contents; fi
use "$sdist"
use "$wheel"
for extra in "${extras[@]}"; do use "$wheel" "$extra"; done
echo "all of it works (${SECONDS}s)"

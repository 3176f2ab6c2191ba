#!/usr/bin/env bash
# Makes the environments in which the adapters meet their frameworks, and runs the adapters' tests, examples and pages of
# the documentation there.
#
#   scripts/adapter_environments.sh              all environments
#   scripts/adapter_environments.sh main         one of them
#   scripts/adapter_environments.sh --make main  makes it, runs nothing
#   scripts/adapter_environments.sh --examples   names the examples that need one of them, makes and runs nothing
#
# An environment is kept in .venv-adapters/NAME and made anew when its list of packages has changed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PYTHONUNBUFFERED=1

tests=(pytest hypothesis)
declare -A packages=(
  # One environment for all that can live together; mcp 2 has one of its own.
  [main]="agentscope>=2,<3 openai-agents>=0.24 langchain>=1,<2 langchain-openai>=1,<2 langgraph-checkpoint-sqlite
          anthropic
          pydantic-ai-slim[openai]>=2,<3 agent-framework-core>=1,<2 agent-framework-openai>=1,<2 mcp<2"
  # As published, agentscope 1.0.21 no longer starts: it needs older mcp and openai, and two packages it does not name.
  [agentscope1]="agentscope==1.0.21 mcp<2 openai<3 greenlet tqdm"
  [mcp2]="mcp>=2,<3"
)

make_environment() {
  local name=$1 home=.venv-adapters/$1 wanted
  wanted="$(tr -s ' \n' ' ' <<<"${packages[$name]}") ${tests[*]}"
  if [[ "$(cat "$home/packages.txt" 2>/dev/null)" != "$wanted" ]]; then
    rm -rf "$home"
    python3 -m venv "$home"
    # Unquoted: a list of requirements.
    # shellcheck disable=SC2086
    (set -f; "$home/bin/python" -m pip install -q -e . $wanted)
    printf '%s' "$wanted" >"$home/packages.txt"
  fi
  echo "$name: $("$home/bin/python" -m pip list --format=freeze | grep -ciE '.') packages"
}

# What tests/adapters/frameworks/environments.py names: $1 is ENVIRONMENTS or EXAMPLES, $2 the folder, $3 an environment.
files_of() {
  python3 - "$@" <<'PY'
import runpy, sys
table, folder, *names = sys.argv[1:]
found = runpy.run_path("tests/adapters/frameworks/environments.py")[table]
for name in names or found:
    for file in found[name]:
        print(f"{folder}/{file}")
PY
}

run_tests() {
  local name=$1 files example
  mapfile -t files < <(files_of ENVIRONMENTS tests/adapters/frameworks "$name")
  if [[ ${#files[@]} -eq 0 ]]; then
    echo "$name: no tests" >&2
    return 1
  fi
  ".venv-adapters/$name/bin/python" -m pytest -q -p no:cacheprovider "${files[@]}"
  while read -r example; do
    echo "$example"
    ".venv-adapters/$name/bin/python" -W error "$example"
  done < <(files_of EXAMPLES examples "$name")
  mapfile -t files < <(grep -l "^<!-- environment: $name -->" docs/*.md || true)
  if [[ ${#files[@]} -gt 0 ]]; then
    ".venv-adapters/$name/bin/python" scripts/run_doc_blocks.py "${files[@]}"
  fi
}

if [[ "${1:-}" == --examples ]]; then
  files_of EXAMPLES examples
  exit
fi
only_make=false
if [[ "${1:-}" == --make ]]; then only_make=true; shift; fi
names=("$@")
if [[ ${#names[@]} -eq 0 ]]; then names=(main agentscope1 mcp2); fi
for name in "${names[@]}"; do
  [[ -n "${packages[$name]:-}" ]] || { echo "no such environment: $name (there are ${!packages[*]})" >&2; exit 2; }
  make_environment "$name"
  $only_make || run_tests "$name"
done

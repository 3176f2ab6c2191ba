"""Where the agent is, and what it has started and was not seen to end: in the note, as long as no message shows it."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory, Msg
from autocontext.messages import ToolResultBlock, ToolUseBlock, is_note
from autocontext.notes.page import PageRequest, render
from autocontext.notes.standing import instructions_read, running, where
from autocontext.notes.work import WorkLedger
from autocontext.testing import tool_exchange, user
from autocontext.tokens import get_counter

COUNT = get_counter("bytes4").count_text


def ledger(*calls: tuple[str, dict[str, Any], str]) -> WorkLedger:
    facts = WorkLedger(sources=AutoContextConfig().instruction_sources)
    for call in calls:
        for message in tool_exchange(*call):
            facts.append(message)
    return facts


def shell(command: str, answer: str = "", **more: Any) -> tuple[str, dict[str, Any], str]:
    return "bash", {"command": command, **more}, answer


def places(*commands: str) -> list[str]:
    return [words for _, words in where(ledger(*map(shell, commands)).calls)]


def started(*calls: tuple[str, dict[str, Any], str]) -> list[str]:
    return [call.label for call in running(ledger(*calls))]


# --------------------------------------------------------------------------------------------------- where the agent is
@pytest.mark.parametrize(
    ("commands", "shown"),
    [
        (["cd /srv/app && pytest -q", "ls"], ["cd /srv/app"]),
        (["cd /srv/app", "cd /home/me"], ["cd /home/me"]),
        (["cd /srv/app", "cd src", "cd ../docs"], ["cd /srv/app", "cd src", "cd ../docs"]),
        (["cd /srv", 'cd "$WORK"'], ['cd "$WORK"']),
        (["git checkout -b feat/queue-7714"], ["git checkout -b feat/queue-7714"]),
        (["git switch main", "git -C /srv checkout -b weiter"], ["git -C /srv checkout -b weiter"]),
        (["git worktree add ../fix-12 main"], ["git worktree add ../fix-12 main"]),
        (["source .venv/bin/activate", "conda activate physik"], ["conda activate physik"]),
        (["ssh -p 2222 root@db-1"], ["ssh -p 2222 root@db-1"]),
        (["kubectl config use-context staging"], ["kubectl config use-context staging"]),
        (["nvm use 20; npm ci"], ["nvm use 20"]),
        (['smbclient //srv/share -U ada -c "cd ../up; ls; cd down"', "ssh host 'cd /x && ls'"], []),
        (['cd "/srv/my app"; echo "don\'t; cd /etc"'], ['cd "/srv/my app"']),
        (["grep -rn 'cd /etc' .", "git checkout src/app.py", "git checkout -- .", "ssh host uptime", "cd -"], []),
    ],
)
def test_commands_that_move_the_agent_are_quoted(commands: list[str], shown: list[str]) -> None:
    assert places(*commands) == shown


def test_pages_and_databases_are_places_too() -> None:
    calls = ledger(
        ("browser_navigate", {"url": "https://shop.example/cart"}, "Cart"),
        ("run_sql", {"query": "USE kunden"}, "Database changed"),
        ("browser_click", {"url": "https://shop.example/pay"}, "Paid"),
    ).calls
    assert [words for _, words in where(calls)] == ["https://shop.example/cart", "USE kunden"]


def test_a_move_that_was_refused_is_none() -> None:
    refused = ToolResultBlock(id="a", output="cd: /nowhere: No such file or directory", is_error=True)
    call = ToolUseBlock(id="a", name="bash", input={"command": "cd /nowhere"})
    messages = [Msg(role="assistant", content=[call]), Msg(role="tool", content=[refused])]
    assert where(WorkLedger.of(messages).calls) == []


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("cd /nope", "bash: cd: /nope: No such file or directory"),
        ("cd /nope && git checkout -b x2", "bash: cd: /nope: No such file or directory"),
        ('cd "$WORK/a b"', "bash: cd: /srv/nope/a b: No such file or directory"),
        ("cd 'a b'", "-bash: cd: a b: Not a directory"),
        ("cd /nope && ls", "/bin/sh: 1: cd: can't cd to /nope"),
        ("cd /nope", "zsh: cd:1: no such file or directory: /nope"),
        ("pushd /nope", "bash: line 3: pushd: /nope: No such file or directory"),
        ("cd /nope", "cd : Cannot find path '/nope' because it does not exist."),
        (
            "git checkout main",
            "error: Your local changes to the following files would be overwritten:\n\ta.py\nAborting",
        ),
        ("git switch zz9", "fatal: invalid reference: zz9"),
        ("git checkout setup", "Updated 1 path from the index"),
        ("git worktree add ../x main", "Preparing worktree\nfatal: 'main' is already checked out at '/srv/two'"),
        ("source venv/bin/activate", "bash: venv/bin/activate: No such file or directory"),
        ("conda activate physik", "EnvironmentNameNotFound: Could not find conda environment: physik"),
        ("pyenv shell 3.12", "sh: 1: pyenv: not found"),
        ("ssh deploy@db9", "ssh: connect to host db9 port 22: Connection refused"),
        ("ssh deploy@db9", "deploy@db9: Permission denied (publickey)."),
        ("ssh deploy@db9", "Host key verification failed."),
        ("kubectl config use-context stage", 'error: no context exists with the name: "stage"'),
        ("USE kunden", "ERROR 1049 (42000): Unknown database 'kunden'"),
    ],
)
def test_a_move_that_only_its_answer_refuses_is_none(command: str, answer: str) -> None:
    before = ("cd /srv/two", "git checkout -b feat/x1")
    assert places(*before) == [*before]
    calls = ledger(*map(shell, before), shell(command, answer)).calls
    assert [words for _, words in where(calls)] == [*before]


@pytest.mark.parametrize(
    ("command", "answer", "shown"),
    [
        ("cd /srv/five && make", "error: main.c has no main", "cd /srv/five"),
        ("cd /srv/five && make", "/bin/sh: 1: cd: can't cd to /srv/five/build", "cd /srv/five"),
        ("cd /srv/five; cd /nope", "bash: cd: /nope: No such file or directory", "cd /srv/five"),
        ("git checkout -b x && make", "Switched to a new branch 'x'\nerror: main.c has no main", "git checkout -b x"),
        ("cd /srv/five && cat log", "12:01 bash: cd: /nope: No such file or directory", "cd /srv/five"),
        ("ssh deploy@db9", "Last login: Mon\nPermission denied (publickey)", "ssh deploy@db9"),
    ],
)
def test_what_another_command_says_is_no_refusal(command: str, answer: str, shown: str) -> None:
    assert [words for _, words in where(ledger(shell(command, answer)).calls)] == [shown]


SSH, CLOSED = shell("ssh deploy@web-3", "Welcome"), "logout\nConnection to web-3 closed."
BRANCH = shell("git checkout main", "Switched to branch 'main'")


@pytest.mark.parametrize(
    ("steps", "shown"),
    [
        # Where these lead, their words do not say.
        ([shell("cd /srv/app"), shell("cd -", "/srv")], []),
        ([shell("cd /srv/app"), shell("make && popd")], []),
        ([shell("cd /srv/app"), shell("cd")], []),
        ([BRANCH, shell("git switch -", "Switched to branch 'feat/q'")], []),
        ([BRANCH, shell("git checkout -q --detach")], []),
        ([shell("source .venv/bin/activate"), shell("deactivate")], []),
        ([shell("conda activate physik"), shell("conda deactivate")], []),
        # Only the answer tells.
        ([BRANCH, shell("gh pr checkout 77", "Switched to branch 'fix/77'")], []),
        ([BRANCH, ("git_checkout", {"branch_name": "fix/77"}, "Switched to branch 'fix/77'")], []),
        ([BRANCH, shell("./release.sh", f"{'built' * 900}\nSwitched to a new branch 'v2'")], []),
        ([SSH, shell("uptime", "client_loop: send disconnect\nConnection to web-3 closed.")], []),
        # What was entered on a host is left with it.
        ([shell("cd /srv"), SSH, shell("use shop"), shell("exit", CLOSED)], ["cd /srv"]),
        ([shell("cd /srv && ssh deploy@web-3"), shell("use shop"), shell("exit")], ["cd /srv"]),
        ([shell("cd /srv"), SSH, shell("cd /etc"), ("send_keys", {"keys": "exit\n"}, CLOSED)], []),
        # Something else in the line went wrong: the agent may have moved or not.
        ([shell("cd /srv/a"), shell("cd /srv/b && make", "2 errors\nexit code: 2")], []),
    ],
)
def test_what_may_have_left_a_place_ends_it(steps: list[Any], shown: list[str]) -> None:
    assert [words for _, words in where(ledger(*steps).calls)] == shown


@pytest.mark.parametrize(
    "steps",
    [
        [shell("cd /srv/app"), shell("cd -", "bash: cd: OLDPWD not set")],
        [shell("cd /srv/app"), shell("popd", "bash: popd: directory stack empty")],
        [shell("cd /srv/app"), shell("cd /srv/app && make", "2 errors\nexit code: 2")],
        [shell("cd /srv/app"), shell("cd /nope", "The system cannot find the path specified.\nexit code: 1")],
        [shell("cd /srv/app; ./b.sh; cd nope", "./b.sh: line 2: cd: x: No such file\nbash: cd: nope: No such file")],
        [shell("cd /srv/app"), shell("cd-hit -i a.fa")],
        [shell("cd /srv/app"), ("grep", {"pattern": "logout"}, "a.py: logout()")],
        [shell("cd /srv/app"), ("search", {"query": "cd"}, "a.py: cd()")],
        [shell("cd /srv/app || exit 1"), shell("cat > run.sh <<E\nmake\nexit 1\nE")],
        [shell("cd /srv/app; ls; cd nope", f"{'a.py ' * 900}\nbash: line 1: cd: nope: No such file or directory")],
        [BRANCH, shell("git switch -", "error: Your local changes to the following files would be overwritten:")],
        [BRANCH, shell("git checkout -- src"), shell("git checkout --theirs src"), shell("git pull", "Updating 1..2")],
        [BRANCH, shell("git checkout main", "Already on 'main'")],
        [shell("source .venv/bin/activate"), shell("conda deactivate", "bash: conda: command not found")],
        [SSH, shell("ssh deploy@web-3", "bash: ssh: command not found\nexit code: 127")],
        [shell("cd /srv/app"), shell("ssh -t db-1 uptime", "up 3 days\nConnection to db-1 closed.")],
    ],
)
def test_what_was_refused_or_moves_nothing_leaves_no_place(steps: list[Any]) -> None:
    first = steps[0][1]["command"]
    assert [words for _, words in where(ledger(*steps).calls)] == [re.split(r" \|\||;", first)[0]]


def test_the_folder_and_the_page_of_a_call_are_places() -> None:
    calls = ledger(
        ("browser", {"action": "goto", "url": "https://shop.example/cart"}, "Cart"),
        ("browser", {"action": "click", "url": "https://shop.example/pay"}, "Paid"),
        ("shell", {"command": ["make"], "workdir": "/srv/six"}, "ok"),
        ("shell", {"command": ["make"], "workdir": "/srv/six"}, "ok"),
    ).calls
    assert [words for _, words in where(calls)] == ["https://shop.example/cart", "workdir /srv/six"]


def test_instructions_stand_with_their_newest_reading_that_went_well() -> None:
    facts = ledger(
        ("Read", {"file_path": "/srv/AGENTS.md"}, "Use tabs."),
        ("Read", {"file_path": "/srv/sub/CLAUDE.md"}, "Use blanks."),
        ("Read", {"file_path": "/srv/AGENTS.md"}, "Use tabs, everywhere."),
        shell("cat /srv/AGENTS.md", "cat: /srv/AGENTS.md: No such file or directory\nexit code: 1"),
    )
    everything = range(len(facts) + 1)
    assert [(call.result, what) for call, what in instructions_read(facts, everything)] == [
        (4, "/srv/sub/CLAUDE.md"),
        (6, "/srv/AGENTS.md"),
    ]
    # The newest one is in view: an older one is not what holds now.
    assert [call.result for call, _ in instructions_read(facts, range(6))] == [4]


# ---------------------------------------------------------------------------------------------------- what was started
SERVER = shell("npm run dev", "Command running in background with ID: bash_3", run_in_background=True)
AGENT = ("Task", {"prompt": "Find all callers", "run_in_background": True}, "Async agent launched. agentId: a7f3c91")
WORKER = shell("python worker.py > worker.log 2>&1 &", "[1] 4821")
IMPORT = ("start_import", {"file": "kunden.csv", "background": "true"}, '{"job": "imp-77", "status": "queued"}')
REINDEX = ("start_job", {"name": "reindex"}, '{"job_id": "job-882", "status": "running"}')


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (SERVER, ("KillShell", {"shell_id": "bash_3"}, "Shell killed")),
        (SERVER, ("BashOutput", {"bash_id": "bash_3"}, "<id>bash_3</id><status>completed</status>")),
        (AGENT, ("TaskOutput", {"agentId": "a7f3c91"}, "agent a7f3c91 finished: 12 callers")),
        (AGENT, ("read_inbox", {}, "Finished: a7f3c91, 12 callers")),
        (WORKER, shell("kill -9 4821")),
        (WORKER, shell("ps -p 4821", "kill: (4821) - No such process")),
        (IMPORT, ("get_job", {"id": "imp-77"}, '{"job": "imp-77", "status": "succeeded", "rows": 8112}')),
        (REINDEX, ("get_job", {"job_id": "job-882"}, '{"job_id": "job-882", "status": "completed"}')),
        (shell("docker run -d --name web nginx", "3f9a1c77d2b1e0"), shell("docker rm -f web")),
        (shell("docker run -d nginx", "3f9a1c77d2b1e0"), shell("cd /srv && docker stop 3f9a1c77")),
        (shell("docker compose -f dev.yml up -d"), shell("docker compose -f dev.yml down -v")),
        (shell("docker-compose up --detach"), shell("docker-compose stop")),
        (shell("tmux new-session -d -s dump 'pg_dump shop'"), shell("tmux kill-session -t dump")),
        (shell("nohup python worker.py > w.log &"), shell("pkill -9 -f worker.py")),
        (shell("npm run dev &"), shell('pkill -f "npm run dev"')),
        (shell("nohup redis-server &", "[2] 4900"), shell("jobs", "[2]+  Terminated  4900  nohup redis-server")),
    ],
)
def test_what_was_started_stands_until_its_end_is_seen(start: Any, end: Any) -> None:
    other = shell("tail worker.log", "3 items in queue")
    assert len(started(other, start, other)) == 1
    assert started(other, start, other, end) == []


@pytest.mark.parametrize(
    "other",
    [
        "docker rm -f webshop",
        "docker stop db",
        "rm w.log",
        "pkill -f work",
        "docker compose -f test.yml down",
        "ls web",
    ],
)
def test_the_end_of_something_else_is_not_its_end(other: str) -> None:
    begun = ("docker run -d --name web nginx", "nohup python worker.py > w.log &", "docker compose -f dev.yml up -d")
    assert started(*map(shell, begun), shell(other)) == [*begun]


CODEX = ("exec_command", {"cmd": "cargo watch"}, "Wall time: 10.0 seconds\nProcess running with session ID 71244\n")
HELPER = (
    "Agent",
    {"prompt": "review"},
    "Async agent launched successfully.\nagentId: ab12cd3\nIt works in the background.",
)
PROCESS = ("start_process", {"command": "python worker.py"}, "Process started with PID 70911 (shell: /bin/sh)")
CRAWLER = ("start_crawl", {"site": "example.org"}, '{"job": "crawl-77", "pages": 0}')
USES = ("read_output", {"process": "crawl-77", "lines": 20}, "3 pages")


@pytest.mark.parametrize("start", [CODEX, HELPER, PROCESS])
def test_an_answer_that_hands_out_what_runs_is_a_start(start: Any) -> None:
    assert len(started(start)) == 1


@pytest.mark.parametrize(
    "answer",
    [
        "The rocket was launched in 2019; see https://example.org/launch-3",
        "Tests started with seed 4821",
        "Order W-12 launched",
    ],
)
def test_other_words_beside_a_number_are_none(answer: str) -> None:
    assert started(("deploy", {"name": "x"}, answer)) == []


def test_a_handle_that_a_later_call_uses_is_of_something_that_goes_on() -> None:
    assert started(CRAWLER) == []
    assert started(CRAWLER, ("search", {"query": "what is crawl-77, please"}, "3 hits")) == []
    assert started(CRAWLER, USES) == ["example.org"]
    assert started(CRAWLER, USES, ("read_output", {"process": "crawl-77"}, "status: completed")) == []
    login, order = ("sign_in", {"as": "ada"}, '{"session_id": "s-901"}'), ("add_item", {"session": "s-901"}, "added")
    assert started(login, order) == ["ada"]
    assert started(login, order, ("log_out", {"session": "s-901"}, "ok")) == []
    used = ("update_ticket", {"id": "T-12"}, "ok")
    assert started(("open_ticket", {"title": "x"}, '{"ticket_id": "T-12"}'), used) == []
    assert started(("create_task", {"title": "x"}, '{"task_id": "T-12"}'), used) == []


BUILD = shell("pytest -q", "Command running in background with ID: bash_31", run_in_background=True)
OTHER_JOB = ("start_job", {"name": "export"}, '{"job_id": "job-8821", "status": "queued"}')
BOTH_JOBS = '[{"job_id": "job-882", "status": "running"}, {"job_id": "job-8821", "status": "completed"}]'
TABLE = "job-882   running\njob-8821  completed"
LOG = "Process running with session ID 71244\nOutput:\n1 build failed, 3 completed"
REFUSED = "bash: kill: (4821) - Operation not permitted\nexit code: 1"


@pytest.mark.parametrize(
    ("start", "other"),
    [
        # The end of what only begins alike.
        (SERVER, [BUILD, ("BashOutput", {"bash_id": "bash_31"}, "<status>completed</status>")]),
        (REINDEX, [OTHER_JOB, ("get_job", {"job_id": "job-8821"}, '{"job_id": "job-8821", "status": "completed"}')]),
        (REINDEX, [OTHER_JOB, ("list_jobs", {}, BOTH_JOBS)]),
        (REINDEX, [OTHER_JOB, ("list_jobs", {}, TABLE)]),
        # What it prints while it runs.
        (SERVER, [("BashOutput", {"bash_id": "bash_3"}, "<status>running</status>\nlast build completed in 2 s")]),
        (SERVER, [("BashOutput", {"bash_id": "bash_3"}, "id: bash_3\nstatus: running\nGET /b 500 request failed")]),
        (REINDEX, [("get_job", {"id": "job-882"}, '{"id": "job-882", "state": "processing", "failed": 0}')]),
        (CODEX, [("write_stdin", {"session_id": 71244, "chars": ""}, LOG)]),
        # A signal that was refused or is none, and words that only begin like one of an end.
        (WORKER, [shell("kill 4821", REFUSED)]),
        (WORKER, [shell("kill 4821", "exit code: 1")]),
        (WORKER, [shell("sudo -n kill 4821; echo", REFUSED)]),
        (WORKER, [shell("kill -0 4821 && echo alive", "alive"), shell("kill -s 0 4821", "")]),
        (
            REINDEX,
            [("download_log", {"job_id": "job-882"}, "12 rows"), shell("curl -s api/endpoint?job=job-882", "{}")],
        ),
        (shell("docker run -d --name web nginx", "3f9a1c77d2b1e0"), [shell("docker stop web", "permission denied")]),
        (shell("nohup python worker.py &", ""), [shell("pkill -0 -f worker.py", "")]),
    ],
)
def test_what_is_not_its_end(start: Any, other: list[Any]) -> None:
    assert started(start)[0] in started(start, *other)


DEV, SLOW = shell("npm run dev &", "[1] 4412"), shell("nohup ./slow.sh &", "[1] 4412\nnohup: ignoring input")


@pytest.mark.parametrize(
    "calls",
    [
        [DEV, shell("kill %1", "")],
        [DEV, shell("kill -9 %1; npm test", "1 failed\nexit code: 1")],
        [DEV, shell("wait %1", "exit code: 1")],
        [DEV, shell("ls", "a.js\n[1]+  Exit 1                  npm run dev")],
        [DEV, shell("jobs", "[1]+  Fertig                  npm run dev")],
        [DEV, shell("ls", "[1]  + 4412 terminated  npm run dev")],
        [SLOW, shell("wait")],
        [SLOW, shell("make; wait %1", "exit code: 1")],
        [SLOW, shell("sleep 5\nkill %1; ./slow.sh &", "[1] 5001"), shell("wait")],
        [shell("npm run dev &", "[1] 4412\nError: address already in use\n[1]+  Exit 1                  npm run dev")],
    ],
)
def test_a_job_of_a_shell_stands_until_its_end_is_seen(calls: list[Any]) -> None:
    assert started(*calls) == []


@pytest.mark.parametrize(
    "calls",
    [
        [DEV, shell("jobs", "[1]+  Running                 npm run dev &")],
        [DEV, shell("jobs", "[1]+  Läuft                   npm run dev &")],
        [DEV, shell("jobs", "[1]  + running    npm run dev")],
        [DEV, shell("fgrep x a; jobs", "[1]+  Stopped                 npm run dev")],
        [DEV, shell("kill %2", ""), shell("ls", "[2]-  Done                    make")],
        [DEV, shell("kill %12", "")],
        [DEV, shell("kill -0 %1", "")],
        [DEV, ("computer", {"action": "wait"}, "ok")],
        [DEV, shell("kill %1", "bash: kill: (4412) - Operation not permitted")],
        # Another shell's job has that number, too.
        [DEV, shell("sleep 1 &\nwait", "[1] 5001\n[1]+  Done                    sleep 1")],
        [shell("npm run dev &", "[1]+  Done                    make\n[1] 4412")],
        [DEV, ("fetch", {"url": "https://x/paper"}, "[1] Smith et al., 2019\n[1]: https://x")],
        [DEV, ("fetch", {"url": "https://x/paper"}, "[1] - Smith 2020, Locks\n[2] - Li 2021")],
    ],
)
def test_a_job_that_may_still_run_stands(calls: list[Any]) -> None:
    assert started(*calls) == ["npm run dev &"]


def test_a_command_on_another_host_leaves_no_host() -> None:
    once = shell("ssh -t db-1 uptime", "up 3 days\nConnection to db-1 closed.")
    steps = ledger(shell("ssh deploy@web-3", "Welcome"), once)
    assert [words for _, words in where(steps.calls)] == ["ssh deploy@web-3"]


def test_a_kill_in_a_line_that_fails_later_has_killed() -> None:
    assert started(WORKER, shell("kill 4821; make test", "2 failed\nexit code: 2")) == []
    assert started(SERVER, ("KillShell", {"shell_id": "bash_3"}, "Error: no shell found with ID bash_3")) == []


@pytest.mark.parametrize(
    "call",
    [
        shell("make && make test", "ok"),
        shell("pytest 2>&1 | tail", "3 passed"),
        shell("sleep 1", "", run_in_background=False),
        ("search", {"query": "how to run nohup python &"}, "12 hits"),
        ("get_job", {"name": "reindex"}, '{"job_id": "job-882", "status": "running"}'),  # it only looks
        ("update_ticket", {"ticket_id": "T-12"}, '{"ticket_id": "T-12", "status": "in progress"}'),
        ("create_order", {"sku": "lamp-7"}, '{"order_id": "W-12", "status": "pending"}'),
    ],
)
def test_what_ends_with_its_answer_is_not_running(call: Any) -> None:
    assert started(call) == []


def test_a_start_that_failed_runs_not() -> None:
    assert started(shell("docker run -d nginx", "docker: no such image\nexit code: 125")) == []


LAUNCHED = (
    "Async agent launched successfully.\n"
    "agentId: a7f31c9 (internal ID - do not mention to user. Use it to resume this agent when it has finished.)\n"
    "The agent is working in the background. You will be notified automatically when it completes."
)
JOB = '{"message": "The reindexing of all products was accepted", "job": {"job_id": "job-882", "status": "running"}}'


@pytest.mark.parametrize(("answer", "handle"), [(LAUNCHED, "agentId: a7f31c9"), (JOB, '"job_id": "job-882"')])
@pytest.mark.parametrize("room", [60, 120, 500])
def test_what_was_started_stands_with_its_handle(answer: str, handle: str, room: int) -> None:
    facts = ledger(("Task", {"prompt": "Audit the locks", "run_in_background": True}, answer))
    assert handle in render(facts, PageRequest(room, COUNT))


def test_the_words_with_a_handle_are_one_line() -> None:
    long = "It reads the whole ledger, and says what is wrong with it, in every line of every year since the start.\n"
    answer = f"{long * 3}Its task id:\nm99 {long * 2}"
    text = render(ledger(("Task", {"run_in_background": True}, answer)), PageRequest(300, COUNT))
    assert "task id: m99" in text
    assert not any(line.startswith("m99") for line in text.splitlines())


@given(
    st.lists(
        st.sampled_from([SERVER, AGENT, WORKER, IMPORT, REINDEX, shell("cd /srv"), shell("ls", "a.py")]), max_size=30
    )
)
def test_each_line_is_that_of_a_call_and_has_room(calls: list[Any]) -> None:
    facts = ledger(*calls)
    text = render(facts, PageRequest(200, COUNT))
    assert COUNT(text) <= 200
    labels = {call.label for call in facts.calls}
    assert all(call.label in labels for call in running(facts))
    if "Started" in text:
        part = text.split("Started, no end seen:\n")[1].split(":\n")[0]
        assert any(label in part for label in labels)


# ---------------------------------------------------------------------------------------------------------- in contexts
BEGIN = [
    user("Fix the queue, and keep the server up."),
    *(
        m
        for c in (shell("cd /srv/app && git checkout -b feat/queue-7714"), SERVER, AGENT, WORKER)
        for m in tool_exchange(*c)
    ),
]


def note_after(window: int, *steps: list[Msg], **fields: Any) -> str:
    """The note of an agent that moves and starts something, and then takes these steps."""
    settings: dict[str, Any] = {"token_counter": "bytes4", **fields}
    memory = AutoContextMemory(AutoContextConfig.for_window(window, **settings))
    memory.add_messages(BEGIN)
    for step in steps:
        memory.add_messages(step)
    return "\n".join(m.text for m in memory.get_messages() if is_note(m))


def coding(n: int) -> list[Msg]:
    return tool_exchange("Read", {"file_path": f"/srv/app/part_{n}.py"}, f"def f_{n}(x):\n    return x * {n}\n" * 30)


def desk(n: int) -> list[Msg]:
    return tool_exchange(
        "get_order", {"id": f"W{n}"}, f'{{"id": "W{n}", "total": {n}.50, "note": "{"Lieferung " * 60}"}}'
    )


def web(n: int) -> list[Msg]:
    return tool_exchange("visit", {"url": f"https://example.org/{n}"}, f"第{n}页 价格 {n} 元。" * 60)


@pytest.mark.sampled
@pytest.mark.parametrize("window", [4_000, 8_000, 16_000])
@pytest.mark.parametrize("step", [coding, desk, web])
def test_the_note_says_so_in_any_window_and_kind_of_work(window: int, step: Any) -> None:
    work = [step(n) for n in range(window // 40)]
    note = note_after(window, *work)
    for words in ("cd /srv/app", "git checkout -b feat/queue-7714", "bash_3", "a7f3c91", "4821"):
        assert words in note
    later = note_after(window, tool_exchange("KillShell", {"shell_id": "bash_3"}, "Shell bash_3 killed"), *work)
    running = later.partition("Started, no end seen:")[2].partition("Calls:")[0]
    assert "a7f3c91" in running
    assert "bash_3" not in running


def test_what_a_message_in_view_shows_is_not_said_twice() -> None:
    note = note_after(4_000, *map(coding, range(120)), tool_exchange(*shell("cd /tmp/new")))
    assert "Where:\nm2: git checkout -b feat/queue-7714\n" in note


def test_it_can_be_switched_off() -> None:
    note = note_after(4_000, *map(coding, range(120)), note_state=False)
    assert note
    assert "Where:" not in note
    assert "Started" not in note


@pytest.mark.parametrize("folder", ["packages/app", "Rechnungen 2026", "源码/模块"])
def test_a_shell_that_begins_anew_with_each_call_is_nowhere(folder: str) -> None:
    def step(command: str, n: int) -> list[Msg]:
        return tool_exchange("bash", {"command": command}, f"built {n} files")

    def folders(*commands: str) -> list[str]:
        history = [m for n, command in enumerate(commands) for m in step(command, n)]
        return [words for _, words in where(WorkLedger.of(history).calls)]

    went = (f'cd "{folder}" && make', "cd packages/tui && make")
    assert len(folders(*went)) == 2
    assert folders(*went, *[f'cd "{folder}" && make'] * 2) == []
    assert folders(*went, "cd .. && make", "cd .. && make")[-1] == "cd .."


JOB_77 = "start_job", {"n": "a"}, '{"job_id": "job-77", "status": "queued"}'
SHELL_1 = "bash", {"command": "npm test", "run_in_background": True}, "Command running in background with ID: bash_1"


def said_of_job(answer: str) -> tuple[str, dict[str, Any], str]:
    return "get_job", {"job_id": "job-77"}, answer


@pytest.mark.parametrize(
    "answer",
    [
        '{"job_id": "job-77", "counts": {"completed": 95, "failed": 0}, "status": "running"}',
        '{"job_id": "job-77", "finished": false}',
        '{"job_id": "job-77", "done": 3, "total": 10}',
        '{"job_id": "job-77", "phase": "RUNNING", "last_line": "step 1 completed"}',
        "job-77 is not done yet",
    ],
)
def test_a_count_or_a_no_is_no_end(answer: str) -> None:
    assert started(JOB_77, said_of_job(answer))


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (JOB_77, said_of_job('{"job_id": "job-77", "status": "completed", "log": "db state: active"}')),
        (SHELL_1, ("BashOutput", {"bash_id": "bash_1"}, "<status>completed</status>\nServer status: running")),
        (shell("npm run dev &", "[1] 12345"), shell("kill 12345 && npm publish", "npm ERR! 403 Forbidden")),
        (shell("npm run dev &", "[1] 12345"), shell("kill 12345; cat /x", "cat: /x: Permission denied")),
    ],
)
def test_the_first_status_decides_and_another_command_s_refusal_does_not(start: Any, end: Any) -> None:
    assert started(start, end) == []


def test_a_list_of_ids_that_later_calls_use_is_no_start() -> None:
    queue = shell("./queue.sh", "\n".join(f"job={n} user=ann" for n in range(7_000, 7_100)))
    assert started(queue, ("job_log", {"job": "7001"}, "epoch 1")) == []


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("git switch main && git pull", "Switched to branch 'main'\nerror: Your local changes to a.py would be lost"),
        ("use shop; select id, error from jobs", "id | error\n1 | none"),
        ("use shop; select * from nope", "ERROR 1146 (42S02) at line 1: Table 'shop.nope' doesn't exist"),
        ("nvm use 20 && conda env list", "conda: command not found"),
        ("pyenv shell 3.12 && pytest", "pyenv: pytest: command not found"),
    ],
)
def test_what_a_later_command_says_is_no_refusal(command: str, answer: str) -> None:
    [(_, place)] = where(ledger(shell(command, answer)).calls)
    assert command.startswith((f"{place} &&", f"{place};"))


@pytest.mark.parametrize(
    "answer", ["Error handling - The Rust Book", "[ERROR] ads: x\n[ERROR] net::ERR_BLOCKED_BY_CLIENT"]
)
def test_a_page_that_loaded_is_where_the_agent_is(answer: str) -> None:
    first, second = (
        ("browser_navigate", {"url": "https://a/"}, "Home"),
        ("browser_navigate", {"url": "https://b/"}, answer),
    )
    assert [words for _, words in where(ledger(first, second).calls)] == ["https://b/"]

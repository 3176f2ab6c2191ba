"""Which files a command line changes: commands as agents write them."""
# ruff: noqa: E501, S108 (the tables)

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext.ledger.shell import changes, patch_changes

COMMANDS: list[tuple[str, list[tuple[str, str]]]] = [
    ("echo hi > a.txt", [("a.txt", "written")]),
    ("echo hi >> a.txt", [("a.txt", "appended to")]),
    ('echo "a > b" > out.txt', [("out.txt", "written")]),
    ("cat a > b 2>&1", [("b", "written")]),
    ("make 2>/dev/null", []),
    ("make > /dev/null 2>&1", []),
    ("make &> build.log", [("build.log", "written")]),
    ("make &>> build.log", [("build.log", "appended to")]),
    ("make 2> err.log", [("err.log", "written")]),
    ("make 2>>err.log >out.log", [("err.log", "appended to"), ("out.log", "written")]),
    ("cat <<'EOF' > src/a.py\nx = a > b\nrm y\nEOF\n", [("src/a.py", "written")]),
    ('cat > "my file.txt" <<EOF\nx = a > b\nrm y\nEOF\n', [("my file.txt", "written")]),
    ("edit 1:1\nimport z3\ns.add(x >= 32)\nprint(a > b)\nend_of_edit", [("(the open file)", "edited")]),
    ("edit 1:9\nrm = a > b", [("(the open file)", "edited")]),
    ("test $a >= 3", []),
    ("echo x | tee a.log", [("a.log", "written")]),
    ("echo x | tee -a a.log b.log", [("a.log", "appended to"), ("b.log", "appended to")]),
    ("echo x | sudo tee /etc/hosts > /dev/null", [("/etc/hosts", "written")]),
    ("sed -i 's/a/b/' f.py", [("f.py", "edited by sed")]),
    ("sed -i '' 's/a/b/' f.py", [("f.py", "edited by sed")]),
    ("sed -i'' 's/a/b/' f.py", [("f.py", "edited by sed")]),
    ("sed -i.bak -e 's/a/b/' -e 's/c/d/' f.py g.py", [("f.py", "edited by sed"), ("g.py", "edited by sed")]),
    ("sed -i \"\" -e 's/a/b/' f.py", [("f.py", "edited by sed")]),
    ("sed -n 's/a/b/p' f.py", []),
    ("sed -i -E 's/a/b/g' f.py", [("f.py", "edited by sed")]),
    ("sed -Ei 's/a/b/g' f.py", [("f.py", "edited by sed")]),
    ("sed --in-place 's/a/b/' f.py", [("f.py", "edited by sed")]),
    ("sed --in-place=.bak 's/a/b/' f.py", [("f.py", "edited by sed")]),
    ("sed -ne '1,3p' f.py", []),
    ("perl -pi -e 's/a/b/' f.py", [("f.py", "edited by perl")]),
    ("perl -i -pe 's/a/b/' f.py", [("f.py", "edited by perl")]),
    ("perl -ne 'print if /x/' f.py", []),
    ("perl -i.bak -pe 's/a/b/' f.py", [("f.py", "edited by perl")]),
    ("perl -Ilib script.pl", []),
    ("mv a.py b.py", [("a.py", "moved to b.py")]),
    ("mv a.py b.py src/", [("a.py", "moved to src/"), ("b.py", "moved to src/")]),
    ("mv -f a b", [("a", "moved to b")]),
    ("mv -t dir a b", [("a", "moved to dir"), ("b", "moved to dir")]),
    ("rm a.py", [("a.py", "deleted")]),
    ("rm -rf build/ dist", [("build/", "deleted"), ("dist", "deleted")]),
    ("rm -- -weird", [("-weird", "deleted")]),
    ("cp a.py b.py", [("b.py", "copied from a.py")]),
    ("cp -r src dst", [("dst", "copied from src")]),
    ("cp a b c dir/", [("dir/", "copied from a, b, c")]),
    ("git rm a.py", [("a.py", "deleted")]),
    ("git mv a.py b.py", [("a.py", "moved to b.py")]),
    ("git checkout -- src/a.py", [("src/a.py", "restored by git checkout")]),
    ("git checkout main", []),
    ("git checkout -b feature/x", []),
    ("git checkout feature/x", []),
    ("git restore src/a.py", [("src/a.py", "restored by git restore")]),
    ("git restore --staged src/a.py", []),
    ('git commit -m "fix > thing"', [("git commit", "done")]),
    ("git -C repo commit -m x", [("git commit", "done")]),
    ("git add .", []),
    ("git apply fix.patch", [("git apply", "done")]),
    ("git diff > fix.patch", [("fix.patch", "written")]),
    ("git stash list", []),
    ("git stash", [("git stash", "done")]),
    ("git log --oneline > /tmp/log.txt", [("/tmp/log.txt", "written")]),
    ("git push origin main", [("git push", "done")]),
    ("git reset --hard HEAD~1", [("git reset", "done")]),
    ("git merge --abort", []),
    ("git branch -D x", []),
    ("git tag v1", [("git tag", "done")]),
    ("git clone https://x/y.git", []),
    ("git init", []),
    ("git pull", [("git pull", "done")]),
    ("touch a.py", [("a.py", "created")]),
    ("mkdir -p a/b", [("a/b", "created")]),
    ("cd /x && sed -i 's/a/b/' f.py && pytest", [("f.py", "edited by sed")]),
    ("(cd x && echo a > b.txt)", [("b.txt", "written")]),
    ("$(echo a > b.txt)", [("b.txt", "written")]),
    ('echo "$(date)" > stamp.txt', [("stamp.txt", "written")]),
    ("if true; then echo a > b; fi", [("b", "written")]),
    ("for f in *.py; do sed -i 's/a/b/' \"$f\"; done", [("*.py", "edited by sed")]),
    ("for f in a b; do echo $f > $f.txt; done", [("a.txt", "written"), ("b.txt", "written")]),
    ("python -c \"open('a','w').write('x > y')\"", []),
    ("python - <<'EOF' > out.txt\nx = a > b\nrm y\nEOF\n", [("out.txt", "written")]),
    ("awk '$1 > 5' file.txt", []),
    ("test 3 -gt 2 && echo a", []),
    ("[[ a > b ]] && echo x", []),
    ("[ 3 \\> 2 ]", []),
    ("if (( a > b )); then echo; fi", []),
    ("echo a>b.txt", [("b.txt", "written")]),
    ("echo 2>err", [("err", "written")]),
    ('grep "->" f.py', []),
    ('grep -n "a>b" f.py', []),
    ("echo 'a' 'b' >out\\ file.txt", [("out file.txt", "written")]),
    ("diff <(sort a) <(sort b) > d.txt", [("d.txt", "written")]),
    ('cat <<< "x" > y.txt', [("y.txt", "written")]),
    ("curl -o out.json http://x", [("out.json", "written")]),
    ("curl http://x -O", []),
    ("wget -O f http://x", [("f", "written")]),
    ("wget http://x/y.tgz", []),
    ("pip install requests", []),
    ("npm install", []),
    ("npm i left-pad", []),
    ("tar xzf a.tgz", []),
    ("unzip a.zip", []),
    ("dd if=/dev/zero of=disk.img", [("disk.img", "written")]),
    ("chmod +x run.sh", [("run.sh", "mode changed")]),
    ("chown me run.sh", [("run.sh", "owner changed")]),
    ("ln -s a b", [("b", "linked from a")]),
    ("patch -p1 < fix.patch", [("fix.patch", "applied by patch")]),
    ("patch a.py fix.patch", [("a.py", "edited")]),
    ("truncate -s 0 log", [("log", "written")]),
    ("xargs rm < list", []),
    ('find . -name "*.pyc" -delete', []),
    ('find . -name "*.pyc" | xargs rm -f', []),
    ('find . -name "*.pyc" -exec rm {} \\;', []),
    ("install -m 755 a /usr/bin/a", [("/usr/bin/a", "copied from a")]),
    ("rsync -a a/ b/", [("b/", "copied from a/")]),
    ("sudo rm -rf /tmp/x", [("/tmp/x", "deleted")]),
    ("sudo -u me rm x", [("x", "deleted")]),
    ("env A=1 tee x", [("x", "written")]),
    ("A=1 B=2 rm x", [("x", "deleted")]),
    ("nohup make > log.txt &", [("log.txt", "written")]),
    ("time rm x", [("x", "deleted")]),
    ("echo a >| b", [("b", "written")]),
    ("exec > log.txt", [("log.txt", "written")]),
    (": > empty.txt", [("empty.txt", "written")]),
    ("> empty.txt", [("empty.txt", "written")]),
    ("echo x >&2", []),
    ("echo x 1>&2", []),
    ("ls 2>&1 | tee out.log", [("out.log", "written")]),
    ("cmd <in.txt >out.txt", [("out.txt", "written")]),
    ("apply_patch <<'EOF'\nx = a > b\nrm y\nEOF\n", []),
    ("# rm a.py", []),
    ("echo done # > note.txt", []),
    ("docker rm c", [("docker rm c", "done")]),
    ("kubectl delete pod x", [("kubectl delete pod x", "done")]),
    ('psql -c "select 1 > 0"', []),
    ('node -e "const f = (a) => a > 1"', []),
    ("python3 -c 'print(1 if 2 > 1 else 0)'", []),
    ("black src/", []),
    ("ruff format src/a.py", []),
    ('bash -c "echo a > b.txt"', [("b.txt", "written")]),
    ('bash -lc "echo a > b.txt"', [("b.txt", "written")]),
    ("sh -c 'rm x.txt'", [("x.txt", "deleted")]),
    ("echo a > $HOME/x.txt", [("$HOME/x.txt", "written")]),
    ('echo a > "$OUT"', []),
    ("cat > /dev/stdout", []),
    ("echo a > /dev/stderr", []),
    ("mv \"a b.txt\" 'c d.txt'", [("a b.txt", "moved to c d.txt")]),
    ("rm *.pyc", [("*.pyc", "deleted")]),
    ('rm -f "$TMP"', []),
    ("python script.py --out=x.txt > log 2>&1 &", [("log", "written")]),
    ("cat a.txt > b.txt; cat c > d", [("b.txt", "written"), ("d", "written")]),
    ("cat file | sort -u > sorted.txt", [("sorted.txt", "written")]),
    ("sort -o out.txt in.txt", [("out.txt", "written")]),
    ("echo '#!/bin/sh' > run.sh && chmod +x run.sh", [("run.sh", "written"), ("run.sh", "mode changed")]),
    (
        "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: src/a.py\n@@\n-x\n+y\n*** Add File: b.py\n+z\n*** Delete File: c.py\n*** End Patch\nEOF",
        [("src/a.py", "edited"), ("b.py", "created"), ("c.py", "deleted")],
    ),
    (
        "git apply <<'EOF'\n--- a/src/x.py\n+++ b/src/x.py\n@@ -1 +1 @@\n-a\n+b\nEOF",
        [("src/x.py", "edited"), ("git apply", "done")],
    ),
    (
        "cat <<A > one.txt; cat <<B > two.txt\nrm a\nA\nrm b\nB\nrm three.txt",
        [("one.txt", "written"), ("two.txt", "written"), ("three.txt", "deleted")],
    ),
    ("cat > a.py <<-EOF\n\trm x\n\tEOF\nrm b.py", [("a.py", "written"), ("b.py", "deleted")]),
    ("cat > a.py <<\\EOF\nrm x\nEOF", [("a.py", "written")]),
    (
        "cat > big.py <<'EOF'\n" + "x = 1 > 0\n" * 2000 + "EOF\nrm after.txt",
        [("big.py", "written"), ("after.txt", "deleted")],
    ),
    ("rm \\\n  a.txt \\\n  b.txt", [("a.txt", "deleted"), ("b.txt", "deleted")]),
    ("OUT=report.md; echo hi > $OUT", [("report.md", "written")]),
    ("F=a.py\nsed -i 's/a/b/' \"$F\" && rm ${F}.bak", [("a.py", "edited by sed"), ("a.py.bak", "deleted")]),
    (
        "for f in src/a.py src/b.py; do\n  sed -i 's/x/y/' $f\ndone",
        [("src/a.py", "edited by sed"), ("src/b.py", "edited by sed")],
    ),
    ("bash -c \"bash -c 'rm deep.txt'\"", [("deep.txt", "deleted")]),
    ("timeout 60 rm -f lock && nice -n 5 touch go", [("lock", "deleted"), ("go", "created")]),
    ("grep '<<EOF' a.sh && rm b.sh", [("b.sh", "deleted")]),
    ("echo 'it''s' > o.txt", [("o.txt", "written")]),
    ('echo "a\\"b > c" > q.txt', [("q.txt", "written")]),
    ("", []),
    ("   ", []),
    (">", []),
    ("rm", []),
    ("mv a", []),
    ("git", []),
    ("sed -i", []),
    ("&&", []),
    ("pytest -q tests/test_io.py 2>&1 | tail -20", []),
    ("create a.py", [("a.py", "created")]),
    ("edit a.py", []),
    ("ls -la | grep x > /dev/null 2>&1 || true", []),
    ("python manage.py migrate && echo done >> deploy.log", [("deploy.log", "appended to")]),
]


@pytest.mark.parametrize(
    ("command", "expected"), COMMANDS, ids=[f"{i}-{c[:24]!r}" for i, (c, _) in enumerate(COMMANDS)]
)
def test_what_a_command_changes(command: str, expected: list[tuple[str, str]]) -> None:
    assert changes(command) == expected


SIMPLE = [
    (c, found)
    for c, found in COMMANDS
    if found and "\n" not in c and "#" not in c and not c.startswith(("if", "for", "(", "$"))
]


@given(st.lists(st.sampled_from(SIMPLE), min_size=1, max_size=4), st.sampled_from((" && ", "; ", "\n", " || ", "\n\n")))
def test_commands_in_a_row_change_what_each_of_them_changes(
    parts: list[tuple[str, list[tuple[str, str]]]], between: str
) -> None:
    expected = list(dict.fromkeys(found for _, changed in parts for found in changed))
    assert changes(between.join(command for command, _ in parts)) == expected


@given(st.text(max_size=60))
def test_any_text_is_read_without_an_exception(text: str) -> None:
    for thing, done in changes(text):
        assert thing.strip()
        assert done
        assert "\n" not in thing


@given(st.text(st.sampled_from("ab >|&;<'\"\\$(){}[]#\n-=i!*/."), max_size=80))
def test_any_punctuation_is_read_without_an_exception(text: str) -> None:
    for thing, _ in changes(text):
        assert not thing.startswith("/dev/")


def test_a_command_that_changes_very_much_is_told_in_part() -> None:
    assert len(changes("rm " + " ".join(f"f{i}.txt" for i in range(400)))) == 30


def test_patches() -> None:
    unified = "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n--- a/gone.py\n+++ /dev/null\n"
    assert patch_changes(unified) == [("x.py", "edited")]
    own = "*** Begin Patch\n*** Add File: a b.py\n+x\n*** Update File: c.py\n*** Delete File: d.py\n*** End Patch"
    assert patch_changes(own) == [("a b.py", "created"), ("c.py", "edited"), ("d.py", "deleted")]
    assert patch_changes("no patch at all") == []

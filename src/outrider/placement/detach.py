"""Double fork, run as a script (it imports nothing of Outrider, so that it starts in milliseconds).

Standard input: ``{"argv", "log", "cwd", "group"}``. Prints the pid of the detached process, which leads a new session.
"""

import json
import os
import sys


def main() -> None:
    """Fork, lead a session, exec. Errors of the exec come back through a pipe that closes on success."""
    request = json.load(sys.stdin)
    read, write = os.pipe()
    pid_read, pid_write = os.pipe()
    child = os.fork()
    if child == 0:
        pid = os.fork()
        if pid:
            os.write(pid_write, str(pid).encode())
            os._exit(0)
        _become(request, write)
    os.waitpid(child, 0)
    os.close(write)
    os.close(pid_write)
    error = b""
    while chunk := os.read(read, 4096):
        error += chunk
    if error:
        sys.exit(error.decode())
    print(os.read(pid_read, 32).decode())


def _become(request: dict, failure: int) -> None:  # type: ignore[type-arg]
    try:
        os.setsid()
        _join(request["group"])
        null = os.open(os.devnull, os.O_RDONLY)
        log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(null, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.set_inheritable(failure, False)
        os.closerange(3, failure)
        os.closerange(failure + 1, 1024)
        os.chdir(request["cwd"])
        os.execvp(request["argv"][0], request["argv"])
    except OSError as error:
        os.write(failure, f"{error.strerror}: {error.filename or request['argv'][0]}".encode())
        os._exit(127)


def _join(group: str | None) -> None:
    """Enter a cgroup by its ``cgroup.procs``, where one is named; without the right to, the quota is not enforced."""
    if group is None:
        return
    try:
        procs = os.open(group, os.O_WRONLY)
        os.write(procs, b"0")  # whoever writes it
        os.close(procs)
    except OSError:
        pass


main()
